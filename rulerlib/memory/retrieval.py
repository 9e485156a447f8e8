"""What a memory recalled, held against the facts that were needed: recall at k, reciprocal rank.

Each text that was recalled stands for the facts that it comes from, by their numbers, the best text
first; a planner's text stands for several.

>>> recalled = [(1,), (4,), (3, 7)]
>>> recall_at(recalled, needs=(3, 4), k=2), recall_at(recalled, needs=(3, 4), k=5)
(0.5, 1.0)
>>> reciprocal_rank(recalled, needs=(3, 4))
0.5
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

KS = (1, 5, 10)
"""Of how many texts at most recall is reported."""

Numbers = Sequence[Collection[int]]
"""For each text, the numbers of the facts that it comes from."""


def recall_at(recalled: Numbers, needs: Collection[int], k: int) -> float:
    """Return the share of the needed facts, 0 to 1, that are among those of the first ``k`` texts.

    Parameters
    ----------
    needs
        The numbers of the needed facts, at least one.
    """
    among = {number for numbers in recalled[:k] for number in numbers}
    return sum(number in among for number in needs) / len(needs)


def reciprocal_rank(recalled: Numbers, needs: Collection[int]) -> float:
    """Return 1 / the place of the first text that holds a needed fact, from 1; 0 if none does."""
    wanted = {*needs}
    for rank, numbers in enumerate(recalled, 1):
        if wanted.intersection(numbers):
            return 1 / rank
    return 0.0
