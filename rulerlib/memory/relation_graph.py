"""The relation graph (``sgc_rss``): facts as relations between names.

A sentence is read by the wording of its language (`rulerlib.memory.sentences`) and becomes an edge:
who teaches whom, who was in which town on which day, which place lies north of another one. What is
told again gives support to its edge.

A question is read likewise, and followed through the graph relation by relation. Where two facts
disagree, the rule decides that the question states. For a question that cannot be followed to its
end, texts are found by their words, whether they were read or not.

>>> import tempfile
>>> from rulerlib.languages import load
>>> graph = RelationGraph(tempfile.mkdtemp(), Settings(), load("en"))
>>> home, lessons = "Corwin lives in Ely.", "Halwen takes lessons from Corwin."
>>> graph.teach("a", [Text(home, 0), Text(lessons, 1)])
>>> [recalled.text for recalled in graph.recall("a", "Where does Halwen's teacher live?")]
['Halwen takes lessons from Corwin.', 'Corwin lives in Ely.']
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from rulerlib.errors import LARGEST
from rulerlib.languages import Language
from rulerlib.memory.search import WordSearch
from rulerlib.memory.sentences import ReadFact, ReadQuestion, reader
from rulerlib.memory.system import Recalled, System, SystemSettings, Text

VISIT = "visit"
"""The relation of an event, from a person to a town."""

# The most relations that a question is followed over, and trails of a search.
_HOPS, _TRAILS = 4, 1_000


@dataclass
class Edge:
    """A relation between two names, as a sentence tells it.

    Attributes
    ----------
    subject, relation, object
        From where to where it leads, and the name of its relation.
    detail
        What tells two edges of the same relation and ends apart: the deed and the day of an event.
    note, rank
        See `rulerlib.memory.sentences.ReadFact`: ``"date"``, ``"source"`` or, of an event,
        ``"day"``.
    told
        The facts of a graph that tell it, the best one first.
    """

    subject: str
    relation: str
    object: str
    detail: str = ""
    note: str = ""
    rank: int = 0
    told: list[int] = field(default_factory=list)

    @property
    def fact(self) -> int:
        """The fact that is recalled for it."""
        return self.told[0]

    @property
    def ends(self) -> tuple[str, ...]:
        """What it has in common with whatever tells it again."""
        return self.subject, self.relation, self.object, self.detail


def edge_of(read: ReadFact | None) -> Edge | None:
    """Return the edge that a sentence tells; None: it tells none."""
    if read is None or read.kind == "opening":
        return None
    values = read.values
    if read.kind == "relation":
        note = next((by for by in ("date", "source") if by in values), "")
        return Edge(values["subject"], read.relation, values["object"], note=note, rank=read.rank)
    if read.kind == "event":
        detail = f"{values['when']} {values['did']} {values['what']}"
        return Edge(values["who"], VISIT, values["where"], detail, "day", read.rank)
    return Edge(values["from"], f"step {values['direction']}", values["to"])


class Graph:
    """The graph of an episode.

    Attributes
    ----------
    edges
        In the order in which they were inserted.
    """

    def __init__(self, data: Iterable[Any] | None = None) -> None:
        self.edges = [Edge(*values) for values in data or ()]
        self._by_ends = {edge.ends: edge for edge in self.edges}

    def data(self) -> list[list[Any]]:
        """Return all of it as plain data."""
        return [[*vars(edge).values()] for edge in self.edges]

    def insert(self, fact: int, told: Edge) -> None:
        """Add the edge of a fact; one that is there already is told once more."""
        edge = self._by_ends.get(told.ends)
        if edge is None:
            told.told.append(fact)
            self.edges.append(told)
            self._by_ends[told.ends] = told
            return
        edge.told.append(fact)
        # The best note counts: whoever tells it again later still says so.
        if told.note and (not edge.note or (told.note == edge.note and told.rank > edge.rank)):
            edge.note, edge.rank = told.note, told.rank
            edge.told.insert(0, edge.told.pop())

    @cached_property
    def around(self) -> dict[str, list[Edge]]:
        """The edges of each name, from it and to it."""
        table = defaultdict(list)
        for edge in self.edges:
            for name in dict.fromkeys((edge.subject, edge.object)):
                table[name].append(edge)
        return table

    @cached_property
    def leading(self) -> dict[tuple[str, str], list[Edge]]:
        """The edges from each name by their relation, those to names that were met first first."""
        table = defaultdict(list)
        for edge in sorted(self.edges, key=lambda edge: (self.places[edge.object], edge.detail)):
            table[edge.subject, edge.relation].append(edge)
        return table

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each name, in the order in which they were met."""
        names = (name for edge in self.edges for name in (edge.subject, edge.object))
        return {name: place for place, name in enumerate(dict.fromkeys(names))}

    @cached_property
    def by_fact(self) -> dict[int, Edge]:
        """The edge that each fact tells."""
        return {fact: edge for edge in self.edges for fact in edge.told}


@dataclass(frozen=True)
class Settings(SystemSettings):
    """What can be set about a relation graph.

    Attributes
    ----------
    k
        How many facts are recalled at most.
    """

    k: int = 5

    limits: ClassVar = {"k": (1, LARGEST)}


class _Trail(NamedTuple):
    """How far a question was followed: to which name, over how many relations, by which facts."""

    name: str
    gone: int = 0
    facts: tuple[int, ...] = ()


class RelationGraph(System):
    """A graph of relations for each episode."""

    kind = Graph

    settings: Settings

    def __init__(self, folder: str | Path, settings: Settings, language: Language) -> None:
        super().__init__(folder, settings, language)
        self._reader, self._words = reader(language), WordSearch(self.store)

    # ------------------------------------------------------------ teaching

    def learn(self, episode: str, texts: Sequence[Text]) -> None:
        """See `System`."""
        graph = self.held(episode)
        for text in texts:
            fact, told = self.store.add(episode, text), edge_of(self._reader.fact(text))
            if told is not None:
                graph.insert(fact, told)
        self._words.forget()
        self.store.note(episode, graph.data())

    # ------------------------------------------------------------ recalling

    def search(self, episode: str, question: str) -> list[Recalled]:
        """See `System`; the facts on the way to an answer come in the order of reasoning.

        Of a question that was followed to its end the first has a score of 1, of others less.
        """
        graph, query = self.held(episode), self._reader.question(question)
        facts, complete, names = list[int](), False, list[str]()
        if query and query.kind == "path":
            facts, complete, names = self._follow(graph, query)
        elif query:
            complete = bool(facts := self._events(graph, query))
        if not complete:
            # What tells of the names that the search came to is near the answer.
            cue = f"{question} {' '.join(names)}"
            facts += [hit.id for hit in self._words.search(episode, cue, self.settings.k)]
        kept = self.store.of(list(dict.fromkeys(facts))[: self.settings.k])
        return [
            Recalled(str(text), self._numbers(graph, text), 1 / place)
            for place, text in enumerate(kept, 1 if complete else 2)
        ]

    def _numbers(self, graph: Graph, text: Text) -> tuple[int, ...]:
        """Return the numbers of all facts that tell the same as one."""
        edge = graph.by_fact.get(text.id)
        alike = [text] if edge is None else self.store.of(edge.told)
        return tuple(sorted(other.number for other in alike))

    def _follow(self, graph: Graph, query: ReadQuestion) -> tuple[list[int], bool, list[str]]:
        """Return the facts on the way that a question asks for, and whether it was gone to the end.

        Also returns the names that the search came to.
        """
        done = self._walk(graph, query)
        gone = max(trail.gone for trail in done)
        best = [trail for trail in done if trail.gone == gone]
        facts = [fact for trail in best for fact in trail.facts]
        return facts, gone == len(query.path), [trail.name for trail in best]

    def _walk(self, graph: Graph, query: ReadQuestion) -> list[_Trail]:
        """Return how far the graph leads from the start of a question, in all ways."""
        ends, front = list[_Trail](), [_Trail(query.values["start"])]
        for relation in query.path[:_HOPS]:
            further = list[_Trail]()
            for before in front:
                edges = self._holding(graph.leading.get((before.name, relation), ()), query.rule)
                facts, gone = before.facts, before.gone + 1
                further += [_Trail(edge.object, gone, (*facts, edge.fact)) for edge in edges]
                ends += [] if edges else [before]
                if len(further) >= _TRAILS:
                    break
            front = further[:_TRAILS]
        return [*ends, *front]

    def _holding(self, edges: Sequence[Edge], rule: str | None) -> Sequence[Edge]:
        """Return edges that disagree but those that the rule overrules."""
        if rule is None:
            return edges
        most = max((edge.rank for edge in edges if edge.note == rule), default=0)
        return [edge for edge in edges if edge.note != rule or edge.rank == most]

    def _events(self, graph: Graph, query: ReadQuestion) -> list[int]:
        """Return the facts of the events that have all of who, where and when that is asked."""
        day = self._reader.day(query.values.get("when", ""))
        given = {"subject": query.values.get("who"), "object": query.values.get("where")}
        ends = {end: name for end, name in given.items() if name}
        if len(ends) + bool(day) < 2:
            return []
        facts = [
            edge.fact for edge in graph.around.get(next(iter(ends.values())), ())
            if edge.relation == VISIT and day in (0, edge.rank)
            and all(getattr(edge, end) == name for end, name in ends.items())
        ]  # fmt: skip
        return sorted(facts)[: self.settings.k]
