"""The system ``smpd``: a map of places built from steps, and routes planned on it.

What it is taught becomes places and the steps between them; if the episode says that paths can be
walked in both directions, each step leads both ways. Routes are planned breadth first.

>>> import tempfile
>>> from rulerlib import languages
>>> from rulerlib.memory.system import Text
>>> system = PlaceMap(tempfile.mkdtemp(), Settings(), languages.load("en"))
>>> told = ["Corwin went north from the mill to the well.", "One step east of the well is the inn."]
>>> system.teach([Text(text, number) for number, text in enumerate(told)])
>>> question = "How many steps is the shortest path from the mill to the inn in Slurbebridge?"
>>> [found.text for found in system.recall(question)][:2]
['The shortest way from the mill to the inn is NE, 2 steps.', \
'Corwin went north from the mill to the well.']
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from rulerlib.errors import LARGEST
from rulerlib.languages import Language
from rulerlib.memory.episodes import told
from rulerlib.memory.prompting import wording
from rulerlib.memory.search import WordSearch, words_of
from rulerlib.memory.sentences import ReadQuestion, reader
from rulerlib.memory.spatial import DIRECTIONS
from rulerlib.memory.system import Recalled, System, SystemSettings, recalled


@dataclass(frozen=True)
class Settings(SystemSettings):
    """The settings of a map: ``k`` texts are recalled at most, the plan among them."""

    k: int = 5

    limits: ClassVar = {"k": (1, LARGEST)}


class Step(NamedTuple):
    """A step on the map: its direction, the place it leads to, and the text that tells it."""

    direction: str
    there: str
    text: int


class Map:
    """The places of an episode and the steps between them.

    Places are known by their words in lower case, see `folded`.

    Attributes
    ----------
    names
        The first spelling of each place.
    openings
        By town, the text that says that paths lead both ways; without any, they do not.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.openings: dict[str, int] = {}
        self._told: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._steps: dict[str, dict[str, Step]] = {}

    def tell(self, here: str, direction: str, there: str, text: int) -> None:
        """Add a step that a text tells."""
        for name in (here, there):
            self.names.setdefault(folded(name), name)
        step = folded(here), direction, folded(there)
        count, _ = self._told.get(step, (0, 0))
        self._told[step] = count + 1, text

    def link(self) -> None:
        """Link the places by the taught steps.

        Of contradicting steps, the one that was told most often counts, and then the latest one.
        """
        names = list(DIRECTIONS)
        for (here, direction, there), told_by in sorted(
            self._told.items(), key=lambda item: item[1]
        ):
            self._steps.setdefault(here, {})[direction] = Step(direction, there, told_by[1])
            if self.openings:
                back = names[names.index(direction) - 2]
                self._steps.setdefault(there, {})[back] = Step(back, here, told_by[1])

    def follow(self, start: str, directions: Iterable[str]) -> list[Step]:
        """Return the steps in some directions, as far as they lead."""
        steps, place = list[Step](), folded(start)
        for direction in directions:
            step = self._steps.get(place, {}).get(direction)
            if step is None:
                break
            steps.append(step)
            place = step.there
        return steps

    def plan(self, start: str, goal: str) -> list[Step]:
        """Return the steps of a shortest route; empty if there is none."""
        first = folded(start)
        came_by, queue = dict[str, tuple[str, Step]](), [first]
        for place in queue:
            for step in self._steps.get(place, {}).values():
                if step.there != first and step.there not in came_by:
                    came_by[step.there] = place, step
                    queue.append(step.there)
        route, place = list[Step](), folded(goal)
        while place in came_by:
            place, step = came_by[place]
            route.append(step)
        return route[::-1]


def folded(name: str) -> str:
    """Return a name as its words in lower case, or unchanged if it has none.

    >>> folded("Den  gamle Kirke-å")
    'den gamle kirke å'
    """
    return " ".join(words_of(name)) or name


class PlaceMap(System):
    """A map of an episode, on which routes are planned.

    For a question about a route it recalls a text with the plan, then the texts that tell its
    steps, then the one that says that paths lead both ways. For other questions it searches by
    words.

    Raises
    ------
    DataError
        If the language has no wording for walks and plans.
    """

    settings: Settings

    def __init__(self, folder: str | Path, settings: Settings, language: Language) -> None:
        super().__init__(folder, settings, language)
        self._plan, self._spatial = wording(language)["plan"], language.section("spatial")
        table = self._spatial["directions"]
        self._letters = {name: table[name][1] for name in DIRECTIONS}
        self._directions = {table[name][0]: name for name in DIRECTIONS}

    def build(self) -> tuple[Map, WordSearch]:
        """See `System`."""
        places = Map()
        for number, text in enumerate(self.texts):
            read = reader(self.language).fact(text)
            if read is not None and read.kind == "step":
                direction = self._directions[read.values["direction"]]
                places.tell(read.values["from"], direction, read.values["to"], number)
            elif read is not None and read.kind == "opening":
                places.openings[folded(read.values["town"])] = number
        places.link()
        return places, WordSearch(self.texts)

    def search(self, index: tuple[Map, WordSearch], question: str) -> list[Recalled]:
        """See `System`."""
        places, words = index
        query = reader(self.language).question(question)
        found = list[Recalled]()
        if query is not None and query.kind in ("length", "route", "stand"):
            found = self._planned(places, query)
        if not found:
            hits = words.search(question, self.settings.k)
            found = recalled([self.texts[place] for place in hits])
        return found[: self.settings.k]

    def _planned(self, places: Map, query: ReadQuestion) -> list[Recalled]:
        """Return the plan for a question and the texts that it follows from; empty if none."""
        start = query.values["start"]
        opening = places.openings.get(folded(query.values["town"]))
        if folded(start) not in places.names or (places.openings and opening is None):
            return []
        if query.kind == "stand":
            steps = places.follow(start, [self._directions[move] for move in query.moves])
            if len(steps) < len(query.moves):
                return []
            end = places.names[steps[-1].there]
            words = {"a": start, "moves": ", ".join(query.moves), "b": end}
            text, _ = told(self._plan["walk"], words)
        else:
            goal = query.values["goal"]
            steps = places.plan(start, goal)
            if not steps:
                return []
            unit = self._spatial["words"]["units"][len(steps) != 1]
            number = {"number": str(len(steps)), "unit": unit}
            length, _ = told(self._spatial["golds"]["length"], number)
            route = "".join(self._letters[step.direction] for step in steps)
            words = {"a": start, "b": goal, "length": length, "route": route}
            text, _ = told(self._plan["way"], words)
        numbers = [*dict.fromkeys(step.text for step in steps)]
        if opening is not None:
            numbers.append(opening)
        texts = [self.texts[number] for number in numbers]
        return [Recalled(text, tuple(each.number for each in texts)), *recalled(texts)]
