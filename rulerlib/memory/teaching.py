"""Teaching and replay: the facts of a set of episodes go into the store of a memory system.

A system is given facts and nothing else: no question and no answer comes near a store. The store is
made under another name, and gets its own when all was taught, so that what a kill leaves unfinished
is made anew and holds the same.

Where episodes have several sessions, the first one of each is taught, then the second one of each,
and so on. Between them nothing is left but the file: the system is closed and opened again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rulerlib import samples
from rulerlib.errors import DataError
from rulerlib.memory import guards, relation_teaching, sets, suites, work
from rulerlib.memory.episodic_index import EpisodicIndex
from rulerlib.memory.relation_graph import RelationGraph
from rulerlib.memory.surprise import surprises
from rulerlib.memory.system import Surprise, System
from rulerlib.memory.work import Work
from rulerlib.models import Model
from rulerlib.samples import Record
from rulerlib.store import files, questions
from rulerlib.store.lock import alone
from rulerlib.tasks.episodes import Episode

_HALF = "unfinished-"

GRAPH = relation_teaching.Settings(gate=False, fast_track=False)
"""A semantic store that is handed facts: what was rehearsed is worth keeping, so no gate asks."""

Reader = Callable[[], Model]
"""A function that returns the model that will be asked, loaded at most once."""


def teach(job: Work, reader: Reader) -> None:
    """Make the set of a piece of work, and teach it to its memory system, where it has one.

    What was taught before is not taught again.

    Parameters
    ----------
    reader
        Asked for its surprise, where the preset wants to know it.

    Raises
    ------
    GuardError
        If the store is empty after teaching.
    RunMismatchError
        If the set or the store was made with other settings: names the first that differs.
    DataError
        If what stands there is damaged, or a session has nothing to teach.
    ParameterError
        If the engine cannot say how unexpected a text is, or a file cannot be written.
    BusyError
        If another process is teaching the same.
    """
    _make_set(job)
    if not job.settings.stores or is_taught(job):
        return
    path = job.file(work.STORE)
    with alone(path):
        if is_taught(job):
            return
        made = path.with_name(_HALF + path.name)
        _remove(made)
        begin = time.perf_counter()
        with contextlib.ExitStack() as stack:
            of_reader = None
            if job.settings.surprise == "reader":
                of_reader = stack.enter_context(Surprises(job.surprise_path, reader()).writing())
            told = _Teaching(job, made, of_reader).run()
        seconds = round(time.perf_counter() - begin, 3)
        os.replace(made, path)
        files.write_object(
            job.file(work.TEACHING),
            {"preset": job.settings.to_dict(), **told, "seconds": seconds},
        )


# The sets that this process has made or checked, and when each was changed last.
_MADE: dict[Path, int] = {}


def _make_set(job: Work) -> None:
    """Make the set of a piece of work, or check the one that stands there, once for all presets."""
    path = job.set_path
    if not path.exists() or _MADE.get(path) != path.stat().st_mtime_ns:
        suites.write(job.recipe, path, quiet=True)
        _MADE[path] = path.stat().st_mtime_ns


def is_taught(job: Work) -> bool:
    """Return whether the store of a piece of work was taught, by the preset as it is now.

    Raises
    ------
    RunMismatchError
        If it was taught by other settings: names the first that differs.
    """
    about = job.file(work.TEACHING)
    if not about.exists():
        return False
    check_preset(about, samples.read_object(about).get("preset"), job)
    return True


def check_preset(path: Path, was: Any, job: Work) -> None:
    """Check that a file was written by the preset of a piece of work as it is now.

    Raises
    ------
    RunMismatchError
        If not: names the first setting that differs.
    """
    remedy = f"remove {path.parent}, or choose another root"
    was = was if isinstance(was, dict) else {}
    questions.compare(path, was, job.settings.to_dict(), remedy=remedy)


def opened(job: Work, path: Path | None = None) -> System:
    """Return the memory system of a piece of work on its store, or on another file.

    Raises
    ------
    DataError, RunMismatchError
        As `rulerlib.memory.system.System.open`.
    """
    preset = job.settings
    assert preset.kind is not None
    path = path or job.file(work.STORE)
    return preset.kind.open(path, preset.system_settings, job.pack, job.suite)


class _Teaching:
    """Teaches the episodes of a set to a new store."""

    def __init__(self, job: Work, path: Path, of_reader: Surprises | None) -> None:
        self._job, self._path, self._of_reader = job, path, of_reader
        self._name = job.settings.short
        self._facts = 0

    def run(self) -> dict[str, Any]:
        """Teach all sessions, and return what came of it, as plain data."""
        preset, counts, episodes = self._job.settings, Counter[str](), 0
        assert preset.kind is not None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        arguments = preset.system_settings, self._job.pack, self._job.suite
        system, sessions, last = preset.kind.create(self._path, *arguments), 0, 0
        while sessions <= last:
            if sessions:
                counts.update(system.counts)
                system = self._flushed(system, sessions)
            told = 0
            for episode in sets.held(self._job.set_path):
                last = max(last, episode.facts[-1].session)
                episodes += not sessions
                told += self._teach(system, episode, sessions)
            if not told:
                system.close()
                sentence = f"in session {sessions}, though others follow: nothing is taught"
                raise DataError(f"{self._job.set_path}: nothing to teach {sentence}.")
            sessions += 1
        counts.update(system.counts)
        stored, telemetry = system.store.count(), {**system.telemetry(), **counts}
        system.close()
        guards.taught(self._name, stored, self._facts)
        return {
            "episodes": episodes,
            "facts": self._facts,
            "sessions": sessions,
            "stored": stored,
            "telemetry": telemetry,
        }

    def _teach(self, system: System, episode: Episode, session: int) -> int:
        """Teach the facts of a session of an episode, and return how many these are."""
        facts = [fact for fact in episode.facts if fact.session == session]
        if facts:
            unexpected = None if self._of_reader is None else self._of_reader.of(episode)
            system.teach(episode.id, facts, unexpected)
        self._facts += len(facts)
        return len(facts)

    def _flushed(self, system: System, session: int) -> System:
        """Return the system as another process would find it: all but its file is forgotten."""
        kept = system.store.count()
        system.close()
        if not kept:
            raise DataError(
                f"Session {session} begins with nothing taught: {self._name} kept none of the"
                f" {self._facts} facts before it, so there is nothing to flush."
            )
        return opened(self._job, self._path)


# ---------------------------------------------------------------- replay


def replay(job: Work) -> None:
    """Rehearse what was taught, where the preset says so, once.

    The store as it was taught is set aside until that is done, so that a kill leaves either.

    Raises
    ------
    DataError
        If nothing was taught yet, or a file is damaged.
    RunMismatchError, BusyError, ParameterError
        As `teach`.
    """
    rehearsal = job.settings.replay
    if rehearsal is None or not job.settings.rehearses:
        return
    path, before, about = job.file(work.STORE), job.file(work.TAUGHT), job.file(work.REPLAY)
    if not is_taught(job):
        raise DataError(f"{path}: there is nothing to rehearse; teach first.")
    with alone(path):
        if not about.exists():
            if not before.exists():
                os.replace(path, before)
            made = path.with_name(_HALF + path.name)
            _remove(made)
            shutil.copyfile(before, made)
            begin = time.perf_counter()
            system: Any = opened(job, made)
            system.replay(rehearsal.steps, rehearsal.mix, seed=job.seed)
            if rehearsal.consolidate is not None:
                _consolidate(job, system, rehearsal.consolidate)
            telemetry = system.telemetry()
            system.close()
            os.replace(made, path)
            seconds = round(time.perf_counter() - begin, 3)
            told = {**rehearsal.to_dict(), "seed": job.seed, "telemetry": telemetry}
            files.write_object(about, {**told, "seconds": seconds})
        _remove(before)


def _consolidate(job: Work, system: EpisodicIndex, least: int) -> None:
    """Hand what was rehearsed at least so often to a semantic store, made anew."""
    path = job.file(work.SEMANTIC)
    made = path.with_name(_HALF + path.name)
    _remove(made)
    graph = RelationGraph.create(made, GRAPH, job.pack, job.suite)
    system.consolidate(graph, least)
    graph.close()
    os.replace(made, path)


def semantic(job: Work) -> RelationGraph | None:
    """Return the semantic store beside the episodic one; None where it was handed nothing.

    Raises
    ------
    DataError, RunMismatchError
        As `rulerlib.memory.system.System.open`.
    """
    rehearsal = job.settings.replay
    if rehearsal is None or rehearsal.consolidate is None or not job.settings.rehearses:
        return None
    if not samples.read_object(job.file(work.REPLAY))["telemetry"]["consolidated"]:
        return None
    return RelationGraph.open(job.file(work.SEMANTIC), GRAPH, job.pack, job.suite)


def _remove(path: Path) -> None:
    """Remove a store and what SQLite left beside it when it was killed."""
    for name in (path.name, f"{path.name}-journal", f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


# ---------------------------------------------------------------- surprise


@dataclass(slots=True)
class _Read(Record):
    """How unexpected the facts of an episode are, in their order, as a line of a file."""

    needed: ClassVar[frozenset[str]] = frozenset({"id", "surprise"})

    id: str
    surprise: list[float]


class Surprises:
    """How unexpected the facts of a set are to a reader, kept in a file that all presets share.

    The facts of an episode are read as one batch, so that they always have the same neighbours.

    Parameters
    ----------
    path
        The file; one line an episode, added as soon as it was read.
    reader
        The model.
    """

    def __init__(self, path: Path, reader: Model) -> None:
        self._path, self._reader = path, reader
        self._known: dict[str, list[float]] = {}

    @contextlib.contextmanager
    def writing(self) -> Any:
        """Be the only one that adds to the file; a line that a kill cut off is cut away."""
        with alone(self._path):
            end = 0
            if self._path.exists():
                for record, place in samples.read_placed(self._path, _Read, unfinished=True):
                    self._known[record.id], end = record.surprise, place[1]
                if self._path.stat().st_size > end:
                    os.truncate(self._path, end)
            yield self

    def of(self, episode: Episode) -> Surprise:
        """Return how unexpected the texts of an episode are, by the text.

        Raises
        ------
        DataError
            If the file has another number of facts for it.
        """
        texts = [fact.text for fact in episode.facts]
        if episode.id not in self._known:
            self._add(episode.id, [round(each, 6) for each in surprises(self._reader, texts)])
        values = self._known[episode.id]
        if len(values) != len(texts):
            raise DataError(
                f"{self._path}: {len(values)} facts of {episode.id}, which has {len(texts)}:"
                " remove the file."
            )
        by_text: Mapping[str, float] = dict(zip(texts, values, strict=True))
        return by_text.__getitem__

    def _add(self, name: str, values: list[float]) -> None:
        self._known[name] = values
        line = _Read(name, values).to_json() + "\n"
        try:
            with self._path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(line)
        except OSError as error:
            raise files.unwritable(self._path, error) from error
