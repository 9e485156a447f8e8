"""Files of questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rulerlib import files
from rulerlib.samples import Record, Sample

FIVE = [Sample(index=i, input=f"Blåbærgrød {i}\n", outputs=[str(i)]) for i in range(5)]


class Given:
    """A dataset of given samples."""

    def __init__(self, samples: Sequence[Sample], **metadata: Any) -> None:
        self.samples = samples
        self.metadata = {"task": "niah_single_2", "seed": 42, "length": 4096, **metadata}

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        yield from self.samples


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write a JSONL file in one step."""
    with files.replacing(path) as file:
        file.writelines(record.to_json() + "\n" for record in records)
