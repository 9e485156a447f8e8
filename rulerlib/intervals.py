"""Confidence intervals of means and differences, and tests of two models on the same samples.

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
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.special import stdtrit

from rulerlib.errors import ParameterError

Z = NormalDist().inv_cdf(0.975)

Array = np.ndarray[Any, Any]


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
        If a value is not from 0 to 1.
    """
    array, cluster = np.asarray(values, float), _numbers(clusters)
    cell = np.zeros(len(array), int) if cells is None else _numbers(cells)
    weight = np.ones(len(array)) if weights is None else np.asarray(weights, float)
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


def _numbers(names: Iterable[Hashable]) -> Array:
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


def newcombe(both: int, first: int, second: int, neither: int) -> tuple[float, float]:
    """Return the interval of the difference between two proportions of the same samples.

    Method 10 of Newcombe 1998, "Improved confidence intervals for the difference between
    binomial proportions based on paired data", Statistics in Medicine 17: Wilson's intervals of
    the two proportions, combined with their correlation. It stays within -1 and 1.

    Parameters
    ----------
    both, first, second, neither
        The number of samples that both models, only the first, only the second, or neither
        answered correctly.

    Raises
    ------
    ParameterError
        If there are no samples, or a count is negative.
    """
    counts = both, first, second, neither
    n = sum(counts)
    if n == 0 or min(counts) < 0:
        raise ParameterError("counts", counts, "0 or more, not all of them 0")
    ours, theirs = ((hits / n, *wilson(hits, n)) for hits in (both + first, both + second))
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    excess = float(both * neither - first * second)
    if excess > 0:
        # Newcombe's continuity correction.
        excess = max(excess - n / 2, 0)
    return recovered(ours, theirs, excess / math.sqrt(margins) if margins else 0.0)


def holm(chances: Sequence[float]) -> list[float]:
    """Return *p* values corrected for multiple comparisons.

    Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure". If all models are equal,
    a table has any corrected value below 5% in at most 5% of cases.

    Parameters
    ----------
    chances
        The *p* values of one family. NaN stays NaN and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    rising = sorted((p, place) for place, p in enumerate(chances) if not math.isnan(p))
    corrected, largest = [math.nan] * len(chances), 0.0
    for number, (p, place) in enumerate(rising):
        largest = max(largest, min(1.0, (len(rising) - number) * p))
        corrected[place] = largest
    return corrected


def samples_needed(difference: float, variance: float) -> float:
    """Return the number of samples that detect a difference with a power of 80%.

    n = (z(0.975) + z(0.8))^2 * variance / difference^2 (Miller 2024, section 5, equation 9, with
    one answer for each question).

    Parameters
    ----------
    difference
        Between the two means, 0 to 1.
    variance
        Of the differences between samples.

    Returns
    -------
    float
        A whole number, at least 2; infinite if the difference is 0; NaN if the variance is NaN.

    >>> samples_needed(0.05, 0.10)
    314.0
    """
    if difference == 0:
        return math.inf
    if math.isnan(variance):
        return math.nan
    z = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
    return float(max(2, math.ceil(z**2 * variance / difference**2)))


def by_signs(moves: Array, resamples: int, rng: np.random.Generator) -> float:
    """Return the *p* value of a sign test (a paired permutation test).

    If two models are equal, each difference is as likely with the other sign. The *p* value is
    the share of assignments of signs whose sum is at least as far from 0 as the observed one:
    of all assignments if there are at most ``resamples``, else of as many random ones.

    Parameters
    ----------
    moves
        The difference of each sample, or of each context if samples share it.

    >>> by_signs(np.array([1.0, 1, 1, 1, 0, -1]), 2000, np.random.default_rng(0))
    0.375
    """
    moves = moves[np.abs(moves) > 1e-12]
    if not len(moves):
        return 1.0
    # Sums of the same numbers may differ in their last digit.
    observed = abs(moves.sum()) - 1e-9 * np.abs(moves).sum()
    if 2 ** len(moves) <= resamples:
        signs = np.array(list(product((-1, 1), repeat=len(moves))))
        return float((np.abs(signs @ moves) >= observed).mean())
    signs = rng.choice(np.array([-1, 1], dtype=np.int8), (resamples, len(moves)))
    # The observed assignment counts as well, so that p is never 0.
    return float(((np.abs(signs @ moves) >= observed).sum() + 1) / (resamples + 1))
