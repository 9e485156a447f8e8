"""Files of questions, and processes that are killed at one step of their work with files."""

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

FIVE = [Sample(index=i, input=f"Blåbærgrød {i}\n", outputs=[str(i)]) for i in range(5)]

STEPS = ("open", "os.truncate", "os.rename", "os.remove", "os.chmod", "os.mkdir")


def die_at(step: int, folder: Path, how: int = signal.SIGKILL) -> None:
    """Send a signal to this process before its n-th operation on files below the folder."""
    steps = itertools.count(1)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in STEPS and str(folder) in str(arguments[0]) and next(steps) == step:
            os.kill(os.getpid(), how)

    sys.addaudithook(watch)


class Given:
    """A dataset of given samples, with a delay before each."""

    def __init__(self, samples: Sequence[Sample], seconds: float = 0, **metadata: Any) -> None:
        self.samples, self.seconds = samples, seconds
        self.metadata = {"task": "niah_single_2", "seed": 42, "length": 4096, **metadata}

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        for sample in self.samples:
            time.sleep(self.seconds)
            yield sample


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write a JSONL file in one step."""
    with files.replacing(path) as file:
        file.writelines(record.to_json() + "\n" for record in records)
