"""The system ``smpd``: a map of places built from steps, and routes planned on it.

Taught texts become places and the steps between them; if the episode says that paths can be
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

import itertools
from typing import NamedTuple

from rulerlib.memory import spatial
from rulerlib.memory.episodes import told
from rulerlib.memory.reading import ReadQuestion, reader
from rulerlib.memory.search import WordSearch
from rulerlib.memory.spatial import Steps, letters, observed
from rulerlib.memory.system import Recalled, System, recalled


class Map(NamedTuple):
    """The places of an episode and the steps between them.

    Attributes
    ----------
    steps
        For each place, the place that each letter of a direction leads to.
    told
        The position of the text that tells the step between two places.
    openings
        The positions of the texts that say that paths lead both ways; without any, they do not.
    words
        For questions that are not about a route.
    """

    steps: Steps
    told: dict[tuple[str, str], int]
    openings: list[int]
    words: WordSearch

    def follow(self, start: str, moves: list[str]) -> list[str]:
        """Return the places on a walk; empty if a step is not on the map."""
        way = [spatial.walk(self.steps, start, moves[:count]) for count in range(len(moves) + 1)]
        return [place for place in way if place] if all(way) else []

    def plan(self, start: str, goal: str) -> list[str]:
        """Return the places on a shortest route; empty if there is none."""
        routes, queue = {start: [start]}, [start]
        for place in queue:
            for there in self.steps.get(place, {}).values():
                if there not in routes:
                    routes[there] = [*routes[place], there]
                    queue.append(there)
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
        read = map(reader(self.language).fact, self.texts)
        facts = {number: fact for number, fact in enumerate(read) if fact}
        openings = [number for number, fact in facts.items() if fact.kind == "opening"]
        steps, numbers = observed(facts.values(), self.language, bool(openings)), {}
        for number, fact in facts.items():
            if fact.kind == "step":
                here, there = fact.values["from"], fact.values["to"]
                numbers[here, there] = number
                if openings:
                    numbers[there, here] = number
        return Map(steps, numbers, openings, WordSearch(self.texts))

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
        start, plan = query.values["start"], self.language.section("memory")["plan"]
        if query.kind == "stand":
            directions = letters(self.language)
            way = places.follow(start, [directions[move] for move in query.moves])
        else:
            way = places.plan(start, query.values["goal"])
        pairs = [*itertools.pairwise(way)]
        if not pairs:
            return []
        words = {"a": start, "b": way[-1]}
        if query.kind == "stand":
            text, _ = told(plan["walk"], {**words, "moves": ", ".join(query.moves)})
        else:
            spatial = self.language.section("spatial")
            unit = spatial["words"]["units"][len(pairs) != 1]
            length = spatial["golds"]["length"].format(number=len(pairs), unit=unit)
            route = ""
            for here, there in pairs:
                beside = places.steps[here]
                route += next(letter for letter in beside if beside[letter] == there)
            text, _ = told(plan["way"], {**words, "length": length, "route": route})
        numbers = dict.fromkeys([*(places.told[pair] for pair in pairs), *places.openings[-1:]])
        texts = [self.texts[number] for number in numbers]
        return [Recalled(text, tuple(each.number for each in texts)), *recalled(texts)]
