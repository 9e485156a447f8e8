"""The interval of a weighted mean of rates, against a general optimizer and exact sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from rulerlib.analysis import combined


def by_optimizer(rates, sizes, weights, lower):
    """The end of the interval, with scipy's search for the likeliest rates of a given mean."""
    worth = sizes - (1 - 1 / len(rates))
    if not lower:
        return 1 - by_optimizer(1 - rates, sizes, weights, True)
    mean = weights @ rates

    def statistic(wanted):
        def minus(p):
            return -(worth * (rates * np.log(p) + (1 - rates) * np.log(1 - p))).sum()

        found = scipy.optimize.minimize(
            minus, np.full(len(rates), wanted), method="SLSQP", tol=1e-12,
            bounds=[(1e-9, 1 - 1e-9)] * len(rates),
            constraints={"type": "eq", "fun": lambda p: weights @ p - wanted},
            options={"maxiter": 500},
        )  # fmt: skip
        p = found.x
        return (mean - wanted) / math.sqrt((weights**2 * p * (1 - p) / worth).sum()) - 1.959964

    return scipy.optimize.brentq(statistic, 1e-4, mean - 1e-6, xtol=1e-9)


@pytest.mark.parametrize(
    ("rates", "sizes", "weights"),
    [
        ([0.5, 0.9], [10, 20], [0.5, 0.5]),
        ([0.3, 0.6, 0.95], [40, 12, 100], [0.2, 0.3, 0.5]),
        ([0.85, 0.85, 0.85, 0.85], [9, 9, 9, 9], [0.25] * 4),
        ([0.9, 0.1], [200, 25], [1 / 3, 2 / 3]),
    ],
)
def test_it_is_what_an_optimizer_finds(rates, sizes, weights):
    given_ = np.array(rates), np.array(sizes, dtype=float), np.array(weights)
    found = combined.interval(*given_)
    wanted = [by_optimizer(*given_, lower) for lower in (True, False)]
    assert found == pytest.approx(wanted, abs=2e-5)


def test_rates_that_move_together_are_as_uncertain_as_one():
    rates, sizes, weights = np.full((1, 4), 0.8), np.full((1, 4), 50.0), np.full((1, 4), 0.25)
    together = combined.interval(rates, sizes - 0.75, weights, np.ones((4, 4)))
    one = combined.interval(np.array([0.8]), np.array([48.5]), np.ones(1))
    assert together == pytest.approx(one, abs=1e-6)
    apart = combined.interval(rates, sizes, weights, np.eye(4))
    four = combined.interval(np.array([0.8]), np.array([4 * 49.25]), np.ones(1))
    assert apart == pytest.approx(four, abs=1e-6)
