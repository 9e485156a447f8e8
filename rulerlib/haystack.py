"""The haystack: counted units that fill a prompt, and needles at a depth between them.

RULER's scripts find the size that fits by tokenizing whole prompts again and again. Here every unit
(a sentence, a line of noise, a distractor) is tokenized once, and a prompt is a sum and a join:

>>> from rulerlib.tokens import Words
>>> haystack = Haystack(["One two.", "Three four.", "Five."], seam=" ", tokenizer=Words())
>>> filling = haystack.take(room=9, start=1)
>>> filling.units
['Three four.', 'Five.', 'One two.']
>>> filling.insert(["NEEDLE."], depths=[50], costs=[2]).text
'Three four. NEEDLE. Five. One two.'

The sum is exact if the tokenizer never merges text across units (``Haystack.additive``).
`rulerlib.filling` puts a `Draft` with its `Needle` values and a `Filling` together.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from rulerlib.errors import DataError, ParameterError, is_number
from rulerlib.parts import Part
from rulerlib.texts import sentences
from rulerlib.tokens import ANCHOR, Tokenizer, costs

# The number of tokens that are tokenized as one text to check that sums are exact.
CHECKED_TOKENS = 2**16

# --- Depths ---------------------------------------------------------------------------------------

DEPTHS = tuple(round(100 * step / 39) for step in range(40))
"""RULER's 40 depths, ``round(linspace(0, 100, 40))``."""


def depth_of(index: int) -> int:
    """Return the depth, 0 to 100, of the only needle of a sample.

    Any 40 samples in a row take each depth once. Samples 0-9, 10-19, ... take one depth from each
    tenth of the haystack, and the first ten include both ends, so that a short run is as even as a
    long one.

    >>> [depth_of(i) for i in range(10)]
    [0, 33, 67, 100, 23, 56, 90, 10, 44, 77]
    >>> sorted(depth_of(i) for i in range(7, 47)) == sorted(DEPTHS)
    True
    """
    tenth = index * 3 % 10
    within = (round(tenth * 3 / 9) + index // 10) % 4
    return DEPTHS[tenth * 4 + within]


def depths_of(count: int, rng: random.Random) -> list[float]:
    """Return ``count`` of `DEPTHS` at random, in rising order.

    Up to 40 depths are all different, up to 80 come at most twice, and so on.
    """
    laps = -(-count // len(DEPTHS))
    return sorted(rng.sample(DEPTHS * laps, count))


def one_depth(parameter: str, value: Any) -> float:
    """Return a depth that a user has set.

    Raises
    ------
    ParameterError
        If it is not a number from 0 to 100.
    """
    if not is_number(value) or not 0 <= value <= 100:
        raise ParameterError(parameter, value, "a number from 0 (start) to 100 (end)")
    return float(value)


# --- The plan of a prompt -------------------------------------------------------------------------


@dataclass
class Needle:
    """A text to be put into the haystack at a depth.

    Attributes
    ----------
    text
        The sentence, assignment or document.
    depth
        Its position in percent of the context's tokens, from 0 (start) to 100 (end). It is put
        between the two units nearest to it; a sample records the depth reached.
    value
        Characters [start, end) of ``text`` that are its value, or None.
    key
        The name by which a question asks for it, or None.
    within
        Further stretches of ``text`` that are parts: role, start, end and key of each.
    """

    text: str
    depth: float
    value: tuple[int, int] | None = None
    key: str | None = None
    within: Sequence[Part] = ()

    @classmethod
    def holding(cls, value: str, text: str, depth: float, key: str | None) -> Needle:
        """Return a needle whose value is its last occurrence in the text."""
        start = text.rindex(value)
        return cls(text, depth, (start, start + len(value)), key)

    @property
    def value_start(self) -> int:
        """The first character of the value in ``text``; 0 without a value."""
        return self.value[0] if self.value else 0


@dataclass
class Draft:
    """One question, and the texts that its prompt must contain.

    Attributes
    ----------
    head, tail
        The template before and after the context.
    answer_prefix
        The beginning of the answer, which the model continues.
    outputs
        The references.
    needles
        The texts to be put into the haystack, by rising depth.
    order
        Indices of ``needles`` in the order in which the sample records them: first those that the
        question asks for, then the others.
    asked
        The number of needles that the question asks for.
    role
        The role of these needles, see `rulerlib.parts.Part`.
    head_parts
        The parts of ``head``: worked examples and the values in them.
    answer
        The whole answer that a model should write. If None, ``outputs`` one after the other.
    least
        Tokens of the smallest filling, without the needles.
    golds, id, cluster, facts
        See `rulerlib.samples.Sample`.
    """

    head: str
    tail: str
    answer_prefix: str
    outputs: list[str]
    needles: list[Needle] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    asked: int = 0
    role: str = "needle"
    head_parts: list[Part] = field(default_factory=list)
    answer: str | None = None
    least: int = 0
    golds: Sequence[Sequence[str]] = ()
    id: str = ""
    cluster: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


# --- The filling ----------------------------------------------------------------------------------


@dataclass
class Filling:
    """Units taken from a haystack for one prompt.

    Attributes
    ----------
    units
        Their texts, in order.
    costs
        The tokens that each unit adds, including its seam.
    seam
        The text between two units.
    """

    units: list[str]
    costs: list[int]
    seam: str

    def __len__(self) -> int:
        """Return in how many steps it can be made shorter."""
        return len(self.units)

    def first(self, count: int) -> Filling:
        """Return the same filling with ``count`` steps."""
        return Filling(self.units[:count], self.costs[:count], self.seam)

    def insert(
        self, needles: Sequence[str], depths: Sequence[float], costs: Sequence[int]
    ) -> Context:
        """Return the units with needles between them, each as near to its depth as possible.

        Parameters
        ----------
        needles
            Their texts; needles between the same units keep their order.
        depths
            In percent of the filling's tokens, rising.
        costs
            The tokens that each needle adds, including its seam.
        """
        sums = list(itertools.accumulate(self.costs, initial=0))
        context, before = Context([*self.units], self.seam, sums[-1] + sum(costs)), 0
        for number, (needle, depth, cost) in enumerate(zip(needles, depths, costs, strict=True)):
            wanted = sums[-1] * depth / 100
            after = bisect.bisect_left(sums, wanted)
            if after > 0 and wanted - sums[after - 1] <= sums[after] - wanted:
                after -= 1
            # The needles before this one have moved the units.
            slot = after + number
            context.pieces.insert(slot, needle)
            context.slots.append(slot)
            context.needles.append((sums[after] + before, cost))
            context.firsts.append(sums[after] + before)
            before += cost
        return context


class Sized(Filling):
    """A filling without needles that is made anew for each size.

    A list of words whose counts are the answer cannot be cut anywhere, so a shorter one is made
    instead: ``make`` returns the units of a size and their cost. Size 0 is the smallest list.
    """

    def __init__(self, make: Callable[[int], tuple[list[str], int]], size: int, seam: str) -> None:
        units, self._total = make(size)
        super().__init__(units, [], seam)
        self._make, self._size = make, size

    def __len__(self) -> int:
        return self._size

    def first(self, count: int) -> Filling:
        return Sized(self._make, count, self.seam)

    def insert(
        self, needles: Sequence[str], depths: Sequence[float], costs: Sequence[int]
    ) -> Context:
        return Context(self.units, self.seam, self._total)


def largest(cost: Callable[[int], int], room: int, most: int) -> int:
    """Return the largest size from 0 to ``most`` that costs at most ``room``, or 0.

    ``cost`` must not fall as the size rises.

    >>> largest(lambda size: 10 + 3 * size, room=20, most=99)
    3
    """
    return max(0, bisect.bisect_right(range(most + 1), room, key=cost) - 1)


@dataclass
class Context:
    """A filling with its needles.

    Attributes
    ----------
    pieces
        The texts of units and needles, in order.
    seam
        The text between two pieces.
    total
        The tokens that all pieces add, including their seams.
    slots
        The index of each needle in ``pieces``.
    needles
        For each needle the tokens of the pieces before it, and its own.
    firsts
        For each needle the tokens before its first one.
    """

    pieces: list[str]
    seam: str
    total: int
    slots: list[int] = field(default_factory=list)
    needles: list[tuple[int, int]] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All pieces, joined."""
        return self.seam.join(self.pieces)

    def depths(self) -> list[float]:
        """Return the depth of each needle: the percentage of all other tokens that precede it.

        Two decimals; 0 is the start of the context and 100 its end.

        >>> Filling(["a b c", "d"], [3, 1], " ").insert(["e", "f"], [50, 100], [1, 1]).depths()
        [60.0, 100.0]
        """
        return [round(100 * before / max(1, self.total - cost), 2) for before, cost in self.needles]

    def starts(self) -> list[int]:
        """Return the character of ``text`` at which each piece begins."""
        ends = itertools.accumulate(len(piece) + len(self.seam) for piece in self.pieces)
        return [0, *ends][: len(self.pieces)]

    def needle_starts(self) -> list[int]:
        """Return the character of ``text`` at which each needle begins."""
        sums = list(itertools.accumulate(map(len, self.pieces), initial=0))
        return [sums[slot] + slot * len(self.seam) for slot in self.slots]


# --- The haystack ---------------------------------------------------------------------------------


class Haystack:
    """Counted units in a circle: the first comes again after the last.

    Parameters
    ----------
    units
        The texts, in their order.
    seam
        The text between two units: a space for prose, a newline for lines.
    tokenizer
        Counts them once.
    first
        How many of them a filling begins with, from any of these on. If None, all.

    Attributes
    ----------
    costs
        The tokens that each unit adds, including its seam; at least 1.
    total, cheapest, longest
        The sum of these costs, the smallest and the largest.

    Raises
    ------
    DataError
        If there are no units.
    """

    def __init__(
        self, units: Sequence[str], seam: str, tokenizer: Tokenizer, first: int | None = None
    ) -> None:
        if not units:
            raise DataError("A haystack needs at least one unit of text.")
        self.units, self.first = list(units), first or len(units)
        self.seam = seam
        self.tokenizer = tokenizer
        self.costs = costs(self.units, seam, tokenizer)
        self.total, self.cheapest, self.longest = sum(self.costs), min(self.costs), max(self.costs)

    @cached_property
    def additive(self) -> bool:
        """Whether the sum of the units' costs is the number of tokens of their joined text."""
        sums = list(itertools.accumulate(self.costs, initial=0))
        count = bisect.bisect(sums, CHECKED_TOKENS)
        joined = self.seam.join([ANCHOR, *self.units[:count], self.units[0]])
        counted = self.tokenizer.count(joined) - self.tokenizer.count(ANCHOR)
        return counted == sum(self.costs[:count]) + self.costs[0]

    @cached_property
    def _folded(self) -> str:
        return self.seam.join(dict.fromkeys(self.units)).casefold()

    def contains(self, text: str) -> bool:
        """Return whether a text occurs in the units, ignoring case."""
        return text.casefold() in self._folded

    def draw(self, room: int, rng: random.Random) -> Filling:
        """Return as many units in a row as fit into ``room`` tokens, from a random one on."""
        return self.take(room, rng.randrange(self.first))

    def take(self, room: int, start: int) -> Filling:
        """Return as many units in a row as fit into ``room`` tokens, from unit ``start`` on.

        After the last of the ``first`` units come those before ``start``, then all that follow
        them, in a circle that ``start`` turns as far.
        """
        first, last = self.first, len(self.units)
        turn = first + start * (last - first) // first
        order = [*range(start, first), *range(start), *range(turn, last), *range(first, turn)]
        laps, rest = divmod(max(0, room), self.total)
        sums = list(itertools.accumulate(self.costs[index] for index in order))
        chosen = order * laps + order[: bisect.bisect_right(sums, rest)]
        units = [self.units[index] for index in chosen]
        return Filling(units, [self.costs[index] for index in chosen], self.seam)


class Pool(Haystack):
    """Units without an order: each sample draws some of them, none twice.

    The needle haystack is one: distractors are drawn and counted once for a whole dataset.
    """

    def draw(self, room: int, rng: random.Random) -> Filling:
        """Return as many units as fit into ``room`` tokens, at random and without repetition.

        Raises
        ------
        DataError
            If the pool is too small.
        """
        room = max(0, room)
        wanted = min(len(self.units), room // self.cheapest)
        order = rng.sample(range(len(self.units)), wanted)
        sums = list(itertools.accumulate((self.costs[index] for index in order), initial=0))
        count = bisect.bisect_right(sums, room) - 1
        if count == len(self.units) and room - sums[count] >= self.longest:
            raise DataError(f"A pool of {len(self.units)} units is too small for {room} tokens.")
        chosen = order[:count]
        units = [self.units[index] for index in chosen]
        return Filling(units, [self.costs[index] for index in chosen], self.seam)


# Counting the essays of a language takes as long as making some ten samples, and the next task or
# length has the same ones.
@lru_cache(8)
def prose(texts: tuple[str, ...], tokenizer: Tokenizer) -> Haystack:
    """Return the sentences of texts, counted."""
    return Haystack(sentences(texts), " ", tokenizer)


@lru_cache(8)
def pool_of(words: tuple[str, ...], tokenizer: Tokenizer) -> Pool:
    """Return words as a haystack without an order, counted."""
    return Pool(words, " ", tokenizer)
