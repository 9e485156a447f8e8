"""Files that are whole or not there: how questions, answers and tables are written.

>>> import pathlib, tempfile
>>> path = pathlib.Path(tempfile.mkdtemp()) / "number.txt"
>>> with replacing(path) as file:
...     _ = file.write("one")
...     path.exists()
False
>>> path.read_text()
'one'
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rulerlib.errors import ParameterError
from rulerlib.samples import Record

# How the names of files end that `replacing` has not finished.
_UNFINISHED = ".unfinished"


def write(path: str | Path, records: Iterable[Record]) -> None:
    """Write a JSONL file in one step: it is either whole or not there.

    Raises
    ------
    ParameterError
        If the folder cannot be written or the disk is full; what was there stays.
    """
    with replacing(path) as file:
        file.writelines(record.to_json() + "\n" for record in records)


def write_object(path: str | Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object in one step, for people to read.

    Raises
    ------
    ParameterError
        If the folder cannot be written or the disk is full; what was there stays.
    """
    with replacing(path) as file:
        file.write(json.dumps(values, ensure_ascii=False, indent=2) + "\n")


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Any]:
    """Open a text file that takes the place of ``path`` only when all is written.

    Raises
    ------
    ParameterError
        If the folder cannot be written or the disk is full.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}{_UNFINISHED}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def unwritable(path: Path, error: OSError) -> ParameterError:
    """Return the error that says which file cannot be written, and why."""
    allowed = f"a file that can be written ({error.strerror or error})"
    return ParameterError("output", str(path), allowed)


def _sync(folder: Path) -> None:
    """See to it that the names in a folder outlive a power cut, where a system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(path: str | Path) -> None:
    """Remove what killed processes left of `replacing` a file; nobody may be writing it now."""
    path = Path(path)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{_UNFINISHED}"):
        with contextlib.suppress(OSError):
            left.unlink()
