"""Tables computed from predictions, with n and a 95% interval each.

`rulerlib.scores` makes the long table, one row for each prediction and measure. From it come:

- means by task, category, length or depth, and kinds of mistakes;
- RULER's averages, the effective length, and its leaderboard;
- two models on the same samples.

>>> from rulerlib.samples import Prediction
>>> about = {"model": "lille", "language": "da", "task": "vt", "length": 1024}
>>> predictions = [(about, Prediction(index, "", ["AB", "CD"], "AB, CD")) for index in range(9)]
>>> table = accuracy(scores(predictions)).round(2)
>>> table[["n", "measure", "mean", "low", "high", "recall"]].to_dict("split")["data"]
[[9, 'all_match', 1.0, 0.7, 1.0, 1.0]]
>>> rows = [(about, Prediction(i, "", ["AB"], pred)) for i, pred in enumerate(["AB", "", "EF"])]
>>> errors(scores(rows))[["error", "n", "count"]].to_dict("split")["data"]
[['empty', 3, 1], ['wrong value', 3, 1]]
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, takewhile
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from rulerlib.errors import ParameterError, number, one_of, whole_number
from rulerlib.intervals import (
    Array,
    Clustered,
    by_signs,
    clustered,
    holm,
    newcombe,
    recovered,
    samples_needed,
)
from rulerlib.metrics import wants_none
from rulerlib.scores import (
    NameList,
    base_task,
    nothing,
    of_measure,
    read_predictions,
    scores,
    wanted,
)
from rulerlib.tasks import RULER
from rulerlib.tasks.mistakes import KINDS
from rulerlib.tokens import thousands

BY = ("model", "language", "task", "length")
"""The default columns to group by."""

BESIDE = ("recall", "all_match", "exact_items", "em_raw", "em_norm")
"""The measures that tables of means show beside the averaged one."""

RESAMPLES = 2000
"""The default number of random draws for intervals and tests."""


def accuracy(table: pd.DataFrame, measure: str = "primary", by: Sequence[str] = BY) -> pd.DataFrame:
    """Return means of a measure with their 95% interval.

    The interval is Wilson's for independent samples, and based on the variance for recall. If
    samples share contexts, it is cluster-robust, and ``design_effect`` is the factor by which
    sharing raises the variance; see `rulerlib.intervals.clustered`.

    Parameters
    ----------
    table
        From `rulerlib.scores.scores`.
    measure
        See `rulerlib.scores.of_measure`.
    by
        The columns to group by, such as ``("category", "length")``.

    Returns
    -------
    DataFrame
        ``by``, ``n``, ``measure`` (the names of the averaged measures), ``mean``, ``low``,
        ``high``; a column with the mean of each other measure in `BESIDE`, NaN for tasks without
        it. If contexts are shared: ``contexts`` (their number) and ``design_effect``. If answers
        hit the limit: ``cut_off``, the share that is wrong and was cut off. ``category`` if rows
        are tasks; ``tasks`` and ``missing`` if they average several, see `tasks_in`. Means and
        shares are from 0 to 1. An empty table is returned unchanged.

    Raises
    ------
    ParameterError
        If no row has this measure.
    """
    if table.empty:
        # Its attrs hold the reason.
        return table
    chosen = of_measure(table, measure)
    averaged = means(chosen.rename(columns={"value": "mean"}), "mean", by)
    groups = [part for _, part in groups_of(chosen, by)]
    measures = [", ".join(part["measure"].unique()) for part in groups]
    averaged.insert(len(by) + 1, "measure", measures)
    keys = averaged.set_index(list(by)).index
    for name in BESIDE:
        part = table[table["measure"] == name]
        if name not in chosen["measure"].values and not part.empty:
            values = part.groupby(list(by), sort=False)["value"].mean()
            averaged[name] = values.reindex(keys).to_numpy()
    if (chosen["cut_off"] != "").any():
        averaged["cut_off"] = [
            ((part["cut_off"] != "") & (part["value"] < 1)).mean() for part in groups
        ]
    if "task" in by and "category" not in by:
        averaged["category"] = [part["category"].iloc[0] for part in groups]
    return averaged.merge(tasks_in(chosen, by), on=list(by))


def by_fact(table: pd.DataFrame, fact: str, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return means by a fact about the questions, such as their ``operation``.

    Parameters
    ----------
    table
        From `rulerlib.scores.scores`.
    fact
        A key of ``facts``. Questions without it are left out.
    by
        The other columns to group by.

    Returns
    -------
    DataFrame
        As `accuracy`, with a column for the fact; empty if no question has it.
    """
    rows = table.assign(**{fact: [facts.get(fact) for facts in table["facts"]]})
    rows = rows.dropna(subset=fact)
    if rows.empty:
        why = table.attrs.get("why", f"No question records '{fact}', so there is nothing to show.")
        return nothing(why, [*by, fact])
    return accuracy(rows, by=(*by, fact))


def means(table: pd.DataFrame, column: str, by: Sequence[str]) -> pd.DataFrame:
    """Return means of a column of values from 0 to 1, with their 95% interval.

    Parameters
    ----------
    table
        One row for each value, with the columns of `rulerlib.scores.of_measure`.
    column
        The column of values.
    by
        The columns to group by.

    Returns
    -------
    DataFrame
        ``by``, ``n``, the column, ``low``, ``high``; also ``contexts`` and ``design_effect`` if
        contexts are shared.
    """
    sharing = shared(table)

    def row(part: pd.DataFrame) -> dict[str, Any]:
        mean = mean_of(part, part[column], sharing)
        values = {"n": mean.n, column: mean.mean, "low": mean.low, "high": mean.high}
        if sharing:
            values["contexts"] = mean.clusters
            values["design_effect"] = mean.design_effect if mean.clusters < mean.n else 1.0
        return values

    return rows_of(table, by, row)


def mean_of(part: pd.DataFrame, values: pd.Series, sharing: bool) -> Clustered:
    """Return the mean of the values and its interval, clustered if rows share contexts."""
    units = clusters(part).tolist() if sharing else range(len(part))
    return clustered(values.astype(float).tolist(), units)


def shared(table: pd.DataFrame) -> bool:
    """Return whether any two answers of one cell share their context or sample."""
    if "repeat" in table and table["repeat"].any():
        return True
    in_contexts = table[table["context_id"].notna()]
    cells = [name for name in (*BY, "setting", "measure", "context_id") if name in table]
    return bool(in_contexts.duplicated(cells).any())


def clusters(table: pd.DataFrame) -> pd.Series:
    """Return the cluster of each row: its context, or its sample if it has no context.

    Clusters are independent of each other. The same context number at two lengths is one cluster;
    in two tasks or languages it is two.
    """
    cells = [name for name in (*BY, "setting") if name in table and name != "length"]
    prefixes = table[cells].astype(str).agg("/".join, axis=1) if cells else ""
    units = [
        f"alone {index}" if pd.isna(context) else f"context {context}"
        for index, context in zip(table["index"], table["context_id"], strict=True)
    ]
    return prefixes + "/" + pd.Series(units, table.index, dtype=object)


# --- Groups ---------------------------------------------------------------------------------------


def groups_of(
    table: pd.DataFrame, by: Sequence[str]
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the keys (a dict by column) and the rows of each group.

    Texts are in the order in which they first appear; numbers ascend.
    """
    keys = [
        values
        if pd.api.types.is_numeric_dtype(values)
        else values.astype(pd.CategoricalDtype(list(values.unique())))
        for values in (table[name] for name in by)
    ]
    for names, part in table.groupby(keys, sort=True, observed=True):
        yield dict(zip(by, names, strict=True)), part


def rows_of(
    table: pd.DataFrame, by: Sequence[str], row: Callable[[pd.DataFrame], Mapping[str, Any]]
) -> pd.DataFrame:
    """Return a table with the keys of each group and the columns that ``row`` returns."""
    return pd.DataFrame([{**names, **row(part)} for names, part in groups_of(table, by)])


def tasks_in(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the number of tasks in each group, for means over several tasks.

    Returns
    -------
    DataFrame
        ``by``, ``tasks``, and ``missing``: the tasks that the group has at another length but not
        at this one, so that means at the two lengths are over different tasks. Only ``by`` if no
        group has more than one task.
    """
    groups = [(names, dict.fromkeys(part["task"])) for names, part in groups_of(table, by)]
    keys = [tuple(names[name] for name in by if name != "length") for names, _ in groups]
    at_any_length: dict[tuple[Any, ...], dict[str, None]] = {}
    for key, (_, tasks) in zip(keys, groups, strict=True):
        at_any_length[key] = at_any_length.get(key, {}) | tasks
    rows = [
        {**names, "tasks": len(tasks),
         "missing": ", ".join(task for task in at_any_length[key] if task not in tasks)}
        for key, (names, tasks) in zip(keys, groups, strict=True)
    ]  # fmt: skip
    several = any(len(tasks) > 1 for _, tasks in groups)
    return pd.DataFrame(rows, columns=[*by, *(("tasks", "missing") if several else ())])


def parts(
    table: pd.DataFrame, *by: str, above_zero: str | None = None
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield a title and the rows of each group; an empty table is yielded unchanged.

    Groups with no value above 0 in the column ``above_zero`` are left out.
    """
    if table.empty:
        yield "", table
        return
    for names, part in groups_of(table, by):
        if above_zero is None or (part[above_zero] > 0).any():
            yield ", ".join(map(str, names.values())), part


# --- By depth ---------------------------------------------------------------------------------


def depth_bin(depth: float, bins: int = 10) -> float:
    """Return the nearest of ``bins`` evenly spaced depths from 0 to 100; of two, the deeper.

    A needle is inserted between two units of the haystack, which may be a few percent away from its
    planned depth. Rounding to the nearest depth keeps each planned depth in its own row of a
    heatmap; with ten equal intervals some would lie on a border.

    Parameters
    ----------
    depth
        In percent, 0 (start) to 100 (end).
    bins
        The number of depths, from 1; a single one is 50.

    >>> depth_bin(4), depth_bin(47.5, bins=5), depth_bin(100)
    (0.0, 50.0, 100.0)
    """
    if bins == 1:
        return 50.0
    return math.floor(depth * (bins - 1) / 100 + 0.5) * 100 / (bins - 1)


def by_depth(table: pd.DataFrame, bins: int = 10) -> pd.DataFrame:
    """Return the share of needles that were found, by depth.

    The depth is the actual one, not the planned one. If one reference suffices (question
    answering), the needle is the document with the answer.

    Parameters
    ----------
    table
        From `rulerlib.scores.scores`.
    bins
        The number of depths, see `depth_bin`.

    Returns
    -------
    DataFrame
        `BY`, ``depth``, ``n`` (needles), ``found`` (their share, 0 to 1) and its 95% interval
        ``low``, ``high``, clustered by sample or shared context. ``attrs["depths"]`` holds all
        depths, including those without a needle.
    """
    whole_number("bins", bins, 1)
    # One row per prediction, of any measure.
    rows = of_measure(table)[[*BY, "index", "repeat", "context_id", "needles"]].explode("needles")
    rows = rows[rows["needles"].notna()].reset_index(drop=True)
    if rows.empty:
        why = "None of these tasks hides its answer at a depth, so there is no heatmap."
        return nothing(why, [*BY, "depth", "n", "found", "low", "high"])
    needles = pd.DataFrame(rows.pop("needles").tolist(), columns=["depth", "found"], dtype=float)
    needles["depth"] = needles["depth"].map(lambda depth: depth_bin(depth, bins))
    # A sample may have several needles; without a context, the sample is their cluster.
    contexts, alone = rows["context_id"].astype(object), "sample " + rows["index"].astype(str)
    rows["context_id"] = contexts.where(contexts.notna(), alone)
    shares = means(rows.join(needles), "found", [*BY, "depth"])
    shares = shares.drop(columns=["contexts", "design_effect"], errors="ignore")
    shares.attrs["depths"] = sorted({depth_bin(depth, bins) for depth in range(101)})
    return shares


# --- Kinds of mistakes ------------------------------------------------------------------------


def errors(table: pd.DataFrame, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return the kinds of mistakes as shares of all answers.

    Parameters
    ----------
    table
        From `rulerlib.scores.scores`.
    by
        The columns to group by.

    Returns
    -------
    DataFrame
        ``by``, ``error`` (a name in `rulerlib.tasks.mistakes.KINDS`, only those that occur),
        ``n`` (all answers, including right ones), ``count``, ``share`` and its 95% interval
        ``low``, ``high``: Wilson's, or cluster-robust for shared contexts. The shares of a group
        add up to its error rate. Groups of several tasks also have ``tasks`` and ``missing``, see
        `tasks_in`. Without mistakes the table is empty.
    """
    table = of_measure(table)
    kinds = [kind for kind in KINDS if (table["error"] == kind).any()]
    sharing = shared(table)
    rows = []
    for names, part in groups_of(table, by):
        for kind in kinds:
            wrong_so = part["error"] == kind
            mean = mean_of(part, wrong_so, sharing)
            rows.append({**names, "error": kind, "n": mean.n, "count": int(wrong_so.sum()),
                         "share": mean.mean, "low": mean.low, "high": mean.high})  # fmt: skip
    if not rows:
        columns = [*by, "error", "n", "count", "share", "low", "high"]
        return nothing("Every answer is right: there are no errors to sort.", columns)
    return pd.DataFrame(rows).merge(tasks_in(table, by), on=list(by))


def error_examples(table: pd.DataFrame, count: int = 1) -> pd.DataFrame:
    """Return ``count`` real wrong answers of each kind, from different lengths where possible."""
    table = of_measure(table)
    found = []
    for kind in KINDS:
        rows = table[table["error"] == kind]
        # One for each length before the others.
        first = rows.groupby("length", sort=False).head(1)
        found.append(pd.concat([first, rows.drop(first.index)]).head(count))
    columns = ["error", "task", "language", "length", "index", "depths", "outputs", "pred"]
    examples = pd.concat(found)[columns]
    return examples if len(examples) else nothing("Every answer is right.", columns)


# --- RULER's averages -----------------------------------------------------------------------------

# The average at a length is the mean over tasks, in RULER's unit: percent, 0 to 100. Over lengths
# there is the plain average (Avg.) and two weighted ones, whose weights rise (inc) or fall (dec)
# linearly, 1 to k (Hsieh et al. 2024, "RULER: What's the Real Context Size of Your Long-Context
# Language Models?", section 4). The interval is that of `rulerlib.intervals.clustered`, with a cell
# for each task and length. A sample has the same needles at every length, so its answers form a
# cluster.
#
# The effective length is the longest one whose average exceeds a threshold. RULER's is 85.6%, the
# average of Llama-2-7B (chat) at 4K.

AVERAGES = {"even": "Avg.", "inc": "wAvg. (inc)", "dec": "wAvg. (dec)"}
"""RULER's names for the averages over lengths, by their weights."""

NO_AVERAGE = "At no length were all of these tasks asked, so there is no average."

THRESHOLD = 85.6
"""RULER's threshold, in percent."""

READINGS = ("longest", "unbroken")
"""``longest``: the longest length above the threshold; ``unbroken``: the longest with no failure
before it. They differ if a model falls below the threshold and comes back."""


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
        From `rulerlib.scores.scores`.
    measure
        ``"ruler"``: the measure of RULER's script, recall, and part-match for question answering;
        or another one, see `rulerlib.scores.of_measure`.
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
    for names, part in groups_of(table, ("model", "language")):
        rows = part[["task", "length", "value"]].assign(unit=clusters(part))
        found.append(Averages.of(names, rows, tasks or _usual(part["task"]), lengths))
    return found


def _usual(tasks: Iterable[str]) -> list[str]:
    """Return the tasks to average by default.

    >>> _usual(["vt", "vt+num_hops=2", "cwe+num_cw=5", "mrcr"]), _usual(["mrcr", "drop_1"])
    (['vt', 'cwe+num_cw=5'], ['mrcr', 'drop_1'])
    """
    labels = list(dict.fromkeys(tasks))
    of_ruler = [task for task in labels if base_task(task) in RULER]
    return [task for task in of_ruler if task in RULER or base_task(task) not in of_ruler] or labels


def by_length(
    table: pd.DataFrame, measure: str = "ruler", tasks: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the mean over tasks at each length, in percent: RULER's columns.

    Parameters
    ----------
    table
        From `rulerlib.scores.scores`.
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

    >>> [round(weighted([90.0, 80.0, 70.0], weights), 1) for weights in ("inc", "dec")]
    [76.7, 83.3]
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

    >>> str(effective({4096: 95.1, 8192: 93.8, 16384: 83.6}))
    '8K'
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
        From `rulerlib.scores.scores`.
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
        From `rulerlib.scores.scores`.
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


# --- Two models on the same samples ---------------------------------------------------------------

# A dataset does not depend on the model, and its needles do not depend on the tokenizer. So two
# models are compared sample by sample, which takes far fewer samples than comparing two means
# (Miller 2024, "Adding Error Bars to Evals: A Statistical Approach to Language Model Evaluations",
# section 4).

PAIRED_BY = ("language", "task", "length")

_SAME = [*PAIRED_BY, "questions", "index"]

MOST_PAIRS = 10
"""The number of pairs that `two_by_two` compares at most."""


def paired(
    table: pd.DataFrame,
    first: str,
    second: str,
    measure: str = "primary",
    by: Sequence[str] = PAIRED_BY,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the difference between two models, on the samples that both were asked.

    Samples are the same if language, task, length, index and everything else that determines the
    questions (seed, own texts, questions per context) are equal, and the references agree.

    Parameters
    ----------
    table
        From `rulerlib.scores.scores`.
    first, second
        Models, as the table names them. A positive difference favours the first.
    measure
        See `rulerlib.scores.of_measure`.
    by
        What is compared separately. If a group has several tasks, its means are means over tasks.
    resamples, seed
        The number of random draws of the sign test, and their seed.

    Returns
    -------
    DataFrame
        ``by``, ``n`` (samples both were asked), the two means, ``difference``, ``low``, ``high``;
        ``method``: ``newcombe`` for independent samples of one task that are right or wrong, else
        ``recovered``, from the intervals of both means and their correlation; ``only_first`` and
        ``only_second``, the samples on which one model is better; ``p``, of McNemar's exact test
        for ``newcombe``, else of the sign test `by_signs`; ``p_holm``, corrected for all rows, see
        `holm`; ``variance`` of the differences between samples; ``needed``, the samples of each
        task that would detect the observed difference, see `samples_needed`; ``left_out``, the
        answers to samples that only one model was asked; ``tasks`` and ``missing`` if groups have
        several tasks, see `tasks_in`. An empty table if no sample is
        shared.

    Raises
    ------
    ParameterError
        If a model is not in the table, both are the same, no row has this measure, or
        ``resamples`` or ``seed`` is invalid.
    """
    models = list(dict.fromkeys(table["model"])) if "model" in table else []
    for name, value in (("first", first), ("second", second)):
        one_of(name, value, models)
    if first == second:
        raise ParameterError("second", second, "another model than first")
    whole_number("resamples", resamples, 1)
    whole_number("seed", seed, 0)
    table = of_measure(table, measure)[
        ["model", *_SAME, "repeat", "outputs", "context_id", "value"]
    ]
    if table["repeat"].any():
        # The value of a sample is the mean over its answers (Miller 2024, section 3.1).
        first_ones = {"outputs": "first", "context_id": "first", "value": "mean"}
        table = table.groupby(["model", *_SAME], sort=False, as_index=False).agg(first_ones)
    both = table[table["model"].isin([first, second])]
    ours, theirs = (both[both["model"] == name] for name in (first, second))
    joined = ours.merge(theirs, on=_SAME, suffixes=("", "_other"))
    same = joined[joined["outputs"].map(_references) == joined["outputs_other"].map(_references)]
    if same.empty:
        return nothing(f"{first} and {second} have no sample in common.")
    rng = np.random.default_rng(seed)
    same = same.assign(unit=clusters(same))
    differences = rows_of(same, by, lambda part: compared(part, resamples, rng))
    answers = both.groupby(list(by)).size().rename("left_out")
    differences = differences.merge(answers, left_on=list(by), right_index=True)
    differences["left_out"] -= 2 * differences["n"]
    differences = differences.merge(tasks_in(same, by), on=list(by))
    differences["p_holm"] = holm(differences["p"].tolist())
    return differences.rename(columns={"first": first, "second": second})


def two_by_two(table: pd.DataFrame, compare: NameList = None, **options: Any) -> pd.DataFrame:
    """Return a comparison of each pair of models, see `paired`.

    Parameters
    ----------
    table
        From `rulerlib.scores.scores`.
    compare
        Two models, as a list if their names have commas. If None, the first ``MOST_PAIRS`` of all
        pairs.
    options
        ``measure``, ``by``, ``resamples`` and ``seed``, see `paired`.

    Returns
    -------
    DataFrame
        ``models``, and the columns of `paired`, with the two means as ``first mean`` and
        ``second mean``, and ``p_holm`` corrected for all rows of all pairs; an empty table if
        there is nothing to compare.

    Raises
    ------
    ParameterError
        See `paired`.
    """
    models = list(dict.fromkeys(table["model"]))
    if len(models) < 2:
        there = f"there is only {models[0]}" if models else "there are no answers"
        return nothing(f"A comparison needs two models, but {there}.")
    chosen = wanted("compare", compare)
    if chosen is not None and len(chosen) != 2:
        raise ParameterError("compare", compare, "two models, or None")
    differences = []
    for first, second in [chosen] if chosen else list(combinations(models, 2))[:MOST_PAIRS]:
        pair = paired(table, first, second, **options)
        if len(pair):
            pair.insert(0, "models", f"{first} − {second}")
            pair = pair.rename(columns={first: "first mean", second: "second mean"})
            differences.append(pair.drop(columns="variance"))
    if not differences:
        return nothing("No two models have a sample in common.")
    together = pd.concat(differences, ignore_index=True)
    together["p_holm"] = holm(together["p"].tolist())
    return together


def _references(outputs: Sequence[str]) -> list[str]:
    """Return references for comparison: in any order, and "none" in any language."""
    return ["none"] if wants_none(outputs) else sorted(outputs)


def compared(part: pd.DataFrame, resamples: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return a row of `paired` for one group: the mean over tasks of the differences.

    Parameters
    ----------
    part
        A row for each sample: ``task``; ``unit``, its context or itself; ``value`` and
        ``value_other``, the scores of the first and the second model.
    resamples, rng
        See `by_signs`.
    """
    part = part.assign(difference=part["value"] - part["value_other"])
    tasks = [task for _, task in part.groupby("task", sort=False)]
    first, second = (
        float(np.mean([task[name].mean() for task in tasks])) for name in ("value", "value_other")
    )
    only_first, only_second = (int((sign * part["difference"] > 0).sum()) for sign in (1, -1))
    binary = bool(part[["value", "value_other"]].isin([0, 1]).all(axis=None))
    if binary and part["unit"].is_unique and len(tasks) == 1:
        both = int((part["value"] + part["value_other"] == 2).sum())
        neither = len(part) - both - only_first - only_second
        low, high = newcombe(both, only_first, only_second, neither)
        differ = only_first + only_second
        p = float(binomtest(only_first, differ).pvalue) if differ else 1.0
        method = "newcombe"
    else:
        share = 1 / part.groupby("task")["task"].transform("size")
        ours, theirs = (
            clustered(part[name].tolist(), part["unit"], part["task"], share.tolist())
            for name in ("value", "value_other")
        )
        low, high = recovered(
            (first, ours.low, ours.high), (second, theirs.low, theirs.high), _correlation(tasks)
        )
        # How far the difference of each unit moves the mean over tasks.
        moves = part["difference"] * share / len(tasks)
        moves = moves.groupby([part["task"], part["unit"]]).sum()
        p = by_signs(moves.to_numpy(), resamples, rng)
        method = "recovered"
    # The variance of the mean over k tasks of n samples each is the sum of theirs over k^2 n.
    spread = sum(variance(task) for task in tasks) / len(tasks) ** 2
    return {
        "n": len(part), "first": first, "second": second, "difference": first - second,
        "low": low, "high": high, "method": method,
        "only_first": only_first, "only_second": only_second, "p": p, "p_holm": p,
        "variance": spread, "needed": samples_needed(first - second, spread),
    }  # fmt: skip


def _correlation(tasks: Sequence[pd.DataFrame]) -> float:
    """Return the correlation of the two means, over samples or the contexts they share.

    If nearly all answers of a model are equal, the data say little about it, and a positive
    correlation, which makes the interval narrower, is shrunk towards 0.
    """
    products, k = np.zeros((2, 2)), np.zeros(2)
    for task in tasks:
        values = task[["value", "value_other"]]
        mean = values.mean()
        k += (len(task) * mean * (1 - mean)).to_numpy()
        away = (values - mean).groupby(task["unit"]).sum().to_numpy() / len(task)
        products += away.T @ away
    spread = math.sqrt(products[0, 0] * products[1, 1])
    if spread < 1e-12:
        return 0.0
    correlation = max(-1.0, min(1.0, float(products[0, 1]) / spread))
    return correlation * float(k.min() / (k.min() + 1)) if correlation > 0 else correlation


def variance(rows: pd.DataFrame) -> float:
    """Return n times the variance of the mean of n differences, robust to shared contexts.

    Parameters
    ----------
    rows
        A row for each sample: its ``difference`` and its ``unit``, the context or itself.
    """
    away = (rows["difference"] - rows["difference"].mean()).groupby(rows["unit"]).sum()
    units = len(away)
    if units < 2:
        return math.nan
    return float(units / (units - 1) * (away**2).sum() / len(rows))
