"""A sweep: a plan that was accepted, with its jobs, in the folder that the plan names.

``sweep.json``
    the plan, what is known of its models, and the jobs; only `accept` writes it
``jobs.tsv``, ``servers.tsv``
    a line for each job and each server with what it needs of a machine, for `workflow/`
``runs/``
    questions and answers, in RULER's layout; ``questions/``: those that models share
``jobs/``, ``logs/``, ``servers/``
    a lock and a mark for each job, what it printed, and the addresses of servers
``scores.csv``, ``cells.csv``, ``costs.csv``, ``reports/``
    what `rulerlib.sweep.collect` makes of the answers

A plan may be edited while a sweep goes on. What is new is added, what is gone is left and named,
and what changed is refused once there are answers, with both values.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import rulerlib
from rulerlib import samples
from rulerlib.errors import DataError, one_of
from rulerlib.store import files
from rulerlib.store.lock import alone
from rulerlib.store.questions import compare
from rulerlib.sweep import state
from rulerlib.sweep.cells import Outline, Planned, count, work
from rulerlib.sweep.entries import Resources
from rulerlib.sweep.jobs import Job, Key, job_of, split
from rulerlib.sweep.plan import Plan, read_settings
from rulerlib.sweep.speeds import Speeds

SWEEP, JOBS, SERVERS = "sweep.json", "jobs.tsv", "servers.tsv"

COLUMNS = ("name", "gpus", "cpus", "memory_mb", "minutes", "partition")

ASKING = Resources(cpus=1, memory_gb=4)
"""What a job needs that asks a server and has no model of its own."""

# Of a model these may change at any time, since no answer depends on them.
_FREE = ("resources", "server")

# Of the plan these decide how every model answers.
_ASKED = ("queries_per_context", "allow_truncation", "question_language", "format", "decoding")

# The number of names that a sentence lists.
_NAMED = 5


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
    facts
        See `rulerlib.sweep.cells.Outline`.
    """

    folder: Path
    plan: Plan
    jobs: tuple[Job, ...]
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

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
                f"{folder} holds no {SWEEP}: run `python -m rulerlib.sweep plan` with the file of"
                " the plan first."
            )
        known = samples.read_object(about)
        try:
            plan = Plan.from_settings(known["plan"])
            jobs = tuple(job_of(row) for row in known["jobs"])
            return cls(folder, plan, jobs, known["models"])
        except (KeyError, TypeError, IndexError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(f"{about}: damaged ({reason}).") from error

    # --- What stands where ---------------------------------------------------------------------

    @cached_property
    def root(self) -> Path:
        """The folder of all runs."""
        return self.folder / "runs"

    @property
    def common(self) -> Path:
        """The folder of questions that several models share."""
        return self.folder / "questions"

    def mark(self, job: Job) -> Path:
        """Return the file that says that all of a job is done, also to `workflow/`."""
        return self.folder / "jobs" / f"{job.name}.done"

    def lock(self, job: Job) -> Path:
        """Return what only one process at a time works at."""
        return self.folder / "jobs" / job.name

    def log(self, job: Job) -> Path:
        """Return the file of what a job printed."""
        return self.folder / "logs" / f"{job.name}.log"

    def address(self, model: str) -> Path:
        """Return the file of the address of a model's server."""
        return self.folder / "servers" / f"{model}.json"

    # --- What there is to do -------------------------------------------------------------------

    @property
    def cells(self) -> Iterator[Planned]:
        """All cells, job by job."""
        return (cell for job in self.jobs for cell in job.cells)

    @cached_property
    def _by_name(self) -> dict[str, Job]:
        return {job.name: job for job in self.jobs}

    def job(self, name: str) -> Job:
        """Return a job by its name, or a job of one cell by that of the cell.

        Raises
        ------
        ParameterError
            If there is none.
        """
        if name in self._by_name:
            return self._by_name[name]
        for job in self.jobs:
            for cell in job.cells:
                if cell.name == name:
                    return Job(job.name, (cell,), job.minutes)
        one_of("job", name, self._by_name)
        raise AssertionError("one_of has raised")

    def count(self, cell: Planned) -> int:
        """Return how many answers a cell has when it is done."""
        return count(self.plan, cell)

    def is_done(self, cell: Planned) -> bool:
        """Return whether all answers of a cell stand there."""
        return state.is_done(cell.place(str(self.root)), self.count(cell))

    def work(self, cell: Planned) -> float:
        """Return what the answers of a cell cost together, see `rulerlib.sweep.cells.work`."""
        return work(self.plan, cell)


def folder_of(place: str | Path) -> Path:
    """Return the folder of a sweep, given that folder or the file of its plan.

    Raises
    ------
    DataError, ParameterError, MissingExtraError
        As `rulerlib.sweep.plan.read_settings`.
    """
    path = Path(place)
    if path.is_dir():
        return path
    settings = read_settings(path)
    given = {name: settings[name] for name in ("output",) if name in settings}
    few = {"models": {"lille": {"model": "lille"}}, "languages": ["da"], "lengths": [512]}
    return Plan.from_settings({**few, **given}).folder


def accept(plan: Plan, outline: Outline) -> tuple[Sweep, list[str]]:
    """Take a plan as that of its folder: write its jobs, those that were there already as well.

    Returns
    -------
    Sweep
        The sweep.
    list of str
        Names of cells that were planned before and are no longer.

    Raises
    ------
    RunMismatchError
        If there are answers already, and the plan changed in what decides them.
    BusyError
        If another process accepts a plan there at this moment.
    ParameterError
        If the folder cannot be written.
    """
    folder = plan.folder
    files.check_writable(folder)
    with alone(folder / SWEEP):
        before = Sweep.load(folder) if (folder / SWEEP).exists() else None
        if before is not None and _begun(before):
            _check_unchanged(before, plan, outline, folder / SWEEP)
        speeds = Speeds.none() if before is None else Speeds.of(before)
        sizes = _sizes(outline)

        def hours(cells: Sequence[Planned]) -> float | None:
            first = cells[0]
            stated = plan.models[first.model].resources.hours_at(first.length)
            # What a plan states of a model is meant for its tasks.
            if stated is not None and first.memory is None:
                whole = sizes[first.model, first.language, first.length]
                return stated * len(cells) / max(len(cells), whole)
            measured = speeds.together(plan, cells)
            # A job that waits for a disk or a neighbour is not stopped at once.
            return None if measured is None else 2 * measured

        jobs = split(
            outline.cells, before.jobs if before else (), plan.cells_per_job, hours,
            plan.hours_per_job,
        )  # fmt: skip
        sweep = Sweep(folder, plan, tuple(jobs), outline.facts)
        now = {cell.name for cell in outline.cells}
        gone = [cell.name for cell in before.cells if cell.name not in now] if before else []
        _write(sweep, outline)
        _unmark(sweep)
    return sweep, gone


def _sizes(outline: Outline) -> dict[Key, int]:
    sizes: dict[Key, int] = {}
    for cell in outline.cells:
        if cell.memory is None:
            key = (cell.model, cell.language, cell.length)
            sizes[key] = sizes.get(key, 0) + 1
    return sizes


def _write(sweep: Sweep, outline: Outline) -> None:
    about = {
        "rulerlib": rulerlib.__version__,
        "plan": sweep.plan.settings(),
        "models": outline.facts,
        "packs": outline.packs,
    }
    with files.replacing(sweep.folder / SWEEP) as file:
        # A line for each job, for people to read and for `diff`.
        head = json.dumps(about, ensure_ascii=False, indent=2)
        lines = ",\n".join(json.dumps(job.row(), ensure_ascii=False) for job in sweep.jobs)
        file.write(f'{head[:-2]},\n  "jobs": [\n{lines}\n]}}\n')
    models = sweep.plan.models
    served = [name for name, entry in models.items() if entry.server and entry.server.command]
    needs = [
        (job.name, ASKING if job.key[0] in served else models[job.key[0]].resources, job.minutes)
        for job in sweep.jobs
    ]
    _write_needs(sweep.folder / JOBS, needs)
    # It is stopped when its jobs are done; stopped by the queue, it is started again.
    longest = math.ceil(60 * sweep.plan.hours_per_job)
    servers = [(name, models[name].resources, longest) for name in served]
    _write_needs(sweep.folder / SERVERS, servers)
    for name in ("jobs", "logs", "servers"):
        (sweep.folder / name).mkdir(exist_ok=True)


def _write_needs(path: Path, rows: Iterable[tuple[str, Resources, int]]) -> None:
    """Write what jobs or servers need of a machine."""
    with files.replacing(path) as file:
        file.write("\t".join(COLUMNS) + "\n")
        for name, needed, minutes in rows:
            memory = round(1000 * needed.memory_gb)
            row = [name, needed.gpus, needed.cpus, memory, minutes, needed.partition or ""]
            file.write("\t".join(map(str, row)) + "\n")


def _unmark(sweep: Sweep) -> None:
    """Remove the marks of jobs that are not done any more: they grew, or files were deleted."""
    marked = {path.name for path in (sweep.folder / "jobs").glob("*.done")}
    for job in sweep.jobs:
        done = sweep.mark(job)
        if done.name in marked and all(sweep.is_done(cell) for cell in job.cells):
            continue
        done.unlink(missing_ok=True)
        # Its server is needed again.
        sweep.address(job.key[0]).with_suffix(".done").unlink(missing_ok=True)


def _begun(sweep: Sweep) -> bool:
    """Return whether there are any answers."""
    return any(os.path.exists(cell.place(str(sweep.root))) for cell in sweep.cells)


def _check_unchanged(before: Sweep, plan: Plan, outline: Outline, path: Path) -> None:
    """Refuse a plan that would ask otherwise than what is there was asked."""
    packs = samples.read_object(path).get("packs", {})
    was = _binding(before.plan, packs, before.facts)
    now = _binding(plan, outline.packs, outline.facts)
    # What is new binds nobody yet.
    now = {name: value for name, value in now.items() if name in was}
    now["models"] = {name: value for name, value in now["models"].items() if name in was["models"]}
    was["models"] = {name: value for name, value in was["models"].items() if name in now["models"]}
    remedy = "take the change back, choose another output folder, or give the model another name"
    compare(before.folder, was, now, remedy=remedy)
    if plan.num_samples < before.plan.num_samples:
        number = {"num_samples": before.plan.num_samples}
        compare(before.folder, number, {"num_samples": plan.num_samples}, remedy=remedy)


def _binding(
    plan: Plan, packs: Mapping[str, str], facts: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what decides the answers of a sweep."""
    settings = plan.settings()
    models = {
        name: {key: value for key, value in entry.items() if key not in _FREE}
        | {key: facts[name][key] for key in ("weights", "tokenizer")}
        for name, entry in settings["models"].items()
    }
    return {**{name: settings[name] for name in _ASKED}, **packs, "models": models}


def listed(names: list[str]) -> str:
    """Return some names, and how many more there are.

    >>> listed(["a", "b", "c", "d", "e", "f", "g"])
    'a, b, c, d, e and 2 more'
    """
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
