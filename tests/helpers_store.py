"""Processes that write questions or answers and are shot at one step of their work with files."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rulerlib import files
from rulerlib.samples import Record, Sample
from rulerlib.store import questions

FIVE = [Sample(index=i, input=f"Blåbærgrød {i}\n", outputs=[str(i)]) for i in range(5)]

STEPS = ("open", "os.truncate", "os.rename", "os.remove", "os.chmod", "os.mkdir", "sample")


def die_at(
    step: int, folder: Path, how: int = signal.SIGKILL, counted_steps: Sequence[str] = STEPS
) -> None:
    """Let this process shoot itself before one step.

    Parameters
    ----------
    step
        The number of the step, in the order in which files below the folder are opened, cut,
        renamed and removed, and samples are made; 0: it lives.
    how
        The signal that it sends itself.
    counted_steps
        What counts as a step.
    """
    steps = itertools.count(1)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        counted = event in counted_steps and str(folder) in str(arguments[0])
        if counted and next(steps) == step:
            os.kill(os.getpid(), how)

    if step:
        sys.addaudithook(watch)


class Given:
    """A dataset of samples that are there already, made as slowly as wanted."""

    def __init__(
        self, samples: Sequence[Sample], seconds: float = 0, folder: str = "", **metadata: Any
    ) -> None:
        self.samples, self.seconds, self.folder = samples, seconds, folder
        self.metadata = {"task": "niah_single_2", "seed": 42, "length": 4096, **metadata}

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        for sample in self.samples:
            sys.audit("sample", self.folder)
            time.sleep(self.seconds)
            yield sample


def writing(dataset: Given, folder: Path, step: int = 0, ready: Any = None) -> None:
    """Write questions, and die before a step."""
    dataset.folder = str(folder)
    die_at(step, folder)
    if ready is not None:
        ready.set()
    questions.write(dataset, folder)


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write a JSONL file in one step."""
    with files.replacing(path) as file:
        file.writelines(record.to_line().decode() for record in records)
