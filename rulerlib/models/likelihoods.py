"""How likely texts are to a model of `transformers`, in the same memory however long they are.

The scores of all tokens of a vocabulary, at every place of a text, can need more memory than the
model itself. Texts are therefore read in pieces, each with what the model keeps of those before it.

This module imports torch, and is itself imported where a model is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rulerlib.models import Likelihood

# Scores that a piece of a batch has at most, and those that are in float32 at a time.
PIECE, AT_ONCE = 1 << 27, 1 << 24


def of(model: Any, rows: Sequence[Sequence[int]], given: int, cache: Any) -> list[Likelihood]:
    """Return how likely texts are that are read as one batch.

    Parameters
    ----------
    model
        A causal language model.
    rows
        The tokens of each text, at least one.
    given
        How many tokens a text begins with that are not predicted, at least one.
    cache
        An empty cache of keys and values; None: texts are read in one piece, because the model
        has no such cache.
    """
    width = max(map(len, rows))
    # Padding stands behind a text, where nothing that counts looks at it.
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    predicted = mask.bool()
    predicted[:, :given] = False
    ids, mask, predicted = (each.to(model.device) for each in (ids, mask, predicted))
    sums = torch.zeros(len(rows), dtype=torch.float64)
    # The last token of all predicts nothing.
    read = max(1, width - 1)
    vocabulary = model.config.get_text_config(decoder=True).vocab_size
    piece = read if cache is None else min(read, max(1, PIECE // (len(rows) * vocabulary)))
    kept = {} if cache is None or piece == read else {"past_key_values": cache}
    with torch.inference_mode():
        for start in range(0, read, piece):
            end = min(read, start + piece)
            scores = model(
                input_ids=ids[:, start:end],
                attention_mask=mask[:, :end],
                use_cache=bool(kept),
                **kept,
            ).logits
            after = slice(start + 1, end + 1)
            sums += _sums(scores, ids[:, after], predicted[:, after])
    counts = [max(0, len(row) - given) for row in rows]
    return [Likelihood(*each) for each in zip(sums.tolist(), counts, strict=True)]


def _sums(scores: torch.Tensor, targets: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Return by text the negative log likelihoods of its tokens that count, in float64."""
    flat, wanted = scores.flatten(0, 1), targets.flatten()
    together = max(1, AT_ONCE // scores.shape[-1])
    losses = [torch.zeros(0, device=scores.device)]
    for start in range(0, len(wanted), together):
        part = slice(start, start + together)
        entropy = torch.nn.functional.cross_entropy
        losses.append(entropy(flat[part].float(), wanted[part], reduction="none"))
    each = torch.cat(losses).view(targets.shape).cpu().double()
    return torch.where(counted.cpu(), each, 0.0).sum(1)
