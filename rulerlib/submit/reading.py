"""A submission as it was handed in: what does not hold is told by file and place."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rulerlib import paths
from rulerlib.errors import DataError, is_text, require, shortened
from rulerlib.submit.folder import (
    ANSWERS,
    CELL,
    DIGITS,
    HASH_COLUMNS,
    HASHES,
    NAMES,
    SCORE_COLUMNS,
    SCORES,
    SETTINGS,
    TABLES,
    VERSION,
    WIDTH,
    Answer,
    Entry,
    Submission,
    merged,
)

LARGEST = 16_000_000
"""Bytes of a file that is read."""

_NUMBER = re.compile(r"[0-9]{1,9}")


def read(folder: Path) -> tuple[Submission, list[Answer], dict[str, str]]:
    """Return a submission, the answers that it shows, and the text of each of its tables.

    Raises
    ------
    DataError
        If a file is missing, cannot be read, or does not hold what it should.
    """
    texts = {name: _text(folder, name) for name in NAMES}
    about = _object(SETTINGS, texts[SETTINGS])
    if about.get("submission") != VERSION:
        raise DataError(
            f"{SETTINGS}: the layout is {shortened(about.get('submission'))}, not {VERSION}: pack"
            " the run again with this version of rulerlib."
        )
    name, claimed = about.get("name"), about.get("claimed")
    if not isinstance(name, str) or not is_text(name):
        raise DataError(f"{SETTINGS}: the 'name' of the model is missing.")
    if claimed is not None and (type(claimed) is not int or claimed < 1):
        raise DataError(f"{SETTINGS}: 'claimed' is {shortened(claimed)}, not a number of tokens.")
    scores, hashes = _rows(SCORES, texts, SCORE_COLUMNS), _rows(HASHES, texts, HASH_COLUMNS)
    entries = []
    for key, settings in _settings(about).items():
        for file, rows in ((SCORES, scores), (HASHES, hashes)):
            if key not in rows:
                raise DataError(f"{file}: the cell {_named(key)} is missing.")
        entries.append(_entry(key, settings, scores[key], hashes[key][0]))
    for file, rows in ((SCORES, scores), (HASHES, hashes)):
        for key in rows.keys() - {entry.key for entry in entries}:
            raise DataError(f"{file}: the cell {_named(key)} is none of {SETTINGS}.")
    submission = Submission(name, claimed, tuple(entries))
    for file, text in submission.texts.items():
        if texts[file] != text:
            raise DataError(f"{file}: not written as the command writes it: pack the run again.")
    answers = [*_answers(texts[ANSWERS])]
    return submission, answers, {name: texts[f"{name}.csv"] for name in TABLES}


def _named(key: tuple[str, str, int]) -> str:
    return ", ".join(map(str, key))


def _text(folder: Path, name: str) -> str:
    path = folder / name
    if not path.is_file() or path.is_symlink():
        raise DataError(f"{name} is missing.")
    if path.stat().st_size > LARGEST:
        raise DataError(f"{name}: larger than {LARGEST:,} bytes.")
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{name}: cannot be read ({error}).") from error


def _object(place: str, text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not valid JSON ({error}).") from error
    if not isinstance(values, dict):
        raise DataError(f"{place}: not a JSON object.")
    return values


def _settings(about: Mapping[str, Any]) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Return the settings of each cell."""
    common, cells = about.get("settings"), about.get("cells")
    if not isinstance(common, dict) or not isinstance(cells, list) or not cells:
        raise DataError(f"{SETTINGS}: 'settings' and 'cells' are missing.")
    made: dict[tuple[str, str, int], dict[str, Any]] = {}
    for cell in cells:
        rest = cell.get("settings") if isinstance(cell, dict) else None
        named_by: list[Any] = [cell.get(name) for name in CELL] if isinstance(cell, dict) else []
        if not isinstance(rest, dict) or [*map(type, named_by)] != [str, str, int]:
            said = shortened(cell)
            raise DataError(f"{SETTINGS}: {said} is no cell with language, task and length.")
        key = str(named_by[0]), str(named_by[1]), int(named_by[2])
        if key in made:
            raise DataError(f"{SETTINGS}: the cell {_named(key)} stands there twice.")
        made[key] = merged(common, rest)
    return made


def _rows(
    name: str, texts: Mapping[str, str], columns: Sequence[str]
) -> dict[tuple[str, str, int], list[str]]:
    """Return the rows of a file by their cells."""
    try:
        head, *rows = csv.reader(io.StringIO(texts[name]))
    except (ValueError, csv.Error) as error:
        raise DataError(f"{name}: not valid CSV ({error}).") from error
    if head != [*columns]:
        raise DataError(f"{name}: its columns are not {', '.join(columns)}.")
    made: dict[tuple[str, str, int], list[str]] = {}
    for row in rows:
        if len(row) != len(columns) or not _NUMBER.fullmatch(row[2]):
            raise DataError(f"{name}: {shortened(row)} is no row of this file.")
        key = row[0], row[1], int(row[2])
        if key in made:
            raise DataError(f"{name}: the cell {_named(key)} stands there twice.")
        made[key] = row[3:]
    return made


def _entry(
    key: tuple[str, str, int], settings: Mapping[str, Any], scores: Sequence[str], hashes: str
) -> Entry:
    of, found, cut_off = scores
    if not _NUMBER.fullmatch(of) or not 0 < int(of) < len(DIGITS):
        raise DataError(f"{SCORES}: {_named(key)}: 'of' is {of}, not a number of references.")
    if not found or set(found) - {*DIGITS[: int(of) + 1]}:
        raise DataError(f"{SCORES}: {_named(key)}: 'found' has digits other than 0 to {of}.")
    if len(cut_off) != len(found) or set(cut_off) - {*"01"}:
        raise DataError(f"{SCORES}: {_named(key)}: 'cut_off' is not a 0 or 1 for each answer.")
    if not re.fullmatch(rf"([0-9a-f]{{{WIDTH}}})*", hashes):
        raise DataError(f"{HASHES}: {_named(key)}: not hashes of {WIDTH} hexadecimal digits.")
    each = tuple(hashes[at : at + WIDTH] for at in range(0, len(hashes), WIDTH))
    if len(each) != len(found):
        raise DataError(f"{HASHES}: {_named(key)}: {len(each)} hashes of {len(found)} answers.")
    return Entry(*key, settings, int(of), found, cut_off, each)


_KINDS = {"str": str, "int": int}


def _answers(text: str) -> Iterator[Answer]:
    # Not splitlines: an answer may hold other characters that end a line for it.
    for number, each in enumerate(text.removesuffix("\n").split("\n") if text else [], 1):
        place = f"{ANSWERS}, line {number}"
        values = _object(place, each)
        known = {item.name: item.type for item in fields(Answer)}
        if values.keys() != known.keys():
            raise DataError(f"{place}: its fields are not {', '.join(known)}.")
        for name, kind in known.items():
            wanted = _KINDS.get(str(kind), list)
            holds = type(values[name]) is wanted
            if wanted is list:
                holds = holds and all(isinstance(item, str) for item in values[name])
            if not holds:
                raise DataError(f"{place}: '{name}' is {shortened(values[name])}.")
        answer = Answer(**values)
        yield replace(answer, gold=tuple(values["gold"]))


def named(value: str | Path) -> Path:
    """Return the folder of a submission.

    Raises
    ------
    ParameterError
        If there is none.
    """
    folder = paths.named("folder", value, "a folder that exists")
    require(folder.is_dir(), "folder", str(value), "a folder that exists")
    return folder
