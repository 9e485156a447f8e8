"""What of a sweep is done, running, failed and left, and how long the rest will take.

A cell that is being answered is running; its job's lock says where.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from rulerlib.sweep import state
from rulerlib.sweep.cells import Planned
from rulerlib.sweep.speeds import Measured, Speeds
from rulerlib.sweep.sweep import Sweep

STATES = ("done", "running", "failed", "left")

_WIDTH = 32

# The number of failed cells that are told in full.
_TOLD = 10


@dataclass
class Status:
    """The state of every cell of a sweep.

    Attributes
    ----------
    cells
        For each state its cells.
    running
        A sentence for each job that is running: where, and since when.
    failures
        For each failed cell how often it failed, the sentence, and the log.
    tokens
        Tokens of prompts that were read (``prompt``), of these computed (``computed``), and
        tokens that were generated (``generated``).
    share
        Of all the work, how much is done, 0 to 1.
    hours
        How long the rest takes one job after another, by who is asked; None where nothing was
        measured.
    """

    cells: dict[str, list[Planned]] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    tokens: Counter[str] = field(default_factory=Counter)
    share: float = 0.0
    hours: dict[str, float | None] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether all cells are done."""
        return all(not self.cells[name] for name in STATES if name != "done")

    def __str__(self) -> str:
        count = sum(map(len, self.cells.values()))
        filled = int(self.share * _WIDTH)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        said = ", ".join(f"{len(self.cells[name])} {name}" for name in STATES)
        lines = [f"{self.share:4.0%} |{bar}| {said}, of {count} cells"]
        if self.tokens["prompt"] or self.tokens["generated"]:
            lines.append(
                f"tokens: {self.tokens['prompt']:,} of prompts, {self.tokens['computed']:,} of them"
                f" computed, {self.tokens['generated']:,} generated"
            )
        if not self.finished:
            lines += _left(self.hours)
        return "\n".join([*lines, *self.running, *self.failures])


def status(sweep: Sweep) -> Status:
    """Return the state of every cell of a sweep, as it stands on disk now."""
    told = Status(cells={name: [] for name in STATES})
    measured = Measured()
    done = total = 0.0
    root = str(sweep.root)
    for job in sweep.jobs:
        holder = state.holder(sweep.lock(job))
        where = f"{job.name} is running: process {holder.get('process')} on {holder.get('host')}"
        now: Planned | None = None
        for cell in job.cells:
            answers = cell.place(root)
            cost, work = state.read_cost(answers), sweep.work(cell)
            if cost:
                measured.add(cell.who, cell.length, cost)
                told.tokens.update(cost.get("tokens") or {})
            total += work
            if state.is_done(answers, sweep.count(cell), cost):
                told.cells["done"].append(cell)
                done += work
            elif failure := state.read_failure(answers):
                told.cells["failed"].append(cell)
                told.failures += _failure(cell, failure, len(told.failures))
            elif holder and now is None:
                now = cell
                told.cells["running"].append(cell)
            else:
                told.cells["left"].append(cell)
        if holder:
            told.running.append(f"{where} since {holder.get('since')}")
    told.share = done / total if total else 1.0
    left = [cell for name in STATES if name != "done" for cell in told.cells[name]]
    told.hours = _hours(sweep, Speeds(measured.rates()), left)
    if len(told.failures) > _TOLD:
        told.failures[_TOLD:] = [f"... and {len(told.failures) - _TOLD} more failed"]
    return told


def _hours(sweep: Sweep, speeds: Speeds, left: Iterable[Planned]) -> dict[str, float | None]:
    by_who: dict[str, list[Planned]] = defaultdict(list)
    for cell in left:
        by_who[cell.who].append(cell)
    return {who: speeds.together(sweep.plan, cells) for who, cells in by_who.items()}


def _left(hours: dict[str, float | None]) -> list[str]:
    known = {name: value for name, value in hours.items() if value is not None}
    lines = []
    if known:
        each = ", ".join(f"{name} {_time(value)}" for name, value in known.items())
        lines.append(f"left, one job after another: {_time(sum(known.values()))} ({each})")
    unknown = [name for name in hours if name not in known]
    if unknown:
        lines.append(f"how long it takes is not known yet of {', '.join(unknown)}")
    return lines


def _time(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.0f} min"


def _failure(cell: Planned, failure: dict[str, object], number: int) -> list[str]:
    times = "once" if failure.get("tries") == 1 else f"{failure.get('tries')} times"
    return [f"{cell.name} failed {times}: {failure.get('error')} See {failure.get('log')}"]
