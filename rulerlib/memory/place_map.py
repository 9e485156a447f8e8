"""The system ``smpd``: a map of places from the steps that were told, and ways planned on it.

What it is taught becomes places and the steps between them; where the episode says that ways can be
walked back, each step leads both ways. A way is planned breadth first.

>>> import tempfile
>>> from rulerlib import languages
>>> system = PlaceMap(tempfile.mkdtemp(), Settings(), languages.load("en"))
>>> told = ["Corwin went north from the mill to the well.", "One step east of the well is the inn."]
>>> system.teach("walks-0", [Text(text, number) for number, text in enumerate(told)])
>>> question = "How many steps is the shortest path from the mill to the inn in Slurbebridge?"
>>> [recalled.text for recalled in system.recall("walks-0", question)][:2]
['The shortest way from the mill to the inn is NE, 2 steps.', \
'Corwin went north from the mill to the well.']
>>> system.close()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from rulerlib.errors import LARGEST
from rulerlib.languages import Language
from rulerlib.memory.episodes import told as worded
from rulerlib.memory.prompting import wording
from rulerlib.memory.search import WordSearch, words_of
from rulerlib.memory.sentences import reader
from rulerlib.memory.spatial import DIRECTIONS
from rulerlib.memory.system import Recalled, System, SystemSettings, Text


@dataclass(frozen=True)
class Settings(SystemSettings):
    """What can be set about a map.

    Attributes
    ----------
    k
        How many texts are recalled at most, the plan among them.
    """

    k: int = 5

    limits: ClassVar = {"k": (1, LARGEST)}


class MapStep(NamedTuple):
    """A step that can be walked: in which direction, to which place, and what told of it."""

    direction: str
    there: int
    fact: int


class PlaceGraph:
    """The places of an episode, by number, and the steps between them.

    Parameters
    ----------
    data
        As `data` returns it; None: nothing was told.

    Attributes
    ----------
    places
        The names of the places, by their numbers.
    numbers
        The number of each place by its words in small letters.
    openings
        The facts that say that ways lead both ways, by the town, in small letters; without any,
        they do not.
    ways
        The steps that lead from each place, by direction.
    """

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        data = data or {"places": [], "told": [], "openings": {}}
        self.places: list[str] = data["places"]
        self.numbers = {folded(name): place for place, name in enumerate(self.places)}
        # How often each step was told, and by which fact last.
        self.told = {(here, way, there): rest for here, way, there, *rest in data["told"]}
        self.openings: dict[str, int] = data["openings"]
        self.link()

    def data(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "places": self.places,
            "told": [(*step, *rest) for step, rest in self.told.items()],
            "openings": self.openings,
        }

    def number(self, name: str) -> int:
        """Return the number of a place, a new one where it was not told of."""
        if folded(name) not in self.numbers:
            self.numbers[folded(name)] = len(self.places)
            self.places.append(name)
        return self.numbers[folded(name)]

    def tell(self, here: int, direction: str, there: int, fact: int) -> None:
        """Tell of a step; the last fact that does stands for it."""
        times, _ = self.told.get((here, direction, there), (0, 0))
        self.told[here, direction, there] = [times + 1, fact]

    def link(self) -> None:
        """Link the places by what was told of steps.

        Of steps that contradict each other the one holds that was told most often, and of two that
        were told as often the later one.
        """
        self.ways: dict[int, dict[str, MapStep]] = {}
        order = sorted(self.told.items(), key=lambda item: item[1])
        for (here, direction, there), (_, fact) in order:
            self.ways.setdefault(here, {})[direction] = MapStep(direction, there, fact)
            if self.openings:
                names = [*DIRECTIONS]
                back = names[names.index(direction) - 2]
                self.ways.setdefault(there, {})[back] = MapStep(back, here, fact)

    def follow(self, start: int, directions: Iterable[str]) -> list[MapStep]:
        """Return the steps in some directions, as far as they lead."""
        steps, place = list[MapStep](), start
        for direction in directions:
            step = self.ways.get(place, {}).get(direction)
            if step is None:
                break
            steps.append(step)
            place = step.there
        return steps

    def plan(self, start: int, goal: int) -> list[MapStep]:
        """Return a shortest way, empty without any."""
        come, edge = dict[int, tuple[int, MapStep]](), [start]
        for place in edge:
            for step in self.ways.get(place, {}).values():
                if step.there != start and step.there not in come:
                    come[step.there] = place, step
                    edge.append(step.there)
        way, place = list[MapStep](), goal
        while place in come:
            place, step = come[place]
            way.append(step)
        return way[::-1]


def folded(name: str) -> str:
    """Return a name as its words in small letters, or as it is where it has none.

    >>> folded("Den  gamle Kirke-å")
    'den gamle kirke å'
    """
    return " ".join(words_of(name)) or name


class PlaceMap(System):
    """A map of places for each episode, on which ways are planned; see `System`.

    What it recalls for a question about a way is first a text with the plan, then what told of the
    steps that it goes over, and that they can be walked back. For another question it is what
    shares words with it.

    Raises
    ------
    DataError
        If the language has no wording for walks and plans.
    """

    kind = PlaceGraph

    settings: Settings

    def __init__(self, folder: str | Path, settings: Settings, language: Language) -> None:
        # Before a store is made that nothing could be taught to.
        self._plan, self._spatial = wording(language)["plan"], language.section("spatial")
        super().__init__(folder, settings, language)
        self._reader, self._words = reader(language), WordSearch(self.store)
        table = {name: self._spatial["directions"][name] for name in DIRECTIONS}
        self._letters = {name: letter for name, (_, letter) in table.items()}
        self._directions = {word: name for name, (word, _) in table.items()}

    # ------------------------------------------------------------ teaching

    def learn(self, episode: str, texts: Sequence[Text]) -> None:
        """See `System`. A step goes into the map whether it was expected or not."""
        graph = self.held(episode)
        for text in texts:
            fact, read = self.store.add(episode, text), self._reader.fact(text)
            if read is not None and read.kind == "step":
                ends = [graph.number(read.values[end]) for end in ("from", "to")]
                direction = self._directions[read.values["direction"]]
                graph.tell(ends[0], direction, ends[1], fact)
            elif read is not None and read.kind == "opening":
                graph.openings[folded(read.values["town"])] = fact
        self._words.forget()
        graph.link()
        self.store.note(episode, graph.data())

    # ------------------------------------------------------------ recalling

    def search(self, episode: str, question: str) -> list[Recalled]:
        """See `System`."""
        most, texts = self.settings.k, self._planned(self.held(episode), question)
        if not texts:
            hits = self._words.search(episode, question, most)
            kept = self.store.of([fact for fact, _ in hits])
            scores = [score / (1 + score) for _, score in hits]
            texts = [
                Recalled(str(text), (text.number,), score)
                for text, score in zip(kept, scores, strict=True)
            ]
        return texts[:most]

    def _planned(self, graph: PlaceGraph, question: str) -> list[Recalled]:
        """Return the plan for a question about a way, and what told of its steps; or nothing."""
        query = self._reader.question(question)
        if query is None or query.kind not in ("length", "route", "stand"):
            return []
        start = graph.numbers.get(folded(query.values["start"]))
        opening = graph.openings.get(folded(query.values["town"]))
        if start is None or (graph.openings and opening is None):
            return []
        words = {"a": query.values["start"]}
        if query.kind == "stand":
            steps = graph.follow(start, map(self._directions.__getitem__, query.moves))
            if len(steps) < len(query.moves):
                return []
            words |= {"moves": ", ".join(query.moves), "b": graph.places[steps[-1].there]}
            text, _ = worded(self._plan["walk"], words)
        else:
            words["b"] = query.values["goal"]
            goal = graph.numbers.get(folded(words["b"]))
            steps = [] if goal is None else graph.plan(start, goal)
            if not steps:
                return []
            unit = self._spatial["words"]["units"][len(steps) != 1]
            number = {"number": str(len(steps)), "unit": unit}
            words["length"], _ = worded(self._spatial["golds"]["length"], number)
            words["route"] = "".join(self._letters[step.direction] for step in steps)
            text, _ = worded(self._plan["way"], words)
        facts = [*dict.fromkeys(step.fact for step in steps)]
        texts = self.store.of([*facts, *([] if opening is None else [opening])])
        plan = Recalled(text, tuple(told.number for told in texts), 2.0)
        rest = (Recalled(str(told), (told.number,), 1 / at) for at, told in enumerate(texts, 1))
        return [plan, *rest]
