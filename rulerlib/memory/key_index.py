"""An index of keys in SQLite: which facts fit a cue, found by the units that they share.

An inverted index says for each unit which facts have it, so that none is looked at that shares
nothing with a cue. A unit counts the more the fewer facts have it. The same facts can be compared
by the dense vectors that keys are made from, one by one, to see what sparse keys are good for.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rulerlib.memory.sparse_keys import Array, Keys

# `place` is the number of a fact among those of its episode that were written. A list of places is
# of one teaching, four bytes each. Lists stand in a table of their own: where a tree is searched by
# more than a number, SQLite reads whole rows.
TABLES = """
CREATE TABLE keys (
    episode INTEGER NOT NULL, place INTEGER NOT NULL, fact INTEGER NOT NULL,
    units BLOB NOT NULL, vector BLOB, PRIMARY KEY (episode, place)
) WITHOUT ROWID;
CREATE TABLE postings (
    episode INTEGER NOT NULL, unit INTEGER NOT NULL, list INTEGER NOT NULL,
    count INTEGER NOT NULL, PRIMARY KEY (episode, unit, list)
) WITHOUT ROWID;
CREATE TABLE lists (list INTEGER PRIMARY KEY, places BLOB NOT NULL);
"""
"""SQL that makes its tables."""

# Postings that a question reads at most, those of rare units first.
_MOST = 150_000

COMPLETING = 40_000
"""Postings that are read to complete a cue."""

# Facts whose dense vectors are in memory at a time, and the type of their parts.
_AT_ONCE = 4096
_PART = np.dtype([("unit", "<u2"), ("activity", "<f4")])


class Entry(NamedTuple):
    """What is kept of a fact to find it by.

    Attributes
    ----------
    key
        Its units.
    vector
        Its dense vector as it is stored, where that is what is compared.
    """

    key: Array
    vector: bytes | None


class KeyIndex:
    """The keys of facts, by the numbers of their episodes.

    Parameters
    ----------
    database
        Where its tables are.
    keys
        Makes the keys.
    sparse
        Whether facts are found by units; otherwise by comparing dense vectors.

    Attributes
    ----------
    counts
        How many ``postings`` were read, and how many dense vectors ``compared``.
    """

    def __init__(self, database: sqlite3.Connection, keys: Keys, sparse: bool = True) -> None:
        self._database, self._keys, self._sparse = database, keys, sparse
        self.counts = {"postings": 0, "compared": 0}

    def entry(self, text: str) -> Entry:
        """Return what is kept of a text."""
        activity = self._keys.activity(text)
        key = self._keys.winning(activity)
        if self._sparse:
            return Entry(key, None)
        units = np.flatnonzero(activity)
        parts = np.empty(units.size, _PART)
        parts["unit"], parts["activity"] = units, _unit(activity)[units]
        return Entry(key, parts.tobytes())

    def add(self, episode: int, first: int, entries: Sequence[tuple[int, Entry]]) -> None:
        """Add facts, each by its number in the store, to the first ones of an episode."""
        rows = (
            (episode, place, fact, entry.key.astype("<u2").tobytes(), entry.vector)
            for place, (fact, entry) in enumerate(entries, first)
        )
        self._database.executemany("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", rows)
        if not self._sparse or not entries:
            return
        run = self._database.executemany
        last = self._database.execute("SELECT ifnull(max(list), 0) FROM lists").fetchone()[0]
        posted = [*_postings(first, [entry.key for _, entry in entries])]
        lists = range(last + 1, last + 1 + len(posted))
        run(
            "INSERT INTO lists VALUES (?, ?)",
            ((at, places) for at, (*_, places) in zip(lists, posted, strict=True)),
        )
        run(
            "INSERT INTO postings VALUES (?, ?, ?, ?)",
            (
                (episode, unit, at, count)
                for at, (unit, count, _) in zip(lists, posted, strict=True)
            ),
        )

    def of(self, episode: int) -> Iterator[Array]:
        """Yield the keys of an episode in their order."""
        query = "SELECT units FROM keys WHERE episode = ? ORDER BY place"
        for (units,) in self._database.execute(query, (episode,)):
            yield np.frombuffer(units, "<u2")

    def cue(self, text: str) -> Array:
        """Return what a text asks for: how much each unit counts, all 0 for a text of no words."""
        activity = self._keys.activity(text)
        if not self._sparse:
            return _unit(activity)
        cue = np.zeros_like(activity)
        cue[self._keys.winning(activity)] = 1
        return cue

    def cue_of(self, episode: int, place: int) -> Array:
        """Return a fact as what is asked for."""
        cue = np.zeros(self._keys.dimension)
        query = "SELECT units, vector FROM keys WHERE episode = ? AND place = ?"
        units, vector = self._database.execute(query, (episode, place)).fetchone()
        if vector is None:
            cue[np.frombuffer(units, "<u2")] = 1
        else:
            parts = np.frombuffer(vector, _PART)
            cue[parts["unit"]] = parts["activity"]
        return cue

    def fit(self, episode: int, count: int, cue: Array, most: int = _MOST) -> Array:
        """Return how well each of an episode's facts fits a cue: by place, 0 to 1 for all of it.

        Parameters
        ----------
        episode, count
            The number of the episode, and of its facts.
        cue
            How much each unit counts.
        most
            How many postings are read at most.
        """
        if self._sparse:
            fit = self._found(episode, count, cue, most)
        else:
            fit = self._compared(episode, cue)
        # The last digits of a sum are not worth an order.
        return np.round(fit, 9)

    def _found(self, episode: int, count: int, cue: Array, most: int) -> Array:
        run, fit = self._database.execute, np.zeros(count)
        query = (
            "SELECT unit, sum(count) FROM postings WHERE episode = ?"
            " AND unit IN (SELECT value FROM json_each(?)) GROUP BY unit"
        )
        units, common = _columns(run(query, (episode, _listed(np.flatnonzero(cue)))).fetchall())
        # Whole numbers, so that the last digit of a logarithm decides nothing.
        weights = cue[units] * np.rint(1024 * np.log2((count + 1) / common))
        winning = best(weights, self._keys.winners)
        winning = winning[np.argsort(common[winning], kind="stable")]
        # What most facts share tells little, and is long: it is left out where there is too much.
        winning = winning[: max(1, int(np.sum(np.cumsum(common[winning]) <= most)))]
        weight = dict(zip(units[winning].tolist(), weights[winning].tolist(), strict=True))
        query = (
            "SELECT unit, places FROM postings JOIN lists USING (list) WHERE episode = ?"
            " AND unit IN (SELECT value FROM json_each(?))"
        )
        for unit, places in run(query, (episode, _listed(units[winning]))):
            # No fact has a unit twice.
            fit[np.frombuffer(places, "<u4")] += weight[unit]
        self.counts["postings"] += int(common[winning].sum())
        return fit / (sum(weight.values()) or 1)

    def _compared(self, episode: int, cue: Array) -> Array:
        fit: list[Array] = [np.zeros(0)]
        query = "SELECT vector FROM keys WHERE episode = ? ORDER BY place"
        cursor = self._database.execute(query, (episode,))
        while rows := cursor.fetchmany(_AT_ONCE):
            parts = np.frombuffer(b"".join(vector for (vector,) in rows), _PART)
            lengths = [len(vector) // _PART.itemsize for (vector,) in rows]
            products = cue[parts["unit"]] * parts["activity"]
            places = np.repeat(np.arange(len(rows)), lengths)
            fit.append(np.bincount(places, weights=products, minlength=len(rows)))
        self.counts["compared"] += sum(map(len, fit))
        return np.concatenate(fit) / (np.linalg.norm(cue) or 1)


def best(values: Array, most: int) -> Array:
    """Return where the largest values above 0 are, the largest first; of equal ones the first.

    >>> best(np.array([0.0, 2.0, 3.0, 2.0]), 2).tolist()
    [2, 1]
    """
    where = np.flatnonzero(values > 0)
    if where.size > most:
        # All from the last that is wanted on, and those that equal it.
        found = values[where]
        where = where[found >= np.partition(found, -most)[-most]]
    return where[np.argsort(-values[where], kind="stable")[:most]]


def _unit(vector: Array) -> Array:
    """Return a vector at length 1, or one of zeros as it is."""
    return vector / (np.linalg.norm(vector) or 1)


def _listed(units: Array) -> str:
    return json.dumps(units.tolist())


def _columns(rows: Sequence[tuple[int, int]]) -> tuple[Array, Array]:
    table = np.array(rows, int).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _postings(first: int, keys: Sequence[Array]) -> Iterator[tuple[int, int, bytes]]:
    """Yield each unit that keys have, how many have it, and their places, from ``first`` on."""
    units = np.concatenate(keys).astype(int)
    places = np.repeat(np.arange(first, first + len(keys)), [*map(len, keys)]).astype("<u4")
    order = np.argsort(units, kind="stable")
    units, places = units[order], places[order]
    starts = np.flatnonzero(np.diff(units, prepend=-1)).tolist()
    for begin, end in itertools.pairwise([*starts, units.size]):
        yield int(units[begin]), end - begin, places[begin:end].tobytes()
