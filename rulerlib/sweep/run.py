"""A job is run: its model is loaded once and answers all cells that are not done.

A job may be started any number of times, also twice at once: what is done is skipped, a cell that
was stopped goes on where it was, and a second process waits until the first has ended. Beside the
answers of a cell, ``<task>.cost.json`` says what they cost and, where the cell is done, their
number and bytes; where it failed, the sentence and how often.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulerlib import files, models
from rulerlib.errors import (
    BusyError,
    MissingExtraError,
    ParameterError,
    RulerError,
    ServerError,
    require,
)
from rulerlib.files import alone
from rulerlib.progress import Meter, Metered, Progress, added
from rulerlib.sweep import servers
from rulerlib.sweep.plan import PlannedCell
from rulerlib.sweep.sweep import Job, Sweep

# Seconds between two looks at what another process is doing.
PAUSE = 1.0

_AS_PLANNED = (
    "as it was planned: the model, its options or rulerlib changed; run `rulerlib sweep plan` again"
)


Finish = Callable[..., None]
"""Notes what a cell cost, and the error that stopped it if one did."""


@dataclass
class Done:
    """What came of a job.

    Attributes
    ----------
    answered, skipped
        The number of cells that it answered, and of those that were done before.
    failures
        A sentence for each cell that failed.
    """

    answered: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)


def run(sweep: Sweep, job: Job) -> Done:
    """Answer all cells of a job that are not done; one that fails does not stop the others.

    Raises
    ------
    ParameterError
        If the disk is full or the model cannot be loaded.
    ServerError
        If the model's server is not there, or does not answer to the end.
    MissingExtraError
        If a package is missing that the engine needs.
    """
    done = Done()

    def finish(
        cell: PlannedCell, measured: Mapping[str, Any], error: Exception | None = None
    ) -> None:
        before = sweep.cost(cell)
        cost = added(before, measured)
        if error is None:
            cost |= {"answers": cell.answers, "bytes": sweep.answers(cell).stat().st_size}
            done.answered += 1
        else:
            cost |= {"error": _sentence(error), "log": str(sweep.log(job))}
            cost["tries"] = 1 + before.get("tries", 0)
            done.failures.append(failure(cell, cost))
            print(done.failures[-1], file=sys.stderr, flush=True)
        # What a power cut takes of it is answered again at once: the answers themselves are there.
        files.write_object(sweep.cost_path(cell), cost, lasting=False)

    with _alone(sweep.mark(job), job.name):
        left = [cell for cell in job.cells if not sweep.is_done(cell)]
        done.skipped = len(job.cells) - len(left)
        if left:
            files.remove_leftovers(*(sweep.cost_path(cell) for cell in left))
            _ask(sweep, job, left, finish)
    return done


def _alone(path: Path, name: str) -> contextlib.ExitStack:
    """Return what makes this the only process at a job, entered after waiting until that is so."""
    waits = contextlib.ExitStack()
    for number in itertools.count():
        try:
            waits.enter_context(alone(path))
            break
        except BusyError as error:
            if number == 0:
                print(f"Waiting for job {name}: {error}", file=sys.stderr, flush=True)
            time.sleep(PAUSE)
    return waits


def _ask(sweep: Sweep, job: Job, left: Sequence[PlannedCell], finish: Finish) -> None:
    """Ask the cells of a job one after another, each in a run of its own."""
    entry = sweep.plan.models[job.model]
    try:
        options = entry.options(_address(sweep, job))
        model = Metered(models.load(entry.model, entry.engine, **options), Meter())
    except RulerError as error:
        finish(left[0], Meter().measured(), error)
        raise
    with contextlib.ExitStack() as stack:
        if hasattr(model, "close"):
            stack.callback(model.close)
        for cell in left:
            model.meter = meter = Meter()
            try:
                with meter.phase("making"):
                    run = sweep.plan.run(
                        entry, [(cell.task, dict(cell.knobs))], knobs=cell.knobs, loaded=model,
                        language=cell.language, length=cell.length, seed=cell.seed,
                        output=str(sweep.root),
                    )  # fmt: skip
                    place = run.answers(run.cells[0])
                    holds, below = place == sweep.answers(cell), place.relative_to(sweep.root)
                    require(holds, "the place of the cell", below.as_posix(), _AS_PLANNED)
                    run.predict(Progress(0, "", quiet=True))
                finish(cell, meter.measured())
            except Exception as error:
                # These would meet every other cell as well, and a full disk takes no notes.
                full = isinstance(error, ParameterError) and error.parameter == "output"
                with contextlib.suppress(RulerError):
                    finish(cell, meter.measured(), error)
                if full or isinstance(error, (ServerError, MissingExtraError)):
                    raise


def _address(sweep: Sweep, job: Job) -> str | None:
    """Return the address of the server that a command has started, once it answers."""
    server = sweep.plan.models[job.model].server
    if server is None or server.command is None:
        return None
    return servers.wait(sweep.address(job.model), job.model, server.wait_minutes)


def _sentence(error: Exception) -> str:
    """Return an error as a sentence; show where one came from that nobody foresaw."""
    if isinstance(error, RulerError):
        return str(error)
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"


def failure(cell: PlannedCell, cost: Mapping[str, Any]) -> str:
    """Return how a cell failed, as a sentence."""
    times = "once" if cost["tries"] == 1 else f"{cost['tries']} times"
    return f"{cell.name} failed {times}: {cost['error']}"
