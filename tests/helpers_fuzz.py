"""Time limits, and damage to files: what the tests of bad input draw from."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

from rulerlib.errors import RulerError


class HangError(BaseException):
    """It took too long. No `Exception`, so that nothing but a test catches it."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `HangError` in what takes longer; for the main thread of a process.

    The time is that of the processor, which does not depend on how busy the machine is. What
    waits uses none: it may last ten times as long.
    """
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


def outcome(attempt: Callable[[], object], seconds: float) -> tuple[str, BaseException | None]:
    """Return what came of an attempt: ``"done"``, ``"refused"`` in one sentence, or what it broke.

    Returns
    -------
    (str, error)
        The third is the error's name, and what is wrong with its sentence, if that is it.
    """
    try:
        with within(seconds):
            attempt()
    except RulerError as error:
        sentence = str(error)
        if not sentence.endswith(".") or len(sentence) > 3000:
            return f"no sentence: {sentence[:200]!r}", error
        return "refused", None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {str(error)[:200]}", error
    return "done", None


def nested(depth: int) -> list[Any]:
    """Return lists within lists."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


JSON_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 7, 1.5, -0.0, 1e300, 10**30, -(10**30), 2**63, 2**63 - 1, "", " ",
    "a", "\x00", "\u202e", "x" * 5000, "1234567", "100", [], [[]], [None], [1], ["a"], ["", ""],
    [1.5, "a"], {}, {"a": 1}, {"role": "value", "start": [0], "end": [10**9]},
]  # fmt: skip
"""What may stand at any place of a JSON file."""


def damaged(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return the bytes of a file with damage of some kind, and what kind."""
    kind = rng.choice([*_DAMAGES, "json", "json", "json"])
    if kind == "json":
        return _in_json(data, rng), kind
    return _DAMAGES[kind](data, rng), kind


def _lines(change: Callable[[list[bytes], random.Random], None]) -> Callable[..., bytes]:
    def changed(data: bytes, rng: random.Random) -> bytes:
        lines = data.splitlines(keepends=True)
        if lines:
            change(lines, rng)
        return b"".join(lines)

    return changed


def _duplicate(lines: list[bytes], rng: random.Random) -> None:
    lines[rng.randrange(len(lines)) : 0] = [rng.choice(lines)] * rng.choice([1, 1, 40])


def _remove(lines: list[bytes], rng: random.Random) -> None:
    del lines[rng.randrange(len(lines))]


def _flip(data: bytes, rng: random.Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(rng.choice([1, 1, 5, 100])):
        if flipped:
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _put(data: bytes, what: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + what + data[at:]


def _recoded(data: bytes, rng: random.Random) -> bytes:
    coding = rng.choice(["utf-16", "utf-8-sig", "latin-1", "utf-32", "cp500"])
    return data.decode("utf-8", "replace").encode(coding, "replace")


_DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "nothing": lambda data, rng: b"",
    "cut": lambda data, rng: data[: rng.randrange(len(data) + 1)],
    "flipped": _flip,
    "NUL": lambda data, rng: _put(data, b"\0" * rng.choice([1, 4096]), rng),
    "noise": lambda data, rng: _put(data, rng.randbytes(rng.choice([1, 8, 500])), rng),
    "recoded": _recoded,
    "a line twice": _lines(_duplicate),
    "a line less": _lines(_remove),
    "lines shuffled": _lines(lambda lines, rng: rng.shuffle(lines)),
    "carriage returns": lambda data, rng: data.replace(b"\n", b"\r\n"),
}


def _in_json(data: bytes, rng: random.Random) -> bytes:
    """Return a file of JSON, or of lines of JSON, with one value changed or taken out."""
    try:
        return json.dumps(_changed(json.loads(data), rng), ensure_ascii=False).encode()
    except ValueError:
        pass
    lines = data.decode("utf-8").splitlines(keepends=True)
    with contextlib.suppress(ValueError, IndexError):
        at = rng.randrange(len(lines))
        changed = json.dumps(_changed(json.loads(lines[at]), rng), ensure_ascii=False)
        return "".join([*lines[:at], changed + "\n", *lines[at + 1 :]]).encode()
    return _flip(data, rng)


def _changed(value: Any, rng: random.Random) -> Any:
    """Return plain data in which one value, at any depth, is another, or is missing."""
    value = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        here = stack.pop()
        if isinstance(here, (dict, list)) and here:
            keys = list(here) if isinstance(here, dict) else range(len(here))
            # A field as often as a number in a long list of numbers.
            some = keys if isinstance(here, dict) else rng.sample(keys, min(3, len(here)))
            places += [(here, key) for key in some]
            stack += [here[key] for key in some]
    if not places or rng.random() < 0.02:
        return rng.choice(JSON_VALUES)
    where, key = rng.choice(places)
    if rng.random() < 0.2:
        del where[key]
    else:
        where[key] = copy.deepcopy(rng.choice(JSON_VALUES))
    return value
