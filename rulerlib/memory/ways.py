"""Ways: the map of places that some steps make known, and the shortest ways on it.

A way is planned by A*, led by the distance on the grid, which no way can be shorter than. Where
steps contradict each other, the places that they join have no coordinates, and A* is Dijkstra's
algorithm: breadth first, as all steps are equally long.

>>> ways = {1: {"north": Way("north", 2, 1)}, 2: {"east": Way("east", 3, 2)}}
>>> drawn = Map({"mill": 1, "well": 2, "inn": 3}, ways, located([(1, "north", 2), (2, "east", 3)]))
>>> steps, looked_at = drawn.plan(1, 3)
>>> [step.direction for step in steps], looked_at
(['north', 'east'], 3)
"""

from __future__ import annotations

import collections
import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rulerlib.memory.search import words_of
from rulerlib.tasks.spatial import DIRECTIONS


class Way(NamedTuple):
    """A step that can be walked.

    Attributes
    ----------
    direction
        A key of `DIRECTIONS`.
    there
        The place it leads to.
    fact
        What told of it, by its number in the store.
    """

    direction: str
    there: int
    fact: int


@dataclass(frozen=True)
class Map:
    """The places of an episode, by their numbers in the store, and the steps between them.

    Attributes
    ----------
    names
        The number of each place by its words in small letters.
    ways
        The steps that lead from each place, by direction.
    spots
        How far east and north the places are that have coordinates.
    macros
        The ways that are kept ready, as their directions, by start and goal.
    openings
        The facts that say that ways lead both ways, by the town, in small letters; without any,
        they do not.
    """

    names: Mapping[str, int]
    ways: Mapping[int, Mapping[str, Way]]
    spots: Mapping[int, tuple[int, int]]
    macros: Mapping[tuple[int, int], Sequence[str]] = field(default_factory=dict)
    openings: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def longest(self) -> int:
        """How many words the longest name has."""
        return max((name.count(" ") + 1 for name in self.names), default=0)

    def named(self, text: str) -> set[int]:
        """Return the places whose names stand in a text."""
        words = words_of(text)
        return {
            self.names[name]
            for size in range(1, self.longest + 1)
            for name in (" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
            if name in self.names
        }

    def follow(self, start: int, directions: Iterable[str]) -> list[Way]:
        """Return the steps in some directions, as far as they lead."""
        steps, place = list[Way](), start
        for direction in directions:
            step = self.ways.get(place, {}).get(direction)
            if step is None:
                break
            steps.append(step)
            place = step.there
        return steps

    def plan(
        self, start: int, goal: int, astar: bool = True, most: float = math.inf
    ) -> tuple[list[Way] | None, int]:
        """Return a shortest way, or None, and how many places were looked at for it.

        Parameters
        ----------
        start, goal
            Two places.
        astar
            Whether to be guided by coordinates, where both places have them.
        most
            After how many places to give up.
        """
        guided = astar and start in self.spots and goal in self.spots
        come: dict[int, tuple[int, Way]] = {}
        done = set[int]()
        # Of places that promise as much, first the one farthest from the start.
        edge = [(self._least(start, goal, guided), 0, start)]
        steps = {start: 0}
        while edge and len(done) < most:
            _, _, place = heapq.heappop(edge)
            if place in done:
                continue
            done.add(place)
            if place == goal:
                return _back(come, start, goal), len(done)
            gone = steps[place] + 1
            for way in self.ways.get(place, {}).values():
                if gone < steps.get(way.there, math.inf):
                    steps[way.there], come[way.there] = gone, (place, way)
                    promise = gone + self._least(way.there, goal, guided)
                    heapq.heappush(edge, (promise, -gone, way.there))
        return None, len(done)

    def _least(self, place: int, goal: int, guided: bool) -> int:
        """Return how many steps a way has at least."""
        if not guided:
            return 0
        (east, north), (far, up) = self.spots[place], self.spots[goal]
        return abs(east - far) + abs(north - up)


def _back(come: Mapping[int, tuple[int, Way]], start: int, goal: int) -> list[Way]:
    """Return the steps by which a goal was reached."""
    steps = []
    while goal != start:
        goal, way = come[goal]
        steps.append(way)
    return steps[::-1]


def opposite(direction: str) -> str:
    """Return the direction back.

    >>> opposite("north"), opposite("west")
    ('south', 'east')
    """
    names = [*DIRECTIONS]
    return names[names.index(direction) - 2]


def located(steps: Iterable[tuple[int, str, int]]) -> dict[int, tuple[int, int]]:
    """Return how far east and north each place is from the first one that it is joined to.

    >>> located([(1, "north", 2), (2, "east", 3), (4, "west", 5)])
    {1: (0, 0), 2: (0, 1), 3: (1, 1), 4: (0, 0), 5: (-1, 0)}

    Parameters
    ----------
    steps
        From where, in which direction, and to where; the places of steps that contradict each
        other, and all that are joined to them, are left out.
    """
    beside = collections.defaultdict[int, list[tuple[int, int, int]]](list)
    for here, direction, there in steps:
        east, north = DIRECTIONS[direction]
        beside[here].append((there, east, north))
        beside[there].append((here, -east, -north))
    found: dict[int, tuple[int, int]] = {}
    seen = set[int]()
    for first in beside:
        if first in seen:
            continue
        spots, edge, agrees = {first: (0, 0)}, [first], True
        for place in edge:
            for other, east, north in beside[place]:
                spot = spots[place][0] + east, spots[place][1] + north
                if other not in spots:
                    spots[other] = spot
                    edge.append(other)
                agrees &= spots[other] == spot
        seen |= spots.keys()
        # Nor can two places be in one spot.
        if agrees and len({*spots.values()}) == len(spots):
            found |= spots
    return found


def folded(name: str) -> str:
    """Return a name as its words in small letters, or as it is where it has none.

    >>> folded("Den  gamle Kirke-å")
    'den gamle kirke å'
    """
    return " ".join(words_of(name)) or name
