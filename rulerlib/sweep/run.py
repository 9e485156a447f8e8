"""A job is run: its model is loaded once and answers all cells that are not done.

A job may be started any number of times, also twice at once: what is done is skipped, a cell that
was stopped goes on where it was, and a second process waits until the first has ended.
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from rulerlib import models, predict, tasks
from rulerlib.errors import (
    BusyError,
    MissingExtraError,
    ParameterError,
    RulerError,
    ServerError,
    require,
)
from rulerlib.memory.work import Work
from rulerlib.metering import Meter, Metered
from rulerlib.runs import Run
from rulerlib.store import questions
from rulerlib.store.cell import Cell
from rulerlib.store.lock import alone
from rulerlib.sweep import memories, servers, state
from rulerlib.sweep.cells import Planned, engine_of
from rulerlib.sweep.jobs import Job
from rulerlib.sweep.sweep import Sweep

# Seconds between two looks at what another process is doing.
PAUSE = 1.0

_AS_PLANNED = (
    "as it was planned: the model, its options or rulerlib changed; run"
    " `python -m rulerlib.sweep plan` again"
)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Failure:
    """A cell that failed.

    Attributes
    ----------
    cell
        Its name.
    error
        What went wrong, as one sentence.
    tries
        How often it has failed by now.
    """

    cell: str
    error: str
    tries: int


@dataclass
class Outcome:
    """What came of a job.

    Attributes
    ----------
    answered, skipped
        The cells that it answered, and those that were done before.
    failures
        The cells that failed.
    """

    answered: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)


def run(
    sweep: Sweep, job: Job, advance: Callable[[Planned], object] = lambda cell: None
) -> Outcome:
    """Answer all cells of a job that are not done; one that fails does not stop the others.

    Parameters
    ----------
    advance
        Called after each cell that is done.

    Raises
    ------
    ParameterError
        If the disk is full or the model cannot be loaded.
    ServerError
        If the model's server is not there, or does not answer to the end.
    MissingExtraError
        If a package is missing that the engine needs.
    """
    outcome = Outcome()
    if all(sweep.is_done(cell) for cell in job.cells):
        outcome.skipped = len(job.cells)
        for cell in job.cells:
            advance(cell)
        _mark(sweep, job)
        return outcome
    with _alone(sweep.lock(job), f"job {job.name}"):
        state.tidy(cell.answers(sweep.root) for cell in job.cells)
        if job.remembers:
            _remember(sweep, job, outcome, advance)
        else:
            _ask(sweep, job, outcome, advance)
        _mark(sweep, job)
        return outcome


def _ask(sweep: Sweep, job: Job, outcome: Outcome, advance: Callable[[Planned], object]) -> None:
    """Answer the cells of a job one after another."""
    with contextlib.closing(Asker(sweep, job)) as asking:
        for cell in job.cells:
            if sweep.is_done(cell):
                outcome.skipped += 1
            else:
                failure = asking.answer(cell)
                if failure is not None:
                    outcome.failures.append(failure)
                    continue
                outcome.answered += 1
            advance(cell)


def _remember(
    sweep: Sweep, job: Job, outcome: Outcome, advance: Callable[[Planned], object]
) -> None:
    """Teach the memories of a job and ask about what they were taught, all of them together."""
    left: dict[Path, Planned] = {}
    for cell in job.cells:
        if sweep.is_done(cell):
            outcome.skipped += 1
            advance(cell)
        else:
            left[cell.answers(sweep.root.resolve())] = cell

    def finished(work: Work) -> None:
        cell = left[work.answers_path]
        # The file of what it cost knows of earlier runs by itself.
        state.cost_path(work.answers_path).unlink(missing_ok=True)
        state.write_cost(work.answers_path, memories.cost(work), sweep.count(cell))
        outcome.answered += 1
        advance(cell)

    try:
        stopped = memories.answer(_works(sweep, job, left), finished)
    except RulerError as error:
        # A server that is not there, or a process that was killed, stops all of them.
        stopped = dict.fromkeys(left, str(error))
    for path, sentence in stopped.items():
        if not sweep.is_done(left[path]):
            print(f"{left[path].name}: {sentence}", file=sys.stderr, flush=True)
            tries = state.failed(path, sentence, str(sweep.log(job)))
            outcome.failures.append(Failure(left[path].name, sentence, tries))


def _works(sweep: Sweep, job: Job, left: Mapping[Path, Planned]) -> list[Work]:
    """Return the work that some cells of a job are, by the places of their answers.

    Raises
    ------
    ParameterError
        If one of them is no longer what was planned.
    ServerError
        If the model's server is not there.
    """
    plan, (model, language, _) = sweep.plan, job.key
    assert plan.memory is not None
    seeds = list(dict.fromkeys(cell.seed for cell in left.values()))
    works = plan.memory.works(
        plan.models[model], [language], plan.lengths, seeds, sweep.root.resolve(),
        _address(sweep, job),
    )  # fmt: skip
    found = {work.answers_path: work for work in works}
    for path, planned in left.items():
        require(path in found, "the cell", planned.name, f"one {_AS_PLANNED}")
    return [found[path] for path in left]


def _address(sweep: Sweep, job: Job) -> str | None:
    """Return the address of the server that a command has started, once it answers."""
    model, _, _ = job.key
    server = sweep.plan.models[model].server
    if server is None or server.command is None:
        return None
    return servers.wait(sweep.address(model), model, server.wait_minutes)


def _mark(sweep: Sweep, job: Job) -> None:
    """Mark a job as done, if all of its cells are; one cell of it may have been asked for."""
    mark = sweep.mark(job)
    if not mark.exists() and all(sweep.is_done(cell) for cell in sweep.job(job.name).cells):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


class Asker:
    """The model of a job, which is loaded for the first cell that needs it."""

    def __init__(self, sweep: Sweep, job: Job) -> None:
        self._sweep, self._job = sweep, job
        self._plan = sweep.plan
        self._entry = sweep.plan.models[job.key[0]]
        self._meter = Meter()

    @cached_property
    def _model(self) -> Metered:
        address = _address(self._sweep, self._job)
        return Metered(engine_of(self._entry, address), Meter())

    def close(self) -> None:
        """Unload the model, where the engine can do that."""
        if "_model" in self.__dict__ and hasattr(self._model, "close"):
            self._model.close()

    def answer(self, cell: Planned) -> Failure | None:
        """Answer a cell; return how that failed, or None.

        Raises
        ------
        ParameterError, ServerError, MissingExtraError
            As `run`: what would meet every other cell as well.
        """
        path = cell.answers(self._sweep.root)
        self._meter = meter = Meter()
        try:
            self._predict(cell)
        except (ServerError, MissingExtraError) as error:
            self._note(path, error)
            raise
        except Exception as error:
            fatal = isinstance(error, ParameterError) and error.parameter in ("output", "model")
            failure = self._note(path, error)
            if fatal:
                raise
            print(f"{cell.name}: {failure.error}", file=sys.stderr, flush=True)
            return Failure(cell.name, failure.error, failure.tries)
        except BaseException:
            # Ctrl-C; nothing is noted of a kill that leaves no time for it.
            with contextlib.suppress(RulerError):
                state.stopped(path, meter.measured())
            raise
        state.write_cost(path, meter.measured(), self._sweep.count(cell))
        return None

    def _note(self, path: Path, error: Exception) -> Failure:
        """Write down what was measured and how a cell failed; not where the disk is full."""
        said = str(error) if isinstance(error, RulerError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, RulerError):
            traceback.print_exception(error)
        tries = 0
        with contextlib.suppress(RulerError):
            state.stopped(path, self._meter.measured())
            tries = state.failed(path, said, str(self._sweep.log(self._job)))
        return Failure("", said, tries)

    def _predict(self, planned: Planned) -> None:
        meter, model = self._meter, self._model
        model.meter = meter
        with meter.phase("making"):
            run = self._run(planned)
            cell = run.cell(planned.task, planned.length, run.knobs)
            _check(cell, planned)
            _patiently(lambda: self._make(run, cell), f"the questions of {planned.name}")
        longest = cell.length + run.format.thinking_tokens
        models.reserve(model, longest)
        decoding = run.decoding
        _patiently(
            lambda: predict.predict(
                run.questions(cell), model, run.answers(cell), run.format, decoding,
                num_samples=self._plan.num_samples, allow_truncation=cell.allow_truncation,
                cell=cell.settings(),
            ),
            planned.name,
        )  # fmt: skip

    def _run(self, planned: Planned) -> Run:
        task = tasks.resolve(planned.task, **planned.knobs)
        texts = {"texts": self._plan.texts, "clean_texts": self._plan.clean_texts}
        return self._plan.run(
            self._entry, tasks=[planned.task], knobs=planned.knobs, loaded=self._model,
            language=planned.language, length=planned.length, seed=planned.seed,
            output=str(self._sweep.root.resolve()), **(texts if task.reads_texts else {}),
        )  # fmt: skip

    def _make(self, run: Run, cell: Cell) -> None:
        """Make the questions of a cell, or take those that another model was asked."""
        key = self._sweep.facts[self._entry.name]["questions"]
        own = run.questions(cell)
        if key is not None and not own.exists():
            common = self._sweep.common / key / cell.language / str(cell.length) / cell.label
            questions.link(questions.write(run.dataset(cell), common), own.parent)
        run.make_data([cell])


def _check(cell: Cell, planned: Planned) -> None:
    """Check that a cell has the place that the plan knows."""
    folder = cell.folder("").as_posix()
    if (folder, cell.label) != (planned.folder, planned.label):
        allowed = f"{planned.folder}, {_AS_PLANNED}"
        raise ParameterError("the folder of the cell", folder, allowed)


@contextlib.contextmanager
def _alone(path: Path, what: str) -> Iterator[None]:
    """Be the only process at something, after waiting until that is so."""
    with contextlib.ExitStack() as stack:
        _patiently(lambda: stack.enter_context(alone(path)), what)
        yield


def _patiently(do: Callable[[], Result], what: str) -> Result:
    """Do something as soon as no other process is at it, and say once that one is."""
    told = False
    while True:
        try:
            return do()
        except BusyError as error:
            if not told:
                print(f"Waiting for {what}: {error}", file=sys.stderr, flush=True)
            told = True
        time.sleep(PAUSE)
