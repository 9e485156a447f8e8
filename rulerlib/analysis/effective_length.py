"""How long a context a model can use: the effective length, and the samples that plans used.

The effective length is the longest one whose average exceeds a threshold (Hsieh et al. 2024,
"RULER: What's the Real Context Size of Your Long-Context Language Models?", section 4). RULER's
threshold is 85.6 %, the average of Llama-2-7B (chat) at 4K.

>>> str(effective({4096: 95.1, 8192: 93.8, 16384: 83.6}))
'8K'
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.averages import Averages, averages
from rulerlib.analysis.scores import nothing
from rulerlib.errors import one_of, require
from rulerlib.fields import check
from rulerlib.labels import thousands

THRESHOLD = 85.6
"""What an average has to exceed for its length to be effective, in percent: RULER's choice, the
average of Llama-2-7B (chat) at 4K."""

READINGS = ("longest", "unbroken")
"""``longest``: the longest length above the threshold; ``unbroken``: the longest with no failure
before it. They differ where a model falls below the threshold and comes back."""


def even(values: Any) -> Any:
    """Return a number, or a column or array of numbers, without the last digits.

    Sums of the same decimals may differ there, so that equal values would not be equal. Whatever
    holds a mean against another one or against a threshold takes both without them.

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
    rows = []
    for one in averages(table, measure, **options):
        base = float(next(iter(one.averages[one.measured]), 0)) if of_shortest else 100
        rows += [{**one.names, **row} for row in readings(one, threshold * (base / 100))]
    if not rows:
        return nothing("At no length was every task asked, so no average can be held against it.")
    return pd.DataFrame(rows)


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
