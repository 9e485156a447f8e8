"""Questions on disk: written whole by one process at a time, reused, and found again.

A folder holds ``validation.jsonl``, with RULER's field names, and ``metadata.json``, with all
settings that decide its bytes.
"""

from __future__ import annotations

import hashlib
import html
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rulerlib import files
from rulerlib.errors import DataError, ParameterError, RunMismatchError, shortened
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Sample, read, read_object
from rulerlib.store.cell import Cell

METADATA = "metadata.json"

NOT_COMPARED = ("num_samples", "sha256")
"""Metadata of older versions that describe the file and not the dataset."""

UNSAID: dict[str, Any] = {
    "queries_per_context": 1, "question_language": None, **PromptFormat().settings()
}  # fmt: skip
"""Defaults of settings that a file need not state, for example because it is older than they."""

UNKNOWN = "unknown"
"""The value of a setting that nobody recorded; it equals any other value."""

# Defaults of the settings of a cell, and settings that not every run records.
_CELL = Cell("model", "task", "da", 1).settings()
_OPEN = {"cell": UNKNOWN, "defaults": UNKNOWN}


Given = dict[tuple[str, int], Path]
"""Files of questions by task and length, short lengths first."""


class SampleSet(Protocol):
    """The questions that `write` takes, such as a `rulerlib.dataset.Dataset`."""

    @property
    def metadata(self) -> dict[str, Any]:
        """All settings that decide the bytes of the samples, as plain data."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Sample]: ...


def write(dataset: SampleSet, folder: str | Path, num_samples: int | None = None) -> Path:
    """Write ``validation.jsonl`` and ``metadata.json``, or reuse existing ones.

    Parameters
    ----------
    num_samples
        The number of samples that are needed. If None, all of the dataset. A file with fewer is
        replaced by one that begins with the same bytes.

    Returns
    -------
    Path
        The file of samples, which may hold more than ``num_samples``.

    Raises
    ------
    RunMismatchError
        If the folder holds a dataset with other settings; names the first that differs.
    DataError
        If the existing metadata are damaged.
    BusyError
        If another process is writing the file.
    ParameterError
        If the folder cannot be written.
    """
    path = Path(folder) / "validation.jsonl"
    wanted = len(dataset) if num_samples is None else min(num_samples, len(dataset))
    if _stored(path, dataset.metadata) >= wanted:
        return path
    with files.lock(path):
        # Another process may have written the file until now.
        if _stored(path, dataset.metadata) < wanted:
            files.write_object(path.parent / METADATA, dataset.metadata)
            with files.replacing(path) as file:
                for sample in itertools.islice(dataset, wanted):
                    file.write(sample.to_json() + "\n")
    return path


def _stored(path: Path, metadata: Mapping[str, Any]) -> int:
    """Return the number of samples in a file, which must have been made with these settings."""
    if not path.exists():
        return 0
    about = path.parent / METADATA
    if not about.exists():
        raise RunMismatchError(
            f"{path} has no {METADATA}, so another tool made it: choose another output folder."
        )
    compare(path.parent, read_object(about), metadata, ignore=("tokenizer", "rulerlib"))
    try:
        with files.opened(path) as file:
            return sum(line.endswith(b"\n") for line in file)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error


def metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a file of questions, or {} if it has none.

    Raises
    ------
    DataError
        If it is damaged.
    """
    about = path.parent / METADATA
    return read_object(about) if about.exists() else {}


def compare(
    place: Path,
    was: Mapping[str, Any],
    now: Mapping[str, Any],
    ignore: Sequence[str] = (),
    remedy: str = "choose another output folder, or delete this one",
) -> None:
    """Check that files were made with the settings that are wanted now.

    Parameters
    ----------
    place
        The file or folder, which the error names.
    was, now
        The recorded settings and those of now, as plain data. Only those in ``now`` are compared.
    ignore
        Names of settings that may differ.
    remedy
        What the user can do, as the end of the error's sentence.

    Raises
    ------
    RunMismatchError
        If they differ; names the first setting that does, and both values.
    """
    was, now = _complete(was), _complete(now)
    for name, new in now.items():
        old = was.get(name)
        if name in ignore or old == new or (name in _OPEN and UNKNOWN in (old, new)):
            continue
        # Name the innermost setting that differs: dataset.seed, not all of dataset.
        while isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = next((key for key in {**old, **new} if old.get(key) != new.get(key)), None)
            if inner is None:
                break
            name, old, new = f"{name}.{inner}", old.get(inner), new.get(inner)
        raise RunMismatchError(
            f"{place} was made with {name} = {shortened(old)}, not {shortened(new)}: {remedy}."
        )


def _complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the defaults that they leave out, also those of dataset and cell."""
    complete = {**UNSAID, **_OPEN, **settings}
    for name, defaults in (("dataset", UNSAID), ("cell", _CELL)):
        if isinstance(complete.get(name), Mapping):
            complete[name] = {**defaults, **complete[name]}
    return complete


def find(data: Any, names: Sequence[str], knobs: bool = False) -> Given:
    """Return the files of questions of some tasks below a path.

    The task is the name of a file's folder. The length, in tokens, is the name of the nearest
    folder above that is a number, as in RULER's own tree. Without such a folder, or if a sample is
    longer, it is the length of the longest sample; then each sample must state its own.

    Parameters
    ----------
    data
        A file ``<task>/validation.jsonl``, or a folder with such files somewhere below it.
    names
        The tasks; other files are ignored.
    knobs
        Whether folders of tasks with other knobs count, such as ``vt+num_hops=2``.

    Raises
    ------
    ParameterError
        If there are no files, or two of one task and length.
    DataError
        If a file is damaged or empty, or a sample has no length, no reference or a blank one; names
        the file and the line.
    """
    wanted = (
        "a file <task>/validation.jsonl, or a folder with such files, of at least one of the tasks"
        f" {', '.join(names)}"
    )
    top = files.named("data", data, wanted)
    chosen: Given = {}
    for path in [top] if top.is_file() else files.within(top, "validation.jsonl"):
        task = path.resolve().parent.name
        task = task.partition("+")[0] if knobs else task
        if task not in names:
            continue
        numbers = [part.name for part in path.resolve().parents if part.name.isdecimal()]
        named = int(numbers[0]) if numbers else 0
        lengths = [named]
        for line, sample in enumerate(read(path, Sample), 1):
            _check(sample, f"{path}, line {line}")
            if not named and sample.length < 1:
                raise DataError(
                    f"{path}, line {line}: 'length' is missing or not positive; add it, or name a"
                    f" folder above after the length: 4096/{task}/{path.name}."
                )
            lengths.append(sample.length)
        if len(lengths) == 1:
            raise DataError(f"{path}: no samples.")
        length = max(lengths)
        if (task, length) in chosen:
            raise ParameterError(
                "data", data, f"one file of {task} at length {length}, not also {path}"
            )
        chosen[task, length] = path
    if not chosen:
        raise ParameterError("data", data, wanted)
    return dict(sorted(chosen.items(), key=lambda item: item[0][1]))


def _check(sample: Sample, where: str) -> None:
    """Raise a DataError if a reference is missing or blank."""
    if not sample.outputs:
        raise DataError(f"{where}: 'outputs' is empty; give at least one reference answer.")
    for reference in itertools.chain(sample.outputs, *sample.golds):
        # Scoring decodes HTML entities: "&nbsp;" is a space.
        if not html.unescape(reference).strip():
            raise DataError(
                f"{where}: the reference {reference!r} is blank, so that any answer would match;"
                " give the expected answer."
            )


def language(data: Any, files: Given) -> str:
    """Return the language that the samples state; NVIDIA's samples state none and are English.

    Raises
    ------
    ParameterError
        If they state several.
    DataError
        If a file is damaged.
    """
    stated = {next(read(path, Sample)).language or "en" for path in files.values()}
    if len(stated) > 1:
        raise ParameterError("data", data, "files in one language")
    return stated.pop()


def source(path: Path) -> str:
    """Return a name for a file of questions, with a hash of its bytes."""
    with path.open("rb") as file:
        return f"data-{hashlib.file_digest(file, 'sha256').hexdigest()[:8]}"


def count(path: Path) -> int:
    """Return the number of samples of a file.

    Raises
    ------
    DataError
        If the file cannot be read or is damaged.
    """
    return sum(1 for _ in read(path, Sample))
