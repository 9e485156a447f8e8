"""RULER's averages: the mean over tasks at each length, and the means of these over lengths.

The unit is RULER's: percent, 0 to 100. Over lengths there is the plain average (Avg.) and two
weighted ones, whose weights rise (inc) or fall (dec) linearly, 1 to k (Hsieh et al. 2024, "RULER:
What's the Real Context Size of Your Long-Context Language Models?", section 4).

>>> round(weighted([90.0, 80.0, 70.0], "inc"), 1), round(weighted([90.0, 80.0, 70.0], "dec"), 1)
(76.7, 83.3)

The interval of an average is that of `rulerlib.intervals.clustered`, with a cell for each task and
length. A sample has the same needles at every length, so its answers form a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.accuracy import clusters, groups_of
from rulerlib.analysis.scores import of_measure
from rulerlib.errors import ParameterError, one_of
from rulerlib.intervals import clustered
from rulerlib.labels import base
from rulerlib.tasks import RULER

AVERAGES = {"even": "Avg.", "inc": "wAvg. (inc)", "dec": "wAvg. (dec)"}
"""RULER's names for the averages over lengths, by their weights."""

BY = ("model", "language")

NO_AVERAGE = "At no length were all of these tasks asked, so there is no average."

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
        cells = answers.groupby(["task", "length"])["value"].agg(["size", "mean"])
        places = pd.MultiIndex.from_product([tasks, lengths])
        cells = cells.reindex(places)
        counts = cells["size"].fillna(0).astype(int).unstack()[list(lengths)].loc[list(tasks)]
        means = cells["mean"].to_numpy(float).reshape(len(tasks), len(lengths)).mean(axis=0)
        averages = dict(zip(map(int, lengths), (100 * means).tolist(), strict=True))
        return cls(names, counts, averages, answers)

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
        each = [weights[length] for length in rows["length"]] / sizes
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

    >>> _usual(["vt", "vt+num_hops=2", "cwe+num_cw=5", "passkey"]), _usual(["passkey", "drop_1"])
    (['vt', 'cwe+num_cw=5'], ['passkey', 'drop_1'])
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
