"""The episodic index (``hei_nw``): a write gate, sparse keys that a part completes, and replay.

What passes the gate (`rulerlib.memory.gate`) is kept with a sparse key
(`rulerlib.memory.sparse_keys`). A question excites units as a fact does; facts that have these
units are found by an inverted index (`rulerlib.memory.key_index`), and what the best of them has
besides is added to the cue, so that a fact is found, too, that is linked to the question only by
another one. Rehearsed facts (`rulerlib.memory.replay`) grow stronger, and can be handed to another
system.

What the gate refuses is kept nowhere. Without a function of surprise, and with the settings that
nobody chose, that is whatever carries no mark: novelty alone does not pass.

>>> import pathlib, tempfile
>>> from rulerlib.languages import load
>>> path = pathlib.Path(tempfile.mkdtemp()) / "index.sqlite"
>>> index = EpisodicIndex.create(path, Settings(), load("en"), "episodic")
>>> boat, axe = "Birmund repaired a boat in Smalktorp.", "Ulrun sold an axe in Tvarneby."
>>> index.teach("a", [Fact(0, boat, day=1, rewarded=True), Fact(1, axe, day=2)])
>>> [recalled.text for recalled in index.recall("a", "What did Birmund repair?")]
['Birmund repaired a boat in Smalktorp.']
>>> index.telemetry()["refused"]
1
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rulerlib.errors import flag, is_number, require, whole_number
from rulerlib.languages import Language
from rulerlib.memory.gate import Gate, Novelty, weight
from rulerlib.memory.key_index import COMPLETING, TABLES, Entry, KeyIndex, best
from rulerlib.memory.replay import KINDS, MIX, draw, mixed
from rulerlib.memory.sparse_keys import DIMENSION, WINNERS, Array, Keys
from rulerlib.memory.store import Kept, Store
from rulerlib.memory.system import Recalled, Surprise, System
from rulerlib.tasks.episodes import Fact


@dataclass(frozen=True)
class Settings:
    """What can be set about an episodic index.

    Attributes
    ----------
    k
        How many facts are recalled at most.
    gate
        Whether the gate decides what is written; otherwise all is.
    w_surprise, w_novelty, w_reward, w_pin, threshold
        See `rulerlib.memory.gate.Gate`.
    sparse
        Whether facts are found by sparse keys; otherwise the vectors that those are made from are
        compared, one by one.
    dimension, winners
        How many units there are, and how many a key has.
    completion, completion_steps, completion_weight
        Whether all that the best fact has is added to a cue, how often, and how much that counts
        beside the question.
    replay, decay
        Whether facts can be rehearsed, and what of a fact's strength is left after a session.
    strength_weight
        How much strength counts in recall, beside a fit of 0 to 1.

    Raises
    ------
    ParameterError
        If a value cannot work: says what is allowed.
    """

    k: int = 5
    gate: bool = True
    w_surprise: float = 0.5
    w_novelty: float = 0.5
    w_reward: float = 1.0
    w_pin: float = 1.0
    threshold: float = 0.5
    sparse: bool = True
    dimension: int = DIMENSION
    winners: int = WINNERS
    completion: bool = True
    completion_steps: int = 2
    completion_weight: float = 0.3
    replay: bool = True
    decay: float = 0.9
    strength_weight: float = 0.01

    def __post_init__(self) -> None:
        whole_number("k", self.k, 1, 1000)
        for name in ("gate", "sparse", "completion", "replay"):
            flag(name, getattr(self, name))
        self.write_gate()
        whole_number("dimension", self.dimension, 64, 1 << 16)
        whole_number("winners", self.winners, 1, min(1024, self.dimension))
        whole_number("completion_steps", self.completion_steps, 1, 10)
        weight("completion_weight", self.completion_weight)
        weight("decay", self.decay, 1)
        weight("strength_weight", self.strength_weight)

    def write_gate(self) -> Gate:
        """Return the gate."""
        return Gate(**{each.name: getattr(self, each.name) for each in dataclasses.fields(Gate)})


class _Index(NamedTuple):
    """What is known of an episode.

    Attributes
    ----------
    id
        Its number in the store.
    written
        How many facts of it were written.
    session
        The latest one of what was taught.
    replays
        How often it was replayed.
    """

    id: int
    written: int
    session: int
    replays: int

    @property
    def now(self) -> int:
        """The sessions that passed: of teaching, and of replay."""
        return self.session + self.replays


class EpisodicIndex(System):
    """Keeps what passes a gate, and finds it by sparse keys; see `System`."""

    name = "hei_nw"

    tables = f"""
    CREATE TABLE episodes (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, count INTEGER NOT NULL,
        session INTEGER NOT NULL, replays INTEGER NOT NULL, offered INTEGER NOT NULL,
        marked INTEGER NOT NULL, marked_written INTEGER NOT NULL
    );
    CREATE TABLE traces (
        episode INTEGER NOT NULL, place INTEGER NOT NULL, salience REAL NOT NULL,
        strength REAL NOT NULL, session INTEGER NOT NULL, rehearsed INTEGER NOT NULL,
        PRIMARY KEY (episode, place)
    ) WITHOUT ROWID;
    {TABLES}"""

    settings: Settings

    def __init__(self, store: Store, settings: Settings, language: Language) -> None:
        super().__init__(store, settings, language)
        keys = Keys(settings.dimension, settings.winners)
        self._keys = KeyIndex(store.database, keys, settings.sparse)
        self._gate = settings.write_gate()
        names = ["recalled", "completed", "consolidated"]
        self.counts.update(dict.fromkeys([*names, *(f"replayed_{kind}" for kind in KINDS)], 0))

    @classmethod
    def about(cls, settings: Settings, language: Language) -> dict[str, Any]:
        """See `System`: the language, and what decides what is written and by which key."""
        names = ["gate", "sparse", "dimension", "winners"]
        names += [each.name for each in dataclasses.fields(Gate)]
        return {"language": language.code, **{name: getattr(settings, name) for name in names}}

    # ------------------------------------------------------------- teaching

    def teach(self, episode: str, facts: Iterable[Fact], surprise: Surprise | None = None) -> None:
        """See `System`.

        Raises
        ------
        ParameterError
            If ``surprise`` returns no number from 0 to 1.
        """
        with self.store.writing():
            index = self._index(episode) or self._begun(episode)
            known = self._novelty(index) if self.settings.gate else None
            entries: list[tuple[int, Entry]] = []
            traces, session, counts = [], index.session, np.zeros(3, int)
            for fact in facts:
                session, marked = max(session, fact.session), fact.rewarded or fact.pinned
                entry = self._keys.entry(fact.text)
                marks = fact.rewarded, fact.pinned
                salience = self._gate.salience(_unexpected(surprise, fact.text), *marks)
                written = known is None or self._passes(salience, entry.key, known)
                counts += 1, marked, marked and written
                if written:
                    place = index.written + len(entries)
                    traces.append((index.id, place, salience, fact.session + index.replays))
                    entries.append((self.store.add(episode, fact), entry))
                    if known:
                        known.add(entry.key)
            self._keys.add(index.id, index.written, entries)
            self.store.database.executemany("INSERT INTO traces VALUES (?, ?, ?, 1, ?, 0)", traces)
            self.store.database.execute(
                "UPDATE episodes SET count = count + ?, session = ?, offered = offered + ?,"
                " marked = marked + ?, marked_written = marked_written + ? WHERE id = ?",
                (len(entries), session, *map(int, counts), index.id),
            )

    def _begun(self, episode: str) -> _Index:
        """Begin an episode of which nothing was taught."""
        added = self.store.database.execute(
            "INSERT INTO episodes VALUES (NULL, ?, 0, 0, 0, 0, 0, 0)", (episode,)
        )
        assert added.lastrowid is not None
        return _Index(added.lastrowid, 0, 0, 0)

    def _index(self, episode: str) -> _Index | None:
        """Return what is known of an episode, if anything was taught."""
        row = self.store.database.execute(
            "SELECT id, count, session, replays FROM episodes WHERE name = ?", (episode,)
        ).fetchone()
        return _Index(*row) if row else None

    def _novelty(self, index: _Index) -> Novelty:
        """Return what knows the keys of an episode."""
        known = Novelty(self.settings.dimension, self.settings.winners)
        for key in self._keys.of(index.id):
            known.add(key)
        return known

    def _passes(self, salience: float, key: Array, known: Novelty) -> bool:
        """Return whether a fact is written; its novelty is found out where that decides."""
        certain = self._gate.certain(salience)
        return self._gate.passes(salience, known.of(key)) if certain is None else certain

    # ------------------------------------------------------------- recall

    def recall(self, episode: str, question: str) -> list[Recalled]:
        """See `System`."""
        self.counts["requests"] += 1
        index, cue = self._index(episode), self._keys.cue(question)
        if index is None or not index.written or not cue.any():
            return []
        fit = self._keys.fit(index.id, index.written, cue)
        if self.settings.completion:
            fit = self._completed(index, fit)
        found = self._ranked(index, fit)
        self.counts["recalled"] += len(found)
        self.counts["hits"] += bool(found)
        return found

    def _completed(self, index: _Index, fit: Array) -> Array:
        """Return how well each fact fits a cue to which all that the best fact has was added.

        To add units to a cue is to add how well each fact fits them, so the cue is not asked again.
        """
        steps, share = self.settings.completion_steps, self.settings.completion_weight
        alike: dict[int, Array] = {}
        for _ in range(steps):
            # Of several, those that only resemble what is asked for would draw in others like them.
            for place in best(fit, 1).tolist():
                if place not in alike:
                    cue = self._keys.cue_of(index.id, place)
                    alike[place] = self._keys.fit(index.id, index.written, cue, COMPLETING)
                fit = fit + share * alike[place]
                self.counts["completed"] += 1
        return fit / (1 + steps * share)

    def _ranked(self, index: _Index, fit: Array) -> list[Recalled]:
        """Return the facts that fit best; strength counts a little, and where they fit alike."""
        found = []
        query = (
            "SELECT fact, strength, session FROM keys JOIN traces USING (episode, place)"
            " WHERE episode = ? AND place = ?"
        )
        # A few more than asked for, for strength to choose from.
        for place in best(fit, 4 * self.settings.k).tolist():
            kept = self.store.database.execute(query, (index.id, place)).fetchone()
            row, strength = kept[0], self._left(kept[1:], index.now)
            score = fit[place] + self.settings.strength_weight * strength / (1 + strength)
            found.append((-float(score), -strength, place, row))
        first = sorted(found)[: self.settings.k]
        facts = self.store.of([row for *_, row in first])
        return [
            Recalled(fact.text, (fact.number,), -score)
            for fact, (score, *_) in zip(facts, first, strict=True)
        ]

    def _left(self, trace: tuple[float, int], now: int) -> float:
        """Return what is left now of a strength, by its trace: the strength, and of when it is."""
        strength, session = trace
        return float(strength * self.settings.decay ** max(0, now - session))

    # ------------------------------------------------------------- replay

    def replay(
        self,
        steps: int,
        mix: Mapping[str, float] = MIX,
        seed: str | int = 0,
        episode: str | None = None,
    ) -> None:
        """Rehearse facts of an episode, or of each, which is a session of its own for it.

        What is rehearsed grows stronger by 1 each time, after all has decayed.

        Parameters
        ----------
        steps
            How many times a fact of an episode is rehearsed.
        mix
            The shares of facts that are recent, important and drawn at random, in sum 1.
        seed
            Another one rehearses others.
        episode
            Its name; None: all.

        Raises
        ------
        ParameterError
            If a value cannot work: says what is allowed.
        """
        whole_number("steps", steps, 1, 1_000_000)
        mix = mixed(mix)
        if not self.settings.replay:
            return
        counts = dict.fromkeys(KINDS, 0)
        with self.store.writing():
            for name in self._names(episode):
                index = self._index(name)
                assert index is not None
                for kind, places in self._rehearsed(index, steps, mix, f"{seed} {name}").items():
                    counts[kind] += places
        for kind, count in counts.items():
            self.counts[f"replayed_{kind}"] += count

    def _names(self, episode: str | None) -> list[str]:
        """Return the names of the episodes that hold something: all, or the one that is named."""
        query = "SELECT name FROM episodes WHERE count > 0 AND name = ifnull(?, name) ORDER BY id"
        return [name for (name,) in self.store.database.execute(query, (episode,))]

    def _rehearsed(
        self, index: _Index, steps: int, mix: Mapping[str, float], seed: str
    ) -> dict[str, int]:
        """Rehearse facts of an episode, and return how many of each kind."""
        run = self.store.database.execute
        query = "SELECT salience FROM traces WHERE episode = ? ORDER BY place"
        drawn = draw([salience for (salience,) in run(query, (index.id,))], steps, mix, seed)
        run("UPDATE episodes SET replays = replays + 1 WHERE id = ?", (index.id,))
        now = index.now + 1
        query = "SELECT strength, session FROM traces WHERE episode = ? AND place = ?"
        for place, times in sorted(Counter(itertools.chain(*drawn.values())).items()):
            strength = self._left(run(query, (index.id, place)).fetchone(), now)
            run(
                "UPDATE traces SET strength = ?, session = ?, rehearsed = rehearsed + ?"
                " WHERE episode = ? AND place = ?",
                (strength + times, now, times, index.id, place),
            )
        return {kind: len(places) for kind, places in drawn.items()}

    def consolidate(self, into: System, least: int = 2) -> int:
        """Teach another system what was rehearsed at least so often, and return how many facts.

        A fact that the other one has already is not taught again.

        Parameters
        ----------
        into
            The other system.
        least
            How often a fact must have been rehearsed.

        Raises
        ------
        ParameterError
            If ``least`` is no whole number from 1.
        """
        whole_number("least", least, 1)
        query = (
            "SELECT fact FROM keys JOIN traces USING (episode, place)"
            " WHERE episode = ? AND rehearsed >= ? ORDER BY place"
        )
        handed = 0
        for name in self._names(None):
            index = self._index(name)
            assert index is not None
            rows = [row for (row,) in self.store.database.execute(query, (index.id, least))]
            has = {kept.number for kept in into.store.facts(name)} if rows else set()
            facts = [_fact(kept) for kept in self.store.of(rows) if kept.number not in has]
            if facts:
                into.teach(name, facts)
                handed += len(facts)
        self.counts["consolidated"] += handed
        return handed

    # ------------------------------------------------------------- telemetry

    def telemetry(self) -> dict[str, float]:
        """See `System`.

        Of all that was taught, not since it was opened alone: what was ``written``, ``refused`` and
        ``marked``; ``gate_precision``, how much of what was written is marked, and ``gate_recall``,
        how much of what is marked was written. Each of the two is left out where it would be of
        nothing.
        """
        query = (
            "SELECT ifnull(sum(offered), 0), ifnull(sum(count), 0), ifnull(sum(marked), 0),"
            " ifnull(sum(marked_written), 0) FROM episodes"
        )
        offered, written, marked, both = self.store.database.execute(query).fetchone()
        found = {
            **super().telemetry(), **self._keys.counts,
            "written": written, "refused": offered - written, "marked": marked,
        }  # fmt: skip
        if written:
            found["gate_precision"] = both / written
        if marked:
            found["gate_recall"] = both / marked
        return found


def _unexpected(surprise: Surprise | None, text: str) -> float:
    if surprise is None:
        return 0.0
    value = surprise(text)
    require(is_number(value) and 0 <= value <= 1, "surprise", value, "a number from 0 to 1")
    return float(value)


def _fact(kept: Kept) -> Fact:
    return Fact(
        kept.number, kept.text, kept.day,
        session=kept.session, rewarded=kept.rewarded, pinned=kept.pinned,
    )  # fmt: skip
