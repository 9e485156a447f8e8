"""The answers to one file of questions: added one by one, whole after any kill, put in order.

Each answer is added to the end of its file as soon as it is finished, in whatever order. What
stands in the file counts, so that nothing is lost and nothing is asked twice; a line that a kill
cut off does not count, and is cut away. When all are there they are put in order, in one step, so
that an interrupted run ends with the same bytes as one that was not.

``<task>.settings.json`` beside ``<task>.jsonl`` says how they were made. Where a sequential plan
decided how many there are, it says so under ``sequential``; a later run may have another plan, or
none.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from rulerlib.errors import LARGEST, DataError, shortened
from rulerlib.samples import Prediction, read, read_object, read_placed
from rulerlib.store import files, questions
from rulerlib.store.lock import alone

PLAN = "sequential"
"""The setting that says which plan ends a run before all questions are asked: no answer depends on
it, only how many there are."""


class Answers:
    """The answers to one file of questions, and where each stands in their own file.

    Parameters
    ----------
    path
        The file of answers.
    settings
        How they are made.
    gold
        The gold outputs of all questions, in their order.
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
        self, path: Path, settings: Mapping[str, Any], gold: Sequence[list[str]], repeats: int = 1
    ) -> None:
        self.path, self.settings, self.gold, self.repeats = path, settings, gold, repeats
        self.beside = settings_path(path)
        self.places = self._standing()

    def __contains__(self, asked: tuple[int, int]) -> bool:
        """Return whether an answer is there, by its question's index and its number from 0."""
        return self._number(*asked) in self.places

    def _number(self, index: int, repeat: int) -> int:
        return index * self.repeats + repeat

    def _standing(self) -> dict[int, tuple[int, int]]:
        places: dict[tuple[int, int], tuple[int, int]] = {}
        outputs: dict[tuple[int, int], list[str]] = {}
        records = read_placed(self.path, Prediction, unfinished=True) if self.path.exists() else ()
        for number, (record, place) in enumerate(records, 1):
            asked = record.index, record.repeat
            if asked in places:
                twice = f"sample {record.index} stands there twice"
                raise DataError(f"{self.path}, line {number}: {twice}.")
            places[asked], outputs[asked] = place, record.outputs
        # A power cut may take settings that have no answers to explain yet.
        if self.beside.exists() and (places or not files.is_lost(self.beside)):
            before = read_object(self.beside)
            if places:
                # A model may have been named by its folder; not every run is one of a cell; and
                # not every one says what a server does by itself, nor does every server.
                unsaid = {"cell", "defaults"} - before.keys()
                if "unknown" in (before.get("defaults"), self.settings.get("defaults")):
                    unsaid.add("defaults")
                ignore = ("model", "versions", PLAN, *unsaid)
                questions.compare(self.beside, self.settings, ignore)
        elif places:
            raise DataError(
                f"{self.beside} is missing, so nobody can say how {self.path} was made."
            )
        for number, ((index, repeat), said) in enumerate(outputs.items(), 1):
            known = index in range(len(self.gold)) and repeat < self.repeats
            if not known or said != self.gold[index]:
                raise DataError(f"{self.path}, line {number}: not the answer to sample {index}.")
        return {self._number(*asked): place for asked, place in places.items()}

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
        with alone(self.path) as killed:
            if killed:
                files.remove_leftovers(self.path, self.beside)
            self.places = self._standing()
            if not self.places:
                # It lasts from the first answer on; before that there is nothing to explain.
                files.write_object(self.beside, self.settings, lasting=False)
            else:
                self._note_plan()
            size = max((end for _, end in self.places.values()), default=0)
            if self.path.exists() and self.path.stat().st_size > size:
                os.truncate(self.path, size)
            yield

    def _note_plan(self) -> None:
        """Say beside the answers which plan decides how many more there will be, if any does."""
        before, plan = read_object(self.beside), self.settings.get(PLAN)
        if before.get(PLAN) != plan:
            rest = {name: value for name, value in before.items() if name != PLAN}
            files.write_object(self.beside, rest if plan is None else {**rest, PLAN: plan})

    def append(self, record: Prediction) -> None:
        """Add an answer at the end of the file; it outlives a power cut.

        Raises
        ------
        ParameterError
            If the disk is full.
        """
        line = record.to_line()
        try:
            with self.path.open("ab") as file:
                start = file.tell()
                file.write(line)
                file.flush()
                if self.places:
                    os.fsync(file.fileno())
                else:
                    files.sync(self.path, self.beside)
        except OSError as error:
            raise files.unwritable(self.path, error) from error
        self.places[self._number(record.index, record.repeat)] = (start, start + len(line))

    def put_in_order(self) -> None:
        """Put the lines of the file in the order of their numbers, in one step.

        Raises
        ------
        ParameterError
            If the disk is full; the file stays as it was.
        """
        if list(self.places) == sorted(self.places):
            return
        with self.path.open("rb") as file, files.replacing(self.path) as ordered:
            for _, (start, end) in sorted(self.places.items()):
                file.seek(start)
                ordered.write(file.read(end - start).decode("utf-8"))


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
    return read_object(beside) if beside.exists() else {}


def planned(path: str | Path) -> dict[str, int]:
    """Return under ``planned`` how many samples a sequential plan would have asked at most.

    Nothing where no such plan decides how many answers there are.

    Raises
    ------
    DataError
        If the settings are damaged.
    """
    plan = read_settings(path).get(PLAN)
    if plan is None:
        return {}
    most = plan.get("planned") if isinstance(plan, Mapping) else None
    if not isinstance(most, int) or not 0 < most <= LARGEST:
        raise DataError(f"{settings_path(path)}: damaged ('{PLAN}' is {shortened(plan)}).")
    return {"planned": most}


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
    predictions: dict[tuple[int, int, int], Prediction] = {}
    # Only our own are written line by line; the files of others are whole.
    for record in read(path, Prediction, unfinished=settings_path(path).exists()):
        # NVIDIA's scripts put something else into `index`, which may be the same for two samples.
        answer = (record.index, hash(record.input), record.repeat)
        if answer in predictions:
            raise DataError(f"{path}: sample {record.index} stands there twice.")
        predictions[answer] = record
    repeats = 1 + max((record.repeat for record in predictions.values()), default=0)
    ordered = sorted(predictions.values(), key=attrgetter("index", "repeat"))
    return ordered[: None if num_samples is None else num_samples * repeats]
