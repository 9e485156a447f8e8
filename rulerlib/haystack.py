"""The haystack: a sequence of counted units, filled to a budget, with needles put in at a depth.

Peers find the size that fits by tokenizing whole prompts again and again. Here
every unit (a sentence, a line of noise, a distractor) is tokenized once, and a
prompt is then a sum and a string join:

>>> from rulerlib.tokens import Words
>>> haystack = Haystack(["One two.", "Three four.", "Five."], seam=" ", tokenizer=Words())
>>> filling = haystack.take(room=9, start=1)
>>> filling.units
['Three four.', 'Five.', 'One two.']
>>> filling.insert(["NEEDLE."], depths=[50], costs=[2]).text
'Three four. NEEDLE. Five. One two.'

A sum is exact where the tokenizer splits at the seams between units, as nearly
all do. ``Haystack.additive`` says whether this one does; `rulerlib.dataset`
falls back to tokenizing each prompt where it does not. What stands between the units is a
`Draft` with its `Needle` values; `rulerlib.filling` puts both together.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from rulerlib.errors import DataError, is_number, require
from rulerlib.parts import Part
from rulerlib.texts import sentences
from rulerlib.tokens import ANCHOR, Tokenizer, costs

# So many tokens of joined units, or more where a prompt takes more, show whether sums are exact.
CHECKED_TOKENS = 2**16

DEPTHS = tuple(round(100 * step / 39) for step in range(40))
"""RULER's 40 depths, ``round(linspace(0, 100, 40))``."""


def depth_of(index: int) -> int:
    """Return the depth, 0 to 100, of sample ``index`` where one needle goes through all depths.

    Any 40 samples in a row take each depth once; samples 0-9, 10-19, ... take
    one depth from each tenth of the haystack, and the first ten include both
    ends, so that a short run is as even as a long one.

    >>> [depth_of(i) for i in range(10)]
    [0, 33, 67, 100, 23, 56, 90, 10, 44, 77]
    >>> sorted(depth_of(i) for i in range(7, 47)) == sorted(DEPTHS)
    True
    """
    tenth = index * 3 % 10
    within = (round(tenth * 3 / 9) + index // 10) % 4
    return DEPTHS[tenth * 4 + within]


def depths_of(count: int, rng: random.Random) -> list[float]:
    """Return ``count`` of `DEPTHS` at random, rising: each at most once if there are enough.

    Of ``count`` depths from 41 to 80, each is drawn at most twice, and so on.
    """
    laps = -(-count // len(DEPTHS))
    return sorted(rng.sample(DEPTHS * laps, count))


def one_depth(parameter: str, value: Any) -> float:
    """Return a depth that a user has set, or raise a ParameterError: a number from 0 to 100."""
    holds = is_number(value) and 0 <= value <= 100
    require(holds, parameter, value, "a number from 0 (start) to 100 (end)")
    return float(value)


# --- What must stand in a prompt ---------------------------------------------------------------


@dataclass
class Needle:
    """A text to be put into the haystack at a depth.

    Attributes
    ----------
    text
        The sentence, assignment or document.
    depth
        Where it is to be put, in percent of the context's tokens, from 0 (start) to 100 (end). It
        comes to stand at the nearest seam, and a sample records the depth of that.
    value
        Characters [start, end) of ``text`` that are its value; None: it holds none.
    key
        The name by which a question asks for it; None: it has none.
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
        """Return a needle whose value is what stands last in its text."""
        start = text.rindex(value)
        return cls(text, depth, (start, start + len(value)), key)

    @property
    def value_start(self) -> int:
        """The character of ``text`` at which the value begins; 0 where it holds none."""
        return self.value[0] if self.value else 0


@dataclass
class Draft:
    """One question and what must stand in its prompt: all that a family decides.

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
        Positions in ``needles``, in the order in which the sample records them:
        first those that are asked for, then the others.
    asked
        The number of needles that are asked for.
    role
        What such a needle is called, a role of `rulerlib.parts.Part`.
    head_parts
        The parts of ``head``: the worked examples and the values in them.
    answer
        The whole answer as a model is expected to write it; None: ``outputs``, enumerated.
    least
        Tokens that the smallest filling of the context needs, beside the needles.
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


# --- What fills it ------------------------------------------------------------------------------


@dataclass
class Filling:
    """Units that were taken from a haystack for one prompt.

    Attributes
    ----------
    units
        Their texts, in order.
    costs
        What each adds in tokens, its seam included.
    seam
        What stands between two units.
    """

    units: list[str]
    costs: list[int]
    seam: str

    def __len__(self) -> int:
        """Return in how many steps it can be made shorter."""
        return len(self.units)

    def first(self, count: int) -> Filling:
        """Return the same filling, ``count`` steps long."""
        return Filling(self.units[:count], self.costs[:count], self.seam)

    def insert(
        self, needles: Sequence[str], depths: Sequence[float], costs: Sequence[int]
    ) -> Context:
        """Return the units with needles between them, each at the seam nearest to its depth.

        Parameters
        ----------
        needles
            Their texts; those at the same seam keep their order.
        depths
            From 0 (start) to 100 (end), counted in tokens; they rise.
        costs
            What each needle adds in tokens, its seam included.
        """
        sums = list(itertools.accumulate(self.costs, initial=0))
        context, more = Context([*self.units], self.seam, sums[-1] + sum(costs)), 0
        for number, (needle, depth, cost) in enumerate(zip(needles, depths, costs, strict=True)):
            wanted = sums[-1] * depth / 100
            seam = bisect.bisect_left(sums, wanted)
            if seam > 0 and wanted - sums[seam - 1] <= sums[seam] - wanted:
                seam -= 1
            # Seams rise as depths do, and each needle before this one has moved it by one piece.
            slot = seam + number
            context.slots.append(slot)
            context.pieces.insert(slot, needle)
            context.needles.append((sums[seam] + more, cost))
            context.firsts.append(sums[seam] + more)
            more += cost
        return context


class Sized(Filling):
    """A filling that is made anew for each size, and takes no needles.

    A list of words whose counts are the answer cannot be cut off anywhere; its family makes a
    smaller one instead: ``make`` returns the units of a size and what they cost together; size 0
    is the smallest that makes a question.
    """

    def __init__(self, make: Callable[[int], tuple[list[str], int]], size: int, seam: str) -> None:
        units, self._total = make(size)
        super().__init__(units, [], seam)
        self._make, self._size = make, size

    def __len__(self) -> int:
        return self._size

    def insert(
        self, needles: Sequence[str], depths: Sequence[float], costs: Sequence[int]
    ) -> Context:
        assert not needles
        return Context(self.units, self.seam, self._total)

    def first(self, count: int) -> Filling:
        return Sized(self._make, count, self.seam)


def largest(cost: Callable[[int], int], room: int, most: int) -> int:
    """Return the largest size from 0 to ``most`` that costs no more than ``room``; else 0.

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
        What stands between two pieces.
    total
        What all pieces add in tokens, their seams included.
    slots
        For each needle its index in ``pieces``.
    needles
        For each needle what the pieces before it add in tokens, and what it adds itself.
    firsts
        For each needle the tokens before its own first one.
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
        """Return for each needle its depth: the percentage of all other tokens that precede it.

        Tokens are counted as the sum of the pieces' costs; depths have two decimals. 0 is the
        start of the context, 100 its end; a needle that is all there is stands at the start.

        >>> Filling(["a b c", "d"], [3, 1], " ").insert(["e", "f"], [50, 100], [1, 1]).depths()
        [60.0, 100.0]
        """
        return [round(100 * before / max(1, self.total - cost), 2) for before, cost in self.needles]

    def starts(self, first: int = 0) -> Iterator[int]:
        """Yield for each piece the character at which it begins, given that of the first."""
        lengths = map(len(self.seam).__add__, map(len, self.pieces))
        return itertools.islice(itertools.accumulate(lengths, initial=first), len(self.pieces))

    def needle_starts(self) -> list[int]:
        """Return for each needle the character of ``text`` at which it begins."""
        starts, start, last = [], 0, 0
        for slot in self.slots:
            start += sum(map(len, self.pieces[last:slot])) + (slot - last) * len(self.seam)
            starts.append(start)
            last = slot
        return starts


class Haystack:
    """Counted units, without end: after the last comes the first again.

    Parameters
    ----------
    units
        The texts, in their order.
    seam
        What joins them: a space for prose, a newline for lines.
    tokenizer
        Counts them, once.
    first
        How many of them a filling begins with, from any of these on; None: all.

    Attributes
    ----------
    costs
        What each unit adds in tokens, its seam included; at least 1.
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
        self._sums = list(itertools.accumulate(self.costs, initial=0))
        self.total, self.cheapest, self.longest = self._sums[-1], min(self.costs), max(self.costs)

    @cached_property
    def additive(self) -> bool:
        """Whether the sum of the units' costs is the number of tokens of their joined text.

        Of many units, the first ones tell it.
        """
        first = bisect.bisect(self._sums, CHECKED_TOKENS)
        joined = self.seam.join([ANCHOR, *self.units[:first], self.units[0]])
        counted = self.tokenizer.count(joined) - self.tokenizer.count(ANCHOR)
        return counted == sum(self.costs[:first]) + self.costs[0]

    @cached_property
    def _folded(self) -> str:
        return self.seam.join(dict.fromkeys(self.units)).casefold()

    def contains(self, text: str) -> bool:
        """Return whether a text stands anywhere in the units, ignoring case."""
        return self._contains(text.casefold())

    @cached_property
    def _contains(self) -> Callable[[str], bool]:
        # The next length or setting of a task draws the same keys and values.
        return lru_cache(4096)(self._folded.__contains__)

    def draw(self, room: int, rng: random.Random) -> Filling:
        """Return as many units in a row as ``room`` tokens hold, from a random one on."""
        return self.take(room, rng.randrange(self.first))

    def take(self, room: int, start: int) -> Filling:
        """Return as many units in a row as ``room`` tokens hold, from unit ``start`` on.

        After the last of the ``first`` units come those before ``start``, then all that follow
        them, in a circle that ``start`` turns as far.
        """
        first, last = self.first, len(self.units)
        turn = first + start * (last - first) // first
        order = [*range(start, first), *range(start), *range(turn, last), *range(first, turn)]
        sums = [*itertools.accumulate(map(self.costs.__getitem__, order), initial=0)]

        def cost(count: int) -> int:
            laps, rest = divmod(count, len(order))
            return laps * self.total + sums[rest]

        # A unit costs a token or more.
        taken = [*itertools.islice(itertools.cycle(order), largest(cost, room, most=room))]
        units = [*map(self.units.__getitem__, taken)]
        return Filling(units, [*map(self.costs.__getitem__, taken)], self.seam)


class Pool(Haystack):
    """Units without an order: each sample takes a fresh selection of them, none twice.

    The needle haystack is one: distractors are drawn and counted once for a whole dataset.
    """

    def draw(self, room: int, rng: random.Random) -> Filling:
        """Return as many units as ``room`` tokens hold, at random and without repetition.

        Raises
        ------
        DataError
            If the pool is too small for the room.
        """
        room = max(0, room)
        wanted = min(len(self.units), room // self.cheapest)
        order = rng.sample(range(len(self.units)), wanted)
        costs = [*map(self.costs.__getitem__, order)]
        sums = list(itertools.accumulate(costs, initial=0))
        count = bisect.bisect_right(sums, room) - 1
        if count == len(self.units) and room - sums[count] >= self.longest:
            raise DataError(f"A pool of {len(self.units)} units is too small for {room} tokens.")
        units = [*map(self.units.__getitem__, order[:count])]
        return Filling(units, costs[:count], self.seam)


# The next length or task mostly has the same texts.
@lru_cache(8)
def prose(texts: tuple[str, ...], tokenizer: Tokenizer) -> Haystack:
    """Return the sentences of texts, counted."""
    return Haystack(sentences(texts), " ", tokenizer)


@lru_cache(8)
def pool_of(words: tuple[str, ...], tokenizer: Tokenizer) -> Pool:
    """Return words as a haystack without an order, counted."""
    return Pool(words, " ", tokenizer)
