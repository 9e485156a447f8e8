"""Replay: which of the facts that were kept are rehearsed, in a mix of recent, important, random.

>>> drawn = draw([0.0, 1.0, 0.0], 10, "seed")
>>> {kind: len(places) for kind, places in drawn.items()}
{'recent': 4, 'important': 4, 'random': 2}
>>> drawn["important"]
[1, 1, 1, 1]
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

MIX = {"recent": 0.4, "important": 0.4, "random": 0.2}
"""Why a fact is rehearsed, and the share of each."""

# Of the facts by age, half of what is drawn as recent comes from the latest eighth.
_RECENCY = 3


def draw(salience: Sequence[float], steps: int, seed: str) -> dict[str, list[int]]:
    """Return by kind which facts are rehearsed, as places; a fact may be drawn several times.

    Parameters
    ----------
    salience
        How important each fact is, the oldest one first. Where all are 0, none is more so.
    steps
        How many are drawn.
    seed
        Another one draws others.
    """
    rng = random.Random(f"replay {seed}")
    count = len(salience)
    if not count:
        return {kind: [] for kind in MIX}
    # Shares are decimals, such as 0.3 of 10 steps, which is 3 and not a little less.
    wanted = {kind: round(steps * share, 9) for kind, share in MIX.items()}
    counts = {kind: math.floor(want) for kind, want in wanted.items()}
    # A remainder goes to the largest ones; `sorted` keeps the order of those that are equal.
    rest = sorted(wanted, key=lambda kind: counts[kind] - wanted[kind])
    for kind in rest[: steps - sum(counts.values())]:
        counts[kind] += 1
    weights = salience if any(salience) else None
    return {
        "recent": [
            count - 1 - int(count * rng.random() ** _RECENCY) for _ in range(counts["recent"])
        ],
        "important": rng.choices(range(count), weights, k=counts["important"]),
        "random": rng.choices(range(count), k=counts["random"]),
    }
