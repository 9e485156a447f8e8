"""The folder of a submission: its files, and which of all answers are shown in full.

``settings.json``
    how each cell was asked: what all cells have in common once, the rest by cell;
``scores.csv``
    for each cell a digit an answer: how many of ``of`` references it has, from 0 to 9 and on with
    a, b, ...; and whether the limit cut the answer off (1) or not (0);
``hashes.csv``
    for each cell 16 hexadecimal digits an answer, of its prompt and of what the model said;
``answers.jsonl``
    the answers that are shown, `SHOWN` of each cell;
``accuracy.csv``, ``averages.csv``, ``summary.csv``
    the tables that follow from the scores (`rulerlib.submit.scored`).

Answers are numbered through, those to sample 0 first. The same run gives the same bytes.

>>> hashed("What is it?", " 7.")
'046d6df004bb3bac'
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerlib.errors import DataError
from rulerlib.store import files
from rulerlib.tasks import RULER

VERSION = 1
"""The version of this layout."""

SHOWN = 5
"""Answers of each cell that are shown in full."""

SETTINGS, SCORES, HASHES, ANSWERS = "settings.json", "scores.csv", "hashes.csv", "answers.jsonl"

TABLES = ("accuracy", "averages", "summary")

NAMES = (SETTINGS, SCORES, HASHES, ANSWERS, *(f"{name}.csv" for name in TABLES))
"""All files of the folder."""

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

CELL = ("language", "task", "length")
SCORE_COLUMNS = (*CELL, "of", "found", "cut_off")
HASH_COLUMNS = (*CELL, "hashes")

# Hexadecimal digits of a hash.
WIDTH = 16


@dataclass(frozen=True)
class Entry:
    """A cell of a submission, with what is known of all of its answers.

    Attributes
    ----------
    language, task, length
        What was asked.
    settings
        How: what stands beside the answers of the run.
    of
        The references of each question, or 1 where any one of them suffices.
    found
        A digit an answer: how many of these it has.
    cut_off
        A digit an answer: 1 where the limit cut it off.
    hashes
        A hash of each answer and its prompt, see `hashed`.
    """

    language: str
    task: str
    length: int
    settings: Mapping[str, Any]
    of: int
    found: str
    cut_off: str
    hashes: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """Language, task and length."""
        return self.language, self.task, self.length

    def __str__(self) -> str:
        return f"{self.language}, {self.task}, {self.length}"

    @property
    def cell(self) -> Mapping[str, Any]:
        """The settings of the cell; empty where none are stated."""
        cell = self.settings.get("cell")
        return cell if isinstance(cell, Mapping) else {}

    @property
    def repeats(self) -> int:
        """How many answers there are to each question."""
        decoding = self.cell.get("decoding")
        repeats = decoding.get("samples", 1) if isinstance(decoding, Mapping) else 1
        return repeats if isinstance(repeats, int) and repeats > 0 else 1

    @property
    def n(self) -> int:
        """How many answers there are."""
        return len(self.found)

    @property
    def values(self) -> list[float]:
        """The score of each answer by RULER's own measure, from 0 to 1."""
        return [DIGITS.index(digit) / self.of for digit in self.found]


@dataclass(frozen=True)
class Answer:
    """An answer that is shown in full.

    Attributes
    ----------
    language, task, length, index, repeat
        Which one it is.
    prompt
        The SHA-256 hash of the prompt, which is not shown because it can be made again.
    gold, answer
        The references, and what the model said.
    prompt_tokens, tokens_generated
        How many tokens the model read and wrote.
    cut_off
        Where the limit struck: ``"answer"``, ``"thinking"``, or ``""``.
    """

    language: str
    task: str
    length: int
    index: int
    repeat: int
    prompt: str
    gold: tuple[str, ...]
    answer: str
    prompt_tokens: int
    tokens_generated: int
    cut_off: str

    @property
    def place(self) -> tuple[str, str, int, int, int]:
        """Language, task, length, index and repeat."""
        return self.language, self.task, self.length, self.index, self.repeat

    def __str__(self) -> str:
        repeat = f", answer {self.repeat}" if self.repeat else ""
        return f"{self.language}, {self.task}, {self.length}, sample {self.index}{repeat}"


@dataclass(frozen=True)
class Submission:
    """A model with its cells.

    Attributes
    ----------
    name
        The name of the run's folder, which tells its settings.
    claimed
        The context length that its makers claim, in tokens; None where nobody says.
    entries
        The cells, in the order of language, length and RULER's tasks.
    """

    name: str
    claimed: int | None
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(sorted(self.entries, key=_position)))

    @cached_property
    def texts(self) -> dict[str, str]:
        """The texts of the three files that say all there is: settings, scores and hashes."""
        common, rests = _common([entry.settings for entry in self.entries])
        cells = [
            {**dict(zip(CELL, entry.key, strict=True)), "settings": rest}
            for entry, rest in zip(self.entries, rests, strict=True)
        ]
        about = {
            "submission": VERSION, "name": self.name, "claimed": self.claimed,
            "settings": common, "cells": cells,
        }  # fmt: skip
        scores = [(*each.key, each.of, each.found, each.cut_off) for each in self.entries]
        hashes = [(*each.key, "".join(each.hashes)) for each in self.entries]
        return {
            SETTINGS: json.dumps(about, indent=1, sort_keys=True) + "\n",
            SCORES: _csv(SCORE_COLUMNS, scores),
            HASHES: _csv(HASH_COLUMNS, hashes),
        }

    @cached_property
    def hash(self) -> str:
        """A hash of all settings, scores and hashes."""
        return hashlib.sha256("".join(self.texts.values()).encode()).hexdigest()

    def shown(self, entry: Entry) -> list[int]:
        """Return the numbers of the answers of a cell that are to be shown.

        They follow from the settings, scores and hashes of all answers, so that whoever changes
        one of these has to show others.
        """
        return sorted(
            sorted(range(entry.n), key=lambda number: _lot(f"{self.hash} {entry} {number}"))[:SHOWN]
        )


def _position(entry: Entry) -> tuple[Any, ...]:
    known = RULER.index(entry.task) if entry.task in RULER else len(RULER)
    return entry.language, entry.length, known, entry.task


def _lot(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def hashed(prompt: str, said: str) -> str:
    """Return the hash of an answer and its prompt."""
    return hashlib.sha256(json.dumps([prompt, said]).encode()).hexdigest()[:WIDTH]


def of_prompt(prompt: str) -> str:
    """Return the hash of a prompt."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


# --- Settings that cells have in common ------------------------------------------------------


def _common(
    settings: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what settings have in common, and for each of them the rest."""
    first, *others = settings
    common: dict[str, Any] = {}
    rests: list[dict[str, Any]] = [dict(each) for each in settings]
    for name, value in first.items():
        if not all(name in each for each in others):
            continue
        values = [each[name] for each in settings]
        if all(_same(each, value) for each in values):
            common[name] = value
            for rest in rests:
                del rest[name]
        elif all(isinstance(each, Mapping) and each for each in values):
            shared, own = _common(values)
            if shared:
                common[name] = shared
                for rest, each in zip(rests, own, strict=True):
                    rest[name] = each
    return common, rests


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are written alike: 1 and 1.0, or True, are not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def merged(common: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of which `_common` returned these two."""
    whole = {**common, **rest}
    for name in common.keys() & rest.keys():
        if not isinstance(common[name], dict) or not isinstance(rest[name], dict):
            raise DataError(f"{SETTINGS}: '{name}' stands there twice.")
        whole[name] = merged(common[name], rest[name])
    return whole


# --- Written ---------------------------------------------------------------------------------


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    return file.getvalue()


def line(answer: Answer) -> str:
    """Return the line of an answer in its file."""
    return json.dumps(asdict(answer), ensure_ascii=True) + "\n"


def write(
    folder: Path, submission: Submission, answers: Sequence[Answer], tables: Mapping[str, str]
) -> None:
    """Write the files of a submission; those that stand there are replaced.

    Parameters
    ----------
    tables
        The text of each table by its name.

    Raises
    ------
    ParameterError
        If the folder cannot be written.
    """
    texts = dict(submission.texts)
    texts[ANSWERS] = "".join(map(line, answers))
    texts |= {f"{name}.csv": text for name, text in tables.items()}
    for name, text in texts.items():
        with files.replacing(folder / name) as file:
            file.write(text)
