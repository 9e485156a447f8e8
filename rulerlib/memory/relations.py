"""Relations: which edge a sentence tells, the graph that edges make, and the schemas of all graphs.

`rulerlib.memory.relation_graph` decides what becomes an edge, and follows questions.

>>> from rulerlib.languages import load
>>> from rulerlib.tasks.sentences import reader
>>> told = edge_of(reader(load("en")).fact("Corwin lives in Ely."))
>>> told.ends
('Corwin', 'home', 'Ely', '')
>>> graph = Graph()
>>> graph.insert(1, told)
>>> graph.support(2, told), graph.edges[0].told
(True, [1, 2])
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rulerlib.tasks.sentences import ReadFact

VISIT = "visit"
"""The relation of an event, from a person to a town."""

EVIDENCE = 2
"""How many names must have had two roles together before these belong to one kind. One name alone
may be a mistake."""

# What is said for a name and a role of which nothing is known.
_UNKNOWN = 0.5


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


class Schemas:
    """What kinds of things each relation leads from and to, learnt from what was taught.

    Nobody says that Halwen is a person: that teachers live somewhere and own ships is learnt from
    names that stand in several relations. A role is one end of a relation; roles that several names
    had together belong to one kind, and a fact fits where its names have roles of the right kinds.

    >>> schemas, had = Schemas(), {name: Counter() for name in ("Ada", "Bo", "Cy", "Di", "Ely")}
    >>> for teacher in ("Ada", "Bo", "Cy"):
    ...     schemas.learn("teacher", had["Di"], had[teacher])
    ...     schemas.learn("home", had[teacher], had["Ely"])
    >>> schemas.fit("home", had["Ada"], had["Ely"])
    0.875
    """

    def __init__(self, taught: dict[str, int] | None = None, pairs: Sequence[Any] = ()) -> None:
        self.taught = Counter(taught or {})
        self.pairs = Counter({(one, other): names for one, other, names in pairs})
        # The role that a role was joined to; those that stand alone are left out.
        self._joined: dict[str, str] = {}
        for pair, names in sorted(self.pairs.items()):
            if names >= EVIDENCE:
                self._join(*pair)

    def data(self) -> tuple[dict[str, int], list[Any]]:
        """Return all that was learnt as plain data."""
        return self.taught, [(*pair, names) for pair, names in self.pairs.items()]

    def fit(self, relation: str, subject: Counter[str], object: Counter[str]) -> float:  # noqa: A002
        """Return how well a relation between two names fits, 0 to 1; 0.5: nothing is known.

        Parameters
        ----------
        subject, object
            How often the two names have had each role so far.
        """
        taught, fits = self.taught[relation], 0.0
        for role, had in ((f"{relation} of", subject), (f"{relation} to", object)):
            kinds = {self._kind(other) for other in had if other in self._joined}
            if role in had or (role in self._joined and self._kind(role) in kinds):
                fits += (taught + _UNKNOWN) / (taught + 1)
            elif not kinds or role not in self._joined:
                fits += _UNKNOWN
            else:
                fits += _UNKNOWN / (taught + 1)
        return fits / 2

    def learn(self, relation: str, subject: Counter[str], object: Counter[str]) -> None:  # noqa: A002
        """Learn that a relation was taught of two names, and add its roles to theirs."""
        self.taught[relation] += 1
        for role, had in ((f"{relation} of", subject), (f"{relation} to", object)):
            for other in had if role not in had else ():
                pair = (role, other) if role < other else (other, role)
                self.pairs[pair] += 1
                if self.pairs[pair] == EVIDENCE:
                    self._join(*pair)
            had[role] += 1

    def _kind(self, role: str) -> str:
        while self._joined[role] != role:
            role = self._joined[role]
        return role

    def _join(self, one: str, other: str) -> None:
        for role in (one, other):
            self._joined.setdefault(role, role)
        # The smaller name stands for both, in whatever order they were learnt.
        first, second = sorted((self._kind(one), self._kind(other)))
        self._joined[second] = first


class Graph:
    """The graph of an episode, and what stands beside it.

    Attributes
    ----------
    roles
        How often each name had each role, in the order in which they were met.
    edges
        In the order in which they were inserted.
    """

    def __init__(self, data: Any = None) -> None:
        roles, edges = data or ({}, [])
        self.roles = {name: Counter[str](had) for name, had in roles.items()}
        self.edges = [Edge(*values) for values in edges]
        self._by_ends = {edge.ends: edge for edge in self.edges}

    def data(self) -> Any:
        """Return all of it as plain data."""
        return self.roles, [[*vars(edge).values()] for edge in self.edges]

    def had(self, name: str) -> Counter[str]:
        """Return the roles that a name has had."""
        return self.roles.setdefault(name, Counter())

    def support(self, fact: int, told: Edge) -> bool:
        """Return whether the edge of a fact is there already, which is then told once more."""
        edge = self._by_ends.get(told.ends)
        if edge is None:
            return False
        edge.told.append(fact)
        # The best note counts: whoever tells it again later still says so.
        if told.note and (not edge.note or (told.note == edge.note and told.rank > edge.rank)):
            edge.note, edge.rank = told.note, told.rank
            edge.told.insert(0, edge.told.pop())
        return True

    def insert(self, fact: int, told: Edge) -> None:
        """Add the edge of a fact."""
        told.told.append(fact)
        self.edges.append(told)
        self._by_ends[told.ends] = told

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
        return {name: place for place, name in enumerate(self.roles)}

    @cached_property
    def by_fact(self) -> dict[int, Edge]:
        """The edge that each fact tells."""
        return {fact: edge for edge in self.edges for fact in edge.told}
