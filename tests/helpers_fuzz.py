"""Time limits and damaged files, for tests of bad input."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Iterator
from typing import Any


class HangError(BaseException):
    """Code took too long; not an `Exception`, so that only a test catches it."""


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise `HangError` if the block takes longer."""

    def late(*_: Any) -> None:
        raise HangError(f"longer than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return the bytes of a file with random damage."""
    lines = data.splitlines(keepends=True)
    at, line = rng.randrange(len(data)), rng.randrange(len(lines))
    flipped = bytearray(data)
    flipped[at] ^= 1 << rng.randrange(8)
    value = rng.choice([b"null", b"-1", b"1e300", b"9" * 400, b'"x"', b"[]", b"{}", b"[[1]]"])
    colon = data.find(b": ", at) + 1
    return rng.choice(
        [
            data[:at],
            bytes(flipped),
            data[:at] + rng.randbytes(8) + data[at:],
            data[:colon] + value + b", " + data[colon:],
            data[:colon] + value + data[data.find(b",", colon) :],
            b"".join([*lines[:line], *lines[line + 1 :]]),
            b"".join([*lines[:line], lines[line], *lines[line:]]),
            data.decode("utf-8").encode("utf-16"),
        ]
    )
