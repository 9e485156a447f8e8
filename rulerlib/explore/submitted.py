"""Models that were handed in (`rulerlib.submit`), as the explorer shows them beside runs.

Of each of their answers the score is known, and of a few the answer itself. Their prompts are not
stored, because the command that is shown makes them again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib import analysis, paths, tasks
from rulerlib.errors import DataError, require
from rulerlib.escaping import visible
from rulerlib.explore.answers import command, settings
from rulerlib.submit import check, reading, scored
from rulerlib.submit.folder import Answer, Entry, Submission

Place = tuple[str, str, str, int]
"""Model, language, task and length of a cell."""


@dataclass(frozen=True)
class HandedIn:
    """A submission with the answers that it shows, by their cells."""

    submission: Submission
    answers: dict[tuple[str, str, int], list[Answer]]


def read(folder: str | Path | None) -> list[HandedIn]:
    """Return the submissions in the folders within a folder, by name; none where it is None.

    Raises
    ------
    ParameterError
        If there is no such folder, or a file lies in it that is no submission.
    DataError
        If a submission does not hold, see `rulerlib.submit.check`. Its questions are not made
        again: this version of rulerlib may make others.
    """
    if folder is None:
        return []
    top = paths.named("submitted", folder, "a folder that exists")
    require(top.is_dir(), "submitted", str(folder), "a folder that exists")
    found = []
    for path in sorted(each for each in top.iterdir() if not each.name.startswith(".")):
        if sentences := check(path, questions=False):
            raise DataError(f"{path}: {sentences[0]}")
        submission, answers, _ = reading.read(path)
        by_cell = defaultdict[tuple[str, str, int], list[Answer]](list)
        for answer in answers:
            by_cell[answer.place[:3]].append(answer)
        found.append(HandedIn(submission, by_cell))
    return found


def renamed(handed_in: Iterable[HandedIn], taken: Collection[str]) -> list[HandedIn]:
    """Return submissions of which none has the name of a model that was run here."""
    return [
        replace(one, submission=replace(one.submission, name=f"{one.submission.name}, handed in"))
        if one.submission.name in taken
        else one
        for one in handed_in
    ]


def together(table: pd.DataFrame, handed_in: Iterable[HandedIn]) -> pd.DataFrame:
    """Return the table of scores of runs with those of submissions below.

    Their questions are those of a run, and so compared with it sample by sample, where seed, task,
    language, length and index are the same and so is the gold of those that are shown.
    """
    parts = [table]
    known = {
        names: dict(zip(part["index"], part["outputs"], strict=True))
        for names, part in analysis.of_measure(table).groupby(
            ["language", "task", "length", "questions"]
        )
    }
    for one in handed_in:
        rows = scored.table(one.submission)
        for names, part in rows.groupby(["language", "task", "length", "questions"]):
            gold = known.get(names, {})
            language, task, length, _ = (str(name) for name in names)
            answers = one.answers[language, task, int(length)]
            shown = {answer.index: [*answer.gold] for answer in answers}
            both = shown.keys() & gold.keys()
            if both and all(shown[index] == gold[index] for index in both):
                given = zip(part["index"], part["outputs"], strict=True)
                part = part.assign(outputs=[gold.get(index, own) for index, own in given])
            parts.append(part)
    return pd.concat(parts, ignore_index=True)


def cells(one: HandedIn) -> Iterator[tuple[Place, dict[str, Any], list[dict[str, Any]]]]:
    """Yield each cell of a submission: its place, its settings, and the answers that are shown."""
    for entry in one.submission.entries:
        about = {**entry.cell, "name": one.submission.name}
        records = [_record(entry, answer, about) for answer in one.answers[entry.key]]
        yield (one.submission.name, *entry.key), settings(about), records


def _record(entry: Entry, answer: Answer, about: dict[str, Any]) -> dict[str, Any]:
    """Return all that the page shows of one answer, see `rulerlib.explore.answers.record`."""
    scoring = tasks.TASKS[entry.task].scoring
    measures = scoring.score(answer.answer, answer.gold, language=entry.language)
    score = measures[scoring.primary]
    known = {"prompt_tokens": answer.prompt_tokens, "tokens_generated": answer.tokens_generated}
    return {
        "index": answer.index, "repeat": answer.repeat, "characters": 0, "pieces": [], "parts": [],
        "prefix": "", "gold": [*answer.gold], "answer": visible(answer.answer),
        "known": {**known, **({"cut_off": visible(answer.cut_off)} if answer.cut_off else {})},
        "measures": {name: round(value, 4) for name, value in measures.items()},
        "score": score, "error": "" if score == 1 else "wrong",
        "command": command(about, answer.index),
    }  # fmt: skip
