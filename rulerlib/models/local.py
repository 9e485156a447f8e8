"""The part that is common to engines that load a model's weights themselves."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, cast

from rulerlib import checkpoints, tokens
from rulerlib.errors import ParameterError, load_package, one_of, whole_number
from rulerlib.models import Request, check_length
from rulerlib.prompts import Decoding

DTYPES = ("auto", "float32", "bfloat16", "float16")


class ReadPrompt(NamedTuple):
    """A request as the model reads it.

    Attributes
    ----------
    position
        The request's position among all requests.
    ids
        The tokens of the prompt.
    """

    position: int
    request: Request
    ids: list[int]


class Local:
    """A model whose weights are read from a folder or from the hub.

    Parameters
    ----------
    name
        A local folder, a hub name, or ``"lille"``.
    dtype
        One of `DTYPES`; ``"auto"`` is bfloat16 if this hardware is fast at it, else float32.
    max_model_len
        The longest sequence in tokens. Default: the length in the model's configuration.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.

    Raises
    ------
    ParameterError
        If the model cannot be found or a setting is unknown.
    """

    engine: str

    def __init__(
        self,
        name: str,
        dtype: str,
        max_model_len: int | None = None,
        device: str = "auto",
    ) -> None:
        self.name = name
        self._folder = checkpoints.folder(name)
        self._wanted_dtype = one_of("dtype", dtype, DTYPES)
        self._wanted_device = device
        if max_model_len is not None:
            whole_number("max_model_len", max_model_len, 2)
        self._max_model_len = max_model_len

    @cached_property
    def device(self) -> str:
        """``"cpu"``, ``"cuda"`` or ``"mps"``."""
        if self._wanted_device != "auto":
            return self._wanted_device
        return next((name for name in ("cuda", "mps") if available(name)), "cpu")

    @cached_property
    def tokenizer(self) -> tokens.FastTokenizer:
        return cast(tokens.FastTokenizer, tokens.load(self.name))

    @cached_property
    def limit(self) -> int | None:
        return self._max_model_len or checkpoints.limit(self.name)

    @cached_property
    def dtype(self) -> str:
        """``"float32"``, ``"bfloat16"`` or ``"float16"``."""
        if self._wanted_dtype != "auto":
            return self._wanted_dtype
        return "bfloat16" if fast_bfloat16(self.device) else "float32"

    @cached_property
    def settings(self) -> dict[str, Any]:
        weights = checkpoints.fingerprint(self.name)
        return {"engine": self.engine, "weights": weights, "dtype": self.dtype}

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        return wanted.settings()

    def _prompts(self, requests: Iterable[Request]) -> Iterator[ReadPrompt]:
        """Yield the tokens of each prompt."""
        for position, request in enumerate(requests):
            ids = self.tokenizer.encode(request.prompt, request.special)
            check_length(request, len(ids), self.limit, self.name)
            yield ReadPrompt(position, request, ids)

    def _unloadable(self, error: Exception) -> ParameterError:
        reason = checkpoints.reason(error).rstrip(".")
        return ParameterError("model", self.name, f"a model that {self.engine} can load ({reason})")


def torch() -> Any:
    """Return the package torch.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    return load_package("torch", "hf", "Running a model")


def available(device: str) -> bool:
    """Return whether this machine has ``"cuda"`` or ``"mps"``."""
    backend = torch().cuda if device == "cuda" else torch().backends.mps
    return bool(backend.is_available())


def fast_bfloat16(device: str) -> bool:
    """Return whether bfloat16 is computed in hardware; elsewhere it is emulated and slow."""
    if device == "cuda":
        return bool(torch().cuda.is_bf16_supported(including_emulation=False))
    features = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    supported = (getattr(torch().cpu, feature, lambda: False)() for feature in features)
    return device == "cpu" and any(supported)


def drawing_seed(request: Request) -> int:
    """Return the seed for sampling an answer, 31 bits; a random one if the request has none.

    The seed depends on the prompt, so that two questions do not share their random numbers, and on
    the repeat.
    """
    if request.decoding.seed is None:
        return random.SystemRandom().getrandbits(31)
    repeat = f".{request.repeat}" if request.repeat else ""
    digest = hashlib.sha256(f"{request.decoding.seed}{repeat} {request.prompt}".encode())
    return int.from_bytes(digest.digest()[:4], "big") >> 1
