"""What the engines that load a model's weights themselves have in common.

transformers draws a whole batch with one generator, so that an answer depends on its neighbours.
Here each request has random numbers of its own, which follow from the seed of its `Decoding`, its
prompt, and which of several answers it asks for.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

from rulerlib import checkpoints, packages, tokens
from rulerlib.errors import ParameterError, flag, one_of, whole_number
from rulerlib.models import Request, readable
from rulerlib.models.cutting import Decode, begins_thinking, cut_tokens, find_stop, kept_tokens
from rulerlib.prompts import Decoding

DTYPES = ("auto", "float32", "bfloat16", "float16")


class ReadPrompt(NamedTuple):
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


class Local:
    """A model whose weights are read from a folder or from the hub.

    Parameters
    ----------
    name
        A local folder, a hub name, or ``"lille"``.
    dtype
        One of `DTYPES`; ``"auto"``: bfloat16 where this hardware is fast at it, else float32.
    trust_remote_code
        Whether code that comes with a model may run. Off unless you say so.
    max_model_len
        The longest sequence in tokens. Default: as the model's configuration states it.

    Raises
    ------
    ParameterError
        If the model cannot be found or a setting is unknown.
    """

    engine: str
    _wanted_device = "auto"

    def __init__(
        self,
        name: str,
        dtype: str,
        trust_remote_code: bool,
        max_model_len: int | None = None,
    ) -> None:
        self.name = name
        self._folder = checkpoints.folder(name)
        self._wanted_dtype = one_of("dtype", dtype, DTYPES)
        self._trust = flag("trust_remote_code", trust_remote_code)
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
        return cast(tokens.FastTokenizer, tokens.load(self.name, self._trust))

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

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """See `rulerlib.models.defaults`; nothing here decodes by them."""
        return checkpoints.decoding_defaults(self.name)

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        """Return what is recorded: tokens are chosen as asked."""
        return wanted.settings()

    def _prompts(self, requests: Iterable[Request]) -> Iterator[ReadPrompt]:
        """Yield what the model reads, cut where it is too long and may be."""
        for position, request in enumerate(requests):
            ids = self.tokenizer.encode(request.prompt, request.special)
            kept = kept_tokens(request, len(ids), self.limit, self.name)
            yield ReadPrompt(position, request, ids if kept < 0 else cut_tokens(ids, kept), kept)

    def _texts(self, texts: Iterable[str]) -> Iterator[ReadPrompt]:
        """Yield texts as the model reads them to say how likely they are.

        All tokens but the first `_unpredicted` are predicted. Where a text has no token, there is
        one that stands for nothing, so that engines need not know of empty texts.
        """
        for position, text in enumerate(texts):
            request = Request(readable(text), special=True, max_new_tokens=1)
            ids = self.tokenizer.encode(request.prompt, False)
            ids = [*self.tokenizer.beginning, *ids] or [0]
            kept = kept_tokens(request, len(ids), self.limit, self.name)
            yield ReadPrompt(position, request, ids, kept)

    @property
    def _unpredicted(self) -> int:
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


def available(device: str) -> bool:
    """Return whether this machine has a device, ``"cuda"`` or ``"mps"``."""
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
    """Return the seed with which an answer is drawn, 31 bits; a new one where none is set.

    It depends on the prompt, so that two questions are not answered with the same luck, and on
    which of several answers to one question is drawn.
    """
    if request.decoding.seed is None:
        return random.SystemRandom().getrandbits(31)
    repeat = f".{request.repeat}" if request.repeat else ""
    digest = hashlib.sha256(f"{request.decoding.seed}{repeat} {request.prompt}".encode())
    return int.from_bytes(digest.digest()[:4], "big") >> 1


class Sampling:
    """A processor of logits that draws the next token of each prompt that is not greedy.

    transformers calls it before greedy decoding: of the scores of a prompt it leaves only that of
    the drawn token above minus infinity.

    Parameters
    ----------
    requests
        Those of a batch.

    Attributes
    ----------
    rows
        For each row that is left of the batch, the place of its request.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self.rows = [*range(len(requests))]
        self._drawn = {
            place: (request.decoding, random.Random(drawing_seed(request)))
            for place, request in enumerate(requests)
            if not request.decoding.greedy
        }

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores, of shape (prompts, vocabulary), after the drawing."""
        scores = scores.clone()
        left = {row: self._drawn[at] for row, at in enumerate(self.rows) if at in self._drawn}
        for row, (decoding, numbers) in left.items():
            chances = (scores[row].float() / decoding.temperature).softmax(-1)
            chances, order = chances.sort(descending=True, stable=True)
            sums = chances.cumsum(-1)
            # The fewest tokens that reach top_p together, one at least.
            sums = sums[sums - chances < decoding.top_p]
            drawn = int((sums <= numbers.random() * sums[-1]).sum())
            scores[row] = float("-inf")
            scores[row, order[min(drawn, len(sums) - 1)]] = 0
        return scores


class Stopping:
    """A stopping criterion of transformers: which prompts of a batch have come to a stop string.

    Parameters
    ----------
    requests
        For each row of the batch its request.
    start
        The number of tokens before the generated ones, the same for all rows.
    decode
        Makes the text of tokens.
    """

    def __init__(self, requests: Sequence[Request], start: int, decode: Decode) -> None:
        self._start, self._decode = start, decode
        # A stop string of n bytes has n tokens at most. A few more are read: the token before them
        # decides about a space, and tags of thinking, which are special tokens, may stand between.
        self._rows = [
            (row, request, max(len(stop.encode()) for stop in request.stop) + 4)
            for row, request in enumerate(requests)
            if request.stop
        ]

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Return for each row whether it is stopped: a tensor of truth values, (prompts,)."""
        stopped = [False] * len(input_ids)
        for row, request, window in self._rows:
            ids = input_ids[row, self._start :]
            tail = self._decode(ids[-window:].tolist(), request.tags)
            # All is read only where a stop string may stand: thinking can be long.
            if any(stop in tail for stop in request.stop):
                text = self._decode(ids.tolist(), request.tags)
                stopped[row] = find_stop(text, request, begins_thinking(request)) is not None
        return input_ids.new_tensor(stopped, dtype=torch().bool)
