"""Accuracy: means of a measure by task, category, length or knob, each with n and interval.

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
from collections.abc import Sequence
from typing import Any

import pandas as pd

from rulerlib.analysis.labels import base
from rulerlib.analysis.scores import changed_knobs, of_measure, with_knobs
from rulerlib.analysis.tables import BY, groups_of, nothing, tasks_in
from rulerlib.intervals import clustered
from rulerlib.sequential import Tally, confidence_sequence, tally


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
        ``missing``, where they are means over several, see `rulerlib.analysis.tables.tasks_in`.
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


def by_fact(
    table: pd.DataFrame,
    fact: str,
    measure: str = "primary",
    by: Sequence[str] = ("model", "language", "task", "length"),
) -> pd.DataFrame:
    """Return means by something that is known of the questions, such as their ``kind``.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    fact
        Its name among the ``facts``. Questions of which it is not known do not count.
    measure
        See `rulerlib.analysis.of_measure`.
    by
        What is averaged separately besides.

    Returns
    -------
    DataFrame
        As `accuracy`, with a column for the fact. An empty table says that it is not known of any.

    Raises
    ------
    ParameterError
        If no row has this measure.
    """
    rows = table.assign(**{fact: [facts.get(fact) for facts in table["facts"]]})
    rows = rows.dropna(subset=fact)
    if rows.empty:
        why = table.attrs.get("why", f"Of no question '{fact}' is known.")
        return nothing(why, [*by, fact])
    return accuracy(rows, measure, (*by, fact))


def by_knob(table: pd.DataFrame, knob: str | None = None) -> pd.DataFrame:
    """Return accuracy by the knobs in which the runs of one task differ.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    knob
        Only this one, for all tasks that have it.

    Returns
    -------
    DataFrame
        As `accuracy`, with the name of the ``knob`` and its ``value``; an empty table that says
        why where the runs differ in no knob.

    Raises
    ------
    ParameterError
        If no task has such a knob.
    """
    tables = []
    for name in [knob] if knob else changed_knobs(table):
        rows = with_knobs(table, name)
        rows = rows.assign(task=rows["task"].map(base), knob=name, setting=rows[name].astype(str))
        if not knob:
            rows = rows.groupby("task").filter(lambda own: own["setting"].nunique() > 1)
        tables.append(accuracy(rows, by=(*BY, "knob", "setting")))
    if not tables:
        return nothing("These runs differ in no knob.")
    return pd.concat(tables, ignore_index=True).rename(columns={"setting": "value"})


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
        ``design_effect``; where a sequential plan decided how many samples were asked,
        ``planned``, and the interval is that of `rulerlib.sequential`, which holds wherever one
        stops. Rows without a value (NaN) do not count; an empty table says why.

    Raises
    ------
    ParameterError
        If a value is not from 0 to 1.
    """
    if column not in table or not table[column].notna().any():
        why = table.attrs.get("why", "Nothing of this kind was measured.")
        return nothing(why, [*by, "n", column, "low", "high"])
    table = table[table[column].notna()]
    sharing, sequential = shared(table), "planned" in table and table["planned"].notna().any()
    rows = []
    for names, part in groups_of(table, by):
        units = clusters(part).tolist() if sharing else range(len(part))
        mean = clustered(part[column].tolist(), units)
        row = {**names, "n": mean.n, column: mean.mean, "low": mean.low, "high": mean.high}
        if sequential:
            row |= _stopped(part, column)
        if sharing:
            row["contexts"] = mean.clusters
            row["design_effect"] = mean.design_effect if mean.clusters < mean.n else 1.0
        rows.append(row)
    return pd.DataFrame(rows)


def tallies(table: pd.DataFrame, column: str = "value") -> list[tuple[dict[str, Any], Tally]]:
    """Return what was drawn of each task at each length: its names, and sum and number of draws."""
    cells = [name for name in (*BY, "setting") if name in table]
    return [
        (names, tally(part[column].tolist(), clusters(part).tolist()))
        for names, part in groups_of(table, cells)
    ]


def _stopped(part: pd.DataFrame, column: str) -> dict[str, Any]:
    """Return what a sequential plan changes in a row of `means`.

    The samples of several lengths are the same, so that one interval for all of them would not
    hold wherever one stops; it stays as it is.
    """
    planned = part.drop_duplicates([name for name in (*BY, "setting") if name in part])["planned"]
    if planned.isna().all() or part["length"].nunique() > 1:
        return {"planned": planned.sum() if planned.notna().all() else math.nan}
    drawn = [own for _, own in tallies(part, column)]
    draws = sum(count for _, count in drawn)
    low, high = confidence_sequence(drawn, [count / draws for _, count in drawn])
    return {"low": low, "high": high, "planned": planned.sum()}


def overview(table: pd.DataFrame) -> pd.DataFrame:
    """Return how many tasks and answers each model, language and length has, and how they ended.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``length``, and as counts: ``tasks``; ``n``, the answers;
        ``answers_cut_off`` by the limit; ``prompts_cut``; where contexts are shared, ``contexts``;
        where a plan was sequential, ``planned``: the samples that it would have asked at most;
        where a source had fewer questions than samples, ``asked_again``: the answers to prompts
        that were asked before, which no table counts.
    """
    answers = of_measure(table)
    sharing = shared(answers)
    rows = []
    for names, part in groups_of(answers, ("model", "language", "length")):
        row = {**names, "tasks": part["task"].nunique(), "n": len(part)}
        row["answers_cut_off"] = int((part["cut_off"] != "").sum())
        row["prompts_cut"] = int((part["truncation"] >= 0).sum())
        if sharing:
            row["contexts"] = clusters(part).nunique()
        if "planned" in part:
            row["planned"] = part.drop_duplicates("task")["planned"].sum()
        if "asked_again" in part:
            row["asked_again"] = int(part.drop_duplicates("task")["asked_again"].sum())
        rows.append(row)
    return pd.DataFrame(rows)


def shared(table: pd.DataFrame) -> bool:
    """Return whether any two answers of one cell share their context, or their sample."""
    if "repeat" in table and table["repeat"].any():
        return True
    known = table[table["context_id"].notna()]
    cells = [name for name in (*BY, "setting", "measure", "context_id") if name in table]
    return bool(known.duplicated(cells).any())


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
