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
import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from rulerlib import tokens
from rulerlib.errors import MissingExtraError, ParameterError, flag, nearest, one_of, whole_number
from rulerlib.models import Generation, Request
from rulerlib.models.transformers import DTYPES, choose_dtype, fingerprint, fitting

# Arguments of vLLM that change how fast it is, and no answer beyond its last digits: another
# value may go on with a run that was begun.
SPEED = frozenset(
    [
        "cpu_offload_gb",
        "disable_custom_all_reduce",
        "disable_log_stats",
        "distributed_executor_backend",
        "download_dir",
        "enable_chunked_prefill",
        "enforce_eager",
        "gpu_memory_utilization",
        "kv_cache_memory_bytes",
        "load_format",
        "max_num_batched_tokens",
        "max_num_seqs",
        "max_parallel_loading_workers",
        "pipeline_parallel_size",
        "use_tqdm_on_load",
    ]
)

# Requests that wait in vLLM's queue beyond those that it reads together.
AHEAD = 8


class Engine:
    """A causal language model run by vLLM.

    Parameters
    ----------
    name
        A local folder, a hub name, or ``"lille"``.
    dtype
        ``"auto"``: bfloat16 where this hardware is fast at it, else float32.
    tensor_parallel_size
        Over how many GPUs each layer is spread.
    max_model_len
        The longest sequence in tokens that memory is reserved for; None: the longest that is
        asked, prompt and answer together (see `reserve`).
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
    """

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
        self.name = name
        self._folder = tokens.resolve(name)
        self._wanted_dtype = one_of("dtype", dtype, DTYPES)
        self._parallel = whole_number("tensor_parallel_size", tensor_parallel_size, 1)
        if max_model_len is not None:
            whole_number("max_model_len", max_model_len, 2)
        self._max_model_len = max_model_len
        self._caching = flag("enable_prefix_caching", enable_prefix_caching)
        self._trust = flag("trust_remote_code", trust_remote_code)
        self._more = engine_arguments
        self._reserved = 0
        self._loaded: Any = None
        self._asked = 0
        if importlib.util.find_spec("vllm") is None:
            raise MissingExtraError("vllm", "vllm", "This engine")
        if engine_arguments:
            # Asked of vLLM only where there is something to ask: importing it takes seconds.
            _check(engine_arguments)

    @cached_property
    def tokenizer(self) -> tokens.Tokenizer:
        return tokens.load(self.name, self._trust)

    @cached_property
    def limit(self) -> int | None:
        found = tokens.limit(self.name)
        lengths = [length for length in (found, self._max_model_len) if length is not None]
        return min(lengths, default=None)

    @cached_property
    def dtype(self) -> str:
        """``"float32"``, ``"bfloat16"`` or ``"float16"``."""
        import torch

        return choose_dtype(self._wanted_dtype, "cuda" if torch.cuda.is_available() else "cpu")

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint(self._folder)

    @property
    def settings(self) -> dict[str, Any]:
        arguments = {name: value for name, value in self._more.items() if name not in SPEED}
        return {
            "engine": "vllm",
            "weights": self._fingerprint,
            "dtype": self.dtype,
            "decoding": "greedy",
            **({"engine_arguments": arguments} if arguments else {}),
        }

    def batch_size(self, length: int) -> None:
        """None: vLLM decides at every step what it reads together."""

    def reserve(self, length: int) -> None:
        """Say how many tokens the longest sequence will have, before the first request.

        vLLM reserves memory for one sequence of that length when it loads the model; a longer
        one later means to load it again.
        """
        self._reserved = max(self._reserved, length)

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        waiting = ((each, *fitting(each[1], self)) for each in enumerate(requests))
        flying: dict[str, tuple[int, Request, int]] = {}
        ahead = next(waiting, None)
        try:
            while ahead is not None or flying:
                while ahead is not None and len(flying) < self._together + AHEAD:
                    (position, request), ids, kept = ahead
                    length = len(ids) + request.max_new_tokens
                    if length > self._engine.model_config.max_model_len:
                        if flying:
                            # Loaded for shorter ones; those that it has are answered first.
                            break
                        self.reserve(length)
                    self._asked += 1
                    prompt = {"prompt_token_ids": ids}
                    self._engine.add_request(str(self._asked), prompt, _greedy(request))
                    flying[str(self._asked)] = position, request, kept
                    ahead = next(waiting, None)
                for output in self._engine.step():
                    position, request, kept = flying.pop(output.request_id)
                    yield position, self._generation(output, request, kept)
        finally:
            # Ctrl-C: the next call must not wait for what nobody wants any more.
            if flying:
                self._loaded.abort_request(list(flying))

    def _generation(self, output: Any, request: Request, kept: int) -> Generation:
        answer = output.outputs[0]
        read = len(output.prompt_token_ids)
        return Generation(
            # Decoded here, so that all engines leave out the same special tokens.
            text=self.tokenizer.decode(answer.token_ids, request.tags),  # type: ignore[attr-defined]
            tokens=len(answer.token_ids),
            finished=answer.finish_reason == "stop",
            kept=kept,
            prompt_tokens=read,
            computed_tokens=read - (output.num_cached_tokens or 0),
        )

    @property
    def _together(self) -> int:
        return int(self._engine.vllm_config.scheduler_config.max_num_seqs)

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
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        from vllm import EngineArgs, LLMEngine

        arguments = {
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
            **self._more,
            "model": self._folder,
            "dtype": self.dtype,
            "tensor_parallel_size": self._parallel,
            "enable_prefix_caching": self._caching,
            "trust_remote_code": self._trust,
            "max_model_len": max_model_len,
        }
        try:
            return LLMEngine.from_engine_args(EngineArgs(**arguments))
        except (OSError, ValueError, RuntimeError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise ParameterError(
                "model", self.name, f"a model that vLLM loads ({reason.rstrip('.')})"
            ) from error

    def close(self) -> None:
        """Give the memory back."""
        if self._loaded is not None:
            self._loaded.engine_core.shutdown()
            self._loaded = None
            gc.collect()


def _greedy(request: Request) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=0.0,
        max_tokens=request.max_new_tokens,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _check(arguments: dict[str, Any]) -> None:
    from vllm import EngineArgs

    known = [each.name for each in dataclasses.fields(EngineArgs)]
    for name in arguments:
        if name not in known:
            close = nearest(name, known)
            hint = close[close.index("(") :] if "(" in close else ""
            raise ParameterError("engine option", name, f"an argument of vLLM {hint}".strip())
