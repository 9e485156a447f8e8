"""Invented names, put together from the parts in a language's ``names.toml``.

Each combination of an onset, a rime and an ending is used at most once. Onsets and rimes have fixed
lengths, so that no two names are equal and none is part of another.
"""

from __future__ import annotations

import math
import random

from rulerlib.languages import Language


class Names:
    """The names of a language in a random order by ``seed``."""

    def __init__(self, language: Language, seed: int) -> None:
        tables = language.section("names")
        self.months: list[str] = tables["format"]["months"]
        self.parts = tables["names"]
        self._seed = seed
        self._orders: dict[str, tuple[int, int]] = {}

    def shuffled(self, key: str, number: int, total: int) -> int:
        """Return the item at ``number`` in a random order of ``range(total)``.

        Multiplying by a factor coprime to ``total`` permutes the numbers without a list.
        """
        if key not in self._orders:
            rng = random.Random(f"{self._seed}:order:{key}")
            factor = rng.randrange(1, total + 1)
            while math.gcd(factor, total) != 1:
                factor += 1
            self._orders[key] = factor, rng.randrange(total)
        factor, start = self._orders[key]
        return (factor * number + start) % total

    def num_words(self, pool: str) -> int:
        """Return the number of different names in a pool (``"town"``, ``"ship"``)."""
        parts = self.parts
        return len(parts["onsets"]) * len(parts["rimes"]) * len(parts["endings"][pool])

    def word(self, pool: str, number: int) -> str:
        """Return a name by its number, which must be below `num_words`."""
        onsets, rimes = self.parts["onsets"], self.parts["rimes"]
        rest, onset = divmod(self.shuffled(pool, number, self.num_words(pool)), len(onsets))
        ending, rime = divmod(rest, len(rimes))
        return f"{onsets[onset]}{rimes[rime]}{self.parts['endings'][pool][ending]}"

    def full_name(self, rng: random.Random, gender: str, surname: str) -> str:
        """Return a first name for ``"he"`` or ``"she"``, and a surname."""
        first = self.parts["first"][gender]
        return f"{rng.choice(first['starts'])}{rng.choice(first['ends'])} {surname}"
