"""The transformers engine: any folder or hub name, on whatever this machine has.

>>> from rulerlib import models
>>> model = models.load("lille", dtype="float32")         # doctest: +SKIP
>>> request = models.Request("...", special=True, max_new_tokens=16)
>>> models.in_order(model, [request])[0].text             # doctest: +SKIP
' 1234567.'
"""

from __future__ import annotations

import contextlib
import copy
import gc
import hashlib
import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerlib import tokens
from rulerlib.errors import MissingExtraError, ParameterError, flag, one_of, whole_number
from rulerlib.models import Generation, Model, Request

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEVICES = ("auto", "cpu", "cuda", "mps")

# Prompts are read together until their tokens reach this sum; a longer prompt is read alone.
BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536, "mps": 16_384}

# Weights up to this size are hashed whole, larger ones by name and size of their files.
HASHED_BYTES = 200_000_000


class Engine:
    """A causal language model run by `transformers`.

    Parameters
    ----------
    name
        A local folder, a hub name, or ``"lille"``.
    dtype
        ``"auto"``: bfloat16 where this hardware is fast at it, else float32.
    device
        ``"auto"``: a GPU where there is one.
    batch_size
        Prompts read at a time; None: as many as is sensible for their length.
    trust_remote_code
        Whether code that comes with a model may run. Off unless you say so.

    Raises
    ------
    ParameterError
        If the model cannot be found or a setting is unknown.
    MissingExtraError
        If `torch` or `transformers` is not installed.

    Notes
    -----
    In bfloat16 on a processor that has AVX-512 but no AMX, long prompts are read by
    `rulerlib.models.attention`. It rounds otherwise than torch's own attention, as another version
    of torch may; with ``dtype="float32"`` nothing but torch's is used.
    """

    def __init__(
        self,
        name: str,
        dtype: str = "auto",
        device: str = "auto",
        batch_size: int | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        self.name = name
        self._folder = tokens.resolve(name)
        self._wanted_dtype = one_of("dtype", dtype, DTYPES)
        self._wanted_device = one_of("device", device, DEVICES)
        if batch_size is not None:
            whole_number("batch_size", batch_size, 1)
        self._batch_size = batch_size
        self._trust = flag("trust_remote_code", trust_remote_code)
        # Padded tokens that fit into memory together; 0: that is not known yet.
        self._fits = 0
        if device in ("cuda", "mps") and not _available(device):
            raise ParameterError("device", device, "a device that this machine has, or 'auto'")

    @cached_property
    def tokenizer(self) -> tokens.Tokenizer:
        return tokens.load(self.name, self._trust)

    @cached_property
    def limit(self) -> int | None:
        return tokens.limit(self.name)

    @cached_property
    def device(self) -> str:
        """``"cpu"``, ``"cuda"`` or ``"mps"``."""
        if self._wanted_device != "auto":
            return self._wanted_device
        return next((name for name in ("cuda", "mps") if _available(name)), "cpu")

    @cached_property
    def dtype(self) -> str:
        """``"float32"``, ``"bfloat16"`` or ``"float16"``."""
        return choose_dtype(self._wanted_dtype, self.device)

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint(self._folder)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "engine": "transformers",
            "weights": self._fingerprint,
            "dtype": self.dtype,
            "decoding": "greedy",
        }

    def batch_size(self, length: int) -> int:
        if self._batch_size is not None:
            return self._batch_size
        return max(1, BATCH_TOKENS[self.device] // max(1, length))

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """See `rulerlib.models.Model`.

        Neighbours of one group are read together: first the tokens that all of them begin with,
        once, and then the rest of each. Others are read as one batch.
        """
        _ = self._model
        read = [
            (number, request, *fitting(request, self)) for number, request in enumerate(requests)
        ]
        for group, members in itertools.groupby(read, key=lambda item: item[1].group):
            batch = list(members)
            if group is None:
                yield from self._batch(batch)
                continue
            context = self._context([ids for _, _, ids, _ in batch])
            size = self.batch_size(max(len(ids) for _, _, ids, _ in batch))
            if context is not None and not context.padded:
                size = 1
            for start in range(0, len(batch), size):
                yield from self._batch(batch[start : start + size], context)

    def _batch(
        self, left: list[tuple[int, Request, list[int], int]], context: _Context | None = None
    ) -> Iterator[tuple[int, Generation]]:
        """Read prompts together; where memory is short, in smaller batches, said aloud."""
        whole = len(left)
        common = 0 if context is None else len(context.ids)
        while left:
            width = max(len(ids) for _, _, ids, _ in left)
            size = min(len(left), max(1, self._fits // width)) if self._fits else len(left)
            part = left[:size]
            shortage: Exception | None = None
            try:
                said = self._together([(request, ids) for _, request, ids, _ in part], context)
            except (RuntimeError, MemoryError) as error:
                if not _out_of_memory(error):
                    raise
                shortage = error.with_traceback(None)
            if shortage is not None:
                # Outside of the handler, whose traceback holds the tensors.
                self._halve(size, width, shortage)
                continue
            left = left[size:]
            split = size if size < whole else 0
            for (number, _, ids, kept), (text, length, finished) in zip(part, said, strict=True):
                computed = len(ids) - common
                if context is not None:
                    # The first answer bears what was read for all.
                    computed += context.computed
                    context.computed = 0
                yield (
                    number,
                    Generation(text, length, finished, kept, len(ids), computed, split=split),
                )

    def _halve(self, size: int, width: int, shortage: BaseException) -> None:
        """Remember that so many prompts of so many tokens do not fit; free what they held."""
        if size == 1:
            raise ParameterError(
                "length", width,
                f"shorter, because a single prompt needs more memory than '{self.device}' has",
            ) from shortage  # fmt: skip
        self._fits = (size // 2) * width
        gc.collect()
        if self.device == "cuda":
            _torch().cuda.empty_cache()
        elif self.device == "mps":
            _torch().mps.empty_cache()
        warnings.warn(
            f"Out of memory with {size} prompts of {width} tokens together; going on with"
            f" {size // 2}. Their records say so in others['split'].",
            stacklevel=3,
        )

    def _together(
        self, batch: Sequence[tuple[Request, list[int]]], context: _Context | None = None
    ) -> list[tuple[str, int, bool]]:
        """Read prompts as one batch: for each the text, its tokens, and whether it ended."""
        torch = _torch()
        backend = self.tokenizer.backend  # type: ignore[attr-defined]
        width = max(len(ids) for _, ids in batch)
        padding = backend.pad_token_id if backend.pad_token_id is not None else 0
        # Padding stands before each prompt, or between the context and the rest of it: positions
        # are counted without it, and nothing looks at it.
        begin = [] if context is None else context.ids
        rows, seen = [], []
        for _, ids in batch:
            fill = width - len(ids)
            rows.append([*begin, *[padding] * fill, *ids[len(begin) :]])
            seen.append([1] * len(begin) + [0] * fill + [1] * (len(ids) - len(begin)))
        padded, mask = torch.tensor(rows), torch.tensor(seen)
        with torch.inference_mode(), self._cached(context, len(batch)) as cache:
            # transformers asks for the logits of the last position alone during prefill.
            output = self._model.generate(
                input_ids=padded.to(self.device),
                attention_mask=mask.to(self.device),
                max_new_tokens=max(request.max_new_tokens for request, _ in batch),
                do_sample=False,
                num_beams=1,
                pad_token_id=padding,
                **({} if cache is None else {"past_key_values": cache}),
            )
        said = []
        for (request, _), row in zip(batch, output[:, width:].tolist(), strict=True):
            row = row[: request.max_new_tokens]
            length = next((at + 1 for at, token in enumerate(row) if token in self._ends), len(row))
            text = self.tokenizer.decode(row[:length], request.tags)  # type: ignore[attr-defined]
            said.append((text, length, length > 0 and row[length - 1] in self._ends))
        return said

    def _context(self, prompts: Sequence[list[int]]) -> _Context | None:
        """The tokens that all prompts begin with, to be read once; None where that cannot be.

        Whole prompts are compared, as tokens: where the context ends and a question begins, a
        token may hold a part of both.
        """
        # What the first and the last in alphabetical order have in common, all have.
        first, last = min(prompts), max(prompts)
        shortest = min(map(len, prompts))
        pairs = enumerate(zip(first, last, strict=False))
        same = next((at for at, (one, other) in pairs if one != other), shortest)
        # Something must be left of each prompt, to go on from.
        same = min(same, shortest - 1)
        if len(prompts) < 2 or same < 1 or not self._model._supports_default_dynamic_cache():
            return None
        from transformers.cache_utils import DynamicLayer

        cache = self._empty_cache()
        padded = bool(cache.layers) and all(type(layer) is DynamicLayer for layer in cache.layers)
        return _Context(first[:same], padded)

    def _empty_cache(self) -> Any:
        return _transformers().DynamicCache(config=self._model.config.get_text_config(decoder=True))

    @contextlib.contextmanager
    def _cached(self, context: _Context | None, count: int) -> Iterator[Any]:
        """What the model keeps of a context, for so many prompts to go on from; None without one.

        A single prompt goes on in the cache itself, which is cut back afterwards. Several get
        copies, and so does whatever cannot be cut back (a sliding window, a recurrent state).
        """
        if context is None:
            yield None
            return
        try:
            if context.cache is None:
                context.cache = self._read(context.ids)
                context.computed = len(context.ids)
            kept = context.cache
            if not context.padded:
                yield copy.deepcopy(kept)
            elif count == 1:
                yield kept
                kept.crop(len(context.ids) - kept.get_seq_length())
            else:
                # The layers replace their tensors and never write into them, so that the first
                # ones stay as they are.
                copied = copy.copy(kept)
                copied.layers = [copy.copy(layer) for layer in kept.layers]
                copied.batch_repeat_interleave(count)
                yield copied
        except BaseException:
            # It may have grown, and where memory is short it is in the way.
            context.cache = None
            raise

    def _read(self, ids: list[int]) -> Any:
        """The cache of keys and values after reading tokens."""
        torch = _torch()
        cache = self._empty_cache()
        # The logits of a long context would need more memory than the model itself.
        last = {"logits_to_keep": 1} if self._model._supports_logits_to_keep() else {}
        read = torch.tensor([ids], device=self.device)
        self._model(input_ids=read, past_key_values=cache, use_cache=True, **last)
        return cache

    @cached_property
    def _ends(self) -> frozenset[int]:
        ends = self._model.generation_config.eos_token_id
        if ends is None:
            ends = self.tokenizer.backend.eos_token_id  # type: ignore[attr-defined]
        if ends is None:
            return frozenset()
        return frozenset(ends if isinstance(ends, list) else [ends])

    @cached_property
    def _model(self) -> Any:
        torch = _torch()
        transformers = _transformers()
        import safetensors

        from rulerlib.models import attention

        # One line per weight file is no news to the reader of a notebook.
        transformers.utils.logging.disable_progress_bar()
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                self._folder,
                dtype=getattr(torch, self.dtype),
                trust_remote_code=self._trust,
            )
        except (OSError, ValueError, RuntimeError, safetensors.SafetensorError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise ParameterError("model", self.name, f"a model that loads ({reason})") from error
        config = model.generation_config
        if attention.serves(self.device, self.dtype):
            attention.use(model)
        # Greedy decoding: sampling settings that came with the model would only warn.
        config.do_sample, config.temperature, config.top_p, config.top_k = False, None, None, None
        try:
            return model.to(self.device).eval()
        except RuntimeError as error:
            if not _out_of_memory(error):
                raise
            raise ParameterError(
                "model", self.name, f"one whose weights fit into the memory of '{self.device}'"
            ) from error


def fitting(request: Request, model: Model) -> tuple[list[int], int]:
    """The tokens of a prompt, and how many were kept of it (-1: all).

    Raises
    ------
    ParameterError
        If it is too long for the model and may not be cut.
    """
    backend = model.tokenizer.backend  # type: ignore[attr-defined]
    ids: list[int] = backend(request.prompt, add_special_tokens=request.special).input_ids
    if model.limit is None or len(ids) + request.max_new_tokens <= model.limit:
        return ids, -1
    if not request.truncate:
        raise ParameterError(
            "length", len(ids) + request.max_new_tokens,
            f"at most {model.limit}, what '{model.name}' can take",
        )  # fmt: skip
    # The middle goes: the instruction and the question stand at the ends.
    room = model.limit - request.max_new_tokens
    return ids[: room // 2] + ids[len(ids) - (room - room // 2) :], room


def fingerprint(name: str) -> str:
    """A short hash of a model's weights; on the hub, its name and revision."""
    folder = Path(name)
    if not folder.is_dir():
        config = _transformers().AutoConfig.from_pretrained(name)
        return f"{name}@{getattr(config, '_commit_hash', None)}"
    files = sorted(
        path for pattern in ("config.json", "*.safetensors", "*.bin")
        for path in folder.glob(pattern)
    )  # fmt: skip
    whole = sum(path.stat().st_size for path in files) <= HASHED_BYTES
    digest = hashlib.sha256()
    for path in files:
        about = path.read_bytes() if whole else str(path.stat().st_size).encode()
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(about).digest())
    return digest.hexdigest()[:16]


def choose_dtype(wanted: str, device: str) -> str:
    """``"auto"`` becomes bfloat16 where this hardware is fast at it, else float32."""
    if wanted != "auto":
        return wanted
    return "bfloat16" if _fast_bfloat16(device) else "float32"


@dataclass
class _Context:
    """What several prompts begin with.

    Attributes
    ----------
    ids
        Its tokens.
    padded
        Whether padding may follow it, so that several questions are read as one batch. Attention
        over everything can leave padding out; a sliding window or a recurrent state cannot.
    cache
        Its keys and values, once they are computed.
    computed
        How many of its tokens were computed, until an answer has borne them.
    """

    ids: list[int]
    padded: bool
    cache: Any = None
    computed: int = 0


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", "hf", "Running a model") from error
    return torch


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError("transformers", "hf", "Running a model") from error
    return transformers


def _out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch is one of memory: on the processor it has no class of its own."""
    said = str(error).lower()
    signs = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, (MemoryError, _torch().cuda.OutOfMemoryError)) or any(
        sign in said for sign in signs
    )


def _available(device: str) -> bool:
    torch = _torch()
    found = torch.cuda if device == "cuda" else torch.backends.mps
    return bool(found.is_available())


def _fast_bfloat16(device: str) -> bool:
    """Whether bfloat16 is computed in hardware; elsewhere it is emulated and slow."""
    torch = _torch()
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device == "mps":
        return False
    probes = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(getattr(torch.cpu, name, lambda: False)() for name in probes)
