"""Accuracy: means of a measure by task, category, length, knob or depth, with n and interval.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "lille", "language": "da", "task": "vt", "length": 1024}
>>> predictions = [(about, Prediction(index, "", ["AB", "CD"], "AB, CD")) for index in range(9)]
>>> table = accuracy(scores(predictions)).round(2)
>>> table[["n", "measure", "mean", "low", "high", "recall"]].to_dict("split")["data"]
[[9, 'all_match', 1.0, 0.7, 1.0, 1.0]]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from rulerlib.analysis.scores import nothing, of_measure
from rulerlib.intervals import Clustered, clustered

BY = ("model", "language", "task", "length")
"""What is averaged separately where nothing else is asked for."""

RESAMPLES = 2000
"""How often is drawn what an interval or a test is computed from by drawing."""


def accuracy(table: pd.DataFrame, measure: str = "primary", by: Sequence[str] = BY) -> pd.DataFrame:
    """Return means of a measure with their 95 % interval.

    The interval is Wilson's where samples are independent; for recall, by the variance of its
    values. Where samples share contexts, it is cluster-robust, and ``design_effect`` says by what
    factor the sharing raises the variance; see `rulerlib.intervals.clustered`.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    measure
        See `rulerlib.analysis.of_measure`.
    by
        What is averaged separately: any columns, such as ``("category", "length")``.

    Returns
    -------
    DataFrame
        ``by``, ``n``; ``measure``, the name (where several are averaged together, the names) of
        what ``mean``, ``low`` and ``high`` are of; the means of the other measures by their own
        names, NaN where a task does not have them; where contexts are shared, ``contexts`` (how
        many) and ``design_effect``; ``cut_off``, where there are any, the share of answers that
        are wrong and were cut off by the limit; ``category``, where rows are tasks; ``tasks`` and
        ``missing``, where they are means over several, see `tasks_in`.
        Means and shares run from 0 to 1. An empty table is returned as it is.

    Raises
    ------
    ParameterError
        If no row has this measure.
    """
    if table.empty:
        # It says why.
        return table
    chosen = of_measure(table, measure)
    averaged = means(chosen.rename(columns={"value": "mean"}), "mean", by)
    groups = [part for _, part in groups_of(chosen, by)]
    measures = [", ".join(part["measure"].unique()) for part in groups]
    averaged.insert(len(by) + 1, "measure", measures)
    keys = averaged.set_index(list(by)).index
    others = table[~table["measure"].isin(chosen["measure"])]
    for name, part in others.groupby("measure", sort=False):
        values = part.groupby(list(by), sort=False)["value"].mean()
        averaged[name] = values.reindex(keys).to_numpy()
    if (chosen["cut_off"] != "").any():
        averaged["cut_off"] = [
            ((part["cut_off"] != "") & (part["value"] < 1)).mean() for part in groups
        ]
    if "task" in by and "category" not in by:
        averaged["category"] = [part["category"].iloc[0] for part in groups]
    return averaged.merge(tasks_in(chosen, by), on=list(by))


def by_fact(table: pd.DataFrame, fact: str) -> pd.DataFrame:
    """Return means by something that is known of the questions, such as their ``kind``.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    fact
        Its name among the ``facts``. Questions of which it is not known do not count.

    Returns
    -------
    DataFrame
        As `accuracy`, with a column for the fact. An empty table says that it is not known of any.
    """
    rows = table.assign(**{fact: [facts.get(fact) for facts in table["facts"]]})
    rows = rows.dropna(subset=fact)
    if rows.empty:
        why = table.attrs.get("why", f"Of no question '{fact}' is known.")
        return nothing(why, [*BY, fact])
    return accuracy(rows, by=(*BY, fact))


def means(table: pd.DataFrame, column: str, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return means of any column of values from 0 to 1, with their 95 % interval.

    Parameters
    ----------
    table
        One row for each prediction, such as `rulerlib.analysis.of_measure` returns.
    column
        The column of values.
    by
        What is averaged separately.

    Returns
    -------
    DataFrame
        ``by``, ``n``, the column, ``low``, ``high``; where contexts are shared, ``contexts`` and
        ``design_effect``. Rows without a value (NaN) do not count; an empty table says why.

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
    """Return the mean of a value for each row, in clusters where the table shares contexts."""
    units = clusters(part).tolist() if sharing else range(len(part))
    return clustered(values.astype(float).tolist(), units)


def overview(table: pd.DataFrame) -> pd.DataFrame:
    """Return how many tasks and answers each model, language and length has, and how they ended.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``length``, and as counts: ``tasks``; ``n``, the answers;
        ``answers_cut_off`` by the limit; ``prompts_cut``; where contexts are shared, ``contexts``;
        where a source had fewer questions than samples, ``asked_again``: the answers to prompts
        that were asked before, which no table counts.
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
    """Return whether any two answers of one cell share their context, or their sample."""
    if "repeat" in table and table["repeat"].any():
        return True
    in_contexts = table[table["context_id"].notna()]
    cells = [name for name in (*BY, "setting", "measure", "context_id") if name in table]
    return bool(in_contexts.duplicated(cells).any())


def clusters(table: pd.DataFrame) -> pd.Series:
    """Return for each row the name of its cluster: the context that it shares, or its own sample.

    Clusters are independent of each other, so that each may be resampled on its own. The same
    number in two tasks or languages is not the same context; at two lengths it is.
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
    """Yield each group: what it is called in each of the columns ``by``, and its rows.

    Names come in the order in which they first appear, and numbers rise.
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
    """Return a table with a row for each group: its names, and what ``row`` makes of its rows."""
    return pd.DataFrame([{**names, **row(part)} for names, part in groups_of(table, by)])


def tasks_in(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return how many tasks are in each group, for means over several of them.

    Returns
    -------
    DataFrame
        ``by``, ``tasks``, and ``missing``: the names of tasks that the same group was asked at
        another length, but not at this one, so that the means of the two lengths are not over the
        same tasks. Only ``by`` where no group has more than one task.
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
    """Yield a title and its rows for each group; an empty table, which may say why, as it is.

    A group in which nothing of the column ``above_zero`` is more than 0 is left out: a figure of
    zeros shows nothing.
    """
    if table.empty:
        yield "", table
        return
    for names, part in groups_of(table, by):
        if above_zero is None or (part[above_zero] > 0).any():
            yield ", ".join(map(str, names.values())), part


# --- By depth ---------------------------------------------------------------------------------


def depth_bin(depth: float, bins: int = 10) -> float:
    """Return the nearest of ``bins`` depths that lie evenly from 0 to 100; of two, the deeper.

    A needle stands at the seam nearest to its planned depth, which may be a few percent away. The
    first ten samples have their needles planned close to ten such depths, so that each stays in
    its own row of a heatmap. Ten equal parts of 0 to 100 would not do: some planned depths lie on
    the border of two.

    Parameters
    ----------
    depth
        In percent, 0 (start) to 100 (end).
    bins
        The number of depths, from 1; a single one is 50.

    >>> depth_bin(4), depth_bin(47.5, bins=5), depth_bin(100)
    (0.0, 50.0, 100.0)
    """
    return _grid(bins)[math.floor(depth * (bins - 1) / 100 + 0.5)]


def _grid(bins: int) -> list[float]:
    """Return the depths at which `by_depth` counts needles, by rising depth."""
    return [at * 100 / (bins - 1) for at in range(bins)] if bins > 1 else [50.0]


def by_depth(table: pd.DataFrame, bins: int = 10) -> pd.DataFrame:
    """Return the share of needles that were found, by depth.

    The depth of a needle is the one that it reached. Where any one reference suffices (question
    answering), the needle is the document with the answer.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    bins
        The number of depths at which needles are counted, each at the nearest, see `depth_bin`.

    Returns
    -------
    DataFrame
        `BY`, ``depth`` (the nearest of those), ``n`` (needles), ``found``
        (their share, 0 to 1) and its 95 % interval ``low``, ``high``, in which needles of one
        sample, or of one shared context, count as a cluster; an empty table says why.
        ``attrs["depths"]`` names all depths, those without a needle too.
    """
    # One row a prediction, whatever it was measured by.
    rows = of_measure(table)[[*BY, "index", "repeat", "context_id", "needles"]].explode("needles")
    rows = rows[rows["needles"].notna()].reset_index(drop=True)
    if rows.empty:
        why = "None of these tasks hides its answer at a depth, so there is no heatmap."
        return nothing(why, [*BY, "depth", "n", "found", "low", "high"])
    needles = pd.DataFrame(rows.pop("needles").tolist(), columns=["depth", "found"], dtype=float)
    needles["depth"] = needles["depth"].map(lambda depth: depth_bin(depth, bins))
    # Several needles may be of one sample, which without a context is their cluster.
    contexts, alone = rows["context_id"].astype(object), "sample " + rows["index"].astype(str)
    rows["context_id"] = contexts.where(contexts.notna(), alone)
    shares = means(rows.join(needles), "found", [*BY, "depth"])
    shares = shares.drop(columns=["contexts", "design_effect"], errors="ignore")
    shares.attrs["depths"] = _grid(bins)
    return shares
