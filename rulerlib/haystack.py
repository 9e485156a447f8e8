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
falls back to tokenizing each prompt where it does not.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import random
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerlib.errors import DataError, ParameterError
from rulerlib.tokens import Tokenizer

# What stands before a unit when its cost is counted: a unit ends as a sentence does.
ANCHOR = "x."

# A "sentence" longer than this is cut at a space, so that one unit never is a whole page.
LONGEST_UNIT_WORDS = 60

DEPTHS = tuple(round(100 * step / 39) for step in range(40))
"""RULER's 40 depths, ``round(linspace(0, 100, 40))``."""


def depth_of(index: int) -> int:
    """The depth of sample ``index`` when one needle goes through all depths evenly.

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


def one_depth(value: Any) -> float:
    """Return a depth that a user has set.

    Raises
    ------
    ParameterError
        If it is no number from 0 to 100.
    """
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value <= 100:
        raise ParameterError("depth", value, "a number from 0 (start) to 100 (end)")
    return float(value)


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
        """In how many steps it can be made shorter."""
        return len(self.units)

    def first(self, count: int) -> Filling:
        """The same filling, ``count`` steps long."""
        return Filling(self.units[:count], self.costs[:count], self.seam)

    def insert(
        self, needles: Sequence[str], depths: Sequence[float], costs: Sequence[int]
    ) -> Needled:
        """Put needles between units, each at the seam nearest to its depth in tokens.

        ``depths`` rise; needles at the same seam keep their order.
        """
        sums = list(itertools.accumulate(self.costs, initial=0))
        pieces: list[str] = []
        piece_costs: list[int] = []
        places: list[int] = []
        done = 0
        for needle, depth, cost in zip(needles, depths, costs, strict=True):
            wanted = sums[-1] * depth / 100
            slot = bisect.bisect_left(sums, wanted)
            if slot > 0 and wanted - sums[slot - 1] <= sums[slot] - wanted:
                slot -= 1
            slot = max(slot, done)
            pieces += self.units[done:slot]
            piece_costs += self.costs[done:slot]
            done = slot
            places.append(len(pieces))
            pieces.append(needle)
            piece_costs.append(cost)
        pieces += self.units[done:]
        piece_costs += self.costs[done:]
        return Needled(pieces, piece_costs, self.seam, places)


class Sized(Filling):
    """A filling that is made anew for each size.

    A list of words whose counts are the answer cannot be cut off anywhere; its
    family makes a smaller one instead.

    Parameters
    ----------
    make
        Units and costs of a size; size 0 is the smallest that makes a question.
    size, seam
        How large, and what stands between two units.
    """

    def __init__(
        self, make: Callable[[int], tuple[list[str], list[int]]], size: int, seam: str
    ) -> None:
        super().__init__(*make(size), seam)
        self._make, self._size = make, size

    def __len__(self) -> int:
        return self._size

    def first(self, count: int) -> Filling:
        return Sized(self._make, count, self.seam)


def largest(cost: Callable[[int], int], room: int, most: int) -> int:
    """The largest size from 0 to ``most`` that costs no more than ``room``; costs rise with it.

    >>> largest(lambda size: 10 + 3 * size, room=20, most=99)
    3
    """
    return max(0, bisect.bisect_right(range(most + 1), room, key=cost) - 1)


@dataclass
class Needled:
    """A filling with its needles: ``pieces[places[i]]`` is needle ``i``."""

    pieces: list[str]
    costs: list[int]
    seam: str
    places: list[int]

    @property
    def text(self) -> str:
        return self.seam.join(self.pieces)

    def tokens_before(self) -> list[int]:
        """For each needle, the sum of the costs of the pieces before it."""
        sums = list(itertools.accumulate(self.costs, initial=0))
        return [sums[place] for place in self.places]

    def character_of(self, needle: int) -> int:
        """Where a needle begins in ``text``."""
        before = self.pieces[: self.places[needle]]
        return sum(map(len, before)) + len(self.seam) * len(before)


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
    """

    def __init__(self, units: Sequence[str], seam: str, tokenizer: Tokenizer) -> None:
        if not units:
            raise DataError("A haystack needs at least one unit of text.")
        self.units = list(units)
        self.seam = seam
        self.tokenizer = tokenizer
        anchor = tokenizer.count(ANCHOR)
        different = list(dict.fromkeys(self.units))
        counts = tokenizer.counts([ANCHOR + seam + unit for unit in different])
        # At least one: a token that crosses the seam may hide a unit wholly, and nothing is free.
        cost = {u: max(1, count - anchor) for u, count in zip(different, counts, strict=True)}
        self.costs = [cost[unit] for unit in self.units]
        self.total = sum(self.costs)
        self.longest = max(self.costs)

    @cached_property
    def _sums(self) -> list[int]:
        return list(itertools.accumulate(self.costs, initial=0))

    @cached_property
    def additive(self) -> bool:
        """Whether the sum of the units' costs is the count of their joined text."""
        joined = self.seam.join([ANCHOR, *self.units, self.units[0]])
        counted = self.tokenizer.count(joined) - self.tokenizer.count(ANCHOR)
        return counted == self.total + self.costs[0]

    @cached_property
    def _folded(self) -> str:
        return self.seam.join(dict.fromkeys(self.units)).casefold()

    def contains(self, text: str) -> bool:
        """Whether a text stands anywhere in the units, ignoring case."""
        return text.casefold() in self._folded

    def draw(self, room: int, rng: random.Random) -> Filling:
        """As many units as ``room`` tokens hold, each time from another place of the text on."""
        return self.take(room, rng.randrange(len(self.units)))

    def take(self, room: int, start: int) -> Filling:
        """As many units in a row, from ``start`` on, as ``room`` tokens hold."""
        count = self._fit(room, start)
        size = len(self.units)
        laps, rest = divmod(start + count, size)
        if laps == 0:
            units, costs = self.units[start:rest], self.costs[start:rest]
        else:
            units = self.units[start:] + self.units * (laps - 1) + self.units[:rest]
            costs = self.costs[start:] + self.costs * (laps - 1) + self.costs[:rest]
        return Filling(units, costs, self.seam)

    def _fit(self, room: int, start: int) -> int:
        if room <= 0:
            return 0
        sums, size = self._sums, len(self.units)
        laps, rest = divmod(room, self.total)
        end = bisect.bisect_right(sums, sums[start] + rest, lo=start) - 1
        if end == size:
            # Past the last unit: the remainder is filled from the beginning.
            left = rest - (sums[size] - sums[start])
            end = size + bisect.bisect_right(sums, left) - 1
        return laps * size + end - start


class Pool(Haystack):
    """Units that stand in no order: each sample takes other ones, none twice.

    The needle haystack: distractors are drawn and counted once for a whole
    dataset, and each sample takes a fresh selection of them in a fresh order.
    """

    def draw(self, room: int, rng: random.Random) -> Filling:
        """Units at random, without repetition, as many as ``room`` tokens hold.

        Raises
        ------
        DataError
            If the pool is too small for the room.
        """
        wanted = min(len(self.units), max(0, room) // min(self.costs))
        order = rng.sample(range(len(self.units)), wanted)
        sums = list(itertools.accumulate((self.costs[i] for i in order), initial=0))
        count = bisect.bisect_right(sums, max(0, room)) - 1
        if count == len(self.units) and room - sums[count] >= self.longest:
            raise DataError(f"A pool of {len(self.units)} units is too small for {room} tokens.")
        chosen = order[:count]
        return Filling([self.units[i] for i in chosen], [self.costs[i] for i in chosen], self.seam)


# Control characters other than white space, halves of surrogate pairs, and noncharacters.
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")

CONTROL = "{name}: control character U+{code} at character {place}."
"""What `clean` says of such a character."""

# A sentence ends at . ! or ? (with closing quotes or brackets) before a space.
_END = re.compile(r"(?<=[.!?…])[\"'“”’«»)\]]*\s+")


def sentences(texts: Iterable[str]) -> list[str]:
    """Cut prose into sentences; white space of any kind becomes one space.

    What is longer than ``LONGEST_UNIT_WORDS`` is cut, so that text without
    full stops still fills a budget closely.

    >>> sentences(['He said "no." Then he\\nleft.', "It rained."])
    ['He said "no."', 'Then he left.', 'It rained.']
    """
    found = []
    for text in texts:
        text = " ".join(text.split())
        begin = 0
        for match in _END.finditer(text):
            # What closes the sentence (quotes, brackets) belongs to it, the space does not.
            found.append(text[begin : match.end()].rstrip())
            begin = match.end()
        found.append(text[begin:])
    return [piece for sentence in found if sentence for piece in _cut(sentence)]


def _cut(sentence: str) -> list[str]:
    words = sentence.split(" ")
    if len(words) <= LONGEST_UNIT_WORDS:
        return [sentence]
    return [
        " ".join(words[begin : begin + LONGEST_UNIT_WORDS])
        for begin in range(0, len(words), LONGEST_UNIT_WORDS)
    ]


def read_texts(source: str | Path | Iterable[str]) -> tuple[str, ...]:
    """The user's own texts: a file, a folder of ``.txt`` files, or any iterable of texts.

    Raises
    ------
    DataError
        If a file cannot be read, is empty, is not UTF-8, or holds control
        characters: names the file and the place.
    ParameterError
        If there is no such file or folder.
    """
    if isinstance(source, (str, Path)):
        path = Path(source).expanduser()
        if path.is_dir():
            files = sorted(path.rglob("*.txt"))
            if not files:
                raise DataError(f"{path}: no text files (*.txt) in this folder.")
        elif path.is_file():
            files = [path]
        else:
            raise ParameterError("text", str(source), "a file or folder that exists")
        named = [(str(file), read_file(file)) for file in files]
    else:
        named = [(f"text {number}", text) for number, text in enumerate(source, 1)]
        if not named:
            raise ParameterError("text", [], "at least one text")
    return tuple(clean(text, name) for name, text in named)


def read_file(path: Path) -> str:
    """A text file, in UTF-8 with or without a mark at its beginning.

    Raises
    ------
    DataError
        If it cannot be read, or is not UTF-8: names the file and the place.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start}: {error.reason}).") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error


def clean(text: str, name: str = "text") -> str:
    """Check a text and bring it to one form (NFC).

    Raises
    ------
    DataError
        If it is empty or holds characters that are no text.
    """
    if not isinstance(text, str):
        raise DataError(f"{name}: not a text but {type(text).__name__}.")
    found = _NO_TEXT.search(text)
    if found:
        code, place = f"{ord(found[0]):04X}", found.start() + 1
        raise DataError(CONTROL.format(name=name, code=code, place=place))
    if not text.strip():
        raise DataError(f"{name}: empty.")
    return unicodedata.normalize("NFC", text)


def digest(texts: Iterable[str]) -> str:
    """A short hash of texts, in their order, by which a dataset cites them."""
    whole = hashlib.sha256()
    for text in texts:
        whole.update(hashlib.sha256(text.encode()).digest())
    return whole.hexdigest()[:16]
