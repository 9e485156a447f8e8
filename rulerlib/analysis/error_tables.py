"""Tables of the kinds of mistakes, and examples of wrong answers.

`rulerlib.tasks.mistakes` decides the kind of a mistake.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "lille", "language": "da", "task": "niah_single_1", "length": 1024}
>>> answers = ["1234567", "", "7654321", "7654321"]
>>> rows = [(about, Prediction(i, "", ["1234567"], pred)) for i, pred in enumerate(answers)]
>>> errors(scores(rows))[["error", "n", "count", "share"]].to_dict("split")["data"]
[['empty', 4, 1, 0.25], ['wrong value', 4, 2, 0.5]]
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rulerlib.analysis.accuracy import BY, groups_of, mean_of, shared, tasks_in
from rulerlib.analysis.scores import nothing, of_measure
from rulerlib.tasks.mistakes import KINDS

_SHOWN = ["task", "length", "index", "depths", "outputs", "pred"]

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
        `rulerlib.analysis.accuracy.tasks_in`. Without mistakes the table is empty.
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
