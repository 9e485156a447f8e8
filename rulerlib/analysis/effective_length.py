"""How long a context a model can use: the effective length, a fitted curve, and samples used.

The effective length is the longest one whose average exceeds a threshold (Hsieh et al. 2024,
"RULER: What's the Real Context Size of Your Long-Context Language Models?", section 4). RULER's
threshold is 85.6 %, the average of Llama-2-7B (chat) at 4K.

>>> str(effective({4096: 95.1, 8192: 93.8, 16384: 83.6}))
'8K'
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.accuracy import tallies
from rulerlib.analysis.averages import BY, Averages, averages
from rulerlib.analysis.combined import Array
from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import even, groups_of, nothing, thousands
from rulerlib.errors import one_of, require
from rulerlib.fields import check
from rulerlib.sequential import THRESHOLD, confidence_sequence, side

READINGS = ("longest", "unbroken")
"""``longest``: the longest length above the threshold; ``unbroken``: the longest with no failure
before it. They differ where a model falls below the threshold and comes back."""

# Two lengths make a line; a third says whether it is one.
_LEAST = 3

_STEPS = 40

ALL_ASKED = "No plan was sequential: all samples were asked."


@dataclass(frozen=True)
class Effective:
    """An effective length, as far as it is known.

    Attributes
    ----------
    length
        The longest length above the threshold, in tokens; None: not even the shortest that was
        measured.
    open
        Whether a longer one might be effective too, because nobody measured it.
    shortest
        The shortest length that was measured.
    """

    length: int | None
    open: bool
    shortest: int

    def __str__(self) -> str:
        if self.length is None:
            return f"<{thousands(self.shortest)}"
        return f"{'≥' if self.open else ''}{thousands(self.length)}"


def effective(
    averages: Mapping[int, float | None], threshold: float = THRESHOLD, reading: str = "longest"
) -> Effective:
    """Return the effective length that follows from the averages.

    An unmeasured length is never guessed: it neither passes nor fails. So the longest measured
    length, if it passes, is only a lower bound: the result is open. By the reading ``longest`` it
    is open until a longer length was measured and failed. By ``unbroken`` it ends at the first
    length that failed, or, open, at the first that was not measured.

    Parameters
    ----------
    averages
        For each length in tokens its average in percent; None or NaN where it was not measured.
    threshold
        What an average has to exceed, in percent.
    reading
        A name in ``READINGS``.

    Raises
    ------
    ParameterError
        If nothing was measured, or there is no such reading.
    """
    one_of("reading", reading, READINGS)
    passed = {
        length: None if value is None or math.isnan(value) else bool(even(value) > even(threshold))
        for length, value in averages.items()
    }
    measured = any(above is not None for above in passed.values())
    require(measured, "averages", dict(averages), "measured at one length at least")
    return _reached(passed, reading)


def _reached(passed: Mapping[int, bool | None], reading: str) -> Effective:
    """Return the effective length, given which lengths passed; None where nobody measured it."""
    lengths = sorted(passed)
    shortest = next(length for length in lengths if passed[length] is not None)
    reached = [length for length in lengths if passed[length]]
    if reading == "unbroken":
        reached = list(takewhile(passed.get, lengths[lengths.index(shortest) :]))
    if not reached:
        return Effective(None, False, shortest)
    # What a reading would have met next decides whether it might have gone on.
    after = lengths[lengths.index(reached[-1]) + 1 :][: 1 if reading == "unbroken" else None]
    return Effective(reached[-1], all(passed[length] is None for length in after), shortest)


def effective_lengths(
    table: pd.DataFrame,
    threshold: float = THRESHOLD,
    measure: str = "ruler",
    of_shortest: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """Return the effective length of each model in each language, with its interval.

    The interval is that of 95 % of draws of what the averages may truly be, at the lengths that
    were measured, see `rulerlib.analysis.averages.Averages`: a model whose average lies near the
    threshold has no sharp effective length.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    threshold
        What an average has to exceed, in percent.
    measure
        See `rulerlib.analysis.averages.averages`.
    of_shortest
        Whether the threshold is a percentage of the model's own average at the shortest length, as
        in NoLiMa (Modarressi et al. 2025), where it is 85.
    options
        ``tasks``, ``resamples`` and ``seed``, see there.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``reading``, ``effective`` (as text: ``<4K``, ``16K``, ``≥32K``),
        ``length`` (NaN: none), ``open``, ``low`` and ``high`` (as text), ``threshold``, and
        ``shares``: for each outcome its share of the draws, 0 to 1. An empty table that says why
        where no length was asked all tasks.

    Raises
    ------
    ParameterError
        If the threshold is no percentage below 100, the table is empty, or another parameter
        cannot work.
    """
    check(threshold=threshold)
    rows = [
        {**one.names, **row}
        for one in averages(table, measure, **options)
        for row in readings(one, threshold * (_base(one) / 100 if of_shortest else 1))
    ]
    if not rows:
        return nothing("At no length was every task asked, so no average can be held against it.")
    return pd.DataFrame(rows)


def _base(one: Averages) -> float:
    """Return a model's average at the shortest length that was measured, in percent."""
    return float(next(iter(one.averages[one.measured]), 0))


def readings(one: Averages, threshold: float) -> list[dict[str, Any]]:
    """Return a row of `effective_lengths` for each reading; none where no length has an average."""
    if not one.measured.any():
        return []
    averages = dict(zip(one.lengths, one.averages.tolist(), strict=True))
    # Few patterns of lengths above the threshold come up, and each of them often.
    patterns, counts = np.unique(even(one.resampled) > even(threshold), axis=0, return_counts=True)
    rows = []
    for reading in READINGS:
        times: Counter[Effective] = Counter()
        for above, count in zip(patterns.tolist(), counts.tolist(), strict=True):
            cells = zip(one.lengths, above, one.measured, strict=True)
            passed = {length: over if measured else None for length, over, measured in cells}
            times[_reached(passed, reading)] += count
        rising = sorted(times, key=lambda outcome: outcome.length or 0)
        drawn = [str(outcome) for outcome in rising for _ in range(times[outcome])]
        ends = np.quantile(range(len(drawn)), [0.025, 0.975], method="inverted_cdf")
        low, high = (drawn[int(end)] for end in ends)
        reached = effective(averages, threshold, reading)
        length = math.nan if reached.length is None else float(reached.length)
        rows.append(
            {"reading": reading, "effective": str(reached), "length": length,
             "open": reached.open, "low": low, "high": high, "threshold": threshold,
             "shares": {str(outcome): times[outcome] / len(drawn) for outcome in rising}}
        )  # fmt: skip
    return rows


# --- A curve of accuracy over length ----------------------------------------------------------


def fitted_lengths(table: pd.DataFrame, measure: str = "ruler", **options: Any) -> pd.DataFrame:
    """Return for each model the length at which a fitted curve falls to 50 %.

    The effective length is one of the lengths that were measured. The curve stands beside it: a
    logistic function of the logarithm of the length, ``1 / (1 + exp(-(a + b log2 length)))``, which
    falls from 100 % to 0, fitted to a model's averages by likelihood. Its 50 % point lies between
    the measured lengths, and uses all of them. A model whose averages do not fall in this way has
    none that means anything; ``misfit`` says by how much the curve misses them.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    measure
        See `rulerlib.analysis.averages.averages`.
    options
        ``tasks``, ``resamples`` and ``seed``, see there.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``level`` (50), ``length`` in tokens (NaN outside of the lengths
        that were measured, where a curve is a guess), ``fitted`` (as text: ``12.3K``, ``>32K``,
        ``<4K``), ``low`` and ``high``: its 95 % interval, as text, from curves through draws of the
        averages; ``per_doubling``: points that the curve falls with each doubling where it crosses
        50 %; ``misfit``: by how many points the curve misses the averages at most; ``lengths``.
        Models with fewer than three lengths are left out; an empty table says so.

    Raises
    ------
    ParameterError
        If the table is empty, or a parameter cannot work.
    """
    rows = [
        {**one.names, "level": 50.0, **_fitted(one)}
        for one in averages(table, measure, **options)
        if one.measured.sum() >= _LEAST
    ]
    return pd.DataFrame(rows) if rows else nothing(
        f"A curve needs averages at {_LEAST} lengths at least."
    )  # fmt: skip


def _fitted(one: Averages) -> dict[str, Any]:
    """Return the curve of one model, as a row."""
    lengths = np.array(one.lengths)[one.measured]
    curve = curve_of(one, one.averages[None])
    drawn = crossing(curve_of(one, one.resampled))
    length = float(crossing(curve)[0])
    low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
    chances = 1 / (1 + np.exp(-(curve[0, 0] + curve[0, 1] * np.log2(lengths))))
    within = lengths[0] <= length <= lengths[-1]
    return {
        "length": length if within else math.nan, "fitted": _text(length, lengths),
        "low": _text(float(low), lengths), "high": _text(float(high), lengths),
        "per_doubling": round(float(-25 * curve[0, 1]), 9) + 0.0,
        "misfit": float(100 * np.abs(chances - one.averages[one.measured] / 100).max()),
        "lengths": len(lengths),
    }  # fmt: skip


def curve_of(one: Averages, rows: Array) -> Array:
    """Return the curves through rows of a model's averages in percent, see `fit`."""
    at = one.measured
    # To how many answers to a single task the average at each length is worth.
    inner = (one.rates * one.sizes + 0.5) / (one.sizes + 1)
    variance = (inner * (1 - inner) / one.sizes).sum(axis=0) / len(one.rates) ** 2
    mean = inner.mean(axis=0)
    return fit(np.array(one.lengths)[at], rows[:, at] / 100, (mean * (1 - mean) / variance)[at])


def fit(lengths: Array, shares: Array, sizes: Array) -> Array:
    """Return the curves of several rows of averages: rows x 2, the level and slope.

    The curve is ``a + b log2(length)`` on the scale of log odds. Half an answer is added on both
    sides of each average, which keeps the slope finite where all are 0 or 1. All rows are fitted
    at once, which no fit of a package does: there is one for each draw.

    >>> curve = fit(np.array([4096, 8192, 16384, 32768]), np.array([[0.98, 0.9, 0.5, 0.1]]),
    ...             np.full(4, 100.0))
    >>> np.round(crossing(curve)).tolist()
    [16279.0]

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
    targets = (shares * sizes + 0.5) / weights
    # A start near the end: the line through the log odds.
    odds = np.log(targets / (1 - targets))
    curves = np.linalg.lstsq(design, odds.T, rcond=None)[0].T
    for _ in range(_STEPS):
        chances = 1 / (1 + np.exp(-np.clip(curves @ design.T, -30, 30)))
        slopes = (weights * (targets - chances)) @ design
        curvature = np.einsum("rl,li,lj->rij", weights * chances * (1 - chances), design, design)
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), slopes[:, :, None])[:, :, 0]
        curves = curves + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-10:
            break
    return np.column_stack([curves[:, 0] - curves[:, 1] * centre, curves[:, 1]])


def crossing(curves: Array) -> Array:
    """Return the length at which each curve falls to 50 %, in tokens.

    Infinite where a curve does not fall and lies above 50 % at 2^20 tokens, 0 where it lies below.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.clip(-curves[:, 0] / curves[:, 1], 0, 60)
    above = curves[:, 0] + 20 * curves[:, 1] > 0
    return np.where(curves[:, 1] < -1e-9, 2**places, np.where(above, math.inf, 0.0))


def _text(length: float, lengths: Sequence[int] | Array) -> str:
    """Return a length as text, in thousands of 1,024; beyond those measured, only on which side."""
    shortest, longest = int(lengths[0]), int(lengths[-1])
    if length < shortest:
        return f"<{thousands(shortest)}"
    if length > longest:
        return f">{thousands(longest)}"
    return f"{length / 1024:.3g}K" if length >= 1024 else f"{length:.0f}"


# --- Sequential plans -------------------------------------------------------------------------


def samples_used(table: pd.DataFrame, threshold: float = THRESHOLD) -> pd.DataFrame:
    """Return how many samples sequential plans used, and where the averages lie.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    threshold
        What an average of RULER's measure has to exceed, in percent.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``length``, ``tasks``; ``n``, the samples that were asked;
        ``planned``, those that a fixed design would have asked; ``used``, how many percent of
        these; ``average``, ``low`` and ``high``, in percent, see
        `rulerlib.sequential.confidence_sequence`; and whether the average is ``"above"`` or
        ``"below"`` the threshold, or ``"undecided"``. Lengths at which all tasks were asked by a
        fixed design are left out; an empty table says that there are no others.

    Raises
    ------
    ParameterError
        If the threshold is no percentage below 100.
    """
    check(threshold=threshold)
    if "planned" not in table or table["planned"].isna().all():
        return nothing(ALL_ASKED, [*BY, "length", "n", "planned"])
    rows = []
    for names, part in groups_of(of_measure(table, "ruler"), (*BY, "length")):
        if part["planned"].isna().all():
            continue
        drawn = [draws for _, draws in tallies(part)]
        low, high = confidence_sequence(drawn)
        n = len(part.drop_duplicates(["task", "index"]))
        by_task = part.groupby("task", sort=False)
        # A task that was asked by a fixed design was asked all of its samples.
        planned = int(by_task["planned"].max().fillna(by_task["index"].nunique()).sum())
        rows.append({
            **names, "tasks": len(drawn), "n": n, "planned": planned, "used": 100 * n / planned,
            "average": 100 * math.fsum(total / count for total, count in drawn) / len(drawn),
            "low": 100 * low, "high": 100 * high,
            "average is": side(drawn, threshold) or "undecided",
        })  # fmt: skip
    return pd.DataFrame(rows)
