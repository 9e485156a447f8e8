"""The folder of the explorer: the page, the scores, and the answers, each where the page asks.

``index.html``, ``leaderboard.html`` and what they load; ``cells.json``, all that the first view
shows; ``leaderboard.json``, the rows of the leaderboard;
``measures/<number>.json``, the means of a further measure; ``pairs/<number>.json``, a comparison;
``answers/<cell>/cell.json``, what the samples of a cell have in common, and
``answers/<cell>/<number>.json``, so many of them at a time as ``CHUNK`` says;
``prompts/<cell>/<index>.txt``, the whole prompt of a sample, where it was asked for.

All of it is written beside the folder and takes its place at the end. A command that is killed
leaves the old folder or the new one; if it is killed between the two renames of the end, the next
command puts the old one back.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

import rulerlib
from rulerlib import analysis, paths
from rulerlib.analysis.tables import BY
from rulerlib.errors import HALF, DataError, require
from rulerlib.escaping import visible
from rulerlib.explore import answers, board, cells, submitted
from rulerlib.samples import Prediction
from rulerlib.store import files
from rulerlib.store.lock import alone

CHUNK = 50
"""Samples in one file."""

STATIC = Path(__file__).parent / "static"

_OURS = ("answers", "measures", "pairs", "prompts")

_MARK = "cells.json"
"""The file by which a folder is known as one of ours."""


def write(
    folders: str | Path | Sequence[str | Path],
    out: str | Path,
    prompts: bool = False,
    handed_in: str | Path | None = None,
    against: str | None = None,
    published: Sequence[Mapping[str, Any]] = (),
    home: str | None = None,
) -> tuple[int, int]:
    """Write the explorer of some runs into a folder.

    Answers are read twice, one at a time, so that long prompts need no memory.

    Parameters
    ----------
    folders
        A folder of runs, or several.
    out
        A new folder, or one that this wrote before, which is replaced; files that people put into
        it stay.
    prompts
        Whether every prompt is written in full, too, as a file of its own.
    handed_in
        A folder with folders of `rulerlib.submit`; None: there are none.
    against
        The model that all others are compared with, see `rulerlib.explore.cells.pairs`.
    published
        Further rows of the leaderboard, from `rulerlib.explore.board.blank`.
    home
        The address of the page that leads here, from ``out``; None: there is none.

    Returns
    -------
    tuple
        How many cells there are, and how many answers.

    Raises
    ------
    ParameterError
        If there are no answers, ``against`` is no model, or the folder cannot be written or holds
        something else.
    BusyError
        If another process is writing the folder.
    DataError
        If a file is damaged, or was written while it was read.
    """
    place = paths.named("out", out, "a folder that does not exist yet")
    with _replacing(place.resolve(), str(out)) as target:
        own = analysis.scores(_predictions(folders))
        require(not own.empty, "runs", str(folders), "a folder in which there are answers")
        own = _named_by_study(own)
        others = submitted.renamed(submitted.read(handed_in), {*own["model"]})
        table = submitted.together(own, others)
        for name in {*table["model"], *table["language"], *table["task"]}:
            allowed = "a folder in which all names can be seen"
            require(visible(name) == name, "runs", str(folders), f"{allowed}, unlike {name!r}")
        shown = {"rulerlib": rulerlib.__version__, **cells.columns(table), "prompts": prompts}
        shown["home"] = home
        numbers = {key: number for number, key in enumerate(cells.keys(table))}
        for number, measure in enumerate(shown["measures"]):
            means = cells.of_measure(table, measure, numbers)
            _save(target / "measures" / f"{number}.json", means)
        shown["pairs"] = []
        for number, pair in enumerate(cells.comparisons(table, against)):
            shown["pairs"].append({name: pair[name] for name in ("kind", "first", "second")})
            _save(target / "pairs" / f"{number}.json", pair)
        samples = _write_answers(own, numbers, _predictions(folders), target, prompts)
        for one in others:
            samples += _write_handed_in(one, numbers, target)
        claimed = {one.submission.name: one.submission.claimed for one in others}
        kinds = dict.fromkeys(claimed, "handed in")
        rows = [*board.rows(table, claimed, kinds), *published]
        _save(target / "leaderboard.json", {"home": home, "rows": rows})
        for path in STATIC.iterdir():
            if path.is_file():
                shutil.copyfile(path, target / path.name)
        _save(target / _MARK, shown)
        return len(shown["columns"]["n"]), samples


@contextlib.contextmanager
def _replacing(target: Path, out: str) -> Iterator[Path]:
    """Yield a new folder beside ``target``, which takes its place when all is written.

    Raises
    ------
    BusyError
        If another process is writing it.
    ParameterError
        If it holds something else, or cannot be replaced; what was there stays.
    """
    fixed = os.path.ismount(target) or target == Path.cwd()
    require(not fixed, "out", out, "a folder that can be renamed: no mount point, and not '.'")
    with alone(target):
        _tidy(target)
        empty = not target.exists() or (target.is_dir() and not any(target.iterdir()))
        holds = empty or (target / _MARK).is_file()
        require(holds, "out", out, "a new folder, or one that this command wrote before")
        new = _unfinished(target)
        try:
            files.check_writable(new)
            yield new
            # A full folder cannot be replaced in one step.
            with _renaming(target):
                if empty and target.exists():
                    target.rmdir()
                elif not empty:
                    target.rename(_before(target))
                new.rename(target)
        finally:
            _tidy(target)


def _tidy(target: Path) -> None:
    """Finish what another command began: put the old folder back, or remove what is left of it.

    What people put into the old folder is moved to the new one.
    """
    before = _before(target)
    with _renaming(target):
        if (before / _MARK).is_file() and not target.exists():
            before.rename(target)
        elif (before / _MARK).is_file() and (target / _MARK).is_file():
            for path in before.iterdir():
                if path.name not in _OURS and not os.path.lexists(target / path.name):
                    path.rename(target / path.name)
            # While it is removed nobody takes it for a whole one.
            before.rename(_unfinished(target))
    for left in files.leftovers(target):
        shutil.rmtree(left, ignore_errors=True)


def _before(target: Path) -> Path:
    return target.with_name(f".{target.name}.before")


def _unfinished(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}{files.UNFINISHED}")


@contextlib.contextmanager
def _renaming(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise files.unwritable(target, error) from error


def _predictions(
    folders: str | Path | Sequence[str | Path],
) -> Iterator[tuple[dict[str, Any], Prediction]]:
    """Yield every prediction with its settings, those of studies with the study as a group."""
    before: dict[str, Any] = {}
    about: dict[str, Any] = {}
    for settings, prediction in analysis.read_predictions(folders, studies=True):
        # What tells files apart is whether their settings are the same object.
        if settings is not before:
            before, about = settings, settings
            if study := settings.get("study"):
                about = {**settings, "study": None, "group": str(study)}
        yield about, prediction


def _named_by_study(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the study before the names of its tasks, which others have as well."""
    if "group" not in table:
        return table
    groups, names = table["group"], table["task"]
    return table.assign(task=names.where(groups.isna(), groups + cells.STUDY + names))


def _write_answers(
    table: pd.DataFrame,
    numbers: Mapping[tuple[Any, ...], int],
    predictions: Iterator[tuple[dict[str, Any], Prediction]],
    target: Path,
    prompts: bool,
) -> int:
    """Write the samples of all cells of runs, and return how many there are."""
    judged = _judged(table)
    count = 0
    # The predictions of one file come in a row, and share their settings.
    for _, run in groupby(predictions, key=lambda each: id(each[0])):
        folder = None
        chunk: list[dict[str, Any]] = []
        listed: list[list[Any]] = []
        for about, prediction in run:
            key, judgement = next(judged, (None, {}))
            same = key is not None and judgement.pop("asked") == (
                prediction.index, prediction.repeat,
            )  # fmt: skip
            if key is None or not same:
                raise DataError("The runs were written while they were read: try again.")
            folder = target / "answers" / str(numbers[key])
            if not listed:
                known = about
            made = answers.record(prediction, judgement)
            made["command"] = answers.command(about, prediction.index)
            listed.append([made["index"], made["repeat"], made["score"], made["error"]])
            chunk.append(made)
            if prompts:
                text = HALF.sub("\ufffd", prediction.input)
                whole = target / "prompts" / str(numbers[key]) / f"{prediction.index}.txt"
                _save_text(whole, text)
            if len(chunk) == CHUNK:
                _save(folder / f"{(len(listed) - 1) // CHUNK}.json", chunk)
                chunk = []
        if folder is None:
            continue
        if chunk:
            _save(folder / f"{(len(listed) - 1) // CHUNK}.json", chunk)
        about = {"settings": answers.settings(known), "chunk": CHUNK, "samples": listed}
        _save(folder / "cell.json", about)
        count += len(listed)
    return count


def _write_handed_in(
    one: submitted.HandedIn, numbers: Mapping[tuple[Any, ...], int], target: Path
) -> int:
    """Write the samples that a submission shows, and return how many answers it has."""
    for place, settings, records in submitted.cells(one):
        folder = target / "answers" / str(numbers[place])
        listed = [[each["index"], each["repeat"], each["score"], each["error"]] for each in records]
        # There are fewer of them than a file holds.
        _save(folder / "0.json", records)
        _save(folder / "cell.json", {"settings": settings, "chunk": CHUNK, "samples": listed})
    return sum(entry.n for entry in one.submission.entries)


def _judged(table: pd.DataFrame) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield the cell of each answer and what was judged of it, in the order of the predictions."""
    names = [*BY, "index", "repeat", "measure", "value", "primary", "error"]
    asked: tuple[Any, ...] | None = None
    measures: dict[str, float] = {}
    judgement: dict[str, Any] = {}
    for *cell, index, repeat, measure, value, primary, error in zip(
        *(table[name] for name in names), strict=True
    ):
        now = (*cell, index, repeat)
        # Of one answer each measure stands once, so that a second one belongs to the next answer.
        if now != asked or measure in measures:
            if asked is not None:
                yield asked[:4], {**judgement, "measures": measures}
            asked, measures = now, {}
            judgement = {"asked": (index, repeat), "error": error, "score": 0.0}
        measures[measure] = round(float(value), 4)
        if primary:
            judgement["score"] = measures[measure]
    if asked is not None:
        yield asked[:4], {**judgement, "measures": measures}


def _save(path: Path, values: Any) -> None:
    """Write plain data as JSON without spaces, and numbers that are none to a browser as texts."""
    write = functools.partial(json.dumps, ensure_ascii=False, separators=(",", ":"), default=str)
    try:
        text = write(values, allow_nan=False)
    except ValueError:
        text = write(json.loads(write(values), parse_constant=str))
    _save_text(path, HALF.sub("\ufffd", text))


def _save_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    except OSError as error:
        raise files.unwritable(path, error) from error
