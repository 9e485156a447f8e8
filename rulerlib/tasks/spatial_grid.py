"""Grids of cells, of which some are blocked, and walks that lead over every passage.

>>> from random import Random
>>> cells = draw(size=3, density=0.4, longest=4, rng=Random(1))
>>> len(cells), sum(len(walk) - 1 for walk in walks(cells, Random(1)))
(5, 4)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Sequence
from random import Random
from typing import TypeVar

DIRECTIONS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
"""The directions by their names in a language pack, as steps to the right and up."""

Cell = tuple[int, int]

Place = TypeVar("Place", bound=Hashable)


def spread(start: Place, around: Callable[[Place], Iterable[Place]]) -> dict[Place, int]:
    """Return the distance from a start of all that it is joined to, the nearest first."""
    found, edge = {start: 0}, [start]
    for place in edge:
        for other in around(place):
            if other not in found:
                found[other] = found[place] + 1
                edge.append(other)
    return found


def draw(size: int, density: float, longest: int, rng: Random) -> list[Cell]:
    """Return the free cells of a grid.

    Parameters
    ----------
    size
        The number of cells along each side.
    density
        Which share of them is blocked, exact to rounding; all others are joined.
    longest
        How far apart two of them are at least.
    """
    grid = [(right, up) for right in range(size) for up in range(size)]
    wanted = len(grid) - round(density * len(grid))
    while True:
        free = dict.fromkeys(grid)
        while len(free) > wanted:
            cell = rng.choice(grid)
            # There always is a cell that all others are joined without.
            if cell in free and _joined(free.keys() - {cell}):
                del free[cell]
        around = _around(free)
        if any(max(spread(cell, around).values()) >= longest for cell in free):
            return list(free)


def _around(free: Container[Cell]) -> Callable[[Cell], list[Cell]]:
    """Return a function from a cell to the free cells beside it."""

    def around(cell: Cell) -> list[Cell]:
        beside = ((cell[0] + right, cell[1] + up) for right, up in DIRECTIONS.values())
        return [other for other in beside if other in free]

    return around


def _joined(free: Collection[Cell]) -> bool:
    """Return whether all free cells can be reached from one of them."""
    return len(spread(next(iter(free)), _around(free))) == len(free)


def walks(cells: Sequence[Cell], rng: Random) -> list[list[Cell]]:
    """Return walks, each as its cells, that lead over every passage between two cells once."""
    around = _around(set(cells))
    left = {cell: around(cell) for cell in cells}
    for others in left.values():
        rng.shuffle(others)
    drawn = []
    for cell in rng.sample(cells, len(cells)):
        while left[cell]:
            walk = [cell]
            while left[walk[-1]]:
                there = left[walk[-1]].pop()
                left[there].remove(walk[-1])
                walk.append(there)
            drawn.append(walk)
    return drawn
