"""One process at a time on a file: a lock that names its holder and ends with it.

>>> import pathlib, tempfile
>>> path = pathlib.Path(tempfile.mkdtemp()) / "niah.jsonl"
>>> with alone(path):
...     [file.name for file in path.parent.iterdir()]
['.niah.jsonl.lock']
>>> list(path.parent.iterdir())
[]
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import platform
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from rulerlib.errors import BusyError
from rulerlib.store.files import saving

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
