"""Files: named by parameters, read, written whole or not at all, by one process at a time.

>>> named("texts", "essays\\0", "a file")
Traceback (most recent call last):
rulerlib.errors.ParameterError: texts is 'essays\\x00', but must be a file (embedded null byte).

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
import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

from rulerlib.errors import BusyError, DataError, ParameterError, require

HASHED_BYTES = 64_000_000
"""Files of weights up to this size are hashed whole, larger ones by their size and `BLOCKS`."""

BLOCKS, BLOCK_BYTES = 256, 4096
"""Of a large file, this many blocks of this many bytes are read, evenly spread over it."""

MOST_PER_TOKEN = 64
"""Bytes of a file of questions for each token of their length, at most by far: it is 4 to 11."""

_NEW = "a folder that does not exist yet, or an empty one"

UNFINISHED = ".unfinished"
"""How the names of files end that `replacing` has not finished."""


def named(parameter: str, value: Any, allowed: str) -> Path:
    """Return the path that a parameter names; ``~`` is the user's own folder.

    Parameters
    ----------
    value
        A text or a path; whether anything stands there is not asked.
    allowed
        What would have been right, as in `ParameterError`.

    Raises
    ------
    ParameterError
        If it is neither a path nor a text, if it is blank, or if no file could have such a
        name: it is too long, holds characters that no name may have, or lies in a folder that
        is locked.
    """
    holds = isinstance(value, Path) or (isinstance(value, str) and value.strip())
    require(holds, parameter, value, allowed)
    try:
        path = Path(value).expanduser()
        # Nothing but a name in UTF-8 can be written down beside what was read.
        str(path).encode()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        shown = str(value) if isinstance(value, Path) else value
        raise ParameterError(parameter, shown, f"{allowed} ({reason})") from error
    return path


def opened(path: Path) -> BinaryIO:
    """Return a file opened to be read, in bytes.

    Raises
    ------
    OSError
        If it cannot be read, or is none: a pipe would wait for someone who writes, and a device
        may have no end.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "a pipe or a device, not a file")
    return path.open("rb")


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the text of a file; each of its lines ends in a newline, whatever ended it there.

    Raises
    ------
    OSError
        As `opened`.
    UnicodeDecodeError
        If it has another encoding.
    """
    with TextIOWrapper(opened(path), encoding) as file:
        return file.read()


def within(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the files in a folder and those below it whose names match, in their order.

    Raises
    ------
    DataError
        If a folder cannot be read, or goes while it is.
    """
    try:
        return sorted(folder.rglob(pattern))
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be read ({error.strerror}: {error.filename})."
        ) from error


def fingerprint(path: Path) -> bytes:
    """Return the SHA-256 of a file; of a large one, of its size and of blocks all over it."""
    size = path.stat().st_size
    if size <= HASHED_BYTES:
        return hashlib.sha256(path.read_bytes()).digest()
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for block in range(BLOCKS):
            file.seek((size - BLOCK_BYTES) * block // (BLOCKS - 1))
            digest.update(file.read(BLOCK_BYTES))
    return digest.digest()


# --- Written whole --------------------------------------------------------------------------------


def write_object(path: str | Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object in one step, for people to read.

    Raises
    ------
    ParameterError
        If the folder cannot be written or the disk is full; what was there stays.
    """
    with replacing(path) as file:
        file.write(json.dumps(values, ensure_ascii=False, indent=2) + "\n")


def new_folder(value: Any) -> Path:
    """Return the path of a folder that does not exist yet, or is empty.

    Raises
    ------
    ParameterError
        If it is something else.
    """
    folder = named("folder", value, _NEW)
    empty = not any(folder.iterdir()) if folder.is_dir() else not folder.exists()
    require(empty, "folder", str(folder), _NEW)
    return folder


@contextlib.contextmanager
def filling(folder: Path) -> Iterator[Path]:
    """Yield a folder that is filled beside another, where its content comes to stand at the end.

    Of a file or a folder that stands there under the same name it takes the place; others stay.
    What killed writers left of their folders is removed.

    Raises
    ------
    BusyError
        If another process is filling it.
    ParameterError
        If the folder cannot be written.
    """
    with lock(folder), saving(folder):
        remove_unfinished(folder)
        with tempfile.TemporaryDirectory(UNFINISHED, f".{folder.name}.", folder.parent) as beside:
            new, old = Path(beside) / "new", Path(beside) / "old"
            new.mkdir()
            old.mkdir()
            yield new
            folder.mkdir(exist_ok=True)
            for path in new.iterdir():
                if (folder / path.name).is_dir():
                    (folder / path.name).rename(old / path.name)
                path.replace(folder / path.name)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Any]:
    """Open a text file that takes the place of ``path`` only when all is written.

    Raises
    ------
    ParameterError
        If the folder cannot be written or the disk is full; what was there stays.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}{UNFINISHED}"
    try:
        with saving(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("x", encoding="utf-8", newline="\n") as file:
                yield file
            temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def free(folder: Path) -> int:
    """Return the bytes that are free on the disk of a folder, which need not be there yet."""
    there = next(filter(Path.is_dir, (folder, *folder.absolute().parents)))
    return shutil.disk_usage(there).free


def check_room(folder: Path, needed: float, num_samples: int) -> None:
    """Check that the disk of a folder can hold what is to be written there.

    Parameters
    ----------
    needed
        In bytes.
    num_samples
        How many samples are to be written; the error names it.

    Raises
    ------
    ParameterError
        If it cannot: says how much is needed, and how much is free.
    """
    has = free(folder)
    reason = f"fewer: they need about {needed / 1e9:,.1f} GB, and {folder} has {has / 1e9:,.1f} GB"
    require(needed <= has, "num_samples", num_samples, f"{reason} free")


def check_writable(folder: Path) -> None:
    """Check that files can be written to a folder; nothing is left there, even by a kill.

    Raises
    ------
    ParameterError
        If they cannot, or the disk is full.
    """
    with saving(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def saving(path: Path) -> Iterator[None]:
    """Say which file cannot be written by what is done within, and why."""
    try:
        yield
    except OSError as error:
        reason = f"a file that can be written ({error.strerror or error})"
        raise ParameterError("output", str(path), reason) from error


def remove_unfinished(*paths: Path) -> None:
    """Remove what killed processes left of files and folders; call it with their lock held."""
    for path in paths:
        for left in path.parent.glob(f".{glob.escape(path.name)}.*{UNFINISHED}"):
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()


@contextlib.contextmanager
def lock(path: str | Path, wait: bool = False) -> Iterator[None]:
    """Lock a file or folder against other writers; a lock ends with the process that holds it.

    Parameters
    ----------
    wait
        Whether to wait for another process that holds the lock.

    Raises
    ------
    BusyError
        If another process holds the lock: names its process ID.
    ParameterError
        If the folder cannot be written.
    """
    # Only writers need it: datasets and scores do with the standard library alone.
    import filelock

    path = Path(path)
    beside = path.parent / f".{path.name}.lock"
    with saving(path):
        beside.parent.mkdir(parents=True, exist_ok=True)
        held = filelock.FileLock(beside, timeout=-1 if wait else 0)
        try:
            held.acquire()
        except filelock.Timeout as error:
            owner = beside.read_text("utf-8") if beside.exists() else ""
            raise BusyError(
                f"{path} is being written by process {owner or '?'}: wait until it is done, or"
                " choose another output folder."
            ) from error
    try:
        beside.write_text(str(os.getpid()), "utf-8")
        yield
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
        held.release()
