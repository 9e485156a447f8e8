"""Teaching: the facts of some episodes go into the folder of a memory system.

A system is given texts and nothing else: no question and no answer comes near it. Its folder is
made under another name, and gets its own when all was taught, so that what a kill leaves unfinished
is made anew and holds the same.

Where episodes have several sessions, the first session of each is taught, then the second of each,
and so on. Between them nothing is left but the folder: the system is closed and opened again. A
process of its own teaches, and another one asks, so that nothing passes from one to the other but
files.
"""

from __future__ import annotations

import bisect
import json
import operator
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rulerlib import files, models, samples
from rulerlib.errors import DataError, RulerError
from rulerlib.memory import work
from rulerlib.memory.episodes import Episode
from rulerlib.memory.system import System, Text
from rulerlib.memory.work import Work
from rulerlib.models import Likelihood, Model
from rulerlib.store import questions

_CHILD = "from rulerlib.memory import teaching; teaching.child()"


class GuardError(RulerError):
    """A guard stopped a run of a memory; the message says what is wrong with it."""


def teach(job: Work, reader: Model) -> None:
    """Teach the episodes of a piece of work to its memory system, where it has one, once.

    Nobody else may be at work there.

    Parameters
    ----------
    reader
        The model that will be asked, which says how unexpected a text is where the preset wants to
        know it.

    Raises
    ------
    GuardError
        If nothing is stored after teaching.
    RunMismatchError
        If the store was taught by other settings: names the first that differs.
    DataError
        If what stands there is damaged.
    ParameterError
        If the model cannot be asked, the engine cannot say how unexpected a text is, or a file
        cannot be written.
    """
    if not job.preset.stores or is_taught(job):
        return
    # What cannot be asked is not taught.
    job.frame(reader)
    store, begin = job.file(work.STORE), time.perf_counter()
    unfinished = store.with_name(f"unfinished-{store.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    with files.saving(unfinished):
        unfinished.mkdir(parents=True)
    about = {"preset": job.preset.to_dict(), **_taught(job, unfinished, reader)}
    shutil.rmtree(store, ignore_errors=True)
    os.replace(unfinished, store)
    about["seconds"] = round(time.perf_counter() - begin, 3)
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


def check_preset(path: Path, job: Work) -> dict[str, Any]:
    """Return what a file of a piece of work says, written by its preset as it is now.

    Raises
    ------
    RunMismatchError
        If it was written by other settings: names the first that differs.
    """
    values = samples.read_object(path)
    was = values.get("settings", values).get("preset") or {}
    remedy = f"remove {path.parent}, or choose another root"
    questions.compare(path, was, job.preset.to_dict(), remedy=remedy)
    return values


def _taught(job: Work, folder: Path, reader: Model) -> dict[str, Any]:
    """Teach all sessions, and return what came of it, as plain data."""
    facts, session, last = 0, 0, 0
    surprises = dict[str, list[float]]()
    while session <= last:
        system = job.preset.opened(folder, job.pack)
        for episode in job.episodes():
            last = max(last, episode.facts[-1].session)
            if job.preset.surprise == "reader" and episode.id not in surprises:
                surprises[episode.id] = surprises_of(episode, reader)
            values = surprises.get(episode.id)
            first, end = (
                bisect.bisect_left(episode.facts, at, key=operator.attrgetter("session"))
                for at in (session, session + 1)
            )
            texts = [
                Text.of(fact, values[fact.number] if values else None)
                for fact in episode.facts[first:end]
            ]
            if texts:
                system.teach(episode.id, texts)
                facts += len(texts)
        telemetry, stored = system.telemetry(), system.stored()
        system.close()
        session += 1
        if not stored:
            what = f"kept none of the {facts} facts before it, so there is nothing to flush"
            raise GuardError(
                f"Session {session} begins with nothing taught: {job.preset.short} {what}."
                if session <= last
                else f"The store of {job.preset.short} is empty after teaching: of {facts} facts"
                " its gate kept none."
            )
    done = {"episodes": job.recipe.size, "facts": facts, "sessions": session, "stored": stored}
    return {**done, "telemetry": telemetry}


def opened(job: Work) -> System:
    """Return the system that is asked.

    Raises
    ------
    DataError
        If nothing was taught, or a store is missing or damaged.
    """
    folder = job.file(work.STORE)
    if not is_taught(job):
        raise DataError(f"{folder}: not ready to be asked; teach first.")
    system = job.preset.opened(folder, job.pack)
    if not system.stored():
        system.close()
        raise DataError(f"{folder}: the store holds nothing: see what its gate kept.")
    return system


# ---------------------------------------------------------------- surprise


def ranked(likelihoods: Iterable[Likelihood]) -> list[float]:
    """Return how unexpected each text is beside those before it, above 0 and at most 1.

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
    import pandas as pd

    means = (text.nll / text.tokens if text.tokens else 0.0 for text in likelihoods)
    # In half precision, the last digits depend on what is read beside a text.
    rounded = pd.Series([float(f"{mean:.3g}") for mean in means], dtype=float)
    ranks: list[float] = rounded.expanding().rank(pct=True).tolist()
    return ranks


def surprises_of(episode: Episode, reader: Model) -> list[float]:
    """Return how unexpected each fact of an episode is to a reader.

    All facts are read as one batch, so that they always have the same neighbours.
    """
    texts = [fact.text for fact in episode.facts]
    return [round(value, 6) for value in ranked(reader.log_likelihoods(texts))]


# ---------------------------------------------------------------- a process of its own


def stopped(job: Work, do: Callable[..., object], *arguments: Any) -> str | None:
    """Do something with a piece of work that nobody else works on; return what stopped it."""
    try:
        with files.lock(job.file(work.METRICS)):
            do(job, *arguments)
    except RulerError as error:
        return str(error)
    return None


def taught(works: Sequence[Work]) -> Iterator[tuple[Work, str | None]]:
    """Teach some work, all for one reader, in this process; yield each with what stopped it."""
    reader = models.with_likelihoods(works[0].reader())
    for job in works:
        yield job, stopped(job, teach, reader)


def taught_elsewhere(works: Sequence[Work]) -> Iterator[tuple[Work, str | None]]:
    """Teach some work in a process of its own; yield each piece with what stopped it.

    Raises
    ------
    RulerError
        If that process ends in a way that nobody foresaw.
    """
    # It finds what this one finds: a memory of one's own too.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(pickle.dumps(works))
            process.stdin.close()
            for line in process.stdout:
                place, sentence = json.loads(line)
                yield works[place], sentence
            code = process.wait()
        finally:
            # A Ctrl-C reaches it by itself; whatever else happens here must not leave it behind.
            process.terminate()
    if code:
        raise RulerError(
            f"The process that teaches ended with exit code {code}; the next run goes on where it"
            " was."
        )


def child() -> None:
    """Teach the work that stands on standard input, and say how far it is on standard output."""
    works, channel = pickle.load(sys.stdin.buffer), os.fdopen(os.dup(1), "w")
    # What an engine prints is for people.
    os.dup2(2, 1)
    for place, (_, sentence) in enumerate(taught(works)):
        print(json.dumps([place, sentence]), file=channel, flush=True)
