"""What the tests of memories share: a reader that needs no weights, and runs of it in this process.

``Student`` answers from what stands in its prompt alone. It knows the facts and the answer of every
question of a set, and says the answer where all that is needed stands before it.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from helpers_model import Parrot

from conftest import make_tokenizer
from rulerlib import models
from rulerlib.memory import running, sets
from rulerlib.memory.work import METRICS, STEPS, TABLE, Work, expand
from rulerlib.models import Generation, Request
from rulerlib.samples import read_object


class Student(Parrot):
    """A reader that answers what stands in its prompt, and is surprised as a hash says.

    Parameters
    ----------
    folder
        Where sets of episodes stand.
    says
        What it answers where it cannot know.
    """

    def __init__(
        self, folder: Path, says: str = "nothing", limit: int | None = None,
        tokenizer: Any = None, batch: int = 8,
    ) -> None:  # fmt: skip
        super().__init__(limit, batch)
        self.tokenizer = tokenizer or make_tokenizer("bytelevel")
        self._folder, self._says = folder, says
        self._known: dict[str, tuple[tuple[str, ...], str]] = {}
        self._seen: set[Path] = set()
        self.read: list[str] = []

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        for path in {*self._folder.rglob("sets/*.jsonl")} - self._seen:
            self._seen.add(path)
            for episode in sets.read(path):
                for probe in episode.probes:
                    facts = tuple(fact.text for fact in episode.needed(probe))
                    self._known[probe.text] = facts, probe.golds[0]
        for position, request in enumerate(requests):
            self.asked.append(request.prompt)
            yield position, Generation(self.answer(request.prompt), 3, True)

    def answer(self, prompt: str) -> str:
        """What it says to a prompt: the answer to the longest question that stands in it."""
        questions = (text for text in self._known if text in prompt)
        facts, gold = self._known[max(questions, key=len)]
        return gold if facts and all(fact in prompt for fact in facts) else self._says

    def log_likelihoods(self, texts: Iterable[str]) -> Iterator[models.Likelihood]:
        for text in texts:
            self.read.append(text)
            share = hashlib.sha256(text.encode()).digest()[0] / 255
            yield models.Likelihood(nll=share * 70, tokens=10)


def matrix(root: Path, **given: Any) -> list[Work]:
    """Some work, little of it where nothing is said: episodic, two episodes, all presets."""
    given = {"suites": ["episodic"], "sizes": [2], "seeds": [7], **given}
    return expand(root=str(root), **given)


def taught(works: list[Work], *names: str) -> tuple[str, ...]:
    """Do steps of some work in this process, all where none is named; return what stopped it."""
    stopped: dict[str, None] = {}
    for name in names or STEPS:
        stopped |= dict.fromkeys(running.step(works, name).stopped)
    return tuple(stopped)


def rows(job: Work) -> list[dict[str, str]]:
    """The rows of a table of questions."""
    with job.file(TABLE).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def metrics(job: Work) -> dict[str, Any]:
    """What ``metrics.json`` says of the suite."""
    return read_object(job.file(METRICS))["metrics"][job.suite]
