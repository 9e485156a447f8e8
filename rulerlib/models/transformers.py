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
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

from rulerlib.errors import ParameterError, load_package, one_of, whole_number
from rulerlib.models import (
    Decode,
    Generation,
    Local,
    Request,
    available,
    begins_thinking,
    cut_answer,
    drawing_seed,
    find_stop,
    torch,
)
from rulerlib.prompts import Decoding

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
        requests = list(requests)
        prompts = [self._tokens(request) for request in requests]
        groups = itertools.groupby(range(len(requests)), lambda place: requests[place].group)
        for group, members in groups:
            places = list(members)
            together = [prompts[place] for place in places]
            size = min(self.batch_size(_width(together)), len(places))
            try:
                shared = None
                if self._joins:
                    common = [] if group is None else common_start(together)
                    shared = self._read(common, empty_cache(self._model))
                for first in range(0, len(places), size):
                    batch = places[first : first + size]
                    asked = [requests[place] for place in batch]
                    ids = [prompts[place] for place in batch]
                    yield from zip(batch, self._answers(asked, ids, shared), strict=True)
            except torch().cuda.OutOfMemoryError as error:
                allowed = f"shorter, or batch_size less than {size}: out of memory"
                raise ParameterError("length", _width(together), allowed) from error

    def _answers(
        self, requests: Sequence[Request], prompts: Sequence[list[int]], shared: Any
    ) -> list[Generation]:
        """Return the answers of a batch.

        Parameters
        ----------
        prompts
            The tokens of each prompt.
        shared
            The cache of the tokens that all prompts begin with; None if caches cannot be joined.
        """
        most = stretch = max(request.max_new_tokens for request in requests)
        width, padding = _width(prompts), self.tokenizer.pad_id or 0
        ids, mask = self._padded(prompts, padding)
        numbers = [random.Random(drawing_seed(request)) for request in requests]
        # The places of the requests whose answers are not finished, one for each row of `ids`.
        left = list(range(len(requests)))
        answers = [Generation("", 0, False)] * len(requests)
        cache: Any = None
        with torch().inference_mode():
            if shared is not None and min(len(prompt) for prompt in prompts) > 1:
                # All tokens but the last, from which generation starts.
                read = [self._read(prompt[:-1], shared) for prompt in prompts]
                cache, stretch = join(read, most), STRETCH
            for written in range(0, most, stretch):
                asked = [requests[place] for place in left]
                processors = []
                if not all(request.decoding.greedy for request in asked):
                    processors.append(sampling(asked, [numbers[place] for place in left]))
                ids = self._model.generate(
                    input_ids=ids,
                    attention_mask=mask,
                    past_key_values=cache,
                    do_sample=False,
                    num_beams=1,
                    max_new_tokens=min(stretch, most - written),
                    pad_token_id=padding,
                    stopping_criteria=[stopping(asked, width, self.tokenizer.decode)],
                    logits_processor=processors,
                )
                for place, tokens in zip(left, ids[:, width:].tolist(), strict=True):
                    answers[place] = self._answer(requests[place], prompts[place], tokens)
                # Finished answers leave the batch.
                rows = [
                    row
                    for row, place in enumerate(left)
                    if not answers[place].finished
                    and answers[place].tokens < requests[place].max_new_tokens
                ]
                if not rows:
                    break
                if len(rows) < len(left):
                    left, ids, mask = [left[row] for row in rows], ids[rows], mask[rows]
                    for layer in cache.layers:
                        layer.reserved = [tensor[rows] for tensor in layer.reserved]
                mask = torch().nn.functional.pad(mask, (0, ids.shape[1] - mask.shape[1]), value=1)
        return answers

    def _padded(self, prompts: Sequence[list[int]], padding: int) -> tuple[Any, Any]:
        """Return token ids and attention mask of a batch, with padding before shorter prompts.

        Both have the shape (prompts, tokens).
        """
        gaps = [_width(prompts) - len(prompt) for prompt in prompts]
        pairs = [*zip(gaps, prompts, strict=True)]
        rows = [[padding] * gap + prompt for gap, prompt in pairs]
        masks = [[0] * gap + [1] * len(prompt) for gap, prompt in pairs]
        return torch().tensor(rows, device=self.device), torch().tensor(masks, device=self.device)

    def _answer(self, request: Request, prompt: list[int], tokens: list[int]) -> Generation:
        """Return the answer of which these tokens were generated so far."""
        tokens = tokens[: request.max_new_tokens]
        length = next((at + 1 for at, one in enumerate(tokens) if one in self._ends), len(tokens))
        ended = length > 0 and tokens[length - 1] in self._ends
        text, length, stopped = cut_answer(tokens[:length], request, self.tokenizer.decode)
        return Generation(text, length, ended or stopped, len(prompt))

    def _read(self, ids: Sequence[int], shared: Any) -> Any:
        """Return the cache of some tokens; the cache of the first ones is given."""
        # Layers replace their tensors and never write into them, so a shallow copy is enough.
        cache = copy.copy(shared)
        cache.layers = [copy.copy(layer) for layer in shared.layers]
        left = ids[shared.get_seq_length() :]
        sliding = any(layer.is_sliding for layer in cache.layers)
        size = PIECE[self.device] if sliding else max(1, len(left))
        # The logits of a long text would need more memory than the model itself.
        last = {"logits_to_keep": 1} if self._model._supports_logits_to_keep() else {}
        with torch().inference_mode():
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


def common_start(prompts: Sequence[list[int]]) -> list[int]:
    """Return the tokens that all prompts begin with, always less than a whole prompt."""
    if len(prompts) < 2:
        return []
    for at in range(min(len(prompt) for prompt in prompts) - 1):
        if any(prompt[at] != prompts[0][at] for prompt in prompts):
            return prompts[0][:at]
    return min(prompts, key=len)[:-1]


def _width(prompts: Sequence[list[int]]) -> int:
    """Return the number of tokens of the longest prompt."""
    return max(len(prompt) for prompt in prompts)


def sampling(
    requests: Sequence[Request], numbers: Sequence[random.Random]
) -> Callable[[Any, Any], Any]:
    """Return a logits processor that samples the next token of each request that is not greedy.

    transformers samples a whole batch with one generator, so an answer would depend on the other
    prompts. This processor runs before greedy decoding and leaves only the sampled token.

    Parameters
    ----------
    requests
        The request of each row of the batch.
    numbers
        The random numbers of each request.
    """

    def processor(input_ids: Any, scores: Any) -> Any:
        """Return the scores, shape (prompts, vocabulary), with only the sampled tokens left."""
        scores = scores.clone()
        for row, request in enumerate(requests):
            if not request.decoding.greedy:
                token = sample(scores[row], request.decoding, numbers[row])
                scores[row] = float("-inf")
                scores[row, token] = 0
        return scores

    return processor


def sample(scores: Any, decoding: Decoding, numbers: random.Random) -> Any:
    """Return a token sampled from its scores, shape (vocabulary,)."""
    chances = (scores.float() / decoding.temperature).softmax(-1)
    chances, order = chances.sort(descending=True, stable=True)
    sums = chances.cumsum(-1)
    # The fewest tokens that reach top_p together, at least one.
    sums = sums[sums - chances < decoding.top_p]
    drawn = int((sums <= numbers.random() * sums[-1]).sum())
    return order[min(drawn, len(sums) - 1)]


def stopping(requests: Sequence[Request], start: int, decode: Decode) -> Callable[..., Any]:
    """Return a stopping criterion that finds the stop strings of each request.

    Parameters
    ----------
    requests
        The request of each row of the batch.
    start
        The number of prompt tokens, padding included.
    decode
        Returns the text of tokens.
    """

    def criterion(input_ids: Any, scores: Any, **_: Any) -> Any:
        """Return whether each row has reached a stop string, shape (prompts,)."""
        stopped = [False] * len(requests)
        for row, request in enumerate(requests):
            if not request.stop:
                continue
            ids = input_ids[row, start:].tolist()
            # A stop string of n bytes has n tokens at most; tags and spaces need a few more. Only
            # if one is among these last tokens is the whole text read, which can be long.
            window = max(len(stop.encode()) for stop in request.stop) + 4
            tail = decode(ids[-window:], request.tags)
            if any(stop in tail for stop in request.stop):
                text = decode(ids, request.tags)
                stopped[row] = find_stop(text, request, begins_thinking(request)) is not None
        return input_ids.new_tensor(stopped, dtype=torch().bool)

    return criterion


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
        join_layers(layers, room)
        if layers[0].is_sliding:
            layers[0].cumulative_length = length
    # Without a reference to the cache itself, whose memory is then released as soon as possible.
    joined.update = partial(write, joined.layers)
    return joined


def join_layers(layers: Sequence[Any], room: int) -> None:
    """Put the keys and values of all layers into the first one, which can take ``room`` more.

    Its attribute ``reserved`` has memory for the keys and for the values, of which the first
    ``end`` positions are in use.
    """
    layer, pad = layers[0], torch().nn.functional.pad
    layer.end = max(one.keys.shape[-2] for one in layers)
    layer.reserved = []
    for name in ("keys", "values"):
        tensors = [getattr(one, name) for one in layers]
        for one in layers:
            setattr(one, name, None)
        padded = [pad(one, (0, 0, layer.end - one.shape[-2], room)) for one in tensors]
        layer.reserved.append(torch().cat(padded))
    layer.keys, layer.values = (tensor[..., : layer.end, :] for tensor in layer.reserved)


def write(
    layers: Sequence[Any], keys: Any, values: Any, index: int, *_: Any, **__: Any
) -> tuple[Any, Any]:
    """Write into the reserved memory of a layer, and return all that new tokens can attend to.

    It is the method ``update`` of a joined cache.
    """
    layer, first = layers[index], 0
    start, layer.end = layer.end, layer.end + keys.shape[-2]
    if layer.is_sliding:
        layer.cumulative_length += keys.shape[-2]
        first = max(0, start - layer.sliding_window + 1)
    for tensor, states in zip(layer.reserved, (keys, values), strict=True):
        tensor[..., start : layer.end, :] = states
    layer.keys, layer.values = (tensor[..., first : layer.end, :] for tensor in layer.reserved)
    return layer.keys, layer.values
