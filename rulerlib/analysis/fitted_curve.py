"""A curve of accuracy over length, and the length at which it crosses 50 %.

The effective length is one of the lengths that were measured. The curve stands beside it: a
logistic function of the logarithm of the length, ``1 / (1 + exp(-(a + b log2 length)))``, which
falls from 100 % to 0, fitted to a model's averages by likelihood. Its 50 % point lies between the
measured lengths, and uses all of them. A model whose averages do not fall in this way has none
that means anything; ``misfit`` says by how much the curve misses them.

>>> averages = np.array([[0.98, 0.9, 0.5, 0.1]])
>>> curve = fit(np.array([4096, 8192, 16384, 32768]), averages, np.full(4, 100.0))
>>> np.round(crossing(curve, 0.5)).tolist()
[16279.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.averages import Averages, averages
from rulerlib.analysis.combined import Array
from rulerlib.analysis.tables import nothing, thousands
from rulerlib.errors import is_number, require

LEVEL = 50.0

# Two make a line; a third says whether it is one.
LEAST = 3

_STEPS = 40


def fit(lengths: Array, shares: Array, sizes: Array) -> Array:
    """Return the curves of several rows of averages: rows x 2, the level and slope.

    The curve is ``a + b log2(length)`` on the scale of log odds. Half an answer is added on both
    sides of each average, which keeps the slope finite where all are 0 or 1.

    Parameters
    ----------
    lengths
        In tokens.
    shares
        Rows x lengths: averages, 0 to 1.
    sizes
        To how many answers each length is worth.
    """
    places = np.log2(np.asarray(lengths, dtype=float))
    centre = places.mean()
    design = np.column_stack([np.ones(len(places)), places - centre])
    weights = sizes + 1
    wanted = (shares * sizes + 0.5) / weights
    # A start near the end: the line through the log odds.
    odds = np.log(wanted / (1 - wanted))
    curves = np.linalg.lstsq(design, odds.T, rcond=None)[0].T
    for _ in range(_STEPS):
        chances = 1 / (1 + np.exp(-np.clip(curves @ design.T, -30, 30)))
        slopes = (weights * (wanted - chances)) @ design
        curvature = np.einsum("rl,li,lj->rij", weights * chances * (1 - chances), design, design)
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), slopes[:, :, None])[:, :, 0]
        curves = curves + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-10:
            break
    return np.column_stack([curves[:, 0] - curves[:, 1] * centre, curves[:, 1]])


def crossing(curves: Array, level: float) -> Array:
    """Return the length at which each curve falls to a level, in tokens.

    Infinite where a curve does not fall and lies above the level at 2^20 tokens, 0 where it lies
    below.
    """
    wanted = math.log(level / (1 - level))
    falls = curves[:, 1] < -1e-9
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.clip((wanted - curves[:, 0]) / curves[:, 1], 0, 60)
    above = curves[:, 0] + 20 * curves[:, 1] > wanted
    return np.where(falls, 2**places, np.where(above, math.inf, 0.0))


def fitted_lengths(
    table: pd.DataFrame, level: float = LEVEL, measure: str = "ruler", **options: Any
) -> pd.DataFrame:
    """Return for each model the length at which a fitted curve falls to a level.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    level
        In percent; 50: the middle of the curve, where it is known best.
    measure
        See `rulerlib.analysis.averages.averages`.
    options
        ``by``, ``tasks``, ``resamples`` and ``seed``, see there.

    Returns
    -------
    DataFrame
        ``by``, ``level``, ``length`` in tokens (NaN outside of the lengths that were measured,
        where a curve is a guess), ``fitted`` (as text: ``12.3K``, ``>32K``, ``<4K``), ``low`` and
        ``high``: its 95 % interval, as text, from curves through draws of the averages;
        ``per_doubling``: points that the curve falls with each doubling where it crosses 50 %;
        ``misfit``: by how many points the curve misses the averages at most; ``lengths``. Models
        with fewer than three lengths are left out; an empty table says so.

    Raises
    ------
    ParameterError
        If the level is not between 0 and 100, the table is empty, or another parameter cannot
        work.
    """
    holds = is_number(level) and 0 < level < 100
    require(holds, "level", level, "a number above 0 and below 100, in percent")
    rows = [
        {**one.names, "level": float(level), **_fitted(one, level)}
        for one in averages(table, measure, **options)
        if (~np.isnan(one.averages)).sum() >= LEAST
    ]
    if not rows:
        return nothing(f"A curve needs averages at {LEAST} lengths at least.")
    return pd.DataFrame(rows)


def _fitted(one: Averages, level: float) -> dict[str, Any]:
    """Return the curve of one model, as a row."""
    known = ~np.isnan(one.averages)
    lengths = np.array(one.lengths)[known]
    measured = one.averages[known] / 100
    curve = curve_of(one, one.averages[None])
    drawn = crossing(curve_of(one, one.resampled), level / 100)
    found = float(crossing(curve, level / 100)[0])
    low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
    chances = 1 / (1 + np.exp(-(curve[0, 0] + curve[0, 1] * np.log2(lengths))))
    within = lengths[0] <= found <= lengths[-1]
    return {
        "length": found if within else math.nan, "fitted": _text(found, lengths),
        "low": _text(float(low), lengths), "high": _text(float(high), lengths),
        "per_doubling": round(float(-25 * curve[0, 1]), 9) + 0.0,
        "misfit": float(100 * np.abs(chances - measured).max()), "lengths": int(known.sum()),
    }  # fmt: skip


def curve_of(one: Averages, rows: Array) -> Array:
    """Return the curves through rows of a model's averages in percent, see `fit`."""
    known = ~np.isnan(one.averages)
    return fit(np.array(one.lengths)[known], rows[:, known] / 100, _sizes(one)[known])


def _sizes(one: Averages) -> Array:
    """Return to how many answers to a single task the average at each length is worth."""
    inner = (one.rates * one.sizes + 0.5) / (one.sizes + 1)
    variance = (inner * (1 - inner) / one.sizes).sum(axis=0) / len(one.rates) ** 2
    mean = inner.mean(axis=0)
    return np.asarray(mean * (1 - mean) / variance)


def _text(length: float, lengths: Sequence[int] | Array) -> str:
    """Return a length as text, in thousands of 1,024; beyond those measured, only on which side."""
    shortest, longest = int(lengths[0]), int(lengths[-1])
    if length < shortest:
        return f"<{thousands(shortest)}"
    if length > longest:
        return f">{thousands(longest)}"
    return f"{length / 1024:.3g}K" if length >= 1024 else f"{length:.0f}"
