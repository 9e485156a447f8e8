"""Fill a prompt up to its length: from a draft to a sample.

A family plans a `Draft` with its `Needle` values (`rulerlib.haystack`). `fill` puts the needles
into as much of the haystack as the length allows, and counts:

    special tokens + template and context + question + answer prefix + tokens to generate

Units and needles are tokenized once each, and the length of a prompt is the sum of their costs.
This is exact for tokenizers that never merge text across units, as nearly all do. For the others,
`fill` tokenizes whole prompts (``whole``); `rulerlib.dataset` finds out which is needed.

>>> from rulerlib.haystack import Haystack, Needle
>>> from rulerlib.tokens import Words
>>> budget = Budget(Words(), Frame(), length=20, tokens_to_generate=4)
>>> hay = Haystack(["The sky is blue."], " ", budget.tokenizer)
>>> needle = Needle("Code 12.", depth=0, value=(5, 7))
>>> draft = Draft("Read. ", " Which code?", " It is", ["12"], [needle], order=[0], asked=1)
>>> sample = fill([draft], lambda room: hay.take(room, 0), hay.seam, budget)[0]
>>> sample.input, sample.length
('Read. Code 12. The sky is blue. Which code?', 19)
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from rulerlib.errors import RulerError
from rulerlib.haystack import Context, Draft, Filling
from rulerlib.parts import Part, in_order
from rulerlib.prompts import Frame
from rulerlib.samples import Sample
from rulerlib.tokens import ANCHOR, Tokenizer

# Extra tokens to take from the haystack where whole prompts are tokenized: units that share a token
# are shorter than the sum of their costs.
SLACK = 64

Take = Callable[[int], Filling]
"""A function that takes a filling from a haystack, given the most tokens that it may cost."""

Mark = Callable[[Iterable[tuple[str, int]]], list[Part]]
"""A function that returns the parts of units, given the text and the first character of each."""


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

    def costs(self, draft: Draft, seam: str) -> list[int]:
        """Return the tokens that each needle adds, including its seam."""
        texts = [ANCHOR + seam + needle.text for needle in draft.needles]
        anchor, *counts = self.tokenizer.counts([ANCHOR, *texts])
        return [count - anchor for count in counts]

    def fixed(self, draft: Draft, costs: Sequence[int]) -> int:
        """Return the tokens of a draft without a filling, given the costs of its needles."""
        before, after = self.around(draft)
        texts = self.count(before + ANCHOR) + self.count(ANCHOR + after) - 2 * self.count(ANCHOR)
        return self.frame.special + texts + sum(costs) + self.tokens_to_generate

    def least(self, draft: Draft, seam: str) -> int:
        """Return the tokens of a draft with its smallest filling, including the answer."""
        return self.fixed(draft, self.costs(draft, seam)) + draft.least


def fill(
    drafts: Sequence[Draft],
    take: Take,
    seam: str,
    budget: Budget,
    mark: Mark = lambda units: [],
    whole: bool = False,
    most: int | None = None,
) -> Filled:
    """Fill drafts that share a context with as much of the haystack as fits.

    Parameters
    ----------
    drafts, take
        The questions about one context, and a function that fills a number of tokens.
    seam
        The text between two units of the haystack.
    budget
        The length, and what it is counted with.
    mark
        Returns the parts of units.
    whole
        Whether to tokenize whole prompts instead of adding up the costs of units.
    most
        The most tokens of the haystack; if None, as many as fit.

    Raises
    ------
    TooLongError
        If the smallest filling does not fit.
    """
    costs = budget.costs(drafts[0], seam)
    fixed = max(budget.fixed(draft, costs) for draft in drafts)
    room, least = budget.length - fixed, drafts[0].least
    if room < least:
        raise TooLongError(fixed + least, budget.length)
    if most is not None:
        room = max(least, min(room, most))

    def filled(filling: Filling) -> Filled:
        texts = [needle.text for needle in drafts[0].needles]
        depths = [needle.depth for needle in drafts[0].needles]
        return Filled(budget, drafts, filling.insert(texts, depths, costs), mark, whole)

    if whole:
        result = _search(take, room, budget.length, filled)
    else:
        filling = take(room)
        result = filled(filling)
        # The first unit has no seam before it, and may cost a token more than its sum says.
        while result.longest > budget.length and len(filling):
            filling = filling.first(len(filling) - 1)
            result = filled(filling)
    if result.longest > budget.length:
        raise TooLongError(result.longest, budget.length)
    return result


def _search(take: Take, room: int, length: int, filled: Callable[[Filling], Filled]) -> Filled:
    """Return the longest prompt that fits, by tokenizing prompts of different sizes."""
    filling = take(room + SLACK)
    low, high = 0, len(filling)
    best = filled(filling.first(0))
    # Units that share tokens cost less than their sum: take more until they do not fit.
    while best.longest <= length and filled(filling.first(high)).longest <= length:
        room *= 2
        filling = take(room + SLACK)
        if len(filling) <= high:
            break
        high = len(filling)
    while best.longest <= length and low < high:
        middle = (low + high + 1) // 2
        prompt = filled(filling.first(middle))
        if prompt.longest <= length:
            low, best = middle, prompt
        else:
            high = middle - 1
    return best


class Place(NamedTuple):
    """How to find the tokens of a needle.

    ``before`` tokens precede a text whose tokens end at the characters ``ends``; the needle's piece
    begins at its character ``start``.
    """

    before: int
    ends: list[int]
    start: int

    def token(self, character: int) -> int:
        """Return the index of the token with this character of the piece."""
        return self.before + bisect.bisect_right(self.ends, self.start + character)


@dataclass(frozen=True)
class Filled:
    """One filled context and the questions about it; index it to get a sample.

    The drafts differ in the text after the context, in their references, and in which needles hold
    these.
    """

    budget: Budget
    drafts: Sequence[Draft]
    context: Context
    mark: Mark
    whole: bool

    def text(self, number: int) -> str:
        """Return the prompt of a question, without the answer prefix."""
        draft = self.drafts[number]
        return draft.head + self.context.text + draft.tail

    # --- Lengths ----------------------------------------------------------------------------------

    @property
    def longest(self) -> int:
        """The number of tokens of the longest prompt, including the answer."""
        return max(map(max, self.lengths)) + self.budget.tokens_to_generate

    @cached_property
    def lengths(self) -> list[tuple[int, int]]:
        """For each prompt its tokens as the model reads it, and as plain text."""
        count = self.tokenized if self.whole else self._added
        return [count(number) for number in range(len(self.drafts))]

    def _added(self, number: int) -> tuple[int, int]:
        budget, draft = self.budget, self.drafts[number]
        read = self._sum(*budget.around(draft))
        if not (budget.frame.chat or budget.frame.before):
            return read + budget.frame.special, read
        plain = self._sum(draft.head, draft.tail + budget.prefix(draft))
        return read + budget.frame.special, plain

    def tokenized(self, number: int) -> tuple[int, int]:
        """Return the lengths of a prompt by tokenizing it as a whole."""
        budget, frame, text = self.budget, self.budget.frame, self.text(number)
        prefix = budget.prefix(self.drafts[number])
        read = budget.tokenizer.count(frame.prompt(text, prefix))
        plain = read
        if frame.chat or frame.before:
            plain = budget.tokenizer.count(text + prefix)
        return read + frame.special, plain

    def _sum(self, before: str, after: str) -> int:
        """Return the number of tokens of the context between two texts."""
        count, pieces = self.budget.count, self.context.pieces
        if not pieces:
            return count(before + after)
        end = count(pieces[-1] + after) - count(pieces[-1])
        return self._opening(before) + count(ANCHOR) + self.context.total + end

    def _opening(self, before: str) -> int:
        """Return the tokens of a text and the first piece, less those of this piece elsewhere."""
        first, count = self.context.pieces[0], self.budget.count
        return count(before + first) - count(ANCHOR + self.context.seam + first)

    # --- Samples ----------------------------------------------------------------------------------

    def __getitem__(self, number: int) -> Sample:
        """Return the sample of a question."""
        draft, budget, text = self.drafts[number], self.budget, self.text(number)
        read, plain = self.lengths[number]
        places, depths, order = self._places(draft, text), self.context.depths(), draft.order
        return Sample(
            index=-1,
            input=budget.tokenizer.unmark(text),
            outputs=draft.outputs,
            length=plain + budget.tokens_to_generate,
            length_w_model_temp=read + budget.tokens_to_generate,
            answer_prefix=budget.prefix(draft),
            token_position_answer=self._first_value(draft, places) if order else None,
            parts=self._parts(draft, places, len(text)),
            depths=[depths[at] for at in order],
            token_positions=[places[at].token(0) for at in order],
            golds=[[*gold] for gold in draft.golds],
            id=draft.id,
            cluster=draft.cluster,
            facts=draft.facts,
        )

    def _places(self, draft: Draft, text: str) -> list[Place]:
        """Return for each needle how to find its tokens in the plain text."""
        context, spans = self.context, self.budget.tokenizer.spans
        if not context.slots:
            return []
        if self.whole:
            ends = [end for _, end in spans([text])[0]]
            return [Place(0, ends, len(draft.head) + start) for start in context.needle_starts()]
        opening, usual = self._opening(draft.head), ANCHOR + context.seam
        befores = [usual if slot else draft.head for slot in context.slots]
        texts = [
            before + context.pieces[slot]
            for before, slot in zip(befores, context.slots, strict=True)
        ]
        return [
            Place(opening + first if slot else 0, [end for _, end in tokens], len(before))
            for slot, first, tokens, before in zip(
                context.slots, context.firsts, spans(texts), befores, strict=True
            )
        ]

    def _first_value(self, draft: Draft, places: Sequence[Place]) -> int:
        """Return the index of the first token of the first value that the question asks for."""
        at = draft.order[0]
        needle, piece = draft.needles[at], self.context.pieces[self.context.slots[at]]
        # A filling may have put a label before the needle.
        return places[at].token(len(piece) - len(needle.text) + needle.value_start)

    def _parts(self, draft: Draft, places: Sequence[Place], size: int) -> list[Part]:
        """Return the parts of a prompt of ``size`` characters."""
        context, begin, end = self.context, len(draft.head), size - len(draft.tail)
        starts = [begin + start for start in context.needle_starts()]
        depths, asked = context.depths(), {*draft.order[: draft.asked]}
        parts = [*draft.head_parts]
        for at, needle in enumerate(draft.needles):
            slot, token = context.slots[at], places[at].token
            start, stop = starts[at], starts[at] + len(context.pieces[slot])
            role = draft.role if at in asked else "distractor"
            value = needle.text[slice(*needle.value)] if needle.value else None
            parts.append(Part(role, start, stop, needle.key, value, depths[at], token(0)))
            # A filling may have put a label before the needle.
            text = stop - len(needle.text)
            if needle.value:
                parts.append(Part("value", text + needle.value[0], text + needle.value[1]))
            for inner in needle.within:
                first, last = text + inner.start, text + inner.end
                position, named = token(first - start), needle.text[inner.start : inner.end]
                before = context.firsts[at] + position - token(0)
                depth = round(100 * before / max(1, context.total), 2)
                parts.append(Part(inner.role, first, last, inner.key, named, depth, position))
        if end > begin:
            parts.append(Part("context", begin, end))
        parts.append(Part("question", end, size))
        return in_order([*parts, *self.mark(self._units(begin))])

    def _units(self, begin: int) -> Iterable[tuple[str, int]]:
        """Yield the units of the haystack, each with its first character in the prompt."""
        needles, starts = {*self.context.slots}, self.context.starts()
        for slot, (piece, start) in enumerate(zip(self.context.pieces, starts, strict=True)):
            if slot not in needles:
                yield piece, begin + start
