"""Walks through a grid of places: what is told is one step after another, what is asked is the map.

An example of ``spatial`` (English, shortened)::

    In Slurbebridge people go for walks. Every path there can be walked in both directions, and
    there are no paths other than those mentioned.
    Corwin went north from the mill to the well.
    From the well one step east is the forge.
    ...

    How many steps is the shortest path from the mill to the forge in Slurbebridge?

    golds: ["2", "two", "2 steps"]

Some cells of a grid are blocked, the others are places that can all be reached. Walks lead over
each passage between two places once, so that the map is known from them. Three questions take
turns:

==========  ======================================================================
`length`    how many steps the shortest way has; the lengths take turns
`route`     the way itself, in letters; every shortest one is right
`stand`     where someone is who walks so and so; the way is always free
==========  ======================================================================

Each episode is in a town of its own, which every question names. What a route is worth that is not
the shortest, `walk` says.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import (
    Callable,
    Collection,
    Container,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeVar

from rulerlib.errors import whole_number
from rulerlib.languages import Language, slots
from rulerlib.memory.episodes import Episode, Episodes, Fact, Probe, told
from rulerlib.memory.sentences import ReadFact
from rulerlib.tasks.family import Checked, knob, share

QUESTIONS = ("length", "route", "stand")
"""What is asked, in turn."""

# The longest way that is asked for, and the most shortest routes that may lead there.
LONGEST, ROUTES = 7, 24

# The most questions about one episode: of each kind, lengths do not repeat. The densest grid.
PROBES, DENSEST = 12, 0.4

# What may stand between the letters of a route.
_BETWEEN = re.compile(r"[\s,.;:!>–→-]+")

WORDS = ("numbers", "units", "adjectives", "places")

Steps = Mapping[str, Mapping[str, str]]
"""A map: for each place, the place that each letter of a direction leads to."""


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about walks through a grid.

    Attributes
    ----------
    grid_size
        How many cells the grid has along each side, 3 to 12.
    obstacle_density
        Which share of its cells is blocked, 0 to 0.4.
    """

    grid_size: int = knob(5, whole_number, 3, 12)
    obstacle_density: float = knob(0.2, share, DENSEST)

    @property
    def most_probes(self) -> int:
        """How many questions one episode can be asked: 12."""
        return PROBES

    @property
    def lengths(self) -> range:
        """The lengths of ways that are asked for; every grid has them all."""
        # From one on in the smallest grid, so that no number is right too often.
        return range(1 if self.grid_size == 3 else 2, min(LONGEST, 2 * self.grid_size - 2) + 1)


SUITES = {"spatial": Knobs()}


DIRECTIONS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
"""The directions by their names in a language pack, as steps to the right and up."""

Cell = tuple[int, int]

Place = TypeVar("Place", bound=Hashable)


def spread(start: Place, around: Callable[[Place], Iterable[Place]]) -> dict[Place, int]:
    """Return the distance from a start of all that it is joined to, the nearest first."""
    steps, edge = {start: 0}, [start]
    for place in edge:
        for other in around(place):
            if other not in steps:
                steps[other] = steps[place] + 1
                edge.append(other)
    return steps


def draw(size: int, density: float, longest: int, rng: Random) -> list[Cell]:
    """Return the free cells of a grid of ``size`` cells along each side, all of them joined.

    A share of ``density`` is blocked, exact to rounding, and two are at least ``longest`` apart.
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


@dataclass(frozen=True, slots=True)
class Walk:
    """What became of a route: whether every step of it is free, where it ends or cannot go on.

    ``excess`` are the steps that it has more than the shortest way; NaN where it does not arrive.
    """

    valid: bool
    end: str
    arrives: bool
    excess: float


def letters(language: Language) -> dict[str, str]:
    """Return the letter of each direction by its word: ``{"north": "N", ...}``."""
    table = slots.section(language, "spatial")["directions"]
    return {table[name][0]: table[name][1] for name in DIRECTIONS}


def observed(
    facts: Iterable[Fact | ReadFact], language: Language, back: bool = True
) -> dict[str, dict[str, str]]:
    """Return the map that the steps of some facts make known, both ways where ``back`` says so."""
    steps: dict[str, dict[str, str]] = {}
    directions = letters(language)
    # A direction and its opposite stand two apart.
    words = [*directions]
    opposite = {directions[word]: directions[words[at - 2]] for at, word in enumerate(words)}
    for fact in facts:
        if "direction" in fact.values:
            letter = directions[fact.value("direction")]
            here, there = fact.value("from"), fact.value("to")
            steps.setdefault(here, {})[letter] = there
            if back:
                steps.setdefault(there, {})[opposite[letter]] = here
    return steps


def distances(steps: Steps, goal: str) -> dict[str, int]:
    """Return how many steps each place is from a goal, for all places that are joined to it."""
    return spread(goal, lambda place: steps.get(place, {}).values())


def routes(steps: Steps, start: str, goal: str) -> list[str]:
    """Return all shortest routes, in letters, in the order of the alphabet; none if there is none.

    >>> routes({"a": {"N": "b", "E": "c"}, "b": {"E": "d"}, "c": {"N": "d"}, "d": {}}, "a", "d")
    []
    >>> square = {"a": {"N": "b", "E": "c"}, "b": {"S": "a", "E": "d"},
    ...           "c": {"W": "a", "N": "d"}, "d": {"W": "b", "S": "c"}}
    >>> routes(square, "a", "d")
    ['EN', 'NE']
    """
    away = distances(steps, goal)

    def on(place: str) -> Iterator[str]:
        if place == goal:
            yield ""
        for letter, other in steps.get(place, {}).items():
            if away.get(other, math.inf) == away[place] - 1:
                yield from (letter + rest for rest in on(other))

    return sorted(on(start)) if start in away else []


def written(answer: str, language: Language) -> str | None:
    """Return the letters of a route that an answer says, ``"NE"`` of "N, E"; None of any other."""
    route = _BETWEEN.sub("", answer.upper())
    return route if route and {*route} <= {*letters(language).values()} else None


def walk(steps: Steps, start: str, goal: str, route: Sequence[str]) -> Walk:
    """Return what becomes of a route: a letter that is no direction is a step that is not free."""
    place = start
    for letter in route:
        if letter not in steps.get(place, {}):
            return Walk(False, place, False, math.nan)
        place = steps[place][letter]
    if place != goal:
        return Walk(True, place, False, math.nan)
    return Walk(True, place, True, len(route) - distances(steps, goal)[start])


class Spatial(Episodes):
    """Makes the episodes of one setting of the knobs."""

    knobs: Knobs
    section = "spatial"

    @property
    def limit(self) -> int:
        """How many episodes there are: as many as towns."""
        return self.names.count("town")

    def _episode(self, index: int, probes: int) -> Episode:
        rng = Random(f"{self.seed} spatial {index}")
        town = self.names.name("town", index)
        knobs = self.knobs
        cells = draw(knobs.grid_size, knobs.obstacle_density, knobs.lengths[-1], rng)
        named = dict(zip(cells, self._places(len(cells), rng), strict=True))
        facts = tuple(self._tell(town, named, rng))
        ways = [(fact.value("from"), fact.value("to"), fact.number) for fact in facts[1:]]
        passages = {pair: number for a, b, number in ways for pair in ((a, b), (b, a))}
        matter = TownMap(town, observed(facts, self.language), passages)
        seen = set[tuple[str, str]]()
        questions = []
        for place in range(probes):
            rng = Random(f"{self.seed} spatial {index} {place}")
            questions.append(self._ask(index + place, matter, seen, rng))
        return Episode(f"spatial-{index}", facts, tuple(questions))

    def _ask(self, turn: int, matter: TownMap, seen: set[tuple[str, str]], rng: Random) -> Probe:
        """Return the question of a turn, about none of the pairs and walks that were seen."""
        turn, at = divmod(turn, len(QUESTIONS))
        kind, length = QUESTIONS[at], self.knobs.lengths[turn % len(self.knobs.lengths)]
        directions, steps = letters(self.language), matter.steps
        words, facts = {"town": matter.town}, dict[str, Any]()
        if kind == "stand":
            way, places = _stroll(steps, length, seen, rng)
            start, goal = places[0], places[-1]
            spoken = {letter: word for word, letter in directions.items()}
            words["moves"], facts["moves"] = ", ".join(map(spoken.__getitem__, way)), way
            needs = matter.along(places)
        else:
            start, goal = _pair(steps, length, ROUTES if kind == "route" else math.inf, seen, rng)
            words |= {"goal": goal, "letters": ", ".join(directions.values())}
            needs = matter.between(start, goal)
        optimum = distances(steps, goal)[start]
        if kind == "stand":
            golds = self._place(goal)
        else:
            golds = self._number(optimum) if kind == "length" else (*routes(steps, start, goal),)
        text, _ = told(rng.choice(self.wording["ask"][kind]), words | {"start": start})
        facts |= {"town": matter.town, "start": start, "goal": goal, "optimum": optimum}
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

    def _places(self, count: int, rng: Random) -> list[str]:
        """Return the names of ``count`` places; none of them is another one with an adjective."""
        words = self.wording["words"]
        places, adjectives = words["places"], words["adjectives"]
        if count <= len(places):
            return [place.partition(" / ")[0] for place in rng.sample(places, count)]
        names = []
        for number in rng.sample(range(len(places) * len(adjectives)), count):
            place, adjective = divmod(number, len(adjectives))
            article, _, noun = places[place].rpartition(" / ")[2].partition(" ")
            names.append(f"{article} {adjectives[adjective]} {noun}")
        return names

    def _tell(self, town: str, named: Mapping[Cell, str], rng: Random) -> Iterator[Fact]:
        """Yield what opens the episode, and each step of all walks, one walk a day."""
        say = self.wording["say"]
        text, values = told(rng.choice(say["opening"]), {"town": town})
        yield Fact(0, text, 0, values)
        told_walks = walks(list(named), rng)
        numbers = itertools.count(1)
        for day, (who, cells) in enumerate(
            zip(rng.sample(self.names.people, len(told_walks)), told_walks, strict=True)
        ):
            for here, there in itertools.pairwise(cells):
                step = there[0] - here[0], there[1] - here[1]
                direction = next(name for name, way in DIRECTIONS.items() if way == step)
                words = {"who": who, "from": named[here], "to": named[there]}
                words["direction"] = self.wording["directions"][direction][0]
                text, values = told(rng.choice(say["step"] + say["walked"]), words)
                yield Fact(next(numbers), text, day, values)


class TownMap(NamedTuple):
    """What the questions of an episode are about: a town, its map, and who tells of which way.

    ``passages`` has the number of the fact that tells of the way between two places, both ways.
    """

    town: str
    steps: Steps
    passages: Mapping[tuple[str, str], int]

    def along(self, places: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of what must be known to walk so: the opening comes first."""
        numbers = (self.passages[pair] for pair in itertools.pairwise(places))
        return (0, *dict.fromkeys(numbers))

    def between(self, start: str, goal: str) -> tuple[int, ...]:
        """Return the numbers of what must be known to find every shortest way."""
        gone, left = distances(self.steps, start), distances(self.steps, goal)
        ways = (
            self.passages[place, other]
            for place in gone
            for other in self.steps[place].values()
            if gone[place] + 1 + left[other] == left[start]
        )
        return (0, *dict.fromkeys(ways))


def _pair(
    steps: Steps, length: int, most: float, seen: set[tuple[str, str]], rng: Random
) -> tuple[str, str]:
    """Return a start and a goal so far apart, or less far where more shortest routes lead there."""
    for shorter in range(length, 0, -1):
        for start in rng.sample(sorted(steps), len(steps)):
            away = distances(steps, start)
            goals = [place for place in away if away[place] == shorter]
            for goal in rng.sample(goals, len(goals)):
                few = most == math.inf or len(routes(steps, start, goal)) <= most
                if few and (start, goal) not in seen:
                    seen.add((start, goal))
                    return start, goal
    raise AssertionError("no way of one step is left")


def _stroll(
    steps: Steps, length: int, seen: set[tuple[str, str]], rng: Random
) -> tuple[str, list[str]]:
    """Return a walk, which turns back only where it must and does not end where it begins."""
    while True:
        places, way = [rng.choice(sorted(steps))], ""
        for _ in range(length):
            onward = {
                letter: place
                for letter, place in steps[places[-1]].items()
                if place not in places[-2:-1] or len(steps[places[-1]]) == 1
            }
            letter = rng.choice([*onward])
            way += letter
            places.append(onward[letter])
        if places[-1] != places[0] and (places[0], way) not in seen:
            seen.add((places[0], way))
            return way, places
