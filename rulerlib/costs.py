"""What texts add in tokens where they stand: each is counted once, and long ones by their words.

>>> from rulerlib.tokens import Words
>>> costs(["The sky is blue.", "Grass is green."], " ", Words())
[5, 4]
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache

from rulerlib.tokens import Tokenizer

# What stands before a unit when its cost is counted: a unit ends as a sentence does.
ANCHOR = "x."

# How many different units are remembered with what they cost: several lengths and tasks have them.
KEPT = 200_000

# Units of so many characters together are counted by their words, and so many of the units are
# counted whole to see whether words add up. A word ends before a single space.
LONG, CHECKED = 2**18, 64
_WORDS = re.compile(r"(?<=\S)(?= \S)")


# The next length, seed or setting of a task mostly has the same units, and perhaps more.
@lru_cache(8)
def _counted(seam: str, tokenizer: Tokenizer) -> dict[str, int]:
    """Return what units add in tokens that were counted before, their seam included."""
    return {}


def costs(units: Sequence[str], seam: str, tokenizer: Tokenizer) -> list[int]:
    """Return what each unit adds in tokens, its seam included."""
    counted = _counted(seam, tokenizer)
    if len(counted) > KEPT:
        # A new one, because another thread may be looking at this.
        _counted.cache_clear()
        counted = _counted(seam, tokenizer)
    new = [unit for unit in dict.fromkeys(units) if unit not in counted]
    if new:
        counted.update(zip(new, costs_of(new, seam, tokenizer), strict=True))
    return [*map(counted.__getitem__, units)]


def costs_of(units: Sequence[str], seam: str, tokenizer: Tokenizer) -> list[int]:
    """Return what each unit adds in tokens, its seam included, and remember no unit.

    The words of long texts are counted once and added up, unless some units show that this
    tokenizer makes other tokens of whole units.
    """

    def whole(units: Sequence[str]) -> list[int]:
        anchor = tokenizer.count(ANCHOR)
        counts = tokenizer.counts([ANCHOR + seam + unit for unit in units])
        # At least one: a token that crosses the seam may hide a unit wholly, and nothing is free.
        return [max(1, count - anchor) for count in counts]

    if not seam or sum(map(len, units)) < LONG:
        return whole(units)
    words = [_WORDS.split(seam + unit) for unit in units]
    different = [*dict.fromkeys(itertools.chain.from_iterable(words))]
    cost = dict(zip(different, costs(different, "", tokenizer), strict=True)).__getitem__
    sums, step = [sum(map(cost, unit)) for unit in words], -(-len(units) // CHECKED)
    return sums if sums[::step] == whole(units[::step]) else whole(units)
