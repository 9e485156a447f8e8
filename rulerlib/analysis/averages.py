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
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.accuracy import clusters
from rulerlib.analysis.combined import Array, between_lengths, draws, interval, root_of, size_of
from rulerlib.analysis.labels import base
from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import RESAMPLES, even, groups_of
from rulerlib.errors import one_of, require, whole_number
from rulerlib.intervals import clustered
from rulerlib.sequential import Tally, confidence_sequence, tally
from rulerlib.tasks import RULER

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
        Draws of what they may truly be, draws x lengths, see `rulerlib.analysis.combined.draws`.
        Lengths at which the same samples were asked vary together.
    tasks
        The number of tasks that were asked at each length.
    rates, sizes, freedom
        Tasks x lengths: each task's mean, 0 to 1, and to how many independent right-or-wrong
        answers it is worth, with its degrees of freedom; NaN where it was not asked.
    correlation
        Lengths x lengths, see `rulerlib.analysis.combined.between_lengths`.
    reach
        Ends x lengths: how many times as far from the average the lower and the upper end of its
        interval lie, compared to a fixed design. 1 for a fixed design; else the interval is that
        of `rulerlib.sequential`, which holds wherever one stops. Over several lengths, ends lie
        as much farther as on the average of these.
    over
        The names of the tasks that the averages are over.
    """

    names: dict[str, Any]
    lengths: tuple[int, ...]
    counts: tuple[int, ...]
    missing: tuple[str, ...]
    averages: Array
    resampled: Array
    tasks: tuple[int, ...]
    rates: Array
    sizes: Array
    freedom: Array
    correlation: Array
    reach: Array
    over: tuple[str, ...]

    def interval(self, weights: Array, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval of a weighted mean over lengths, in percent.

        Parameters
        ----------
        weights
            One for each length, with the sum 1; 0: not in this mean. NaN where a length in it
            has no average, or there is none in it.
        """
        if not self._known(weights):
            return math.nan, math.nan
        ends = np.array(interval(**self._grid(weights), confidence=confidence))
        low, high = self._reached(weights, 100 * ends)
        return float(low), float(high)

    def drawn(self, weights: Array, quantiles: Array) -> Array:
        """Return draws of a weighted mean over lengths, in percent, from normal quantiles."""
        if not self._known(weights):
            return np.full(len(quantiles), math.nan)
        return self._reached(weights, 100 * draws(**self._grid(weights), quantiles=quantiles))

    def _reached(self, weights: Array, values: Array) -> Array:
        """Return values around a weighted mean as far from it as `reach` says."""
        used = weights > 0
        mean = weights[used] @ self.averages[used]
        below, above = self.reach @ weights
        farther = mean + (values - mean) * np.where(values < mean, below, above)
        return np.asarray(np.clip(farther, 0, 100))

    def _known(self, weights: Array) -> bool:
        used = weights > 0
        return bool(used.any()) and not np.isnan(self.averages[used]).any()

    def _grid(self, weights: Array) -> dict[str, Any]:
        """Return what is averaged, as `rulerlib.analysis.combined.limits` takes it."""
        used = weights > 0
        rates, sizes, freedom = (each[:, used] for each in (self.rates, self.sizes, self.freedom))
        return {
            "rates": rates, "sizes": sizes, "freedom": freedom,
            "weights": np.broadcast_to(weights[used] / len(rates), rates.shape),
            "correlation": self.correlation[np.ix_(used, used)],
        }  # fmt: skip


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
        The tasks that the mean is over; None: those of RULER's thirteen that a model was asked at
        any length (with knobs set anew only where it was not asked it as it is), or all that it
        was asked where it was asked none of these. Where one of them was not asked, the mean is
        NaN: it could not be compared.
    resamples, seed
        How many draws are made of what the averages may truly be, and the seed of their random
        numbers. Intervals do not depend on them; the shares of effective lengths and the
        intervals of ranks do.

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
        wanted = list(tasks) if tasks is not None else _usual(part["task"])
        rng = generator(names, seed)
        tasks_own = [part[part["task"] == task] for task in wanted]
        units = [clusters(own) if len(own) else own["index"] for own in tasks_own]
        answers = [
            [
                (own.loc[at, "value"].tolist(), named[at].tolist())
                for at in (own["length"] == length for length in lengths)
            ]
            for own, named in zip(tasks_own, units, strict=True)
        ]
        stopped = set[int]()
        if "planned" in part:
            stopped = {*part.loc[part["planned"].notna(), "length"]}
        groups.append(of_answers(names, wanted, lengths, answers, resamples, rng, stopped))
    return groups


def _usual(tasks: Iterable[str]) -> list[str]:
    """Return the tasks that an average is over where nobody says which.

    A task with knobs set anew counts where it was not asked as it is.

    >>> _usual(["vt", "vt+paraphrase=1", "cwe+num_cw=5", "passkey"]), _usual(["passkey", "drop_1"])
    (['vt', 'cwe+num_cw=5'], ['passkey', 'drop_1'])
    """
    asked = list(dict.fromkeys(tasks))
    whole = [task for task in asked if base(task) in RULER]
    return [task for task in whole if task in RULER or base(task) not in whole] or asked


def with_strict(
    table: pd.DataFrame, measure: str = "ruler", by: Sequence[str] = BY, **options: Any
) -> list[tuple[Averages, Averages]]:
    """Return the averages of each model in each language, and the same by the strict rule.

    By the strict rule a list counts only if all of it is there; RULER's script gives part of the
    points for part of a list.

    Parameters
    ----------
    table, measure, by, options
        See `averages`.

    Raises
    ------
    ParameterError
        As `averages`.
    """
    chosen = averages(table, measure, by, **options)
    strict = averages(table, "strict", by, **options)
    return list(zip(chosen, strict, strict=True))


def generator(names: dict[str, Any], *seeds: int) -> np.random.Generator:
    """Return random numbers of a group's own: another model in the table changes nothing."""
    own = repr(tuple(names.values()))
    return np.random.default_rng([*seeds, *(ord(letter) for letter in own)])


def of_answers(
    names: dict[str, Any],
    tasks: Sequence[str],
    lengths: tuple[int, ...],
    answers: Sequence[Sequence[tuple[Sequence[float], Sequence[Hashable]]]],
    resamples: int,
    rng: np.random.Generator,
    stopped: Collection[int] = (),
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
    stopped
        The lengths at which a sequential plan decided how many samples were asked.
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
    missing = [", ".join(np.array(tasks)[there == 0]) for there in counts.T]
    asked = tuple((counts > 0).sum(axis=0).tolist())
    one = Averages(
        names, lengths, tuple(counts.sum(axis=0).tolist()), tuple(missing),
        100 * rates.mean(axis=0), np.empty((resamples, 0)), asked,
        rates, sizes, freedom, correlation, np.ones((2, len(lengths))), tuple(tasks),
    )  # fmt: skip
    drawn_of = {
        at: [tally(*row[at]) for row in answers]
        for at, length in enumerate(lengths)
        if length in stopped and all(counts[:, at])
    }
    one = replace(one, reach=_reach(one, drawn_of))
    normal = rng.standard_normal((resamples, len(lengths))) @ root_of(correlation).T
    drawn = [one.drawn(at, normal[:, place]) for place, at in enumerate(np.eye(len(lengths)))]
    return replace(one, resampled=np.column_stack(drawn))


def _reach(one: Averages, drawn: Mapping[int, Sequence[Tally]]) -> Array:
    """Return how much farther the ends of the interval lie at lengths with a sequential plan.

    Parameters
    ----------
    one
        With the intervals of fixed designs.
    drawn
        What each task came to, by the place of such a length.
    """
    reach = np.ones((2, len(one.lengths)))
    for at, tallies in drawn.items():
        usual = one.interval(np.eye(len(one.lengths))[at])
        sequence = confidence_sequence(tallies)
        for end in range(2):
            before = abs(one.averages[at] - usual[end])
            after = abs(one.averages[at] - 100 * sequence[end])
            reach[end, at] = after / before if before > 1e-9 else 1.0
    return reach


def _units(row: Sequence[tuple[Sequence[float], Sequence[Hashable]]]) -> tuple[Array, Array]:
    """Return one task's sums and counts, each units x lengths."""
    places = {unit: place for place, unit in enumerate({u: None for _, own in row for u in own})}
    sums, counts = np.zeros((2, len(places), len(row)))
    for column, (values, units) in enumerate(row):
        own = [places[unit] for unit in units]
        np.add.at(sums[:, column], own, values)
        np.add.at(counts[:, column], own, 1)
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
        ``by``, ``tasks``, ``resamples`` and ``seed``, see `averages`.

    Returns
    -------
    DataFrame
        ``by``, ``length``, ``tasks`` (how many were asked at this length), ``n``, ``average``,
        ``low``, ``high``; the same average by the strict rule, ``strict``, ``strict low`` and
        ``strict high``; ``missing`` (the tasks that were not asked; then there is no average).
        Where nothing has an average, ``attrs["why"]`` says why there is no figure.

    Raises
    ------
    ParameterError
        If the table is empty or a parameter cannot work.
    """
    rows = []
    for one, strict in with_strict(table, measure, **options):
        for position, length in enumerate(one.lengths):
            alone = np.eye(len(one.lengths))[position]
            low, high = one.interval(alone)
            strict_low, strict_high = strict.interval(alone)
            rows.append(
                {**one.names, "length": length, "tasks": one.tasks[position],
                 "n": one.counts[position], "average": float(one.averages[position]), "low": low,
                 "high": high, "strict": float(strict.averages[position]),
                 "strict low": strict_low, "strict high": strict_high,
                 "missing": one.missing[position]}
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    if frame["average"].isna().all():
        frame.attrs["why"] = NO_AVERAGE
    return frame


def averaged(table: pd.DataFrame) -> list[int]:
    """Return the lengths at which a model has an average: those of tables, figures and sentences.

    Parameters
    ----------
    table
        From `by_length`.
    """
    return sorted({int(length) for length in table.loc[table["average"].notna(), "length"]})


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
    grouped = even(values).groupby([*within] or np.zeros(len(values)), sort=False)
    counted: pd.Series[Any] = grouped.rank(method="min", ascending=False).astype("Int64")
    return counted


def rank_intervals(drawn: Array, confidence: float = 0.95) -> tuple[Array, Array]:
    """Return the interval of the rank of each model, of which 1 is the highest.

    Parameters
    ----------
    drawn
        Draws x models: what the averages may truly be. Models are drawn independently of each
        other. They were asked the same samples and are right together more often than that, so
        the intervals are too wide rather than too narrow.

    Returns
    -------
    low rank, high rank
        The best and the worst rank, for each model.

    >>> low, high = rank_intervals(np.array([[90.0, 80, 10], [70, 80, 10], [90, 80, 10]]), 0.6)
    >>> low.tolist(), high.tolist()
    ([1, 1, 3], [2, 2, 3])
    """
    ahead = (drawn[:, None, :] > drawn[:, :, None] + 1e-9).sum(axis=2) + 1
    ends = [0.5 - confidence / 2, 0.5 + confidence / 2]
    low, high = np.quantile(ahead, ends, axis=0, method="inverted_cdf")
    return low.astype(int), high.astype(int)
