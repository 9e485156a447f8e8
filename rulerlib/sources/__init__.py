"""Sources of questions and documents: files of SQuAD, HotpotQA and DROP.

`open_source` reads a file, or a data set of the Hugging Face hub by its name:

>>> import json, tempfile
>>> row = {"context": "Oxygen is element 8.", "question": "Which is oxygen?", "answers": ["8"]}
>>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
...     print(json.dumps([row]), file=file, flush=True)
...     source = open_source(file.name)
>>> question = source.question(0)
>>> question.answers, source.document(question.targets[0])
(('8',), 'Oxygen is element 8.')

`rulerlib.sources.schemas` describes the formats. `built_in` returns a language's own file of
fictional documents. Questions without an answer are left out.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rulerlib import checkpoints, packages
from rulerlib.errors import DataError, MissingWordingError, ParameterError
from rulerlib.languages import Language
from rulerlib.sources.schemas import Collection, Question, Rows, has_passages, read_row
from rulerlib.texts import read_file

__all__ = ["Question", "Rows", "built_in", "open_source", "source_file"]

_NO_SCHEMA = "not in the schema of SQuAD or HotpotQA or DROP"

# owner/name, and after it perhaps :configuration and @revision.
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+(:[\w.-]+)?(@[\w./-]+)?")


def open_source(name: str, side: str = "validation") -> Rows:
    """Return the questions of a file (JSON or JSON lines) or of a data set of the hub.

    Parameters
    ----------
    name
        A file, possibly compressed (``.gz``), or ``"owner/name"``, ``"owner/name:configuration"``,
        ``"owner/name:configuration@revision"`` on the hub. The hub needs the network and the
        package `datasets`.
    side
        For data sets of the hub: ``"validation"`` is the split ``validation``, or else ``val``,
        ``test`` or ``train``; ``"train"`` is the split ``train``. A file has one side.

    Raises
    ------
    ParameterError
        If there is no such file, and the name is not a hub name or cannot be loaded.
    DataError
        If it cannot be read, or is not in one of the known schemas: names the file and the line.
    MissingExtraError
        If `datasets` is needed and not installed.
    """
    path = source_file(name)
    if path is not None:
        rows = _read_json(path)
    else:
        if not _HUB_NAME.fullmatch(name) or name.endswith((".json", ".jsonl", ".gz")):
            allowed = "a file that exists, or a hub name 'owner/name'"
            raise ParameterError("source", name, allowed)
        rows = _numbered("row", _load_from_hub(name, side))
    collection = Collection()
    for place, row in rows:
        try:
            read_row(row, collection)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise DataError(f"{name}, {place}: {_NO_SCHEMA} ({reason}).") from error
    source = collection.source()
    if not source.num_questions:
        raise DataError(f"{name}: no question that has an answer.")
    return source


def built_in(language: Language, name: str) -> str:
    """Return the path of a language's own file: squad, hotpotqa, drop or drop_train.

    Raises
    ------
    MissingWordingError
        If the language has none.
    """
    path = language.folder / f"{name}.json.gz"
    if not path.is_file():
        raise MissingWordingError(f"{path} is missing: set 'source' to a file in this format.")
    return str(path)


def source_file(name: str) -> Path | None:
    """Return the file of that name, or None if there is none."""
    path = Path(name).expanduser()
    return path if path.is_file() else None


def _read_json(path: Path) -> list[tuple[str, Any]]:
    """Return the rows of a file, each with a description of its place: ``"row 1"``."""
    try:
        content = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    content = read_file(path) if content is None else content
    if not content.strip():
        raise DataError(f"{path}: empty.")
    try:
        rows = json.loads(content)
    except ValueError as error:
        return _read_lines(path, content, error)
    unit = "row"
    if isinstance(rows, dict):
        if "data" in rows:
            rows, unit = rows["data"], "article"
        elif has_passages(rows):
            rows, unit = [{name: passage} for name, passage in rows.items()], "passage"
        else:
            rows = [rows]
    return _numbered(unit, rows)


def _numbered(unit: str, rows: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(f"{unit} {number}", row) for number, row in enumerate(rows, 1)]


def _read_lines(path: Path, content: str, whole: Exception) -> list[tuple[str, Any]]:
    """Return the rows of JSON lines; ``whole`` is the error of reading the file as one value."""
    rows: list[tuple[str, Any]] = []
    # Not splitlines: strings in JSON can contain other line separators.
    for number, line in enumerate(content.split("\n"), 1):
        try:
            if line.strip():
                rows.append((f"line {number}", json.loads(line)))
        except ValueError as error:
            # If already the first line is wrong, the file may be one value over several lines.
            shown, place = (error, number) if rows else (whole, getattr(whole, "lineno", 1))
            reason = getattr(shown, "msg", shown)
            raise DataError(f"{path}, line {place}: not valid JSON ({reason}).") from error
    return rows


def _load_from_hub(name: str, side: str) -> list[Any]:
    datasets = packages.load("datasets", "hub", f"Reading '{name}' from the hub")
    place, _, revision = name.partition("@")
    repository, _, configuration = place.partition(":")
    try:
        splits = datasets.load_dataset(repository, configuration or None, revision=revision or None)
    except Exception as error:
        # The package raises many kinds of errors, of its own and of the network's.
        allowed = f"a data set that can be loaded ({checkpoints.reason(error)})"
        raise ParameterError("source", name, allowed) from error
    wanted = ("train",) if side == "train" else ("validation", "val", "test", "train")
    for split in wanted:
        if split in splits:
            return list(splits[split])
    raise DataError(f"{name}: has no split {', '.join(wanted)}.")
