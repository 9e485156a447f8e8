"""The effective length: the longest one whose average exceeds a threshold.

Hsieh et al. 2024, "RULER: What's the Real Context Size of Your Long-Context Language Models?",
section 4. RULER's threshold is 85.6%, the average of Llama-2-7B (chat) at 4K.

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

from rulerlib.analysis.accuracy import RESAMPLES
from rulerlib.analysis.averages import Averages, averages
from rulerlib.analysis.scores import nothing
from rulerlib.errors import ParameterError, number, one_of, whole_number
from rulerlib.labels import thousands

THRESHOLD = 85.6
"""RULER's threshold, in percent."""

READINGS = ("longest", "unbroken")
"""``longest``: the longest length above the threshold; ``unbroken``: the longest with no failure
before it. They differ if a model falls below the threshold and comes back."""


def even(values: Any) -> Any:
    """Return numbers rounded to 9 decimals, so that rounding errors do not decide a comparison.

    >>> mean = 100 * np.mean([0.4, 0.7])
    >>> bool(mean > 55), bool(even(mean) > 55)
    (True, False)
    """
    return np.round(values, 9)


@dataclass(frozen=True)
class Effective:
    """An effective length, as far as it is known.

    Attributes
    ----------
    length
        In tokens; None if not even the shortest measured length is above the threshold.
    open
        Whether a longer one, which was not measured, might be effective too.
    shortest
        The shortest measured length.
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

    A length that was not measured neither passes nor fails. If the longest measured length
    passes, the result is a lower bound (``open``). The reading ``unbroken`` ends at the first
    length that failed or, as a lower bound, at the first that was not measured.

    Parameters
    ----------
    averages
        For each length in tokens its average in percent; None or NaN if it was not measured.
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
    if all(above is None for above in passed.values()):
        raise ParameterError("averages", dict(averages), "measured at one length at least")
    return _reached(passed, reading)


def _reached(passed: Mapping[int, bool | None], reading: str) -> Effective:
    """Return the effective length, given which lengths passed; None if not measured."""
    lengths = sorted(passed)
    shortest = next(length for length in lengths if passed[length] is not None)
    reached = [length for length in lengths if passed[length]]
    if reading == "unbroken":
        reached = list(takewhile(passed.get, lengths[lengths.index(shortest) :]))
    if not reached:
        return Effective(None, False, shortest)
    after = [length for length in lengths if length > reached[-1]]
    if reading == "unbroken":
        after = after[:1]
    return Effective(reached[-1], all(passed[length] is None for length in after), shortest)


def effective_lengths(
    table: pd.DataFrame,
    threshold: float = THRESHOLD,
    measure: str = "ruler",
    of_shortest: bool = False,
    tasks: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the effective length of each model in each language, with its interval.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    threshold
        What an average has to exceed, in percent.
    measure, tasks
        See `rulerlib.analysis.averages.averages`.
    of_shortest
        Whether the threshold is a percentage of the model's own average at the shortest length, as
        in NoLiMa (Modarressi et al. 2025), which uses 85.
    resamples, seed
        The number of bootstrap samples, and the seed of their random numbers.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``reading``, ``effective`` (as text: ``<4K``, ``16K``, ``≥32K``),
        ``length`` (NaN: none), ``open``; ``low`` and ``high`` (as text), the effective lengths if
        each average were at the low or the high end of its 95% interval; ``threshold``; and
        ``shares``: for each outcome its share of the bootstrap samples, in which contexts are drawn
        with replacement. An empty table if no length has an average.

    Raises
    ------
    ParameterError
        If the threshold is not a percentage below 100, the table is empty, or another parameter
        cannot work.
    """
    number("threshold", threshold, 0, 99.99)
    whole_number("resamples", resamples, 1)
    whole_number("seed", seed, 0)
    rows = []
    for one in averages(table, measure, tasks):
        base = float(one.averages[one.measured[0]]) if of_shortest and one.measured else 100.0
        limit = threshold * (base / 100)
        drawn = one.resampled(resamples, seed) if one.measured else None
        for row in readings(one, limit):
            row["threshold"], row["shares"] = limit, _shares(one, drawn, limit, row["reading"])
            rows.append({**one.names, **row})
    if not rows:
        return nothing("At no length were all tasks asked, so there is no average to compare.")
    return pd.DataFrame(rows)


def readings(one: Averages, threshold: float) -> list[dict[str, Any]]:
    """Return the effective length and its interval for each reading; [] without any average."""
    if not one.measured:
        return []
    intervals = {length: one.interval({length: 1}) for length in one.measured}
    lows = {length: intervals.get(length, (math.nan,))[0] for length in one.averages}
    highs = {length: intervals.get(length, (math.nan,))[-1] for length in one.averages}
    rows = []
    for reading in READINGS:
        reached = effective(one.averages, threshold, reading)
        rows.append({
            "reading": reading, "effective": str(reached),
            "length": math.nan if reached.length is None else float(reached.length),
            "open": reached.open, "low": str(effective(lows, threshold, reading)),
            "high": str(effective(highs, threshold, reading)),
        })  # fmt: skip
    return rows


def _shares(one: Averages, drawn: Any, threshold: float, reading: str) -> dict[str, float]:
    """Return for each effective length its share of the bootstrap samples."""
    # There are few patterns of lengths above the threshold, and each of them comes up often.
    patterns, counts = np.unique(even(drawn) > even(threshold), axis=0, return_counts=True)
    unmeasured: dict[int, bool | None] = dict.fromkeys(one.averages)
    times: Counter[Effective] = Counter()
    for above, count in zip(patterns.tolist(), counts.tolist(), strict=True):
        times[_reached({**unmeasured, **dict(zip(one.measured, above, strict=True))}, reading)] += (
            count
        )
    rising = sorted(times, key=lambda outcome: outcome.length or 0)
    return {str(outcome): times[outcome] / len(drawn) for outcome in rising}
