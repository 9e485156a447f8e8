"""Running work: it is taught in one process and asked in another, and what stopped it is told.

All that can be known before anything is taught is checked first (`check`). What stops one piece of
work stops no other, and is tried again by the next run. A process of its own teaches and rehearses;
this one asks, so that nothing passes from one to the other but files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rulerlib import models
from rulerlib.errors import ParameterError, RulerError, one_of, require
from rulerlib.memory import asking, measuring, teaching, work
from rulerlib.memory.presets import ASKED
from rulerlib.memory.prompting import asked
from rulerlib.memory.work import Work
from rulerlib.metering import Meter, Metered
from rulerlib.models import Model
from rulerlib.progress import Progress
from rulerlib.store import files
from rulerlib.store.lock import alone

# What a question counts on the bar where its episode is taught; where it is asked it counts 1.
_TEACHING = 0.1

# What a line begins with in which the process that teaches says how far it is.
_MARK = "rulerlib taught: "

_CHILD = "from rulerlib.memory import running; running.child()"

Finish = Callable[[Work, str | None, dict[str, Any]], object]
"""Told of each piece of work: what stopped it, if anything, and what it cost."""


class RunReport(NamedTuple):
    """What came of some work.

    Attributes
    ----------
    stopped
        A sentence for each reason that stopped some of it, and which.
    notes
        A sentence for each change of a preset that had no effect.
    """

    stopped: tuple[str, ...]
    notes: tuple[str, ...]


class Readers(dict[str, Model]):
    """The engines of some work, each made once."""

    def of(self, job: Work) -> Model:
        """Return the engine of a piece of work.

        Raises
        ------
        ParameterError, MissingExtraError
            As `rulerlib.models.load`.
        """
        name = repr((job.model, job.engine, sorted(job.engine_options.items())))
        if name not in self:
            self[name] = job.reader()
        return self[name]


# ---------------------------------------------------------------- before


def check(works: Sequence[Work]) -> None:
    """Check all work before the first is begun.

    Raises
    ------
    ParameterError
        If a model cannot take a preset's system prompt or the length, a question alone has no
        room, two are the same, or a preset needs likelihoods that a model's server does not give.
    DataError, MissingExtraError
        If a tokenizer or a language pack cannot be read.
    """
    require(works, "works", works, "at least one")
    readers, folders = Readers(), set[Path]()
    surprised = dict[int, tuple[Work, Model]]()
    for job in works:
        require(job.folder not in folders, "works", str(job), "left out, because it is there twice")
        folders.add(job.folder)
        model = readers.of(job)
        if job.settings.surprise == "reader" and not job.file(work.STORE).exists():
            surprised.setdefault(id(model), (job, model))
        _check_room(job, model)
    for job, model in surprised.values():
        try:
            models.check_likelihoods(model)
        except ParameterError as error:
            # Of a preset nobody sees what it asks of a reader.
            name = error.parameter.replace("surprise", f"surprise of the preset {job.preset}")
            raise ParameterError(name, error.value, error.allowed) from error


def _check_room(job: Work, model: Model) -> None:
    """Check that each question of the first episode has room without anything recalled."""
    frame, answer = job.frame(model), job.settings.max_new_tokens
    alone_put = [asked(job.pack, probe.text, ()) for probe in job.first.probes]
    prompts = [frame.prompt(question.text, question.answer_prefix) for question in alone_put]
    longest = max(model.tokenizer.counts(prompts)) + frame.special
    enough = f"at least {longest + answer}, what a question needs alone with its answer"
    require(longest <= job.room, job.budget_name, job.budget, enough)


# ---------------------------------------------------------------- run


def run(
    works: Sequence[Work],
    primary_em: str = "norm",
    quiet: bool = False,
    finished: Finish = lambda *_: None,
) -> RunReport:
    """Teach in a process of its own, then ask, with one bar for all.

    Can be stopped at any time, and goes on where it was.

    Parameters
    ----------
    primary_em
        Which exact match is the primary one, see `rulerlib.memory.measuring`.
    quiet
        Draw no bar.
    finished
        Called with each piece of work that is not done yet, as soon as it is done or stopped.

    Raises
    ------
    RulerError
        If a parameter of any cannot work, before anything is begun; or if the process that teaches
        ended in a way that nobody foresaw.
    """
    one_of("primary_em", primary_em, measuring.PRIMARIES)
    check(works)
    for root in dict.fromkeys(job.root for job in works):
        files.check_writable(Path(root).expanduser())
    stopped = dict[Work, str]()
    weight = (1 + _TEACHING) * sum(job.asked for job in works)
    with Progress(weight, f"{len(works)} runs", quiet) as bar:
        left = [job for job in works if not _is_done(job, primary_em)]
        untaught = [job for job in left if job.settings.stores]
        done = (1 + _TEACHING) * (sum(job.asked for job in works) - sum(job.asked for job in left))
        done += _TEACHING * (sum(job.asked for job in left) - sum(job.asked for job in untaught))
        bar.advance(done, measured=False)
        # Nobody starts a process that has nothing to do.
        for job, sentence in taught_elsewhere(untaught) if untaught else ():
            if sentence is not None:
                stopped[job] = sentence
            bar.advance(_TEACHING * job.asked)
        ask(left, stopped, primary_em, bar, finished)
    for job in works:
        _check_oracle(job, stopped)
    return RunReport(_sentences(stopped), tuple(_without_effect(works)))


def _is_done(job: Work, primary_em: str) -> bool:
    """Return whether a piece of work is measured; what is wrong with it is told when it is done."""
    try:
        return measuring.is_measured(job, primary_em)
    except RulerError:
        return False


def _stopped(job: Work, do: Callable[..., object], *arguments: Any) -> str | None:
    """Do something with a piece of work that nobody else works on; return what stopped it."""
    try:
        with alone(job.file(work.METRICS)):
            files.remove_leftovers(*(job.file(name) for name in work.FILES))
            do(job, *arguments)
    except RulerError as error:
        return str(error)
    return None


# ---------------------------------------------------------------- teaching


def taught(works: Sequence[Work]) -> Iterator[tuple[Work, str | None]]:
    """Teach some work in this process; yield each piece with what stopped it."""
    readers = Readers()
    for job in works:
        yield job, _stopped(job, teaching.teach, partial(readers.of, job))


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
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps([asdict(job) for job in works]))
            process.stdin.close()
            for line in process.stdout:
                if line.startswith(_MARK):
                    place, sentence = json.loads(line.removeprefix(_MARK))
                    yield works[place], sentence
                else:
                    # Of an engine that is talkative.
                    sys.stderr.write(line)
            code = process.wait()
        except BaseException:
            # A Ctrl-C reaches it by itself; whatever else happens here must not leave it behind.
            process.terminate()
            process.wait()
            raise
    if code:
        raise RulerError(
            f"The process that teaches ended with exit code {code}; the next run goes on where it"
            " was."
        )


def child() -> None:
    """Teach the work that stands on standard input, and say how far it is."""
    works = [Work(**values) for values in json.load(sys.stdin)]
    for place, (_, sentence) in enumerate(taught(works)):
        print(_MARK + json.dumps([place, sentence]), flush=True)


# ---------------------------------------------------------------- asking


def ask(
    works: Sequence[Work], stopped: dict[Work, str], primary_em: str = "norm",
    progress: Progress | None = None, finished: Finish = lambda *_: None,
) -> None:  # fmt: skip
    """Ask some work in this process and measure its answers; ``stopped`` gets what stopped any.

    What was stopped before, while it was taught, is not asked.
    """
    bar, readers = progress or Progress(0, "", quiet=True), Readers()
    for job in works:
        models.reserve(readers.of(job), max(other.budget for other in works))
    for job in works:
        meter, before = Meter(), bar.done
        if job not in stopped:
            with meter.phase("making"):
                model = Metered(readers.of(job), meter)
                sentence = _stopped(job, _ask_and_measure, model, primary_em, bar)
            if sentence is not None:
                stopped[job] = sentence
        bar.advance(job.asked - (bar.done - before), measured=False)
        finished(job, stopped.get(job), meter.measured())


def _ask_and_measure(job: Work, model: Model, primary_em: str, progress: Progress) -> None:
    asking.ask(job, model, progress)
    measuring.measure(job, primary_em)


# ---------------------------------------------------------------- what came of it


def _sentences(stopped: dict[Work, str]) -> tuple[str, ...]:
    """Return each reason once, with the first piece of work that it stopped, and how many more."""
    by_reason: dict[str, list[Work]] = {}
    for job, sentence in stopped.items():
        by_reason.setdefault(sentence, []).append(job)
    return tuple(
        f"{jobs[0]}{f' and {len(jobs) - 1} more' if len(jobs) > 1 else ''}: {sentence}"
        for sentence, jobs in by_reason.items()
    )


def _check_oracle(job: Work, stopped: dict[Work, str]) -> None:
    """Note where a finished memory is above its oracle by more than chance allows."""
    oracle = replace(job, preset="oracle", changes=_of_asking(job))
    if job.settings.stores and _are_measured(job, oracle):
        try:
            measuring.check_below(job.settings.short, measuring.rows(oracle), measuring.rows(job))
        except RulerError as error:
            stopped[job] = str(error)


def _are_measured(*works: Work) -> bool:
    return all(job.file(work.METRICS).exists() for job in works)


def _of_asking(job: Work) -> dict[str, object]:
    """Return those of the changes of a piece of work that decide how questions are put."""
    return {name: value for name, value in job.changes.items() if name in ASKED}


def _without_effect(works: Sequence[Work]) -> Iterator[str]:
    """Yield a sentence for each change of a preset that had no effect.

    The same work without the change must have been done, now or before.
    """
    for job in works:
        kept = {name: value for name, value in job.changes.items() if name not in ASKED}
        usual = replace(job, changes=_of_asking(job))
        if kept and _are_measured(job, usual) and asking.alike(job, usual):
            what = ", ".join(f"{name} = {value!r}" for name, value in kept.items())
            yield (
                f"{job}: {what} had no effect: what was recalled and the telemetry are those of"
                f" {usual.settings.short}."
            )
