"""Datasets that are there already, such as those that NVIDIA's scripts made.

>>> import pathlib, tempfile
>>> folder = pathlib.Path(tempfile.mkdtemp()) / "4096" / "vt"
>>> folder.mkdir(parents=True)
>>> _ = (folder / "validation.jsonl").write_text('{"index": 0, "input": "?", "outputs": ["!"]}')
>>> list(find(folder, ["vt"]))
[('vt', 4096)]
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulerlib import paths, samples
from rulerlib.errors import ParameterError, require
from rulerlib.samples import Sample

Given = dict[tuple[str, int], Path]
"""Files of questions by task and length, short lengths first."""


def find(data: Any, names: Sequence[str], knobs: bool = False) -> Given:
    """Return the datasets of some tasks below a path.

    The task is the name of a file's folder. The length, in tokens, is the name of the nearest
    folder above that is a number, as in RULER's own tree. Where there is none, or a sample is
    longer than it says, the length is that of the longest sample.

    Parameters
    ----------
    data
        A file ``<task>/validation.jsonl``, or a folder with such files somewhere below it.
    names
        The tasks; files of others are left out.
    knobs
        Whether tasks with other knobs count as well, whose folders say so (``vt+num_hops=2``).

    Raises
    ------
    ParameterError
        If there are none, or two of one task and length.
    DataError
        If a file is damaged.
    """
    wanted = (
        "a file <task>/validation.jsonl, or a folder with such files, of at least one of the tasks"
        f" {', '.join(names)}"
    )
    top = paths.named("data", data, wanted)
    chosen: Given = {}
    for path in [top] if top.is_file() else paths.within(top, "validation.jsonl"):
        task = path.resolve().parent.name
        task = task.partition("+")[0] if knobs else task
        if task not in names:
            continue
        numbers = [part.name for part in path.resolve().parents if part.name.isdecimal()]
        longest = max((sample.length for sample in samples.read(path, Sample)), default=0)
        length = int(numbers[0]) if numbers and int(numbers[0]) >= longest else longest
        if (task, length) in chosen:
            raise ParameterError(
                "data", data, f"one file of {task} at length {length}, not also {path}"
            )
        chosen[task, length] = path
    require(chosen, "data", data, wanted)
    return dict(sorted(chosen.items(), key=lambda item: item[0][1]))


def language(data: Any, files: Given) -> str:
    """Return the language that the samples name; NVIDIA's name none and are English.

    Raises
    ------
    ParameterError
        If they name several.
    DataError
        If a file is damaged.
    """
    named = {
        next(samples.read(path, Sample), Sample(0, "", [])).language or "en"
        for path in files.values()
    }
    if len(named) > 1:
        raise ParameterError("data", data, "files in one language")
    return named.pop()


def source(path: Path) -> str:
    """Return a name for a file of questions that holds a hash of its bytes, not its place."""
    with path.open("rb") as file:
        return f"data-{hashlib.file_digest(file, 'sha256').hexdigest()[:8]}"


def count(path: Path) -> int:
    """Return the number of samples of a file.

    Raises
    ------
    DataError
        If the file cannot be read or is damaged.
    """
    return sum(1 for _ in samples.read(path, Sample))
