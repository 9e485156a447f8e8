"""Walks through a grid of places: the facts are single steps, the questions are about the map.

An example of ``spatial`` (English, shortened)::

    In Slurbebridge people go for walks. Every path there can be walked in both directions, and
    there are no paths other than those mentioned.
    Corwin went north from the mill to the well.
    From the well one step east is the forge.
    ...

    How many steps is the shortest path from the mill to the forge in Slurbebridge?

    golds: ["2", "two", "2 steps"]

Some cells of a grid are blocked; the others are places that can all be reached. The walks pass each
connection between two places once, so that they tell the whole map. Three kinds of questions
alternate:

==========  ======================================================================
`length`    the number of steps of a shortest route; the lengths alternate
`route`     a shortest route, as letters; every shortest one is right
`stand`     where somebody is after a walk, which is always possible
==========  ======================================================================

Each episode has its own town, which every question names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from pydantic import Field

from rulerlib.errors import validated
from rulerlib.languages import Language
from rulerlib.memory.episodes import Episode, Episodes, Fact, Probe, told

QUESTIONS = ("length", "route", "stand")
"""The kinds of questions, which alternate."""

# The longest route in a question, and the maximum number of shortest routes to its goal.
LONGEST, ROUTES = 7, 24

# Separators between the letters of a route.
_BETWEEN = re.compile(r"[\s,.;:!>–→-]+")

Steps = Mapping[str, Mapping[str, str]]
"""A map: for each place, the place that each letter of a direction leads to."""

DIRECTIONS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
"""The directions by their names in a language pack, as steps to the right and up."""

Cell = tuple[int, int]


@validated
class Knobs:
    """The settings of walks through a grid.

    Attributes
    ----------
    grid_size
        The number of cells along each side of the grid, 3 to 8.
    obstacle_density
        The share of blocked cells, 0 to 0.4.
    """

    grid_size: int = Field(5, ge=3, le=8)
    obstacle_density: float = Field(0.2, ge=0, le=0.4)
    # Lengths do not repeat in an episode.
    most_probes: ClassVar[int] = 12

    @property
    def lengths(self) -> range:
        """The lengths of the routes in questions; every grid has all of them."""
        # The smallest grid has few lengths, so 1 is among them and no number is right too often.
        return range(1 if self.grid_size == 3 else 2, min(LONGEST, 2 * self.grid_size - 2) + 1)


# --- The grid ----------------------------------------------------------------------------------


def _joined(cells: Collection[Cell]) -> dict[Cell, dict[str, Cell]]:
    """Return for each free cell its free neighbours, by direction."""
    return {
        (right, up): {
            name: (right + east, up + north)
            for name, (east, north) in DIRECTIONS.items()
            if (right + east, up + north) in cells
        }
        for right, up in cells
    }


def draw(size: int, density: float, longest: int, rng: Random) -> list[Cell]:
    """Return the free cells of a grid of ``size`` cells along each side, all of them connected.

    A share of ``density`` is blocked, and two free cells are at least ``longest`` steps apart.
    """
    grid = [(right, up) for right in range(size) for up in range(size)]
    wanted = len(grid) - round(density * len(grid))
    while True:
        free = dict.fromkeys(grid)
        while len(free) > wanted:
            cell = rng.choice(grid)
            # There is always a cell without which the others stay connected.
            others = dict.fromkeys(other for other in free if other != cell)
            if len(distances(_joined(others), next(iter(others)))) == len(others):
                free = others
        joined = _joined(free)
        if any(max(distances(joined, cell).values()) >= longest for cell in free):
            return list(free)


def walks(cells: Sequence[Cell], rng: Random) -> list[list[Cell]]:
    """Return walks that together pass every connection between two cells once."""
    left = {cell: [*beside.values()] for cell, beside in _joined(cells).items()}
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


# --- The map -----------------------------------------------------------------------------------


def letters(language: Language) -> dict[str, str]:
    """Return the letter of each direction by its word: ``{"north": "N", ...}``."""
    table = language.section("spatial")["directions"]
    return {table[name][0]: table[name][1] for name in DIRECTIONS}


def observed(
    facts: Iterable[Any], language: Language, back: bool = True
) -> dict[str, dict[str, str]]:
    """Return the map that facts tell, taught or read; with ``back``, steps lead both ways."""
    steps: dict[str, dict[str, str]] = {}
    directions = letters(language)
    north, east, south, west = directions.values()
    opposite = {north: south, east: west, south: north, west: east}
    for fact in facts:
        if "direction" in fact.values:
            letter = directions[fact.value("direction")]
            here, there = fact.value("from"), fact.value("to")
            steps.setdefault(here, {})[letter] = there
            if back:
                steps.setdefault(there, {})[opposite[letter]] = here
    return steps


def distances(steps: Mapping[Any, Mapping[str, Any]], goal: Any) -> dict[Any, int]:
    """Return the number of steps to a goal from all places connected to it, the nearest first."""
    away, queue = {goal: 0}, [goal]
    for place in queue:
        for other in steps.get(place, {}).values():
            if other not in away:
                away[other] = away[place] + 1
                queue.append(other)
    return away


def routes(steps: Steps, start: str, goal: str) -> list[str]:
    """Return all shortest routes as letters, in alphabetical order; empty if there is none.

    >>> routes({"a": {"N": "b", "E": "c"}, "b": {"E": "d"}, "c": {"N": "d"}, "d": {}}, "a", "d")
    []
    >>> square = {"a": {"N": "b", "E": "c"}, "b": {"S": "a", "E": "d"},
    ...           "c": {"W": "a", "N": "d"}, "d": {"W": "b", "S": "c"}}
    >>> routes(square, "a", "d")
    ['EN', 'NE']
    """
    away = distances(steps, goal)
    front = [("", start)] if start in away else []
    for left in range(away.get(start, 0) - 1, -1, -1):
        front = [
            (route + letter, other)
            for route, place in front
            for letter, other in steps.get(place, {}).items()
            if away.get(other) == left
        ]
    return sorted(route for route, _ in front)


def written(answer: str, language: Language) -> str | None:
    """Return the letters of a route in an answer, ``"NE"`` for "N, E", or None."""
    route = _BETWEEN.sub("", answer.upper())
    return route if route and {*route} <= {*letters(language).values()} else None


def walk(steps: Steps, start: str, route: Iterable[str]) -> str | None:
    """Return the place to which a route leads, or None if one of its steps is not free."""
    place: str | None = start
    for letter in route:
        place = steps.get(place or "", {}).get(letter)
    return place


# --- The episodes ------------------------------------------------------------------------------


class Spatial(Episodes):
    """Generates episodes with the same settings."""

    knobs: Knobs
    section = "spatial"

    def episode(self, index: int, probes: int = 1) -> Episode:
        rng, knobs = Random(f"{self.seed} spatial {index}"), self.knobs
        town = self.names.name("town", index)
        cells = draw(knobs.grid_size, knobs.obstacle_density, knobs.lengths[-1], rng)
        places = rng.sample(self.wording["words"]["places"], len(cells))
        facts = tuple(self._tell(town, dict(zip(cells, places, strict=True)), rng))
        # The number of the fact that tells the connection between two places.
        told_by = {}
        for fact in facts[1:]:
            here, there = fact.value("from"), fact.value("to")
            told_by[here, there] = told_by[there, here] = fact.number
        steps, seen, questions = observed(facts, self.language), set[tuple[str, str]](), []
        for place in range(probes):
            rng = Random(f"{self.seed} spatial {index} {place}")
            questions.append(self._ask(index + place, town, steps, told_by, seen, rng))
        return Episode(f"spatial-{index}", facts, tuple(questions))

    def _tell(self, town: str, named: Mapping[Cell, str], rng: Random) -> Iterator[Fact]:
        """Yield the opening of the episode, and each step of all walks, one walk a day."""
        say = self.wording["say"]
        text, values = told(rng.choice(say["opening"]), {"town": town})
        yield Fact(0, text, 0, values)
        drawn, beside = walks(list(named), rng), _joined(named)
        people = rng.sample(self.names.people, len(drawn))
        numbers = itertools.count(1)
        for day, (who, cells) in enumerate(zip(people, drawn, strict=True)):
            for here, there in itertools.pairwise(cells):
                (direction,) = (name for name, cell in beside[here].items() if cell == there)
                words = {"who": who, "from": named[here], "to": named[there]}
                words["direction"] = self.wording["directions"][direction][0]
                text, values = told(rng.choice(say["step"] + say["walked"]), words)
                yield Fact(next(numbers), text, day, values)

    def _ask(
        self,
        turn: int,
        town: str,
        steps: Steps,
        told_by: Mapping[tuple[str, str], int],
        seen: set[tuple[str, str]],
        rng: Random,
    ) -> Probe:
        """Return a question about none of the pairs and walks in ``seen``."""
        turn, at = divmod(turn, len(QUESTIONS))
        kind, length = QUESTIONS[at], self.knobs.lengths[turn % len(self.knobs.lengths)]
        directions, facts = letters(self.language), dict[str, Any]()
        if kind == "stand":
            way, places = _stroll(steps, length, seen, rng)
            start, goal, facts["moves"] = places[0], places[-1], way
            spoken = {letter: word for word, letter in directions.items()}
            words = {"moves": ", ".join(spoken[letter] for letter in way)}
            pairs = [*itertools.pairwise(places)]
            golds = self._place(goal)
        else:
            start, goal = _pair(steps, length, kind == "route", seen, rng)
            words = {"goal": goal, "letters": ", ".join(directions.values())}
            gone, left = distances(steps, start), distances(steps, goal)
            # The connections that belong to some shortest route.
            pairs = [
                (place, other)
                for place in gone
                for other in steps[place].values()
                if gone[place] + 1 + left[other] == left[start]
            ]
            golds = tuple(routes(steps, start, goal))
            if kind == "length":
                golds = self._number(len(golds[0]))
        words |= {"town": town, "start": start}
        text, _ = told(rng.choice(self.wording["ask"][kind]), words)
        optimum = distances(steps, goal)[start]
        facts |= {"town": town, "start": start, "goal": goal, "optimum": optimum}
        # The opening says that paths lead both ways.
        needs = (0, *dict.fromkeys(told_by[pair] for pair in pairs))
        return Probe(text, golds, needs, kind, facts)

    def _number(self, number: int) -> tuple[str, ...]:
        """Return the spellings of a number of steps."""
        words, form = self.wording["words"], self.wording["golds"]["length"]
        unit = words["units"][number > 1]
        return str(number), words["numbers"][number - 1], form.format(number=number, unit=unit)

    def _place(self, place: str) -> tuple[str, ...]:
        """Return the spellings of a place."""
        article, _, rest = place.partition(" ")
        bare = rest if article in self.language.articles else place
        form = self.wording["golds"]["stand"]
        return tuple(dict.fromkeys((place, bare, form.format(place=place))))


make = Spatial


def _pair(
    steps: Steps, length: int, few: bool, seen: set[tuple[str, str]], rng: Random
) -> tuple[str, str]:
    """Return a start and a goal so far apart, or closer if need be.

    With ``few``, at most `ROUTES` shortest routes lead to the goal.
    """
    for shorter in range(length, 0, -1):
        for start in rng.sample(sorted(steps), len(steps)):
            away = distances(steps, start)
            goals = [place for place in away if away[place] == shorter]
            for goal in rng.sample(goals, len(goals)):
                right = not few or len(routes(steps, start, goal)) <= ROUTES
                if right and (start, goal) not in seen:
                    seen.add((start, goal))
                    return start, goal
    raise AssertionError("no route of one step is left")


def _stroll(
    steps: Steps, length: int, seen: set[tuple[str, str]], rng: Random
) -> tuple[str, list[str]]:
    """Return a walk that turns back only if it must and does not end where it begins."""
    while True:
        places, way = [rng.choice(sorted(steps))], ""
        for _ in range(length):
            beside = steps[places[-1]]
            onward = {
                letter: place
                for letter, place in beside.items()
                if place not in places[-2:-1] or len(beside) == 1
            }
            letter = rng.choice([*onward])
            way += letter
            places.append(onward[letter])
        if places[-1] != places[0] and (places[0], way) not in seen:
            seen.add((places[0], way))
            return way, places
