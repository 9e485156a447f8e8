"""RULER's averages, the effective lengths that follow from them, and its leaderboard.

The average at a length is the mean over tasks, in RULER's unit: percent, 0 to 100. Over lengths
there is the plain average (Avg.) and two weighted ones, whose weights rise (inc) or fall (dec)
linearly, 1 to k (Hsieh et al. 2024, "RULER: What's the Real Context Size of Your Long-Context
Language Models?", section 4).

>>> round(weighted([90.0, 80.0, 70.0], "inc"), 1), round(weighted([90.0, 80.0, 70.0], "dec"), 1)
(76.7, 83.3)

The interval of an average is that of `rulerlib.intervals.clustered`, with a cell for each task and
length. A sample has the same needles at every length, so its answers form a cluster.

The effective length is the longest one whose average exceeds a threshold. RULER's is 85.6%, the
average of Llama-2-7B (chat) at 4K.

>>> str(effective({4096: 95.1, 8192: 93.8, 16384: 83.6}))
'8K'
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.accuracy import RESAMPLES, clusters, groups_of
from rulerlib.analysis.scores import nothing, of_measure
from rulerlib.errors import ParameterError, number, one_of, whole_number
from rulerlib.intervals import clustered
from rulerlib.labels import base, thousands
from rulerlib.tasks import RULER

AVERAGES = {"even": "Avg.", "inc": "wAvg. (inc)", "dec": "wAvg. (dec)"}
"""RULER's names for the averages over lengths, by their weights."""

BY = ("model", "language")

NO_AVERAGE = "At no length were all of these tasks asked, so there is no average."

THRESHOLD = 85.6
"""RULER's threshold, in percent."""

READINGS = ("longest", "unbroken")
"""``longest``: the longest length above the threshold; ``unbroken``: the longest with no failure
before it. They differ if a model falls below the threshold and comes back."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Averages:
    """The averages of one model in one language, in percent.

    Attributes
    ----------
    names
        The model and the language.
    counts
        The number of answers: a row for each task that is averaged, a column for each length.
    averages
        For each length in tokens, rising, the mean over tasks; NaN if a task was not asked.
    answers
        A row for each answer to one of the tasks: ``task``, ``length``, ``value`` and ``unit``,
        the context or sample, which has the same name at all lengths.
    """

    names: dict[str, Any]
    counts: pd.DataFrame
    averages: dict[int, float]
    answers: pd.DataFrame

    @classmethod
    def of(
        cls, names: dict[str, Any], rows: pd.DataFrame, tasks: Sequence[str], lengths: Sequence[int]
    ) -> Averages:
        """Return the averages of some answers, see ``answers``, over some tasks and lengths."""
        answers = rows[rows["task"].isin(tasks)]
        cells: Any = answers.groupby(["task", "length"])["value"].agg(["size", "mean"]).unstack()
        sizes, means = (cells[name].reindex(tasks, columns=lengths) for name in ("size", "mean"))
        over_tasks = 100 * means.to_numpy(float).mean(axis=0)
        averages = dict(zip(map(int, lengths), over_tasks.tolist(), strict=True))
        return cls(names, sizes.fillna(0).astype(int), averages, answers)

    @property
    def measured(self) -> list[int]:
        """The lengths that have an average."""
        return [length for length, average in self.averages.items() if not math.isnan(average)]

    def interval(self, weights: Mapping[int, float]) -> tuple[float, float]:
        """Return the 95% interval of a weighted mean over lengths, in percent.

        Parameters
        ----------
        weights
            For each length in the mean its weight, above 0.

        Returns
        -------
        low, high
            NaN if a length has no average, or there is none.
        """
        if not weights or not {*weights} <= {*self.measured}:
            return math.nan, math.nan
        rows = self.answers[self.answers["length"].isin(weights)]
        cells = list(zip(rows["task"], rows["length"], strict=True))
        sizes = rows.groupby(["task", "length"])["value"].transform("size")
        each = rows["length"].map(weights) / sizes
        mean = clustered(rows["value"].tolist(), rows["unit"], cells, each.tolist())
        return 100 * mean.low, 100 * mean.high

    def resampled(self, resamples: int, seed: int) -> Array:
        """Return the averages of bootstrap samples of units: ``resamples`` x measured lengths."""
        rng, total = np.random.default_rng(seed), np.zeros((resamples, len(self.measured)))
        for task in self.counts.index:
            rows = self.answers[self.answers["task"] == task]
            cells = rows.groupby(["unit", "length"])["value"].agg(["sum", "size"]).unstack()
            sums, sizes = (
                cells[name].reindex(columns=self.measured).fillna(0).to_numpy()
                for name in ("sum", "size")
            )
            times = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), resamples)
            total += times @ sums / np.maximum(times @ sizes, 1)
        return 100 * total / len(self.counts)


def averages(
    table: pd.DataFrame, measure: str = "ruler", tasks: Sequence[str] | None = None
) -> list[Averages]:
    """Return the averages of each model in each language.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    measure
        ``"ruler"``: the measure of RULER's script, recall, and part-match for question answering;
        or another one, see `rulerlib.analysis.of_measure`.
    tasks
        The tasks to average. If None, those of RULER's thirteen that a model was asked (with
        other knobs only if it was not asked the original), or all of its tasks if there are none
        of these. A length that lacks one of them has no average.

    Raises
    ------
    ParameterError
        If the table is empty or no row has this measure.
    """
    if table.empty:
        raise ParameterError("table", "empty", "a table with at least one answer")
    table = of_measure(table, measure)
    lengths = sorted(table["length"].unique())
    found = []
    for names, part in groups_of(table, BY):
        rows = part[["task", "length", "value"]].assign(unit=clusters(part))
        found.append(Averages.of(names, rows, tasks or _usual(part["task"]), lengths))
    return found


def _usual(tasks: Iterable[str]) -> list[str]:
    """Return the tasks to average by default.

    >>> _usual(["vt", "vt+num_hops=2", "cwe+num_cw=5", "mrcr"]), _usual(["mrcr", "drop_1"])
    (['vt', 'cwe+num_cw=5'], ['mrcr', 'drop_1'])
    """
    labels = list(dict.fromkeys(tasks))
    of_ruler = [task for task in labels if base(task) in RULER]
    return [task for task in of_ruler if task in RULER or base(task) not in of_ruler] or labels


def by_length(
    table: pd.DataFrame, measure: str = "ruler", tasks: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the mean over tasks at each length, in percent: RULER's columns.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    measure, tasks
        See `averages`.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``length``, ``tasks`` (how many were asked at this length), ``n``,
        ``average``, ``low``, ``high``; the same average by the strict rule, ``strict``,
        ``strict low`` and ``strict high``; ``missing`` (the tasks that were not asked; then there
        is no average). If no length has an average, ``attrs["why"]`` says so.

    Raises
    ------
    ParameterError
        If the table is empty or no row has this measure.
    """
    rows = []
    strictly = averages(table, "strict", tasks)
    for one, strict in zip(averages(table, measure, tasks), strictly, strict=True):
        for length in one.averages:
            counts = one.counts[length]
            row = {**one.names, "length": length, "tasks": int((counts > 0).sum()),
                   "n": int(counts.sum()), "average": one.averages[length]}  # fmt: skip
            row["low"], row["high"] = one.interval({length: 1})
            row["strict"] = strict.averages[length]
            row["strict low"], row["strict high"] = strict.interval({length: 1})
            rows.append({**row, "missing": ", ".join(counts.index[counts == 0])})
    frame = pd.DataFrame(rows)
    if frame["average"].isna().all():
        frame.attrs["why"] = NO_AVERAGE
    return frame


def weighted(averages: Sequence[float | None], weights: str = "even") -> float:
    """Return the weighted mean over lengths, without those that were not measured.

    Parameters
    ----------
    averages
        One for each length, rising; None or NaN if it was not measured.
    weights
        ``"even"``: RULER's Avg.; ``"inc"``: weights 1 to k over the k lengths measured; ``"dec"``:
        k to 1.

    Returns
    -------
    float
        In the unit of ``averages``; NaN if no length was measured.

    Raises
    ------
    ParameterError
        If there are no such weights.
    """
    one_of("weights", weights, AVERAGES)
    measured = [value for value in averages if value is not None and not math.isnan(value)]
    if not measured:
        return math.nan
    return float(np.average(measured, weights=weights_of(len(measured), weights)))


def weights_of(count: int, weights: str) -> Array:
    """Return the weights of lengths: all 1 (even), 1 to ``count`` (inc), ``count`` to 1 (dec)."""
    rising = np.arange(1, count + 1, dtype=float)
    return {"even": np.ones(count), "inc": rising, "dec": rising[::-1]}[weights]


# --- The effective length ---------------------------------------------------------------------


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
    if reading == "unbroken":
        lengths = lengths[lengths.index(shortest) :]
        # Later lengths than the first that did not pass do not matter.
        lengths = lengths[: len(list(takewhile(passed.get, lengths))) + 1]
    reached = [length for length in lengths if passed[length]]
    if not reached:
        return Effective(None, False, shortest)
    after = [passed[length] for length in lengths if length > reached[-1]]
    return Effective(reached[-1], all(above is None for above in after), shortest)


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
        See `averages`.
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
        if not one.measured:
            continue
        base = one.averages[one.measured[0]] if of_shortest else 100.0
        limit = threshold * (base / 100)
        # There are few patterns of lengths above the threshold, and each of them comes up often.
        above = even(one.resampled(resamples, seed)) > even(limit)
        patterns, counts = np.unique(above, axis=0, return_counts=True)
        for row in readings(one, limit):
            times: Counter[Effective] = Counter()
            for pattern, count in zip(patterns.tolist(), counts.tolist(), strict=True):
                passed = dict.fromkeys(one.averages) | dict(zip(one.measured, pattern, strict=True))
                times[_reached(passed, row["reading"])] += count
            rising = sorted(times, key=lambda outcome: outcome.length or 0)
            shares = {str(outcome): times[outcome] / resamples for outcome in rising}
            rows.append({**one.names, **row, "threshold": limit, "shares": shares})
    if not rows:
        return nothing("At no length were all tasks asked, so there is no average to compare.")
    return pd.DataFrame(rows)


def readings(one: Averages, threshold: float) -> list[dict[str, Any]]:
    """Return the effective length and its interval for each reading; [] without any average."""
    if not one.measured:
        return []
    intervals = {length: one.interval({length: 1}) for length in one.averages}
    lows = {length: low for length, (low, _) in intervals.items()}
    highs = {length: high for length, (_, high) in intervals.items()}
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


# --- The leaderboard --------------------------------------------------------------------------


def summary(
    table: pd.DataFrame,
    threshold: float = THRESHOLD,
    measure: str = "ruler",
) -> pd.DataFrame:
    """Return one row for each model, as on RULER's leaderboard.

    Beside each average is the same one by the strict rule, because RULER's script gives part of
    the points for part of a list.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    threshold
        What an average has to exceed, in percent.
    measure
        See `averages`.

    Returns
    -------
    DataFrame
        ``model``, ``language``; ``effective`` and its interval, and
        ``unbroken`` if the readings differ for some model; ``effective strict``; ``lengths`` and
        ``tasks``: the number of each in the averages; for each length its average, and the one by
        the strict rule (``4K strict``); ``Avg.``, ``wAvg. (inc)`` and ``wAvg. (dec)``, each with
        ``low``, ``high`` and the same by the strict rule (``Avg. strict``, ``Avg. strict low``,
        ...). All averages are in percent. If nothing has an average, ``attrs["why"]`` says so.

    Raises
    ------
    ParameterError
        If the table is empty or a parameter cannot work.
    """
    number("threshold", threshold, 0, 99.99)
    rows: list[dict[str, Any]] = []
    both = zip(averages(table, measure), averages(table, "strict"), strict=True)
    for one, strict in both:
        row = dict(one.names)
        longest, unbroken = readings(one, threshold) or ({}, {})
        row["effective"] = longest.get("effective", math.nan)
        row["effective low"] = longest.get("low", math.nan)
        row["effective high"] = longest.get("high", math.nan)
        row["unbroken"] = unbroken.get("effective", math.nan)
        strictly, _ = readings(strict, threshold) or ({}, {})
        row["effective strict"] = strictly.get("effective", math.nan)
        row["lengths"] = len(one.measured)
        row["tasks"] = len(one.counts) if one.measured else 0
        for length in one.averages:
            row[thousands(length)] = one.averages[length]
            row[f"{thousands(length)} strict"] = strict.averages[length]
        for weights, name in AVERAGES.items():
            each = weights_of(len(one.measured), weights).tolist()
            of_length = dict(zip(one.measured, each, strict=True))
            for label, averaged in ((name, one), (f"{name} strict", strict)):
                row[label] = weighted([*averaged.averages.values()], weights)
                row[f"{label} low"], row[f"{label} high"] = averaged.interval(of_length)
        rows.append(row)
    frame = pd.DataFrame(rows)
    if frame["effective"].isna().all():
        names = ("effective", "effective low", "effective high", "effective strict", "unbroken")
        frame = frame.drop(columns=[*names])
        frame.attrs["why"] = NO_AVERAGE
    elif frame["unbroken"].equals(frame["effective"]):
        frame = frame.drop(columns="unbroken")
    return frame
