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

import importlib.util
import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from rulerlib.errors import MissingExtraError, whole_number
from rulerlib.models import Generation, Local, Request, cut_answer, drawing_seed

# The number of requests in vLLM's queue in addition to those that it reads together.
AHEAD = 8


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
        The longest sequence in tokens, for which vLLM reserves memory. Default: the length in the
        model's configuration. vLLM rejects a longer one than it derives from that.
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
        **engine_arguments: Any,
    ) -> None:
        super().__init__(name, dtype, max_model_len)
        self._parallel = whole_number("tensor_parallel_size", tensor_parallel_size, 1)
        self._more, self._asked = engine_arguments, 0
        if importlib.util.find_spec("vllm") is None:
            raise MissingExtraError("vllm", "vllm", "This engine")

    @property
    def settings(self) -> dict[str, Any]:
        more = {"engine_arguments": self._more} if self._more else {}
        return {**super().settings, **more}

    def batch_size(self, length: int) -> None:
        return None

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        # The first prompt's length is checked before the weights are loaded.
        waiting = ((at, request, self._tokens(request)) for at, request in enumerate(requests))
        running: dict[str, tuple[int, Request]] = {}
        ahead = next(waiting, None)
        engine = self._engine
        try:
            while ahead is not None or running:
                together = int(engine.vllm_config.scheduler_config.max_num_seqs)
                while ahead is not None and len(running) < together + AHEAD:
                    self._asked += 1
                    number, (position, request, ids) = str(self._asked), ahead
                    prompt = {"prompt_token_ids": ids}
                    engine.add_request(number, prompt, _sampling_parameters(request))
                    running[number] = position, request
                    ahead = next(waiting, None)
                for output in engine.step():
                    position, request = running.pop(output.request_id)
                    yield position, self._generation(output, request)
        finally:
            # After Ctrl-C, the next call must not wait for these.
            if running:
                engine.abort_request(list(running))

    def _generation(self, output: Any, request: Request) -> Generation:
        answer, read = output.outputs[0], len(output.prompt_token_ids)
        # Decoded here, so that all engines leave out the same special tokens.
        text, count, stopped = cut_answer(answer.token_ids, request, self.tokenizer.decode)
        finished = stopped or answer.finish_reason == "stop"
        return Generation(text, count, finished, read)

    @cached_property
    def _engine(self) -> Any:
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
            "enable_prefix_caching": True,
            **self._more,
            "model": self._folder,
            "dtype": self.dtype,
            "max_model_len": self.limit,
            "tensor_parallel_size": self._parallel,
        }
        try:
            return LLMEngine.from_engine_args(EngineArgs(**arguments))
        except (OSError, TypeError, ValueError, RuntimeError) as error:
            raise self._unloadable(error) from error


def _sampling_parameters(request: Request) -> Any:
    """Return vLLM's sampling parameters for a request."""
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
    )
