"""Sparse keys: a text as the few units, of many, that its words and their parts excite most.

Words and character trigrams are hashed, and each excites a few units of a sparse random projection
whose seed is fixed; then the ``winners`` most excited units take all. Texts that share words share
units, and more so the more words they share. A letter with its ring or dots is a letter of its own.

>>> keys = Keys()
>>> boat, also, other = map(keys.of, ("Birmund has a boat.", "Birmund's boat", "It rains today."))
>>> len(boat), cosine(boat, also) > 0.5, cosine(boat, other) < 0.2
(27, True, True)
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rulerlib.memory.search import words_of

Array = NDArray[Any]

DIMENSION, WINNERS = 2048, 64

# Another seed makes other keys, which no store that stands somewhere would fit.
_SEED = b"rulerlib sparse keys 1"

# How many units a word and a trigram excite, and how strongly: what a word is says more than how
# a part of it is spelled.
_KINDS = {"word": (3, 2), "gram": (1, 1)}

# Of a text no more characters than these are read, and of a word no more trigrams.
_MOST, _LONGEST = 20_000, 40

# Words whose connections are kept in memory.
_KNOWN = 1 << 16


def cosine(one: Array, other: Array) -> float:
    """Return how alike two keys are: 1 where they are equal, 0 where they share no unit."""
    if not one.size or not other.size:
        return 0.0
    shared = np.intersect1d(one, other, assume_unique=True).size
    return float(shared / np.sqrt(one.size * other.size))


class Keys:
    """Makes keys; the same text has the same key on every machine.

    Parameters
    ----------
    dimension
        How many units there are, at most 65,536.
    winners
        How many units a key has at most. A short text excites fewer.
    """

    def __init__(self, dimension: int = DIMENSION, winners: int = WINNERS) -> None:
        self.dimension, self.winners = dimension, winners
        self._connections = functools.lru_cache(maxsize=_KNOWN)(self._connected)

    def activity(self, text: str) -> Array:
        """Return how strongly a text excites each unit."""
        found = [self._connections(word) for word in dict.fromkeys(words_of(text[:_MOST]))]
        if not found:
            return np.zeros(self.dimension)
        units = np.concatenate([each[0] for each in found])
        strengths = np.concatenate([each[1] for each in found])
        # Whole numbers, so that no order of adding them makes a difference.
        return np.bincount(units, weights=strengths, minlength=self.dimension)

    def of(self, text: str) -> Array:
        """Return the key of a text: its winners by rising number."""
        return self.winning(self.activity(text))

    def winning(self, activity: Array) -> Array:
        """Return the units that win by an activity; of two that are equal the lower one."""
        excited = np.flatnonzero(activity)
        best = np.argsort(-activity[excited], kind="stable")[: self.winners]
        return np.sort(excited[best]).astype(np.uint16)

    def _connected(self, word: str) -> tuple[Array, Array]:
        """Return the units that a word excites, and how strongly."""
        closed = f"<{word[:_LONGEST]}>"
        grams = dict.fromkeys(closed[at : at + 3] for at in range(len(closed) - 2))
        drawn = [_drawn("word", word), *(_drawn("gram", gram) for gram in grams)]
        units, strengths = (np.concatenate(each) for each in zip(*drawn, strict=True))
        return units % self.dimension, strengths


def _drawn(kind: str, feature: str) -> tuple[Array, Array]:
    """Return what a feature is connected to: numbers of 16 bits, and strengths."""
    fan, weight = _KINDS[kind]
    spelled = f"{kind} {feature}".encode("utf-8", "surrogatepass")
    drawn = hashlib.blake2b(spelled, digest_size=4 * fan, key=_SEED).digest()
    units, strengths = np.frombuffer(drawn, "<u2").reshape(2, fan).astype(np.int64)
    # From once to twice the weight: hardly two units are ever excited alike.
    return units, weight * (strengths + (1 << 16))
