"""The vllm engine: offline, in this process, for large models and many prompts.

>>> from rulerlib import models
>>> model = models.load("owner/name", "vllm", tensor_parallel_size=8)  # doctest: +SKIP
>>> request = models.Request("...", special=True, max_new_tokens=16)
>>> models.in_order(model, [request])[0].text                          # doctest: +SKIP
' 1234567.'

Requests go to vLLM's own scheduler one by one, and come back as they finish, so that each is
saved at once. They are read in the order in which they come: neighbours that share a context
find it in the prefix cache.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib.util
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rulerlib.errors import MissingExtraError, flag, nearest, require, whole_number
from rulerlib.models import Generation, Likelihood, Request, Result, ordered
from rulerlib.models.cutting import cut_answer
from rulerlib.models.local import Local, ReadPrompt, drawing_seed
from rulerlib.prompts import Decoding

# Arguments of vLLM that change how fast it is, and no answer beyond its last digits: another
# value may go on with a run that was begun.
SPEED = {
    "cpu_offload_gb", "disable_custom_all_reduce", "disable_log_stats",
    "distributed_executor_backend", "download_dir", "enable_chunked_prefill", "enforce_eager",
    "gpu_memory_utilization", "kv_cache_memory_bytes", "load_format", "max_num_batched_tokens",
    "max_num_seqs", "max_parallel_loading_workers", "pipeline_parallel_size", "use_tqdm_on_load",
}  # fmt: skip

# Requests that wait in vLLM's queue beyond those that it reads together.
AHEAD = 8

# Where texts are read that nobody announced: most are shorter, and each longer one means to load
# the model again.
LEAST = 2048

# vLLM raises lower temperatures to this one.
COOLEST = 0.01


class Engine(Local):
    """A causal language model run by vLLM.

    Parameters
    ----------
    name
        A local folder, a hub name, or ``"lille"``.
    dtype
        ``"auto"``: bfloat16 where this hardware is fast at it, else float32.
    tensor_parallel_size
        The number of GPUs over which each layer is spread.
    max_model_len
        The longest sequence in tokens, for which memory is reserved. By default the model's
        configuration limits the length, and memory is reserved for the longest prompt and answer
        (see `reserve`). vLLM refuses a longer one than it derives from the configuration.
    enable_prefix_caching
        Whether a context that several prompts begin with is read once.
    trust_remote_code
        Whether code that comes with a model may run. Off unless you say so.
    engine_arguments
        Any further argument of vLLM's ``EngineArgs``.

    Raises
    ------
    ParameterError
        If the model cannot be found or a setting is unknown.
    MissingExtraError
        If `vllm` is not installed.

    Notes
    -----
    Each request is drawn with a seed of its own, which follows from that of its `Decoding` and
    its prompt. vLLM itself looks for stop strings, unless the model may think: then the answer is
    cut here, at the same token.
    """

    engine = "vllm"

    def __init__(
        self, name: str, dtype: str = "auto", tensor_parallel_size: int = 1,
        max_model_len: int | None = None, enable_prefix_caching: bool = True,
        trust_remote_code: bool = False, **engine_arguments: Any,
    ) -> None:  # fmt: skip
        super().__init__(name, dtype, trust_remote_code, max_model_len)
        self._parallel = whole_number("tensor_parallel_size", tensor_parallel_size, 1)
        self._caching = flag("enable_prefix_caching", enable_prefix_caching)
        self._more, self._reserved, self._asked = engine_arguments, 0, 0
        self._loaded: Any = None
        if importlib.util.find_spec("vllm") is None:
            raise MissingExtraError("vllm", "vllm", "This engine")
        if engine_arguments:
            # Asked of vLLM only where there is something to ask: importing it takes seconds.
            _check(engine_arguments)

    @property
    def settings(self) -> dict[str, Any]:
        arguments = {name: value for name, value in self._more.items() if name not in SPEED}
        return {**super().settings, **({"engine_arguments": arguments} if arguments else {})}

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        """Return what is recorded: tokens are chosen as asked.

        Raises
        ------
        ParameterError
            If vLLM would use another temperature.
        """
        holds = wanted.greedy or wanted.temperature >= COOLEST
        require(holds, "temperature", wanted.temperature, f"0, or {COOLEST} and above")
        return super().decoding(wanted)

    def batch_size(self, length: int) -> None:
        """Return None: vLLM decides at every step what it reads together."""

    def reserve(self, length: int) -> None:
        """Note how many tokens the longest sequence will have, before the first request.

        vLLM reserves memory for one sequence of that length when it loads the model; a longer
        one later means to load it again.
        """
        self._reserved = max(self._reserved, length)

    def load_weights(self) -> None:
        """See `rulerlib.models.load_weights`."""
        _ = self._engine

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        def told(prompt: ReadPrompt) -> Any:
            request = prompt.request
            # vLLM would look for them in its thoughts as well.
            return _parameters(request, () if request.tags else request.stop)

        return self._results(self._prompts(requests), told, self._generation)

    def log_likelihoods(self, texts: Iterable[str]) -> Iterator[Likelihood]:
        def told(text: ReadPrompt) -> Any:
            # To say how likely each token is, but of no other token than the text's own.
            return _parameters(text.request, (), prompt_logprobs=0)

        self.reserve(min(LEAST, self.limit or LEAST))
        yield from ordered(self._results(self._texts(texts), told, self._likelihood))

    def _results(
        self,
        waiting: Iterator[ReadPrompt],
        told: Callable[[ReadPrompt], Any],
        read: Callable[[Any, ReadPrompt], Result],
    ) -> Iterator[tuple[int, Result]]:
        """Yield what is read of vLLM's outputs, with the positions of their prompts.

        Parameters
        ----------
        waiting
            The prompts.
        told
            Returns what vLLM is told about a prompt.
        read
            Returns what an output says.
        """
        flying: dict[str, ReadPrompt] = {}
        ahead = next(waiting, None)
        try:
            while ahead is not None or flying:
                together = int(self._engine.vllm_config.scheduler_config.max_num_seqs)
                while ahead is not None and len(flying) < together + AHEAD:
                    length = len(ahead.ids) + ahead.request.max_new_tokens
                    if length > self._engine.model_config.max_model_len:
                        if flying:
                            # Loaded for shorter ones; those that it has are answered first.
                            break
                        self.reserve(length)
                    self._asked += 1
                    number, tokens = str(self._asked), {"prompt_token_ids": ahead.ids}
                    self._engine.add_request(number, tokens, told(ahead))
                    flying[number] = ahead
                    ahead = next(waiting, None)
                for output in self._engine.step():
                    prompt = flying.pop(output.request_id)
                    yield prompt.position, read(output, prompt)
        finally:
            # Ctrl-C: the next call must not wait for what nobody wants any more.
            if flying:
                self._loaded.abort_request(list(flying))

    def _likelihood(self, output: Any, prompt: ReadPrompt) -> Likelihood:
        """Return how likely vLLM says a text is."""
        values = [
            row[token].logprob
            for row, token in zip(output.prompt_logprobs, prompt.ids, strict=True)
            if row is not None
        ]
        # Of the tokens that it begins with, all but the first are predicted by vLLM as well.
        values = values[self._unpredicted - 1 :]
        return Likelihood(-math.fsum(values), len(values))

    def _generation(self, output: Any, prompt: ReadPrompt) -> Generation:
        """Return what came back."""
        answer = output.outputs[0]
        read = len(output.prompt_token_ids)
        # Decoded here, so that all engines leave out the same special tokens.
        text, count, stopped = cut_answer(answer.token_ids, prompt.request, self.tokenizer.decode)
        finished = stopped or answer.finish_reason == "stop"
        computed = read - (output.num_cached_tokens or 0)
        return Generation(text, count, finished, prompt.kept, read, computed)

    @property
    def _engine(self) -> Any:
        """vLLM's engine, loaded for the longest sequence known so far."""
        wanted = self._max_model_len or self._reserved or self.limit
        if self._loaded is not None:
            if not wanted or wanted <= self._loaded.model_config.max_model_len:
                return self._loaded
            self.close()
        self._loaded = self._load(wanted)
        return self._loaded

    def _load(self, max_model_len: int | None) -> Any:
        # A process of vLLM's own would outlive a kill of this one and keep its memory. Spread
        # over several GPUs it needs processes, which see to that themselves.
        if self._parallel == 1:
            os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        # Its build for processors would tie the threads of another model here to cores, too.
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        from vllm import EngineArgs, LLMEngine

        arguments = {
            "disable_log_stats": True, "use_tqdm_on_load": False, **self._more,
            "model": self._folder, "dtype": self.dtype, "max_model_len": max_model_len,
            "tensor_parallel_size": self._parallel, "enable_prefix_caching": self._caching,
            "trust_remote_code": self._trust,
        }  # fmt: skip
        try:
            return LLMEngine.from_engine_args(EngineArgs(**arguments))
        except (OSError, ValueError, RuntimeError) as error:
            raise self._unloadable(error, by="vLLM ") from error

    def close(self) -> None:
        """Unload the model and free its memory."""
        if self._loaded is not None:
            self._loaded.engine_core.shutdown()
            self._loaded = None
            gc.collect()


def _parameters(request: Request, stop: Sequence[str], **told: Any) -> Any:
    """Return what vLLM is told about an answer, with the stop strings that it is to look for."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    decoding = request.decoding
    drawn = {} if decoding.greedy else {"top_p": decoding.top_p, "seed": drawing_seed(request)}
    return SamplingParams(
        temperature=float(decoding.temperature), max_tokens=request.max_new_tokens,
        stop=list(stop), detokenize=bool(stop), output_kind=RequestOutputKind.FINAL_ONLY,
        **drawn, **told,
    )  # fmt: skip


def _check(arguments: dict[str, Any]) -> None:
    from vllm import EngineArgs

    names = [item.name for item in dataclasses.fields(EngineArgs)]
    for name in arguments:
        # Not all names that are allowed, but the one that was probably meant.
        _, bracket, hint = nearest(name, names).partition(" (")
        require(name in names, "engine option", name, f"an argument of vLLM{bracket}{hint}")
