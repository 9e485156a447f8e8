"""Means of a measure by task, category, length or depth, and kinds of mistakes, each with interval.

`rulerlib.tasks.mistakes` decides the kind of a mistake.

>>> from rulerlib.analysis.scores import scores
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from rulerlib.analysis.scores import nothing, of_measure
from rulerlib.intervals import Clustered, clustered
from rulerlib.tasks.mistakes import KINDS

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
        From `rulerlib.analysis.scores`.
    measure
        See `rulerlib.analysis.of_measure`.
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
        From `rulerlib.analysis.scores`.
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
        why = table.attrs.get("why", f"No question has a value of '{fact}'.")
        return nothing(why, [*by, fact])
    return accuracy(rows, by=(*by, fact))


def means(table: pd.DataFrame, column: str, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return means of any column of values from 0 to 1, with their 95% interval.

    Parameters
    ----------
    table
        One row for each prediction, such as `rulerlib.analysis.of_measure` returns.
    column
        The column of values.
    by
        The columns to group by.

    Returns
    -------
    DataFrame
        ``by``, ``n``, the column, ``low``, ``high``; also ``contexts`` and ``design_effect`` if
        contexts are shared. Rows with NaN are left out.

    Raises
    ------
    ParameterError
        If a value is not from 0 to 1.
    """
    if column not in table or not table[column].notna().any():
        why = table.attrs.get("why", "Nothing of this kind was measured.")
        return nothing(why, [*by, "n", column, "low", "high"])
    table = table[table[column].notna()]
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


def overview(table: pd.DataFrame) -> pd.DataFrame:
    """Return the number of tasks and answers of each model, language and length.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``length``, and the counts ``tasks``, ``n`` (answers),
        ``answers_cut_off``, ``prompts_cut``; ``contexts`` if they are shared; ``asked_again`` if a
        source had fewer questions than samples: the answers to repeated prompts, which no table
        counts.
    """
    answers = of_measure(table)
    sharing = shared(answers)

    def row(part: pd.DataFrame) -> dict[str, Any]:
        counts: dict[str, Any] = {
            "tasks": part["task"].nunique(), "n": len(part),
            "answers_cut_off": int((part["cut_off"] != "").sum()),
            "prompts_cut": int((part["truncation"] >= 0).sum()),
        }  # fmt: skip
        if sharing:
            counts["contexts"] = clusters(part).nunique()
        if "asked_again" in part:
            counts["asked_again"] = int(part.drop_duplicates("task")["asked_again"].sum())
        return counts

    return rows_of(answers, ("model", "language", "length"), row)


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
        From `rulerlib.analysis.scores`.
    bins
        The number of depths, see `depth_bin`.

    Returns
    -------
    DataFrame
        `BY`, ``depth``, ``n`` (needles), ``found`` (their share, 0 to 1) and its 95% interval
        ``low``, ``high``, clustered by sample or shared context. ``attrs["depths"]`` holds all
        depths, including those without a needle.
    """
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
        From `rulerlib.analysis.scores`.
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
