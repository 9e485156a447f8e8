"""Relations: which edge a sentence tells, and the graph that edges make.

`rulerlib.memory.relation_graph` decides what becomes an edge, and follows questions.

>>> from rulerlib.languages import load
>>> from rulerlib.tasks.sentences import reader
>>> told = edge_of(reader(load("en")).fact("Corwin lives in Ely."))
>>> told.ends
('Corwin', 'home', 'Ely', '')
>>> graph = Graph()
>>> graph.insert(1, told)
>>> graph.insert(2, told)
>>> graph.edges[0].told
[1, 2]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rulerlib.tasks.sentences import ReadFact

VISIT = "visit"
"""The relation of an event, from a person to a town."""


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
        See `rulerlib.tasks.sentences.ReadFact`: ``"date"``, ``"source"`` or, of an event,
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
