"""Replay: which of the facts that were kept are rehearsed, in a mix of recent, important, random.

>>> drawn = draw([0.0, 1.0, 0.0], 10, {"recent": 0.4, "important": 0.4, "random": 0.2}, "seed")
>>> {kind: len(places) for kind, places in drawn.items()}
{'recent': 4, 'important': 4, 'random': 2}
>>> drawn["important"]
[1, 1, 1, 1]
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rulerlib.errors import dictionary, is_number, one_of, require

KINDS = ("recent", "important", "random")
"""Why a fact is rehearsed."""

MIX: Mapping[str, float] = MappingProxyType({"recent": 0.4, "important": 0.4, "random": 0.2})
"""The share of each, where nobody chose any."""

# Of the facts by age, half of what is drawn as recent comes from the latest eighth.
_RECENCY = 3


def mixed(mix: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each of `KINDS`; one that is not named has none.

    Raises
    ------
    ParameterError
        If there is another kind, a share is no number from 0 to 1, or the sum is not 1.
    """
    example = '{"recent": 0.4, "important": 0.4, "random": 0.2}'
    mix = dictionary("mix", mix, example)
    for name, share in mix.items():
        one_of("mix", name, KINDS)
        fits = is_number(share) and 0 <= share <= 1
        require(fits, f"mix of {name}", share, "a number from 0 to 1")
    # Three shares of a third may miss 1 by a little.
    require(math.isclose(sum(mix.values()), 1, abs_tol=1e-6), "mix", mix, f"1 in sum, as {example}")
    return {kind: mix.get(kind, 0.0) for kind in KINDS}


def draw(
    salience: Sequence[float], steps: int, mix: Mapping[str, float], seed: str
) -> dict[str, list[int]]:
    """Return by kind which facts are rehearsed, as places; a fact may be drawn several times.

    Parameters
    ----------
    salience
        How important each fact is, the oldest one first. Where all are 0, none is more so.
    steps
        How many are drawn.
    mix
        The share of each kind, as `mixed` returns it.
    seed
        Another one draws others.
    """
    rng = random.Random(f"replay {seed}")
    count = len(salience)
    if not count:
        return {kind: [] for kind in KINDS}
    # Shares are decimals, such as 0.3 of 10 steps, which is 3 and not a little less.
    wanted = {kind: round(steps * share, 9) for kind, share in mix.items()}
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
