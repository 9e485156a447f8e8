"""Writing many datasets, in one process or in several.

>>> import pathlib, tempfile
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> lengths = (700, 900)
>>> made = [(Dataset("niah_single_1", at, "en", "words", 2), folder / str(at)) for at in lengths]
>>> [path.relative_to(folder).as_posix() for path in write_all(made)]
['700/validation.jsonl', '900/validation.jsonl']
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rulerlib.dataset import Dataset
from rulerlib.errors import require, whole_number
from rulerlib.store import questions

Made = Sequence[tuple[Dataset, Path]]
"""Datasets, each with the folder that it is written to."""

# What the processes write; they are forked off and need not be sent it.
_all: Made = ()


def write_all(made: Made, jobs: int = 1) -> list[Path]:
    """Write datasets, or reuse what stands there, and return their files.

    The bytes do not depend on ``jobs``. All lengths of a task are written by one process, because
    they share what was counted. An error or an interrupt ends all processes; what they were
    writing is not there then, and what was finished is.

    Parameters
    ----------
    jobs
        The number of processes; more than one needs a system that can fork (Linux, macOS).

    Raises
    ------
    ParameterError
        If ``jobs`` cannot work; also as `rulerlib.store.questions.write`.
    RunMismatchError, DataError, BusyError
        As `rulerlib.store.questions.write`.
    """
    whole_number("jobs", jobs, 1)
    require(jobs == 1 or sys.platform != "win32", "jobs", jobs, "1, because Windows cannot fork")
    tasks: dict[str, list[int]] = {}
    for number, (data, _) in enumerate(made):
        tasks.setdefault(data.task, []).append(number)
    if jobs == 1 or len(tasks) < 2:
        return _write(made, range(len(made)))
    paths: dict[int, Path] = {}
    fork = multiprocessing.get_context("fork")
    others = {*multiprocessing.active_children()}
    with ProcessPoolExecutor(min(jobs, len(tasks)), fork, _begin, (made,)) as pool:
        # Those that take longest, lists of words and questions, stand last in RULER's order.
        writing = [(own, pool.submit(_write_own, own)) for own in reversed(tasks.values())]
        try:
            for own, written in writing:
                paths.update(zip(own, written.result(), strict=True))
        except BaseException:
            # What a killed process had begun, the next one that writes there removes.
            for process in {*multiprocessing.active_children()} - others:
                process.terminate()
            pool.shutdown(cancel_futures=True)
            raise
    return [paths[number] for number in range(len(made))]


def _write(made: Made, numbers: Sequence[int]) -> list[Path]:
    return [questions.write(*made[number]) for number in numbers]


def _begin(made: Made) -> None:
    global _all
    _all = made
    # An interrupt is the business of the process that all belong to.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _write_own(numbers: Sequence[int]) -> list[Path]:
    return _write(_all, numbers)
