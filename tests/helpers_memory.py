"""Helpers for tests of memories: a reader without weights, and small runs with it.

``Student`` knows the needed facts and the answer of each question, and gives the answer if all of
these facts are in its prompt.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from helpers_model import Parrot

from conftest import CHAT_TEMPLATE
from rulerlib.errors import RulerError
from rulerlib.memory import bench, measures
from rulerlib.memory.suites import Recipe
from rulerlib.memory.work import METRICS, TABLE, TELEMETRY, Work, expand
from rulerlib.models import Generation, Request
from rulerlib.samples import read_object
from rulerlib.tokens import Words


class Spoken(Words):
    """Words as tokens, with a chat template and an end of words."""

    chat_template = CHAT_TEMPLATE
    special_tokens: ClassVar[dict[str, str]] = {"bos_token": "<s>"}
    vocabulary = 50_000


class Student(Parrot):
    """A reader that answers from its prompt.

    Parameters
    ----------
    folder
        The folder of its runs. It learns their questions from their metadata.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(batch=8)
        self.tokenizer = Spoken()
        self._folder = folder
        self._known: dict[str, tuple[tuple[str, ...], str]] = {}
        self._seen: set[Path] = set()

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        for path in sorted({*self._folder.rglob("metadata.json")} - self._seen):
            self._seen.add(path)
            about = read_object(path)["episodes"]
            names = ("suite", "size", "seed", "language", "probes")
            for episode in Recipe(**{name: about[name] for name in names}, changes=about["knobs"]):
                for probe in episode.probes:
                    facts = tuple(fact.text for fact in episode.needed(probe))
                    self._known[probe.text] = facts, probe.golds[0]
        for position, request in enumerate(requests):
            self.asked.append(request.prompt)
            yield position, Generation(self.answer(request.prompt), 3, True)

    def answer(self, prompt: str) -> str:
        """Return the answer to the longest question in a prompt."""
        questions = (text for text in self._known if text in prompt)
        facts, gold = self._known[max(questions, key=len)]
        return gold if facts and all(fact in prompt for fact in facts) else "nothing"


def matrix(root: Path, **given: Any) -> list[Work]:
    """Return some work: by default two episodes of episodic with all presets."""
    given = {"suites": ["episodic"], "sizes": [2], "seeds": [7], **given}
    return expand(root=str(root), **given)


def finished(works: list[Work]) -> tuple[str, ...]:
    """Run some work without checking it; return what stopped it."""
    stopped = []
    for job in works:
        try:
            if not measures.is_measured(job):
                bench.run_one(job, job.reader())
        except RulerError as error:
            stopped.append(str(error))
    return tuple(dict.fromkeys(stopped))


def rows(job: Work) -> list[dict[str, str]]:
    return read_table(job.folder / TABLE)


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def metrics(job: Work) -> dict[str, Any]:
    """Return the metrics of the suite in ``metrics.json``."""
    return read_object(job.folder / METRICS)["metrics"][job.recipe.suite]


def kept(folder: Path) -> dict[str, Any]:
    """Return all that a run left in a folder, without locks and timings."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.name == TABLE:
            found[str(path)] = [{**row, "latency_ms": ""} for row in read_table(path)]
        elif path.is_file() and path.suffix != ".lock" and path.name != TELEMETRY:
            found[str(path)] = path.read_bytes()
    return {name.removeprefix(str(folder)): content for name, content in found.items()}
