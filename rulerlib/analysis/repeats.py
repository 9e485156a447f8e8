"""The same questions once more: with other answers drawn, and in other words.

Where decoding samples, a score has two sources of chance: which questions were asked, and which
answer was drawn to each (`repeats`). And a task that was asked in several wordings
(``-p paraphrase 1``) has a score for each (`paraphrases`).

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

from rulerlib.analysis.accuracy import in_samples, means
from rulerlib.analysis.scores import of_measure, with_knob
from rulerlib.analysis.tables import BY, groups_of, nothing, rows_of, scipy

NONE_REPEATED = "No question was answered more than once, so runs cannot be compared with runs."
ONE_WORDING = "Each task was asked in one wording alone (-p paraphrase 1 asks in another one)."

# What tells questions of one task at one length apart.
_QUESTION = ("setting", "questions", "index")


def repeats(table: pd.DataFrame) -> pd.DataFrame:
    """Return how scores vary over answers to the same questions, and over questions.

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
        `rulerlib.analysis.tables.BY`; ``questions``; ``repeats``, answers to each (the fewest,
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
    """Return the variances of one group, in which some columns tell questions apart."""
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


def paraphrases(table: pd.DataFrame) -> pd.DataFrame:
    """Return how far the scores of different wordings of the same questions lie apart.

    Scores differ by chance, too, even on the same samples. With the same samples in k wordings,
    the test is Cochran's (1950, "The Comparison of Percentages in Matched Samples"), in the form
    that any score from 0 to 1 may take: if the wording made no difference, each sample's answers
    could stand in any order.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.

    Returns
    -------
    DataFrame
        `rulerlib.analysis.tables.BY`, the task without its paraphrase; ``wordings``, how many;
        ``n``, the samples that were asked in all of them; ``mean`` over them and all wordings, with
        ``low`` and ``high``; ``lowest`` and ``highest``, the least and the largest score of a
        wording; ``deviation``, the standard deviation of the wordings' scores; ``chance``, what it
        would be on average if the wording made no difference; and ``p``, how often it would be as
        large as it is then. Tasks with one wording are left out; an empty table says that there
        are no others.
    """
    if table.empty:
        return table
    rows = table[["paraphrase" in knobs for knobs in table["knobs"]]]
    spreads = []
    if len(rows):
        rows = with_knob(of_measure(rows), "paraphrase")
        rows = rows.assign(task=rows["task"].map(_without_paraphrase))
        sample = [name for name in _QUESTION if name in rows]
        for names, part in groups_of(rows, BY):
            # Answers that were drawn several times count as their mean.
            grid = part.pivot_table("value", sample, "paraphrase", "mean").dropna()
            if len(grid.columns) > 1 and len(grid):
                spreads.append({**names, **_spread(part, grid, sample)})
    columns = [*BY, "wordings", "n", "mean"]
    return pd.DataFrame(spreads) if spreads else nothing(ONE_WORDING, columns)


def _without_paraphrase(label: str) -> str:
    """Return a task's label without its paraphrase.

    >>> _without_paraphrase("vt+num_hops=8+paraphrase=2")
    'vt+num_hops=8'
    """
    return "+".join(part for part in label.split("+") if not part.startswith("paraphrase="))


def _spread(part: pd.DataFrame, grid: pd.DataFrame, sample: list[str]) -> dict[str, Any]:
    """Return the spread of one group, given the scores of its samples by wording."""
    part = part.set_index(sample)
    part = part[part.index.isin(grid.index)].reset_index().assign(whole="")
    # All answers to a sample depend on each other, whatever the wording.
    mean = means(in_samples(part), "value", by=("whole",)).iloc[0]
    scores, wordings = grid.mean(), len(grid.columns)
    within = float(grid.var(axis=1, ddof=1).sum())
    deviation = float(scores.std(ddof=1))
    chance = math.sqrt(within) / len(grid)
    # The scores of wordings are alike where no sample's are not.
    ratio = (deviation / chance) ** 2 if chance else 0.0
    p = float(scipy("stats").chi2.sf((wordings - 1) * ratio, wordings - 1))
    return {
        "wordings": wordings, "n": len(grid),
        "mean": float(mean["value"]), "low": float(mean["low"]), "high": float(mean["high"]),
        "lowest": float(scores.min()), "highest": float(scores.max()),
        "deviation": deviation, "chance": chance, "p": p,
    }  # fmt: skip
