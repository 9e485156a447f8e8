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
from rulerlib.memory.search import WordSearch, words_of
from rulerlib.memory.sentences import ReadQuestion, reader
from rulerlib.memory.spatial import letters, opposites
from rulerlib.memory.system import Recalled, System, Text, recalled


class Step(NamedTuple):
    """A step on the map: its letter, the place it leads to, and the position of its text."""

    letter: str
    there: str
    text: int


class Map(NamedTuple):
    """The places of an episode and the steps between them.

    Places are known by their words in lower case, see `folded`.

    Attributes
    ----------
    names
        The first spelling of each place.
    steps
        The steps from each place, by their letters.
    openings
        By town, the text that says that paths lead both ways; without any, they do not.
    words
        For questions that are not about a route.
    """

    names: dict[str, str]
    steps: dict[str, dict[str, Step]]
    openings: dict[str, int]
    words: WordSearch

    def follow(self, start: str, route: Iterable[str]) -> list[Step]:
        """Return the steps with some letters; empty if one of them is not on the map."""
        steps, place = list[Step](), folded(start)
        for letter in route:
            if letter not in self.steps.get(place, {}):
                return []
            steps.append(self.steps[place][letter])
            place = steps[-1].there
        return steps

    def plan(self, start: str, goal: str) -> list[Step]:
        """Return the steps of a shortest route; empty if there is none."""
        routes: dict[str, list[Step]] = {folded(start): []}
        queue = [*routes]
        for place in queue:
            for step in self.steps.get(place, {}).values():
                if step.there not in routes:
                    routes[step.there] = [*routes[place], step]
                    queue.append(step.there)
        return routes.get(folded(goal), [])


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

    def build(self) -> Map:
        """See `System`.

        Of contradicting steps, the one that was told most often counts, and then the latest one.
        """
        places, read = Map({}, {}, {}, WordSearch(self.texts)), reader(self.language).fact
        told_by: dict[tuple[str, str, str], tuple[int, int]] = {}
        directions = letters(self.language)
        for number, text in enumerate(self.texts):
            fact = read(text)
            if fact is not None and fact.kind == "step":
                here, there = fact.values["from"], fact.values["to"]
                for name in (here, there):
                    places.names.setdefault(folded(name), name)
                step = folded(here), directions[fact.values["direction"]], folded(there)
                count, _ = told_by.get(step, (0, 0))
                told_by[step] = count + 1, number
            elif fact is not None and fact.kind == "opening":
                places.openings[folded(fact.values["town"])] = number
        opposite = opposites(self.language)
        for here, letter, there in sorted(told_by, key=lambda step: told_by[step]):
            _, number = told_by[here, letter, there]
            places.steps.setdefault(here, {})[letter] = Step(letter, there, number)
            if places.openings:
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
        opening = places.openings.get(folded(query.values["town"]))
        if places.openings and opening is None:
            return []
        start, plan = query.values["start"], wording(self.language)["plan"]
        if query.kind == "stand":
            directions = letters(self.language)
            steps = places.follow(start, [directions[move] for move in query.moves])
        else:
            steps = places.plan(start, query.values["goal"])
        if not steps:
            return []
        if query.kind == "stand":
            end = places.names[steps[-1].there]
            words = {"a": start, "moves": ", ".join(query.moves), "b": end}
            text, _ = told(plan["walk"], words)
        else:
            spatial = self.language.section("spatial")
            unit = spatial["words"]["units"][len(steps) != 1]
            number = {"number": str(len(steps)), "unit": unit}
            length, _ = told(spatial["golds"]["length"], number)
            route = "".join(step.letter for step in steps)
            words = {"a": start, "b": query.values["goal"], "length": length, "route": route}
            text, _ = told(plan["way"], words)
        numbers = dict.fromkeys(step.text for step in steps)
        texts: list[Text] = [self.texts[number] for number in numbers]
        if opening is not None:
            texts.append(self.texts[opening])
        return [Recalled(text, tuple(each.number for each in texts)), *recalled(texts)]
