"""The questions of a cell on disk: written whole, by one process at a time, and reused.

A folder holds ``validation.jsonl``, with RULER's own field names, and ``metadata.json``, which
says all that decides its bytes. A writer that is killed leaves what stood there before; the next
one removes what it left unfinished.
"""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

from rulerlib import files
from rulerlib.errors import HALF, DataError, ParameterError, RunMismatchError, require, shortened
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Sample, add, read, read_numbered, read_object
from rulerlib.store.cell import Cell

METADATA = "metadata.json"

GROWING = ("num_samples", "sha256")
"""What the metadata say of the file as it stands, which may grow: how many samples it has at least,
and a hash of their lines."""

UNSAID: dict[str, Any] = {
    "queries_per_context": 1, "question_language": None, **PromptFormat().settings()
}  # fmt: skip
"""The settings that a file need not state, with their defaults: where it does not, perhaps because
it was written before there was a choice, it was made with these."""

UNKNOWN = "unknown"
"""What a server does by itself where nobody can say it; it contradicts nothing."""

# The defaults of a cell, and of what stands beside answers: not every run is one of a cell, and not
# every one says what a server does by itself.
_CELL = Cell("model", "task", "da", 1).settings()
_OPEN = {"cell": UNKNOWN, "defaults": UNKNOWN}


Given = dict[tuple[str, int], Path]
"""Files of questions by task and length, short lengths first."""


class SampleSet(Protocol):
    """What can be written: `rulerlib.dataset.Dataset`, or anything like it."""

    @property
    def metadata(self) -> dict[str, Any]:
        """All that decides the bytes of the samples, as plain data."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Sample]: ...


def write(dataset: SampleSet, folder: str | Path, num_samples: int | None = None) -> Path:
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
    samples = islice(dataset, count)
    first = [*islice(samples, 1)]
    files.check_room(path.parent, size(first, count), count)
    with files.lock(path):
        files.remove_unfinished(path, about)
        # Another process may have been writing them until just now.
        if not _stand(path, dataset.metadata, count):
            begun = path.exists()
            with files.replacing(path) as file:
                digest = add(file, chain(first, samples))
                stated = {**dataset.metadata, "num_samples": count, "sha256": digest}
                if not begun:
                    # Before there are samples, so that they never stand there unexplained.
                    files.write_object(about, stated)
            if begun:
                # Not before there are more of them: fewer than it says would be damage.
                files.write_object(about, stated)
    return path


def size(samples: Iterable[Sample], count: int) -> int:
    """Return about how many bytes ``count`` questions take on disk, judged by the first."""
    return count * max((len(sample.to_line()) for sample in islice(samples, 1)), default=0)


def _stand(path: Path, wanted: Mapping[str, Any], count: int) -> bool:
    """Return whether ``count`` questions stand there already, made as wanted."""
    about = path.parent / METADATA
    if not path.exists():
        return False
    if not about.exists():
        raise RunMismatchError(
            f"{path} stands there without {METADATA}, so another tool made it: choose another"
            " output folder."
        )
    recorded = read_object(about)
    compare(path.parent, recorded, wanted, ignore=("tokenizer", "rulerlib"))
    stated = recorded.get("num_samples", 0)
    if type(stated) is not int or stated < 0:
        raise DataError(f"{about}: damaged (num_samples is {shortened(stated)}).")
    lines, digest = 0, hashlib.sha256()
    try:
        with files.opened(path) as file:
            # There are more where a writer was killed before it could say so.
            for line in islice(file, stated):
                lines += line.endswith(b"\n")
                digest.update(line)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error
    if lines < stated:
        raise DataError(f"{path}: damaged ({lines} lines, but {METADATA} says {stated} samples).")
    if recorded.get("sha256") not in (None, digest.hexdigest()):
        raise DataError(f"{path}: damaged (its bytes are not those that {METADATA} knows).")
    return stated >= count


def metadata(path: Path) -> dict[str, Any]:
    """Return the metadata beside a file of questions; empty where others made it.

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
    """Check that what stands on disk was made with the settings that are asked for now.

    Parameters
    ----------
    place
        What was made; the error names it.
    was, now
        The settings it was made with, and those asked for now, as plain data. Only those that
        ``now`` has are compared.
    ignore
        Names of settings that may differ.
    remedy
        What to do, as the end of the error's sentence.

    Raises
    ------
    RunMismatchError
        If they differ: names the first setting that does, and both values.
    """
    was, now = _complete(was), _complete(now)
    for name, new in now.items():
        old = was.get(name)
        if name in ignore or old == new or (name in _OPEN and UNKNOWN in (old, new)):
            continue
        # The innermost setting that differs: dataset.seed, not all of the dataset.
        while isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = next((key for key in {**old, **new} if old.get(key) != new.get(key)), None)
            if inner is None:
                break
            name, old, new = f"{name}.{inner}", old.get(inner), new.get(inner)
        raise RunMismatchError(
            f"{place} was made with {shortened(name)[1:-1]} = {shortened(old)}, and now {name} ="
            f" {shortened(new)} is asked for: {remedy}."
        )


def _complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the defaults that they leave unsaid, those of the dataset as well."""
    complete = {**UNSAID, **_OPEN, **settings}
    for name, defaults in (("dataset", UNSAID), ("cell", _CELL)):
        if isinstance(complete.get(name), Mapping):
            complete[name] = {**defaults, **complete[name]}
    return complete


def find(data: Any, names: Sequence[str], knobs: bool = False) -> Given:
    """Return the datasets of some tasks below a path.

    The task is the name of a file's folder. The length, in tokens, is the name of the nearest
    folder above that is a number, as in RULER's own tree. Where there is none, or a sample is
    longer than it says, the length is that of the longest sample; then each sample needs its own.

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
        If a file is damaged or empty, or a sample lacks its length, has no reference or a blank
        one, or holds half of a surrogate pair: names the file and the line.
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
        for line, sample in read_numbered(path, Sample):
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
    require(chosen, "data", data, wanted)
    return dict(sorted(chosen.items(), key=lambda item: item[0][1]))


def _check(sample: Sample, where: str) -> None:
    """Check the texts of a sample that a user has written.

    Raises
    ------
    DataError
        If a text is not valid Unicode, or if an answer cannot be scored because a reference is
        missing or empty.
    """
    for name, value in sample.to_dict().items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if half := HALF.search(text):
            code = f"\\u{ord(half[0]):04x}"
            raise DataError(
                f"{where}: the field '{name}' holds half of a surrogate pair ({code}); write the"
                " whole character."
            )
    if not sample.outputs:
        raise DataError(f"{where}: 'outputs' is empty; give at least one reference answer.")
    for reference in chain(sample.outputs, *sample.golds):
        # Answers and references are compared without HTML entities: "&nbsp;" is a space.
        if not html.unescape(reference).strip():
            raise DataError(
                f"{where}: the reference {reference!r} is blank, so that any answer would match;"
                " give the expected answer."
            )


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
        next(read(path, Sample), Sample(0, "", [])).language or "en" for path in files.values()
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
    return sum(1 for _ in read(path, Sample))
