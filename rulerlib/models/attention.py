"""Causal attention over a long prompt, as plain matrix products.

On processors that multiply bfloat16 in AVX-512 but have no AMX, torch's fused attention gets less
than half the speed of its matrix products. There a long prompt is read in tiles of queries and
keys: scores, their exponentials and the weighted values are one call each, and a tile stays in
the cache. Wherever that does not hold, or anything but plain causal attention is asked for,
`torch.nn.functional.scaled_dot_product_attention` does it as always. Measured by
``benchmarks/attention.py``.

This module imports torch and transformers, and is itself imported where a model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from rulerlib.models.local import has

NAME = "rulerlib_tiles"
"""The name under which transformers knows it."""

# Shorter prompts gain nothing.
SHORTEST = 1024

# The queries and the keys of a tile, the second a multiple of the first.
QUERIES, KEYS = 512, 4096

# One key among this many is asked how large the scores are.
STRIDE = 8

# Sums of exponentials between these have neither overflowed nor lost what counts.
SANE = 1e-20, 1e30

# What some models add to attention: left to the way of transformers.
BEYOND = {"position_bias", "softcap", "s_aux", "cache"}


def serves(device: str, dtype: str) -> bool:
    """Return whether this machine is one on which tiles are faster."""
    slow = has("avx512_bf16") and not has("amx_tile")
    return slow and (device, dtype) == ("cpu", "bfloat16")


def use(model: Any) -> None:
    """Let a model of transformers that uses torch's attention read long prompts this way.

    Others are left as they are: those with an attention of their own, and those that do not let
    it be chosen.
    """
    if model.config._attn_implementation == "sdpa" and model._supports_attention_backend:
        AttentionInterface.register(NAME, _forward)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)


def causal(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    """Return the attention of each token to itself and all before it.

    Parameters
    ----------
    query
        (prompts, heads, tokens, dimensions), in bfloat16.
    key, value
        The same shape, with as many tokens. There may be fewer heads, each of which then serves
        several neighbouring heads of `query` (https://arxiv.org/abs/2305.13245).
    scale
        What products of queries and keys are multiplied by.

    Returns
    -------
    torch.Tensor
        (prompts, tokens, heads, dimensions of `value`).

    Notes
    -----
    Softmax is computed by tiles and summed up at the end, as in https://arxiv.org/abs/2205.14135.
    So that no exponential overflows, a number is subtracted from all scores of a query. Here it
    is chosen beforehand and is the same for all tiles: the largest score among every STRIDEth
    key. It is subtracted within the matrix product, before scores are rounded to bfloat16, whose
    neighbours at 100 are half a unit apart; the scores that count are then near zero, where
    rounding is finer. Where sums overflow or vanish nevertheless, the block of queries is done
    again with the largest score of all.
    """
    prompts, heads, tokens, _ = query.shape
    group = heads // key.shape[1]
    out = value.new_empty(prompts, tokens, heads, value.shape[-1])
    tiles = _Tiles(query.new_empty(QUERIES * min(KEYS, tokens)))
    for prompt in range(prompts):
        for head in range(heads):
            if head % group == 0:
                keys = key[prompt, head // group].contiguous()
                values = value[prompt, head // group].contiguous()
                sparse = keys[::STRIDE].contiguous()
            queries = query[prompt, head] * scale
            for start in range(0, tokens, QUERIES):
                end = min(tokens, start + QUERIES)
                block = queries[start:end]
                guess = (block @ sparse[: -(-end // STRIDE)].T).amax(-1, keepdim=True)
                weighted, total = tiles.sums(block, keys[:end], values, guess)
                if not bool(((total > SANE[0]) & (total < SANE[1])).all()):
                    largest = tiles.largest(block, keys[:end])
                    weighted, total = tiles.sums(block, keys[:end], values, largest)
                out[prompt, start:end, head] = weighted / total
    return out


class _Tiles:
    """The scores of a block of queries, tile by tile, in one piece of memory.

    Parameters
    ----------
    room
        Memory for the scores of a tile.
    """

    def __init__(self, room: torch.Tensor) -> None:
        self._room = room
        self._later = room.new_full((QUERIES, QUERIES), float("-inf")).triu(1)

    def sums(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, less: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return values weighted by exp(score - less), and the sum of these weights, in float32.

        Returns
        -------
        tuple of torch.Tensor
            (queries, dimensions of `values`) and (queries, 1).
        """
        total = torch.zeros(len(queries), 1)
        weighted = torch.zeros(len(queries), values.shape[1])
        for start, scores in self._scores(queries, keys, -less):
            weights = scores.exp_()
            total += weights.sum(-1, keepdim=True)
            weighted += weights @ values[start : start + weights.shape[1]]
        return weighted, total

    def largest(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Return the largest score of each query: (queries, 1)."""
        none = queries.new_zeros(len(queries), 1)
        tiles = [scores.amax(-1, keepdim=True) for _, scores in self._scores(queries, keys, none)]
        return torch.cat(tiles, -1).amax(-1, keepdim=True)

    def _scores(
        self, queries: torch.Tensor, keys: torch.Tensor, more: torch.Tensor
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield where each tile begins, and its scores plus `more`, which may be written over.

        The queries are those of the last tokens: each sees the keys up to its own.
        """
        count = len(queries)
        for start in range(0, len(keys), KEYS):
            tile = keys[start : start + KEYS]
            scores = self._room[: count * len(tile)].view(count, len(tile))
            torch.addmm(more, queries, tile.T, out=scores)
            if start + len(tile) == len(keys):
                scores[:, -count:] += self._later[:count, :count]
            yield start, scores


def _forward(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Return what transformers asks for: by `causal` for a long prompt, else by torch's own."""
    given = {name: option for name, option in options.items() if option is not None}
    plain = attention_mask is None and given.get("is_causal", getattr(module, "is_causal", True))
    plain = plain and not given.get("dropout") and not torch.is_grad_enabled()
    tokens, width = query.shape[2:]
    if plain and not given.keys() & BEYOND and key.shape[2] == tokens >= SHORTEST:
        return causal(query, key, value, given.get("scaling", width**-0.5)), None
    attended, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return attended, None
