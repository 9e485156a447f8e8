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
>>> with alone(path):
...     sorted(file.name for file in path.parent.iterdir())
['.number.txt.lock', 'number.txt']

A lock names its holder and ends with it.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import json
import os
import platform
import secrets
import shutil
import tempfile
import threading
import time
import warnings
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


def write_object(path: str | Path, values: Mapping[str, Any], lasting: bool = True) -> None:
    """Write a JSON object in one step, for people to read.

    Parameters
    ----------
    lasting
        Whether it must outlive a power cut, which takes time.

    Raises
    ------
    ParameterError
        If the folder cannot be written or the disk is full; what was there stays.
    """
    with replacing(path, lasting) as file:
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
    with alone(folder) as killed, saving(folder):
        if killed:
            beginning = f".{folder.name}."
            for path in folder.parent.iterdir():
                if path.name.startswith(beginning) and path.name.endswith(UNFINISHED):
                    shutil.rmtree(path)
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
def replacing(path: str | Path, lasting: bool = True) -> Iterator[Any]:
    """Open a text file that takes the place of ``path`` only when all is written.

    Parameters
    ----------
    lasting
        Whether it must outlive a power cut, which takes time.

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
                file.flush()
                if lasting:
                    os.fsync(file.fileno())
            temporary.replace(path)
            if lasting:
                sync_folder(path.parent)
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


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder outlive a power cut, where a system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_lost(path: Path) -> bool:
    """Return whether a file is empty or zeros, as a power cut leaves one that was not lasting."""
    with contextlib.suppress(OSError), opened(path) as file:
        return file.read(1) in (b"", b"\0")
    return False


def remove_leftovers(*paths: Path) -> None:
    """Remove what killed writers left of files unfinished; nobody may be writing these now."""
    beginnings = tuple(f".{path.name}." for path in paths)
    for folder in {path.parent for path in paths}:
        # Not a glob, which takes three times as long where a folder holds thousands.
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                if name.endswith(UNFINISHED) and name.startswith(beginnings):
                    (folder / name).unlink(missing_ok=True)


# --- One writer at a time -------------------------------------------------------------------------

# The locks that this process holds, each with the process's number, because a forked process
# inherits this set with the locks of its parent.
_held: set[tuple[Path, int]] = set()
_guard = threading.Lock()


@contextlib.contextmanager
def alone(path: str | Path) -> Iterator[bool]:
    """Be the only one, in this process and all others, that writes a file.

    The lock is the operating system's own, on a file beside ``path`` that says who holds it. It
    ends with the process that took it, however that process ends.

    Yields
    ------
    bool
        Whether somebody who wrote it was killed, and may have left unfinished files.

    Raises
    ------
    BusyError
        If somebody else is writing it: names the process, its machine and since when.
    ParameterError
        If the folder cannot be written.
    """
    path = Path(path)
    lock = lock_path(path)
    mine = (lock, os.getpid())
    with _guard:
        if mine in _held:
            # Such a lock does not keep its own process out, and closing it twice would end it.
            raise BusyError(f"{path} is being written by this very process: wait until it is done.")
        _held.add(mine)
    try:
        descriptor, killed = _taken(lock, path)
        try:
            since = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            about = {"process": os.getpid(), "host": platform.node(), "since": since}
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(about).encode(), 0)
            yield killed
        finally:
            with contextlib.suppress(OSError):
                lock.unlink()
            os.close(descriptor)
    finally:
        _held.discard(mine)


def lock_path(path: Path) -> Path:
    """Return the file beside a file that says who writes it."""
    return path.parent.resolve() / f".{path.name}.lock"


def holder(path: Path) -> str | None:
    """Return which process is writing a file now; None where none is.

    A lock file that a killed process left behind is nobody's.
    """
    lock = lock_path(path)
    if (lock, os.getpid()) in _held:
        return f"process {os.getpid()}, this one"
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except OSError:
        return None
    try:
        # Given back when the file is closed: whoever comes in between waits or is told.
        return None if _try(descriptor, path) else _holder(descriptor)
    finally:
        os.close(descriptor)


def _taken(lock: Path, path: Path) -> tuple[int, bool]:
    """Return the descriptor of a lock file that is ours, and whether it was lying there."""
    while True:
        with saving(path):
            lock.parent.mkdir(parents=True, exist_ok=True)
            # Who ends by itself removes its own.
            killed = lock.exists()
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, descriptor)
            if not _try(descriptor, path):
                raise BusyError(
                    f"{path} is being written by {_holder(descriptor)}: wait until it is done, or"
                    " choose another output folder."
                )
            # Who held it before may have removed it after we opened it and before we took it.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                    stack.pop_all()
                    return descriptor, killed


def _try(descriptor: int, path: Path) -> bool:
    """Take the lock, and return whether nobody else has it; warn on a disk without locks."""
    import fcntl

    try:
        # Unlike flock, this kind does not live on in processes that a killed one had forked off,
        # and it holds between machines on a network file system.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        reason = error.strerror or str(error)
        warnings.warn(
            f"{path} cannot be locked ({reason}): see to it that no other process writes it.",
            stacklevel=5,
        )
        return True


def _holder(descriptor: int) -> str:
    # Whoever has just taken the lock may not have said yet who it is.
    for _ in range(20):
        with contextlib.suppress(ValueError, KeyError):
            about = json.loads(os.pread(descriptor, 1000, 0))
            return f"process {about['process']} on {about['host']} since {about['since']}"
        time.sleep(0.01)
    return "another process"
