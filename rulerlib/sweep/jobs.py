"""Jobs: the cells that one process of a cluster answers, with one model that is loaded once.

A job has one model, one language and one length, and is cut into parts where it would have too many
cells or take too long. Cells with a memory are jobs of their own. A cell that was given to a job
stays with it, however often a plan is read again: a queue knows jobs by their names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rulerlib.sweep.cells import Planned

Key = tuple[str, str, int]
"""Model, language and length of a job."""

# A job that is stopped by its time limit goes on later; so the limit may be near.
LEAST_MINUTES = 15


@dataclass(frozen=True)
class Job:
    """Some cells of one model, language and length.

    Attributes
    ----------
    name
        ``lille-da-1024``; the second part of the same is ``lille-da-1024-2``.
    cells
        At least one.
    minutes
        What it may take.
    """

    name: str
    cells: tuple[Planned, ...]
    minutes: int

    @property
    def key(self) -> Key:
        """Model, language and length."""
        return self.cells[0].model, self.cells[0].language, self.cells[0].length

    @property
    def remembers(self) -> bool:
        """Whether its cells have memories."""
        return self.cells[0].memory is not None

    def row(self) -> list[Any]:
        """Return its name, minutes and cells as plain data, short, because there are thousands."""
        first = self.cells[0]
        rows = [
            [cell.task, dict(cell.knobs), cell.seed, cell.label]
            # The folder is that of all cells, but where each has its memory.
            + ([] if cell.memory is None else [cell.memory, cell.folder])
            for cell in self.cells
        ]
        return [self.name, self.minutes, *self.key, first.folder, rows]


def job_of(row: Sequence[Any]) -> Job:
    """Return a job of plain data, as `Job.row` has them."""
    name, minutes, model, language, length, folder, rows = row
    cells = tuple(
        Planned(
            model, language, length, task, knobs, seed, own[0] if own else folder, label, memory
        )
        for task, knobs, seed, label, memory, *own in (
            cell if len(cell) > 4 else [*cell, None] for cell in rows
        )
    )
    return Job(name, cells, minutes)


def split(
    cells: Iterable[Planned],
    before: Iterable[Job],
    most: int,
    hours: Callable[[Sequence[Planned]], float | None],
    longest: float,
) -> list[Job]:
    """Return the jobs of some cells.

    Parameters
    ----------
    cells
        All cells of a plan, those of one model, language and length beside each other.
    before
        Jobs that there are already: a cell stays where it is, one that is gone is left out, and
        new ones become new parts.
    most
        Cells of a job at most.
    hours
        Returns the hours that cells of a job take; None where nobody knows.
    longest
        Hours that a job may take.
    """
    wanted = {cell.name: cell for cell in cells}
    jobs: list[Job] = []
    for job in before:
        kept = tuple(wanted.pop(cell.name) for cell in job.cells if cell.name in wanted)
        if kept:
            jobs.append(Job(job.name, kept, _minutes(hours(kept), longest)))
    names = {job.name for job in before}
    for (*key, remembers), group in groupby(wanted.values(), key=_key):
        new = list(group)
        known = hours(new)
        # The cells of a job that fit into its hours.
        fitting = math.floor(len(new) * longest / known) if known else most
        parts = math.ceil(len(new) / max(1, min(most, fitting)))
        for number in range(parts):
            part = new[len(new) * number // parts : len(new) * (number + 1) // parts]
            name = _name([*key, *(["memory"] if remembers else [])], names)
            names.add(name)
            jobs.append(Job(name, tuple(part), _minutes(hours(part), longest)))
    return jobs


def _key(cell: Planned) -> tuple[str, str, int, bool]:
    return cell.model, cell.language, cell.length, cell.memory is not None


def _name(words: Iterable[Any], taken: set[str]) -> str:
    whole = "-".join(map(str, words))
    if whole not in taken:
        return whole
    return next(name for number in range(2, 10**9) if (name := f"{whole}-{number}") not in taken)


def _minutes(hours: float | None, longest: float) -> int:
    return max(LEAST_MINUTES, math.ceil(60 * min(longest, longest if hours is None else hours)))
