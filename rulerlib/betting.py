"""A sequential test of a mean, by betting: it may be checked after every outcome.

We bet against a null hypothesis, such as "B is not worse than A", in a game that is fair if it is
true. If the money ever grows 20-fold, the hypothesis is rejected at the 5% level (Ville's
inequality). The bets are those of Waudby-Smith and Ramdas 2024, "Estimating means of bounded random
variables by betting", with the money spread over several stakes.

The test rests on five assumptions:

1. An outcome is at least -1, so that no bet loses more than its stake.
2. Under the null hypothesis the expected outcome is at most 0, whatever came before.
3. For that, outcomes are independent: each length has its own questions, and several questions
   about one context count as one outcome.
4. Stakes and scales are fixed before the outcome is known.
5. A round of tasks with different means is judged only when it is complete: the money then grows on
   average by at most ``exp(stake * sum of the expected outcomes)``, so that only the mean over the
   tasks counts.

>>> money = Wealth()
>>> for _ in range(8):
...     money.bet(1.0)
>>> bool(math.exp(money.log) > 20)
True
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

NEEDED = math.log(20)
"""The logarithm of the money that rejects a hypothesis at the 5% level."""

HALVINGS = 8
"""Stakes, each half of the one before: the best stake is then at most a factor 1.4 away. The
smallest, 1/128 of the largest, suits differences of a point."""


class Wealth:
    """The money of a bettor who starts with 1.

    Parameters
    ----------
    largest
        The largest stake, below 1: with less than everything at stake, one bad outcome does not end
        the game.
    share
        The share of the money on the largest stake; the other stakes divide the rest equally.
    shape
        The shape of an outcome, if several hypotheses are tested at once.
    """

    def __init__(
        self, largest: float = 0.9, share: float = 1 / HALVINGS, shape: tuple[int, ...] = ()
    ) -> None:
        column = (HALVINGS, *[1] * len(shape))
        self._stakes = (largest * 0.5 ** np.arange(HALVINGS)).reshape(column)
        shares = np.full(HALVINGS, (1 - share) / (HALVINGS - 1))
        shares[0] = share
        self._logs = np.log(shares).reshape(column) + np.zeros(shape)

    def bet(self, outcome: Any, times: int = 1) -> None:
        """Bet on outcomes of -1 or more, ``times`` in a row."""
        self._logs += times * np.log1p(self._stakes * outcome)

    @property
    def log(self) -> Any:
        """The logarithm of the money; the hypothesis is rejected at `NEEDED`."""
        return np.logaddexp.reduce(self._logs, axis=0)
