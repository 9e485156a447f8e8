"""Teaching a relation graph: which facts become edges, and which are parked as texts.

What a fact tells is read first (`triple`). An edge that is there already gets support. A new one is
inserted where it fits the schemas, or where the gate lets it pass: by how well it fits, how new it
is, and its marks. What does neither is parked, and weighed again when more was learnt.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from rulerlib.errors import flag, is_number, require, whole_number
from rulerlib.memory import schema
from rulerlib.memory.reading import Read, Reader
from rulerlib.memory.schema import Roles, Schema
from rulerlib.memory.store import Store
from rulerlib.memory.system import Surprise
from rulerlib.tasks.episodes import Fact

TABLES = (
    """
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY, episode TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (episode, name)
);
CREATE TABLE edges (
    id INTEGER PRIMARY KEY, subject INTEGER NOT NULL, relation TEXT NOT NULL,
    object INTEGER NOT NULL, detail TEXT NOT NULL, note TEXT NOT NULL, rank INTEGER NOT NULL,
    fact INTEGER NOT NULL, support INTEGER NOT NULL, UNIQUE (subject, relation, object, detail)
);
CREATE INDEX edges_to ON edges (object, relation);
CREATE TABLE tellings (fact INTEGER PRIMARY KEY, edge INTEGER NOT NULL);
CREATE INDEX tellings_of ON tellings (edge);
CREATE TABLE met (
    node INTEGER NOT NULL, role TEXT NOT NULL, times INTEGER NOT NULL, PRIMARY KEY (node, role)
) WITHOUT ROWID;
CREATE TABLE parked (
    episode TEXT NOT NULL, fact INTEGER NOT NULL, told INTEGER NOT NULL,
    PRIMARY KEY (episode, fact)
) WITHOUT ROWID;
"""
    + schema.TABLES
)
"""SQL that makes the tables of a graph."""

VISIT = "visit"
"""The relation of an event, from a person to a town."""

WEIGHTS = {"fit": 0.6, "novelty": 0.5, "rewarded": 0.3, "pinned": 0.5}
"""What the gate adds up: how well a fact fits, how new it is, and its marks."""


@dataclass(frozen=True)
class Settings:
    """What can be set about a relation graph.

    Attributes
    ----------
    k
        How many facts are recalled at most.
    hops
        How many relations a question is followed over at most.
    fast_track, schema_threshold
        Whether a fact is inserted without the gate that fits the schemas at least by the threshold,
        0 to 1.
    gate, gate_threshold
        Whether what is not on the fast track must score at least the threshold to be inserted;
        otherwise all that can be read is.
    replay
        Whether parked facts are weighed again after each teaching.
    completion
        Whether links that the graph lacks are looked for among the parked texts.
    resolve
        Whether the rule of a question decides between facts that disagree.

    Raises
    ------
    ParameterError
        If a value cannot work: says what is allowed.
    """

    k: int = 5
    hops: int = 4
    fast_track: bool = True
    schema_threshold: float = 0.55
    gate: bool = True
    gate_threshold: float = 0.6
    replay: bool = True
    completion: bool = True
    resolve: bool = True

    def __post_init__(self) -> None:
        whole_number("k", self.k, 1)
        whole_number("hops", self.hops, 1, 100)
        for name in ("fast_track", "gate", "replay", "completion", "resolve"):
            flag(name, getattr(self, name))
        most = sum(WEIGHTS.values())
        for name, limit in (("schema_threshold", 1.0), ("gate_threshold", most)):
            value = getattr(self, name)
            possible = is_number(value) and 0 <= value <= limit
            require(possible, name, value, f"a number from 0 to {limit:g}")


class Triple(NamedTuple):
    """An edge as a sentence tells it.

    Attributes
    ----------
    subject, relation, object
        From where to where it leads, and the name of its relation.
    detail
        What tells two edges of the same relation and ends apart: the deed and the day of an event.
    note, rank
        See `rulerlib.memory.reading.Read`: ``"date"``, ``"source"`` or, of an event, ``"day"``.
    """

    subject: str
    relation: str
    object: str
    detail: str = ""
    note: str = ""
    rank: int = 0


def triple(read: Read | None) -> Triple | None:
    """Return the edge that a sentence tells; None: it tells none."""
    if read is None or read.kind == "opening":
        return None
    values = read.values
    if read.kind == "relation":
        note = next((by for by in ("date", "source") if by in values), "")
        return Triple(values["subject"], read.relation, values["object"], note=note, rank=read.rank)
    if read.kind == "event":
        detail = f"{values['when']} {values['did']} {values['what']}"
        return Triple(values["who"], VISIT, values["where"], detail, "day", read.rank)
    return Triple(values["from"], f"step {values['direction']}", values["to"])


class Teaching:
    """Teaches facts of one episode, within a transaction.

    Attributes
    ----------
    counts
        What happened, by name.
    parked
        The texts that only their words lead to, by the numbers of their facts in the store.
    """

    def __init__(
        self,
        store: Store,
        episode: str,
        settings: Settings,
        reader: Reader,
        surprise: Surprise | None,
    ) -> None:
        self._store, self._episode, self._settings = store, episode, settings
        self._reader, self._surprise = reader, surprise
        self._schema = Schema.load(store.database)
        self._known: dict[str, tuple[int, Roles]] = {}
        self.counts = Counter[str]()
        self.parked: dict[int, str] = {}

    def add(self, fact: Fact) -> None:
        """Keep a fact, as an edge or as a text."""
        number = self._store.add(self._episode, fact)
        read = self._reader.fact(fact.text)
        told = triple(read)
        if told is None:
            self.counts["unread"] += read is None
            self._park(number, fact.text, None)
            return
        subject, target = self._node(told.subject), self._node(told.object)
        fit = self._schema.fit(told.relation, subject[1], target[1])
        new = sum(not had for _, had in (subject, target)) + (
            schema.roles(told.relation)[0] not in subject[1]
        )
        # What is taught is learnt from, whatever becomes of it.
        self._schema.learn(told.relation, subject[1], target[1])
        if self._support(number, told):
            self.counts["aggregated"] += 1
        elif self._passes(fact, fit, new / 3):
            self._insert(number, told)
        else:
            self._park(number, fact.text, told)

    def _passes(self, fact: Fact, fit: float, novelty: float) -> bool:
        """Return whether a fact becomes an edge."""
        settings = self._settings
        if not settings.gate:
            return True
        if settings.fast_track and fit >= settings.schema_threshold:
            self.counts["fast"] += 1
            return True
        self.counts["gated"] += 1
        if self._surprise:
            novelty = 1 - (1 - novelty) * (1 - self._surprise(fact.text))
        parts = {"fit": fit, "novelty": novelty, "rewarded": fact.rewarded, "pinned": fact.pinned}
        return sum(WEIGHTS[name] * part for name, part in parts.items()) >= settings.gate_threshold

    def replay(self) -> None:
        """Weigh the parked facts of the episode again, and insert those that fit by now."""
        rows = self._store.database.execute(
            "SELECT id, text FROM parked JOIN facts ON id = fact"
            " WHERE parked.episode = ? AND told ORDER BY id",
            (self._episode,),
        )
        for number, text in rows.fetchall():
            told = triple(self._reader.fact(text))
            assert told is not None
            ends = zip(schema.roles(told.relation), (told.subject, told.object), strict=True)
            # It must not fit because it was taught itself.
            had = [self._node(name)[1] - Roles([role]) for role, name in ends]
            if self._schema.fit(told.relation, *had) >= self._settings.schema_threshold:
                self.counts["replayed"] += 1
                if not self._support(number, told):
                    self._insert(number, told)
                self._store.database.execute(
                    "DELETE FROM parked WHERE episode = ? AND fact = ?", (self._episode, number)
                )
                self.parked.pop(number, None)

    def save(self) -> None:
        """Write what was learnt of relations and names."""
        database = self._store.database
        self._schema.save(database)
        database.executemany(
            "REPLACE INTO met VALUES (?, ?, ?)",
            (
                (node, role, times)
                for node, had in self._known.values()
                for role, times in had.items()
            ),
        )

    def _node(self, name: str) -> tuple[int, Roles]:
        """Return the number of a name, and the roles that it has had."""
        if name not in self._known:
            run = self._store.database.execute
            key = (self._episode, name)
            row = run("SELECT id FROM nodes WHERE episode = ? AND name = ?", key).fetchone()
            if row:
                met = run("SELECT role, times FROM met WHERE node = ?", row)
                self._known[name] = row[0], Roles(dict(met))
            else:
                added = run("INSERT INTO nodes (episode, name) VALUES (?, ?)", key).lastrowid
                assert added is not None
                self._known[name] = added, Roles()
        return self._known[name]

    def _support(self, number: int, told: Triple) -> bool:
        """Return whether the edge of a fact is there already, which is then told once more."""
        key = self._node(told.subject)[0], told.relation, self._node(told.object)[0], told.detail
        run = self._store.database.execute
        row = run(
            "SELECT id, note, rank FROM edges"
            " WHERE subject = ? AND relation = ? AND object = ? AND detail = ?",
            key,
        ).fetchone()
        if not row:
            return False
        edge, note, rank = row
        run("UPDATE edges SET support = support + 1 WHERE id = ?", (edge,))
        run("INSERT INTO tellings VALUES (?, ?)", (number, edge))
        # The best note counts: whoever tells it again later still says so.
        if told.note and (not note or (note == told.note and told.rank > rank)):
            best = told.note, told.rank, number, edge
            run("UPDATE edges SET note = ?, rank = ?, fact = ? WHERE id = ?", best)
        return True

    def _insert(self, number: int, told: Triple) -> None:
        run = self._store.database.execute
        row = (
            self._node(told.subject)[0], told.relation, self._node(told.object)[0],
            told.detail, told.note, told.rank, number,
        )  # fmt: skip
        columns = "subject, relation, object, detail, note, rank, fact, support"
        added = run(f"INSERT INTO edges ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, 1)", row)
        run("INSERT INTO tellings VALUES (?, ?)", (number, added.lastrowid))

    def _park(self, number: int, text: str, told: Triple | None) -> None:
        self.counts["parked"] += 1
        self.parked[number] = text
        self._store.database.execute(
            "INSERT INTO parked VALUES (?, ?, ?)", (self._episode, number, told is not None)
        )
