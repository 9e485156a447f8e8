"""The table of scores of a submission, and the tables of means that follow from it.

The scores of a submission are those by RULER's own measure, as a digit an answer. A task's own
measure follows from them: it asks for all references, where RULER's gives part of the points for
some.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pandas as pd

from rulerlib import analysis, tasks
from rulerlib.analysis import BY
from rulerlib.errors import shortened
from rulerlib.samples import Prediction
from rulerlib.submit.folder import DIGITS, SCORES, TABLES, Answer, Entry, Submission

DECIMALS = 4

# Numbers of other machines may differ in their last digit, after rounding.
_TOLERANCE = 2.5 * 10**-DECIMALS

# Other questions have other versions of these.
_MADE = ("language_pack", "rulerlib")

_ACCURACY = ("language", "task", "length", "n", "measure", "mean", "low", "high")


def of(answer: Answer) -> int:
    """Return how many references an answer can have: 1 where any one of them suffices."""
    return len(answer.gold) if tasks.TASKS[answer.task].scoring.ruler == "recall" else 1


def digit(answer: Answer) -> str:
    """Return how many of its references an answer has, as a digit."""
    scoring = tasks.TASKS[answer.task].scoring
    values = scoring.score(answer.answer, answer.gold, language=answer.language)
    return DIGITS[round(values[scoring.ruler] * of(answer))]


def table(submission: Submission) -> pd.DataFrame:
    """Return the long table of scores, as `rulerlib.analysis.scores` makes it of the run itself.

    It has the measures of which the tables are made, and nothing of what the model said.
    """
    parts = [part for entry in submission.entries for part in _rows(submission.name, entry)]
    return pd.concat(parts, ignore_index=True)


def _rows(name: str, entry: Entry) -> Iterator[pd.DataFrame]:
    """Yield the rows of a cell for each measure."""
    language, task, length = entry.key
    about = {**entry.cell, "model": name, "language": language, "task": task, "length": length}
    scoring = tasks.TASKS[task].scoring
    repeats, numbers = entry.repeats, range(entry.n)
    # It stands for the references, which only the answers that are shown have with them.
    made: Any = [str(entry.settings.get("dataset", {}).get(name)) for name in _MADE]
    # What a cell's rows have in common is known from any answer to it.
    one = analysis.scores([(about, Prediction(0, outputs=["?"], pred="?"))])
    for measure in dict.fromkeys((scoring.primary, scoring.ruler)):
        values = entry.values
        if measure != scoring.ruler:
            # All references, or nothing.
            values = [float(value == 1) for value in values]
        part = one[one["measure"] == measure]
        yield part.iloc[[0] * entry.n].assign(
            value=values,
            index=[number // repeats for number in numbers],
            repeat=[number % repeats for number in numbers],
            outputs=[made] * entry.n,
            cut_off=["answer" if flag == "1" else "" for flag in entry.cut_off],
        )


def texts(submission: Submission) -> dict[str, str]:
    """Return the text of each table of a submission, as CSV."""
    rows = table(submission)
    summary = analysis.summary(rows)
    made = {
        "accuracy": analysis.accuracy(rows)[[*_ACCURACY]],
        "averages": analysis.by_length(rows),
        # Among itself alone a model has no rank.
        "summary": summary[[name for name in summary if not str(name).endswith("rank")]],
    }
    return {
        name: made[name].round(DECIMALS).to_csv(index=False, lineterminator="\n") for name in TABLES
    }


def differing(name: str, stated: str, own: str) -> str | None:
    """Return a sentence on the first number of a table that does not follow from the scores.

    Parameters
    ----------
    name
        The file of the table.
    stated, own
        Its text as it was handed in, and as it follows.
    """
    (head, *rows), (columns, *wanted) = (
        [*csv.reader(io.StringIO(text))] or [[]] for text in (stated, own)
    )
    if head != columns:
        return f"{name}: its columns are not {', '.join(columns)}."
    if len(rows) != len(wanted):
        return f"{name}: {len(rows)} rows, where {len(wanted)} follow from {SCORES}."
    for row, other in zip(rows, wanted, strict=True):
        if len(row) != len(other):
            return f"{name}: {shortened(row)} is no row of this table."
        for column, cell, value in zip(columns, row, other, strict=True):
            if not _same(cell, value):
                named = dict(zip(columns, other, strict=True))
                where = ", ".join(named[each] for each in BY if each in named)
                return (
                    f"{name}: {column} of {where} is {shortened(cell)}, but {value or 'nothing'}"
                    f" follows from {SCORES}."
                )
    return None


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return bool(abs(float(one) - float(other)) <= _TOLERANCE)
    except ValueError:
        return False
