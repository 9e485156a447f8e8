"""RULER's averages: the mean over tasks at each length, and the means of these over lengths.

The unit here is RULER's: percent, 0 to 100. A model's number at a length is the mean over its
tasks; over lengths there are the plain average (Avg.) and two weighted ones, whose weights rise
(inc) or fall (dec) linearly from length to length, 1 to k (Hsieh et al. 2024, "RULER: What's the
Real Context Size of Your Long-Context Language Models?", section 4).

>>> round(weighted([90.0, 80.0, 70.0], "inc"), 1), round(weighted([90.0, 80.0, 70.0], "dec"), 1)
(76.7, 83.3)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.accuracy import clusters
from rulerlib.analysis.bootstrap import RESAMPLES, Array, interval, resample
from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import groups_of
from rulerlib.errors import one_of, require, whole_number

WEIGHTS = ("even", "inc", "dec")

AVERAGES = ("Avg.", "wAvg. (inc)", "wAvg. (dec)")
"""RULER's names for the averages with these weights."""

BY = ("model", "language")

NO_AVERAGE = "At no length were all of these tasks asked, so there is no average."


@dataclass(frozen=True)
class Averages:
    """One model in one language: its averages by length, in percent.

    Attributes
    ----------
    names
        The model and the language, or what else is averaged separately.
    lengths, counts, missing
        The lengths in tokens, rising; the number of answers at each; and the tasks that were not
        asked there, as text.
    averages
        One for each length; NaN where a task was not asked.
    resampled
        The same of each resample, resamples x lengths, see `rulerlib.analysis.bootstrap.resample`.
    tasks
        The number of tasks that were asked at each length.
    """

    names: dict[str, Any]
    lengths: tuple[int, ...]
    counts: tuple[int, ...]
    missing: tuple[str, ...]
    averages: Array
    resampled: Array
    tasks: tuple[int, ...]


def averages(
    table: pd.DataFrame,
    measure: str = "ruler",
    by: Sequence[str] = BY,
    tasks: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Averages]:
    """Return the averages of each model in each language.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    measure
        ``"ruler"``: what RULER's script computes, recall, and part-match for question answering;
        or another one, see `rulerlib.analysis.of_measure`.
    by
        What is averaged separately.
    tasks
        The tasks that the mean is over; None: all that a model was asked at any length. Where
        one of them was not asked, the mean is NaN: it could not be compared.
    resamples, seed
        How often the bootstrap draws the samples of each task anew (the contexts, where samples
        share them), and the seed of its random numbers. Its percentile interval has no width
        where all answers are alike.

    Raises
    ------
    ParameterError
        If the table is empty or a parameter cannot work.
    """
    whole_number("resamples", resamples, 1)
    whole_number("seed", seed, 0)
    require(not table.empty, "table", "empty", "a table with at least one answer")
    table = of_measure(table, measure)
    lengths = tuple(int(length) for length in sorted(table["length"].unique()))
    groups = []
    for names, part in groups_of(table, by):
        wanted = list(tasks) if tasks is not None else list(dict.fromkeys(part["task"]))
        # Each group has random numbers of its own: another model in the table changes nothing.
        own = repr(tuple(names.values()))
        rng = np.random.default_rng([seed, *(ord(letter) for letter in own)])
        total = np.zeros(len(lengths))
        drawn = np.zeros((resamples, len(lengths)))
        answers = np.zeros((len(wanted), len(lengths)), dtype=int)
        for number, task in enumerate(wanted):
            sums, counts, paired = _units(part[part["task"] == task], lengths)
            answers[number] = counts.sum(axis=0)
            with np.errstate(invalid="ignore", divide="ignore"):
                total += sums.sum(axis=0) / answers[number]
                drawn += resample(sums, counts, resamples, rng, paired)
        missing = [", ".join(np.array(wanted)[there == 0]) for there in answers.T]
        groups.append(Averages(
            names, lengths, tuple(answers.sum(axis=0).tolist()), tuple(missing),
            100 * total / len(wanted), 100 * drawn / len(wanted),
            tuple((answers > 0).sum(axis=0).tolist()),
        ))  # fmt: skip
    return groups


def _units(table: pd.DataFrame, lengths: Sequence[int]) -> tuple[Array, Array, bool]:
    """Return sums and counts, units x lengths, and whether all units are there at all lengths.

    The same sample has the same needles at every length, so that it is drawn, or not, at all of
    them together.
    """
    names = clusters(table) if len(table) else pd.Series(dtype=object)
    grouped = table.assign(unit=names).groupby(["unit", "length"])["value"]
    sums = grouped.sum().unstack("length").reindex(columns=list(lengths))
    counts = grouped.size().unstack("length").reindex(columns=list(lengths))
    measured = [length for length in lengths if counts[length].notna().any()]
    same = bool(counts[measured].notna().all(axis=None))
    return sums.fillna(0).to_numpy(dtype=float), counts.fillna(0).to_numpy(dtype=float), same


def by_length(table: pd.DataFrame, measure: str = "ruler", **options: Any) -> pd.DataFrame:
    """Return the mean over tasks at each length, in percent: RULER's columns.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    measure
        See `averages`.
    options
        ``by``, ``tasks``, ``resamples`` and ``seed``, see `averages`.

    Returns
    -------
    DataFrame
        ``by``, ``length``, ``tasks`` (how many were asked at this length), ``n``, ``average``,
        ``low``, ``high``, ``missing`` (those that were not; then there is no average). Where
        nothing has an average, ``attrs["why"]`` says why there is no figure.

    Raises
    ------
    ParameterError
        If the table is empty or a parameter cannot work.
    """
    rows = []
    for one in averages(table, measure, **options):
        for position, length in enumerate(one.lengths):
            low, high = interval(one.resampled[:, position])
            rows.append(
                {**one.names, "length": length, "tasks": one.tasks[position],
                 "n": one.counts[position], "average": float(one.averages[position]), "low": low,
                 "high": high, "missing": one.missing[position]}
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    if frame["average"].isna().all():
        frame.attrs["why"] = NO_AVERAGE
    return frame


def weighted(averages: Sequence[float | None], weights: str = "even") -> float:
    """Return the weighted mean over lengths; those that were not measured are left out.

    Parameters
    ----------
    averages
        One for each length, rising; None or NaN where it was not measured.
    weights
        ``"even"``: RULER's Avg.; ``"inc"``: weights 1 to k over the k lengths measured, so that
        long ones count more; ``"dec"``: k to 1.

    Returns
    -------
    float
        In the unit of ``averages``; NaN where no length was measured.

    Raises
    ------
    ParameterError
        If there are no such weights.
    """
    one_of("weights", weights, WEIGHTS)
    known = [value for value in averages if value is not None and not math.isnan(value)]
    if not known:
        return math.nan
    return float(np.average(known, weights=weights_of(len(known), weights)))


def weights_of(count: int, weights: str) -> Array:
    """Return the weights of lengths: all 1 (even), 1 to ``count`` (inc), ``count`` to 1 (dec)."""
    rising = np.arange(1, count + 1, dtype=float)
    return {"even": np.ones(count), "inc": rising, "dec": rising[::-1]}[weights]


def ranks(values: pd.Series, within: Sequence[pd.Series] = ()) -> pd.Series:
    """Return ranks, of which 1 is the highest; equal values share the better one.

    Parameters
    ----------
    within
        Columns within whose values ranks are counted; none: among all.
    """
    # Sums of the same decimals may differ in their last binary digit.
    grouped = values.round(9).groupby([*within] or np.zeros(len(values)), sort=False)
    return grouped.rank(method="min", ascending=False).astype("Int64")
