"""The questions of a cell on disk: written whole, by one process at a time, and reused.

A folder holds ``validation.jsonl``, with RULER's own field names, and ``metadata.json``, which
says all that decides its bytes. A writer that is killed leaves what stood there before; the next
one removes what it left unfinished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from rulerlib.errors import DataError, RunMismatchError
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Sample, read_object
from rulerlib.store import files
from rulerlib.store.lock import alone

METADATA = "metadata.json"

UNSAID: dict[str, Any] = {"queries_per_context": 1, **PromptFormat().settings()}
"""The settings that need not be written, because they have a default, and what it is: what is
left out of a file, or was written before there was a choice, had these."""


class Questions(Protocol):
    """What can be written: `rulerlib.dataset.Dataset`, or anything like it."""

    @property
    def metadata(self) -> dict[str, Any]:
        """All that decides the bytes of the samples, as plain data."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Sample]: ...


def write(dataset: Questions, folder: str | Path, num_samples: int | None = None) -> Path:
    """Write ``validation.jsonl`` and ``metadata.json``, or reuse what stands there.

    Parameters
    ----------
    num_samples
        How many samples are needed; None: all of the dataset. Where fewer stand there, the
        file is written anew and begins with the same bytes.

    Returns
    -------
    Path
        The file of samples. It may hold more than ``num_samples``.

    Raises
    ------
    RunMismatchError
        If the folder holds a dataset with other parameters: names the first that differs.
    DataError
        If what stands there is damaged.
    BusyError
        If another process is writing it.
    ParameterError
        If the folder cannot be written.
    """
    path, about = Path(folder) / "validation.jsonl", Path(folder) / METADATA
    count = len(dataset) if num_samples is None else min(num_samples, len(dataset))
    if _stand(path, dataset.metadata, count):
        return path
    with alone(path):
        for file in (path, about):
            files.remove_leftovers(file)
        # Another process may have been writing them until just now.
        if not _stand(path, dataset.metadata, count):
            if not path.exists():
                # First of all, so that a run that is killed here knows its own samples again.
                files.write_object(about, {**dataset.metadata, "num_samples": 0})
            files.write(path, islice(dataset, count))
            files.write_object(about, {**dataset.metadata, "num_samples": count})
    return path


def _stand(path: Path, wanted: Mapping[str, Any], count: int) -> bool:
    """Say whether ``count`` questions stand there already, made as wanted."""
    about = path.parent / METADATA
    if not path.exists():
        return False
    if not about.exists():
        raise RunMismatchError(
            f"{path} stands there without {METADATA}, so another tool made it: choose another"
            " output folder."
        )
    compare(about, wanted, ignore=("tokenizer", "rulerlib", "num_samples"))
    stated = read_object(about).get("num_samples", 0)
    if not isinstance(stated, int):
        raise DataError(f"{about}: damaged (num_samples is {stated!r}).")
    if stated < count:
        return False
    with path.open("rb") as file:
        lines = sum(line.endswith(b"\n") for line in file)
    # There are more where a writer was killed before it could say so.
    if lines < stated:
        raise DataError(f"{path}: damaged ({lines} lines, but {METADATA} says {stated} samples).")
    return True


def metadata(path: Path) -> dict[str, Any]:
    """Return what stands beside a file of questions; empty where others made it.

    Raises
    ------
    DataError
        If it is damaged.
    """
    about = path.parent / METADATA
    return read_object(about) if about.exists() else {}


def compare(path: Path, wanted: Mapping[str, Any], ignore: tuple[str, ...] = ()) -> None:
    """Check that settings on disk are those asked for now.

    Raises
    ------
    RunMismatchError
        Naming the first setting that differs, both values, and what to do.
    DataError
        If the file is damaged.
    """
    was, now = _said(read_object(path)), _said(wanted)
    for name, new in now.items():
        old = was.get(name)
        if name not in ignore and old != new:
            # The innermost setting that differs: dataset.seed, not all of the dataset.
            while isinstance(old, dict) and isinstance(new, dict):
                inner = [key for key in {**old, **new} if old.get(key) != new.get(key)]
                if not inner:
                    break
                name, old, new = f"{name}.{inner[0]}", old.get(inner[0]), new.get(inner[0])
            raise RunMismatchError(
                f"{path.parent} was made with {name} = {old!r}, and now {name} ="
                f" {new!r} is asked for: choose another output folder, or delete this one."
            )


def _said(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with what they leave unsaid, those of the dataset as well."""
    said = {**UNSAID, **settings}
    if isinstance(said.get("dataset"), Mapping):
        said["dataset"] = {**UNSAID, **said["dataset"]}
    return said
