"""What the tests of memories share: a reader that needs no weights, and runs of it in this process.

``Student`` answers from what stands in its prompt alone. It knows the facts and the answer of every
question of a set, and says the answer where all that is needed stands before it.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import itertools
import json
import multiprocessing
import signal
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from helpers_model import Parrot
from helpers_store import die_at

from conftest import CHAT_TEMPLATE
from rulerlib import models
from rulerlib.memory import bench, teaching
from rulerlib.memory.suites import Recipe
from rulerlib.memory.work import METRICS, TABLE, TEACHING, TELEMETRY, Work, expand
from rulerlib.models import Generation, Request
from rulerlib.samples import read_object
from rulerlib.tokens import Words


class Spoken(Words):
    """Words as tokens, with a chat template and an end of words."""

    chat_template = CHAT_TEMPLATE
    special_tokens: ClassVar[dict[str, str]] = {"bos_token": "<s>"}
    vocabulary = 50_000


class Student(Parrot):
    """A reader that answers what stands in its prompt, and is surprised as a hash says.

    Parameters
    ----------
    folder
        Where its questions stand; what their episodes are made from stands beside them.
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
            about = read_object(path).get("episodes", {})
            names = ("suite", "size", "seed", "language")
            values = {name: about[name] for name in names if about}
            recipe = (
                Recipe(**values, probes=about["probes"], changes=about["knobs"]) if about else ()
            )
            for episode, probe in ((item.episode, one) for item in recipe
                                   for one in item.episode.probes):  # fmt: skip
                facts = tuple(fact.text for fact in episode.needed(probe))
                self._known[probe.text] = facts, probe.golds[0]
        for position, request in enumerate(requests):
            self.asked.append(request.prompt)
            yield position, Generation(self.answer(request.prompt), 3, True)

    def answer(self, prompt: str) -> str:
        """What it says to a prompt: the answer to the longest question that stands in it."""
        questions = (text for text in self._known if text in prompt)
        facts, gold = self._known[max(questions, key=len)]
        return gold if facts and all(fact in prompt for fact in facts) else "nothing"

    def log_likelihoods(self, texts: Iterable[str]) -> Iterator[models.Likelihood]:
        for text in texts:
            share = hashlib.sha256(text.encode()).digest()[0] / 255
            yield models.Likelihood(nll=share * 70, tokens=10)


def matrix(root: Path, **given: Any) -> list[Work]:
    """Some work, little of it where nothing is said: episodic, two episodes, all presets."""
    given = {"suites": ["episodic"], "sizes": [2], "seeds": [7], **given}
    return expand(root=str(root), **given)


def taught(works: list[Work], ask: bool = True) -> tuple[str, ...]:
    """Teach and ask some work in this process; return what stopped it."""
    stopped = {job: sentence for job, sentence in teaching.taught(works) if sentence}
    if ask:
        bench.ask(works, stopped)
    return tuple(dict.fromkeys(stopped.values()))


def rows(job: Work) -> list[dict[str, str]]:
    """The rows of a piece of work."""
    return read_table(job.file(TABLE))


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table of questions."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def metrics(job: Work) -> dict[str, Any]:
    """What ``metrics.json`` says of the suite."""
    return read_object(job.file(METRICS))["metrics"][job.recipe.suite]


def shoot(names: list[str], root: str, every: int) -> None:
    """Do the work of some presets in processes that are shot, each later than the one before.

    Each finds what the one before it left. Called in a process that has nothing but one thread,
    which can be forked; prints how many were shot.
    """
    forked, shots = multiprocessing.get_context("fork"), 0
    for step in itertools.count(2, every):
        process = forked.Process(target=_stepping, args=(names, step, Path(root)))
        process.start()
        process.join(120)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        shots += 1
    print(shots)


def _stepping(names: list[str], step: int, root: Path) -> None:
    """What such a process does: the work, until it opens its n-th file."""
    student = Student(root)
    models.load = lambda *_, **__: student  # type: ignore[assignment]
    die_at(step, root)
    with contextlib.redirect_stdout(io.StringIO()):
        stopped = taught(matrix(root, preset_names=names))
    assert not stopped, stopped


def kept(folder: Path) -> dict[str, Any]:
    """All that a run left below a folder, without what was measured by a clock."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".lock":
            # Of a process that was shot; it locks nothing any more.
            continue
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".sqlite":
            with contextlib.closing(sqlite3.connect(path)) as database:
                found[name] = [*database.iterdump()]
        elif path.name in CLOCKED:
            found[name] = timeless(json.loads(path.read_text("utf-8")))
        elif path.name == TABLE:
            found[name] = [{**row, "latency_ms": ""} for row in read_table(path)]
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


CLOCKED = (TEACHING, TELEMETRY, METRICS)
"""The files that say how long something took."""


def timeless(values: Any) -> Any:
    """Plain data without how long something took, and how large a file is."""
    if isinstance(values, dict):
        clocked = {"seconds", "latency_ms", "microseconds", "bytes"}
        return {name: timeless(value) for name, value in values.items() if name not in clocked}
    return values
