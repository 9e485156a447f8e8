"""A faster key-value cache for transformers: joined from single prompts, with room to write.

transformers reads a batch of prompts of different lengths with padding, and copies the whole cache
for each new token. Here each prompt is read without padding, the caches are joined, and new tokens
are written in place. This replaces the method `update` of the cache's layers, so `can_join` allows
it only for versions and models for which the tests show equal answers; the engine uses plain
`generate` for all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulerlib.models.local import torch

SINCE, BEFORE = (4, 56), (6, 0)
"""Versions of transformers for which `join` works: from the first, and below the second."""


def empty_cache(model: Any) -> Any:
    """Return an empty key-value cache for a model."""
    from transformers import DynamicCache

    return DynamicCache(config=model.config.get_text_config(decoder=True))


def can_join(model: Any) -> bool:
    """Return whether `join` works for a model with the installed version of transformers.

    Attention ignores padding, over the whole text or within a sliding window. A recurrent state
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

    The tensors of the given caches are released layer by layer.

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


def keep_rows(cache: Any, rows: list[int]) -> None:
    """Remove all other prompts from a joined cache."""
    for layer in cache.layers:
        layer.update.keep(rows)


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
