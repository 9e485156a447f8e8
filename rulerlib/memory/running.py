"""Running work: teach, replay and test, each in a process of its own, and what stopped them.

All that can be known before anything is taught is checked first (`check`). What stops one piece of
work stops no other: it is written down beside it, as ``stopped.json``, and tried again by the next
run. Teaching, replay and asking are three processes, one after the other, between which nothing
passes but files.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from rulerlib import models, samples
from rulerlib.errors import BusyError, ParameterError, RulerError, one_of, require
from rulerlib.memory import asking, measuring, teaching, work
from rulerlib.memory.presets import ASKED
from rulerlib.memory.prompting import asked
from rulerlib.memory.work import Work
from rulerlib.metering import Meter, Metered, added
from rulerlib.models import Model
from rulerlib.progress import Progress
from rulerlib.store import files
from rulerlib.store.lock import alone

STEPS = {"teach": 0.1, "replay": 0.02, "test": 1.0}
"""What is done one after the other, and what a question counts on the bar in each step."""

# What a line begins with in which a process says how far it is.
_MARK = "rulerlib bar: "

_CHILD = "import sys; from rulerlib.memory import running; running.child(*sys.argv[1:])"


class Estimate(NamedTuple):
    """What a piece of work takes, judged by its first episode.

    Attributes
    ----------
    facts
        How many are taught.
    tokens
        How many are read and generated, about.
    """

    facts: int
    tokens: int


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


Readers = dict[str, Model]
"""The engines of some work, each made once."""


def reader_of(job: Work, readers: Readers) -> Model:
    """Return the engine of a piece of work.

    Raises
    ------
    ParameterError, MissingExtraError
        As `rulerlib.models.load`.
    """
    name = repr((job.model, job.engine, sorted(job.engine_options.items())))
    if name not in readers:
        readers[name] = job.reader()
    return readers[name]


# ---------------------------------------------------------------- before


def check(works: Sequence[Work]) -> list[Estimate]:
    """Check all work before the first is begun, and return what each takes.

    Raises
    ------
    ParameterError
        If a model cannot take a preset's system prompt or the length, a question alone has no
        room, two are the same, or a preset needs likelihoods that a model's server does not give.
    DataError, MissingExtraError
        If a tokenizer or a language pack cannot be read.
    """
    require(works, "works", works, "at least one")
    readers, seen, estimates = Readers(), set[Path](), []
    surprised = dict[int, tuple[Work, Model]]()
    for job in works:
        require(job.folder not in seen, "works", str(job), "left out, because it is there twice")
        seen.add(job.folder)
        model = reader_of(job, readers)
        if job.settings.surprise == "reader" and not job.file(work.STORE).exists():
            surprised.setdefault(id(model), (job, model))
        estimates.append(_estimate(job, model))
    for job, model in surprised.values():
        try:
            models.check_likelihoods(model)
        except ParameterError as error:
            # Of a preset nobody sees what it asks of a reader.
            name = error.parameter.replace("surprise", f"surprise of the preset {job.preset}")
            raise ParameterError(name, error.value, error.allowed) from error
    return estimates


def _estimate(job: Work, model: Model) -> Estimate:
    """Return what a piece of work takes, judged by its first episode."""
    frame, tokenizer = job.frame(model), model.tokenizer

    def count(question: str) -> int:
        put = asked(job.pack, question, ())
        return tokenizer.count(frame.prompt(put.text, put.answer_prefix)) + frame.special

    episode, answer = job.first, job.settings.max_new_tokens
    shown = [f"{fact.text}\n" for fact in episode.facts[:100]]
    fact = sum(tokenizer.counts(shown)) / len(shown)
    alone = max(count(probe.text) for probe in episode.probes)
    enough = f"at least {alone + answer}, what a question needs alone with its answer"
    require(alone <= job.room, job.budget_name, job.budget, enough)
    needed = max(len(probe.needs) for probe in episode.probes)
    texts = {"none": 0, "all": len(episode.facts), "needed": needed}
    brought = texts.get(job.settings.system, job.settings.settings.get("k", 5))
    prompt = min(job.room, alone + fact * min(brought, len(episode.facts)))
    return Estimate(job.size * len(episode.facts), round(job.asked * (prompt + answer)))


# ---------------------------------------------------------------- processes


def run(
    works: Sequence[Work],
    primary_em: str = "norm",
    quiet: bool = False,
    progress: Progress | None = None,
) -> RunReport:
    """Teach, rehearse and test, in three processes one after the other, with one bar for all.

    Can be stopped at any time, and goes on where it was.

    Parameters
    ----------
    primary_em
        Which exact match is the primary one, see `rulerlib.memory.measuring`.
    quiet
        Draw no bar.
    progress
        A bar to move on, in the unit of `weight`; None: a new one.

    Raises
    ------
    RulerError
        If a parameter of any cannot work, before anything is begun; or if a process ended in a way
        that nobody foresaw.
    """
    one_of("primary_em", primary_em, measuring.PRIMARIES)
    check(works)
    for root in dict.fromkeys(job.root for job in works):
        files.check_writable(Path(root).expanduser())
    for job in works:
        job.file(work.STOPPED).unlink(missing_ok=True)
    with progress or Progress(weight(works), f"{len(works)} runs", quiet) as bar:
        for name in STEPS:
            # Nobody starts a process that has nothing to do.
            left = [job for job in works if _is_left(job, name, primary_em)]
            done = sum(job.asked for job in works) - sum(job.asked for job in left)
            bar.advance(STEPS[name] * done, measured=False)
            if left:
                _start(left, name, primary_em, bar)
    for job in works:
        _check_oracle(job)
    return RunReport(_stopped(works), tuple(_without_effect(works)))


def weight(works: Sequence[Work]) -> float:
    """Return what some work counts on a bar."""
    return sum(job.asked for job in works) * sum(STEPS.values())


def _is_left(job: Work, name: str, primary_em: str) -> bool:
    """Return whether a step has anything to do for a piece of work."""
    try:
        done = measuring.is_measured(job, primary_em)
    except RulerError:
        # The process that does it says what is wrong.
        return True
    if done or name != "replay":
        return not done
    return job.settings.rehearses and not teaching.is_rehearsed(job)


def _start(works: Sequence[Work], name: str, primary_em: str, progress: Progress) -> None:
    """Do a step in a process of its own, and move the bar as that process says."""
    # It finds what this one finds: a memory of one's own too.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, name, primary_em],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps([asdict(job) for job in works]))
            process.stdin.close()
            for line in process.stdout:
                if line.startswith(_MARK):
                    progress.advance(*json.loads(line.removeprefix(_MARK)))
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
            f"The process of the step '{name}' ended with exit code {code}; the next run goes on"
            " where it was."
        )


def child(name: str, primary_em: str) -> None:
    """Do a step of the work that stands on standard input, and say how far it is."""
    works = [Work(**values) for values in json.load(sys.stdin)]

    def tell(weight: float, measured: bool = True) -> None:
        print(_MARK + json.dumps([weight, measured]), flush=True)

    step(works, name, primary_em, tell)


class _Told(Progress):
    """A bar that tells somebody else how far it is, and knows how far it has moved."""

    def __init__(self, tell: Callable[..., object]) -> None:
        super().__init__(0, "", quiet=True)
        self._tell, self.moved = tell, 0.0

    def advance(self, weight: float, measured: bool = True) -> None:
        """See `Progress`."""
        self.moved += weight
        self._tell(weight, measured)


def step(
    works: Sequence[Work], name: str, primary_em: str = "norm",
    tell: Callable[..., object] = lambda *_, **__: None,
) -> tuple[str, ...]:  # fmt: skip
    """Do one step of some work in this process, and return what stopped some of it.

    Parameters
    ----------
    name
        One of `STEPS`.
    tell
        Called as `rulerlib.progress.Progress.advance` is.
    """
    readers = Readers()
    if name == "test":
        for job in works:
            models.reserve(reader_of(job, readers), max(other.budget for other in works))
    for job in works:
        _done(job, name, primary_em, readers, _Told(tell))
    return _stopped(works)


def _done(job: Work, name: str, primary_em: str, readers: Readers, progress: _Told) -> None:
    """Do one step of one piece of work, and write down what stopped it."""
    whole, steps, before = STEPS[name] * job.asked, [*STEPS], stopped(job).get("step")
    if before in steps and steps.index(before) < steps.index(name):
        progress.advance(whole, measured=False)
        return
    path = job.file(work.STOPPED)
    path.unlink(missing_ok=True)
    try:
        if not measuring.is_measured(job, primary_em):
            with alone(job.file(work.METRICS)), _metered(job) as meter:
                files.remove_leftovers(*(job.file(file) for file in work.FILES))
                _do(job, name, primary_em, readers, progress, meter)
    except RulerError as error:
        busy = isinstance(error, BusyError)
        files.write_object(path, {"step": name, "sentence": str(error), "busy": busy})
    progress.advance(whole - progress.moved, measured=name != "test")


@contextlib.contextmanager
def _metered(job: Work) -> Iterator[Meter]:
    """Count what is done within, and add it to what the piece of work has cost before."""
    meter, path = Meter(), job.file(work.COST)
    try:
        yield meter
    finally:
        # What cannot be written is no reason to stop, nor is it one to hide the real one.
        with contextlib.suppress(RulerError):
            before = samples.read_object(path) if path.exists() else {}
            files.write_object(path, added(before, meter.measured()), lasting=False)


def _do(
    job: Work, name: str, primary_em: str, readers: Readers, progress: Progress, meter: Meter
) -> None:
    """Do one step of one piece of work."""
    if name != "replay":
        with meter.phase("loading"):
            reader_of(job, readers)
    with meter.phase("making"):
        if name == "teach":
            # What cannot be asked is not taught.
            job.frame(reader_of(job, readers))
            teaching.teach(job, lambda: reader_of(job, readers))
        elif name == "replay":
            teaching.replay(job)
        else:
            asking.ask(job, Metered(reader_of(job, readers), meter), progress)
            measuring.measure(job, primary_em)


# ---------------------------------------------------------------- what came of it


def stopped(job: Work) -> dict[str, Any]:
    """Return what stopped a piece of work: ``step``, ``sentence`` and ``busy``; or nothing."""
    path = job.file(work.STOPPED)
    return samples.read_object(path) if path.exists() else {}


def _stopped(works: Sequence[Work]) -> tuple[str, ...]:
    """Return each reason once, with the first piece of work that it stopped, and how many more."""
    by_reason: dict[object, list[Work]] = {}
    for job in works:
        if sentence := stopped(job).get("sentence"):
            by_reason.setdefault(sentence, []).append(job)
    return tuple(
        f"{jobs[0]}{f' and {len(jobs) - 1} more' if len(jobs) > 1 else ''}: {sentence}"
        for sentence, jobs in by_reason.items()
    )


def _check_oracle(job: Work) -> None:
    """Write down where a finished memory is above its oracle by more than chance allows."""
    oracle = replace(job, preset="oracle", changes=_of_asking(job))
    if job.settings.stores and _are_measured(job, oracle):
        try:
            measuring.check_below(job.settings.short, measuring.rows(oracle), measuring.rows(job))
        except RulerError as error:
            values = {"step": "compare", "sentence": str(error)}
            files.write_object(job.file(work.STOPPED), values)


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
