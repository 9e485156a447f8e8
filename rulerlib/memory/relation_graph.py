"""The relation graph (``sgc_rss``): facts as relations between names.

A sentence is read by the wording of its language (`rulerlib.memory.sentences`) and becomes an edge:
who teaches whom, who was in which town on which day, which place lies north of another one. A fact
that is told again supports the same edge.

A question is read in the same way and followed through the graph, relation by relation. Where two
facts contradict each other, the rule in the question decides. If a question cannot be followed to
its end, texts are found by their words.

>>> import tempfile
>>> from rulerlib.languages import load
>>> from rulerlib.memory.system import Settings, Text
>>> graph = RelationGraph(tempfile.mkdtemp(), Settings(), load("en"))
>>> graph.teach([Text("Corwin lives in Ely.", 0), Text("Halwen takes lessons from Corwin.", 1)])
>>> [found.text for found in graph.recall("Where does Halwen's teacher live?")]
['Halwen takes lessons from Corwin.', 'Corwin lives in Ely.']
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rulerlib.memory.search import WordSearch
from rulerlib.memory.sentences import ReadFact, ReadQuestion, reader
from rulerlib.memory.system import Recalled, System

# The maximum number of relations that a question is followed over, and of paths that are followed.
_MAX_HOPS, _MAX_PATHS = 4, 1_000


@dataclass
class Edge:
    """A relation between two names, or an event, which leads from a person to a town.

    Attributes
    ----------
    subject, object
        The names it leads from and to.
    note, rank
        What decides between contradicting edges (``"date"``, ``"source"``, or ``"day"`` of an
        event), and the rank, see `rulerlib.memory.sentences.ReadFact`.
    told
        The positions of the texts that tell it, the best one first.
    """

    subject: str
    object: str
    note: str = ""
    rank: int = 0
    told: list[int] = field(default_factory=list)


class Graph:
    """The edges of an episode.

    Attributes
    ----------
    by_text
        The edge that the text at a position tells.
    leading
        The relations that lead from a name, by the name and the relation.
    events
        The edges of events.
    """

    def __init__(self, facts: Sequence[ReadFact | None]) -> None:
        self.by_text: dict[int, Edge] = {}
        self.leading = defaultdict[tuple[str, str], list[Edge]](list)
        self.events: list[Edge] = []
        edges: dict[tuple[str, ...], Edge] = {}
        for place, read in enumerate(facts):
            if read is None or read.kind not in ("relation", "event"):
                continue
            values, note = read.values, "day"
            names = values.get("subject") or values["who"], values.get("object") or values["where"]
            key: tuple[str, ...] = (*names, read.relation)
            if read.kind == "relation":
                note = next((by for by in ("date", "source") if by in values), "")
            else:
                key += values["when"], values["did"], values["what"]
            if key not in edges:
                edges[key] = Edge(*names)
                (self.leading[names[0], read.relation] if read.relation else self.events).append(
                    edges[key]
                )
            self.by_text[place] = edge = edges[key]
            edge.told.append(place)
            # The best note counts; a later text without one does not take it back.
            if note and (not edge.note or (edge.note == note and read.rank > edge.rank)):
                edge.note, edge.rank = note, read.rank
                edge.told.insert(0, edge.told.pop())


class _Path(NamedTuple):
    """How far a question was followed: the name reached, the relations passed, and the texts."""

    name: str
    hops: int = 0
    texts: tuple[int, ...] = ()


class RelationGraph(System):
    """A graph of the relations in an episode."""

    def build(self) -> tuple[Graph, WordSearch]:
        """See `System`."""
        read = reader(self.language).fact
        return Graph([read(text) for text in self.texts]), WordSearch(self.texts)

    def search(self, index: tuple[Graph, WordSearch], question: str) -> list[Recalled]:
        """See `System`; the texts on the way to an answer come in the order of reasoning."""
        (graph, words), k = index, self.settings.k
        query = reader(self.language).question(question)
        places, complete, names = list[int](), False, list[str]()
        if query and query.kind == "path":
            paths = self._follow(graph, query)
            hops = max(path.hops for path in paths)
            furthest = [path for path in paths if path.hops == hops]
            places = [place for path in furthest for place in path.texts]
            complete, names = hops == len(query.path), [path.name for path in furthest]
        elif query:
            places = self._events(graph, query)
            complete = bool(places)
        if not complete:
            # Texts about the names that were reached are close to the answer.
            places += words.search(f"{question} {' '.join(names)}", k)
        found = []
        for place in list(dict.fromkeys(places))[:k]:
            edge = graph.by_text.get(place)
            alike = [place] if edge is None else edge.told
            numbers = sorted(self.texts[other].number for other in alike)
            found.append(Recalled(str(self.texts[place]), tuple(numbers)))
        return found

    def _follow(self, graph: Graph, query: ReadQuestion) -> list[_Path]:
        """Return all paths from the start of a question, as far as each leads."""
        ends, front = list[_Path](), [_Path(query.values["start"])]
        for relation in query.path[:_MAX_HOPS]:
            further = list[_Path]()
            for path in front:
                edges = graph.leading.get((path.name, relation), [])
                if query.rule is not None:
                    best = max((edge.rank for edge in edges if edge.note == query.rule), default=0)
                    edges = [edge for edge in edges if edge.note != query.rule or edge.rank == best]
                for edge in edges:
                    texts = (*path.texts, edge.told[0])
                    further.append(_Path(edge.object, path.hops + 1, texts))
                if not edges:
                    ends.append(path)
                if len(further) >= _MAX_PATHS:
                    break
            front = further[:_MAX_PATHS]
        return [*ends, *front]

    def _events(self, graph: Graph, query: ReadQuestion) -> list[int]:
        """Return the texts of the events with the person, town and day in a question."""
        who, where = query.values.get("who"), query.values.get("where")
        day = reader(self.language).day(query.values.get("when", ""))
        if bool(who) + bool(where) + bool(day) < 2:
            return []
        places = [
            edge.told[0]
            for edge in graph.events
            if who in (None, edge.subject)
            and where in (None, edge.object)
            and day in (0, edge.rank)
        ]
        return sorted(places)[: self.settings.k]
