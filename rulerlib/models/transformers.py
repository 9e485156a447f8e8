"""The transformers engine: any folder or hub name, on whatever this machine has.

>>> from rulerlib import models
>>> model = models.load("lille", dtype="float32")         # doctest: +SKIP
>>> request = models.Request("...", special=True, max_new_tokens=16)
>>> models.in_order(model, [request])[0].text             # doctest: +SKIP
' 1234567.'
"""

from __future__ import annotations

import copy
import functools
import gc
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from rulerlib import packages
from rulerlib.errors import ParameterError, one_of, require, whole_number
from rulerlib.models import Generation, Likelihood, Request, Result
from rulerlib.models.caches import Opening, joined
from rulerlib.models.cutting import cut_answer
from rulerlib.models.local import Local, ReadPrompt, Sampling, Stopping, available, torch

DEVICES = ("auto", "cpu", "cuda", "mps")

# Prompts are answered together until they have this many tokens in sum; a longer one alone.
BATCH_TOKENS = 65_536

# A model some of whose layers look back a window only reads a prompt in pieces of this many tokens:
# each piece then meets the window before it and no more. Longer pieces are fewer calls, which is
# what a GPU waits for: 8,192 tokens of Gemma 3 270M took 0.12 s on an H100 in place of 0.17.
PIECE = {"cpu": 1_024, "cuda": 2_048, "mps": 1_024}

# Tokens that answers are written in at a time; those that have ended leave in between.
STRETCH = 16

# Scores, one for each token of the vocabulary at each place of a text, that are held at a time
# unless a single text has more.
SCORES = 1 << 27


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
        Prompts answered at a time; None: as many as is sensible for their length.
    trust_remote_code
        Whether code that comes with a model may run. Off unless you say so.
    max_model_len
        The longest sequence in tokens. By default the model's configuration limits the length.

    Raises
    ------
    ParameterError
        If the model cannot be found or a setting is unknown.
    MissingExtraError
        If `torch` or `transformers` is not installed; at the latest with the first request.

    Notes
    -----
    Each request is drawn with random numbers of its own, which follow from the seed and the prompt
    alone (`rulerlib.models.local`), and the same request may stand among greedy ones. An answer
    depends on its neighbours no more than a greedy one does: in the last digits of the
    probabilities, which decide a draw only where it falls between two tokens.

    Stop strings are looked for in the text after each token.
    """

    engine = "transformers"

    def __init__(
        self, name: str, dtype: str = "auto", device: str = "auto",
        batch_size: int | None = None, trust_remote_code: bool = False,
        max_model_len: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, dtype, trust_remote_code, max_model_len)
        self._wanted_device = one_of("device", device, DEVICES)
        if batch_size is not None:
            whole_number("batch_size", batch_size, 1)
        self._batch_size = batch_size
        # Padded tokens that fit into memory together; 0: that is not known yet.
        self._fits = 0
        usable = device in ("auto", "cpu") or available(device)
        require(usable, "device", device, "a device that this machine has, or 'auto'")

    def batch_size(self, length: int) -> int:
        if self._batch_size is not None:
            return self._batch_size
        return max(1, BATCH_TOKENS // max(1, length))

    def load_weights(self) -> None:
        """See `rulerlib.models.load_weights`."""
        _ = self._model

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """See `rulerlib.models.Model`.

        Each prompt is read by itself, without padding, and then the answers of a batch are written
        together. Of neighbours of one group the tokens that all of them begin with are read once.
        """
        _ = self._model
        prompts = list(self._prompts(requests))
        for group, members in itertools.groupby(prompts, key=lambda prompt: prompt.request.group):
            batch = list(members)
            if group is None:
                yield from self._batch(batch, Opening())
                continue
            context = self._context([prompt.ids for prompt in batch])
            size = self.batch_size(_width(batch)) if self._joinable else 1
            for start in range(0, len(batch), size):
                yield from self._batch(batch[start : start + size], context)

    def log_likelihoods(self, texts: Iterable[str]) -> Iterator[Likelihood]:
        """See `rulerlib.models.Model`.

        In bfloat16 the model's own numbers depend on the other texts of a batch in their third
        digit.
        """
        _ = self._model
        most, width = SCORES // self.tokenizer.vocabulary, 0
        batch: list[ReadPrompt] = []
        for text in self._texts(texts):
            width = max(width, len(text.ids))
            if batch and len(batch) >= min(most // width, self.batch_size(width)):
                yield from self._likelihoods(batch)
                batch, width = [], len(text.ids)
            batch.append(text)
        yield from self._likelihoods(batch)

    def _likelihoods(self, batch: list[ReadPrompt]) -> Iterator[Likelihood]:
        """Read texts together, and yield how likely each is."""

        def read(part: Sequence[ReadPrompt]) -> list[Likelihood]:
            width = _width(part)
            # Padding stands behind a text, where nothing that counts looks at it.
            rows = [text.ids + [0] * (width - len(text.ids)) for text in part]
            seen = [[1] * len(text.ids) + [0] * (width - len(text.ids)) for text in part]
            ids, mask = (torch().tensor(table, device=self.device) for table in (rows, seen))
            entropy = torch().nn.functional.cross_entropy
            likelihoods = []
            with torch().inference_mode():
                scores = self._model(input_ids=ids, attention_mask=mask, use_cache=False).logits
                for text, row, targets in zip(part, scores, ids, strict=True):
                    losses = entropy(row[:-1].float(), targets[1:], reduction="none")
                    losses = losses[self._unpredicted - 1 : len(text.ids) - 1]
                    likelihoods.append(Likelihood(float(losses.double().sum()), len(losses)))
            return likelihoods

        for _, likelihoods in self._parts(batch, read):
            yield from likelihoods

    def _batch(self, batch: list[ReadPrompt], context: Opening) -> Iterator[tuple[int, Generation]]:
        """Read prompts together, and yield what is generated for each."""
        for part, answers in self._parts(batch, functools.partial(self._together, context=context)):
            split = len(part) if len(part) < len(batch) else 0
            for prompt, (text, count, ended) in zip(part, answers, strict=True):
                length = len(prompt.ids)
                # The first answer bears what was read for all.
                computed = length - len(context.ids) + context.computed
                context.computed = 0
                kept = prompt.kept
                answer = Generation(text, count, ended, kept, length, computed, split=split)
                yield prompt.position, answer

    def _parts(
        self, left: list[ReadPrompt], read: Callable[[Sequence[ReadPrompt]], list[Result]]
    ) -> Iterator[tuple[list[ReadPrompt], list[Result]]]:
        """Yield prompts that were read together; where memory is short, half as many, said aloud.

        Raises
        ------
        ParameterError
            If memory is too short for a single prompt.
        """
        while left:
            width = _width(left)
            size = min(len(left), max(1, self._fits // width)) if self._fits else len(left)
            shortage: Exception | None = None
            try:
                results = read(left[:size])
            except (RuntimeError, MemoryError) as error:
                if not _out_of_memory(error):
                    raise
                # Without the traceback, which holds the tensors.
                shortage = error.with_traceback(None)
            if shortage is None:
                yield left[:size], results
                left = left[size:]
                continue
            if size == 1:
                needs = f"a single prompt needs more memory than '{self.device}' has"
                raise ParameterError("length", width, f"shorter, because {needs}") from shortage
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
        self, batch: Sequence[ReadPrompt], context: Opening
    ) -> list[tuple[str, int, bool]]:
        """Return each text, its tokens' number, and whether it ended."""
        requests = [prompt.request for prompt in batch]
        width, most = _width(batch), max(request.max_new_tokens for request in requests)
        padding = self.tokenizer.pad_id or 0
        # Padding stands before each prompt: positions are counted without it, and nothing looks at
        # it.
        fills = [width - len(prompt.ids) for prompt in batch]
        rows = [[padding] * fill + prompt.ids for fill, prompt in zip(fills, batch, strict=True)]
        seen = [[0] * fill + [1] * (width - fill) for fill in fills]
        ids, mask = (torch().tensor(table, device=self.device) for table in (rows, seen))
        greedy = all(request.decoding.greedy for request in requests)
        sampling, left = Sampling(requests), [*range(len(batch))]
        cache: Any = None
        stretch, answers = most, [("", 0, False)] * len(batch)
        with torch().inference_mode():
            # Something is read here, and something left to go on from.
            if context.ids or (self._joinable and width - max(fills) > 1):
                caches = [self._read(prompt.ids[:-1], context) for prompt in batch]
                cache = joined(caches, most) if self._joinable else caches[0]
                stretch = STRETCH if self._joinable else most
            for written in range(0, most, stretch):
                # transformers asks for the logits of the last position alone during prefill.
                waiting = [requests[row] for row in left]
                ids = self._model.generate(
                    input_ids=ids, attention_mask=mask, past_key_values=cache, do_sample=False,
                    num_beams=1, max_new_tokens=min(stretch, most - written), pad_token_id=padding,
                    stopping_criteria=[Stopping(waiting, width, self.tokenizer.decode)],
                    logits_processor=None if greedy else [sampling],
                )  # fmt: skip
                for row, tokens in zip(left, ids[:, width:].tolist(), strict=True):
                    answers[row] = self._answer(requests[row], tokens)
                # Answers that have ended leave the batch, and the others go on without them.
                stay = [
                    place
                    for place, row in enumerate(left)
                    if not answers[row][2] and answers[row][1] < requests[row].max_new_tokens
                ]
                if not stay:
                    break
                if len(stay) < len(left):
                    left = sampling.rows = [left[place] for place in stay]
                    ids, mask = ids[stay], mask[stay]
                    for layer in cache.layers:
                        layer.update.keep(stay)
                mask = torch().nn.functional.pad(mask, (0, ids.shape[1] - mask.shape[1]), value=1)
        return answers

    def _answer(self, request: Request, tokens: list[int]) -> tuple[str, int, bool]:
        """Return the text of what was written, its tokens' number, and whether it ended."""
        tokens = tokens[: request.max_new_tokens]
        ends = (at + 1 for at, token in enumerate(tokens) if token in self._ends)
        length = next(ends, len(tokens))
        ended = length > 0 and tokens[length - 1] in self._ends
        text, length, stopped = cut_answer(tokens[:length], request, self.tokenizer.decode)
        return text, length, ended or stopped

    def _context(self, prompts: Sequence[list[int]]) -> Opening:
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
            return Opening()
        return Opening(ids)

    def _empty_cache(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self._model.config.get_text_config(decoder=True))

    @cached_property
    def _joinable(self) -> bool:
        """Whether caches of several prompts can be joined into one, with padding before them.

        Attention can leave padding out, over everything or within a window; a recurrent state
        cannot.
        """
        from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

        kinds = (DynamicLayer, DynamicSlidingWindowLayer)
        return self._model._supports_default_dynamic_cache() and all(
            type(layer) in kinds for layer in self._empty_cache().layers or [None]
        )

    def _read(self, ids: Sequence[int], context: Opening) -> Any:
        """Return what the model keeps of tokens that begin with a context, which is read once."""
        if context.ids and context.cache is None:
            context.cache = self._read(context.ids, Opening())
            context.computed = len(context.ids)
        if not context.ids:
            cache = self._empty_cache()
        elif self._joinable:
            # Layers replace their tensors and never write into them: the first ones stay as they
            # are.
            cache = copy.copy(context.cache)
            cache.layers = [copy.copy(layer) for layer in context.cache.layers]
        else:
            cache = copy.deepcopy(context.cache)
        # The logits of a long text would need more memory than the model itself.
        last = {"logits_to_keep": 1} if self._model._supports_logits_to_keep() else {}
        left = ids[len(context.ids) :]
        sliding = any(layer.is_sliding for layer in cache.layers)
        size = PIECE[self.device] if sliding else max(1, len(left))
        for start in range(0, len(left), size):
            piece = torch().tensor([left[start : start + size]], device=self.device)
            self._model(input_ids=piece, past_key_values=cache, use_cache=True, **last)
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

        # One line per weight file is no news to the reader of a notebook.
        transformers.utils.logging.disable_progress_bar()
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                self._folder, dtype=getattr(torch(), self.dtype), trust_remote_code=self._trust
            )
        except (OSError, ValueError, RuntimeError, safetensors.SafetensorError) as error:
            raise self._unloadable(error) from error
        # Requests say how tokens are chosen. Settings that came with the model would warn, or, as a
        # penalty for repetition, choose other tokens than the likeliest.
        kept = ("bos_token_id", "eos_token_id", "pad_token_id")
        kept_ids = {name: getattr(model.generation_config, name, None) for name in kept}
        model.generation_config = transformers.GenerationConfig(**kept_ids)
        try:
            return model.to(self.device).eval()
        except RuntimeError as error:
            if not _out_of_memory(error):
                raise
            allowed_values = f"one whose weights fit into the memory of '{self.device}'"
            raise ParameterError("model", self.name, allowed_values) from error


def _width(batch: Sequence[ReadPrompt]) -> int:
    """Return the number of tokens of the longest prompt."""
    return max(len(prompt.ids) for prompt in batch)


def _out_of_memory(error: BaseException) -> bool:
    """Return whether an error is one of memory: on the processor it has no class of its own."""
    if isinstance(error, (MemoryError, torch().cuda.OutOfMemoryError)):
        return True
    signs = ("out of memory", "can't allocate memory", "not enough memory")
    return any(sign in str(error).lower() for sign in signs)
