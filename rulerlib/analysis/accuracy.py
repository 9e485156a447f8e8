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

RESAMPLES = 2000
"""The default number of random draws for intervals and tests."""

_SHOWN = ["task", "length", "index", "depths", "outputs", "pred"]


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
        ``high``; a column with the mean of each other measure, NaN for tasks without it. If
        contexts are shared: ``contexts`` (their number) and ``design_effect``. If answers hit the
        limit: ``cut_off``, the share that is wrong and was cut off. ``category`` if rows are
        tasks; ``tasks`` and ``missing`` if they average several, see `tasks_in`. Means and shares
        are from 0 to 1. An empty table is returned unchanged.

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
    """Return means by a fact about the questions, such as their ``kind``.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    fact
        A key of ``facts``. Questions without it are left out.

    Returns
    -------
    DataFrame
        As `accuracy`, with a column for the fact; empty if no question has it.
    """
    rows = table.assign(**{fact: [facts.get(fact) for facts in table["facts"]]})
    rows = rows.dropna(subset=fact)
    if rows.empty:
        why = table.attrs.get("why", f"No question has a value of '{fact}'.")
        return nothing(why, [*BY, fact])
    return accuracy(rows, by=(*BY, fact))


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
    return _grid(bins)[math.floor(depth * (bins - 1) / 100 + 0.5)]


def _grid(bins: int) -> list[float]:
    """Return the depths of `by_depth` in ascending order."""
    return [at * 100 / (bins - 1) for at in range(bins)] if bins > 1 else [50.0]


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
    shares.attrs["depths"] = _grid(bins)
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


def over_tasks(table: pd.DataFrame) -> pd.DataFrame:
    """Return the kinds of mistakes of all tasks together.

    If a task is missing at some length, the shares of two lengths are of different tasks.

    Parameters
    ----------
    table
        From `errors`, by task and length.

    Returns
    -------
    DataFrame
        ``model``, ``language`` and ``length`` if the table has them, ``task`` (always
        ``"all tasks"``), ``error``, ``n``, ``count`` and ``share``. An empty table is returned
        unchanged.
    """
    if table.empty:
        # Its attrs hold the reason.
        return table
    by = [name for name in (*BY, "error") if name in table and name != "task"]
    sums = table.groupby(by, sort=False)[["n", "count"]].sum().reset_index()
    return sums.assign(task="all tasks", share=sums["count"] / sums["n"])


def error_examples(table: pd.DataFrame, count: int = 1) -> pd.DataFrame:
    """Return ``count`` real wrong answers of each kind, from different lengths where possible."""
    table = of_measure(table)
    columns = ["error", "task", "language", *_SHOWN[1:]]
    examples = pd.concat([_varied(table[table["error"] == kind], count) for kind in KINDS])
    return examples[columns] if len(examples) else nothing("Every answer is right.", columns)


def wrong(table: pd.DataFrame) -> pd.DataFrame:
    """Return the first three wrong answers, from different lengths where possible, in full.

    ``attrs["language"]`` is the language code if all answers share it. If no answer is wrong,
    ``attrs["why"]`` gives the number of right ones.
    """
    rows = of_measure(table)
    answers = _varied(rows[rows["value"] < 1], 3)
    codes, answers = set(answers["language"]), answers[_SHOWN]
    if len(codes) == 1:
        answers.attrs["language"] = codes.pop()
    if answers.empty and len(rows):
        all_of_them = "The one answer is" if len(rows) == 1 else f"All {len(rows):,} answers are"
        answers.attrs["why"] = f"{all_of_them} right."
    return answers


def _varied(table: pd.DataFrame, count: int) -> pd.DataFrame:
    """Return ``count`` rows: first one for each length, then the others."""
    first = table.groupby("length", sort=False).head(1)
    return pd.concat([first, table.drop(first.index)]).head(count)


# --- Repeated answers ------------------------------------------------------------------------


def repeats(table: pd.DataFrame) -> pd.DataFrame:
    """Return the variance of scores within and between questions.

    With n questions and K answers to each, the variance of the mean is
    ``(between + within / K) / n`` (Miller 2024, "Adding Error Bars to Evals", section 3.1): more
    answers to each question help against the second part alone.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.

    Returns
    -------
    DataFrame
        `BY`; ``questions``; ``repeats``, answers to each (the fewest,
        where they differ); ``mean``, ``low``, ``high``; ``within``: the variance of answers to the
        same question, on average over questions; ``between``: the variance of the questions' own
        rates, what is left of the variance of their means without the chance of answers, at least
        0; ``run_deviation``: the standard deviation of a score with one answer to each question
        over runs that ask the same ones, ``sqrt(within / questions)``; ``lowest run`` and
        ``highest run``: the least and the largest mean of one answer to each question. Groups
        without repeats are left out; an empty table says that there are none.
    """
    rows = of_measure(table)
    question = [name for name in ("setting", "questions", "index") if name in rows]
    repeated = rows.duplicated([*BY, *question], keep=False)
    if not repeated.any():
        why = "No question was answered more than once, so runs cannot be compared with runs."
        return nothing(why, [*BY, "questions", "repeats", "mean"])
    averages = means(rows.rename(columns={"value": "mean"}), "mean")
    varied = rows_of(rows[repeated], BY, lambda part: _variances(part, question))
    return averages[[*BY, "mean", "low", "high"]].merge(varied, on=list(BY))[
        [*BY, "questions", "repeats", "mean", "low", "high", "within", "between",
         "run_deviation", "lowest run", "highest run"]
    ]  # fmt: skip


def _variances(part: pd.DataFrame, question: list[str]) -> dict[str, Any]:
    """Return the variances of one group; the columns in ``question`` identify a question."""
    by_question = part.groupby(question, sort=False)["value"]
    counts = by_question.size()
    within = float(by_question.var(ddof=1)[counts >= 2].mean())
    questions = len(counts)
    chance = within * float((1 / counts).mean())
    total = float(by_question.mean().var(ddof=1)) if questions > 1 else math.nan
    runs = part.groupby("repeat")["value"].agg(["mean", "size"])
    whole = runs.loc[runs["size"] == runs["size"].max(), "mean"]
    return {
        "questions": questions, "repeats": int(counts.min()), "within": within,
        "between": max(0.0, total - chance) if questions > 1 else math.nan,
        "run_deviation": math.sqrt(within / questions),
        "lowest run": float(whole.min()), "highest run": float(whole.max()),
    }  # fmt: skip
