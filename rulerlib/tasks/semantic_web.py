"""How facts link into chains: the relations, and what an episode says of whom.

>>> paths("river", 2)[:2]
(('mouth', 'mayor'), ('mouth', 'vicar'))
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from rulerlib.tasks.telling import Names

RELATIONS: dict[str, tuple[str, str]] = {
    "teacher": ("person", "person"),
    "doctor": ("person", "person"),
    "lawyer": ("person", "person"),
    "guardian": ("person", "person"),
    "employer": ("person", "person"),
    "bookkeeper": ("person", "person"),
    "gardener": ("person", "person"),
    "barber": ("person", "person"),
    "home": ("person", "town"),
    "birthplace": ("person", "town"),
    "owned": ("person", "ship"),
    "mayor": ("town", "person"),
    "vicar": ("town", "person"),
    "market": ("town", "town"),
    "river": ("town", "river"),
    "port": ("ship", "town"),
    "yard": ("ship", "town"),
    "captain": ("ship", "person"),
    "mate": ("ship", "person"),
    "mouth": ("river", "town"),
}
"""The kinds of what a relation leads from and to, by its name."""

KINDS = ("person", "town", "ship", "river")
"""The kinds of what has a name. A question begins at one of the first three, in turn."""


class Link(NamedTuple):
    """One relation between two names."""

    subject: str
    relation: str
    object: str


@dataclass
class Chain:
    """What one question is about.

    Attributes
    ----------
    start, path
        Where it begins, and the relations that it goes over.
    links
        The numbers of its links, those that hold.
    overruled
        The number of the link that disagrees with one of them, None if there is none.
    wrong
        Where the chain ends for whoever takes the overruled link.
    """

    start: str
    path: tuple[str, ...]
    links: list[int] = field(default_factory=list)
    overruled: int | None = None
    wrong: str | None = None


class Web:
    """The links of an episode, as they are drawn: of a name and a relation there is one at most.

    Attributes
    ----------
    links
        All links; their place is their number.
    """

    def __init__(self, names: Names, rng: Random) -> None:
        self._names, self._rng = names, rng
        self.links: list[Link] = []
        self._used = set[tuple[str, str]]()
        self._known = set[str]()
        self._present = defaultdict[str, list[str]](list)
        self._open: list[tuple[str, str]] = []

    def keep(self, name: str, relation: str) -> None:
        """Keep a link free for the chain that begins with it."""
        self._used.add((name, relation))

    def free(self, kind: str, relation: str, without: Container[str]) -> str:
        """Return a name at random that has no such relation yet, and keep it free."""
        name = self.other(kind, without)
        while (name, relation) in self._used:
            name = self.other(kind, without)
        self.keep(name, relation)
        return name

    def other(self, kind: str, without: Container[str]) -> str:
        """Return a name at random that is none of some others."""
        name = self._names.draw(kind, self._rng)
        while name in without:
            name = self._names.draw(kind, self._rng)
        return name

    def add(self, subject: str, relation: str, target: str) -> int:
        """Add a link, and return its number."""
        self._used.add((subject, relation))
        for name, kind in zip((subject, target), RELATIONS[relation], strict=True):
            self._meet(name, kind)
        self.links.append(Link(subject, relation, target))
        return len(self.links) - 1

    def chain(
        self, start: str, path: tuple[str, ...], ends: set[str], without: set[str]
    ) -> list[int]:
        """Add a chain of links from a start over all relations of a path, and return their numbers.

        Parameters
        ----------
        ends
            Where it must not end; its end is added to them.
        without
            What it must not lead over.
        """
        numbers, name, passed = [], start, without | {start}
        for relation, further in zip(path, (*path[1:], None), strict=True):
            kind = RELATIONS[relation][1]
            target = (
                self.free(kind, further, passed) if further else self.other(kind, passed | ends)
            )
            numbers.append(self.add(name, relation, target))
            passed.add(target)
            name = target
        ends.add(name)
        return numbers

    def tempt(self, chain: Chain, facts: int) -> None:
        """Add what a chain's last relation says of its start, unless there are ``facts``.

        It answers the question of whoever leaves out what stands between.
        """
        kind, last = RELATIONS[chain.path[0]][0], chain.path[-1]
        of, to = RELATIONS[last]
        if of == kind and (chain.start, last) not in self._used and len(self.links) < facts:
            answer = self.links[chain.links[-1]].object
            self.add(chain.start, last, self.other(to, (chain.start, answer)))

    def fill(self, facts: int) -> None:
        """Add links about names that occur already, until there are ``facts``."""
        rng, fresh = self._rng, self._fresh()
        while len(self.links) < facts:
            while not self._open:
                self._meet(*next(fresh))
            # Any one of them, without moving all that follow.
            at = rng.randrange(len(self._open))
            self._open[at], self._open[-1] = self._open[-1], self._open[at]
            subject, relation = self._open.pop()
            if (subject, relation) in self._used:
                continue
            kind = RELATIONS[relation][1]
            target = rng.choice(self._present[kind]) if self._present[kind] else subject
            if target == subject or rng.random() < 0.5:
                target = self.other(kind, (subject,))
            self.add(subject, relation, target)

    def _meet(self, name: str, kind: str) -> None:
        if name not in self._known:
            self._known.add(name)
            self._present[kind].append(name)
            self._open += [(name, each) for each, (of, _) in RELATIONS.items() if of == kind]

    def _fresh(self) -> Iterator[tuple[str, str]]:
        """Yield all names, for episodes so long that no known name is left."""
        for number in range(max(map(self._names.count, KINDS))):
            for kind in KINDS:
                if number < self._names.count(kind):
                    yield self._names.name(kind, number), kind


@functools.cache
def paths(kind: str, depth: int) -> tuple[tuple[str, ...], ...]:
    """Return all ways to go over ``depth`` different relations from a kind.

    >>> paths("river", 2)[:2]
    (('mouth', 'mayor'), ('mouth', 'vicar'))
    """
    ways: list[tuple[str, ...]] = [()]
    for _ in range(depth):
        ways = [
            (*way, relation)
            for way in ways
            for relation, (of, _) in RELATIONS.items()
            if of == (RELATIONS[way[-1]][1] if way else kind) and relation not in way
        ]
    return tuple(ways)
