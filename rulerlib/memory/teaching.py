"""Teaching and replay: the facts of some episodes go into the folder of a memory system.

A system is given texts and nothing else: no question and no answer comes near it. Its folder is
made under another name, and gets its own when all was taught, so that what a kill leaves unfinished
is made anew and holds the same.

Where episodes have several sessions, the first session of each is taught, then the second of each,
and so on. Between them nothing is left but the folder: the system is closed and opened again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rulerlib import samples
from rulerlib.errors import DataError, RulerError
from rulerlib.memory import presets, work
from rulerlib.memory.system import System, Text
from rulerlib.memory.work import Work
from rulerlib.models import Likelihood, Model
from rulerlib.samples import Record
from rulerlib.store import files, questions
from rulerlib.store.lock import alone
from rulerlib.tasks.episodes import Episode

SEMANTIC = "semantic"
"""The folder, within that of a system, of the semantic store that was handed what was rehearsed."""

# What was rehearsed is worth keeping, so no gate asks.
_OPEN = {"gate": False, "fast_track": False}


class GuardError(RulerError):
    """A guard stopped a run of a memory; the message says what is wrong with it."""


def teach(job: Work, reader: Callable[[], Model]) -> None:
    """Teach the episodes of a piece of work to its memory system, where it has one, once.

    Parameters
    ----------
    reader
        Returns the model that will be asked, which says how unexpected a text is where the preset
        wants to know it.

    Raises
    ------
    GuardError
        If nothing is stored after teaching.
    RunMismatchError
        If the store was taught by other settings: names the first that differs.
    DataError
        If what stands there is damaged.
    ParameterError
        If the engine cannot say how unexpected a text is, or a file cannot be written.
    BusyError
        If another process is teaching the same.
    """
    if not job.settings.stores or is_taught(job):
        return
    store = job.file(work.STORE)
    with alone(store):
        if is_taught(job):
            return
        begin = time.perf_counter()
        with contextlib.ExitStack() as stack:
            surprises = None
            if job.settings.surprise == "reader":
                surprises = stack.enter_context(Surprises(job.surprise_path, reader()).writing())
            unfinished = _begun(store)
            told = _taught(job, unfinished, surprises)
        _finish(unfinished, store)
        seconds = round(time.perf_counter() - begin, 3)
        about = {"preset": job.settings.to_dict(), **told, "seconds": seconds}
        files.write_object(job.file(work.TEACHING), about)


def is_taught(job: Work) -> bool:
    """Return whether a piece of work was taught, by its preset as it is now.

    Raises
    ------
    RunMismatchError
        If it was taught by other settings: names the first that differs.
    """
    about = job.file(work.TEACHING)
    if about.exists():
        check_preset(about, job)
    return about.exists() and job.file(work.STORE).is_dir()


def is_rehearsed(job: Work) -> bool:
    """Return whether what was taught was rehearsed."""
    return job.file(work.REPLAY).exists() and job.file(work.REHEARSED).is_dir()


def check_preset(path: Path, job: Work) -> dict[str, Any]:
    """Return what a file of a piece of work says, written by its preset as it is now.

    Raises
    ------
    RunMismatchError
        If it was written by other settings: names the first that differs.
    """
    values, now = samples.read_object(path), job.settings.to_dict()
    was = values.get("settings", values).get("preset") or {}
    # Earlier versions had settings that are constants now.
    before = was.get("settings") or {}
    was = {**was, "settings": {name: before.get(name) for name in now["settings"]}}
    questions.compare(path, was, now, remedy=f"remove {path.parent}, or choose another root")
    return values


def _taught(job: Work, folder: Path, surprises: Surprises | None) -> dict[str, Any]:
    """Teach all sessions, and return what came of it, as plain data."""
    counts, facts, session, last = Counter[str](), 0, 0, 0
    while session <= last:
        system = job.settings.opened(folder, job.pack)
        for episode in job.episodes():
            last = max(last, episode.facts[-1].session)
            unexpected = iter(surprises.of(episode) if surprises else [None] * len(episode.facts))
            marked = [Text.of(fact, next(unexpected)) for fact in episode.facts]
            texts = [text for text in marked if text.session == session]
            if texts:
                system.teach(episode.id, texts)
                facts += len(texts)
        counts.update(system.counts)
        telemetry, stored = {**system.telemetry(), **counts}, system.stored()
        system.close()
        session += 1
        if not stored:
            what = f"kept none of the {facts} facts before it, so there is nothing to flush"
            raise GuardError(
                f"Session {session} begins with nothing taught: {job.settings.short} {what}."
                if session <= last
                else f"The store of {job.settings.short} is empty after teaching: of {facts} facts"
                " its gate kept none."
            )
    done = {"episodes": job.size, "facts": facts, "sessions": session, "stored": stored}
    return {**done, "telemetry": telemetry}


# ---------------------------------------------------------------- replay


def replay(job: Work) -> None:
    """Rehearse what was taught, where the preset says so, once: in a copy of the store.

    Raises
    ------
    DataError
        If nothing was taught yet, or a file is damaged.
    RunMismatchError, BusyError, ParameterError
        As `teach`.
    """
    rehearsal, about = job.settings.replay, job.file(work.REPLAY)
    if rehearsal is None or not job.settings.rehearses:
        return
    store, rehearsed = job.file(work.STORE), job.file(work.REHEARSED)
    if not is_taught(job):
        raise DataError(f"{store}: there is nothing to rehearse; teach first.")
    with alone(rehearsed):
        if is_rehearsed(job):
            return
        begin, unfinished = time.perf_counter(), _begun(rehearsed)
        shutil.copytree(store, unfinished, dirs_exist_ok=True)
        system: Any = job.settings.opened(unfinished, job.pack)
        system.replay(rehearsal["steps"], rehearsal["mix"], seed=job.seed)
        if rehearsal["consolidate"] is not None:
            (unfinished / SEMANTIC).mkdir()
            graph = _graph(job, unfinished)
            system.consolidate(graph, rehearsal["consolidate"])
            graph.close()
        telemetry = system.telemetry()
        system.close()
        _finish(unfinished, rehearsed)
        seconds = round(time.perf_counter() - begin, 3)
        told = {"seed": job.seed, "telemetry": telemetry, "seconds": seconds}
        files.write_object(about, {**(job.settings.to_dict()["replay"] or {}), **told})


def opened(job: Work) -> tuple[System, System | None]:
    """Return the system that is asked, and the semantic store that is asked beside it, if any.

    Raises
    ------
    DataError
        If nothing was taught, or a store is missing or damaged.
    """
    taught, rehearses = is_taught(job), job.settings.rehearses
    folder = job.file(work.REHEARSED if rehearses else work.STORE)
    if not taught or (rehearses and not is_rehearsed(job)):
        step = "replay" if taught else "teach"
        raise DataError(f"{folder}: not ready to be asked; {step} first.")
    system = job.settings.opened(folder, job.pack)
    if not system.stored():
        system.close()
        raise DataError(f"{folder}: the store holds nothing: see what its gate kept.")
    semantic = _graph(job, folder) if rehearses and (folder / SEMANTIC).is_dir() else None
    if semantic is not None and not semantic.stored():
        semantic.close()
        semantic = None
    return system, semantic


def _graph(job: Work, folder: Path) -> System:
    return presets.opened("sgc_rss", folder / SEMANTIC, job.pack, **_OPEN)


def _begun(path: Path) -> Path:
    """Return an empty folder for what gets the name of another one when it is finished."""
    unfinished = path.with_name(f"unfinished-{path.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise files.unwritable(unfinished, error) from error
    return unfinished


def _finish(unfinished: Path, path: Path) -> None:
    """Give a folder its own name."""
    shutil.rmtree(path, ignore_errors=True)
    os.replace(unfinished, path)


# ---------------------------------------------------------------- surprise


def ranked(likelihoods: Iterable[Likelihood]) -> Iterator[float]:
    """Yield how unexpected each text is beside those before it, above 0 and at most 1.

    A reader says how likely a text is: the mean negative log likelihood of its tokens. What that
    number is worth differs from reader to reader and from language to language, by far more than
    between two facts. So it is held against the texts that were taught before: of ``n`` texts, the
    text itself included, ``k`` of which are expected more and ``e`` alike, itself included, it is
    ``(k + (e + 1) / 2) / n``.

    >>> told = [Likelihood(20.0, 10), Likelihood(30.0, 10), Likelihood(10.0, 10)]
    >>> [round(surprise, 2) for surprise in ranked(told)]
    [1.0, 1.0, 0.33]

    Parameters
    ----------
    likelihoods
        How likely the texts are to the reader, in their order. Those of which no token was
        predicted count as fully expected.
    """
    rising: list[float] = []
    for likelihood in likelihoods:
        value = likelihood.nll / likelihood.tokens if likelihood.tokens else 0.0
        # In half precision, the last digits depend on what is read beside a text.
        value = float(f"{value:.3g}")
        insort(rising, value)
        below, alike = bisect_left(rising, value), bisect_right(rising, value)
        yield (below + (alike - below + 1) / 2) / len(rising)


@dataclass(slots=True)
class _Unexpected(Record):
    """How unexpected the facts of an episode are, in their order, as a line of a file."""

    needed: ClassVar[frozenset[str]] = frozenset({"id", "surprise"})

    id: str
    surprise: list[float]


class Surprises:
    """How unexpected the facts of episodes are to a reader, kept in a file that all presets share.

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
        self._read: dict[str, list[float]] = {}

    @contextlib.contextmanager
    def writing(self) -> Iterator[Surprises]:
        """Be the only one that adds to the file; a line that a kill cut off is cut away."""
        with alone(self._path):
            end = 0
            if self._path.exists():
                for record, place in samples.read_placed(self._path, _Unexpected, unfinished=True):
                    self._read[record.id], end = record.surprise, place[1]
                os.truncate(self._path, end)
            yield self

    def of(self, episode: Episode) -> list[float]:
        """Return how unexpected each fact of an episode is.

        Raises
        ------
        DataError
            If the file has another number of facts for it.
        """
        if episode.id not in self._read:
            texts = [fact.text for fact in episode.facts]
            values = [round(value, 6) for value in ranked(self._reader.log_likelihoods(texts))]
            self._read[episode.id] = values
            try:
                with self._path.open("a", encoding="utf-8", newline="\n") as file:
                    file.write(_Unexpected(episode.id, values).to_json() + "\n")
            except OSError as error:
                raise files.unwritable(self._path, error) from error
        values, many = self._read[episode.id], len(episode.facts)
        if len(values) != many:
            what = f"{len(values)} facts of {episode.id}, which has {many}: remove the file"
            raise DataError(f"{self._path}: {what}.")
        return values
