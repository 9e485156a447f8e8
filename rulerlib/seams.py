"""Seams: what it costs in tokens to join two texts, and counts that are needed again and again.

Two texts one after the other have mostly as many tokens as both of them apart, and sometimes one
fewer, where a token crosses the seam. Which it is depends on what stands near the seam alone, so
a long text is counted once, whatever it is joined to:

>>> from rulerlib.tokens import Words
>>> words = of(Words())
>>> words.count("one two"), words.count("hree four"), words.cost("one two", "hree four")
(2, 2, -1)
"""

from __future__ import annotations

import re
from functools import lru_cache

from rulerlib.tokens import Tokenizer

# This many characters on each side decide what a seam costs, and those up to white space.
NEAR = 32

# How many texts are remembered: those of some hundred samples, which the next length has again.
TEXTS = 4096

_SPACE = re.compile(r"\s")


class Seams:
    """Counts texts and what it costs to join them, and remembers both.

    Parameters
    ----------
    tokenizer
        Counts them.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.count = lru_cache(TEXTS)(tokenizer.count)
        self.ends = lru_cache(TEXTS)(self._ends)
        self._costs = lru_cache(2 * TEXTS)(self._cost)

    def _ends(self, text: str) -> tuple[int, ...]:
        """Return for each token of a text the character at which it ends."""
        return tuple(end for _, end in self._tokenizer.spans([text])[0])

    def cost(self, left: str, right: str) -> int:
        """Return how many tokens more than both texts apart they have when they are joined."""
        return self._costs(ending(left), beginning(right)) if left and right else 0

    def _cost(self, left: str, right: str) -> int:
        together, before, after = self._tokenizer.counts([left + right, left, right])
        return together - before - after


# One tokenizer is in use at a time, or a few that are compared.
@lru_cache(4)
def of(tokenizer: Tokenizer) -> Seams:
    """Return the seams of a tokenizer, the same ones for all who ask."""
    return Seams(tokenizer)


def beginning(text: str) -> str:
    """Return the part of a text that decides what a seam before it costs."""
    space = _SPACE.search(text, NEAR)
    return text[: space.start()] if space else text


def ending(text: str) -> str:
    """Return the part of a text that decides what a seam after it costs, from white space on."""
    far = max(0, len(text) - NEAR)
    start = max(text.rfind(" ", 0, far), text.rfind("\n", 0, far))
    return text[max(0, start) :]
