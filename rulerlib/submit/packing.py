"""From the answers of a run to the folder of a submission.

RULER's thirteen tasks are packed, as they stand in the table of tasks. What else a run was asked
(other tasks, other knobs, the user's own texts) is no part of a table that compares models.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulerlib import paths, tasks
from rulerlib.errors import HALF, DataError, require, whole_number
from rulerlib.samples import Prediction
from rulerlib.store import answers, files
from rulerlib.submit import scored
from rulerlib.submit.folder import (
    NAMES,
    Answer,
    Entry,
    Submission,
    hashed,
    of_prompt,
    write,
)

FOLDER = "book/results/submitted"
"""Where submissions stand in the repository, each in a folder with the name of its model."""


def pack(run: str | Path, out: str | Path = FOLDER, claimed: int | None = None) -> Path:
    """Pack the answers of a model into a small folder.

    Parameters
    ----------
    run
        The folder of the model within that of the runs, ``runs/<model>``.
    out
        The folder in which that of the submission is written, with the name of the model.
    claimed
        The context length that the makers of the model claim, in tokens; None: not said.

    Returns
    -------
    Path
        The folder of the submission.

    Raises
    ------
    ParameterError
        If there is no run, it holds none of RULER's tasks, or the folder cannot be written.
    DataError
        If a file is damaged, or its answers are not all there.
    """
    folder = paths.named("run", run, "the folder of a model's run").resolve()
    require(folder.is_dir(), "run", str(run), "the folder of a model's run, runs/<model>")
    if claimed is not None:
        whole_number("claimed", claimed, 1)
    entries: dict[tuple[str, str, int], Entry] = {}
    known: dict[tuple[str, str, int, int, int], Answer] = {}
    for path in sorted(folder.glob("*/*/pred/*.jsonl")):
        settings = answers.read_settings(path)
        if path.name.startswith(".") or not _wanted(settings):
            continue
        # Without their prompts, which are nearly all of a file of answers.
        hashes, said = [], []
        for prediction in answers.read_predictions(path):
            said.append(_answer(settings["cell"], prediction))
            hashes.append(hashed(prediction.input, said[-1].answer))
        entry = _entry(path, settings, said, hashes)
        if entry.key in entries:
            raise DataError(
                f"{path}: a second file of answers to {entry}; move away the one that is not to be"
                " packed."
            )
        entries[entry.key] = entry
        known |= {answer.place: answer for answer in said}
    allowed = "a folder with <language>/<length>/pred/<task>.jsonl of RULER's tasks as they are"
    require(entries, "run", str(run), allowed)
    submission = Submission(folder.name, claimed, tuple(entries.values()))
    shown = [
        known[*entry.key, *divmod(number, entry.repeats)]
        for entry in submission.entries
        for number in submission.shown(entry)
    ]
    target = paths.named("out", out, "a folder") / submission.name
    others = {path.name for path in target.iterdir()} - {*NAMES} if target.is_dir() else set()
    require(not others, "out", str(target), f"a folder without {', '.join(sorted(others))}")
    files.check_writable(target)
    write(target, submission, shown, scored.texts(submission))
    return target


def _wanted(settings: dict[str, Any]) -> bool:
    """Return whether these are answers to one of RULER's tasks as it is."""
    cell = settings.get("cell")
    if not isinstance(cell, dict) or cell.get("task") not in tasks.RULER:
        return False
    return not any(cell.get(name) for name in ("knobs", "texts", "memory", "study"))


def _answer(cell: dict[str, Any], prediction: Prediction) -> Answer:
    others = prediction.others
    finished = others.get("finished", True)
    return Answer(
        cell["language"], cell["task"], cell["length"], prediction.index, prediction.repeat,
        of_prompt(prediction.input), tuple(prediction.outputs),
        # As the table of scores has it: half characters are none.
        HALF.sub("\ufffd", prediction.pred),
        others.get("prompt_tokens", 0), others.get("tokens_generated", 0),
        others.get("cut_off", None if finished else "answer") or "",
    )  # fmt: skip


def _entry(
    path: Path, settings: dict[str, Any], said: Sequence[Answer], hashes: Sequence[str]
) -> Entry:
    """Return the cell of a file of answers, which have to be all that were asked for."""
    if not said:
        raise DataError(f"{path}: no answers.")
    first = said[0]
    entry = Entry(
        first.language, first.task, first.length, settings, scored.of(first),
        "".join(map(scored.digit, said)),
        "".join("1" if answer.cut_off else "0" for answer in said), tuple(hashes),
    )  # fmt: skip
    for number, answer in enumerate(said):
        index, repeat = divmod(number, entry.repeats)
        if (answer.index, answer.repeat) != (index, repeat):
            raise DataError(f"{path}: sample {index} is missing; finish the run first.")
        if scored.of(answer) != entry.of:
            raise DataError(f"{path}: sample {index} has another number of references.")
    return entry
