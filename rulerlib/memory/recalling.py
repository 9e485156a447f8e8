"""Recalling: what is brought to each question of a set, by a memory system or out of the episode.

A system is opened as it stands on disk and asked with the question alone, in a process that has
taught it nothing. What it recalled is written down, a line a question, so that prompts and measures
are made without it. The presets without a system bring facts of the episode itself.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from rulerlib import samples
from rulerlib.errors import DataError, shortened
from rulerlib.memory import guards, sets, work
from rulerlib.memory.relation_graph import RelationGraph
from rulerlib.memory.system import Recalled
from rulerlib.memory.teaching import is_taught, opened, semantic
from rulerlib.memory.work import Work
from rulerlib.samples import Record
from rulerlib.store import files
from rulerlib.store.lock import alone
from rulerlib.tasks.episodes import Episode, Probe


class Question(NamedTuple):
    """A question of a set.

    Attributes
    ----------
    place
        Where it stands in the set, from 0.
    episode
        What was taught.
    number
        Which of the episode's questions it is, from 0.
    probe
        The question itself.
    """

    place: int
    episode: Episode
    number: int
    probe: Probe


class Brought(NamedTuple):
    """What is brought to a question.

    Attributes
    ----------
    texts
        In the order in which they stand in a prompt; of a system, the best first.
    latency
        How long it took to recall them, in milliseconds; None where nothing is recalled.
    """

    texts: Sequence[Recalled]
    latency: float | None


@dataclass(slots=True)
class _Line(Record):
    """What was recalled for one question, as a line of a file."""

    needed: ClassVar[frozenset[str]] = frozenset({"index", "question", "recalled", "microseconds"})

    index: int
    question: str
    recalled: list[dict[str, Any]]
    microseconds: int

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the line of plain data.

        Raises
        ------
        DataError
            If it is no such line.
        """
        line = super(_Line, cls).from_dict(values)
        for each in line.recalled:
            kinds = {name: type(value) for name, value in each.items()}
            if kinds != {"text": str, "numbers": list, "score": float}:
                raise DataError(f"what was recalled is {shortened(each)}")
        return line

    def texts(self) -> list[Recalled]:
        """Return what was recalled."""
        return [Recalled(each["text"], tuple(each["numbers"]), each["score"])
                for each in self.recalled]  # fmt: skip


def questions(job: Work) -> Iterator[Question]:
    """Yield the questions of a piece of work, in their order.

    Raises
    ------
    DataError
        If the set cannot be read or is damaged.
    """
    place = 0
    for episode in sets.held(job.set_path):
        for number, probe in enumerate(episode.probes):
            yield Question(place, episode, number, probe)
            place += 1


def recall(job: Work) -> None:
    """Ask the memory system of a piece of work all its questions, where it has one, once.

    Raises
    ------
    DataError, RunMismatchError
        If nothing was taught, the store holds nothing, is damaged, of another version or of other
        settings.
    GuardError
        If no request arrived.
    BusyError
        If another process is asking it.
    """
    path, about = job.file(work.RECALLED), job.file(work.TELEMETRY)
    if not job.settings.stores or (path.exists() and about.exists()):
        return
    ready = is_taught(job) and (not job.settings.rehearses or job.file(work.REPLAY).exists())
    if not ready:
        step = "replay" if is_taught(job) else "teach"
        raise DataError(f"{job.file(work.STORE)}: not ready to be asked; {step} first.")
    with alone(path):
        files.remove_leftovers(path, about)
        lines, system, graph = list[_Line](), opened(job), semantic(job)
        most = getattr(job.settings.system_settings, "k", None)
        try:
            for each in questions(job):
                begin = time.perf_counter()
                found = system.recall(each.episode.id, each.probe.text)
                if graph is not None:
                    found = _joined(graph, each, found)[:most]
                took = round((time.perf_counter() - begin) * 1e6)
                lines.append(_line(each, found, took))
            telemetry = system.telemetry()
            if graph is not None:
                telemetry["semantic_followed"] = graph.counts["followed"]
        finally:
            system.close()
            if graph is not None:
                graph.close()
        guards.asked(job.settings.short, telemetry)
        files.write(path, lines)
        files.write_object(about, {**telemetry, "latency_ms": _latencies(lines)})


def _joined(graph: RelationGraph, question: Question, found: Sequence[Recalled]) -> list[Recalled]:
    """Return what a semantic store knows of a question before what an episodic one recalled.

    That is the facts on the way to an answer, where the graph knows all of it, and else nothing.
    """
    before = graph.counts["followed"]
    known = graph.recall(question.episode.id, question.probe.text)
    if graph.counts["followed"] == before:
        return [*found]
    numbers = {number for each in known for number in each.numbers}
    return [*known, *(each for each in found if not numbers.issuperset(each.numbers))]


def _line(question: Question, found: Sequence[Recalled], microseconds: int) -> _Line:
    """Return what was recalled for a question as a line."""
    recalled = [
        {"text": each.text, "numbers": [*each.numbers], "score": float(each.score)}
        for each in found
    ]
    return _Line(question.place, question.probe.text, recalled, microseconds)


def _latencies(lines: Sequence[_Line]) -> dict[str, float]:
    """Return the mean, the median and the 95th percentile of how long it took to recall."""
    times = sorted(line.microseconds / 1e3 for line in lines)
    return {
        "mean": round(statistics.mean(times), 3),
        "median": round(statistics.median(times), 3),
        "p95": times[min(len(times) - 1, int(0.95 * len(times)))],
    }


def brought(job: Work) -> Iterator[tuple[Question, Brought]]:
    """Yield each question of a piece of work with what is brought to it.

    Raises
    ------
    DataError
        If the set or what was recalled cannot be read, or they do not go together.
    """
    if not job.settings.stores:
        for question in questions(job):
            yield question, Brought(_in_context(job.settings.system, question), None)
        return
    path = job.file(work.RECALLED)
    lines = samples.read(path, _Line)
    for question in questions(job):
        line = next(lines, None)
        if line is None or (line.index, line.question) != (question.place, question.probe.text):
            raise DataError(f"{path}: not what was recalled for the questions of {job.set_path}.")
        yield question, Brought(line.texts(), line.microseconds / 1e3)


def _in_context(system: str, question: Question) -> list[Recalled]:
    """Return the facts that a preset without a memory system shows, in their order.

    Of a question that cannot be answered no fact is needed, and none is shown as such.
    """
    facts = {"none": (), "all": question.episode.facts}
    needed = (question.episode.facts[number] for number in sorted(question.probe.needs))
    shown = facts[system] if system in facts else tuple(needed)
    return [Recalled(fact.text, (fact.number,), 0.0) for fact in shown]


def digest(job: Work) -> str | None:
    """Return a hash of what a memory system recalled; None where there is none.

    How long it took is not part of it.
    """
    if not job.settings.stores:
        return None
    known = hashlib.sha256()
    for _, found in brought(job):
        known.update(repr(found.texts).encode("utf-8", "surrogatepass"))
    return known.hexdigest()[:16]


def alike(one: Work, other: Work) -> bool:
    """Return whether two memories recalled the same texts for the same questions.

    What they counted while they were asked must be the same too, but not their size and how long
    they took.

    Raises
    ------
    DataError
        If a file is missing or damaged.
    """
    counted = [samples.read_object(job.file(work.TELEMETRY)) for job in (one, other)]
    for telemetry in counted:
        for name in ("bytes", "latency_ms"):
            telemetry.pop(name, None)
    texts = (
        [[each.text for each in found.texts] for _, found in brought(job)] for job in (one, other)
    )
    return counted[0] == counted[1] and next(texts) == next(texts)
