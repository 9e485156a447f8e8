"""A job is run: its model is loaded once and answers all cells that are not done.

A job may be started any number of times, also twice at once: what is done is skipped, a cell that
was stopped goes on where it was, and a second process waits until the first has ended.
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from rulerlib import models, predict, tasks
from rulerlib.errors import BusyError, MissingExtraError, ParameterError, RulerError, ServerError
from rulerlib.runs import Run
from rulerlib.store import questions
from rulerlib.store.cell import Cell
from rulerlib.store.lock import alone
from rulerlib.sweep import servers, state
from rulerlib.sweep.cells import Planned, engine_of
from rulerlib.sweep.jobs import Job
from rulerlib.sweep.metering import Meter, Metered
from rulerlib.sweep.sweep import Sweep

# Seconds between two looks at what another process is doing.
PAUSE = 1.0

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
        _mark(sweep, job)
        return outcome


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
        self._loaded, self._meter = False, Meter()

    @cached_property
    def _model(self) -> Metered:
        server = self._entry.server
        address = None
        if server is not None and server.command is not None:
            place = self._sweep.address(self._entry.name)
            address = servers.wait(place, self._entry.name, server.wait_minutes)
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
        if not self._loaded:
            with meter.phase("loading"):
                models.load_weights(model)
            self._loaded = True
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
        allowed = (
            f"{planned.folder}, as it was planned: the model, its options or rulerlib changed; run"
            " `python -m rulerlib.sweep plan` again"
        )
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
