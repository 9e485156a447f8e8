"""The answers to one file of questions: added one by one, whole after any kill, put in order.

Each answer is added to the end of its file as soon as it is finished, in whatever order. What
stands in the file counts, so that nothing is lost and nothing is asked twice; a line that a kill
cut off does not count, and is cut away. When all are there they are put in order, in one step, so
that an interrupted run ends with the same bytes as one that was not.

``<task>.settings.json`` beside ``<task>.jsonl`` says how they were made, how many answers a run
that came to its end has left there (``num_answers``), and in a hash of all this (``sha256``) that
nobody changed it.

Each answer names the settings that it was written with by a hash, so that one that lies in the
wrong file is noticed by whoever reads it.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from rulerlib import files
from rulerlib.errors import DataError, shortened
from rulerlib.samples import Prediction, question, read_object, read_placed
from rulerlib.store import questions

COUNT = "num_answers"
"""The setting that says how many answers, from the first on, a run has left that came to its end;
0 before there was one. There may be more."""

SEAL = "sha256"
"""The hash of the settings, as it stands among them in their file."""

# Settings on which no answer depends, or that tell the same in other words.
_ASIDE = ("model", "versions", "sentence_repeats", COUNT)


class Answers:
    """The answers to one file of questions, and where each stands in their own file.

    Parameters
    ----------
    path
        The file of answers.
    settings
        How they are made.
    hashes
        All questions in their order, each as `rulerlib.samples.question` has it.
    repeats
        The number of answers to each question.

    Attributes
    ----------
    places
        For the number of each answer, in the order of the file, the bytes [start, end) of its
        line. Answers are numbered through: those to question 0, those to question 1, ...

    Raises
    ------
    RunMismatchError
        If answers stand there that were made with other settings: names the first that differs.
    DataError
        If the file is damaged, a sample stands there twice, or they answer other questions.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Any], hashes: Sequence[int], repeats: int = 1
    ) -> None:
        self.path, self.settings, self.hashes, self.repeats = path, settings, hashes, repeats
        self._beside = settings_path(path)
        self._read()

    def __contains__(self, answer: tuple[int, int]) -> bool:
        """Return whether an answer is there, by its question's index and its number from 0."""
        return self._number(*answer) in self.places

    def hold(self, total: int) -> bool:
        """Return whether a run has left the first ``total`` answers in order, at its end."""
        # Settings from before the answers were counted do not say it.
        left: int = self._recorded.get(COUNT, total)
        return left >= total and list(self.places)[:total] == list(range(total))

    def _number(self, index: int, repeat: int) -> int:
        return index * self.repeats + repeat

    def _read(self) -> None:
        """Hold all answers in the file against settings and questions, and note their places."""
        self.places: dict[int, tuple[int, int]] = {}
        self._recorded: dict[str, Any] = {}
        if not self.path.exists():
            return
        for line, (record, place) in enumerate(_checked(self.path, True), 1):
            if line == 1:
                self._recorded = read_settings(self.path)
                questions.compare(self.path.parent, self._recorded, self.settings, _ASIDE)
            index, repeat = record.index, record.repeat
            wanted = index in range(len(self.hashes)) and repeat < self.repeats
            if not wanted or question(record) != self.hashes[index]:
                raise DataError(f"{self.path}, line {line}: not the answer to sample {index}.")
            self.places[self._number(index, repeat)] = place

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only one that writes the file, with what a kill left removed.

        Raises
        ------
        BusyError
            If another process is writing it.
        RunMismatchError, DataError, ParameterError
            As when this was made; another process may have written in between.
        """
        with files.lock(self.path):
            files.remove_unfinished(self.path, self._beside)
            self._read()
            if not self.places:
                self._recorded = {**self.settings, COUNT: 0}
                _write(self._beside, self._recorded)
            size = max((end for _, end in self.places.values()), default=0)
            if self.path.exists() and self.path.stat().st_size > size:
                os.truncate(self.path, size)
            yield

    def append(self, record: Prediction) -> None:
        """Add an answer at the end of the file.

        Raises
        ------
        ParameterError
            If the disk is full.
        """
        line = replace(record, others={**record.others, "settings": _key(self._recorded)}).to_line()
        with files.saving(self.path), self.path.open("ab") as file:
            start = file.tell()
            file.write(line)
        self.places[self._number(record.index, record.repeat)] = (start, start + len(line))

    def put_in_order(self) -> None:
        """Put the lines of the file in the order of their numbers, in one step, and count them.

        Raises
        ------
        ParameterError
            If the disk is full; the file stays as it was.
        """
        if list(self.places) != sorted(self.places):
            with self.path.open("rb") as file, files.replacing(self.path) as ordered:
                for _, (start, end) in sorted(self.places.items()):
                    file.seek(start)
                    ordered.write(file.read(end - start).decode("utf-8"))
        whole = next(number for number in itertools.count() if number not in self.places)
        if self._recorded.get(COUNT) != whole:
            self._recorded[COUNT] = whole
            _write(self._beside, self._recorded)


def settings_path(path: str | Path) -> Path:
    """Return the path of the settings of a file of answers."""
    return Path(path).with_suffix(".settings.json")


def read_settings(path: str | Path) -> dict[str, Any]:
    """Return the settings of a file of answers; empty where others made it.

    Raises
    ------
    DataError
        If they are damaged.
    """
    beside = settings_path(path)
    settings = read_object(beside) if beside.exists() else {}
    stated = settings.pop(SEAL, None)
    if stated not in (None, _hash(settings)):
        raise DataError(f"{beside}: changed after it was written, because its hash is another.")
    if not isinstance(settings.get(COUNT, 0), int):
        raise DataError(f"{beside}: damaged ('{COUNT}' is {shortened(settings[COUNT])}).")
    cell = settings.get("cell")
    if isinstance(cell, dict) and cell.get("family"):
        # Whoever reads these answers can judge them as their family does.
        from rulerlib.tasks import outside

        outside.recall(cell["family"])
    return settings


def _write(beside: Path, settings: Mapping[str, Any]) -> None:
    files.write_object(beside, {**settings, SEAL: _hash(settings)})


def _hash(settings: Mapping[str, Any], without: Sequence[str] = ()) -> str:
    told = {name: value for name, value in settings.items() if name not in without}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _key(settings: Mapping[str, Any]) -> str:
    """Return the hash of the settings by which each answer names them."""
    return _hash(settings, (*_ASIDE, "batch_size"))


def _checked(path: Path, unfinished: bool) -> Iterator[tuple[Prediction, tuple[int, int]]]:
    """Yield each answer, and the bytes [start, end) of its line.

    Each must have been written with the settings beside the file, and stand there once.
    """
    beside, key = settings_path(path), ""
    seen: set[tuple[int, int, int]] = set()
    for number, (record, place) in enumerate(read_placed(path, Prediction, unfinished), 1):
        key = key or _key(read_settings(path))
        stated, reason = record.others.get("settings"), None
        # NVIDIA's scripts put something else into `index`, which may be the same for two samples.
        answer = (record.index, hash(record.input), record.repeat)
        if answer in seen:
            reason = f"sample {record.index} stands there twice"
        elif isinstance(stated, str):
            if not beside.exists():
                raise DataError(f"{beside} is missing, so nobody can say how {path} was made.")
            if stated != key:
                reason = f"written with other settings than those of {beside}"
        if reason:
            raise DataError(f"{path}, line {number}: {reason}.")
        seen.add(answer)
        yield record, place


def read_predictions(path: str | Path, num_samples: int | None = None) -> list[Prediction]:
    """Return the answers of a file by index, also of one that is being written.

    Parameters
    ----------
    num_samples
        How many samples' answers are returned, from the beginning; None: all.

    Raises
    ------
    DataError
        If the file cannot be read, is damaged, or a sample stands there twice.
    """
    path = Path(path)
    # Only our own are written line by line; the files of others are whole.
    predictions = [record for record, _ in _checked(path, settings_path(path).exists())]
    predictions.sort(key=attrgetter("index", "repeat"))
    repeats = 1 + max((record.repeat for record in predictions), default=0)
    there = {record.index * repeats + record.repeat for record in predictions}
    for number in range(read_settings(path).get(COUNT, 0)):
        if number not in there:
            raise DataError(f"{path}: sample {number // repeats} is missing; finish the run first.")
    return predictions[: None if num_samples is None else num_samples * repeats]


def evidence(
    path: str | Path, num_samples: int | None = None
) -> tuple[list[Prediction], dict[str, int]]:
    """Return the answers of a file to different prompts, and how many others there are.

    A source with fewer questions than samples gives some of them twice. The same prompt with the
    same answer tells nothing new and is left out; the same question among other documents does,
    but the answers depend on each other, and have the question as their ``cluster``.

    Parameters
    ----------
    path, num_samples
        See `read_predictions`.

    Returns
    -------
    tuple
        The answers, and under ``asked_again`` how many were left out, where any were.

    Raises
    ------
    DataError
        As `read_predictions`.
    """
    predictions, settings = read_predictions(path, num_samples), read_settings(path)
    first: dict[int, int] = {}
    different = [
        record
        for record in predictions
        if not record.input or first.setdefault(hash(record.input), record.index) == record.index
    ]
    if ((settings.get("dataset") or {}).get("knobs") or {}).get("source"):
        _cluster(different)
    again = len(predictions) - len(different)
    return different, {"asked_again": again} if again else {}


def _cluster(predictions: Sequence[Prediction]) -> None:
    """Say of the answers to a question that was asked several times that they are one cluster."""
    groups: dict[tuple[str, ...], list[Prediction]] = {}
    for record in predictions:
        texts = (record.input[part.start : part.end] for part in record.parts_of("question"))
        groups.setdefault((*texts, *record.outputs), []).append(record)
    for same in groups.values():
        alone = not any(name in one.others for one in same for name in ("cluster", "context_id"))
        if alone and len({one.index for one in same}) > 1:
            for one in same:
                one.others["cluster"] = f"the question of sample {same[0].index}"
