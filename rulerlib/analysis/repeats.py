"""The variance of scores over repeated answers to the same questions.

With sampled decoding, a score depends on the sample of questions and on the sampled answers.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "m", "language": "da", "task": "niah_single_1", "length": 1024}
>>> answers = [(0, 0, "7"), (0, 1, "7"), (1, 0, "7"), (1, 1, "")]
>>> table = repeats(scores([
...     (about, Prediction(index, "", ["7"], pred, {"repeat": repeat}))
...     for index, repeat, pred in answers
... ]))
>>> table[["questions", "repeats", "mean", "within", "between"]].to_dict("records")
[{'questions': 2, 'repeats': 2, 'mean': 0.75, 'within': 0.25, 'between': 0.0}]
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from rulerlib.analysis.accuracy import BY, means, rows_of
from rulerlib.analysis.scores import nothing, of_measure

NONE_REPEATED = "No question was answered more than once, so runs cannot be compared with runs."

# Columns that identify a question of one task at one length.
_QUESTION = ("setting", "questions", "index")


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
        `rulerlib.analysis.accuracy.BY`; ``questions``; ``repeats``, answers to each (the fewest,
        where they differ); ``mean``, ``low``, ``high``; ``within``: the variance of answers to the
        same question, on average over questions; ``between``: the variance of the questions' own
        rates, what is left of the variance of their means without the chance of answers, at least
        0; ``run_deviation``: the standard deviation of a score with one answer to each question
        over runs that ask the same ones, ``sqrt(within / questions)``; ``lowest run`` and
        ``highest run``: the least and the largest mean of one answer to each question. Groups
        without repeats are left out; an empty table says that there are none.
    """
    rows = of_measure(table)
    question = [name for name in _QUESTION if name in rows]
    repeated = rows.duplicated([*BY, *question], keep=False)
    if not repeated.any():
        return nothing(NONE_REPEATED, [*BY, "questions", "repeats", "mean"])
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
