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
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rulerlib import checkpoints, packages
from rulerlib.errors import ParameterError, one_of, require, whole_number
from rulerlib.models import Generation, Likelihood, Request, Result, stopping
from rulerlib.models.local import Local, Prompt, torch
from rulerlib.models.sampling import Sampling

DEVICES = ("auto", "cpu", "cuda", "mps")

# Prompts are read together until they have this many tokens in sum; a longer one is read alone.
BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536, "mps": 16_384}


# Settings of transformers that choose tokens, beside `rulerlib.checkpoints.DECODING`.
_CHOOSING = (
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "dola_layers",
    "encoder_no_repeat_ngram_size", "encoder_repetition_penalty", "epsilon_cutoff", "eta_cutoff",
    "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id",
    "guidance_scale", "length_penalty", "max_time", "min_length", "num_beam_groups",
    "penalty_alpha", "renormalize_logits", "sequence_bias", "stop_strings", "suppress_tokens",
    "token_healing", "top_h", "watermarking_config",
)  # fmt: skip


class Engine(Local):
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
        If `torch` or `transformers` is not installed; at the latest with the first request.

    Notes
    -----
    In bfloat16 on a processor that has AVX-512 but no AMX, long prompts are read by
    `rulerlib.models.attention`. It rounds otherwise than torch's own attention, as another version
    of torch may; with ``dtype="float32"`` nothing but torch's is used.

    Tokens are drawn by `rulerlib.models.sampling`: each request has random numbers of its own,
    which follow from the seed and the prompt alone, and the same request may stand among greedy
    ones. An answer depends on its neighbours no more than a greedy one does: in the last digits
    of the probabilities, which decide a draw only where it falls between two tokens.

    Stop strings are looked for in the text after each token, by `rulerlib.models.stopping`.
    """

    engine = "transformers"

    def __init__(
        self,
        name: str,
        dtype: str = "auto",
        device: str = "auto",
        batch_size: int | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        super().__init__(name, dtype, trust_remote_code)
        self._wanted_device = one_of("device", device, DEVICES)
        if batch_size is not None:
            whole_number("batch_size", batch_size, 1)
        self._batch_size = batch_size
        # Padded tokens that fit into memory together; 0: that is not known yet.
        self._fits = 0
        usable = device in ("auto", "cpu") or _available(device)
        require(usable, "device", device, "a device that this machine has, or 'auto'")

    @cached_property
    def device(self) -> str:
        """``"cpu"``, ``"cuda"`` or ``"mps"``."""
        if self._wanted_device != "auto":
            return self._wanted_device
        return next((name for name in ("cuda", "mps") if _available(name)), "cpu")

    def batch_size(self, length: int) -> int:
        if self._batch_size is not None:
            return self._batch_size
        return max(1, BATCH_TOKENS[self.device] // max(1, length))

    def load_weights(self) -> None:
        """See `rulerlib.models.load_weights`."""
        _ = self._model

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """See `rulerlib.models.Model`.

        Neighbours of one group are read together: first the tokens that all of them begin with,
        once, and then the rest of each. Others are read as one batch.
        """
        _ = self._model
        prompts = list(self._prompts(requests))
        for group, members in itertools.groupby(prompts, key=lambda prompt: prompt.request.group):
            batch = list(members)
            if group is None:
                yield from self._batch(batch, _Context())
                continue
            context = self._context([prompt.ids for prompt in batch])
            size = self.batch_size(_width(batch)) if context.padded else 1
            for start in range(0, len(batch), size):
                yield from self._batch(batch[start : start + size], context)

    def log_likelihoods(self, texts: Iterable[str]) -> Iterator[Likelihood]:
        """See `rulerlib.models.Model`.

        Texts are read together as prompts are, up to as many padded tokens. In bfloat16 the model's
        own numbers depend on the other texts of a batch in their third digit.
        """
        _ = self._model
        from rulerlib.models import likelihoods

        most = max(1, likelihoods.PIECE // self.tokenizer.vocabulary)
        for batch in self._batches(self._texts(texts), most):
            for _, found in self._parts(batch, self._likelihoods):
                yield from found

    def _batches(self, prompts: Iterable[Prompt], most: int) -> Iterator[list[Prompt]]:
        """Yield neighbours that are read together, ``most`` at most."""
        batch: list[Prompt] = []
        width = 0
        for prompt in prompts:
            width = max(width, len(prompt.ids))
            if batch and len(batch) >= min(most, self.batch_size(width)):
                yield batch
                batch, width = [], len(prompt.ids)
            batch.append(prompt)
        if batch:
            yield batch

    def _likelihoods(self, batch: Sequence[Prompt]) -> list[Likelihood]:
        """Read texts as one batch, and return how likely each is."""
        from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

        from rulerlib.models import likelihoods

        cache = self._empty_cache() if self._model._supports_default_dynamic_cache() else None
        # A recurrent state goes through no mask that is longer than what is read.
        kinds = {type(layer) for layer in cache.layers} if cache else set()
        pieces = kinds and kinds <= {DynamicLayer, DynamicSlidingWindowLayer}
        rows = [prompt.ids for prompt in batch]
        return likelihoods.of(self._model, rows, self._given, cache if pieces else None)

    def _batch(self, batch: list[Prompt], context: _Context) -> Iterator[tuple[int, Generation]]:
        """Read prompts together, and yield what is generated for each."""

        def read(part: Sequence[Prompt]) -> list[tuple[tuple[str, int, bool], float]]:
            watch = stopping.Watch(self.device)
            answers = self._together(part, context, watch)
            return [(answer, watch.seconds / len(part)) for answer in answers]

        for part, answers in self._parts(batch, read):
            split = len(part) if len(part) < len(batch) else 0
            for prompt, (answer, reading) in zip(part, answers, strict=True):
                length = len(prompt.ids)
                # The first answer bears what was read for all.
                computed = length - len(context.ids) + context.computed
                context.computed = 0
                generation = Generation(
                    *answer, prompt.kept, length, computed, split=split, reading=reading
                )
                yield prompt.position, generation

    def _parts(
        self, left: list[Prompt], read: Callable[[Sequence[Prompt]], list[Result]]
    ) -> Iterator[tuple[list[Prompt], list[Result]]]:
        """Yield prompts that were read together; where memory is short, fewer, said aloud."""
        while left:
            width = _width(left)
            size = min(len(left), max(1, self._fits // width)) if self._fits else len(left)
            part = left[:size]
            shortage: Exception | None = None
            try:
                results = read(part)
            except (RuntimeError, MemoryError) as error:
                if not _out_of_memory(error):
                    raise
                shortage = error.with_traceback(None)
            if shortage is not None:
                # Outside of the handler, whose traceback holds the tensors.
                self._halve(size, width, shortage)
                continue
            left = left[size:]
            yield part, results

    def _halve(self, size: int, width: int, shortage: BaseException) -> None:
        """Remember that ``size`` prompts of ``width`` tokens do not fit; free what they held."""
        if size == 1:
            allowed = f"shorter, because a single prompt needs more memory than '{self.device}' has"
            raise ParameterError("length", width, allowed) from shortage
        self._fits = (size // 2) * width
        gc.collect()
        if self.device != "cpu":
            getattr(torch(), self.device).empty_cache()
        warnings.warn(
            f"Out of memory with {size} prompts of {width} tokens together; going on with"
            f" {size // 2}. Records of answers say so in others['split'].",
            stacklevel=4,
        )

    def _together(
        self, batch: Sequence[Prompt], context: _Context, watch: stopping.Watch
    ) -> list[tuple[str, int, bool]]:
        """Read prompts as one batch; return each text, its tokens' number, and whether it ended."""
        requests = [prompt.request for prompt in batch]
        width = _width(batch)
        padding = self.tokenizer.pad_id or 0
        # Padding stands before each prompt, or between the context and the rest of it: positions
        # are counted without it, and nothing looks at it.
        rows, seen = [], []
        for prompt in batch:
            rest = prompt.ids[len(context.ids) :]
            fill = width - len(prompt.ids)
            rows.append([*context.ids, *[padding] * fill, *rest])
            seen.append([1] * len(context.ids) + [0] * fill + [1] * len(rest))
        padded, mask = torch().tensor(rows), torch().tensor(seen)
        decode = self.tokenizer.decode
        stops = any(request.stop for request in requests)
        criteria = [watch, stopping.Stopping(requests, width, decode)] if stops else [watch]
        greedy = all(request.decoding.greedy for request in requests)
        with torch().inference_mode(), self._cached(context, len(batch)) as cache:
            # transformers asks for the logits of the last position alone during prefill.
            output = self._model.generate(
                input_ids=padded.to(self.device),
                attention_mask=mask.to(self.device),
                max_new_tokens=max(request.max_new_tokens for request in requests),
                do_sample=False,
                num_beams=1,
                pad_token_id=padding,
                stopping_criteria=criteria,
                logits_processor=None if greedy else [Sampling(requests)],
                **({} if cache is None else {"past_key_values": cache}),
            )
        answers = []
        for request, row in zip(requests, output[:, width:].tolist(), strict=True):
            row = row[: request.max_new_tokens]
            length = next((at + 1 for at, token in enumerate(row) if token in self._ends), len(row))
            ended = length > 0 and row[length - 1] in self._ends
            text, length, stopped = stopping.cut(row[:length], request, decode)
            answers.append((text, length, ended or stopped))
        return answers

    def _context(self, prompts: Sequence[list[int]]) -> _Context:
        """Return the tokens that all prompts begin with; none where these cannot be read once.

        Whole prompts are compared, as tokens: where the context ends and a question begins, a
        token may hold a part of both.
        """
        # What the first and the last in alphabetical order have in common, all have.
        pairs = zip(min(prompts), max(prompts), strict=False)
        same = [one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)]
        # Something must be left of each prompt, to go on from.
        ids = same[: min(map(len, prompts)) - 1]
        if len(prompts) < 2 or not ids or not self._model._supports_default_dynamic_cache():
            return _Context()
        from transformers.cache_utils import DynamicLayer

        cache = self._empty_cache()
        padded = bool(cache.layers) and all(type(layer) is DynamicLayer for layer in cache.layers)
        return _Context(ids, padded)

    def _empty_cache(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self._model.config.get_text_config(decoder=True))

    @contextlib.contextmanager
    def _cached(self, context: _Context, count: int) -> Iterator[Any]:
        """Lend what the model keeps of a context to ``count`` prompts; None without a context.

        A single prompt goes on in the cache itself, which is cut back afterwards. Several get
        copies, and so does whatever cannot be cut back (a sliding window, a recurrent state).
        """
        if not context.ids:
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

    def _read(self, ids: Sequence[int]) -> Any:
        """Return the cache of keys and values after reading tokens."""
        cache = self._empty_cache()
        # The logits of a long context would need more memory than the model itself.
        last = {"logits_to_keep": 1} if self._model._supports_logits_to_keep() else {}
        read = torch().tensor([ids], device=self.device)
        self._model(input_ids=read, past_key_values=cache, use_cache=True, **last)
        return cache

    @cached_property
    def _ends(self) -> frozenset[int]:
        ends = self._model.generation_config.eos_token_id
        if ends is None:
            ends = self.tokenizer.eos_id
        return frozenset(ends if isinstance(ends, list) else [ends]) - {None}

    @cached_property
    def _model(self) -> Any:
        transformers = packages.load("transformers", "hf", "Running a model")
        import safetensors

        from rulerlib.models import attention

        # One line per weight file is no news to the reader of a notebook.
        transformers.utils.logging.disable_progress_bar()
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                self._folder, dtype=getattr(torch(), self.dtype), trust_remote_code=self._trust
            )
        except (OSError, ValueError, RuntimeError, safetensors.SafetensorError) as error:
            raise self._unloadable(error) from error
        config = model.generation_config
        if attention.serves(self.device, self.dtype):
            attention.use(model)
        # Requests say how tokens are chosen. Settings that came with the model would warn, or, as a
        # penalty for repetition, choose other tokens than the likeliest.
        usual = transformers.GenerationConfig()
        for name in (*checkpoints.DECODING, *_CHOOSING):
            if hasattr(config, name):
                setattr(config, name, getattr(usual, name, None))
        config.do_sample, config.temperature, config.top_p, config.top_k = False, None, None, None
        try:
            return model.to(self.device).eval()
        except RuntimeError as error:
            if not _out_of_memory(error):
                raise
            allowed = f"one whose weights fit into the memory of '{self.device}'"
            raise ParameterError("model", self.name, allowed) from error


@dataclass
class _Context:
    """The tokens that several prompts begin with; none where each prompt is read as a whole.

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
        How many of its tokens were computed and are not yet counted to an answer.
    """

    ids: Sequence[int] = ()
    padded: bool = True
    cache: Any = None
    computed: int = 0


def _width(batch: Sequence[Prompt]) -> int:
    """Return the number of tokens of the longest prompt."""
    return max(len(prompt.ids) for prompt in batch)


def _out_of_memory(error: BaseException) -> bool:
    """Return whether an error is one of memory: on the processor it has no class of its own."""
    if isinstance(error, (MemoryError, torch().cuda.OutOfMemoryError)):
        return True
    signs = ("out of memory", "can't allocate memory", "not enough memory")
    return any(sign in str(error).lower() for sign in signs)


def _available(device: str) -> bool:
    backend = torch().cuda if device == "cuda" else torch().backends.mps
    return bool(backend.is_available())
