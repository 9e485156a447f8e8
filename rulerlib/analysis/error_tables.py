"""Error analysis: the kinds of mistakes as tables, and wrong answers to be read.

`rulerlib.tasks.mistakes` says what kind of mistake an answer is.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "lille", "language": "da", "task": "niah_single_1", "length": 1024}
>>> said = ["1234567", "", "7654321", "7654321"]
>>> rows = [(about, Prediction(i, "", ["1234567"], pred)) for i, pred in enumerate(said)]
>>> errors(scores(rows))[["error", "n", "count", "share"]].to_dict("split")["data"]
[['empty', 4, 1, 0.25], ['wrong value', 4, 2, 0.5]]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rulerlib.analysis.accuracy import clusters, shared
from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import BY, groups_of, nothing, scipy, tasks_in
from rulerlib.intervals import clustered
from rulerlib.tasks.mistakes import KINDS

_SHOWN = ["task", "length", "index", "depths", "outputs", "pred"]


def errors(table: pd.DataFrame, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return what kinds of mistakes there are, as shares of all answers.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    by
        What is counted separately.

    Returns
    -------
    DataFrame
        ``by``, ``error`` (a name in `rulerlib.tasks.mistakes.KINDS`, only those that occur),
        ``n`` (all answers, right ones too), ``count``, ``share`` and its 95 % interval ``low``,
        ``high``: Wilson's, or cluster-robust where contexts are shared. The shares of a group add
        up to its error rate. ``tasks`` and ``missing``, where a group has several, see
        `rulerlib.analysis.tables.tasks_in`. An empty table says that there are no mistakes.
    """
    table = of_measure(table)
    kinds = [kind for kind in KINDS if (table["error"] == kind).any()]
    sharing = shared(table)
    rows = []
    for names, part in groups_of(table, by):
        units = clusters(part).tolist() if sharing else range(len(part))
        for kind in kinds:
            mean = clustered((part["error"] == kind).astype(float).tolist(), units)
            count = int((part["error"] == kind).sum())
            rows.append([*names.values(), kind, mean.n, count, mean.mean, mean.low, mean.high])
    columns = [*by, "error", "n", "count", "share", "low", "high"]
    if not rows:
        return nothing("Every answer is right: there are no errors to sort.", columns)
    return pd.DataFrame(rows, columns=columns).merge(tasks_in(table, by), on=list(by))


def over_tasks(table: pd.DataFrame) -> pd.DataFrame:
    """Return the kinds of mistakes of all tasks together.

    Where a task was not asked at every length, the shares of two lengths are not of the same tasks.

    Parameters
    ----------
    table
        From `errors`, by task and length.

    Returns
    -------
    DataFrame
        The model, the language and the length, as far as the table has them, ``task`` (the text
        ``"all tasks"``), ``error``, ``n``, ``count`` and ``share``. An empty table is returned as
        it is.
    """
    if table.empty:
        # It says why.
        return table
    by = [name for name in (*BY, "error") if name in table and name != "task"]
    sums = table.groupby(by, sort=False)[["n", "count"]].sum().reset_index()
    return sums.assign(task="all tasks", share=sums["count"] / sums["n"])


def mistaken_places(table: pd.DataFrame, by: Sequence[str] = ("task", "length")) -> pd.DataFrame:
    """Return how near the distractors that were taken stood to the right values.

    Returns
    -------
    DataFrame
        ``by``, ``n`` (answers with a distractor whose place is known), ``distance``: the mean,
        in percent of the prompt; ``low``, ``high``: its 95 % interval (Student's t; open where n
        is 1); ``expected``: the mean distance of a distractor taken at random. A distance below
        ``expected`` says that the model looked in about the right place. An empty table says why.

    Raises
    ------
    MissingExtraError
        If `scipy` is not installed.
    """
    table = of_measure(table)
    placed = table[table["distance"].notna()]
    columns = [*by, "n", "distance", "low", "high", "expected"]
    if placed.empty:
        return nothing("No wrong answer is the value of a distractor with a place.", columns)
    rows = []
    for names, part in groups_of(placed, by):
        n, mean = len(part), part["distance"].mean()
        reach = part["distance"].sem() * scipy("stats").t.ppf(0.975, max(1, n - 1))
        low, high = np.clip([mean - reach, mean + reach], 0, 100)
        rows.append([*names.values(), n, mean, low, high, part["expected"].mean()])
    return pd.DataFrame(rows, columns=columns)


def error_examples(table: pd.DataFrame, count: int = 1) -> pd.DataFrame:
    """Return ``count`` real wrong answers of each kind, from different lengths where possible."""
    table = of_measure(table)
    columns = ["error", "task", "language", *_SHOWN[1:]]
    examples = pd.concat([_varied(table[table["error"] == kind], count) for kind in KINDS])
    return examples[columns] if len(examples) else nothing("Every answer is right.", columns)


def wrong(table: pd.DataFrame, measure: str = "primary", count: int = 3) -> pd.DataFrame:
    """Return the first ``count`` wrong answers, from different lengths where possible, in full.

    Where all are of one language, ``attrs["language"]`` is its code; where no answer is wrong,
    ``attrs["why"]`` says how many were right.

    Raises
    ------
    ParameterError
        If no row has this measure.
    """
    rows = of_measure(table, measure)
    found = _varied(rows[rows["value"] < 1], count)
    codes, found = set(found["language"]), found[_SHOWN]
    if len(codes) == 1:
        found.attrs["language"] = codes.pop()
    if found.empty and len(rows):
        all_of_them = "The one answer is" if len(rows) == 1 else f"All {len(rows):,} answers are"
        found.attrs["why"] = f"{all_of_them} right."
    return found


def _varied(table: pd.DataFrame, count: int) -> pd.DataFrame:
    """Return the first row of each length, and then the others; ``count`` of them."""
    first = table.groupby("length", sort=False).head(1)
    return pd.concat([first, table.drop(first.index)]).head(count)
