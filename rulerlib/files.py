"""Files: paths that are parameters, reading, and writing whole files by one process at a time.

>>> import pathlib, tempfile
>>> path = pathlib.Path(tempfile.mkdtemp()) / "number.txt"
>>> with replacing(path) as file:
...     _ = file.write("one")
...     path.exists()
False
>>> path.read_text()
'one'
>>> with lock(path):
...     sorted(file.name for file in path.parent.iterdir())
['.number.txt.lock', 'number.txt']
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import filelock

from rulerlib.errors import BusyError, DataError, ParameterError

HOME = "RULERLIB_HOME"
"""The environment variable that names the folder of relative outputs."""

HASHED_BYTES = 64_000_000
"""Weights up to this size are hashed whole, larger files by their size and `BLOCKS`."""

BLOCKS, BLOCK_BYTES = 256, 4096
"""Of a large file, this many blocks of this many bytes are hashed, evenly spread over it."""


def home() -> Path:
    """Return the folder that relative outputs are written to, see `HOME`."""
    return Path(os.environ.get(HOME, ".")).expanduser()


def named(parameter: str, value: Any, allowed: str) -> Path:
    """Return the path that a parameter names, with ``~`` expanded; it need not exist.

    Parameters
    ----------
    value
        A string or a path.
    allowed
        What is allowed, see `rulerlib.errors.ParameterError`.

    Raises
    ------
    ParameterError
        If it is neither a string nor a path, if it is blank, or if no file can have this name.
    """
    if not isinstance(value, (str, Path)) or not str(value).strip():
        raise ParameterError(parameter, value, allowed)
    try:
        path = Path(value).expanduser()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ParameterError(parameter, str(value), f"{allowed} ({reason})") from error
    return path


def read_file(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark.

    Raises
    ------
    DataError
        If it cannot be read, or is not UTF-8: names the file and the position.
    """
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start}: {error.reason}).") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error


def digest(texts: Iterable[str]) -> str:
    """Return a hash of texts in their order, 16 hexadecimal digits."""
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]


def fingerprint(path: Path) -> bytes:
    """Return the SHA-256 of a file; of a large one, that of its size and of some blocks."""
    size = path.stat().st_size
    if size <= HASHED_BYTES:
        return hashlib.sha256(path.read_bytes()).digest()
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for block in range(BLOCKS):
            file.seek((size - BLOCK_BYTES) * block // (BLOCKS - 1))
            digest.update(file.read(BLOCK_BYTES))
    return digest.digest()


def write_object(path: str | Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object, indented for people.

    Raises
    ------
    ParameterError
        As `replacing`.
    """
    with replacing(path) as file:
        file.write(json.dumps(values, ensure_ascii=False, indent=2) + "\n")


@contextlib.contextmanager
def filling(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder whose files are moved to ``folder`` at the end.

    They replace files and folders of the same name; others stay.

    Raises
    ------
    BusyError
        If another process is filling it.
    ParameterError
        If the folder cannot be written.
    """
    with (
        lock(folder),
        saving(folder),
        tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as beside,
    ):
        yield Path(beside)
        folder.mkdir(exist_ok=True)
        for path in Path(beside).iterdir():
            shutil.rmtree(folder / path.name, ignore_errors=True)
            path.replace(folder / path.name)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Any]:
    """Open a text file that replaces ``path`` when it is complete.

    Raises
    ------
    ParameterError
        If the folder cannot be written or the disk is full; the old file stays.
    """
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with saving(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("w", encoding="utf-8", newline="\n") as file:
                yield file
            unfinished.replace(path)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def check_writable(folder: Path) -> None:
    """Check that files can be written to a folder.

    Raises
    ------
    ParameterError
        If they cannot.
    """
    with saving(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


@contextlib.contextmanager
def saving(path: Path) -> Iterator[None]:
    """Turn an OSError into a ParameterError that names the file which cannot be written."""
    try:
        yield
    except OSError as error:
        reason = f"a file that can be written ({error.strerror or error})"
        raise ParameterError("output", str(path), reason) from error


@contextlib.contextmanager
def lock(path: str | Path, wait: bool = False) -> Iterator[None]:
    """Lock a file or folder against other processes that write it.

    Parameters
    ----------
    wait
        Whether to wait for a process that holds the lock.

    Raises
    ------
    BusyError
        If another process holds the lock.
    ParameterError
        If the folder cannot be written.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.lock")
    with saving(path):
        beside.parent.mkdir(parents=True, exist_ok=True)
        held = filelock.FileLock(beside, timeout=-1 if wait else 0)
        try:
            held.acquire()
        except filelock.Timeout as error:
            raise BusyError(
                f"{path} is being written by another process: wait until it is done, or choose"
                " another output folder."
            ) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
        held.release()
