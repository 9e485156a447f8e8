"""What is known of a cell beside its answers: what it cost, or how it failed.

A cell is done when its answers are whole and what they cost stands beside them,
``<task>.cost.json``, with their number and bytes; so nothing that is deleted or cut stays done.
A cell that failed has ``<task>.failure.json``, with the sentence and how often.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rulerlib import samples
from rulerlib.errors import DataError
from rulerlib.metering import added
from rulerlib.store import files, lock

Answers = Path | str
"""The file of the answers of a cell."""


def cost_path(answers: Answers) -> Path:
    """Return the file that says what answers cost."""
    return Path(_beside(answers, "cost"))


def failure_path(answers: Answers) -> Path:
    """Return the file that says how answers failed."""
    return Path(_beside(answers, "failure"))


def read_cost(answers: Answers) -> dict[str, Any]:
    """Return what answers cost; empty where that is not known, or the file is damaged."""
    return _read(_beside(answers, "cost"))


def read_failure(answers: Answers) -> dict[str, Any]:
    """Return how often answers failed (``tries``), the last sentence (``error``), and the log."""
    return _read(_beside(answers, "failure"))


def _beside(answers: Answers, what: str) -> str:
    # As a text: a sweep has thousands, and paths take several times as long.
    return f"{str(answers).removesuffix('.jsonl')}.{what}.json"


def _read(path: str) -> dict[str, Any]:
    # A third of the time of `read_object`.
    try:
        with open(path, "rb", buffering=0) as file:
            values = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def is_done(answers: Answers, count: int, cost: Mapping[str, Any] | None = None) -> bool:
    """Return whether a cell has at least ``count`` answers, all of them whole.

    Parameters
    ----------
    answers
        Their file.
    count
        How many there must be.
    cost
        What `read_cost` returned, where that is at hand.
    """
    known = read_cost(answers) if cost is None else cost
    number, size = known.get("answers"), known.get("bytes")
    if not isinstance(number, int) or number < count:
        return False
    try:
        return os.stat(answers).st_size == size
    except OSError:
        return False


def write_cost(answers: Path, measured: Mapping[str, Any], count: int) -> None:
    """Write what answers cost beside them; a cell is done from now on.

    What was measured before, in a run that was stopped, is added to it.

    Parameters
    ----------
    answers
        Their file, whole.
    measured
        What `rulerlib.metering.Meter.measured` returned.
    count
        The number of answers in the file.

    Raises
    ------
    ParameterError
        If the disk is full.
    """
    whole = {**added(read_cost(answers), measured), "answers": count}
    whole["bytes"] = answers.stat().st_size
    # What a power cut takes of it is answered again at once: the answers themselves are there.
    files.write_object(cost_path(answers), whole, lasting=False)
    with contextlib.suppress(OSError):
        failure_path(answers).unlink()


def tidy(paths: Iterable[Path]) -> None:
    """Remove what a killed process left of writing costs and failures beside some answers.

    Nobody else may be at these cells. Each folder is listed once, since it may hold thousands.
    """
    names: dict[Path, set[str]] = {}
    for path in paths:
        beside = {f".{cost_path(path).name}", f".{failure_path(path).name}"}
        names.setdefault(path.parent, set()).update(beside)
    for folder, own in names.items():
        for left in folder.glob(f".*{files.UNFINISHED}"):
            # The name, a dot, a number and the ending.
            if left.name.removesuffix(files.UNFINISHED).rpartition(".")[0] in own:
                left.unlink(missing_ok=True)


def stopped(answers: Path, measured: Mapping[str, Any]) -> None:
    """Write what was measured until a cell was stopped; it is not done by that.

    Raises
    ------
    ParameterError
        If the disk is full.
    """
    files.write_object(cost_path(answers), added(read_cost(answers), measured), lasting=False)


def failed(answers: Path, error: str, log: str) -> int:
    """Write how a cell failed, and return how often it did by now.

    Raises
    ------
    ParameterError
        If the disk is full.
    """
    before = read_failure(answers).get("tries")
    tries = (before if isinstance(before, int) else 0) + 1
    when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    about = {"tries": tries, "error": error, "log": log, "when": when}
    files.write_object(failure_path(answers), about)
    return tries


def holder(path: Path) -> dict[str, Any]:
    """Return which process is writing a file, as its lock says; empty where none is.

    A lock file that a killed process left behind is nobody's.
    """
    beside = lock.lock_path(path)
    if not beside.exists() or lock.is_free(path):
        return {}
    with contextlib.suppress(DataError):
        return samples.read_object(beside)
    return {"process": "another"}
