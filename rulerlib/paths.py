"""The files and folders that parameters name, and files that are opened to be read.

>>> named("texts", "essays/new.txt", "a file").as_posix()
'essays/new.txt'
>>> named("texts", "essays\\0", "a file")
Traceback (most recent call last):
rulerlib.errors.ParameterError: texts is 'essays\\x00', but must be a file (embedded null byte).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

from rulerlib.errors import DataError, ParameterError, require

HASHED_BYTES = 64_000_000
"""Files of weights up to this size are hashed whole, larger ones by their size and `BLOCKS`."""

BLOCKS, BLOCK_BYTES = 256, 4096
"""Of a large file, this many blocks of this many bytes are read, evenly spread over it."""


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
