"""The interval of a weighted mean of several rates: an average over tasks, or over lengths too.

Wilson's interval holds the rates that an answer count does not contradict. Here is the same for
the mean of several rates, each measured with answers of its own: for every value that the mean
could have, the rates that are most likely and have this mean are found, and the value is
within the interval if the measured mean lies at most 1.96 standard errors away, as these
rates have them. With one rate it is Wilson's interval.

It is the score interval of a stratified sample (Miettinen and Nurminen 1985, "Comparative
Analysis of Two Rates", for differences; Yan and Su 2010, "Stratified Wilson and Newcombe
Confidence Intervals for Multiple Binomial Proportions", for sums). To draw each rate from a
posterior of its own would not do: of thirteen tasks with twenty answers, all right, each
draw would be a little below 100 %, and their mean would never come near it.

>>> low, high = interval(np.ones(13), np.full(13, 20.0), np.full(13, 1 / 13))
>>> round(low, 3), round(high, 3)
(0.985, 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from rulerlib.intervals import Clustered, student

Array = np.ndarray[Any, Any]

# How often the search halves what is left, of a share of 1.
_HALVINGS = 42

# Draws are looked up among these standard errors; one beyond them is one of 10^9.
_QUANTILES = np.concatenate([np.linspace(0, 3, 61), np.linspace(3.25, 6, 12)])


def interval(
    rates: Array,
    sizes: Array,
    weights: Array,
    correlation: Array | None = None,
    freedom: Array | None = None,
) -> tuple[float, float]:
    """Return the interval of a weighted mean of rates.

    Parameters
    ----------
    rates
        What was measured, 0 to 1: one for each task, or tasks x lengths.
    sizes
        To how many independent right-or-wrong answers each is worth, above 0.
    weights
        Of each in the mean, above 0, with the sum 1.
    correlation
        Lengths x lengths: how the rates of one task depend on each other, because the
        same samples are asked at all lengths; None: not at all.
    freedom
        Degrees of freedom of each where its variance was estimated, see `size_of`; None: it
        follows from the rates.
    """
    grid = _grid(rates, sizes, weights, freedom)
    quantile = student(0.975, _freedom(*grid))
    low, high = _limits(*grid[:3], np.array([quantile]), correlation)
    return float(low[0]), float(high[0])


def draws(
    rates: Array,
    sizes: Array,
    weights: Array,
    quantiles: Array,
    correlation: Array | None = None,
    freedom: Array | None = None,
) -> Array:
    """Return where a weighted mean of rates stands in its intervals, at each of some quantiles.

    From random quantiles (standard normal) these are draws of what the mean may truly be: 95 %
    of them lie within the interval of 95 %.

    Parameters
    ----------
    rates, sizes, weights, correlation, freedom
        See `interval`.
    quantiles
        Standard errors, negative ones below the measured mean.
    """
    if not len(quantiles):
        return np.zeros(0)
    grid = _grid(rates, sizes, weights, freedom)
    low, high = _limits(*grid[:3], _stretched(_QUANTILES, _freedom(*grid)), correlation)
    places = np.concatenate([-_QUANTILES[:0:-1], _QUANTILES])
    return np.asarray(np.interp(quantiles, places, np.concatenate([low[:0:-1], high])))


def _grid(
    rates: Array, sizes: Array, weights: Array, freedom: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Return all as tasks x lengths, and what sizes are worth around means of their own.

    Where a variance follows from its rate, the rate is the measured one, not the true one, and
    p (1 - p) is too small by its share 1 / size. A single rate has no such loss, for `_limits`
    takes the variance at the end of the interval; of k rates each loses ``1 - 1 / k`` answers.
    """
    given = np.full(np.shape(rates), math.inf) if freedom is None else freedom
    rates, sizes, weights, given = (
        column[:, None] if np.ndim(column) == 1 else column
        for column in (rates, sizes, weights, given)
    )
    loss = np.where(np.isinf(given), 1 - 1 / rates.size, 0)
    return rates, np.maximum(sizes - loss, 1 / rates.size), weights, given


def _limits(
    rates: Array, sizes: Array, weights: Array, quantiles: Array, correlation: Array | None
) -> tuple[Array, Array]:
    """Return both ends of the interval at each quantile."""
    between = np.eye(rates.shape[1]) if correlation is None else correlation
    low = _lowest(rates, sizes, weights, quantiles, between)
    return low, 1 - _lowest(1 - rates, sizes, weights, quantiles, between)


def _lowest(rates: Array, sizes: Array, weights: Array, quantiles: Array, between: Array) -> Array:
    """Return the least mean that is not contradicted, for each quantile."""
    mean = (rates * weights).sum()
    if mean <= 0:
        return np.zeros(len(quantiles))
    # Rates that depend on each other fall together. None rises, however the estimate turns out.
    share = weights / np.sqrt(sizes)
    pull = np.maximum(share @ between, share / 20) / np.sqrt(sizes)
    unit = 1 / pull.mean()
    near, far = np.zeros(len(quantiles)), np.ones(len(quantiles))
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        moved = _moved(rates, unit * middle / np.maximum(1 - middle, 1e-16), pull)
        errors = weights * np.sqrt(np.clip(moved * (1 - moved), 0, None) / sizes)
        variance = ((errors @ between) * errors).sum(axis=(1, 2))
        away = mean - (moved * weights).sum(axis=(1, 2))
        beyond = away > quantiles * np.sqrt(np.clip(variance, 0, None)) + 1e-15
        near, far = np.where(beyond, near, middle), np.where(beyond, middle, far)
    moved = _moved(rates, unit * near / np.maximum(1 - near, 1e-16), pull)
    return np.asarray(np.clip((moved * weights).sum(axis=(1, 2)), 0, mean))


def _moved(rates: Array, multiplier: Array, pull: Array) -> Array:
    """Return the likeliest rates whose mean is lower, more so for a larger Lagrange multiplier.

    Each is the root p of ``rate / p - (1 - rate) / (1 - p) = multiplier * pull``. For independent
    rates ``pull`` is weight / size.
    """
    slope = multiplier[:, None, None] * pull
    root = np.sqrt(np.clip((1 + slope) ** 2 - 4 * slope * rates, 0, None))
    return np.asarray(2 * rates / (1 + slope + root))


def _freedom(rates: Array, sizes: Array, weights: Array, freedom: Array) -> float:
    """Return the degrees of freedom of a weighted mean (Satterthwaite 1946)."""
    # Half an answer more on each side, for rates of 0 and 1 seem to have no variance.
    inner = (rates * sizes + 0.5) / (sizes + 1)
    parts = weights**2 * inner * (1 - inner) / sizes
    estimated = (parts**2 / freedom).sum()
    return max(1.0, float(parts.sum() ** 2 / estimated)) if estimated > 0 else math.inf


def _stretched(quantiles: Array, freedom: float) -> Array:
    """Return normal quantiles, from 0 up, as those of Student's t."""
    if math.isinf(freedom):
        return quantiles
    probabilities = map(NormalDist().cdf, quantiles.tolist())
    return np.asarray([0.0 if p <= 0.5 else student(p, freedom) for p in probabilities])


def size_of(cell: Clustered) -> tuple[float, float]:
    """Return to how many answers a measured mean is worth, above 0, and its degrees of freedom.

    Parameters
    ----------
    cell
        From `rulerlib.intervals.clustered`, of at least one value. Several values of one cluster
        are worth one answer here, with one degree of freedom, so that little is known of an
        average that holds them.
    """
    return cell.worth or 1.0, max(1.0, cell.freedom)


def between_lengths(units: Sequence[tuple[Array, Array]], telling: Array) -> Array:
    """Return how the rates of one task depend on each other over lengths: lengths x lengths.

    The correlation is estimated over all tasks together. Where nearly all answers are alike, the
    data say little about it; then rates count as if samples were right at all lengths or at none.
    The estimate has the weight k, and this has the weight 1.

    Parameters
    ----------
    units
        For each task two arrays, units x lengths: the sum of a unit's values, and how many they
        are. A unit is a sample, or a context where samples share one.
    telling
        k, for each length: over its tasks, the sum of ``size * rate * (1 - rate)``.
    """
    lengths = len(telling)
    covariance, shared = np.zeros((lengths, lengths)), np.zeros((lengths, lengths), dtype=bool)
    for values, number in units:
        total = np.maximum(number.sum(axis=0), 1)
        away = (values - number * (values.sum(axis=0) / total)) / total
        covariance += away.T @ away
        there = (number > 0).astype(float)
        shared |= there.T @ there > 0
    spread = np.sqrt(np.diag(covariance))
    both = np.outer(spread, spread)
    estimated = np.divide(covariance, both, out=np.zeros(both.shape), where=both > 0)
    trusted = np.where(spread > 0, np.sqrt(telling / (telling + 1)), 0.0)
    unknown = np.sqrt(1 - trusted**2)
    correlation = np.outer(trusted, trusted) * estimated + np.outer(unknown, unknown) * shared
    np.fill_diagonal(correlation, 1)
    return np.asarray(correlation)


def root_of(correlation: Array) -> Array:
    """Return a matrix that makes independent standard normal numbers correlated."""
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.clip(values, 0, None))
    # A matrix that is none of correlations, by rounding or by missing units, is brought back.
    return np.asarray(root / np.sqrt(np.maximum((root**2).sum(axis=1, keepdims=True), 1e-12)))
