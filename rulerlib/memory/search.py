"""The systems `rag` and `random`, and search: by words (BM25), by hashed vectors, and both fused.

`rag` finds texts by their words and by vectors. `random` recalls texts at random, whatever the
question is; its score is the floor for all memories. Both keep every text.

>>> import tempfile
>>> from rulerlib.languages import load
>>> from rulerlib.memory.system import Settings, Text
>>> rag = Rag(tempfile.mkdtemp(), Settings(k=1), load("en"))
>>> rag.teach([Text("Birmund sold a boat."), Text("Ulrun lent an axe.", number=1)])
>>> rag.recall("What did Ulrun lend?")
[Recalled(text='Ulrun lent an axe.', facts=(1,))]
>>> fuse([[7, 5], [5, 6]], most=2)
[5, 7]
>>> rows = hashed(["Ulrun lånte en økse.", "Hvad lånte Ulrun?", "Eirik solgte en seng."])
>>> [round(float(row @ rows[0]), 2) for row in rows]
[1.0, 0.74, 0.07]
"""

from __future__ import annotations

import functools
import hashlib
import random
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rulerlib.errors import load_package
from rulerlib.memory.system import Recalled, System, recalled

# How many texts of each ranking are fused, at least.
DEPTH = 100

FUSED_BY = 60
"""Added to each rank before its reciprocal is taken (Cormack et al. 2009)."""

DIMENSION = 2048
"""The length of a hashed vector."""

# How much of a word its pieces are taken from.
_MAX_LETTERS = 64

# Texts that are hashed at once: their dense rows take 16 MB.
_CHUNK = 1000

# Letters and digits, with combining marks on letters.
_WORD = re.compile(r"[^\W_][^\W_\u0300-\u0331]*(?:[\u0300-\u0331]+[^\W_]*)*")

Array = NDArray[Any]


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; letters keep their marks: å is not a.

    >>> words_of("Hvem var på Ø-en? a\u030a_b")
    ['hvem', 'var', 'på', 'ø', 'en', 'å', 'b']
    """
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def fuse(rankings: Iterable[Sequence[int]], most: int) -> list[int]:
    """Return at most ``most`` items of several rankings, by the sum of 1 / (`FUSED_BY` + rank).

    Each ranking has the best item first. Ties go to the lower number.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] += 1 / (FUSED_BY + rank)
    return sorted(scores, key=lambda item: (-scores[item], item))[:most]


def ranked(scores: Array, most: int) -> list[int]:
    """Return the positions of the highest scores above 0, the best first; ties keep their order."""
    order = np.argsort(-scores, kind="stable")[:most]
    return [int(place) for place in order if scores[place] > 0]


class WordSearch:
    """Finds texts by their words, ranked by BM25 with k1 = 1.2 and b = 0.75.

    Raises
    ------
    MissingExtraError
        If bm25s is not installed.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        bm25s = load_package("bm25s", "notebook", "Search by words")
        words = [words_of(text) for text in texts]
        # bm25s cannot index texts without any word.
        self._index = bm25s.BM25(k1=1.2, b=0.75) if any(words) else None
        if self._index is not None:
            self._index.index(words, show_progress=False)

    def search(self, question: str, most: int) -> list[int]:
        """Return the positions of at most ``most`` texts that share words with a question."""
        if self._index is None:
            return []
        words = dict.fromkeys(words_of(question))
        known = [word for word in words if word in self._index.vocab_dict]
        return ranked(self._index.get_scores(known), most) if known else []


class VectorSearch:
    """Finds texts by the cosine of their hashed vectors with the vector of a question.

    Raises
    ------
    MissingExtraError
        If scipy is not installed.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        sparse = load_package("scipy.sparse", "notebook", "Search by vectors")
        chunks = [texts[start : start + _CHUNK] for start in range(0, len(texts), _CHUNK)]
        rows = [sparse.csr_array(hashed(chunk), dtype=float) for chunk in chunks]
        self._rows = sparse.vstack(rows) if rows else sparse.csr_array((0, DIMENSION))

    def search(self, question: str, most: int) -> list[int]:
        """Return the positions of at most ``most`` texts with a cosine above 0."""
        (vector,) = hashed([question])
        # Rounded, because the last digits depend on the machine.
        return ranked(np.round(self._rows @ vector.astype(float), 6), most)


def hashed(texts: Sequence[str]) -> Array:
    """Return vectors of hashed words and of their pieces of 3 to 5 characters.

    A word weighs as much as it is long, because long words are rarer. Half of the weight goes to
    the word and half to its pieces, which it shares with words of similar spelling.

    Returns
    -------
    array of shape (len(texts), DIMENSION)
        Rows of length 1; the row of a text without words is 0.
    """
    rows = np.zeros((len(texts), DIMENSION))
    for row, text in zip(rows, texts, strict=True):
        for word in words_of(text):
            columns, weights = _pieces(word)
            np.add.at(row, columns, weights)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


# Hashing takes most of the time that a vector takes, and words repeat.
@functools.lru_cache(maxsize=50_000)
def _pieces(word: str) -> tuple[Array, Array]:
    """Return the columns that a word adds to, and how much."""
    inside = f"<{word}>"[:_MAX_LETTERS]
    pieces = [inside[at : at + size] for size in (3, 4, 5) for at in range(len(inside) - size + 1)]
    hashes = np.array([_hash(f"={word}"), *map(_hash, pieces)], np.uint64)
    weights = np.full(len(hashes), len(inside) - 2.0)
    weights[1:] /= max(1, len(pieces)) ** 0.5
    weights[hashes % 2 == 1] *= -1
    return (hashes // 2 % DIMENSION).astype(np.int64), weights


def _hash(text: str) -> int:
    """Return a number of 64 bits that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


class Rag(System):
    """Finds texts by words and by vectors, fused by `fuse`."""

    def build(self) -> list[WordSearch | VectorSearch]:
        """See `System`."""
        return [WordSearch(self.texts), VectorSearch(self.texts)]

    def search(self, index: list[WordSearch | VectorSearch], question: str) -> list[Recalled]:
        """See `System`."""
        depth = max(DEPTH, self.settings.k)
        best = fuse([each.search(question, depth) for each in index], self.settings.k)
        return recalled([self.texts[place] for place in best])


class Random(System):
    """Recalls texts at random; the same ones for the same question."""

    def build(self) -> Any:
        """See `System`."""
        return ()

    def search(self, index: Any, question: str) -> list[Recalled]:
        """See `System`."""
        k = min(self.settings.k, len(self.texts))
        return recalled(random.Random(question).sample(self.texts, k))
