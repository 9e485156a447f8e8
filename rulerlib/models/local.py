"""What the engines that load a model's weights themselves have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, cast

from rulerlib import checkpoints, packages, tokens
from rulerlib.errors import ParameterError, flag, one_of
from rulerlib.models import Request, readable, truncation
from rulerlib.prompts import Decoding

DTYPES = ("auto", "float32", "bfloat16", "float16")


class Prompt(NamedTuple):
    """A request as the model reads it.

    Attributes
    ----------
    position
        The request's place among all.
    ids
        The tokens of the prompt.
    kept
        How many were kept of it (-1: all).
    """

    position: int
    request: Request
    ids: list[int]
    kept: int


class Local(ABC):
    """A model whose weights are read from a folder or from the hub.

    Parameters
    ----------
    name
        A local folder, a hub name, or ``"lille"``.
    dtype
        One of `DTYPES`; ``"auto"``: bfloat16 where this hardware is fast at it, else float32.
    trust_remote_code
        Whether code that comes with a model may run. Off unless you say so.

    Raises
    ------
    ParameterError
        If the model cannot be found or a setting is unknown.
    """

    engine: str

    def __init__(self, name: str, dtype: str, trust_remote_code: bool) -> None:
        self.name = name
        self._folder = checkpoints.folder(name)
        self._wanted_dtype = one_of("dtype", dtype, DTYPES)
        self._trust = flag("trust_remote_code", trust_remote_code)

    @property
    @abstractmethod
    def device(self) -> str:
        """``"cpu"``, ``"cuda"`` or ``"mps"``."""

    @cached_property
    def tokenizer(self) -> tokens.FastTokenizer:
        return cast(tokens.FastTokenizer, tokens.load(self.name, self._trust))

    @cached_property
    def limit(self) -> int | None:
        return checkpoints.limit(self.name)

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

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """See `rulerlib.models.defaults`; nothing here decodes by them."""
        return checkpoints.decoding_defaults(self.name)

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        """Return what is recorded: tokens are chosen as asked."""
        return wanted.settings()

    def _prompts(self, requests: Iterable[Request]) -> Iterator[Prompt]:
        """Yield what the model reads, cut where it is too long and may be."""
        for position, request in enumerate(requests):
            ids = self.tokenizer.encode(request.prompt, request.special)
            kept = truncation.kept(request, len(ids), self.limit, self.name)
            ids = ids if kept < 0 else truncation.tokens(ids, kept)
            yield Prompt(position, request, ids, kept)

    def _texts(self, texts: Iterable[str]) -> Iterator[Prompt]:
        """Yield texts as the model reads them to say how likely they are.

        All tokens but the first `_given` are predicted. Where there would be none at all, there is
        one that stands for nothing, so that engines need not know of empty texts.
        """
        for position, text in enumerate(texts):
            request = Request(readable(text), special=True, max_new_tokens=1)
            ids = self.tokenizer.encode(request.prompt, False)
            ids = [*self.tokenizer.beginning, *ids] or [0]
            kept = truncation.kept(request, len(ids), self.limit, self.name)
            yield Prompt(position, request, ids, kept)

    @property
    def _given(self) -> int:
        """How many tokens of a text are not predicted: what it begins with, or its first one."""
        return len(self.tokenizer.beginning) or 1

    def _unloadable(self, error: Exception, by: str = "") -> ParameterError:
        reason = checkpoints.reason(error)
        return ParameterError("model", self.name, f"a model that {by}loads ({reason.rstrip('.')})")


def torch() -> Any:
    """Return the package torch.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    return packages.load("torch", "hf", "Running a model")


def has(feature: str) -> bool:
    """Return whether torch says that this processor has a feature, such as ``"avx512_bf16"``."""
    return bool(getattr(torch().cpu, f"_is_{feature}_supported", lambda: False)())


def fast_bfloat16(device: str) -> bool:
    """Return whether bfloat16 is computed in hardware; elsewhere it is emulated and slow."""
    if device == "cuda":
        return bool(torch().cuda.is_bf16_supported(including_emulation=False))
    return device == "cpu" and (has("amx_tile") or has("avx512_bf16"))
