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
def within(seconds: float) -> Iterator[None]:
    """Raise `HangError` if the block takes more processor time, or ten times as long in all."""
    clocks = {
        signal.SIGPROF: (signal.ITIMER_PROF, seconds),
        signal.SIGALRM: (signal.ITIMER_REAL, 10 * seconds),
    }

    def late(*_: Any) -> None:
        raise HangError(f"longer than {seconds} seconds")

    before = {number: signal.signal(number, late) for number in clocks}
    for clock, limit in clocks.values():
        signal.setitimer(clock, limit)
    try:
        yield
    finally:
        for number, (clock, _) in clocks.items():
            signal.setitimer(clock, 0)
            signal.signal(number, before[number])


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
