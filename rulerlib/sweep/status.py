"""What of a sweep is done, running, failed and left."""

from __future__ import annotations

from dataclasses import dataclass, field

from rulerlib import files
from rulerlib.sweep.plan import PlannedCell
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
    """

    cells: dict[str, list[PlannedCell]] = field(
        default_factory=lambda: {name: [] for name in STATES}
    )
    running: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def unfinished(self) -> list[PlannedCell]:
        """All cells that are not done."""
        return [cell for name in STATES if name != "done" for cell in self.cells[name]]

    def __str__(self) -> str:
        count = sum(map(len, self.cells.values()))
        share = len(self.cells["done"]) / (count or 1)
        filled = int(share * _WIDTH)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        numbers = ", ".join(f"{len(self.cells[name])} {name}" for name in STATES)
        lines = [f"{share:4.0%} |{bar}| {numbers}, of {count} cells"]
        return "\n".join([*lines, *self.running, *self.failures[:_MOST]])


def status(sweep: Sweep) -> Status:
    """Return the state of every cell of a sweep, as it stands on disk now."""
    now = Status()
    for job in sweep.jobs:
        running = files.holder(sweep.mark(job))
        if running:
            now.running.append(f"{job.name} is running: {running}")
        for cell in job.cells:
            cost = sweep.cost(cell)
            if sweep.is_done(cell, cost):
                now.cells["done"].append(cell)
            elif "error" in cost:
                now.cells["failed"].append(cell)
                now.failures.append(f"{failure(cell, cost)} See {cost.get('log')}")
            else:
                now.cells["running" if running else "left"].append(cell)
                running = None
    return now
