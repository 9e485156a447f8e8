"""What of a sweep is done, running, failed and left, and how long the rest will take."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from rulerlib import predict
from rulerlib.store import lock
from rulerlib.sweep.cells import PlannedCell
from rulerlib.sweep.run import failure
from rulerlib.sweep.sweep import Sweep

STATES = ("done", "running", "failed", "left")

_WIDTH = 32

# The number of failed cells that are told in full.
_MOST = 10


@dataclass
class Status:
    """The state of every cell of a sweep.

    Attributes
    ----------
    cells
        For each state its cells. A cell that is being answered is running.
    running
        A sentence for each job that is running: where, and since when.
    failures
        For each failed cell how often it failed, the sentence, and the log.
    costs
        What the cells cost that were ever begun, as `rulerlib.sweep.sweep.Sweep.cost` has it.
    """

    cells: dict[str, list[PlannedCell]] = field(
        default_factory=lambda: {name: [] for name in STATES}
    )
    running: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    costs: list[tuple[PlannedCell, dict[str, Any]]] = field(default_factory=list)

    @property
    def unfinished(self) -> list[PlannedCell]:
        """All cells that are not done."""
        return [cell for name in STATES if name != "done" for cell in self.cells[name]]

    def __str__(self) -> str:
        work = {name: sum(cell.work for cell in cells) for name, cells in self.cells.items()}
        share = work["done"] / (sum(work.values()) or 1)
        filled = int(share * _WIDTH)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        numbers = ", ".join(f"{len(self.cells[name])} {name}" for name in STATES)
        count = sum(map(len, self.cells.values()))
        lines = [f"{share:4.0%} |{bar}| {numbers}, of {count} cells"]
        if self.unfinished:
            lines.append(self.time)
        lines += [*self.running, *self.failures[:_MOST]]
        if (more := len(self.failures) - _MOST) > 0:
            lines.append(f"... and {more} more failed")
        return "\n".join(lines)

    @property
    def time(self) -> str:
        """How long unfinished cells take by the speeds measured so far, as a sentence.

        The unit of speed is `rulerlib.predict.cost`, so that lengths can be compared.
        """
        seconds, work, left = (defaultdict[str, float](float) for _ in range(3))
        for cell, cost in self.costs:
            if cost.get("asked"):
                seconds[cell.reader] += sum(cost["seconds"].values())
                work[cell.reader] += predict.cost(cell.length) * cost["asked"]
        for cell in self.unfinished:
            left[cell.reader] += cell.work
        hours = sum(seconds[name] / work[name] * left[name] for name in left if work[name]) / 3600
        sentence = f"Left, one job after another: {hours:.2g} hours." if hours else ""
        if unknown := [name for name in left if not work[name]]:
            sentence += f" How long it takes is not known yet of {', '.join(unknown)}."
        return sentence.strip()


def status(sweep: Sweep) -> Status:
    """Return the state of every cell of a sweep, as it stands on disk now."""
    now = Status()
    for job in sweep.jobs:
        running = lock.holder(sweep.mark(job))
        if running:
            now.running.append(f"{job.name} is running: {running}")
        for cell in job.cells:
            if cost := sweep.cost(cell):
                now.costs.append((cell, cost))
            if sweep.is_done(cell, cost):
                now.cells["done"].append(cell)
            elif "error" in cost:
                now.cells["failed"].append(cell)
                now.failures.append(f"{failure(cell, cost)} See {cost.get('log')}")
            else:
                now.cells["running" if running else "left"].append(cell)
                running = None
    return now
