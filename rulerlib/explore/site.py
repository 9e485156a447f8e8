"""The folder of the explorer: the page, the scores, and the answers, each where the page asks.

``index.html`` and what it loads; ``cells.json``, all that the first view shows;
``measures/<number>.json``, the means of a further measure; ``pairs/<number>.json``, a comparison;
``answers/<cell>/cell.json``, what the samples of a cell have in common, and
``answers/<cell>/<number>.json``, so many of them at a time as ``CHUNK`` says;
``prompts/<cell>/<index>.txt``, the whole prompt of a sample, where it was asked for.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

import rulerlib
from rulerlib import analysis, paths
from rulerlib.analysis.tables import BY
from rulerlib.errors import HALF, DataError, require
from rulerlib.explore import answers, cells
from rulerlib.samples import Prediction
from rulerlib.store import files

CHUNK = 50
"""Samples in one file."""

STATIC = Path(__file__).parent / "static"

_OURS = ("answers", "measures", "pairs", "prompts")


def write(
    folders: str | Path | Sequence[str | Path], out: str | Path, prompts: bool = False
) -> tuple[int, int]:
    """Write the explorer of some runs into a folder.

    Answers are read twice, one at a time, so that long prompts need no memory.

    Parameters
    ----------
    folders
        A folder of runs, or several.
    out
        A new folder, or one that this wrote before, which is written anew.
    prompts
        Whether every prompt is written in full, too, as a file of its own.

    Returns
    -------
    tuple
        How many cells there are, and how many answers.

    Raises
    ------
    ParameterError
        If there are no answers, or the folder cannot be written or holds something else.
    DataError
        If a file is damaged, or was written while it was read.
    """
    target = paths.named("out", out, "a folder that does not exist yet")
    ours = not target.exists() or (target / "cells.json").is_file() or not any(target.iterdir())
    require(ours, "out", str(out), "a new folder, or one that this command wrote before")
    table = analysis.scores(analysis.read_predictions(folders))
    require(not table.empty, "runs", str(folders), "a folder in which there are answers")
    files.check_writable(target)
    # Without it the folder is not ours: it is written last, when all else is there.
    (target / "cells.json").unlink(missing_ok=True)
    for name in _OURS:
        shutil.rmtree(target / name, ignore_errors=True)
    shown = {"rulerlib": rulerlib.__version__, **cells.columns(table), "prompts": prompts}
    for number, measure in enumerate(shown["measures"]):
        _save(target / "measures" / f"{number}.json", cells.of_measure(table, measure))
    shown["pairs"] = []
    for number, pair in enumerate(cells.comparisons(table)):
        shown["pairs"].append({name: pair[name] for name in ("kind", "first", "second")})
        _save(target / "pairs" / f"{number}.json", pair)
    samples = _write_answers(table, analysis.read_predictions(folders), target, prompts)
    for path in STATIC.iterdir():
        if path.is_file():
            shutil.copyfile(path, target / path.name)
    _save(target / "cells.json", shown)
    return len(shown["columns"]["n"]), samples


def _write_answers(
    table: pd.DataFrame,
    predictions: Iterator[tuple[dict[str, Any], Prediction]],
    target: Path,
    prompts: bool,
) -> int:
    """Write the samples of all cells, and return how many there are."""
    numbers = {key: number for number, key in enumerate(cells.keys(table))}
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
    """Write plain data as JSON without spaces."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), default=str)
    _save_text(path, HALF.sub("\ufffd", text))


def _save_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    except OSError as error:
        raise files.unwritable(path, error) from error
