"""The bootstrap (Efron 1979): how a mean would vary if other samples had been drawn.

What is drawn are units: samples, or contexts where several samples share one. Where all answers
are alike, such draws are alike too, so no table takes its intervals from here any more, see
`rulerlib.analysis.combined`; `benchmarks/coverage.py` shows the difference.

>>> rng = np.random.default_rng(0)
>>> drawn = resample(np.array([[1.0], [0.0], [1.0], [1.0]]), np.ones((4, 1)), 2000, rng)
>>> drawn.shape, round(float(drawn.mean()), 1), interval(drawn[:, 0])
((2000, 1), 0.7, (0.25, 1.0))
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

RESAMPLES = 2000

Array = np.ndarray[Any, Any]


def resample(
    sums: Array, counts: Array, resamples: int, rng: np.random.Generator, paired: bool = True
) -> Array:
    """Return the mean of each column in each resample.

    Parameters
    ----------
    sums, counts
        Units x columns: the sum of a unit's values, and how many they are.
    resamples
        How often all units are drawn anew, with replacement.
    rng
        Where the random numbers come from.
    paired
        Whether each unit is drawn for all columns at once; else every column draws among its own
        units, those with a count above 0.

    Returns
    -------
    array
        ``resamples`` x columns; NaN where a column has no unit.
    """
    if paired and len(sums):
        drawn = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), resamples)
        return np.asarray((drawn @ sums) / (drawn @ counts))
    means = np.full((resamples, sums.shape[1]), np.nan)
    for column in range(sums.shape[1]):
        has = counts[:, column] > 0
        if has.any():
            means[:, [column]] = resample(
                sums[has][:, [column]], counts[has][:, [column]], resamples, rng
            )
    return means


def interval(resampled: Array, confidence: float = 0.95) -> tuple[float, float]:
    """Return both ends of the percentile interval of resampled means; NaN where one of them is."""
    if np.isnan(resampled).any():
        return math.nan, math.nan
    low, high = np.quantile(resampled, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return float(low), float(high)
