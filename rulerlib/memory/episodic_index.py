"""The episodic index (``hei_nw``): a write gate and sparse keys.

A fact is written where it is unexpected, new, paid to know or asked to be kept:

    S = w_surprise * surprise + w_novelty * novelty + w_reward * rewarded + w_pin * pinned

and S is above a threshold. What passes is kept with a sparse key: words and character trigrams are
hashed, each excites a few units of many, and the most excited units take all, so that texts that
share words share units. A question excites units as a fact does, and the facts that have these
units are found.

What the gate refuses is kept nowhere. Without surprise, and with the settings that nobody chose,
that is whatever carries no mark: novelty alone does not pass.

>>> import tempfile
>>> from rulerlib.languages import load
>>> index = EpisodicIndex(tempfile.mkdtemp(), Settings(), load("en"))
>>> boat, axe = "Birmund repaired a boat in Smalktorp.", "Ulrun sold an axe in Tvarneby."
>>> index.teach("a", [Text(boat, 0, rewarded=True), Text(axe, 1)])
>>> [recalled.text for recalled in index.recall("a", "What did Birmund repair?")]
['Birmund repaired a boat in Smalktorp.']
>>> index.stored()
1
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from rulerlib.languages import Language
from rulerlib.memory.search import DIMENSION, Array, Vectors, VectorTable, ranked, words_of
from rulerlib.memory.system import Recalled, System, SystemSettings, Text

# Another seed makes other keys, which no store that stands somewhere would fit.
_SEED = b"rulerlib sparse keys 1"

# How many units a word and a trigram excite, and how strongly: what a word is says more than how
# a part of it is spelled.
_FEATURES = {"word": (3, 2), "gram": (1, 1)}

# Of a text no more characters than these are read, and of a word no more for trigrams.
_MOST, _LONGEST = 20_000, 40

# The most units of a key; a short text excites fewer.
WINNERS = 64

# Up to this number of keys, the latest, a key is compared with to see how new it is.
_LATEST = 8_192


@dataclass(frozen=True)
class Settings(SystemSettings):
    """What can be set about an episodic index.

    Attributes
    ----------
    k
        How many facts are recalled at most.
    gate
        Whether the gate decides what is written; otherwise all is.
    w_surprise, w_novelty, w_reward, w_pin, threshold
        What each of the four counts, 0 to 1000, and what the sum must exceed.
    """

    k: int = 5
    gate: bool = True
    w_surprise: float = 0.5
    w_novelty: float = 0.5
    w_reward: float = 1.0
    w_pin: float = 1.0
    threshold: float = 0.5

    limits: ClassVar = {"k": (1, 1000)}


class EpisodicIndex(System):
    """Keeps what passes a gate, and finds it by sparse keys; see `System`."""

    tables = VectorTable.tables("keys")

    settings: Settings

    def __init__(self, folder: str | Path, settings: Settings, language: Language) -> None:
        super().__init__(folder, settings, language)
        self._keys = VectorTable(self.store, "keys")

    # ------------------------------------------------------------- teaching

    def learn(self, episode: str, texts: Sequence[Text]) -> None:
        """See `System`."""
        novelty = _Novelty()
        if self.settings.gate:
            for text in self.store.texts(episode):
                novelty.add(winners(activity(text)))
        for text in texts:
            key, salience = winners(activity(text)), self._salience(text)
            written = not self.settings.gate or self._passes(salience, key, novelty)
            if written:
                novelty.add(key)
                fact = self.store.add(episode, text)
                self._keys.add(episode, fact, key, np.ones(key.size))

    def _salience(self, text: Text) -> float:
        """Return what a fact weighs without its novelty, which wears off once it is written."""
        settings, surprise = self.settings, text.surprise or 0.0
        marks = settings.w_reward * text.rewarded + settings.w_pin * text.pinned
        return settings.w_surprise * surprise + marks

    def _passes(self, salience: float, key: Array, novelty: _Novelty) -> bool:
        """Return whether a fact is written; its novelty is found out where that decides."""
        weight, threshold = self.settings.w_novelty, self.settings.threshold
        return salience > threshold or (
            salience + weight > threshold and salience + weight * novelty.of(key) > threshold
        )

    # ------------------------------------------------------------- recall

    def search(self, episode: str, question: str) -> list[Recalled]:
        """See `System`."""
        keys = self._keys.read(episode)
        found = ranked(keys.ids, _fit(keys, winners(activity(question))), self.settings.k)
        texts = self.store.of([hit.id for hit in found])
        return [
            Recalled(str(text), (text.number,), hit.score)
            for text, hit in zip(texts, found, strict=True)
        ]


def _fit(keys: Vectors, units: Array) -> Array:
    """Return how well each key fits some units, 0 to 1; rare units count more."""
    common = np.diff(keys.starts)
    cue = np.zeros(DIMENSION)
    known = units[common[units] > 0]
    cue[known] = np.log2((len(keys.ids) + 1) / common[known])
    # Rounded, so that the last digits do not decide the order.
    return np.round(keys.products(cue) / (cue.sum() or 1), 9)


# ---------------------------------------------------------------- keys


def activity(text: str) -> Array:
    """Return how strongly a text excites each unit; the same on every machine."""
    excited = [_connected(word) for word in dict.fromkeys(words_of(text[:_MOST]))]
    if not excited:
        return np.zeros(DIMENSION)
    units, strengths = (np.concatenate(parts) for parts in zip(*excited, strict=True))
    # Whole numbers, so that no order of adding them makes a difference.
    return np.bincount(units, weights=strengths, minlength=DIMENSION)


def winners(excited: Array) -> Array:
    """Return the key of a text by rising number: the units that it excites most."""
    units = np.flatnonzero(excited)
    return np.sort(units[np.argsort(-excited[units], kind="stable")[:WINNERS]])


@functools.lru_cache(maxsize=1 << 16)
def _connected(word: str) -> tuple[Array, Array]:
    """Return the units that a word excites, and how strongly."""
    closed = f"<{word[:_LONGEST]}>"
    grams = dict.fromkeys(closed[at : at + 3] for at in range(len(closed) - 2))
    drawn = []
    for kind, feature in [("word", word), *(("gram", gram) for gram in grams)]:
        fan, weight = _FEATURES[kind]
        spelled = f"{kind} {feature}".encode("utf-8", "surrogatepass")
        data = hashlib.blake2b(spelled, digest_size=4 * fan, key=_SEED).digest()
        units, strengths = np.frombuffer(data, "<u2").reshape(2, fan).astype(np.int64)
        # From once to twice the weight: hardly two units are ever excited alike.
        drawn.append((units % DIMENSION, weight * (strengths + (1 << 16))))
    units, strengths = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    return units, strengths


class _Novelty:
    """How new a key is: one less the largest cosine to the latest keys that were added."""

    def __init__(self) -> None:
        self._keys = np.zeros((_LATEST, DIMENSION), bool)
        self._sizes, self._count = np.ones(_LATEST), 0

    def add(self, key: Array) -> None:
        """Add a key."""
        row = self._count % _LATEST
        self._keys[row], self._sizes[row] = False, max(1, key.size)
        self._keys[row, key] = True
        self._count += 1

    def of(self, key: Array) -> float:
        """Return how new a key is, 0 to 1."""
        many = min(self._count, _LATEST)
        if not many or not key.size:
            return 1.0
        shared = self._keys[:many, key].sum(axis=1)
        return float(1 - (shared / np.sqrt(key.size * self._sizes[:many])).max())
