"""The episodic index (``hei_nw``): a write gate and sparse keys.

A text is kept if its salience S is above a threshold:

    S = w_novelty * novelty + w_reward * rewarded + w_pin * pinned

Texts that the gate rejects are lost. A text that is kept gets a sparse key: its words and character
trigrams are hashed, each excites a few of many units, and the units that are excited most form the
key, so that texts that share words share units. A question excites units in the same way, and the
texts that share units with it are found, rare units counting more.

With the default settings a text passes if it is marked, or if more than half of it is new.

>>> import tempfile
>>> from rulerlib.languages import load
>>> index = EpisodicIndex(tempfile.mkdtemp(), Settings(), load("en"))
>>> boat = "Birmund repaired a boat in Smalktorp."
>>> index.teach([Text(boat, 0), Text(f"Yes, {boat}", 1)])
>>> [found.text for found in index.recall("What did Birmund repair?")], len(index.texts)
(['Birmund repaired a boat in Smalktorp.'], 1)
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from rulerlib.errors import load_package, validated
from rulerlib.memory import system
from rulerlib.memory.search import DIMENSION, Array, ranked, words_of
from rulerlib.memory.system import Recalled, System, Text, recalled

_SEED = b"rulerlib sparse keys 1"

# How many units a word and a trigram excite, and how strongly: a whole word counts more than its
# spelling.
_FEATURES = {"word": (3, 2), "gram": (1, 1)}

# The maximum number of units of a key; a short text excites fewer.
WINNERS = 64

# How many keys, the latest ones, a new key is compared with.
_LATEST = 8_192


Weight = Annotated[float, Field(ge=0, le=1000)]


@validated
class Settings(system.Settings):
    """The settings of an episodic index, besides ``k``.

    Attributes
    ----------
    gate
        Whether the gate decides what is kept; otherwise everything is.
    w_novelty, w_reward, w_pin, threshold
        The three weights, 0 to 1000, and what the salience must exceed.
    """

    gate: bool = True
    w_novelty: Weight = 1.0
    w_reward: Weight = 1.0
    w_pin: Weight = 1.0
    threshold: Weight = 0.5


class EpisodicIndex(System):
    """Keeps the texts that pass a gate, and finds them by sparse keys."""

    settings_class = Settings
    settings: Settings

    def teach(self, texts: Sequence[Text]) -> None:
        """Keep the texts that pass the gate."""
        settings = self.settings
        if not settings.gate:
            super().teach(texts)
            return
        latest = _Latest()
        for text in self.texts:
            latest.add(key_of(text))
        for text in texts:
            key = key_of(text)
            salience = settings.w_reward * text.rewarded + settings.w_pin * text.pinned
            salience += settings.w_novelty * latest.novelty(key)
            if salience > settings.threshold:
                latest.add(key)
                super().teach([text])

    def build(self) -> Any:
        """Return a sparse matrix with the key of each text as a row of zeros and ones."""
        sparse = load_package("scipy.sparse", "notebook", "Search by keys")
        keys = [key_of(text) for text in self.texts]
        rows = np.repeat(np.arange(len(keys)), [len(key) for key in keys])
        columns = np.concatenate([np.zeros(0, int), *keys])
        shape = len(keys), DIMENSION
        return sparse.csr_array((np.ones(len(columns)), (rows, columns)), shape=shape)

    def search(self, index: Any, question: str) -> list[Recalled]:
        """See `System`."""
        units = key_of(question)
        common = np.asarray(index.sum(axis=0))
        known = units[common[units] > 0]
        cue = np.zeros(DIMENSION)
        cue[known] = np.log2((len(self.texts) + 1) / common[known])
        # Rounded, because the last digits depend on the order of adding.
        scores = np.round(index @ cue / (cue.sum() or 1), 9)
        return recalled([self.texts[place] for place in ranked(scores, self.settings.k)])


class _Latest:
    """The latest keys, to see how new another key is."""

    def __init__(self) -> None:
        self._keys = np.zeros((_LATEST, DIMENSION), bool)
        self._sizes, self._count = np.ones(_LATEST), 0

    def add(self, key: Array) -> None:
        row = self._count % _LATEST
        self._keys[row], self._sizes[row] = False, max(1, key.size)
        self._keys[row, key] = True
        self._count += 1

    def novelty(self, key: Array) -> float:
        """Return 1 minus the largest cosine to a key that was added."""
        shared = self._keys[: self._count, key].sum(axis=1)
        if not shared.size or not key.size:
            return 1.0
        return float(1 - (shared / np.sqrt(key.size * self._sizes[: self._count])).max())


def key_of(text: str) -> Array:
    """Return the units that a text excites most, in ascending order; the same everywhere."""
    excited = np.zeros(DIMENSION)
    for word in dict.fromkeys(words_of(text)):
        # Integers, so that the order of adding makes no difference.
        np.add.at(excited, *_excited(word))
    units = np.flatnonzero(excited)
    return np.sort(units[np.argsort(-excited[units], kind="stable")[:WINNERS]])


# Hashing takes most of the time that a key takes, and words repeat.
@functools.lru_cache(maxsize=1 << 16)
def _excited(word: str) -> tuple[Array, Array]:
    """Return the units that a word excites, and how strongly."""
    closed = f"<{word}>"
    grams = dict.fromkeys(closed[at : at + 3] for at in range(len(closed) - 2))
    drawn = []
    for kind, feature in [("word", word), *(("gram", gram) for gram in grams)]:
        fan, weight = _FEATURES[kind]
        spelled = f"{kind} {feature}".encode()
        data = hashlib.blake2b(spelled, digest_size=4 * fan, key=_SEED).digest()
        units, strengths = np.frombuffer(data, "<u2").reshape(2, fan).astype(np.int64)
        # Between one and two times the weight, so that ties are rare.
        drawn.append((units % DIMENSION, weight * (strengths + (1 << 16))))
    units, strengths = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    return units, strengths
