"""Search within an episode, by words and by vectors, and several rankings made into one.

Both searches keep an `Index`: for each text the columns in which it has a number. What a question
has in a column is multiplied with what all texts have there, so that no text is looked at that
shares nothing with it, and neither what is found nor how it is ranked depends on other episodes.

>>> both = fuse([[Found(7, 9.1), Found(5, 2.0)], [Found(5, 0.8), Found(6, 0.1)]], most=2)
>>> [found.id for found in both]
[5, 7]
>>> rows = hashed(["Ulrun lånte en økse.", "Hvad lånte Ulrun?", "Eirik solgte en seng."])
>>> [round(float(row @ rows[0]), 2) for row in rows]
[1.0, 0.74, 0.07]
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rulerlib.memory.system import Store

FUSED_BY = 60
"""What is added to each rank before its reciprocal is taken."""

MOST_CHARACTERS = 10_000
"""How much of a question is read: a text of a megabyte is none."""

# Of BM25, the usual values: how soon more of the same word counts less, and long texts less.
_K1, _B = 1.2, 0.75

# The numbers of a hashed vector, and as much of a word as its pieces are taken from.
_DIMENSION, _MOST_LETTERS = 2048, 64

# Letters and numbers, and marks that stand on a letter.
_WORD = re.compile(r"[^\W_][^\W_\u0300-\u0331]*(?:[\u0300-\u0331]+[^\W_]*)*")

# A column that has a number for more than one text in sixteen is held whole in memory.
_FULL = 16

Array = NDArray[Any]


class Found(NamedTuple):
    """A text that was found.

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
    """Return one ranking of several, by the sum of 1 / (`FUSED_BY` + rank) of each text.

    Parameters
    ----------
    rankings
        Each with the best first. How far the scores of one lie apart does not matter.
    most
        How many texts are returned at most; of equal ones those with lower numbers.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, hit in enumerate(ranking, 1):
            scores[hit.id] += 1 / (FUSED_BY + rank)
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [Found(*item) for item in best[:most]]


def best(values: Array, most: int) -> Array:
    """Return where the largest values above 0 are, the largest first; of equal ones the first.

    >>> best(np.array([0.0, 2.0, 3.0, 2.0]), 2).tolist()
    [2, 1]
    """
    where = np.flatnonzero(values > 0)
    if where.size > most:
        # All from the last that is wanted on, and those that equal it.
        where = np.flatnonzero(values >= np.sort(values[where])[-most])
    return where[np.argsort(-values[where], kind="stable")[:most]]


def _hash(text: str) -> int:
    """Return a number of 64 bits that depends on the text alone; Python's own changes."""
    spelled = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(spelled, digest_size=8).digest(), "little")


# ---------------------------------------------------------------- the index


class Matrix:
    """The numbers of the texts of an episode, by column.

    Attributes
    ----------
    ids
        The texts, by their numbers in the store.
    columns
        The columns in which a text has a number, by rising number.
    counts
        How many texts have a number there.
    lengths
        The sum of the numbers of each text.
    """

    def __init__(self, rows: Sequence[tuple[int, bytes, bytes]]) -> None:
        self.ids = np.array([row[0] for row in rows], np.int64)
        columns = np.frombuffer(b"".join(row[1] for row in rows), "<u4")
        weights = np.frombuffer(b"".join(row[2] for row in rows), "<f4")
        places = np.repeat(np.arange(len(rows)), [len(row[1]) // 4 for row in rows])
        # Numbers of 16 bits are sorted in a tenth of the time.
        small = columns.size and columns.max() < 1 << 16
        order = np.argsort(columns.astype(np.uint16) if small else columns, kind="stable")
        self._places, self._weights = places[order], weights[order]
        self.columns, starts = np.unique(columns[order], return_index=True)
        self._ends = np.append(starts, columns.size)
        self.counts = np.diff(self._ends)
        self.lengths = np.bincount(places, weights, len(rows))
        self._whole = dict[int, Array]()

    def column(self, column: int) -> tuple[slice | Array, Array]:
        """Return the places among `ids` of the texts with a number in a column, and the numbers."""
        at = int(np.searchsorted(self.columns, column))
        if at == self.columns.size or self.columns[at] != column:
            return self._places[:0], self._weights[:0]
        part = slice(self._ends[at], self._ends[at + 1])
        places, weights = self._places[part], self._weights[part]
        if _FULL * places.size <= self.ids.size:
            return places, weights
        # Adding a whole column takes less than picking out that many of its texts.
        if at not in self._whole:
            self._whole[at] = np.zeros(self.ids.size, weights.dtype)
            self._whole[at][places] = weights
        return slice(None), self._whole[at]

    def product(self, columns: Iterable[int], weights: Iterable[float], kind: Any) -> Array:
        """Return for each text the sum of its numbers, times those of a question."""
        scores = np.zeros(self.ids.size, kind)
        for column, weight in zip(columns, weights, strict=True):
            places, numbers = self.column(column)
            # A text stands in a column once, so that this adds each of its numbers.
            scores[places] += numbers.astype(kind, copy=False) * kind(weight)
        return scores

    def ranking(self, scores: Array, most: int) -> list[Found]:
        """Return the best texts; of equal ones those that were taught first."""
        return [Found(int(self.ids[at]), float(scores[at])) for at in best(scores, most)]


class Index:
    """The numbers of texts by column, in a table of a store.

    Parameters
    ----------
    store
        Where the texts are kept; made with the tables of `tables`.
    name
        The name of the table.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._database, self._name = store.database, name
        # All questions about an episode come in a row.
        self.matrix = functools.lru_cache(maxsize=1)(self._matrix)

    @staticmethod
    def tables(name: str) -> str:
        """Return SQL that makes the table of an index."""
        return (
            f"CREATE TABLE {name} (fact INTEGER PRIMARY KEY, episode TEXT NOT NULL,"
            " columns BLOB NOT NULL, weights BLOB NOT NULL);"
            f" CREATE INDEX {name}_of ON {name} (episode);"
        )

    def add(self, episode: str, fact: int, columns: Array, weights: Array) -> None:
        """Add a text by its number in the store, within `Store.writing`; columns rise."""
        self.matrix.cache_clear()
        row = fact, episode, columns.astype("<u4").tobytes(), weights.astype("<f4").tobytes()
        self._database.execute(f"INSERT INTO {self._name} VALUES (?, ?, ?, ?)", row)

    def _matrix(self, episode: str) -> Matrix:
        """Return the numbers of an episode."""
        query = f"SELECT fact, columns, weights FROM {self._name} WHERE episode = ? ORDER BY fact"
        return Matrix(self._database.execute(query, (episode,)).fetchall())


# ---------------------------------------------------------------- words


class WordSearch:
    """Finds texts by their words, ranked by BM25 with k1 = 1.2 and b = 0.75.

    Parameters
    ----------
    store
        Where the texts are kept; made with `tables`.
    """

    tables = Index.tables("words")
    """SQL that makes the table of words."""

    def __init__(self, store: Store) -> None:
        self._index = Index(store, "words")

    def add(self, episode: str, texts: Sequence[tuple[int, str]]) -> None:
        """Index texts by their numbers in the store, within `Store.writing`."""
        for fact, text in texts:
            counts = Counter(_column(word) for word in words_of(text))
            columns = np.array(sorted(counts), np.uint32)
            weights = np.array([counts[column] for column in sorted(counts)], np.float32)
            self._index.add(episode, fact, columns, weights)

    def search(self, episode: str, question: str, most: int) -> list[Found]:
        """Return the texts of an episode that have words of a question, the best first.

        Any text can be asked. A word that stands in every second text or more counts next to
        nothing.

        Parameters
        ----------
        most
            How many are returned at most; of equal ones those that were taught first.
        """
        matrix = self._index.matrix(episode)
        many, scores = matrix.ids.size, np.zeros(matrix.ids.size)
        mean = matrix.lengths.sum() / max(1, many) or 1.0
        # In the order in which SQLite reckons, so that texts that fit alike come in the same one.
        saturation = _K1 * (1 - _B + _B * matrix.lengths / mean)
        for word in dict.fromkeys(words_of(question[:MOST_CHARACTERS])):
            places, numbers = matrix.column(_column(word))
            times = numbers.astype(float)
            if has := np.count_nonzero(numbers):
                rarity = max(1e-6, math.log((many - has + 0.5) / (has + 0.5)))
                scores[places] += rarity * (times * (_K1 + 1) / (times + saturation[places]))
        return matrix.ranking(scores, most)


@functools.lru_cache(maxsize=50_000)
def _column(word: str) -> int:
    return _hash(word) % (1 << 32)


# ---------------------------------------------------------------- vectors


def hashed(texts: Sequence[str]) -> Array:
    """Return vectors of hashed words and of their pieces of 3 to 5 characters, a row for each text.

    A word weighs as much as it is long, for rare words are longer than frequent ones: one half
    for itself, and one for its pieces, which it shares with words that are spelt alike. The same
    text has the same vector in every process, of length 1; a text without words has zeros.
    """
    rows = np.zeros((len(texts), _DIMENSION))
    for row, text in zip(rows, texts, strict=True):
        for at, weights in map(_pieces, words_of(text)):
            np.add.at(row, at, weights)
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


@functools.lru_cache(maxsize=50_000)
def _pieces(word: str) -> tuple[Array, Array]:
    """Return where a word adds to a vector, and how much."""
    # What is a million letters long is no word.
    inside = f"<{word}>"[:_MOST_LETTERS]
    pieces = [inside[at : at + size] for size in (3, 4, 5) for at in range(len(inside) - size + 1)]
    hashes = np.array([_hash(f"={word}"), *map(_hash, pieces)], np.uint64)
    weights = np.full(len(hashes), len(inside) - 2.0)
    weights[1:] /= max(1, len(pieces)) ** 0.5
    weights[hashes % 2 == 1] *= -1
    return (hashes // 2 % _DIMENSION).astype(np.int64), weights


class VectorSearch:
    """Finds texts by their vectors: the cosine with the question's, over all of an episode.

    Parameters
    ----------
    store
        Where the texts are kept; made with `tables`.
    """

    tables = Index.tables("vectors")
    """SQL that makes the table of vectors."""

    def __init__(self, store: Store) -> None:
        self._index = Index(store, "vectors")

    def add(self, episode: str, texts: Sequence[tuple[int, str]]) -> None:
        """Keep the vectors of texts by their numbers in the store, within `Store.writing`."""
        for fact, text in texts:
            (vector,) = hashed([text])
            columns = np.flatnonzero(vector)
            self._index.add(episode, fact, columns, vector[columns])

    def search(self, episode: str, question: str, most: int) -> list[Found]:
        """Return the texts of an episode whose vectors fit that of a question, the best first.

        Parameters
        ----------
        most
            How many are returned at most; of equal ones those that were taught first. None has a
            cosine of 0 or less.
        """
        (vector,) = hashed([question[:MOST_CHARACTERS]])
        columns, matrix = np.flatnonzero(vector), self._index.matrix(episode)
        return matrix.ranking(matrix.product(columns, vector[columns], np.float32), most)
