"""RULER's averages: the mean over tasks at each length, and the means of these over lengths.

The unit here is RULER's: percent, 0 to 100. A model's number at a length is the mean over its
tasks; over lengths there are the plain average (Avg.) and two weighted ones, whose weights rise
(inc) or fall (dec) linearly from length to length, 1 to k (Hsieh et al. 2024, "RULER: What's the
Real Context Size of Your Long-Context Language Models?", section 4).

>>> round(weighted([90.0, 80.0, 70.0], "inc"), 1), round(weighted([90.0, 80.0, 70.0], "dec"), 1)
(76.7, 83.3)

The interval of an average is that of `rulerlib.analysis.combined`, over its tasks, or over its
tasks and lengths. One of a single task is the interval of `rulerlib.intervals.clustered`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.accuracy import RESAMPLES, clusters, groups_of
from rulerlib.analysis.combined import Array, between_lengths, draws, interval, root_of, size_of
from rulerlib.analysis.scores import of_measure
from rulerlib.errors import one_of, require
from rulerlib.fields import check
from rulerlib.intervals import clustered
from rulerlib.labels import base
from rulerlib.tasks import RULER

AVERAGES = {"even": "Avg.", "inc": "wAvg. (inc)", "dec": "wAvg. (dec)"}
"""RULER's names for the averages over lengths, by their weights."""

BY = ("model", "language")

NO_AVERAGE = "At no length were all of these tasks asked, so there is no average."


@dataclass(frozen=True)
class Averages:
    """One model in one language: its averages by length, in percent.

    Attributes
    ----------
    names
        The model and the language.
    tasks, lengths
        The names of the tasks that the averages are over; the lengths in tokens, rising.
    counts
        Tasks x lengths: the number of answers.
    rates, sizes, freedom
        Tasks x lengths: each task's mean, 0 to 1, and to how many independent right-or-wrong
        answers it is worth, with its degrees of freedom; NaN where it was not asked.
    correlation
        Lengths x lengths, see `rulerlib.analysis.combined.between_lengths`.
    normal
        Draws x lengths: normal numbers with this correlation.
    """

    names: dict[str, Any]
    tasks: tuple[str, ...]
    lengths: tuple[int, ...]
    counts: Array
    rates: Array
    sizes: Array
    freedom: Array
    correlation: Array
    normal: Array

    @cached_property
    def averages(self) -> Array:
        """One for each length; NaN where a task was not asked."""
        return np.asarray(100 * self.rates.mean(axis=0))

    @cached_property
    def measured(self) -> Array:
        """For each length whether it has an average."""
        return ~np.isnan(self.averages)

    @cached_property
    def asked(self) -> list[int]:
        """How many of the tasks were asked at each length."""
        return list((self.counts > 0).sum(axis=0).tolist())

    def missing(self, place: int) -> str:
        """Return the tasks that were not asked at one of the lengths, as text."""
        return ", ".join(np.array(self.tasks)[self.counts[:, place] == 0])

    def at(self, place: int) -> tuple[float, float, float]:
        """Return the average at one of the lengths, and both ends of its 95 % interval."""
        return float(self.averages[place]), *self.interval(np.eye(len(self.lengths))[place])

    def interval(self, weights: Array) -> tuple[float, float]:
        """Return the 95 % interval of a weighted mean over lengths, in percent.

        Parameters
        ----------
        weights
            One for each length, with the sum 1; 0: not in this mean. NaN where a length in it
            has no average, or there is none in it.
        """
        used = weights > 0
        if not (used.any() and self.measured[used].all()):
            return math.nan, math.nan
        low, high = interval(**self._grid(weights))
        return 100 * low, 100 * high

    @cached_property
    def resampled(self) -> Array:
        """Draws of what the averages may truly be, draws x lengths, in percent.

        Lengths at which the same samples were asked vary together.
        """
        drawn = np.full(self.normal.shape, math.nan)
        for place in np.flatnonzero(self.measured):
            grid = self._grid(np.eye(len(self.lengths))[place])
            drawn[:, place] = 100 * draws(**grid, quantiles=self.normal[:, place])
        return drawn

    def _grid(self, weights: Array) -> dict[str, Any]:
        """Return what is averaged, as `rulerlib.analysis.combined.interval` takes it."""
        used = weights > 0
        rates = self.rates[:, used]
        return {
            "rates": rates, "sizes": self.sizes[:, used], "freedom": self.freedom[:, used],
            "weights": np.broadcast_to(weights[used] / len(rates), rates.shape),
            "correlation": self.correlation[np.ix_(used, used)],
        }  # fmt: skip


def averages(
    table: pd.DataFrame,
    measure: str = "ruler",
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
    tasks
        The tasks that the mean is over; None: those of RULER's thirteen that a model was asked at
        any length (with knobs set anew only where it was not asked it as it is), or all that it
        was asked where it was asked none of these. Where one of them was not asked, the mean is
        NaN: it could not be compared.
    resamples, seed
        How many draws are made of what the averages may truly be, and the seed of their random
        numbers. Intervals do not depend on them; the shares of effective lengths do.

    Raises
    ------
    ParameterError
        If the table is empty or a parameter cannot work.
    """
    check(resamples=resamples, seed=seed)
    require(not table.empty, "table", "empty", "a table with at least one answer")
    table = of_measure(table, measure)
    lengths = tuple(int(length) for length in sorted(table["length"].unique()))
    groups = []
    for names, part in groups_of(table, BY):
        averaged_tasks = list(tasks) if tasks is not None else _usual(part["task"])
        units = clusters(part)
        cells = [
            [(part["task"] == task) & (part["length"] == length) for length in lengths]
            for task in averaged_tasks
        ]
        answers = [
            [(part.loc[cell, "value"].tolist(), units[cell].tolist()) for cell in row]
            for row in cells
        ]
        # Random numbers of its own: another model in the table changes nothing.
        rng = np.random.default_rng([seed, *map(ord, repr(tuple(names.values())))])
        groups.append(of_answers(names, averaged_tasks, lengths, answers, resamples, rng))
    return groups


def _usual(tasks: Iterable[str]) -> list[str]:
    """Return the tasks that an average is over where nobody says which.

    A task with knobs set anew counts where it was not asked as it is.

    >>> _usual(["vt", "vt+num_hops=2", "cwe+num_cw=5", "passkey"]), _usual(["passkey", "drop_1"])
    (['vt', 'cwe+num_cw=5'], ['passkey', 'drop_1'])
    """
    labels = list(dict.fromkeys(tasks))
    of_ruler = [task for task in labels if base(task) in RULER]
    return [task for task in of_ruler if task in RULER or base(task) not in of_ruler] or labels


def with_strict(
    table: pd.DataFrame, measure: str = "ruler", **options: Any
) -> list[tuple[Averages, Averages]]:
    """Return the averages of each model in each language, and the same by the strict rule.

    By the strict rule a list counts only if all of it is there; RULER's script gives part of the
    points for part of a list. See `averages` for the parameters.
    """
    chosen, strict = (averages(table, name, **options) for name in (measure, "strict"))
    return list(zip(chosen, strict, strict=True))


def of_answers(
    names: dict[str, Any],
    tasks: Sequence[str],
    lengths: tuple[int, ...],
    answers: Sequence[Sequence[tuple[Sequence[float], Sequence[Hashable]]]],
    resamples: int,
    rng: np.random.Generator,
) -> Averages:
    """Return the averages of one model in one language.

    Parameters
    ----------
    names, tasks, lengths
        What the averages are of.
    answers
        For each task and each length the values, and for each value its cluster, which has the
        same name at all lengths; both empty where the task was not asked.
    resamples, rng
        How many draws are made, and where their random numbers come from.
    """
    counts = np.array([[len(values) for values, _ in row] for row in answers])
    rates, sizes, freedom = np.full((3, *counts.shape), math.nan)
    for row, column in np.argwhere(counts).tolist():
        cell = clustered(*answers[row][column])
        rates[row, column] = cell.mean
        sizes[row, column], freedom[row, column] = size_of(cell)
    correlation = between_lengths(
        [_units(row) for row in answers], np.nansum(sizes * rates * (1 - rates), axis=0)
    )
    normal = rng.standard_normal((resamples, len(lengths))) @ root_of(correlation).T
    return Averages(
        names, tuple(tasks), lengths, counts, rates, sizes, freedom, correlation, normal
    )


def _units(row: Sequence[tuple[Sequence[float], Sequence[Hashable]]]) -> tuple[Array, Array]:
    """Return one task's sums and counts, each units x lengths."""
    every = dict.fromkeys(unit for _, units in row for unit in units)
    places = {unit: place for place, unit in enumerate(every)}
    sums, counts = np.zeros((2, len(places), len(row)))
    for column, (values, units) in enumerate(row):
        at = [places[unit] for unit in units]
        np.add.at(sums[:, column], at, values)
        np.add.at(counts[:, column], at, 1)
    return sums, counts


def by_length(table: pd.DataFrame, measure: str = "ruler", **options: Any) -> pd.DataFrame:
    """Return the mean over tasks at each length, in percent: RULER's columns.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    measure
        See `averages`.
    options
        ``tasks``, ``resamples`` and ``seed``, see `averages`.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``length``, ``tasks`` (how many were asked at this length), ``n``,
        ``average``, ``low``, ``high``; the same average by the strict rule, ``strict``,
        ``strict low`` and ``strict high``; ``missing`` (the tasks that were not asked; then there
        is no average). Where nothing has an average, ``attrs["why"]`` says why there is no figure.

    Raises
    ------
    ParameterError
        If the table is empty or a parameter cannot work.
    """
    rows = []
    for one, strict in with_strict(table, measure, **options):
        for place, length in enumerate(one.lengths):
            n = int(one.counts[:, place].sum())
            row = {**one.names, "length": length, "tasks": one.asked[place], "n": n}
            row["average"], row["low"], row["high"] = one.at(place)
            row["strict"], row["strict low"], row["strict high"] = strict.at(place)
            rows.append({**row, "missing": one.missing(place)})
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
    one_of("weights", weights, AVERAGES)
    measured = [value for value in averages if value is not None and not math.isnan(value)]
    if not measured:
        return math.nan
    return float(np.average(measured, weights=weights_of(len(measured), weights)))


def weights_of(count: int, weights: str) -> Array:
    """Return the weights of lengths: all 1 (even), 1 to ``count`` (inc), ``count`` to 1 (dec)."""
    rising = np.arange(1, count + 1, dtype=float)
    return {"even": np.ones(count), "inc": rising, "dec": rising[::-1]}[weights]
