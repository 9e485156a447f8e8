"""The system ``smpd``: a map of places built from steps, and routes planned on it.

What it is taught becomes places and the steps between them; if the episode says that paths can be
walked in both directions, each step leads both ways. Routes are planned breadth first.

>>> import tempfile
>>> from rulerlib import languages
>>> from rulerlib.memory.system import Settings, Text
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
from typing import NamedTuple

from rulerlib.memory.episodes import told
from rulerlib.memory.prompting import wording
from rulerlib.memory.search import WordSearch
from rulerlib.memory.sentences import ReadQuestion, reader
from rulerlib.memory.spatial import letters, opposites
from rulerlib.memory.system import Recalled, System, recalled


class Step(NamedTuple):
    """A step on the map: its letter, the place it leads to, and the position of its text."""

    letter: str
    there: str
    text: int


class Map(NamedTuple):
    """The places of an episode and the steps between them.

    Attributes
    ----------
    steps
        The steps from each place, by their letters.
    opening
        The position of the text that says that paths lead both ways, or None; then they do not.
    words
        For questions that are not about a route.
    """

    steps: dict[str, dict[str, Step]]
    opening: int | None
    words: WordSearch

    def follow(self, start: str, route: Iterable[str]) -> list[Step]:
        """Return the steps with some letters; empty if one of them is not on the map."""
        steps, place = list[Step](), start
        for letter in route:
            if letter not in self.steps.get(place, {}):
                return []
            steps.append(self.steps[place][letter])
            place = steps[-1].there
        return steps

    def plan(self, start: str, goal: str) -> list[Step]:
        """Return the steps of a shortest route; empty if there is none."""
        routes: dict[str, list[Step]] = {start: []}
        queue = [start]
        for place in queue:
            for step in self.steps.get(place, {}).values():
                if step.there not in routes:
                    routes[step.there] = [*routes[place], step]
                    queue.append(step.there)
        return routes.get(goal, [])


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

    def build(self) -> Map:
        """See `System`; of contradicting steps the latest one counts."""
        facts = [reader(self.language).fact(text) for text in self.texts]
        openings = [n for n, fact in enumerate(facts) if fact and fact.kind == "opening"]
        places = Map({}, openings[-1] if openings else None, WordSearch(self.texts))
        directions, opposite = letters(self.language), opposites(self.language)
        for number, fact in enumerate(facts):
            if fact and fact.kind == "step":
                here, there = fact.values["from"], fact.values["to"]
                letter = directions[fact.values["direction"]]
                places.steps.setdefault(here, {})[letter] = Step(letter, there, number)
                if openings:
                    back = Step(opposite[letter], here, number)
                    places.steps.setdefault(there, {})[back.letter] = back
        return places

    def search(self, index: Map, question: str) -> list[Recalled]:
        """See `System`."""
        query, k = reader(self.language).question(question), self.settings.k
        found = list[Recalled]()
        if query is not None and query.kind in ("length", "route", "stand"):
            found = self._planned(index, query)
        if not found:
            found = recalled([self.texts[place] for place in index.words.search(question, k)])
        return found[:k]

    def _planned(self, places: Map, query: ReadQuestion) -> list[Recalled]:
        """Return the plan for a question and the texts that it follows from; empty if none."""
        start, plan = query.values["start"], wording(self.language)["plan"]
        if query.kind == "stand":
            directions = letters(self.language)
            steps = places.follow(start, [directions[move] for move in query.moves])
        else:
            steps = places.plan(start, query.values["goal"])
        if not steps:
            return []
        words = {"a": start, "b": steps[-1].there}
        if query.kind == "stand":
            text, _ = told(plan["walk"], {**words, "moves": ", ".join(query.moves)})
        else:
            spatial = self.language.section("spatial")
            unit = spatial["words"]["units"][len(steps) != 1]
            length = spatial["golds"]["length"].format(number=len(steps), unit=unit)
            route = "".join(step.letter for step in steps)
            text, _ = told(plan["way"], {**words, "length": length, "route": route})
        numbers = [*dict.fromkeys(step.text for step in steps)]
        numbers += [] if places.opening is None else [places.opening]
        texts = [self.texts[number] for number in numbers]
        return [Recalled(text, tuple(each.number for each in texts)), *recalled(texts)]
