"""Drawing from many: what `random.Random.sample` and `shuffle` give, in half the time.

>>> import random
>>> sample(random.Random(1), 1000, 3) == random.Random(1).sample(range(1000), 3)
True

The generator is asked for all its words of 32 bits at once, where the standard library calls it for
each number. Both the numbers and the generator's state afterwards are the same as there, so that
a dataset has the same bytes.
"""

from __future__ import annotations

import math
import random
import sys
from array import array
from functools import lru_cache
from typing import Any

# Fewer than this are drawn as quickly one by one.
FEW = 64


def shuffle(rng: random.Random, items: list[Any]) -> None:
    """Bring a list into the order that ``rng.shuffle`` would give it."""
    last = len(items) - 1
    while last >= FEW:
        # As many bits as the number of items has, until it is a power of two smaller.
        bits = (last + 1).bit_length()
        shift, least = 32 - bits, (1 << bits - 1) - 1
        # One word is needed for each item, and another one where it gives too large a number.
        for word in _words(rng, last - least + 1):
            other = word >> shift
            if other <= last:
                items[last], items[other] = items[other], items[last]
                last -= 1
    for place in range(last, 0, -1):
        other = rng.randrange(place + 1)
        items[place], items[other] = items[other], items[place]


def sample(rng: random.Random, size: int, count: int) -> list[int]:
    """Return the same as ``rng.sample(range(size), count)``: different numbers below ``size``."""
    # Few of many are looked up in a set by the standard library, in another order of draws.
    if not FEW <= count <= size or size > 4 ** math.ceil(math.log(3 * count, 4)) + 21:
        return rng.sample(range(size), count)
    pool, drawn = [*_numbers(size)], list[int]()
    left, least, keep = size, size - count, drawn.append
    while left > least:
        bits = left.bit_length()
        shift = 32 - bits
        for word in _words(rng, left - max(least, (1 << bits - 1) - 1)):
            number = word >> shift
            if number < left:
                keep(pool[number])
                left -= 1
                # The last one that is left takes the place of the one that was drawn.
                pool[number] = pool[left]
    return drawn


# The next sample mostly draws from as many.
@lru_cache(8)
def _numbers(size: int) -> list[int]:
    """Return the numbers below ``size``; they are to be copied, which is faster than a range."""
    return [*range(size)]


def _words(rng: random.Random, count: int) -> array[int]:
    """Return the next words of a generator, from which ``getrandbits`` takes the upper bits."""
    words = array("I", rng.randbytes(4 * count))
    if sys.byteorder == "big":
        words.byteswap()
    return words
