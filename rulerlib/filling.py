"""Filling: from the draft of a prompt to a sample of exactly the right length.

A family says what must stand in a prompt: a `Draft` with its `Needle` values. A `Composer` puts
these into as much of the haystack as the length allows, counts, and records where everything
stands:

    special tokens + template and context + question + answer prefix + tokens to generate

>>> from rulerlib.haystack import Haystack, Needle
>>> from rulerlib.tokens import Words
>>> budget = Budget(Words(), Frame(), length=20, tokens_to_generate=4)
>>> hay = Haystack(["The sky is blue."], " ", budget.tokenizer)
>>> needle = Needle("Code 12.", depth=0, value=(5, 7))
>>> draft = Draft("Read. ", " Which code?", " It is", ["12"], [needle], order=[0], asked=1)
>>> sample = Composer(budget, hay).share([draft], lambda room: hay.take(room, 0))[0]
>>> sample.input, sample.length
('Read. Code 12. The sky is blue. Which code?', 19)
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Protocol

from rulerlib.errors import RulerError
from rulerlib.haystack import Context, Draft, Filling
from rulerlib.parts import Part, in_order
from rulerlib.prompts import Frame
from rulerlib.samples import Sample
from rulerlib.tokens import ANCHOR, Tokenizer

# Tokens that are taken beyond the room where prompts are tokenized whole: a token that crosses
# the seam between two units makes their text shorter than the sum of their costs.
SLACK = 64


class TooLongError(RulerError):
    """What must stand in the prompt, with its answer, needs more tokens than it may have."""

    def __init__(self, needed: int, length: int) -> None:
        super().__init__(f"The fixed part of the prompt needs {needed} tokens of {length}.")
        self.needed = needed


Take = Callable[[int], Filling]
"""A function that takes a filling from a haystack, given the most tokens that it may cost."""


class Counted(Protocol):
    """A haystack as a composer sees it, whatever its units are."""

    @property
    def seam(self) -> str: ...

    @property
    def longest(self) -> int: ...

    @property
    def additive(self) -> bool: ...


# This many characters on each side decide what a seam costs, and those up to white space.
NEAR = 32

# How many texts are remembered: those of some hundred samples, which the next length has again.
TEXTS = 4096

_SPACE = re.compile(r"\s")


class Seams:
    """Counts texts and what it costs to join them, and remembers both.

    Only what stands near a seam decides what it costs, so a long text is counted once.

    >>> from rulerlib.tokens import Words
    >>> seams = Seams(Words())
    >>> seams.count("one two"), seams.count("hree four"), seams.cost("one two", "hree four")
    (2, 2, -1)
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


# One tokenizer is in use at a time, or a few that are compared; all who ask share the counts.
seams_of = lru_cache(4)(Seams)


def beginning(text: str) -> str:
    """Return the part of a text that decides what a seam before it costs."""
    space = _SPACE.search(text, NEAR)
    return text[: space.start()] if space else text


def ending(text: str) -> str:
    """Return the part of a text that decides what a seam after it costs, from white space on."""
    far = max(0, len(text) - NEAR)
    start = max(text.rfind(" ", 0, far), text.rfind("\n", 0, far))
    return text[max(0, start) :]


@dataclass(frozen=True)
class Budget:
    """The length that a prompt may have, and the tokenizer and frame that it is counted with.

    ``length`` are the tokens of the whole sequence that the model sees, prompt and answer together;
    ``tokens_to_generate`` of them are kept free for the answer.
    """

    tokenizer: Tokenizer
    frame: Frame
    length: int
    tokens_to_generate: int

    @cached_property
    def seams(self) -> Seams:
        """What joins cost, and counts of texts that come again."""
        return seams_of(self.tokenizer)

    def beside(self, text: str, before: str = "", after: str = "") -> int:
        """Return the tokens that a text adds to ``ANCHOR`` before it or after it."""
        return self.seams.count(before + text + after) - self.seams.count(ANCHOR)

    def prefix(self, draft: Draft) -> str:
        """Return the answer prefix that a sample records; ``""`` where the format wants none."""
        return "" if self.frame.format.answer_prefix == "none" else draft.answer_prefix

    def after(self, draft: Draft) -> str:
        """Return the text that a model is fed after the context: the question, and its frame."""
        return draft.tail + self.frame.after(draft.answer_prefix)

    def costs(self, draft: Draft, seam: str) -> list[int]:
        """Return the tokens that each needle adds, its seam included."""
        texts = (ANCHOR + seam + needle.text for needle in draft.needles)
        return [len(self.seams.ends(text)) - self.seams.count(ANCHOR) for text in texts]

    def fixed(self, draft: Draft, costs: Sequence[int]) -> int:
        """Return the tokens of a draft without any filling, given the costs of its needles."""
        head = self.beside(self.frame.before + draft.head, after=ANCHOR)
        tail = self.beside(self.after(draft), before=ANCHOR)
        return self.frame.special + head + tail + sum(costs) + self.tokens_to_generate

    def least(self, draft: Draft, seam: str) -> int:
        """Return the tokens that a draft needs with the smallest filling, the answer included."""
        return self.fixed(draft, self.costs(draft, seam)) + draft.least

    def fed(self, text: str, answer_prefix: str) -> int:
        """Return the number of tokens of a prompt as it is fed, tokenized as a whole."""
        return self.tokenizer.count(self.frame.prompt(text, answer_prefix)) + self.frame.special

    def plain(self, text: str, answer_prefix: str, fed: int) -> int:
        """Return the number of tokens of a prompt as plain text, given that of what is fed."""
        if not (self.frame.chat or self.frame.before):
            return fed - self.frame.special
        return self.tokenizer.count(text + answer_prefix)


Locate = Callable[[int], int]
"""A function from a character of a needle's piece to the index of its token in the plain text."""


def _token(before: int, ends: Sequence[int], start: int, character: int) -> int:
    """Return the index of the token of a character of the piece that begins at ``start``."""
    return before + bisect.bisect_right(ends, start + character)


@dataclass(frozen=True)
class Composer:
    """Fills drafts from one haystack, by sums: exact where the tokenizer splits at the seams.

    ``mark`` returns the parts of units of the haystack, given the text of each and the character
    of the prompt at which it begins.
    """

    budget: Budget
    haystack: Counted
    mark: Callable[[Iterable[tuple[str, int]]], list[Part]] = lambda units: []

    def share(self, drafts: Sequence[Draft], take: Take) -> Shared:
        """Return drafts filled with one context, up to the budget of the longest of them.

        Raises
        ------
        TooLongError
            If a draft alone is longer than the budget.
        """
        first, budget = drafts[0], self.budget
        costs = budget.costs(first, self.haystack.seam)
        fixed = max(budget.fixed(draft, costs) for draft in drafts)
        room = budget.length - fixed
        if room < first.least:
            raise TooLongError(fixed + first.least, budget.length)
        texts = [needle.text for needle in first.needles]
        depths = [needle.depth for needle in first.needles]

        def compose(filling: Filling) -> Shared:
            context = filling.insert(texts, depths, costs)
            return Shared(self, drafts, context, [self.lengths(draft, context) for draft in drafts])

        shared = self.fill(take, room, compose)
        if not shared.fits:
            raise TooLongError(shared.longest, budget.length)
        return shared

    def fill(self, take: Take, room: int, compose: Callable[[Filling], Shared]) -> Shared:
        """Return the longest context that fits the budget; one without units where none does."""
        filling = take(room)
        # The first unit has no seam before it and may cost a token more than its sum says.
        while not (shared := compose(filling)).fits and len(filling):
            filling = filling.first(len(filling) - 1)
        return shared

    def lengths(self, draft: Draft, context: Context) -> tuple[int, int]:
        """Return the number of tokens of the prompt as it is fed, and as plain text.

        Both have the answer prefix, and not the answer.
        """
        budget, frame, seams = self.budget, self.budget.frame, self.budget.seams
        last = context.pieces[-1] if context.pieces else ""
        before, after = frame.before + draft.head, budget.after(draft)
        end = budget.beside(after, before=ANCHOR) - seams.cost(ANCHOR, after)
        fed = self._head(draft) + self._first(before, context) + context.total
        fed += seams.cost(last, after) + end
        if not (frame.chat or frame.before):
            return fed + frame.special, fed
        rest = draft.tail + budget.prefix(draft)
        plain = self._opening(draft, context) + context.total + seams.cost(last, rest)
        return fed + frame.special, plain + seams.count(rest)

    def _head(self, draft: Draft) -> int:
        """Return the tokens of the text before the context, as a model is fed it."""
        text = self.budget.frame.before + draft.head
        return self.budget.beside(text, after=ANCHOR) - self.budget.seams.cost(text, ANCHOR)

    def _plain_head(self, draft: Draft) -> int:
        """Return the tokens of the text before the context, as plain text."""
        seams, before = self.budget.seams, self.budget.frame.before
        return self._head(draft) - seams.count(before) - seams.cost(before, draft.head)

    def _first(self, head: str, context: Context) -> int:
        """Return how many tokens more than after ``ANCHOR`` the first piece adds."""
        if not context.pieces:
            return 0
        seams, first, usual = self.budget.seams, context.pieces[0], ANCHOR + context.seam
        return seams.cost(head, first) - seams.cost(usual, first) - self.budget.beside(usual)

    def _opening(self, draft: Draft, context: Context) -> int:
        """Return the tokens of the plain text before the first piece, less what its cost has."""
        return self._plain_head(draft) + self._first(draft.head, context)

    def locate(self, draft: Draft, context: Context) -> list[Locate]:
        """Return for each needle a function that finds the tokens of its characters."""
        if not context.slots:
            return []
        count, ends = self.budget.seams.count, self.budget.seams.ends
        opening = self._opening(draft, context) - count(ANCHOR)
        # What stands before each needle when its tokens are looked at.
        usual, near = ANCHOR + context.seam, ending(draft.head)
        located = list[Locate]()
        for slot, before in zip(context.slots, context.firsts, strict=True):
            text = usual if slot else near
            first = opening + before if slot else self._plain_head(draft) - count(near)
            located.append(partial(_token, first, ends(text + context.pieces[slot]), len(text)))
        return located


class Whole(Composer):
    """Tokenizes every prompt: slow, and needed for tokenizers that merge across seams."""

    def lengths(self, draft: Draft, context: Context) -> tuple[int, int]:
        text, prefix = draft.head + context.text + draft.tail, self.budget.prefix(draft)
        fed = self.budget.fed(text, prefix)
        return fed, self.budget.plain(text, prefix, fed)

    def locate(self, draft: Draft, context: Context) -> list[Locate]:
        text = draft.head + context.text + draft.tail
        ends = [end for _, end in self.budget.tokenizer.spans([text])[0]]
        return [
            partial(_token, 0, ends, len(draft.head) + start) for start in context.needle_starts()
        ]

    def fill(self, take: Take, room: int, compose: Callable[[Filling], Shared]) -> Shared:
        filling = take(room + SLACK)
        low, high = 0, len(filling)
        best = compose(filling.first(0))
        # Tokens that hold several units make their sum too large: take more until it does not fit.
        while best.fits and compose(filling.first(high)).fits:
            room *= 2
            filling = take(room + SLACK)
            if len(filling) <= high:
                # All there is.
                break
            high = len(filling)
        while best.fits and low < high:
            middle = (low + high + 1) // 2
            shared = compose(filling.first(middle))
            if shared.fits:
                low, best = middle, shared
            else:
                high = middle - 1
        return best


@dataclass(frozen=True)
class Shared:
    """One context, and a sample for each question about it, made when it is asked for.

    The drafts of one context differ in the text that follows it (``tail``, ``answer_prefix``), in
    their references, and in which needles hold these. ``lengths`` are for each of them the tokens
    of the prompt as it is fed, and as plain text, without the answer.
    """

    composer: Composer
    drafts: Sequence[Draft]
    context: Context
    lengths: Sequence[tuple[int, int]]

    def text(self, number: int) -> str:
        """Return the prompt of a question, without the answer prefix."""
        draft = self.drafts[number]
        return draft.head + self.context.text + draft.tail

    def __getitem__(self, number: int) -> Sample:
        draft, budget, text = self.drafts[number], self.composer.budget, self.text(number)
        fed, plain = self.lengths[number]
        tokens, order = self.composer.locate(draft, self.context), draft.order
        return Sample(
            index=-1,
            input=budget.tokenizer.unmark(text),
            outputs=draft.outputs,
            length=plain + budget.tokens_to_generate,
            length_w_model_temp=fed + budget.tokens_to_generate,
            answer_prefix=budget.prefix(draft),
            token_position_answer=self._first_value(draft, tokens[order[0]]) if order else None,
            parts=self._parts(draft, tokens, len(text)),
            depths=[self._depths[at] for at in order],
            token_positions=[tokens[at](0) for at in order],
            golds=[[*gold] for gold in draft.golds],
            id=draft.id,
            cluster=draft.cluster,
            facts=draft.facts,
        )

    @property
    def longest(self) -> int:
        """The number of tokens of the longest of its samples, the answer included."""
        return max(map(max, self.lengths)) + self.composer.budget.tokens_to_generate

    @property
    def fits(self) -> bool:
        """Whether all of its samples are within the budget."""
        return self.longest <= self.composer.budget.length

    @cached_property
    def _depths(self) -> list[float]:
        """The depth that each needle reached, 0 to 100; it may differ from the one in the draft."""
        return self.context.depths()

    def _units(self) -> Iterator[tuple[str, int]]:
        """Yield the haystack's own units, each with the character at which it begins."""
        needles = {*self.context.slots}
        starts = self.context.starts(len(self.drafts[0].head))
        for number, (piece, start) in enumerate(zip(self.context.pieces, starts, strict=True)):
            if number not in needles:
                yield piece, start

    def _first_value(self, draft: Draft, token: Locate) -> int:
        """Return the index of the first token of the first value that is asked for."""
        needle = draft.needles[draft.order[0]]
        piece = self.context.pieces[self.context.slots[draft.order[0]]]
        # A filling may have put a label before the needle. One without a value counts as one.
        return token(len(piece) - len(needle.text) + needle.value_start)

    def _parts(self, draft: Draft, tokens: Sequence[Locate], size: int) -> list[Part]:
        """Return the parts of a prompt of ``size`` characters."""
        parts, context = list[Part](), self.context
        total, needed = max(1, context.total), {*draft.order[: draft.asked]}
        places = zip(draft.needles, context.slots, context.needle_starts(), strict=True)
        for number, (needle, slot, place) in enumerate(places):
            start = len(draft.head) + place
            end = start + len(context.pieces[slot])
            value = needle.text[slice(*needle.value)] if needle.value else None
            role, token = draft.role if number in needed else "distractor", tokens[number]
            parts.append(Part(role, start, end, needle.key, value, self._depths[number], token(0)))
            # A filling may have put a label before the needle.
            text = end - len(needle.text)
            if needle.value:
                first, last = needle.value
                parts.append(Part("value", text + first, text + last))
            for role, first, last, key, *_ in needle.within:
                at = token(text + first - start)
                depth = round(100 * (context.firsts[number] + at - token(0)) / total, 2)
                where = text + first, text + last
                parts.append(Part(role, *where, key, needle.text[first:last], depth, at))
        begin, end = len(draft.head), size - len(draft.tail)
        if end > begin:
            parts.append(Part("context", begin, end))
        parts.append(Part("question", end, size))
        return in_order([*draft.head_parts, *parts, *self.composer.mark(self._units())])
