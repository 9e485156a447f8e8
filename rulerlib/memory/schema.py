"""A schema: what kinds of things a relation leads from and to, learnt from what was taught.

Nobody says that Halwen is a person: that teachers live somewhere and own ships is learnt from names
that stand in several relations. A role is one end of a relation; roles that several names had
together belong to one kind, and a fact fits where its names have roles of the right kinds.

>>> schema, people = Schema(), {name: Counter() for name in ("Ada", "Bo", "Cy", "Di", "Ely")}
>>> for teacher, town in (("Ada", "Ely"), ("Bo", "Ely"), ("Cy", "Ely")):
...     schema.learn("teacher", people["Di"], people[teacher])
...     schema.learn("home", people[teacher], people[town])
>>> schema.fit("home", people["Ada"], people["Ely"])
0.875
>>> [sorted(kind) for kind in schema.kinds()]
[['home of', 'teacher to']]
"""

from __future__ import annotations

import sqlite3
from collections import Counter

TABLES = """
CREATE TABLE relations (name TEXT PRIMARY KEY, taught INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE pairs (
    one TEXT NOT NULL, other TEXT NOT NULL, names INTEGER NOT NULL, PRIMARY KEY (one, other)
) WITHOUT ROWID;
"""
"""SQL that makes the tables of a schema."""

EVIDENCE = 2
"""How many names must have had two roles together before these belong to one kind. One name alone
may be a mistake."""

# What is said for a name and a role of which nothing is known.
UNKNOWN = 0.5

Roles = Counter[str]
"""How often a name had each role."""


def roles(relation: str) -> tuple[str, str]:
    """Return the two roles of a relation: of what it leads from, and of what it leads to."""
    return f"{relation} of", f"{relation} to"


class Schema:
    """What was learnt of relations and their kinds."""

    def __init__(self) -> None:
        self._taught = Counter[str]()
        self._pairs = Counter[tuple[str, str]]()
        # The role that a role was joined to; those that stand alone are left out.
        self._joined: dict[str, str] = {}
        # What was learnt since it was loaded.
        self._fresh, self._fresh_pairs = set[str](), set[tuple[str, str]]()

    @classmethod
    def load(cls, database: sqlite3.Connection) -> Schema:
        """Return the schema that the tables of a store hold."""
        schema = cls()
        schema._taught.update(dict(database.execute("SELECT name, taught FROM relations")))
        for one, other, names in database.execute("SELECT * FROM pairs ORDER BY one, other"):
            schema._pairs[one, other] = names
            if names >= EVIDENCE:
                schema._join(one, other)
        return schema

    def save(self, database: sqlite3.Connection) -> None:
        """Write what was learnt into the tables of a store, within a transaction."""
        relations = [(name, self._taught[name]) for name in sorted(self._fresh)]
        database.executemany("REPLACE INTO relations VALUES (?, ?)", relations)
        pairs = [(*pair, self._pairs[pair]) for pair in sorted(self._fresh_pairs)]
        database.executemany("REPLACE INTO pairs VALUES (?, ?, ?)", pairs)

    def fit(self, relation: str, subject: Roles, object: Roles) -> float:  # noqa: A002
        """Return how well a relation between two names fits, 0 to 1; 0.5: nothing is known.

        Parameters
        ----------
        relation
            Its name.
        subject, object
            The roles that the two names have had so far, none for new names.
        """
        ends = zip(roles(relation), (subject, object), strict=True)
        return sum(self._end(self._taught[relation], *end) for end in ends) / 2

    def _end(self, taught: int, role: str, had: Roles) -> float:
        """Return how well a name fits a role of a relation that was taught ``taught`` times."""
        kinds = {self._kind(each) for each in had if each in self._joined}
        if role in had or (role in self._joined and self._kind(role) in kinds):
            return (taught + UNKNOWN) / (taught + 1)
        if not kinds or role not in self._joined:
            return UNKNOWN
        return UNKNOWN / (taught + 1)

    def learn(self, relation: str, subject: Roles, object: Roles) -> None:  # noqa: A002
        """Learn that a relation was taught of two names, and add its roles to theirs."""
        self._taught[relation] += 1
        self._fresh.add(relation)
        for role, had in zip(roles(relation), (subject, object), strict=True):
            if role not in had:
                for other in had:
                    pair = (role, other) if role < other else (other, role)
                    self._pairs[pair] += 1
                    self._fresh_pairs.add(pair)
                    if self._pairs[pair] == EVIDENCE:
                        self._join(*pair)
            had[role] += 1

    def kinds(self) -> list[set[str]]:
        """Return the roles that belong together, the largest kind first."""
        found: dict[str, set[str]] = {}
        for role in self._joined:
            found.setdefault(self._kind(role), set()).add(role)
        return sorted(found.values(), key=lambda kind: (-len(kind), min(kind)))

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
