"""A sweep: a plan that was accepted, its jobs, and the folder in which they stand.

A job has cells of one model, language and length, so that a model is loaded once; it is cut into
parts where it would have too many cells. `accept` makes the jobs of the cells and writes them into
the folder that the plan names:

``sweep.json``
    the plan and the jobs; only `accept` writes it
``jobs.tsv``, ``servers.tsv``
    a line for each job and each server with what it needs of a machine, for `workflow/`
``runs/``
    questions and answers, in RULER's layout, and beside them what each cell cost
``jobs/``, ``logs/``, ``servers/``
    a mark for each job that is done, what it printed, and the addresses of servers
``scores.csv``, ``cells.csv``
    what `rulerlib.sweep.collect` makes of the answers

A plan may be edited while a sweep goes on. What is new is added, and what is gone is left and
named. What changed in how a model answers is both: new cells, in a folder of another name.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import rulerlib
from rulerlib import files, samples
from rulerlib.errors import DataError
from rulerlib.files import alone
from rulerlib.sweep.models import Resources
from rulerlib.sweep.plan import Plan, PlannedCell

SWEEP, JOBS, SERVERS = "sweep.json", "jobs.tsv", "servers.tsv"

# What a job needs that asks a server and has no model of its own.
_ASKING = Resources(cpus=1, memory_gb=4)


class Job(NamedTuple):
    """Some cells of one model, language and length.

    Attributes
    ----------
    name
        ``lille-da-1024``; the second part of the same is ``lille-da-1024-2``.
    cells
        At least one.
    """

    name: str
    cells: tuple[PlannedCell, ...]

    @property
    def model(self) -> str:
        """What the plan calls its model."""
        return self.cells[0].model


@dataclass(frozen=True)
class Sweep:
    """A plan that was accepted.

    Attributes
    ----------
    folder
        Where it stands.
    plan
        The plan as it was accepted.
    jobs
        In the order of the plan.
    """

    folder: Path
    plan: Plan
    jobs: tuple[Job, ...]

    @classmethod
    def load(cls, place: str | Path) -> Self:
        """Return the sweep of a plan's file, or of its folder.

        Raises
        ------
        DataError
            If there is none, or what stands there is damaged.
        ParameterError, MissingExtraError
            If the plan's file has no folder, or cannot be read for want of a package.
        """
        folder = folder_of(place)
        about = folder / SWEEP
        if not about.exists():
            raise DataError(
                f"{folder} holds no {SWEEP}: run `rulerlib sweep plan` with the file of"
                " the plan first."
            )
        values = samples.read_object(about)
        try:
            jobs = tuple(
                Job(name, tuple(PlannedCell(*cell) for cell in cells))
                for name, cells in values["jobs"]
            )
            return cls(folder, Plan.from_settings(values["plan"]), jobs)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(f"{about}: damaged ({reason}).") from error

    # --- What stands where ---------------------------------------------------------------------

    @cached_property
    def root(self) -> Path:
        """The folder of all runs."""
        return (self.folder / "runs").absolute()

    def answers(self, cell: PlannedCell) -> Path:
        """Return the file of a cell's answers."""
        return Path(self._place(cell, "jsonl"))

    def cost_path(self, cell: PlannedCell) -> Path:
        """Return the file that says what a cell cost, or how it failed."""
        return Path(self._place(cell, "cost.json"))

    def _place(self, cell: PlannedCell, ending: str) -> str:
        # As a text: a sweep has thousands, and paths take several times as long.
        return f"{self._root}/{cell.folder}/pred/{cell.label}.{ending}"

    @cached_property
    def _root(self) -> str:
        return str(self.root)

    def mark(self, job: Job) -> Path:
        """Return the file that says to `workflow/` that a job is done; its lock is the job's."""
        return self.folder / "jobs" / f"{job.name}.done"

    def log(self, job: Job) -> Path:
        """Return the file of what a job printed."""
        return self.folder / "logs" / f"{job.name}.log"

    def address(self, model: str) -> Path:
        """Return the file of the address of a model's server."""
        return self.folder / "servers" / f"{model}.json"

    # --- What there is to do -------------------------------------------------------------------

    @property
    def cells(self) -> Iterator[PlannedCell]:
        """All cells, job by job."""
        return (cell for job in self.jobs for cell in job.cells)

    def cost(self, cell: PlannedCell) -> dict[str, Any]:
        """Return what a cell cost so far; empty where that is not known, or the file is damaged.

        ``answers`` and ``bytes`` stand there where it was done, ``error`` and ``tries`` where it
        failed.
        """
        # A third of the time of `read_object`.
        try:
            with open(self._place(cell, "cost.json"), "rb", buffering=0) as file:
                values = json.loads(file.read())
        except (OSError, ValueError, RecursionError):
            return {}
        return values if isinstance(values, dict) else {}

    def is_done(self, cell: PlannedCell, cost: Mapping[str, Any] | None = None) -> bool:
        """Return whether a cell has all its answers, so that nothing cut or deleted is done."""
        cost = self.cost(cell) if cost is None else cost
        try:
            whole = int(cost.get("answers", 0)) >= cell.answers
            return whole and os.stat(self._place(cell, "jsonl")).st_size == cost["bytes"]
        except (OSError, TypeError, ValueError, KeyError):
            return False


def folder_of(place: str | Path) -> Path:
    """Return the folder of a sweep, given that folder or the file of its plan.

    Raises
    ------
    DataError, ParameterError, MissingExtraError
        As `rulerlib.sweep.plan.Plan.from_file`.
    """
    return Path(place) if Path(place).is_dir() else Plan.from_file(place).folder


# --- A plan becomes jobs -------------------------------------------------------------------------


def accept(plan: Plan, cells: Sequence[PlannedCell]) -> tuple[Sweep, list[str]]:
    """Take a plan as that of its folder: write its jobs, and mark those that are done.

    Returns
    -------
    Sweep
        The sweep.
    list of str
        Names of cells that were planned before and are no longer.

    Raises
    ------
    BusyError
        If another process accepts a plan there at this moment.
    ParameterError
        If the folder cannot be written.
    """
    folder = plan.folder
    files.check_writable(folder)
    with alone(folder / SWEEP):
        sweep, gone = Sweep(folder, plan, tuple(split(plan, cells))), []
        if (folder / SWEEP).exists():
            before, names = Sweep.load(folder), {cell.name for cell in cells}
            gone = [cell.name for cell in before.cells if cell.name not in names]
        _write(sweep)
    return sweep, gone


def split(plan: Plan, cells: Iterable[PlannedCell]) -> list[Job]:
    """Return the jobs of all cells of a plan."""
    groups: dict[tuple[str, str, int], list[PlannedCell]] = {}
    for cell in cells:
        groups.setdefault((cell.model, cell.language, cell.length), []).append(cell)
    jobs: list[Job] = []
    for (model, language, length), group in groups.items():
        name = f"{model}-{language}-{length}"
        parts = math.ceil(len(group) / plan.cells_per_job)
        for part in range(parts):
            some = group[len(group) * part // parts : len(group) * (part + 1) // parts]
            ending = f"-{part + 1}" if part else ""
            jobs.append(Job(name + ending, tuple(some)))
    return jobs


def _write(sweep: Sweep) -> None:
    """Write a sweep, what its jobs and servers need, and which jobs are done."""
    about = {"rulerlib": rulerlib.__version__, "plan": asdict(sweep.plan)}
    with files.replacing(sweep.folder / SWEEP) as file:
        # A line for each job, for people to read and for `diff`.
        head = json.dumps(about, ensure_ascii=False, indent=2)
        lines = ",\n".join(json.dumps(job, ensure_ascii=False) for job in sweep.jobs)
        file.write(f'{head[:-2]},\n  "jobs": [\n{lines}\n]}}\n')
    for name in ("jobs", "logs", "servers"):
        (sweep.folder / name).mkdir(exist_ok=True)
    models = sweep.plan.models
    served = [name for name, entry in models.items() if entry.is_started]
    _write_needs(sweep.folder / JOBS, (
        (job.name, _ASKING if job.model in served else models[job.model].resources)
        for job in sweep.jobs
    ))  # fmt: skip
    # A server is stopped when its jobs are done; stopped by the queue, it is started again.
    _write_needs(sweep.folder / SERVERS, ((name, models[name].resources) for name in served))
    for job in sweep.jobs:
        if all(sweep.is_done(cell) for cell in job.cells):
            sweep.mark(job).touch()
        else:
            # It grew, or files were deleted: it runs again, and its server is needed.
            for mark in (sweep.mark(job), sweep.address(job.model).with_suffix(".done")):
                mark.unlink(missing_ok=True)


def _write_needs(path: Path, rows: Iterable[tuple[str, Resources]]) -> None:
    """Write what jobs or servers need of a machine."""
    with files.replacing(path) as file:
        file.write("name\tgpus\tcpus\tmemory_mb\tminutes\tpartition\n")
        for name, needed in rows:
            memory, minutes = round(1000 * needed.memory_gb), math.ceil(60 * needed.hours)
            row = [name, needed.gpus, needed.cpus, memory, minutes, needed.partition or ""]
            file.write("\t".join(map(str, row)) + "\n")
