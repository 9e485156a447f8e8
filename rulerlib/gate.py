"""Whether a second model is worse than a first: what the questions that both answered tell.

Somebody bets on each question against the claim that nothing became worse, in a game that is fair
if the claim is true; who wins twentyfold has refuted it, and may look as often as he likes (Ville's
inequality). The bets are those of Waudby-Smith and Ramdas 2024, "Estimating Means of Bounded Random
Variables by Betting", spread over several stakes.

>>> gate = Gate(["niah_single_2"])
>>> for _ in range(5):
...     gate.add("niah_single_2", 1.0)
>>> gate.worse
False
>>> gate.add("niah_single_2", 1.0)
>>> gate.worse, gate.worse_tasks
(True, ['niah_single_2'])

A question that both answer equally well says nothing of which is worse, and a little of how close
they are: after 334 of them in a row they are as good.

>>> gate = Gate(["niah_single_2"])
>>> for _ in range(334):
...     before = gate.verdict
...     gate.add("niah_single_2", 0.0)
>>> before, gate.verdict
('undecided', 'as good')
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORSE, AS_GOOD, UNDECIDED = "worse", "as good", "undecided"
"""The verdicts."""

# Stakes, as shares of the most that may be lost, and the money on each. Most lies on a large one,
# because a broken cache loses nearly every question; it is less than all, so that one question
# that only the second model answers does not end the game.
STAKES = np.array([0.88, 0.7, 0.5, 0.35, 0.25, 0.15, 0.08, 0.04, 0.02])
MONEY = np.array([0.6, *[0.05] * 8])

# Against the claim that they differ by the margin or more: where all is alike, each question wins
# little, and the largest stake wins most.
STAKES_OF_MARGIN = np.array([0.99, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015])
MONEY_OF_MARGIN = np.array([0.7, *[0.05] * 6])

# Of the money on "worse", that on all tasks together; the rest lies on the tasks one by one.
TOGETHER = 0.8

# The differences that an interval is made of, in steps of a quarter of a point.
CLAIMS = np.linspace(-0.9975, 0.9975, 799)[:, None]


class Gate:
    """What follows from the questions that were answered so far.

    Parameters
    ----------
    tasks
        The names of the tasks whose questions are asked.
    margin
        In points of 100: a second model that is worse by less is as good.
    confidence
        How often no verdict that is reached is false, each kind of verdict for itself.
    """

    def __init__(self, tasks: Sequence[str], margin: float = 1.0, confidence: float = 0.95) -> None:
        self.margin, self.confidence = margin / 100, confidence
        self._needed = -math.log(1 - confidence)
        # How often each difference occurred: their order does not matter to a product.
        self._differences: dict[str, Counter[float]] = {task: Counter() for task in tasks}

    def add(self, task: str, difference: float) -> None:
        """Add a question: the first model's score less the second's, from -1 to 1.

        Questions have to be independent of each other. `worse` holds after each of them;
        `as_good` and `interval` after each round in which every task and length had as many.
        (The expected winnings of a round are a product of one factor a cell. It is largest where
        all factors are equal, so it is at most that of as many draws from all cells mixed.)
        """
        self._differences[task][difference] += 1

    @property
    def count(self) -> int:
        """How many questions were added."""
        return sum(counter.total() for counter in self._differences.values())

    @property
    def _all(self) -> Counter[float]:
        return sum(self._differences.values(), Counter())

    @property
    def evidence(self) -> float:
        """The logarithm of the winnings against the claim that no task became worse."""
        apart = np.logaddexp.reduce([_won(counter) for counter in self._differences.values()])
        share = math.log((1 - TOGETHER) / len(self._differences))
        return float(np.logaddexp(math.log(TOGETHER) + _won(self._all), share + apart))

    @property
    def worse(self) -> bool:
        """Whether the second model is worse in some task."""
        return self.evidence >= self._needed

    @property
    def worse_tasks(self) -> list[str]:
        """The tasks in which the second model is worse, all of them together at the confidence."""
        needed = self._needed + math.log(len(self._differences))
        return [task for task, counter in self._differences.items() if _won(counter) >= needed]

    @property
    def as_good(self) -> bool:
        """Whether the mean difference over all tasks and lengths is below the margin."""
        closer: Counter[float] = Counter()
        for difference, count in self._all.items():
            closer[(self.margin - difference) / (1 - self.margin)] += count
        return bool(_won(closer, STAKES_OF_MARGIN, MONEY_OF_MARGIN) >= self._needed)

    @property
    def interval(self) -> tuple[float, float]:
        """The lowest and the highest mean difference, from -1 to 1, that is not refuted."""
        above, below = np.log(MONEY) + 0 * CLAIMS, np.log(MONEY) + 0 * CLAIMS
        for difference, count in self._all.items():
            off = difference - CLAIMS
            above += count * np.log1p(STAKES * off / (1 + CLAIMS))
            below += count * np.log1p(-STAKES * off / (1 - CLAIMS))
        won = np.logaddexp.reduce(np.hstack([above, below]), axis=1)
        (kept,) = np.nonzero(won < self._needed + math.log(2))
        first, last = int(kept[0]), int(kept[-1])
        low, high = float(CLAIMS[first, 0]), float(CLAIMS[last, 0])
        return (-1.0 if first == 0 else low), (1.0 if last == len(CLAIMS) - 1 else high)

    @property
    def verdict(self) -> str:
        """`WORSE`, `AS_GOOD` or `UNDECIDED`."""
        return WORSE if self.worse else AS_GOOD if self.as_good else UNDECIDED


def _won(
    outcomes: Mapping[float, int], stakes: NDArray[Any] = STAKES, money: NDArray[Any] = MONEY
) -> float:
    """Return the logarithm of what bets on outcomes from -1 on have won in all."""
    logs = np.log(money)
    for outcome, count in outcomes.items():
        logs = logs + count * np.log1p(stakes * outcome)
    return float(np.logaddexp.reduce(logs))
