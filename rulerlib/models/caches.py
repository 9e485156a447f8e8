"""What a model keeps of prompts, as transformers has it: read once, joined, with room to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rulerlib.models.local import torch


@dataclass
class Opening:
    """The tokens that several prompts begin with; none where each prompt is read as a whole.

    Attributes
    ----------
    ids
        Its tokens.
    cache
        Its keys and values, once they are computed.
    computed
        How many of its tokens were computed and are not yet counted to an answer.
    """

    ids: Sequence[int] = ()
    cache: Any = None
    computed: int = 0


def joined(caches: Sequence[Any], room: int) -> Any:
    """Return one cache for all prompts, the shorter ones with padding before them.

    The tensors of the caches are let go, layer by layer.
    """
    first = caches[0]
    length = max(cache.get_seq_length() for cache in caches)
    for layers in zip(*(cache.layers for cache in caches), strict=True):
        layers[0].update = Room(layers, room)
        if layers[0].is_sliding:
            layers[0].cumulative_length = length
    return first


class Room:
    """Writes what comes to a layer of a cache behind what is there.

    transformers copies all that is there for each token, which takes longer than to look at it.

    Parameters
    ----------
    layers
        The same layer of several prompts: the first one becomes that of all of them.
    room
        For how many tokens.
    """

    def __init__(self, layers: Sequence[Any], room: int) -> None:
        self._layer, pad = layers[0], torch().nn.functional.pad
        self._end = max(layer.keys.shape[-2] for layer in layers)
        self._tensors = []
        for name in ("keys", "values"):
            tensors = [getattr(layer, name) for layer in layers]
            for layer in layers:
                setattr(layer, name, None)
            tensors = [pad(one, (0, 0, self._end - one.shape[-2], room)) for one in tensors]
            self._tensors.append(torch().cat(tensors))
        self._show(0)

    def __call__(self, keys: Any, values: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
        """Write keys and values, and return all that they look at, as a layer's ``update``."""
        start, self._end = self._end, self._end + keys.shape[-2]
        for tensor, states in zip(self._tensors, (keys, values), strict=True):
            tensor[..., start : self._end, :] = states
        if self._layer.is_sliding:
            self._layer.cumulative_length += keys.shape[-2]
            return self._show(max(0, start - self._layer.sliding_window + 1))
        return self._show(0)

    def keep(self, rows: list[int]) -> None:
        """Let all other rows go."""
        self._tensors = [tensor[rows] for tensor in self._tensors]

    def _show(self, start: int) -> tuple[Any, Any]:
        """Return the layer's keys and values from a place on, which it has from now on."""
        layer = self._layer
        layer.keys, layer.values = (one[..., start : self._end, :] for one in self._tensors)
        return layer.keys, layer.values
