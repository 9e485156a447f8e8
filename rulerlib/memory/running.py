"""Running work: teach, replay and test, each in a process of its own, and what stopped them.

What stops one piece of work stops no other. It is written down beside it, as ``stopped.json``, and
tried again by the next run.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rulerlib import samples
from rulerlib.errors import BusyError, RulerError, one_of
from rulerlib.memory import guards, measuring, planning, recalling, teaching, testing, work
from rulerlib.memory.planning import Loaded
from rulerlib.memory.presets import ASKED
from rulerlib.memory.work import STEPS, Work
from rulerlib.metering import Meter, Metered, added
from rulerlib.models import reserve
from rulerlib.progress import Progress
from rulerlib.store import files
from rulerlib.store.lock import alone

# What a question counts on the bar, by step.
_WEIGHT = {"teach": 0.1, "replay": 0.02, "test": 1.0}

# What a line begins with in which a process says how far it is.
_MARK = "rulerlib bar: "


class Outcome(NamedTuple):
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


def run(
    works: Sequence[Work],
    primary_em: str = "norm",
    quiet: bool = False,
    progress: Progress | None = None,
) -> Outcome:
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
    planning.check(works)
    for root in dict.fromkeys(job.root for job in works):
        files.check_writable(Path(root).expanduser())
    for job in works:
        job.file(work.STOPPED).unlink(missing_ok=True)
    with progress or Progress(weight(works), f"{len(works)} runs", quiet) as bar:
        for name in STEPS:
            # Nobody starts a process that has nothing to do.
            left = [job for job in works if _is_left(job, name, primary_em)]
            done = sum(job.questions for job in works) - sum(job.questions for job in left)
            bar.advance(_WEIGHT[name] * done, measured=False)
            if left:
                _child(left, name, primary_em, bar)
    stopped = [(job, said) for job in works if (said := _stopped(job)) is not None]
    stopped += [(job, said) for job in works if (said := _below_oracle(job)) is not None]
    return Outcome(_together(stopped), tuple(_without_effect(works)))


def weight(works: Sequence[Work]) -> float:
    """Return what some work counts on a bar."""
    return sum(job.questions for job in works) * sum(_WEIGHT.values())


def _is_left(job: Work, name: str, primary_em: str) -> bool:
    """Return whether a step has anything to do for a piece of work."""
    try:
        done = measuring.is_measured(job, primary_em)
    except RulerError:
        # The process that does it says what is wrong.
        return True
    if done or name != "replay":
        return not done
    replayed = job.file(work.REPLAY).exists() and not job.file(work.TAUGHT).exists()
    return job.settings.rehearses and not replayed


def _child(works: Sequence[Work], name: str, primary_em: str, progress: Progress) -> None:
    """Run a step in a process of its own, and move the bar as that process says."""
    command = [sys.executable, "-m", "rulerlib.memory.bench", "--step", name, "--works", "-",
               "--primary-em", primary_em]  # fmt: skip
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps([job.to_dict() for job in works]))
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


class _Told(Progress):
    """A bar that another process draws: this one says how far it is, a line each time."""

    def __init__(self) -> None:
        super().__init__(0, "", quiet=True)

    def advance(self, weight: float, measured: bool = True) -> None:
        """See `Progress`."""
        print(_MARK + json.dumps([weight, measured]), flush=True)


def step(works: Sequence[Work], name: str, primary_em: str = "norm", told: bool = False) -> Outcome:
    """Do one step of some work in this process.

    Parameters
    ----------
    name
        One of `rulerlib.memory.work.STEPS`.
    told
        Whether the bar is drawn by the process that started this one.

    Returns
    -------
    Outcome
        What stopped some of it.

    Raises
    ------
    ParameterError
        If there is no such step, or no such exact match.
    """
    one_of("step", name, STEPS)
    one_of("primary_em", primary_em, measuring.PRIMARIES)
    total = sum(job.questions for job in works) * _WEIGHT[name]
    progress = _Told() if told else Progress(total, name)
    loaded = Loaded()
    if name == "test":
        for job in works:
            reserve(loaded.of(job), max(each.budget for each in works))
    with progress:
        for job in works:
            _done(job, name, primary_em, loaded, progress)
    stopped = [(job, said) for job in works if (said := _stopped(job)) is not None]
    return Outcome(_together(stopped), ())


def _done(job: Work, name: str, primary_em: str, loaded: Loaded, progress: Progress) -> None:
    """Do one step of one piece of work, and write down what stopped it."""
    path, whole = job.file(work.STOPPED), _WEIGHT[name] * job.questions
    before = _said(job).get("step")
    if before in STEPS and STEPS.index(before) < STEPS.index(name):
        progress.advance(whole, measured=False)
        return
    path.unlink(missing_ok=True)
    moved = _Part(progress)
    try:
        if not measuring.is_measured(job, primary_em):
            with alone(job.file(work.METRICS)), _metered(job) as meter:
                files.remove_leftovers(*(job.file(each) for each in work.FILES))
                _do(job, name, primary_em, loaded, moved, meter)
    except RulerError as error:
        busy = isinstance(error, BusyError)
        files.write_object(path, {"step": name, "sentence": str(error), "busy": busy})
    progress.advance(whole - moved.moved, measured=name != "test")


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
    job: Work, name: str, primary_em: str, loaded: Loaded, progress: Progress, meter: Meter
) -> None:
    """Do one step of one piece of work."""
    if name != "replay":
        with meter.phase("loading"):
            loaded.of(job)
    with meter.phase("making"):
        if name == "teach":
            # What cannot be asked is not taught.
            job.frame(loaded.of(job))
            teaching.teach(job, lambda: loaded.of(job))
        elif name == "replay":
            teaching.replay(job)
        else:
            testing.ask(job, Metered(loaded.of(job), meter), progress)
            measuring.measure(job, primary_em)


class _Part(Progress):
    """A part of a bar, which knows how far it has moved it."""

    def __init__(self, whole: Progress) -> None:
        super().__init__(0, "", quiet=True)
        self._whole, self.moved = whole, 0.0

    def advance(self, weight: float, measured: bool = True) -> None:
        """See `Progress`."""
        self.moved += weight
        self._whole.advance(weight, measured)


# ---------------------------------------------------------------- what came of it


def _said(job: Work) -> dict[str, str]:
    path = job.file(work.STOPPED)
    return samples.read_object(path) if path.exists() else {}


def _stopped(job: Work) -> str | None:
    """Return why a piece of work was stopped; None: it was not."""
    return _said(job).get("sentence")


def _together(stopped: Sequence[tuple[Work, str]]) -> tuple[str, ...]:
    """Return each reason once, with the first piece of work that it stopped, and how many more."""
    by_reason: dict[str, list[Work]] = {}
    for job, sentence in stopped:
        by_reason.setdefault(sentence, []).append(job)
    return tuple(
        f"{jobs[0]}{f' and {len(jobs) - 1} more' if len(jobs) > 1 else ''}: {sentence}"
        for sentence, jobs in by_reason.items()
    )


def _below_oracle(job: Work) -> str | None:
    """Return a sentence if a finished memory is above its oracle by more than chance allows."""
    oracle = replace(job, preset="oracle", changes=_asked(job))
    if not job.settings.stores or not all(
        each.file(work.METRICS).exists() for each in (job, oracle)
    ):
        return None
    try:
        guards.below(job.settings.short, [*measuring.rows(oracle)], [*measuring.rows(job)])
    except RulerError as error:
        files.write_object(job.file(work.STOPPED), {"step": "compare", "sentence": str(error)})
        return str(error)
    return None


def _asked(job: Work) -> dict[str, object]:
    """Return those of the changes of a piece of work that decide how questions are put."""
    return {name: value for name, value in job.changes.items() if name in ASKED}


def _without_effect(works: Sequence[Work]) -> Iterator[str]:
    """Yield a sentence for each change of a preset that had no effect.

    The same work without the change must have been done, now or before.
    """
    for job in works:
        kept = {name: value for name, value in job.settings.changes.items()
                if name not in ASKED}  # fmt: skip
        usual = replace(job, changes=_asked(job))
        if not kept or not all(each.file(work.METRICS).exists() for each in (job, usual)):
            continue
        if recalling.alike(job, usual):
            said = ", ".join(f"{name} = {value!r}" for name, value in kept.items())
            yield (
                f"{job}: {said} had no effect: what was recalled and the telemetry are those of"
                f" {usual.settings.short}."
            )
