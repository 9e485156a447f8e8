"""The relation graph (``sgc_rss``): facts as relations between names, and schemas that let them in.

A sentence is read by the wording of its language (`rulerlib.memory.reading`) and becomes an edge:
who teaches whom, who was in which town on which day, which place lies north of another one. What
fits the schemas that were learnt so far (`rulerlib.memory.schema`) is inserted at once; the rest
must pass a gate, or is parked as a text that only its words lead to. What is told again gives
support to its edge. After each teaching the parked facts are weighed once more, by what is known by
then.

A question is read likewise, and followed through the graph relation by relation. Where two facts
disagree, the rule decides that the question states. Where the graph lacks a link, it is looked for
among the parked texts; a question that cannot be read recalls what lies around its names.

>>> import pathlib, tempfile
>>> from rulerlib.languages import load
>>> path = pathlib.Path(tempfile.mkdtemp()) / "graph.sqlite"
>>> graph = RelationGraph.create(path, Settings(), load("en"), "semantic")
>>> home, lessons = "Corwin lives in Ely.", "Halwen takes lessons from Corwin."
>>> graph.teach("a", [Fact(0, home, day=0), Fact(1, lessons, day=1)])
>>> [recalled.text for recalled in graph.recall("a", "Where does Halwen's teacher live?")]
['Halwen takes lessons from Corwin.', 'Corwin lives in Ely.']
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rulerlib.errors import HALF
from rulerlib.languages import Language
from rulerlib.memory.reading import Asked, Reader, reader
from rulerlib.memory.relation_teaching import TABLES, VISIT, Settings, Teaching, triple
from rulerlib.memory.search import Words
from rulerlib.memory.store import Kept, Store
from rulerlib.memory.system import Recalled, Surprise, System
from rulerlib.tasks.episodes import Fact

# The most trails of a search, parked texts that are read, and names of a question.
_TRAILS, _READ, _NAMES = 1_000, 200, 100

# How often activation spreads, from how many nodes each time, over how many edges of each.
_ROUNDS, _FRONT, _EDGES = 2, 30, 100

# The characters of a question that cannot be read in which names are looked for, and their words.
_LONGEST, _NAME_WORDS = 2_000, 3

# What a question names that may be a node.
_NAMED = ("who", "where", "start", "goal")

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*'?")


class RelationGraph(System):
    """A graph of relations on one store."""

    name = "sgc_rss"

    tables = TABLES + Words.tables

    settings: Settings

    def __init__(self, store: Store, settings: Settings, language: Language) -> None:
        super().__init__(store, settings, language)
        self._reader, self._words = reader(language), Words(store)
        names = ("unread", "fast", "gated", "aggregated", "parked", "replayed")
        self.counts |= dict.fromkeys((*names, "followed", "completed", "spread"), 0)

    @classmethod
    def about(cls, settings: Settings, language: Language) -> dict[str, Any]:
        """See `System`: the language, and what decides which facts become edges."""
        names = "fast_track", "schema_threshold", "gate", "gate_threshold", "replay"
        return {"language": language.code, **{name: getattr(settings, name) for name in names}}

    def telemetry(self) -> dict[str, float]:
        """See `System`; ``parked_now`` counts the facts that are no edges, of all episodes."""
        run = self.store.database.execute
        tables = {"nodes": "nodes", "edges": "edges", "parked_now": "parked"}
        held = {
            name: run(f"SELECT count(*) FROM {table}").fetchone()[0]
            for name, table in tables.items()
        }
        return {**super().telemetry(), **held}

    # ------------------------------------------------------------ teaching

    def teach(self, episode: str, facts: Iterable[Fact], surprise: Surprise | None = None) -> None:
        """See `System`.

        The marks and the surprise of a fact count at the gate, so the reader's surprise is asked
        for only where the gate decides.
        """
        with self.store.writing():
            teaching = Teaching(self.store, episode, self.settings, self._reader, surprise)
            for fact in facts:
                teaching.add(fact)
            if self.settings.replay:
                teaching.replay()
            teaching.save()
            if teaching.parked:
                self._words.add(episode, [*teaching.parked.items()])
        for name, count in teaching.counts.items():
            self.counts[name] += count

    # ------------------------------------------------------------ recalling

    def recall(self, episode: str, question: str) -> list[Recalled]:
        """See `System`; the facts on the way to an answer come in the order of reasoning."""
        self.counts["requests"] += 1
        # No text in a store has half of a character, and SQLite refuses to look for one.
        question = HALF.sub("?", question)
        asked = self._reader.question(question)
        found, complete, names = list[int](), False, list[str]()
        if asked and asked.kind == "path":
            found, complete, names = self._follow(episode, asked)
        elif asked:
            found = self._events(episode, asked)
            complete = bool(found)
            names = [asked.values[each] for each in _NAMED if each in asked.values]
        self.counts["followed"] += complete
        if not complete:
            nodes = self._nodes(episode, names or _names(question, self._reader))
            spread = self._spread(nodes)
            self.counts["spread"] += bool(spread)
            # Parked texts about what the search came to, then what else lies around it.
            cue = f"{question} {' '.join(names)}"
            parked = [each.id for each in self._words.search(episode, cue, self.settings.k)]
            found += [
                each for pair in itertools.zip_longest(spread, parked) for each in pair if each
            ]
        kept = list(dict.fromkeys(found))[: self.settings.k]
        self.counts["hits"] += bool(kept)
        return [
            Recalled(fact.text, self._numbers(fact), 1 / place)
            for place, fact in enumerate(self.store.of(kept), 1)
        ]

    def _numbers(self, fact: Kept) -> tuple[int, ...]:
        """Return the numbers of all facts that tell the same as one."""
        rows = self.store.database.execute(
            "SELECT number FROM tellings AS one JOIN tellings AS each ON each.edge = one.edge"
            " JOIN facts ON facts.id = each.fact WHERE one.fact = ? ORDER BY number",
            (fact.id,),
        )
        return tuple(number for (number,) in rows) or (fact.number,)

    def _follow(self, episode: str, asked: Asked) -> tuple[list[int], bool, list[str]]:
        """Return the facts on the way that a question asks for, and whether it was gone to the end.

        Also returns the names that the search came to.
        """
        trails = [_Trail(asked.values["start"])]
        done: list[_Trail] = []
        while trails:
            further = []
            for trail in trails:
                rest = asked.path[trail.gone : self.settings.hops]
                for walked in self._walk(episode, trail, rest, asked.rule) if rest else [trail]:
                    if walked.gone < min(len(asked.path), self.settings.hops):
                        missing = self._missing(episode, walked, asked)
                        further += missing
                        done += [] if missing else [walked]
                    else:
                        done.append(walked)
            trails = further[:_TRAILS]
        most = max(trail.gone for trail in done)
        best = [trail for trail in done if trail.gone == most]
        facts = [fact for trail in best for fact in trail.facts]
        return facts, most == len(asked.path), [trail.name for trail in best]

    def _walk(
        self, episode: str, trail: _Trail, path: Sequence[str], rule: str | None
    ) -> list[_Trail]:
        """Return a trail as far as the graph leads over some relations, in all ways."""
        asked = ", ".join(["(?, ?)"] * len(path))
        overruled = """
            AND NOT EXISTS (SELECT 1 FROM edges AS better WHERE better.subject = edges.subject
                AND better.relation = edges.relation AND better.note = ?
                AND better.note = edges.note AND better.rank > edges.rank)"""
        query = f"""
            WITH RECURSIVE asked (depth, relation) AS (VALUES {asked}),
            walk (depth, node, facts) AS (
                SELECT 0, id, '' FROM nodes WHERE episode = ? AND name = ?
                UNION ALL
                SELECT walk.depth + 1, edges.object, facts || ' ' || edges.fact
                FROM walk JOIN asked ON asked.depth = walk.depth
                JOIN edges ON edges.subject = walk.node AND edges.relation = asked.relation
                {overruled if rule and self.settings.resolve else ""}
                LIMIT {_TRAILS}
            )
            SELECT depth, name, facts FROM walk JOIN nodes ON id = node"""
        numbered = [each for pair in enumerate(path) for each in pair]
        decided = [rule] if rule and self.settings.resolve else []
        rows = self.store.database.execute(query, [*numbered, episode, trail.name, *decided])
        trails = [
            _Trail(name, trail.gone + depth, (*trail.facts, *map(int, facts.split())))
            for depth, name, facts in rows
        ]
        # Of an end that leads further only what follows it; a name that is no node stays itself.
        return _ends(trails) or [trail]

    def _missing(self, episode: str, trail: _Trail, asked: Asked) -> list[_Trail]:
        """Return a trail with the link that the graph lacks, read from the parked texts."""
        if not self.settings.completion:
            return []
        found: list[tuple[int, _Trail]] = []
        for each in self._words.search(episode, trail.name, _READ):
            (kept,) = self.store.of([each.id])
            edge = triple(self._reader.fact(kept.text))
            if edge and edge[:2] == (trail.name, asked.path[trail.gone]):
                rank = edge.rank if edge.note == asked.rule else 0
                found.append((rank, _Trail(edge.object, trail.gone + 1, (*trail.facts, kept.id))))
        self.counts["completed"] += bool(found)
        most = max((rank for rank, _ in found), default=0)
        return [trail for rank, trail in found if rank == most or not self.settings.resolve]

    def _events(self, episode: str, asked: Asked) -> list[int]:
        """Return the facts of the events that have all of who, where and when that is asked."""
        day = self._reader.day(asked.values.get("when", ""))
        given = {"who.name": asked.values.get("who"), "place.name": asked.values.get("where")}
        given = {column: name for column, name in given.items() if name}
        if len(given) + bool(day) < 2:
            return []
        query = (
            "SELECT fact FROM edges JOIN nodes AS who ON who.id = subject"
            " JOIN nodes AS place ON place.id = object"
            " WHERE relation = ? AND who.episode = ? AND place.episode = who.episode AND "
        )
        query += " AND ".join(f"{column} = ?" for column in given) + " AND rank = ?" * bool(day)
        rows = self.store.database.execute(
            f"{query} ORDER BY fact LIMIT ?",
            [VISIT, episode, *given.values(), *([day] if day else []), self.settings.k],
        )
        return [fact for (fact,) in rows]

    def _nodes(self, episode: str, names: Sequence[str]) -> list[int]:
        """Return the nodes of some names, of those that there are."""
        query = "SELECT id FROM nodes WHERE episode = ? AND name = ?"
        rows = (
            self.store.database.execute(query, (episode, name)).fetchone()
            for name in dict.fromkeys(names)
        )
        return [row[0] for row in rows if row][:_NAMES]

    def _spread(self, nodes: Sequence[int]) -> list[int]:
        """Return the facts of the edges around some nodes, those between most active ones first."""
        active = dict.fromkeys(nodes, 1.0)
        edges = {row[0]: row[1:] for row in self._between(nodes)}
        front = active.copy()
        for _ in range(_ROUNDS):
            gained: defaultdict[int, float] = defaultdict(float)
            strongest = sorted(front.items(), key=lambda item: (-item[1], item[0]))[:_FRONT]
            for node, strength in strongest:
                around = self._around(node)
                for number, subject, target, *rest in around:
                    edges[number] = subject, target, *rest
                    # Who has many neighbours gives each of them little.
                    gained[target if node == subject else subject] += strength / 2 / len(around)
            front = {node: strength for node, strength in gained.items() if node not in active}
            for node, strength in gained.items():
                active[node] = active.get(node, 0) + strength
        best = sorted(
            (-active.get(one, 0) - active.get(other, 0), -support, number, fact)
            for number, (one, other, fact, support) in edges.items()
        )
        return [fact for *_, fact in best[: self.settings.k]]

    def _around(self, node: int) -> list[tuple[int, ...]]:
        """Return the edges of a node, of many those told most often: see `_between`."""
        half = "SELECT id, subject, object, fact, support FROM edges WHERE"
        return self.store.database.execute(
            f"SELECT * FROM ({half} subject = :node UNION ALL"
            f" {half} object = :node) ORDER BY support DESC, id LIMIT {_EDGES}",
            {"node": node},
        ).fetchall()

    def _between(self, nodes: Sequence[int]) -> list[tuple[int, ...]]:
        """Return number, ends, fact and support of the edges from one of some nodes to another."""
        these = f"({', '.join('?' * len(nodes))})"
        return self.store.database.execute(
            "SELECT id, subject, object, fact, support FROM edges"
            f" WHERE subject IN {these} AND +object IN {these} ORDER BY id LIMIT {_TRAILS}",
            [*nodes, *nodes],
        ).fetchall()


class _Trail(NamedTuple):
    """How far a question was followed: to which name, over how many relations, by which facts."""

    name: str
    gone: int = 0
    facts: tuple[int, ...] = ()


def _ends(trails: Sequence[_Trail]) -> list[_Trail]:
    """Return the trails that no other one goes on from."""
    passed = {trail.facts[:-1] for trail in trails if trail.facts}
    return [trail for trail in trails if trail.facts not in passed]


def _names(question: str, read: Reader) -> list[str]:
    """Return all that may be a name in a question: up to three words, without a genitive too."""
    words = _WORD.findall(question[:_LONGEST].replace("’", "'"))
    names = [
        " ".join(words[at : at + length])
        for length in range(_NAME_WORDS, 0, -1)
        for at in range(len(words) - length + 1)
    ]
    bare = [form for word in words for form in (word.rstrip("'"), read.bare(word)) if form]
    return [*names, *bare]
