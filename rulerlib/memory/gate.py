"""The write gate: what is worth keeping of what is taught.

A fact is written where it is unexpected, new, paid to know or asked to be kept:

    S = w_surprise * surprise + w_novelty * novelty + w_reward * rewarded + w_pin * pinned

and S is above a threshold.

>>> gate = Gate()
>>> gate.passes(gate.salience(surprise=0), novelty=1)
False
>>> gate.passes(gate.salience(surprise=0.6), novelty=0.5)
True
>>> gate.passes(gate.salience(surprise=0, rewarded=True), novelty=0)
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rulerlib.errors import is_number, require
from rulerlib.memory.sparse_keys import Array

# Up to this number of keys, all are compared with.
_EXACT = 1024

# Beyond it: the latest keys of the rarest units, and the ones that share the most of these.
_LATEST, _RAREST, _NEAREST = 256, 16, 32


@dataclass(frozen=True)
class Gate:
    """What decides whether a fact is written.

    Attributes
    ----------
    w_surprise, w_novelty, w_reward, w_pin
        What each of the four counts, 0 to 1000.
    threshold
        What the sum must exceed.

    Raises
    ------
    ParameterError
        If a value cannot work: says what is allowed.
    """

    w_surprise: float = 0.5
    w_novelty: float = 0.5
    w_reward: float = 1.0
    w_pin: float = 1.0
    threshold: float = 0.5

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            weight(name, value)

    def salience(self, surprise: float, rewarded: bool = False, pinned: bool = False) -> float:
        """Return what a fact weighs without its novelty, which wears off once it is written."""
        return self.w_surprise * surprise + self.w_reward * rewarded + self.w_pin * pinned

    def passes(self, salience: float, novelty: float) -> bool:
        """Return whether a fact of a salience and a novelty is written."""
        return salience + self.w_novelty * novelty > self.threshold

    def certain(self, salience: float) -> bool | None:
        """Return whether a fact is written however new it is; None: its novelty decides."""
        if salience > self.threshold:
            return True
        return None if salience + self.w_novelty > self.threshold else False


def weight(name: str, value: Any, most: int = 1000) -> None:
    """Check that a setting is a number from 0 to ``most``.

    Raises
    ------
    ParameterError
        If it is not.
    """
    require(is_number(value) and 0 <= value <= most, name, value, f"a number from 0 to {most}")


class Novelty:
    """How new a key is: one less the largest cosine to the keys that were added.

    Up to 1,024 keys all are compared with. Beyond, a near copy is found as long as one of its
    rarest units had it among the latest; else the novelty may come out too large.

    Parameters
    ----------
    dimension
        How many units there are.
    winners
        How many units a key has at most.
    """

    def __init__(self, dimension: int, winners: int) -> None:
        self._dimension, self._count = dimension, 0
        # Rows of units, filled up with one that no key has.
        self._keys = np.full((64, winners), dimension, np.int32)
        self._sizes = np.ones(64)
        # By unit the latest keys that have it, as a ring: a place and one, so that 0 is nothing.
        self._latest = np.zeros((dimension, _LATEST), np.int32)
        self._filled = np.zeros(dimension, np.int64)

    def add(self, key: Array) -> None:
        """Add a key."""
        if self._count == len(self._keys):
            more = np.full_like(self._keys, self._dimension)
            self._keys = np.concatenate([self._keys, more])
            self._sizes = np.concatenate([self._sizes, np.ones(len(more))])
        self._keys[self._count, : key.size] = key
        self._sizes[self._count] = max(1, key.size)
        self._count += 1
        self._latest[key, self._filled[key] % _LATEST] = self._count
        self._filled[key] += 1

    def of(self, key: Array) -> float:
        """Return how new a key is, 0 to 1."""
        if not self._count or not key.size:
            return 1.0
        has = np.zeros(self._dimension + 1, bool)
        has[key] = True
        near = slice(self._count) if self._count <= _EXACT else self._near(key)
        shared = has[self._keys[near]].sum(axis=1)
        return float(1 - (shared / np.sqrt(key.size * self._sizes[near])).max())

    def _near(self, key: Array) -> Array:
        """Return places of keys that share rare units, the most of them first."""
        rarest = key[np.argsort(self._filled[key], kind="stable")[:_RAREST]]
        found = self._latest[rarest].ravel()
        places, counts = np.unique(found[found > 0] - 1, return_counts=True)
        # Where nothing is near, any key is as good as another.
        nearest = places[np.argsort(-counts, kind="stable")[:_NEAREST]]
        return nearest if nearest.size else np.zeros(1, int)
