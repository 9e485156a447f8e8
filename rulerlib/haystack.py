"""The haystack: counted units that fill a prompt, and needles at a depth between them.

RULER's scripts find the size that fits by tokenizing whole prompts again and again. Here every unit
(a sentence, a line of noise, a distractor) is tokenized once, and a prompt is a sum and a join:

>>> from rulerlib.tokens import Words
>>> haystack = Haystack(["One two.", "Three four.", "Five."], seam=" ", tokenizer=Words())
>>> filling = haystack.take(room=9, start=1)
>>> filling.units
['Three four.', 'Five.', 'One two.']
>>> filling.insert([Needle("NEEDLE.", depth=50)], costs=[2]).text
'Three four. NEEDLE. Five. One two.'

A family plans a `Draft` with its `Needle` values. `fill` puts the needles into as much of the
haystack as the length allows, and counts:

    special tokens + template and context + question + answer prefix + tokens to generate

`make_sample` returns the record of the finished prompt.

>>> budget = Budget(Words(), Frame(), length=24, tokens_to_generate=4)
>>> needle = Needle("Code 12.", depth=0, value=(5, 7))
>>> draft = Draft("Read. ", " Which code?", " It is", ["12"], [needle], order=[0], asked=1)
>>> context = fill([draft], lambda room: haystack.take(room, 0), haystack.seam, budget)
>>> sample = make_sample(draft, context, budget)
>>> sample.input, sample.length
('Read. Code 12. One two. Three four. Five. Which code?', 22)

The sum is exact if the tokenizer never merges text across units, as nearly all do. For the others
`fill` tokenizes whole prompts (``whole``); `rulerlib.dataset` finds out which is needed.
"""

from __future__ import annotations

import bisect
import itertools
import json
import random
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from rulerlib import files
from rulerlib.errors import DataError, ParameterError, RulerError
from rulerlib.prompts import Frame
from rulerlib.samples import Part, Sample, in_order
from rulerlib.tokens import ANCHOR, Tokenizer, costs

# The number of tokens that are tokenized as one text to check that sums are exact.
CHECKED_TOKENS = 2**15

# --- Texts ----------------------------------------------------------------------------------------

# A longer sentence is cut, so that a unit is never a whole page. Some texts have no spaces.
LONGEST_UNIT_WORDS, LONGEST_UNIT_CHARACTERS = 60, 600

# Control characters other than white space, halves of surrogate pairs, and noncharacters.
NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")

SUFFIXES = (".txt", ".json")
"""The text files of a folder."""

# A sentence ends at . ! or ? before a space, or at a Chinese or Japanese full stop, which no space
# follows. After closing quotes or brackets, a small letter continues it: "Is it here?" she asked.
END = re.compile(r"(?<=[.!?…])(?:\s+|[\"'“”’«»)\]]+\s+(?![a-zà-öø-ÿ]))|(?<=[。！？])[」』”’）]*\s*")


def sentences(texts: Iterable[str]) -> list[str]:
    """Return prose cut into sentences; white space of any kind becomes one space.

    A sentence longer than ``LONGEST_UNIT_WORDS`` or ``LONGEST_UNIT_CHARACTERS`` is cut, at a space
    if possible, so that text without full stops still fills a budget closely.

    >>> sentences(['He said "no." Then he\\nleft.', "It rained."])
    ['He said "no."', 'Then he left.', 'It rained.']
    """
    units = []
    for text in texts:
        text = " ".join(text.split())
        # Closing quotes and brackets belong to the sentence.
        ends = [match.end() for match in END.finditer(text)]
        for begin, end in itertools.pairwise([0, *ends, len(text)]):
            words = text[begin:end].split()
            for first in range(0, len(words), LONGEST_UNIT_WORDS):
                unit = " ".join(words[first : first + LONGEST_UNIT_WORDS])
                if len(unit) <= LONGEST_UNIT_CHARACTERS:
                    units.append(unit)
                else:
                    units += textwrap.wrap(unit, LONGEST_UNIT_CHARACTERS, break_on_hyphens=False)
    return units


def read_texts(source: str | Path | Iterable[str]) -> tuple[str, ...]:
    """Return the texts of a file, of a folder, or of an iterable.

    A ``.json`` file holds ``{"text": "..."}``, or a list of such objects or of texts. Any other
    file is one text. A folder is read with its subfolders: all ``.txt`` and ``.json`` files in the
    order of their names.

    Raises
    ------
    DataError
        If a file cannot be read, is empty, is not UTF-8 or not valid JSON, or has control
        characters: names the file and the position.
    ParameterError
        If the file or folder does not exist, a folder has no text files, or the iterable is empty.
    """
    if isinstance(source, (str, Path)):
        path = files.named("texts", source, "a file or folder that exists")
        inside = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
        paths = [path] if path.is_file() else inside
        if not paths:
            allowed = f"a text file, or a folder that has some ({', '.join(SUFFIXES)})"
            raise ParameterError("texts", str(source), allowed)
        return tuple(text for path in paths for text in _texts(path))
    if not isinstance(source, Iterable):
        raise ParameterError("texts", source, "a file, a folder, or a list of texts")
    texts = tuple(checked(text, f"text {number}") for number, text in enumerate(source, 1))
    if not texts:
        raise ParameterError("texts", [], "at least one text")
    return texts


def _texts(path: Path) -> list[str]:
    """Return the texts of a file."""
    content = files.read_file(path)
    if path.suffix != ".json":
        return [checked(content, str(path))]
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({error}).") from error
    rows = value if isinstance(value, list) else [value]
    texts = [row.get("text") if isinstance(row, dict) else row for row in rows]
    return [checked(text, f"{path}, text {number}") for number, text in enumerate(texts, 1)]


def checked(text: Any, name: str = "text") -> str:
    """Return a text in the composed form of Unicode (NFC), after checking it.

    Parameters
    ----------
    name
        The name of the text in an error.

    Raises
    ------
    DataError
        If the value is not a text, is empty, or has control characters: names the position.
    """
    if not isinstance(text, str):
        raise DataError(f"{name}: not a text but {type(text).__name__}.")
    if control := NO_TEXT.search(text):
        code, place = f"{ord(control[0]):04X}", control.start() + 1
        raise DataError(f"{name}: control character U+{code} at character {place}.")
    if not text.strip():
        raise DataError(f"{name}: empty.")
    return unicodedata.normalize("NFC", text)


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
        The role of these needles, see `rulerlib.samples.Part`.
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
    """Units taken from a haystack for one prompt, and the needles between them.

    Attributes
    ----------
    units
        The texts, in order.
    costs
        The tokens that each adds, including its seam.
    seam
        The text between two units.
    slots
        The index in ``units`` of each needle; none before `insert`.
    firsts
        For each needle, the number of tokens before its first one.
    """

    units: list[str]
    costs: list[int]
    seam: str
    slots: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        """Return in how many steps it can be made shorter."""
        return len(self.units)

    def first(self, count: int) -> Filling:
        """Return the same filling with ``count`` steps."""
        return Filling(self.units[:count], self.costs[:count], self.seam)

    def insert(self, needles: Sequence[Needle], costs: Sequence[int]) -> Filling:
        """Return the filling with needles in it, each as near to its depth as possible.

        Parameters
        ----------
        needles
            By rising depth; those between the same units keep their order.
        costs
            The tokens that each needle adds, including its seam.
        """
        sums = list(itertools.accumulate(self.costs, initial=0))
        context, earlier = Filling([*self.units], [*self.costs], self.seam), 0
        for number, (needle, cost) in enumerate(zip(needles, costs, strict=True)):
            wanted = sums[-1] * needle.depth / 100
            at = bisect.bisect_left(sums, wanted)
            if at > 0 and wanted - sums[at - 1] <= sums[at] - wanted:
                at -= 1
            # The needles before this one have moved the units.
            slot = at + number
            context.units.insert(slot, needle.text)
            context.costs.insert(slot, cost)
            context.slots.append(slot)
            context.firsts.append(sums[at] + earlier)
            earlier += cost
        return context

    @property
    def text(self) -> str:
        """All units, joined."""
        return self.seam.join(self.units)

    @cached_property
    def total(self) -> int:
        """The tokens that all units add, including their seams."""
        return sum(self.costs)

    @cached_property
    def depths(self) -> list[float]:
        """The depth of each needle: the percentage of all other tokens that precede it.

        Two decimals; 0 is the start of the context and 100 its end.

        >>> needles = [Needle("e", 50), Needle("f", 100)]
        >>> Filling(["a b c", "d"], [3, 1], " ").insert(needles, costs=[1, 1]).depths
        [60.0, 100.0]
        """
        depths, before, last = [], 0, 0
        for slot in self.slots:
            before, last = before + sum(self.costs[last:slot]), slot
            others = self.total - self.costs[slot]
            depths.append(round(100 * before / max(1, others), 2))
        return depths

    def starts(self, head: str) -> list[int]:
        """Return the character at which each unit begins after ``head``."""
        seam = len(self.seam)
        sizes = [len(unit) + seam for unit in self.units]
        return list(itertools.accumulate(sizes, initial=len(head)))[: len(sizes)]


class Sized(Filling):
    """A filling without needles that is made anew for each size.

    A list of words whose counts are the answer cannot be cut anywhere, so a shorter one is made
    instead: ``make`` returns the units of a size and the cost of all. Size 0 is the smallest list.
    """

    def __init__(self, make: Callable[[int], tuple[list[str], int]], size: int, seam: str) -> None:
        units, cost = make(size)
        super().__init__(units, [cost], seam)
        self._make, self._size = make, size

    def __len__(self) -> int:
        return self._size

    def first(self, count: int) -> Filling:
        return Sized(self._make, count, self.seam)


def largest(cost: Callable[[int], int], room: int, most: int) -> int:
    """Return the largest size from 0 to ``most`` that costs at most ``room``, or 0.

    ``cost`` must not fall as the size rises.

    >>> largest(lambda size: 10 + 3 * size, room=20, most=99)
    3
    """
    return max(0, bisect.bisect_right(range(most + 1), room, key=cost) - 1)


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
    narrated
        A hash of the grammar of generated units, or None.

    Raises
    ------
    DataError
        If there are no units.
    """

    narrated: str | None = None

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
        """True if the sum of the units' costs is the number of tokens of their joined text."""
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
        return self._filling(chosen)

    def _filling(self, chosen: Sequence[int]) -> Filling:
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
        return self._filling(order[:count])


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


# --- Filling a prompt -----------------------------------------------------------------------------

Take = Callable[[int], Filling]
"""A function that takes a filling from a haystack, given the most tokens that it may cost."""


class TooLongError(RulerError):
    """The fixed part of the prompt and the answer need more tokens than the length allows."""

    def __init__(self, needed: int, length: int) -> None:
        super().__init__(f"The fixed part of the prompt needs {needed} tokens of {length}.")
        self.needed = needed


@dataclass(frozen=True)
class Budget:
    """The length of a prompt, and the tokenizer and frame that it is counted with.

    ``length`` is the number of tokens of prompt and answer together; ``tokens_to_generate`` of them
    are kept for the answer.
    """

    tokenizer: Tokenizer
    frame: Frame
    length: int
    tokens_to_generate: int

    @cached_property
    def count(self) -> Callable[[str], int]:
        """Counts the tokens of a text. Prompts share heads and tails, so this halves the time."""
        return lru_cache(1024)(self.tokenizer.count)

    def prefix(self, draft: Draft) -> str:
        """Return the answer prefix that a sample records; ``""`` if the format has none."""
        return "" if self.frame.format.answer_prefix == "none" else draft.answer_prefix

    def around(self, draft: Draft) -> tuple[str, str]:
        """Return the texts before and after the context as the model reads them."""
        after = self.frame.after(draft.answer_prefix)
        return self.frame.before + draft.head, draft.tail + after

    def fixed(self, draft: Draft, costs: Sequence[int]) -> int:
        """Return the tokens of a draft without a filling, given the costs of its needles."""
        before, after = self.around(draft)
        texts = self.count(before + ANCHOR) + self.count(ANCHOR + after) - 2 * self.count(ANCHOR)
        return self.frame.special + texts + sum(costs) + self.tokens_to_generate

    def least(self, draft: Draft, seam: str) -> int:
        """Return the tokens of a draft with its smallest filling, including the answer."""
        return self.fixed(draft, needle_costs(draft, seam, self.tokenizer)) + draft.least


def needle_costs(draft: Draft, seam: str, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens that each needle adds, including its seam."""
    return costs([needle.text for needle in draft.needles], seam, tokenizer)


def fill(
    drafts: Sequence[Draft], take: Take, seam: str, budget: Budget, whole: bool = False
) -> Filling:
    """Return the context that drafts share: as much of the haystack as fits, and the needles.

    Parameters
    ----------
    drafts, take
        The questions about the context, and a function that fills a number of tokens.
    seam
        The text between two units of the haystack.
    budget
        The length, and what it is counted with.
    whole
        Whether to tokenize whole prompts instead of adding up the costs of units.

    Raises
    ------
    TooLongError
        If the smallest filling does not fit.
    """
    needles = drafts[0].needles
    added = needle_costs(drafts[0], seam, budget.tokenizer)
    fixed = max(budget.fixed(draft, added) for draft in drafts)
    room, least = budget.length - fixed, drafts[0].least
    if room < least:
        raise TooLongError(fixed + least, budget.length)

    def longest(context: Filling) -> int:
        lengths = [max(prompt_lengths(draft, context, budget, whole)) for draft in drafts]
        return max(lengths) + budget.tokens_to_generate

    def longest_of(count: int) -> int:
        return longest(filling.first(count).insert(needles, added))

    # Units that share tokens cost less than their sum.
    filling = take(room + room // 4 if whole else room)
    if whole:
        filling = filling.first(largest(longest_of, budget.length, len(filling)))
    context = filling.insert(needles, added)
    # The first unit has no seam before it, and may cost a token more than its sum says.
    while longest(context) > budget.length and len(filling):
        filling = filling.first(len(filling) - 1)
        context = filling.insert(needles, added)
    if longest(context) > budget.length:
        raise TooLongError(longest(context), budget.length)
    return context


def prompt_lengths(
    draft: Draft, context: Filling, budget: Budget, whole: bool = False
) -> tuple[int, int]:
    """Return the tokens of a prompt as the model reads it, and as plain text."""
    around = budget.around(draft)
    plain = draft.head, draft.tail + budget.prefix(draft)
    read = _tokens(context, *around, budget, whole)
    count = read if plain == around else _tokens(context, *plain, budget, whole)
    return read + budget.frame.special, count


def _tokens(context: Filling, before: str, after: str, budget: Budget, whole: bool) -> int:
    """Return the number of tokens of a context between two texts."""
    count, units = budget.count, context.units
    if whole or not units:
        return budget.tokenizer.count(before + context.text + after)
    end = count(units[-1] + after) - count(units[-1])
    return _opening(context, before, budget) + count(ANCHOR) + context.total + end


def _opening(context: Filling, before: str, budget: Budget) -> int:
    """Return the tokens of a text and the first unit, less those of this unit elsewhere."""
    first, count = context.units[0], budget.count
    return count(before + first) - count(ANCHOR + context.seam + first)


def make_sample(
    draft: Draft,
    context: Filling,
    budget: Budget,
    mark: Callable[[Iterable[tuple[str, int]]], list[Part]] = lambda units: [],
    whole: bool = False,
) -> Sample:
    """Return the sample of a question about a finished context, see `fill`.

    Parameters
    ----------
    mark
        Returns the parts of units, given the text and the first character of each.

    Raises
    ------
    DataError
        If its text contains a control token of the tokenizer.
    """
    text = draft.head + context.text + draft.tail
    for turn in budget.frame.cut(text):
        if token := budget.tokenizer.control_token(turn):
            raise DataError(
                f"The text of a prompt contains '{token}', a control token of"
                f" '{budget.tokenizer.name}': remove it from the texts."
            )
    read, plain = prompt_lengths(draft, context, budget, whole)
    positions, depths = _positions(draft, context, budget, whole), context.depths
    return Sample(
        index=-1,
        input=text,
        outputs=draft.outputs,
        length=plain + budget.tokens_to_generate,
        length_w_model_temp=read + budget.tokens_to_generate,
        answer_prefix=budget.prefix(draft),
        token_position_answer=positions[draft.order[0]][1] if draft.order else None,
        parts=_parts(draft, context, positions, mark, len(text)),
        depths=[depths[at] for at in draft.order],
        token_positions=[positions[at][0] for at in draft.order],
        golds=[[*gold] for gold in draft.golds],
        id=draft.id,
        cluster=draft.cluster,
        facts=draft.facts,
    )


def _positions(draft: Draft, context: Filling, budget: Budget, whole: bool) -> list[list[int]]:
    """Return the indices of tokens in the plain text, a list for each needle.

    The first token of the needle, then that of its value, then that of each part within it.
    """
    spans, positions = budget.tokenizer.spans, []
    if whole and context.slots:
        text = draft.head + context.text + draft.tail
        ends, starts = [end for _, end in spans([text])[0]], context.starts(draft.head)
    for needle, slot, first in zip(draft.needles, context.slots, context.firsts, strict=True):
        unit, earlier = context.units[slot], 0
        if whole:
            start = starts[slot]
        else:
            before = ANCHOR + context.seam if slot else draft.head
            ends, start = [end for _, end in spans([before + unit])[0]], len(before)
            if slot:
                earlier = _opening(context, draft.head, budget) + first
        # A filling may have put a label before the needle.
        own = start + len(unit) - len(needle.text)
        within = (own + part.start for part in needle.within)
        wanted = [start, own + needle.value_start, *within]
        positions.append([earlier + bisect.bisect_right(ends, at) for at in wanted])
    return positions


def _parts(
    draft: Draft,
    context: Filling,
    positions: list[list[int]],
    mark: Callable[[Iterable[tuple[str, int]]], list[Part]],
    size: int,
) -> list[Part]:
    """Return the parts of a prompt of ``size`` characters."""
    begin, end = len(draft.head), size - len(draft.tail)
    starts, asked = context.starts(draft.head), {*draft.order[: draft.asked]}
    parts = [*draft.head_parts]
    for at, (needle, slot) in enumerate(zip(draft.needles, context.slots, strict=True)):
        start, stop = starts[slot], starts[slot] + len(context.units[slot])
        token, _, *inside = positions[at]
        role = draft.role if at in asked else "distractor"
        value = needle.text[slice(*needle.value)] if needle.value else None
        parts.append(Part(role, start, stop, needle.key, value, context.depths[at], token))
        text = stop - len(needle.text)
        if needle.value:
            parts.append(Part("value", text + needle.value[0], text + needle.value[1]))
        for inner, position in zip(needle.within, inside, strict=True):
            first, last = text + inner.start, text + inner.end
            named = needle.text[inner.start : inner.end]
            before = context.firsts[at] + position - token
            depth = round(100 * before / max(1, context.total), 2)
            parts.append(Part(inner.role, first, last, inner.key, named, depth, position))
    if end > begin:
        parts.append(Part("context", begin, end))
    parts.append(Part("question", end, size))
    hidden, units = {*context.slots}, enumerate(zip(context.units, starts, strict=True))
    marked = mark(unit for slot, unit in units if slot not in hidden)
    return in_order([*parts, *marked])
