"""How much the same questions differ when they are answered again.

Where decoding samples, a score has two sources of chance: which questions were asked, and which
answer was drawn to each. With n questions and K answers to each, the variance of the mean is
``(between + within / K) / n`` (Miller 2024, "Adding Error Bars to Evals", section 3.1): more
answers to each question help against the second part alone.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "m", "language": "da", "task": "niah_single_1", "length": 1024}
>>> said = [(0, 0, "7"), (0, 1, "7"), (1, 0, "7"), (1, 1, "")]
>>> table = repeats(scores([
...     (about, Prediction(index, "", ["7"], pred, {"repeat": repeat}))
...     for index, repeat, pred in said
... ]))
>>> table[["questions", "repeats", "mean", "within", "between"]].to_dict("records")
[{'questions': 2, 'repeats': 2, 'mean': 0.75, 'within': 0.25, 'between': 0.0}]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from rulerlib.analysis.accuracy import means
from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import BY, groups_of, nothing

NONE_REPEATED = "No question was answered more than once, so runs cannot be compared with runs."


def repeats(table: pd.DataFrame, measure: str = "primary", by: Sequence[str] = BY) -> pd.DataFrame:
    """Return how scores vary over answers to the same questions, and over questions.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    measure
        See `rulerlib.analysis.of_measure`.
    by
        What is looked at separately; one task at one length in each group.

    Returns
    -------
    DataFrame
        ``by``; ``questions``; ``repeats``, answers to each (the fewest, where they differ);
        ``mean``, ``low``, ``high``; ``within``: the variance of answers to the same question, on
        average over questions; ``between``: the variance of the questions' own rates, what is
        left of the variance of their means without the chance of answers, at least 0;
        ``run_deviation``: the standard deviation of a score with one answer to each question
        over runs that ask the same ones, ``sqrt(within / questions)``; ``lowest run`` and
        ``highest run``: the least and the largest mean of one answer to each question. Groups
        without repeats are left out; an empty table says that there are none.

    Raises
    ------
    ParameterError
        If no row has this measure.
    """
    chosen = of_measure(table, measure)
    repeated = chosen.duplicated([*by, *_asked(chosen, by)], keep=False)
    if not repeated.any():
        return nothing(NONE_REPEATED, [*by, "questions", "repeats", "mean"])
    averages = means(chosen.rename(columns={"value": "mean"}), "mean", by)
    rows = [
        {**names, **_varied(part, _asked(part, by))}
        for names, part in groups_of(chosen[repeated], by)
    ]
    return averages[[*by, "mean", "low", "high"]].merge(pd.DataFrame(rows), on=list(by))[
        [*by, "questions", "repeats", "mean", "low", "high", "within", "between",
         "run_deviation", "lowest run", "highest run"]
    ]  # fmt: skip


def _asked(table: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return the columns that tell questions of one group apart."""
    names = (*BY, "setting", "questions", "index")
    return [name for name in names if name in table and name not in by]


def _varied(part: pd.DataFrame, asked: Sequence[str]) -> dict[str, Any]:
    """Return the variances of one group."""
    own = part.groupby(list(asked), sort=False)["value"]
    counts = own.size()
    several = counts >= 2
    within = float(own.var(ddof=1)[several].mean())
    questions = len(counts)
    chance = within * float((1 / counts).mean())
    total = float(own.mean().var(ddof=1)) if questions > 1 else math.nan
    runs = part.groupby("repeat")["value"].agg(["mean", "size"])
    whole = runs.loc[runs["size"] == runs["size"].max(), "mean"]
    return {
        "questions": questions, "repeats": int(counts.min()), "within": within,
        "between": max(0.0, total - chance) if questions > 1 else math.nan,
        "run_deviation": math.sqrt(within / questions),
        "lowest run": float(whole.min()), "highest run": float(whole.max()),
    }  # fmt: skip
