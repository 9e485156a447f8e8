"""Confidence intervals of means: Wilson's, and one for values that come in clusters.

>>> low, high = wilson(9, 10)
>>> round(low, 3), round(high, 3)
(0.596, 0.982)
>>> mean = clustered([1, 1, 1, 1, 0, 0, 1, 1], clusters=[0, 0, 1, 1, 2, 2, 3, 3])
>>> mean.mean, round(mean.design_effect, 2), round(mean.low, 2), round(mean.high, 2)
(0.75, 2.33, 0.15, 0.98)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.special import stdtrit

from rulerlib.errors import ParameterError

Z = NormalDist().inv_cdf(0.975)


def wilson(successes: float, n: int) -> tuple[float, float]:
    """Return the 95% confidence interval of a proportion.

    Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference". For the
    mean of values between 0 and 1, such as recall, the interval is at least as wide as needed,
    because their variance is at most p(1 - p).

    Parameters
    ----------
    successes
        Sum of the values, 0 to ``n``.
    n
        Number of independent samples.

    Returns
    -------
    low, high
        From 0 to 1; (0, 1) if ``n`` is 0.

    Raises
    ------
    ParameterError
        If ``successes`` is not from 0 to ``n``.
    """
    if not 0 <= successes <= n:
        raise ParameterError("successes", successes, f"from 0 to n ({n})")
    return _wilson(successes / n, n, Z) if n else (0.0, 1.0)


def _wilson(p: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval for n answers, not necessarily a whole number, at a quantile z."""
    centre = p + z * z / (2 * n)
    spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # Rounding would miss 0 and 1.
    low = (centre - spread) / scale if p > 0 else 0.0
    high = (centre + spread) / scale if p < 1 else 1.0
    return max(0.0, low), min(1.0, high)


@dataclass(frozen=True)
class Clustered:
    """A mean of values that come in clusters, such as the questions about one context.

    Attributes
    ----------
    mean, n, clusters
        The mean, the number of values and the number of clusters.
    standard_error
        Robust to any dependence within a cluster. NaN if there is only one cluster.
    design_effect
        Variance of the mean, divided by its variance if the values were independent (Kish 1965).
        NaN if there is one cluster, or if all values are equal.
    low, high
        The 95% confidence interval, within 0 and 1.
    """

    mean: float
    n: int
    clusters: int
    standard_error: float
    design_effect: float
    low: float
    high: float


def clustered(
    values: Sequence[float],
    clusters: Iterable[Hashable],
    cells: Iterable[Hashable] | None = None,
    weights: Sequence[float] | None = None,
) -> Clustered:
    """Return the weighted mean of values from 0 to 1 that come in clusters, and its interval.

    Values in one cluster may depend on each other; clusters are independent. The standard error
    is that of Miller 2024, "Adding Error Bars to Evals", section 2.2, with the correction
    G / (G - 1) for G clusters (Cameron and Miller 2015, section II.C)::

        SE^2 = G / (G - 1) * sum over clusters of (sum of w * (value - mean of its cell))^2

    The interval is Wilson's for as many independent answers as would give the same standard
    error. Student's t with G - 1 degrees of freedom replaces the normal quantile if clusters
    have several values (Korn and Graubard 1998). If nearly all values are equal, the data say
    little about their variance. So its share of mean * (1 - mean) is averaged with the largest
    possible one, the sum of the squared weights of clusters, in the proportion k : 1, where k is
    the sum of p(1 - p) over all values, with the mean p of each cell. No interval is narrower than
    that of independent values.

    If each cluster has one value, 0 or 1, in a single cell, the interval is `wilson`'s. If all
    values are in one cluster, it is 0 to 1.

    Parameters
    ----------
    values
        From 0 to 1.
    clusters
        The cluster of each value.
    cells
        What is averaged over, such as the task and length of each value: differences between
        cells are not part of the variance. If None, all values are in the same cell.
    weights
        The weight of each value; their sum need not be 1. If None, all are equal.

    Raises
    ------
    ParameterError
        If a value is not from 0 to 1, or the number of clusters is not the number of values.
    """
    array, cluster = np.asarray(values, float), _numbers(clusters)
    cell = np.zeros(len(array), int) if cells is None else _numbers(cells)
    weight = np.ones(len(array)) if weights is None else np.asarray(weights, float)
    if len(cluster) != len(array):
        raise ParameterError("clusters", len(cluster), f"one for each of {len(array)} values")
    for value in array[~((array >= 0) & (array <= 1))].tolist():
        raise ParameterError("values", value, "from 0 to 1")
    n, count = len(array), len({*cluster.tolist()})
    if not n:
        return Clustered(math.nan, 0, 0, math.nan, math.nan, 0.0, 1.0)
    mean = float((weight * array).sum() / weight.sum())
    weight = weight / weight.sum()
    rates = np.bincount(cell, array) / np.bincount(cell)
    away = array - rates[cell]
    # The mean of equal values may differ from them in the last digit.
    away[np.abs(away) < 1e-12] = 0
    # Each of J cells loses 1 - 1/J of its clusters, because its own mean is subtracted.
    of_cell = np.bincount([at for at, _ in {*zip(cell.tolist(), cluster.tolist(), strict=True)}])
    away *= weight * np.sqrt(of_cell / (of_cell - 1 + 1 / len(rates)))[cell]
    together = float((np.bincount(cluster, away) ** 2).sum())
    independent = float((away**2).sum())
    if count == 1:
        low, high = _wilson(mean, 1, Z) if n == 1 else (0.0, 1.0)
        return Clustered(mean, n, 1, math.nan, math.nan, low, high)
    error = math.sqrt(count / (count - 1) * together)
    effect = error**2 / (n / (n - 1) * independent) if independent else math.nan
    # The variance of the mean as a share of mean * (1 - mean), and the largest such share.
    share = max(1.0, effect) * independent / (mean * (1 - mean)) if independent else 0.0
    largest = float((np.bincount(cluster, weight) ** 2).sum())
    k = float((rates * (1 - rates))[cell].sum())
    worth = (k + 1) / (k * share + largest)
    low, high = _wilson(mean, worth, Z if count == n else float(stdtrit(count - 1, 0.975)))
    return Clustered(mean, n, count, error, effect, low, high)


def _numbers(names: Iterable[Hashable]) -> np.ndarray[Any, Any]:
    """Return the number of each name, from 0 in the order of their first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], int)


def recovered(
    first: tuple[float, float, float], second: tuple[float, float, float], correlation: float
) -> tuple[float, float]:
    """Return the interval of a difference of two means, from the interval of each.

    Zou and Donner 2008, "Construction of Confidence Limits about Effect Measures: A General
    Approach"; Newcombe's method is a special case.

    Parameters
    ----------
    first, second
        The mean and both ends of its interval.
    correlation
        Between the two means.
    """
    (p, p_low, p_high), (q, q_low, q_high) = first, second
    down, up = (p - p_low, q_high - q), (p_high - p, q - q_low)
    low, high = (
        math.sqrt(max(0.0, one**2 - 2 * correlation * one * other + other**2))
        for one, other in (down, up)
    )
    return max(-1.0, p - q - low), min(1.0, p - q + high)
