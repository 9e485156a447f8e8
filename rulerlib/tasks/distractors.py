"""Keys and values of needles, and the needles among them that nobody asks for.

>>> from rulerlib import languages
>>> english = languages.load("en")
>>> pool = Distractors("42", "words", "numbers", english, "The number of {key} is {value}.")
>>> text, (key, start, end) = next(iter(pool.first(1).items()))
>>> text == f"The number of {key} is {text[start:end]}."
True
"""

from __future__ import annotations

import functools
import itertools
import random
import threading
import uuid

from rulerlib.languages import Language

TRIES = 1000
"""How often something is drawn anew that stands in the text by chance, or twice."""


def value_of(kind: str, language: Language, rng: random.Random) -> str:
    """Return a random key or value: a word pair, a 7-digit number or a version 4 UUID."""
    if kind == "numbers":
        return str(rng.randrange(1_000_000, 10_000_000))
    if kind == "uuids":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return f"{rng.choice(language.adjectives)}-{rng.choice(language.nouns)}"


class Distractors:
    """Needles that nobody asks for, all different, drawn as far as they were needed.

    Parameters
    ----------
    seed
        A text, from which they are drawn.
    kind_k, kind_v
        What their keys and values are.
    language
        Whose words they are.
    wording
        The sentence, with ``{key}`` and ``{value}``.
    """

    def __init__(
        self, seed: str, kind_k: str, kind_v: str, language: Language, wording: str
    ) -> None:
        self._rng, self._language, self._wording = random.Random(seed), language, wording
        self._kinds = kind_k, kind_v
        self._names: set[str] = set()
        self._units: dict[str, tuple[str, int, int]] = {}
        self._lock = threading.Lock()

    def first(self, count: int) -> dict[str, tuple[str, int, int]]:
        """Return the first ``count`` by text: key, and start and end of the value.

        They are fewer where no others were found.
        """
        misses = 0
        # Another thread may make another length of the same task.
        with self._lock:
            while len(self._units) < count and misses < TRIES:
                key, value = (value_of(kind, self._language, self._rng) for kind in self._kinds)
                if key == value or key in self._names or value in self._names:
                    misses += 1
                    continue
                misses = 0
                self._names.update((key, value))
                text = self._wording.replace("{key}", key).replace("{value}", value)
                self._units[text] = key, *last_place(value, text)
            return dict(itertools.islice(self._units.items(), count))


# The next length has the same ones, and more.
@functools.lru_cache(4)
def distractors(
    seed: str, kind_k: str, kind_v: str, language: Language, wording: str
) -> Distractors:
    """Return the distractors of these parameters, the same ones each time."""
    return Distractors(seed, kind_k, kind_v, language, wording)


def last_place(value: str, text: str) -> tuple[int, int]:
    """Return where the last occurrence of a value in a text begins and ends."""
    start = text.rindex(value)
    return start, start + len(value)
