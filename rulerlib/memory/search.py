"""Search within an episode: by words with BM25 (bm25s), by hashed vectors, and both fused.

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
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rulerlib import packages
from rulerlib.memory.system import Store

FUSED_BY = 60
"""Added to each rank before its reciprocal is taken (Cormack et al. 2009)."""

MOST_CHARACTERS = 10_000
"""The part of a question that is read."""

DIMENSION = 2048
"""The length of a hashed vector."""

# The part of a word that its pieces are taken from.
_MOST_LETTERS = 64

# Letters and digits, with combining marks on letters.
_WORD = re.compile(r"[^\W_][^\W_\u0300-\u0331]*(?:[\u0300-\u0331]+[^\W_]*)*")

Array = NDArray[Any]


class Found(NamedTuple):
    """A text that was found.

    Attributes
    ----------
    id
        Its number in the store.
    score
        The score of the search; higher is better.
    """

    id: int
    score: float


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; letters keep their marks: å is not a.

    >>> words_of("Hvem var på Ø-en? a\u030a_b")
    ['hvem', 'var', 'på', 'ø', 'en', 'å', 'b']
    """
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def fuse(rankings: Iterable[Sequence[Found]], most: int) -> list[Found]:
    """Return one ranking of several, by the sum of 1 / (`FUSED_BY` + rank) of each text.

    Parameters
    ----------
    rankings
        Each with the best first.
    most
        The maximum number of texts returned; ties go to the lower number.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, hit in enumerate(ranking, 1):
            scores[hit.id] += 1 / (FUSED_BY + rank)
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [Found(*item) for item in best[:most]]


def ranked(ids: Sequence[int], scores: Array, most: int) -> list[Found]:
    """Return the texts with the highest scores above 0, the best first; ties keep their order."""
    order = np.argsort(-scores, kind="stable")[:most]
    return [Found(ids[at], float(scores[at])) for at in order if scores[at] > 0]


# ---------------------------------------------------------------- words


class WordSearch:
    """Finds texts by their words, ranked by BM25 with k1 = 1.2 and b = 0.75.

    Parameters
    ----------
    store
        The texts.

    Raises
    ------
    MissingExtraError
        If bm25s is not installed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bm25s = packages.load("bm25s", "notebook", "Search by words")
        # Questions about an episode come in a row.
        self._index = functools.lru_cache(maxsize=1)(self._indexed)

    def forget(self) -> None:
        """Drop the index, because texts were added to the store."""
        self._index.cache_clear()

    def _indexed(self, episode: str) -> tuple[list[int], Any]:
        texts = self._store.texts(episode)
        words = [words_of(text) for text in texts]
        # bm25s cannot index texts without any word.
        if not any(words):
            return [], None
        retriever = self._bm25s.BM25(k1=1.2, b=0.75)
        retriever.index(words, show_progress=False)
        return [text.id for text in texts], retriever

    def search(self, episode: str, question: str, most: int) -> list[Found]:
        """Return at most ``most`` texts of an episode that share words with a question."""
        ids, retriever = self._index(episode)
        if retriever is None:
            return []
        words = dict.fromkeys(words_of(question[:MOST_CHARACTERS]))
        known = [word for word in words if word in retriever.vocab_dict]
        return ranked(ids, retriever.get_scores(known), most) if known else []


# ---------------------------------------------------------------- sparse vectors


class Vectors(NamedTuple):
    """The sparse vectors of an episode, sorted by column.

    Attributes
    ----------
    ids
        The number in the store of each row.
    rows, weights
        The row and the value of each entry.
    starts
        Entries ``starts[column]`` to ``starts[column + 1]`` are in a column.
    """

    ids: list[int]
    rows: Array
    weights: Array
    starts: Array

    def products(self, query: Array) -> Array:
        """Return the dot product of each row with a vector."""
        products = np.zeros(len(self.ids))
        for column in np.flatnonzero(query):
            entries = slice(self.starts[column], self.starts[column + 1])
            # A row has one entry in a column.
            products[self.rows[entries]] += self.weights[entries] * query[column]
        return products


class VectorTable:
    """Sparse vectors of texts in a table of a store.

    Parameters
    ----------
    store
        The store; made with the tables of `tables`.
    name
        The name of the table.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._database, self._name = store.database, name
        # Questions about an episode come in a row.
        self.read = functools.lru_cache(maxsize=1)(self._read)

    @staticmethod
    def tables(name: str) -> str:
        """Return the SQL that makes the table."""
        return (
            f"CREATE TABLE {name} (fact INTEGER PRIMARY KEY, episode TEXT NOT NULL,"
            " columns BLOB NOT NULL, weights BLOB NOT NULL);"
            f" CREATE INDEX {name}_of ON {name} (episode);"
        )

    def add(self, episode: str, fact: int, columns: Array, weights: Array) -> None:
        """Add the vector of a text by its number in the store, within `Store.writing`."""
        self.read.cache_clear()
        row = fact, episode, columns.astype("<u2").tobytes(), weights.astype("<f4").tobytes()
        self._database.execute(f"INSERT INTO {self._name} VALUES (?, ?, ?, ?)", row)

    def _read(self, episode: str) -> Vectors:
        query = f"SELECT fact, columns, weights FROM {self._name} WHERE episode = ? ORDER BY fact"
        table = self._database.execute(query, (episode,)).fetchall()
        columns = np.frombuffer(b"".join(row[1] for row in table), "<u2")
        weights = np.frombuffer(b"".join(row[2] for row in table), "<f4")
        rows = np.repeat(np.arange(len(table)), [len(row[1]) // 2 for row in table])
        order = np.argsort(columns, kind="stable")
        starts = np.searchsorted(columns[order], np.arange(DIMENSION + 1))
        return Vectors([row[0] for row in table], rows[order], weights[order], starts)


def hashed(texts: Sequence[str]) -> Array:
    """Return vectors of hashed words and of their pieces of 3 to 5 characters, a row for each text.

    A word weighs as much as it is long, because long words are rarer: one half for itself, the
    other for its pieces, which it shares with words that are spelled alike. Rows have `DIMENSION`
    numbers and length 1; a text without words has zeros.
    """
    rows = np.zeros((len(texts), DIMENSION))
    for row, text in zip(rows, texts, strict=True):
        for word in words_of(text):
            columns, weights = _pieces(word)
            np.add.at(row, columns, weights)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


# Hashing takes most of the time of teaching, and words repeat.
@functools.lru_cache(maxsize=50_000)
def _pieces(word: str) -> tuple[Array, Array]:
    """Return the columns that a word adds to, and how much."""
    inside = f"<{word}>"[:_MOST_LETTERS]
    pieces = [inside[at : at + size] for size in (3, 4, 5) for at in range(len(inside) - size + 1)]
    hashes = np.array([_hash(f"={word}"), *map(_hash, pieces)], np.uint64)
    weights = np.full(len(hashes), len(inside) - 2.0)
    weights[1:] /= max(1, len(pieces)) ** 0.5
    weights[hashes % 2 == 1] *= -1
    return (hashes // 2 % DIMENSION).astype(np.int64), weights


def _hash(text: str) -> int:
    """Return a number of 64 bits that depends on the text alone."""
    spelled = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(spelled, digest_size=8).digest(), "little")


class VectorSearch:
    """Finds texts by the cosine of their hashed vectors with that of the question.

    Parameters
    ----------
    store
        The texts; made with `tables`.
    """

    tables = VectorTable.tables("vectors")
    """SQL that makes the table of vectors."""

    def __init__(self, store: Store) -> None:
        self._table = VectorTable(store, "vectors")

    def add(self, episode: str, texts: Sequence[tuple[int, str]]) -> None:
        """Keep the vectors of texts by their numbers in the store, within `Store.writing`."""
        for fact, text in texts:
            (vector,) = hashed([text])
            columns = np.flatnonzero(vector)
            self._table.add(episode, fact, columns, vector[columns])

    def search(self, episode: str, question: str, most: int) -> list[Found]:
        """Return at most ``most`` texts of an episode with a cosine above 0."""
        (vector,) = hashed([question[:MOST_CHARACTERS]])
        vectors = self._table.read(episode)
        # Rounded, so that the last digits do not decide the order.
        return ranked(vectors.ids, np.round(vectors.products(vector), 6), most)
