"""The folder of the explorer: the page, the scores, and the answers, each where the page asks.

``index.html``, ``leaderboard.html`` and what they load; ``cells.json``, all that the first view
shows; ``leaderboard.json``, the rows of the leaderboard;
``measures/<number>.json``, the means of a further measure; ``pairs/<number>.json``, a comparison;
``answers/<cell>/cell.json``, what the samples of a cell have in common, and
``answers/<cell>/<number>.json``, as many at a time as ``CHUNK`` says.

All files are written to a temporary folder and moved at the end, so a killed command leaves the old
folder intact.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

import rulerlib
from rulerlib import analysis, commands, files
from rulerlib.analysis import BY
from rulerlib.errors import DataError, ParameterError
from rulerlib.explore import answers, cells
from rulerlib.samples import Prediction

CHUNK = 50
"""Samples in one file."""

STATIC = Path(__file__).parent / "static"

_OURS = ("answers", "measures", "pairs")

_MARK = "cells.json"
"""The file by which a folder is known as one of ours."""


def write(
    folders: str | Path | Sequence[str | Path],
    out: str | Path,
    home: str | None = None,
    stored: Sequence[tuple[dict[str, Any], Prediction]] = (),
) -> tuple[int, int]:
    """Write the explorer of some runs into a folder.

    Answers are read twice, one file at a time.

    Parameters
    ----------
    folders
        A folder of runs, or several.
    out
        A new folder, or one written by an earlier call, which is replaced; other files in it stay.
    home
        The address of the page that leads here, from ``out``. Default: none.
    stored
        Further answers, each with the settings of its cell; those of a cell share one dictionary.
        They may lack their prompts.

    Returns
    -------
    tuple
        How many cells there are, and how many answers.

    Raises
    ------
    ParameterError
        If no answers were found, or the folder cannot be written or holds something else.
    BusyError
        If another process is writing the folder.
    DataError
        If a file is damaged, or was written while it was read.
    """
    place = files.named("out", out, "a folder that does not exist yet").resolve()
    empty = not any(place.iterdir()) if place.is_dir() else not place.exists()
    if not empty and not (place / _MARK).is_file():
        allowed = "a new folder, or one that this command wrote before"
        raise ParameterError("out", str(out), allowed)
    with files.filling(place) as target:
        for name in _OURS:
            (target / name).mkdir()
        table = _named_by_study(analysis.scores(_predictions(folders, stored)))
        if table.empty:
            raise ParameterError("runs", str(folders), "a folder in which there are answers")
        shown = {"rulerlib": rulerlib.__version__, **cells.columns(table), "home": home}
        numbers = {key: number for number, key in enumerate(cells.keys(table))}
        for number, measure in enumerate(shown["measures"]):
            means = cells.of_measure(table, measure, numbers)
            _save(target / "measures" / f"{number}.json", means)
        shown["pairs"] = []
        for number, pair in enumerate(cells.comparisons(table)):
            shown["pairs"].append({name: pair[name] for name in ("kind", "first", "second")})
            _save(target / "pairs" / f"{number}.json", pair)
        predictions = _predictions(folders, stored)
        samples = _write_answers(table, numbers, predictions, target)
        _save(target / "leaderboard.json", {"home": home, "rows": cells.board_rows(table)})
        for path in STATIC.iterdir():
            if path.is_file():
                shutil.copyfile(path, target / path.name)
        _save(target / _MARK, shown)
        return len(shown["columns"]["n"]), samples


def _predictions(
    folders: str | Path | Sequence[str | Path],
    stored: Sequence[tuple[dict[str, Any], Prediction]],
) -> Iterator[tuple[dict[str, Any], Prediction]]:
    """Yield every prediction with its settings, those of studies with the study as a group."""
    yield from stored
    # All predictions of one file share the same settings object.
    read = analysis.read_predictions(folders, studies=True)
    for settings, predictions in groupby(read, key=lambda pair: pair[0]):
        about = settings
        if study := settings.get("study"):
            about = {**settings, "study": None, "group": str(study)}
        for _, prediction in predictions:
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
) -> int:
    """Write the samples of all cells, and return how many there are."""
    judged, count = _judged(table), 0
    # The predictions of one file come in a row, and share their settings.
    for _, run in groupby(predictions, key=lambda pair: id(pair[0])):
        records = []
        for about, prediction in run:
            key, place, judgement = next(judged, ((), (), {}))
            if place != (prediction.index, prediction.repeat):
                raise DataError("The runs were written while they were read: try again.")
            record = answers.record(prediction, judgement)
            records.append({**record, "command": answers.command(about, prediction.index)})
        folder = target / "answers" / str(numbers[key])
        for number, start in enumerate(range(0, len(records), CHUNK)):
            _save(folder / f"{number}.json", records[start : start + CHUNK])
        listed = [[one[key] for key in ("index", "repeat", "score", "error")] for one in records]
        settings = answers.settings(about)
        _save(folder / "cell.json", {"settings": settings, "chunk": CHUNK, "samples": listed})
        count += len(records)
    return count


def _judged(
    table: pd.DataFrame,
) -> Iterator[tuple[tuple[Any, ...], tuple[int, int], dict[str, Any]]]:
    """Yield the cell, index, repeat and judgement of each answer, in the order of the questions."""
    names = [*BY, "index", "repeat", "measure", "value", "primary", "error"]
    place: tuple[Any, ...] = ()
    judgement: dict[str, Any] = {"measures": {}}
    for *now, measure, value, primary, error in zip(*(table[name] for name in names), strict=True):
        # Each answer has each measure once, so a repeated measure belongs to the next answer.
        if (*now,) != place or measure in judgement["measures"]:
            if place:
                yield place[:4], place[4:], judgement
            place, judgement = (*now,), {"error": error, "score": 0.0, "measures": {}}
        judgement["measures"][measure] = round(float(value), 4)
        if primary:
            judgement["score"] = judgement["measures"][measure]
    if place:
        yield place[:4], place[4:], judgement


def _save(path: Path, values: Any) -> None:
    """Write plain data as JSON; NaN and infinity, which browsers cannot read, become texts."""
    plain = json.loads(json.dumps(values, default=str), parse_constant=str)
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    with files.saving(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Write the explorer of some runs into a folder, and return the exit code."""
    parser = commands.parser(
        "rulerlib.explore.site",
        "RUNS [RUNS ...] FOLDER [options]",
        "Write a folder of static files that shows every score and every answer.",
        "runs explorer",
    )
    parser.add_argument("runs", nargs="+", help="the folders of runs")
    parser.add_argument("out", metavar="folder", help="the new folder")
    given = parser.parse_args(arguments)
    cells, samples = write(given.runs, given.out)
    print(f"{given.out}: {samples:,} answers in {cells:,} cells.")
    print(f"To read it: python -m http.server --directory {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
