"""The relation graph (``sgc_rss``): facts as relations between names.

A sentence is read by the wording of its language (`rulerlib.memory.sentences`) and becomes an edge:
who teaches whom, who was in which town on which day, which place lies north of another one. A fact
that is told again supports the same edge.

A question is read in the same way and followed through the graph, relation by relation. Where two
facts contradict each other, the rule in the question decides. If a question cannot be followed to
its end, texts are found by their words.

>>> import tempfile
>>> from rulerlib.languages import load
>>> from rulerlib.memory.system import Text
>>> graph = RelationGraph(tempfile.mkdtemp(), Settings(), load("en"))
>>> graph.teach([Text("Corwin lives in Ely.", 0), Text("Halwen takes lessons from Corwin.", 1)])
>>> [found.text for found in graph.recall("Where does Halwen's teacher live?")]
['Halwen takes lessons from Corwin.', 'Corwin lives in Ely.']
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from rulerlib.errors import LARGEST
from rulerlib.memory.search import WordSearch
from rulerlib.memory.sentences import ReadFact, ReadQuestion, reader
from rulerlib.memory.system import Recalled, System, SystemSettings

VISIT = "visit"
"""The relation of an event, from a person to a town."""

# The maximum number of relations that a question is followed over, and of paths that are followed.
_MAX_HOPS, _MAX_PATHS = 4, 1_000


@dataclass
class Edge:
    """A relation between two names.

    Attributes
    ----------
    subject, relation, object
        The name it leads from, its relation, and the name it leads to.
    detail
        The deed and the day of an event; empty otherwise.
    note, rank
        What decides between contradicting edges (``"date"``, ``"source"``, or ``"day"`` of an
        event), and the rank, see `rulerlib.memory.sentences.ReadFact`.
    told
        The positions of the texts that tell it, the best one first.
    """

    subject: str
    relation: str
    object: str
    detail: str = ""
    note: str = ""
    rank: int = 0
    told: list[int] = field(default_factory=list)


def edge_of(read: ReadFact | None) -> Edge | None:
    """Return the edge that a sentence tells, or None."""
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
    """The edges of an episode, by where they lead from and by the text that tells them."""

    def __init__(self, facts: Sequence[ReadFact | None]) -> None:
        self.edges: dict[tuple[str, ...], Edge] = {}
        self.by_text: dict[int, Edge] = {}
        for place, read in enumerate(facts):
            edge = edge_of(read)
            if edge is not None:
                self.by_text[place] = self._insert(place, edge)
        met: dict[str, int] = {}
        for edge in self.edges.values():
            met.setdefault(edge.subject, len(met))
            met.setdefault(edge.object, len(met))
        self.leading = defaultdict[tuple[str, str], list[Edge]](list)
        for edge in sorted(self.edges.values(), key=lambda edge: (met[edge.object], edge.detail)):
            self.leading[edge.subject, edge.relation].append(edge)

    def _insert(self, place: int, edge: Edge) -> Edge:
        """Add the edge that a text tells, or support an edge that is there already."""
        known = self.edges.setdefault((edge.subject, edge.relation, edge.object, edge.detail), edge)
        known.told.append(place)
        # The best note counts; a later text without one does not take it back.
        better = known.note == edge.note and edge.rank > known.rank
        if known is not edge and edge.note and (better or not known.note):
            known.note, known.rank = edge.note, edge.rank
            known.told.insert(0, known.told.pop())
        return known


@dataclass(frozen=True)
class Settings(SystemSettings):
    """The settings of a relation graph: ``k`` texts are recalled at most."""

    k: int = 5

    limits: ClassVar = {"k": (1, LARGEST)}


class _Path(NamedTuple):
    """How far a question was followed: the name reached, the relations passed, and the texts."""

    name: str
    hops: int = 0
    texts: tuple[int, ...] = ()


class RelationGraph(System):
    """A graph of the relations in an episode."""

    settings: Settings

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
            for edge in graph.edges.values()
            if edge.relation == VISIT
            and who in (None, edge.subject)
            and where in (None, edge.object)
            and day in (0, edge.rank)
        ]
        return sorted(places)[: self.settings.k]
