"""Search within an episode by words, and several rankings made into one.

`Words` keeps an FTS5 table for each episode, so that neither what is found nor how it is ranked
depends on what else a store holds. `rulerlib.memory.vectors` searches by vectors.

>>> both = fuse([[Found(7, 9.1), Found(5, 2.0)], [Found(5, 0.8), Found(6, 0.1)]], most=2)
>>> [found.id for found in both]
[5, 7]
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rulerlib.memory.store import Store

FUSED_BY = 60
"""What is added to each rank before its reciprocal is taken."""

MOST_CHARACTERS = 10_000
"""How much of a question is read: a text of a megabyte is none."""

# Of a question, the first ones that differ.
MOST_WORDS = 256

# How many facts, counted once for each word, are ranked by the words of one question. Where its
# words stand in more facts than that, the rarest ones choose which facts are ranked.
MOST_RANKED = 2_000

# How many counts of words are kept in memory.
_COUNTS = 100_000

# As SQLite's `unicode61` cuts a text: letters and numbers, and marks that stand on a letter.
_WORD = re.compile(r"[^\W_][^\W_\u0300-\u0331]*(?:[\u0300-\u0331]+[^\W_]*)*")


class Found(NamedTuple):
    """A fact that was found.

    Attributes
    ----------
    id
        Its number in the store.
    score
        How well it fits; a scale of the search, on which more is better.
    """

    id: int
    score: float


def words_of(text: str) -> list[str]:
    """Return the words of a text in small letters; letters keep their marks: å is not a.

    >>> words_of("Hvem var på Ø-en? a\u030a_b")
    ['hvem', 'var', 'på', 'ø', 'en', 'å', 'b']
    """
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def fuse(rankings: Iterable[Sequence[Found]], most: int) -> list[Found]:
    """Return one ranking of several, by the sum of 1 / (`FUSED_BY` + rank) of each fact.

    Parameters
    ----------
    rankings
        Each with the best first. How far the scores of one lie apart does not matter.
    most
        How many facts are returned at most; of equal ones those with lower numbers.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, found in enumerate(ranking, 1):
            scores[found.id] += 1 / (FUSED_BY + rank)
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [Found(*item) for item in best[:most]]


# ------------------------------------------------------------- words


class Words:
    """Finds facts by their words: FTS5, ranked by BM25 with k1 = 1.2 and b = 0.75.

    Parameters
    ----------
    store
        Where the facts are kept; made with `tables`.
    """

    tables = """
CREATE TABLE word_tables (
    number INTEGER PRIMARY KEY, episode TEXT NOT NULL UNIQUE, facts INTEGER NOT NULL
);
"""
    """SQL that makes the table of episodes; each gets a table of its words when it is taught."""

    def __init__(self, store: Store) -> None:
        self._database = store.database
        # Of an episode, with as many facts as it has now, and a word.
        self._counts: dict[tuple[int, int, str], int] = {}

    def add(self, episode: str, texts: Sequence[tuple[int, str]]) -> None:
        """Index texts by the numbers of their facts in the store, within `Store.writing`."""
        run = self._database.execute
        found = run("SELECT number FROM word_tables WHERE episode = ?", (episode,)).fetchone()
        if found:
            number = int(found[0])
        else:
            (number,) = run("SELECT coalesce(max(number), 0) + 1 FROM word_tables").fetchone()
            run("INSERT INTO word_tables VALUES (?, ?, 0)", (number, episode))
            # The texts stand among the facts already: this holds the words alone.
            run(
                f"CREATE VIRTUAL TABLE words_{number} USING fts5(text, content='',"
                " tokenize='unicode61 remove_diacritics 0')"
            )
        self._database.executemany(
            f"INSERT INTO words_{number} (rowid, text) VALUES (?, ?)",
            # Cut here as in questions: SQLite knows the letters of an older Unicode.
            ((each, " ".join(words_of(text))) for each, text in texts),
        )
        run("UPDATE word_tables SET facts = facts + ? WHERE number = ?", (len(texts), number))

    def search(self, episode: str, question: str, most: int) -> list[Found]:
        """Return the facts of an episode that have words of a question, the best first.

        Any text can be asked. A word that stands in every second fact or more counts next to
        nothing. Where the words stand in more than `MOST_RANKED` facts, the rarest ones choose
        the facts that are ranked by all words.

        Parameters
        ----------
        most
            How many are returned at most; of equal ones those that were taught first.
        """
        query = "SELECT number, facts FROM word_tables WHERE episode = ?"
        place = self._database.execute(query, (episode,)).fetchone()
        words = list(dict.fromkeys(words_of(question[:MOST_CHARACTERS])))[:MOST_WORDS]
        if not place or not words:
            return []
        number, facts = place
        if facts * len(words) <= MOST_RANKED:
            return self._ranked(number, _any(words), most)
        rare, rest = self._parted(number, facts, words)
        found = self._ranked(number, _any(rare), most) if rare else []
        if rest:
            # Facts that have both come first here with what both add to their score.
            more = self._ranked(number, f"({_any(rare)}) AND ({_any(rest)})", most)
            scores = dict(found) | dict(more)
            best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
            found = [Found(*item) for item in best[:most]]
        return found

    def _parted(self, number: int, facts: int, words: list[str]) -> tuple[list[str], list[str]]:
        """Return the words that choose the facts that are ranked, and those that only add."""
        counts = {word: count for word in words if (count := self._count(number, facts, word))}
        order = sorted(counts, key=lambda word: (counts[word], word))
        # Others have no weight in BM25 as FTS5 reckons it, but take the longest.
        order = [word for word in order if 2 * counts[word] < facts] or order[:1]
        total, at = 0, 0
        while at < len(order) and (not at or total + counts[order[at]] <= MOST_RANKED):
            total, at = total + counts[order[at]], at + 1
        return order[:at], order[at:]

    def _count(self, number: int, facts: int, word: str) -> int:
        """Return how many facts of an episode have a word."""
        key = (number, facts, word)
        if key in self._counts:
            return self._counts[key]
        query = f"SELECT count(*) FROM words_{number} WHERE words_{number} MATCH ?"
        count = int(self._database.execute(query, (_any([word]),)).fetchone()[0])
        # Within a transaction it may be taken back.
        if not self._database.in_transaction:
            if len(self._counts) >= _COUNTS:
                self._counts.clear()
            self._counts[key] = count
        return count

    def _ranked(self, number: int, match: str, most: int) -> list[Found]:
        table = f"words_{number}"
        query = (
            f"SELECT rowid, -rank FROM {table} WHERE {table} MATCH ? ORDER BY rank, rowid LIMIT ?"
        )
        return [Found(*row) for row in self._database.execute(query, (match, most))]


def _any(words: Iterable[str]) -> str:
    """Return an FTS5 query for any of these words; quoted, none of them is an operator."""
    return " OR ".join(f'"{word}"' for word in words)
