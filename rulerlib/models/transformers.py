"""The transformers engine: any model in a folder or on the hub, on this machine's hardware.

>>> from rulerlib import models
>>> model = models.load("lille", dtype="float32")         # doctest: +SKIP
>>> request = models.Request("...", special=True, max_new_tokens=16)
>>> models.in_order(model, [request])[0].text             # doctest: +SKIP
' 1234567.'
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rulerlib.errors import ParameterError, load_package, one_of, whole_number
from rulerlib.models import (
    Decode,
    Generation,
    Local,
    ReadPrompt,
    Request,
    available,
    begins_thinking,
    cut_answer,
    drawing_seed,
    find_stop,
    torch,
)

# A batch has at most this many tokens, unless a single prompt has more.
BATCH_TOKENS = 65_536

# Models with sliding windows read a prompt in pieces of this many tokens, so that a piece attends
# to no more than the window before it. Longer pieces are fewer calls, which matters on a GPU:
# 8,192 tokens of Gemma 3 270M took 0.12 s on an H100, and 0.17 s in pieces of 1,024.
PIECE = {"cpu": 1_024, "cuda": 2_048, "mps": 1_024}

# Finished answers leave the batch after each of these many new tokens.
STRETCH = 16

# Versions of transformers for which `join` works: from the first, and below the second.
SINCE, BEFORE = (4, 56), (6, 0)

Answer = tuple[str, int, bool]
"""The text of an answer, its number of tokens, and whether it ended."""


@dataclass
class Shared:
    """The tokens that all prompts of a group begin with, and their cache once it is computed."""

    ids: list[int]
    cache: Any = None


class Engine(Local):
    """A causal language model run by `transformers`.

    Parameters
    ----------
    name
        A local folder, a hub name, or ``"lille"``.
    dtype
        ``"auto"`` is bfloat16 if this hardware is fast at it, else float32.
    device
        ``"auto"`` is a GPU if there is one, else the CPU.
    batch_size
        The number of prompts answered together. Default: as many as make `BATCH_TOKENS` tokens.
    max_model_len
        The longest sequence in tokens. Default: the length in the model's configuration.

    Raises
    ------
    ParameterError
        If the model cannot be found or a setting is unknown.
    MissingExtraError
        If `torch` or `transformers` is not installed; at the latest with the first request.

    Notes
    -----
    Each prompt is read by itself, without padding, and then the answers of a batch are written
    together (see `join`). Tokens that all prompts of a group begin with are read once. Models whose
    caches cannot be joined are run by plain ``generate``.

    Each sampled answer has its own random numbers, which follow from the seed and the prompt, so
    it does not depend on the other prompts of the batch.
    """

    engine = "transformers"

    def __init__(
        self,
        name: str,
        dtype: str = "auto",
        device: str = "auto",
        batch_size: int | None = None,
        max_model_len: int | None = None,
    ) -> None:
        one_of("device", device, ("auto", *PIECE))
        super().__init__(name, dtype, max_model_len, device)
        if batch_size is not None:
            whole_number("batch_size", batch_size, 1)
        self._batch_size = batch_size
        if device in ("cuda", "mps") and not available(device):
            raise ParameterError("device", device, "a device that this machine has, or 'auto'")

    def batch_size(self, length: int) -> int:
        return self._batch_size or max(1, BATCH_TOKENS // max(1, length))

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        prompts = list(self._prompts(requests))
        for group, members in itertools.groupby(prompts, key=lambda prompt: prompt.request.group):
            batch = list(members)
            shared = Shared(common_start(batch) if group is not None and self._joins else [])
            size = self.batch_size(_width(batch))
            for start in range(0, len(batch), size):
                part = batch[start : start + size]
                try:
                    answers = self._answers(part, shared)
                except torch().cuda.OutOfMemoryError as error:
                    allowed = f"shorter, or batch_size less than {len(part)}: out of memory"
                    raise ParameterError("length", _width(part), allowed) from error
                for prompt, (text, count, ended) in zip(part, answers, strict=True):
                    yield prompt.position, Generation(text, count, ended, len(prompt.ids))

    def _answers(self, batch: Sequence[ReadPrompt], shared: Shared) -> list[Answer]:
        """Return the text, the number of tokens and whether it ended, for each answer."""
        requests = [prompt.request for prompt in batch]
        width, most = _width(batch), max(request.max_new_tokens for request in requests)
        padding = self.tokenizer.pad_id or 0
        ids, mask = self._padded(batch, padding)
        sampling = Sampling(requests)
        left, answers = list(range(len(batch))), [("", 0, False)] * len(batch)
        cache: Any = None
        stretch = most
        with torch().inference_mode():
            if self._joins and min(len(prompt.ids) for prompt in batch) > 1:
                # All tokens but the last, from which generation starts.
                read = [self._read(prompt.ids[:-1], shared) for prompt in batch]
                cache, stretch = join(read, most), STRETCH
            for written in range(0, most, stretch):
                stopping = Stopping([requests[row] for row in left], width, self.tokenizer.decode)
                ids = self._model.generate(
                    input_ids=ids,
                    attention_mask=mask,
                    past_key_values=cache,
                    do_sample=False,
                    num_beams=1,
                    max_new_tokens=min(stretch, most - written),
                    pad_token_id=padding,
                    stopping_criteria=[stopping],
                    logits_processor=[sampling] if sampling.needed else None,
                )
                for row, tokens in zip(left, ids[:, width:].tolist(), strict=True):
                    answers[row] = self._answer(requests[row], tokens)
                # Finished answers leave the batch.
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

    def _padded(self, batch: Sequence[ReadPrompt], padding: int) -> tuple[Any, Any]:
        """Return token ids and attention mask of a batch, with padding before shorter prompts.

        Both have the shape (prompts, tokens).
        """
        gaps = [_width(batch) - len(prompt.ids) for prompt in batch]
        pairs = [*zip(gaps, batch, strict=True)]
        rows = [[padding] * gap + prompt.ids for gap, prompt in pairs]
        masks = [[0] * gap + [1] * len(prompt.ids) for gap, prompt in pairs]
        return torch().tensor(rows, device=self.device), torch().tensor(masks, device=self.device)

    def _answer(self, request: Request, tokens: list[int]) -> Answer:
        """Return the text of generated tokens, their number, and whether the text ended."""
        tokens = tokens[: request.max_new_tokens]
        length = next((at + 1 for at, one in enumerate(tokens) if one in self._ends), len(tokens))
        ended = length > 0 and tokens[length - 1] in self._ends
        text, length, stopped = cut_answer(tokens[:length], request, self.tokenizer.decode)
        return text, length, ended or stopped

    def _read(self, ids: Sequence[int], shared: Shared) -> Any:
        """Return the cache of some tokens that begin with the shared ones, which are read once."""
        if shared.ids and shared.cache is None:
            shared.cache = self._read(shared.ids, Shared([]))
        if shared.ids:
            # Layers replace their tensors and never write into them, so a shallow copy is enough.
            cache = copy.copy(shared.cache)
            cache.layers = [copy.copy(layer) for layer in shared.cache.layers]
        else:
            cache = empty_cache(self._model)
        left = ids[len(shared.ids) :]
        sliding = any(layer.is_sliding for layer in cache.layers)
        size = PIECE[self.device] if sliding else max(1, len(left))
        # The logits of a long text would need more memory than the model itself.
        last = {"logits_to_keep": 1} if self._model._supports_logits_to_keep() else {}
        for start in range(0, len(left), size):
            piece = torch().tensor([left[start : start + size]], device=self.device)
            self._model(input_ids=piece, past_key_values=cache, use_cache=True, **last)
        return cache

    @cached_property
    def _joins(self) -> bool:
        return can_join(self._model)

    @cached_property
    def _ends(self) -> frozenset[int]:
        ends = self._model.generation_config.eos_token_id
        if ends is None:
            ends = self.tokenizer.eos_id
        return frozenset(ends if isinstance(ends, list) else [ends]) - {None}

    @cached_property
    def _model(self) -> Any:
        transformers = load_package("transformers", "hf", "Running a model")
        import safetensors

        transformers.utils.logging.disable_progress_bar()
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                self._folder, dtype=getattr(torch(), self.dtype), trust_remote_code=False
            ).to(self.device)
        except (OSError, ValueError, RuntimeError, safetensors.SafetensorError) as error:
            raise self._unloadable(error) from error
        # The requests decide how tokens are chosen, not settings that came with the model.
        kept = ("bos_token_id", "eos_token_id", "pad_token_id")
        kept_ids = {name: getattr(model.generation_config, name, None) for name in kept}
        model.generation_config = transformers.GenerationConfig(**kept_ids)
        return model.eval()


def common_start(batch: Sequence[ReadPrompt]) -> list[int]:
    """Return the tokens that all prompts begin with, always less than a whole prompt."""
    if len(batch) < 2:
        return []
    for at in range(min(len(prompt.ids) for prompt in batch) - 1):
        if any(prompt.ids[at] != batch[0].ids[at] for prompt in batch):
            return batch[0].ids[:at]
    return min((prompt.ids for prompt in batch), key=len)[:-1]


def _width(batch: Sequence[ReadPrompt]) -> int:
    """Return the number of tokens of the longest prompt."""
    return max((len(prompt.ids) for prompt in batch), default=0)


class Sampling:
    """A logits processor that samples the next token of each request that is not greedy.

    transformers samples a whole batch with one generator, so an answer would depend on the other
    prompts. This processor runs before greedy decoding and leaves only the sampled token.

    Parameters
    ----------
    requests
        The requests of a batch.

    Attributes
    ----------
    rows
        For each remaining row of the batch, the position of its request.
    needed
        Whether any request is sampled.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self.rows = list(range(len(requests)))
        self._numbers = {
            row: (request.decoding, random.Random(drawing_seed(request)))
            for row, request in enumerate(requests)
            if not request.decoding.greedy
        }
        self.needed = bool(self._numbers)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores, shape (prompts, vocabulary), with only the sampled tokens left."""
        scores = scores.clone()
        for place, row in enumerate(self.rows):
            if row not in self._numbers:
                continue
            decoding, numbers = self._numbers[row]
            chances = (scores[place].float() / decoding.temperature).softmax(-1)
            chances, order = chances.sort(descending=True, stable=True)
            sums = chances.cumsum(-1)
            # The fewest tokens that reach top_p together, at least one.
            sums = sums[sums - chances < decoding.top_p]
            drawn = int((sums <= numbers.random() * sums[-1]).sum())
            scores[place] = float("-inf")
            scores[place, order[min(drawn, len(sums) - 1)]] = 0
        return scores


class Stopping:
    """A stopping criterion that finds the stop strings of each request.

    Parameters
    ----------
    requests
        The request of each row of the batch.
    start
        The number of prompt tokens, padding included.
    decode
        Returns the text of tokens.
    """

    def __init__(self, requests: Sequence[Request], start: int, decode: Decode) -> None:
        self._requests, self._start, self._decode = requests, start, decode

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Return whether each row has reached a stop string, shape (prompts,)."""
        stopped = [False] * len(input_ids)
        for row, request in enumerate(self._requests):
            if not request.stop:
                continue
            ids = input_ids[row, self._start :].tolist()
            # A stop string of n bytes has n tokens at most; tags and spaces need a few more. Only
            # if one is among these last tokens is the whole text read, which can be long.
            window = max(len(stop.encode()) for stop in request.stop) + 4
            tail = self._decode(ids[-window:], request.tags)
            if any(stop in tail for stop in request.stop):
                text = self._decode(ids, request.tags)
                stopped[row] = find_stop(text, request, begins_thinking(request)) is not None
        return input_ids.new_tensor(stopped, dtype=torch().bool)


def empty_cache(model: Any) -> Any:
    """Return an empty key-value cache for a model."""
    from transformers import DynamicCache

    return DynamicCache(config=model.config.get_text_config(decoder=True))


def can_join(model: Any) -> bool:
    """Return whether `join` works for a model with the installed version of transformers.

    Other models and versions are run by plain ``generate``, with equal answers. Attention ignores
    padding, over the whole text or within a sliding window. A recurrent state
    does not, so models with one are left out.
    """
    import transformers
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    version = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    has_dynamic_cache = getattr(model, "_supports_default_dynamic_cache", lambda: False)
    if not SINCE <= version < BEFORE or not has_dynamic_cache():
        return False
    layers = empty_cache(model).layers
    return bool(layers) and all(
        type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers
    )


def join(caches: Sequence[Any], room: int) -> Any:
    """Return one cache for all prompts, with padding before the shorter ones.

    transformers would read a batch of different lengths with padding, and copy the whole cache for
    each new token. Here prompts are read without padding, and new tokens are written in place. The
    tensors of the given caches are released layer by layer.

    Parameters
    ----------
    room
        The number of tokens that can be written.
    """
    joined = caches[0]
    length = max(cache.get_seq_length() for cache in caches)
    for layers in zip(*(cache.layers for cache in caches), strict=True):
        layers[0].update = InPlace(layers, room)
        if layers[0].is_sliding:
            layers[0].cumulative_length = length
    return joined


class InPlace:
    """The `update` of a cache layer that writes new keys and values into reserved memory.

    Parameters
    ----------
    layers
        The same layer of several prompts; the first becomes the layer of all of them.
    room
        The number of tokens that can be written.
    """

    def __init__(self, layers: Sequence[Any], room: int) -> None:
        self._layer, pad = layers[0], torch().nn.functional.pad
        self._end = max(layer.keys.shape[-2] for layer in layers)
        self._tensors = []
        for name in ("keys", "values"):
            tensors = [getattr(layer, name) for layer in layers]
            for layer in layers:
                setattr(layer, name, None)
            padded = [pad(one, (0, 0, self._end - one.shape[-2], room)) for one in tensors]
            self._tensors.append(torch().cat(padded))
        self._show(0)

    def __call__(self, keys: Any, values: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
        """Write keys and values; return all that the new tokens can attend to."""
        start, self._end = self._end, self._end + keys.shape[-2]
        for tensor, states in zip(self._tensors, (keys, values), strict=True):
            tensor[..., start : self._end, :] = states
        if not self._layer.is_sliding:
            return self._show(0)
        self._layer.cumulative_length += keys.shape[-2]
        return self._show(max(0, start - self._layer.sliding_window + 1))

    def keep(self, rows: list[int]) -> None:
        """Remove all other prompts."""
        self._tensors = [tensor[rows] for tensor in self._tensors]

    def _show(self, start: int) -> tuple[Any, Any]:
        """Set the layer's keys and values to those from position `start` on, and return them."""
        layer = self._layer
        layer.keys, layer.values = (one[..., start : self._end, :] for one in self._tensors)
        return layer.keys, layer.values
