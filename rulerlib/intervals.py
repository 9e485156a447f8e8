"""The interval around a mean: Wilson's, and one for answers that come in clusters.

>>> low, high = wilson(9, 10)
>>> round(low, 3), round(high, 3)
(0.596, 0.982)
>>> mean = clustered([1, 1, 1, 1, 0, 0, 1, 1], clusters=[0, 0, 1, 1, 2, 2, 3, 3])
>>> mean.mean, round(mean.design_effect, 2), round(mean.low, 2), round(mean.high, 2)
(0.75, 2.33, 0.15, 0.98)
>>> print(mean)
0.750, standard error 0.250 (8 values in 4 clusters)
>>> print(clustered([1, 0], clusters=["a", "a"]))
0.500, no standard error, for all 2 values are of one cluster
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from rulerlib import packages
from rulerlib.errors import require


def wilson(successes: float, n: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a proportion.

    The formula is that of Wilson 1927, "Probable Inference, the Law of Succession, and
    Statistical Inference". The interval also holds for the mean of values between 0 and 1, such
    as recall, and is then too wide rather than too narrow: their variance is at most p(1 - p).
    `clustered` takes their own variance.

    Parameters
    ----------
    successes
        Sum of the values, 0 to ``n``.
    n
        Number of independent samples.

    Returns
    -------
    low, high
        From 0 to 1. (0, 1) where nothing was measured, so that a plot shows that nothing is
        known.

    Raises
    ------
    ParameterError
        If ``successes`` is not from 0 to ``n``.
    """
    return _score_interval(successes, n, NormalDist().inv_cdf(0.975))


def _score_interval(successes: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval at a critical value ``z``; ``n`` need not be a whole number."""
    require(0 <= successes <= n, "successes", successes, f"from 0 to n ({n})")
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    centre = p + z * z / (2 * n)
    spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At the ends the formula is exactly 0 or 1, and rounding would miss it.
    low = 0.0 if successes == 0 else (centre - spread) / scale
    high = 1.0 if successes == n else (centre + spread) / scale
    return max(0.0, low), min(1.0, high)


@dataclass(frozen=True)
class Clustered:
    """A mean of values that come in clusters, such as the questions on one context.

    Attributes
    ----------
    mean, n, clusters
        The mean, the number of values, and the number of clusters that they come in.
    standard_error
        Of the mean, robust to any dependence within a cluster. NaN with one cluster, which says
        nothing about how clusters differ.
    design_effect
        The variance of the mean, divided by what it would be for ``n`` independent values (Kish
        1965): ``n / design_effect`` independent values would give the same standard error. NaN
        where it cannot be estimated: one cluster, or values that are all the same.
    low, high
        The confidence interval, within 0 and 1.
    worth
        How many independent right-or-wrong answers would give the same interval; 0 where nothing
        is known: no values, or several of one cluster.
    freedom
        The degrees of freedom of Student's t in the interval; infinite where its quantile is the
        normal one, for independent values that are all 0 or 1.
    """

    mean: float
    n: int
    clusters: int
    standard_error: float
    design_effect: float
    low: float
    high: float
    worth: float = 0.0
    freedom: float = math.inf

    def __str__(self) -> str:
        """Return the mean and its standard error in words, or why there is none."""
        if not self.n:
            return "no mean, for there are no values"
        if self.clusters == 1:
            of_one = f"all {self.n} values are" if self.n > 1 else "its value is"
            return f"{self.mean:.3f}, no standard error, for {of_one} of one cluster"
        among = f"({self.n} values in {self.clusters} clusters)"
        return f"{self.mean:.3f}, standard error {self.standard_error:.3f} {among}"


def clustered(values: Sequence[float], clusters: Sequence[Hashable]) -> Clustered:
    """Return the mean of values from 0 to 1 that come in clusters, and its 95 % interval.

    Values of one cluster may depend on each other; clusters are independent.

    The standard error is that of Miller 2024, "Adding Error Bars to Evals" (section 2.2), with
    the finite-cluster correction G / (G - 1) for G clusters, as regression packages have it
    (Cameron and Miller 2015, "A Practitioner's Guide to Cluster-Robust Inference", section II.C)::

        SE^2 = G / (G - 1) * sum over clusters of (sum over its values of (value - mean))^2 / n^2

    The interval is Wilson's, computed as if there were ``n / design effect`` independent values.
    Student's t with G - 1 degrees of freedom takes the place of the normal quantile (as in
    Korn and Graubard 1998 and Dean and Pagano 2015, for surveys). The usual ``mean +- 2 SE``
    would leave 0 to 1, and would shrink to a point where every answer is right.

    Where every answer is right (or wrong), the data say nothing about the design effect, and
    where nearly every one is, they say little. So the interval takes a mean of two: the
    estimated design effect, and the largest that it can be, m = ``sum of squared sizes / n``,
    which is reached where all answers of a cluster are alike. The first has the weight
    k = n * mean * (1 - mean), the second the weight 1: ``(k * design effect + m) / (k + 1)``.
    Where every answer is right, the answers then count as no more independent values than there
    are clusters; where many are right and many are wrong, m hardly matters. An estimate below 1
    is taken as 1, so that no interval is narrower than that of independent values.

    Where every cluster has one value, 0 or 1, the interval is `wilson`'s own. Other values, such
    as recall, vary less than right-or-wrong answers with the same mean. Then the interval is
    Wilson's for the number of answers that would give the same standard error, ``n / v``, where v
    is the variance of the values as a share of mean * (1 - mean). Here, too, the data say little
    where nearly all values are alike, and v is a mean of two: the estimate with the weight k, and
    1, its largest value, with the weight 1/2. So this interval is never wider than Wilson's for
    ``n`` answers.

    A single cluster of several values tells nothing of other clusters, and its interval is 0 to 1.

    Parameters
    ----------
    values
        From 0 to 1.
    clusters
        For each value the name of its cluster.

    Raises
    ------
    ParameterError
        If a value is not from 0 to 1, or there are not as many clusters as values.
    """
    same = len(values) == len(clusters)
    require(same, "clusters", len(clusters), f"one for each of {len(values)} values")
    different = {*values}
    for value in different:
        require(0 <= value <= 1, "values", value, "from 0 to 1")
    n = len(values)
    if not n:
        return Clustered(math.nan, 0, 0, math.nan, math.nan, 0.0, 1.0)
    mean = math.fsum(values) / n
    count, binary = len({*clusters}), different <= {0, 1}
    if count == 1:
        low, high = wilson(mean, 1) if n == 1 else (0.0, 1.0)
        worth, freedom = (1.0, math.inf) if n == 1 else (0.0, 0.0)
        return Clustered(mean, n, 1, math.nan, math.nan, low, high, worth, freedom)
    squares = math.fsum((value - mean) ** 2 for value in values)
    sums: dict[Hashable, float] = defaultdict(float)
    sizes: dict[Hashable, int] = defaultdict(int)
    if count < n:
        for value, cluster in zip(values, clusters, strict=True):
            sums[cluster] += value - mean
            sizes[cluster] += 1
    together = squares if count == n else math.fsum(total**2 for total in sums.values())
    variance = count / (count - 1) * together / n**2
    independent = squares / (n * (n - 1))
    # Not a comparison with zero: the mean of equal values may be off by its last digit.
    varied = len(different) > 1
    effect = variance / independent if varied else math.nan
    error = math.sqrt(variance) if varied else 0.0
    telling = n * mean * (1 - mean)
    # Values between 0 and 1 vary less than right-or-wrong answers of the same mean.
    less = 1.0
    if varied and not binary:
        less = min(1.0, independent * n / (mean * (1 - mean)))
    if count == n:
        worth = float(n) if less == 1 else n * (telling + 0.5) / (telling * less + 0.5)
        quantile, freedom = NormalDist().inv_cdf(0.975), math.inf
    else:
        most = sum(size**2 for size in sizes.values()) / n
        taken = (telling * max(1.0, effect) * less + most) / (telling + 1) if varied else most
        worth = n / taken
        quantile, freedom = student(0.975, count - 1), count - 1.0
    low, high = _score_interval(min(worth, mean * worth), worth, quantile)
    return Clustered(mean, n, count, error, effect, low, high, worth, freedom)


def recovered(
    first: tuple[float, float, float], second: tuple[float, float, float], correlation: float
) -> tuple[float, float]:
    """Return the interval of a difference of two means, from the interval of each.

    The method of variance estimates recovery (Zou and Donner 2008, "Construction of Confidence
    Limits about Effect Measures: A General Approach"), of which Newcombe's is a case.

    Parameters
    ----------
    first, second
        A mean and both ends of its interval.
    correlation
        Of the two means, over samples.
    """

    def reach(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))

    (p, p_low, p_high), (q, q_low, q_high) = first, second
    low = p - q - reach(p - p_low, q_high - q)
    high = p - q + reach(p_high - p, q - q_low)
    return max(-1.0, low), min(1.0, high)


def student(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t at a probability; ``freedom``: degrees, at least 1."""
    return float(
        packages.load("scipy.special", "notebook", "An interval").stdtrit(freedom, probability)
    )
