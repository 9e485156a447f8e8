"""Answers on disk: one JSON object per line, appended as each answer arrives.

``<task>.settings.json`` beside ``<task>.jsonl`` records how the answers were made; a run with
other settings is refused. An interrupted run resumes by index. A finished file is sorted by index,
so it has the same bytes whether or not the run was interrupted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rulerlib import files
from rulerlib.errors import DataError
from rulerlib.samples import Prediction, Sample, read, read_object
from rulerlib.store import questions

# Settings that may differ between the calls that write one file. Older versions wrote more, which
# `questions.compare` ignores because no current settings have them.
_MAY_DIFFER = ("model", "versions")


class Answers:
    """The stored answers to one file of questions.

    Attributes
    ----------
    done
        Index and repeat of each stored answer, in the order of the file, with its prompt's hash.

    Raises
    ------
    RunMismatchError
        If the stored answers were made with other settings; names the first that differs.
    DataError
        If the file is damaged or has two answers to one question.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path, self.settings = path, settings
        self._read()

    def _read(self) -> None:
        self.done: dict[tuple[int, int], int] = {}
        if not self.path.exists():
            return
        for record in _records(self.path, unfinished=True):
            self.done[record.index, record.repeat] = hash(record.input)
        if self.done:
            if not settings_path(self.path).exists():
                raise DataError(
                    f"{settings_path(self.path)} is missing, so the settings of {self.path} are"
                    " unknown: restore it or choose another output folder."
                )
            recorded = read_settings(self.path)
            questions.compare(self.path.parent, recorded, self.settings, _MAY_DIFFER)

    def has(self, sample: Sample, repeat: int) -> bool:
        """Return whether an answer to a sample is stored.

        Raises
        ------
        DataError
            If the stored answer belongs to another prompt.
        """
        stored = self.done.get((sample.index, repeat))
        if stored not in (None, hash(sample.input)):
            raise DataError(
                f"{self.path}: the answer to sample {sample.index} belongs to another prompt."
            )
        return stored is not None

    @property
    def in_order(self) -> bool:
        """Whether the answers are sorted by index and repeat."""
        return list(self.done) == sorted(self.done)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the file, prepare it for new answers, and sort it at the end.

        An incomplete last line, left by a killed process, is removed.

        Raises
        ------
        BusyError
            If another process holds the lock.
        RunMismatchError, DataError, ParameterError
            As the constructor, which read the file before the lock; or if it cannot be written.
        """
        with files.lock(self.path):
            self._read()
            if not self.done:
                files.write_object(settings_path(self.path), self.settings)
            if self.path.exists():
                with files.saving(self.path), self.path.open("rb+") as file:
                    file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))
            yield
            self._sort()

    def append(self, record: Prediction) -> None:
        """Append an answer.

        Raises
        ------
        ParameterError
            If the disk is full.
        """
        with files.saving(self.path), self.path.open("ab") as file:
            file.write(record.to_line())
        self.done[record.index, record.repeat] = hash(record.input)

    def _sort(self) -> None:
        if self.in_order:
            return
        with self.path.open("rb") as file:
            lines = dict(zip(self.done, file, strict=True))
        with files.replacing(self.path) as file:
            for key in sorted(lines):
                file.write(lines[key].decode("utf-8"))
        self.done = {key: self.done[key] for key in sorted(self.done)}


def settings_path(path: str | Path) -> Path:
    """Return the path of the settings of a file of answers."""
    return Path(path).with_suffix(".settings.json")


def read_settings(path: str | Path) -> dict[str, Any]:
    """Return the settings of a file of answers, or {} if it has none.

    Raises
    ------
    DataError
        If they are damaged.
    """
    beside = settings_path(path)
    settings = read_object(beside) if beside.exists() else {}
    cell = settings.get("cell")
    if isinstance(cell, dict) and cell.get("family"):
        # Load the plug-in family of these tasks, which judges their answers.
        from rulerlib.tasks import outside

        outside.recall(cell["family"])
    return settings


def _records(path: Path, unfinished: bool) -> Iterator[Prediction]:
    """Yield each answer; a second answer to one question raises a DataError."""
    seen = set()
    for number, record in enumerate(read(path, Prediction, unfinished), 1):
        # NVIDIA's scripts write the same index for several samples.
        key = record.index, record.repeat, hash(record.input)
        if key in seen:
            raise DataError(f"{path}, line {number}: duplicate answer to sample {record.index}.")
        seen.add(key)
        yield record


def read_predictions(path: str | Path, num_samples: int | None = None) -> list[Prediction]:
    """Return the answers of a file, sorted by index and repeat.

    Parameters
    ----------
    num_samples
        Return only the answers to the first samples. If None, all of them.

    Raises
    ------
    DataError
        If the file cannot be read, is damaged, or has two answers to one question.
    """
    path = Path(path)
    # Only our own files may have an incomplete last line.
    predictions = list(_records(path, unfinished=settings_path(path).exists()))
    predictions.sort(key=lambda record: (record.index, record.repeat))
    if num_samples is None:
        return predictions
    repeats = 1 + max((record.repeat for record in predictions), default=0)
    return predictions[: num_samples * repeats]


def evidence(
    path: str | Path, num_samples: int | None = None
) -> tuple[list[Prediction], dict[str, int]]:
    """Return the answers of a file to different prompts, and the number of repeated ones.

    A source with fewer questions than samples repeats some of them. A repeated prompt is left out.
    A repeated question with other documents is kept, and its answers share a ``cluster``.

    Parameters
    ----------
    path, num_samples
        See `read_predictions`.

    Returns
    -------
    tuple
        The answers, and under ``asked_again`` the number of those left out, if any.

    Raises
    ------
    DataError
        As `read_predictions`.
    """
    predictions, settings = read_predictions(path, num_samples), read_settings(path)
    first: dict[int, int] = {}
    different = []
    for record in predictions:
        if not record.input or first.setdefault(hash(record.input), record.index) == record.index:
            different.append(record)
    if ((settings.get("dataset") or {}).get("knobs") or {}).get("source"):
        _cluster(different)
    again = len(predictions) - len(different)
    return different, {"asked_again": again} if again else {}


def _cluster(predictions: list[Prediction]) -> None:
    """Give answers to the same question the same ``cluster``."""
    groups: dict[tuple[str, ...], list[Prediction]] = {}
    for record in predictions:
        texts = [record.input[part.start : part.end] for part in record.parts_of("question")]
        groups.setdefault((*texts, *record.outputs), []).append(record)
    for same in groups.values():
        grouped = any("cluster" in one.others or "context_id" in one.others for one in same)
        if not grouped and len({one.index for one in same}) > 1:
            for one in same:
                one.others["cluster"] = f"the question of sample {same[0].index}"
