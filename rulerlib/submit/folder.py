"""The folder of a submission: how it is packed from a run, written, and read.

``settings.json``
    the model's name, the length that its makers claim, and how each cell was asked, a cell a line;
``answers.jsonl.gz``
    every answer, a line each: its cell, the sample's index, the references, what the model said,
    a hash of the prompt (which can be made again), and how many tokens were read and written.

Neither scores nor tables are part of the folder, because they follow from the answers. RULER's
thirteen tasks are packed, and beside them the six of the frontier, all as they stand in the table
of tasks. What else a run was asked (other tasks, other knobs, the user's own texts) is left out: it
cannot be compared with others. The same run gives the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib import analysis, files
from rulerlib.errors import HALF, DataError, is_text, require, shortened, whole_number
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.samples import Prediction
from rulerlib.store import answers
from rulerlib.store.cell import Cell
from rulerlib.tasks import FRONTIER, RULER

FOLDER = "book/results/submitted"
"""Where submissions stand in the repository, each in a folder with the name of its model."""

VERSION = 2
"""The version of this layout."""

SETTINGS, ANSWERS = "settings.json", "answers.jsonl.gz"

NAMES = (SETTINGS, ANSWERS)
"""All files of the folder."""

PACKED = (*RULER, *FRONTIER)
"""The tasks that are packed; averages are those of RULER's."""

LARGEST = 200_000_000
"""Bytes of a file that is read, when it is unpacked."""

# What is packed of `Prediction.others`, beside the hash of the prompt.
_KEPT = ("language", "repeat", "prompt_tokens", "tokens_generated", "finished", "cut_off")

Key = tuple[str, str, int]
"""Language, task and length of a cell."""


@dataclass(frozen=True)
class AnsweredCell:
    """A cell of a submission: how it was asked, and all answers.

    Attributes
    ----------
    cell
        What was asked, and how.
    settings
        All that stands beside the answers of the run.
    answers
        By index and repeat, without their prompts, whose hashes stand in ``others``.
    """

    cell: Cell
    settings: Mapping[str, Any]
    answers: list[Prediction]

    @property
    def key(self) -> Key:
        """Language, task and length."""
        return self.cell.language, self.cell.task, self.cell.length

    def __str__(self) -> str:
        return ", ".join(map(str, self.key))

    def misplaced(self) -> int | None:
        """Return the index of the first sample that is missing or out of order; None: of none."""
        repeats = self.cell.decoding.samples
        for number, answer in enumerate(self.answers):
            if (answer.index, answer.repeat) != divmod(number, repeats):
                return number // repeats
        return len(self.answers) // repeats if len(self.answers) % repeats else None


@dataclass(frozen=True)
class Submission:
    """A model with its cells.

    Attributes
    ----------
    name
        The name of the run's folder, which tells its settings.
    claimed
        The context length that its makers claim, in tokens; None where nobody says.
    cells
        Those of a run in the order of language, length and `PACKED`.
    """

    name: str
    claimed: int | None
    cells: Sequence[AnsweredCell]

    def predictions(self) -> Iterator[tuple[dict[str, Any], Prediction]]:
        """Yield every answer with the settings of its cell."""
        for part in self.cells:
            about = part.cell.settings()
            yield from ((about, answer) for answer in part.answers)

    def table(self) -> pd.DataFrame:
        """Return the long table of scores, see `rulerlib.analysis.scores`.

        The model is named as the submission, whatever settings differ from cell to cell.
        """
        tables = []
        for part in self.cells:
            about = {**part.cell.settings(), "model": self.name}
            tables.append(analysis.scores((about, answer) for answer in part.answers))
        return pd.concat(tables, ignore_index=True)


def hashed(prompt: str) -> str:
    """Return the hash by which a prompt is known.

    >>> hashed("What is it?")
    'bbff7b98d6da7061'
    """
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16]


# --- Packed and written ----------------------------------------------------------------------


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
    folder = files.named("run", run, "the folder of a model's run").resolve()
    require(folder.is_dir(), "run", str(run), "the folder of a model's run, runs/<model>")
    if claimed is not None:
        whole_number("claimed", claimed, 1)
    cells: dict[Key, AnsweredCell] = {}
    models: set[str] = set()
    for path in sorted(folder.glob("*/*/pred/*.jsonl")):
        settings = answers.read_settings(path)
        cell = settings.get("cell") or {}
        if not cell and path.name.partition("+")[0].removesuffix(".jsonl") in PACKED:
            raise DataError(f"{path}: no settings beside it that tell what was asked.")
        changed = any(cell.get(name) for name in ("knobs", "texts", "memory", "study"))
        if path.name.startswith(".") or cell.get("task") not in PACKED or changed:
            continue
        part = AnsweredCell(_cell(settings), settings, [])
        model, *place = part.cell.answers("").parts
        models.add(model)
        if len(models) > 1 or path.relative_to(folder) != Path(*place):
            raise DataError(f"{path}: its settings are those of {part.cell.answers('')}.")
        for answer in answers.read_predictions(path):
            others = {"cell": str(part), "prompt": hashed(answer.input)}
            part.answers.append(_packed(answer, others))
        if not part.answers:
            raise DataError(f"{path}: no answers.")
        if (index := part.misplaced()) is not None:
            raise DataError(f"{path}: sample {index} is missing; finish the run first.")
        if cells.setdefault(part.key, part) is not part:
            raise DataError(f"{path}: a second file of answers to {part}; move one of them away.")
    layout = "a folder with <language>/<length>/pred/<task>.jsonl of RULER's tasks as they are"
    require(cells, "run", str(run), layout)
    by_place = sorted(cells.values(), key=lambda part: (*part.key[::2], PACKED.index(part.key[1])))
    submission = Submission(folder.name, claimed, by_place)
    target = files.named("out", out, "a folder") / submission.name
    more = {path.name for path in target.iterdir()} - {*NAMES} if target.is_dir() else ()
    require(not more, "out", str(target), f"a folder without {', '.join(sorted(more))}")
    files.check_writable(target)
    write(target, submission)
    return target


def _packed(answer: Prediction, others: Mapping[str, Any]) -> Prediction:
    """Return an answer as it is packed; as in the table of scores it has no half characters."""
    kept = {name: answer.others[name] for name in _KEPT if name in answer.others}
    pred = HALF.sub("\ufffd", answer.pred)
    return Prediction(answer.index, "", answer.outputs, pred, {**kept, **others})


def write(folder: Path, submission: Submission) -> None:
    """Write the files of a submission; those that stand there are replaced.

    Raises
    ------
    ParameterError
        If the folder cannot be written.
    """
    about = {"submission": VERSION, "name": submission.name, "claimed": submission.claimed}
    cells = ",\n".join(json.dumps(part.settings, sort_keys=True) for part in submission.cells)
    lines = [answer.to_json() + "\n" for part in submission.cells for answer in part.answers]
    with files.replacing(folder / SETTINGS) as file:
        file.write(json.dumps(about)[:-1] + f', "cells": [\n{cells}\n]}}\n')
    with files.replacing(folder / ANSWERS) as file:
        file.buffer.write(gzip.compress("".join(lines).encode(), mtime=0))


# --- Read ------------------------------------------------------------------------------------


def named(value: str | Path) -> Path:
    """Return the folder of a submission.

    Raises
    ------
    ParameterError
        If there is none.
    """
    folder = files.named("folder", value, "a folder that exists")
    require(folder.is_dir(), "folder", str(value), "a folder that exists")
    return folder


def read(folder: Path) -> Submission:
    """Return a submission as it was handed in.

    Raises
    ------
    DataError
        If a file is missing, cannot be read, or does not hold what it should: names the file.
    """
    texts = {name: _text(folder, name) for name in NAMES}
    try:
        about = json.loads(texts[SETTINGS])
    except (ValueError, RecursionError) as error:
        raise DataError(f"{SETTINGS}: not valid JSON ({error}).") from error
    if not isinstance(about, dict) or about.get("submission") != VERSION:
        raise DataError(
            f"{SETTINGS}: not of the layout {VERSION}: pack the run again with this version of"
            " rulerlib."
        )
    name, claimed, listed = (about.get(key) for key in ("name", "claimed", "cells"))
    if not isinstance(name, str) or not is_text(name):
        raise DataError(f"{SETTINGS}: the 'name' of the model is missing.")
    if claimed is not None and (type(claimed) is not int or claimed < 1):
        raise DataError(f"{SETTINGS}: 'claimed' is {shortened(claimed)}, not a number of tokens.")
    if not isinstance(listed, list) or not listed:
        raise DataError(f"{SETTINGS}: the 'cells' are missing.")
    parts: dict[str, AnsweredCell] = {}
    for settings in listed:
        part = AnsweredCell(_cell(settings), settings, [])
        if parts.setdefault(str(part), part) is not part:
            raise DataError(f"{SETTINGS}: the cell {part} stands there twice.")
    # Not splitlines: an answer may hold other characters that end a line for it.
    for number, line in enumerate(texts[ANSWERS].split("\n")[:-1], 1):
        try:
            answer = Prediction.from_json(line)
            cell, prompt, cut_off = map(answer.others.get, ("cell", "prompt", "cut_off"))
            if not isinstance(cell, str) or cell not in parts:
                raise DataError(f"the cell {shortened(cell)} is none of {SETTINGS}")
            if not is_text(prompt) or not (cut_off is None or is_text(cut_off)):
                raise DataError("the hash of the prompt is missing, or 'cut_off' is no word")
            if not answer.outputs or HALF.search(answer.pred):
                raise DataError("there are no references, or there is half a character")
        except DataError as error:
            raise DataError(f"{ANSWERS}, line {number}: {str(error).rstrip('.')}.") from error
        language = parts[cell].cell.language
        others = {"cell": cell, "prompt": prompt, "language": language, "repeat": answer.repeat}
        parts[cell].answers.append(_packed(answer, others))
    if missing := [name for name, part in parts.items() if not part.answers]:
        raise DataError(f"{ANSWERS}: the cell {missing[0]} is missing.")
    return Submission(name, claimed, [*parts.values()])


def _text(folder: Path, name: str) -> str:
    path = folder / name
    if not path.is_file() or path.is_symlink():
        raise DataError(f"{name} is missing.")
    try:
        with gzip.open(path) if name == ANSWERS else path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise DataError(f"{name}: larger than {LARGEST:,} bytes.")
        return data.decode()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{name}: cannot be read ({error}).") from error


def _cell(settings: Any) -> Cell:
    """Return the cell of which settings were recorded."""
    try:
        about = dict(settings["cell"])
        room, drawn = about.pop("tokens_to_generate"), about.pop("decoding")
        drawn = {} if drawn == "greedy" else drawn
        about["decoding"] = Decoding(**drawn, tokens_to_generate=room)
        about["format"] = PromptFormat.from_settings(about["format"])
        return Cell(**about)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        shown = shortened(settings)
        raise DataError(f"{SETTINGS}: {shown} are no settings of a cell ({error!r}).") from error
