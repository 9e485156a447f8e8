"""How a prompt is filled to its length, to the token.

A family says what must stand in a prompt (`Draft`); a `Composer` fills the rest with
haystack, counts, and records where everything lies. This is the one module that
knows how lengths add up:

    special tokens + template and context + question + answer prefix + tokens to generate
"""

from __future__ import annotations

import bisect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

from rulerlib.errors import RulerError
from rulerlib.haystack import ANCHOR, Context, Filling
from rulerlib.parts import Column, Part, Parts
from rulerlib.prompts import Frame
from rulerlib.samples import Sample
from rulerlib.tasks.draft import Draft
from rulerlib.tokens import Tokenizer

# Tokens that are taken beyond the room where prompts are tokenized whole: a token that crosses
# the seam between two units makes their text shorter than the sum of their costs.
SLACK = 64


class TooLongError(RulerError):
    """What must stand in the prompt is longer than the budget.

    Parameters
    ----------
    needed, length
        Tokens that the prompt and its answer need at least, and those that they may have.
    """

    def __init__(self, needed: int, length: int) -> None:
        super().__init__(f"The fixed part of the prompt needs {needed} tokens of {length}.")
        self.needed = needed


@dataclass(frozen=True)
class Budget:
    """The length that a prompt may have, and the tokenizer and frame that it is counted with.

    Attributes
    ----------
    tokenizer, frame
        What counts, and what stands around the prompt when it is fed to a model.
    length
        Tokens of the whole sequence that the model sees, prompt and answer together.
    tokens_to_generate
        The part of ``length`` that is kept free for the answer.
    """

    tokenizer: Tokenizer
    frame: Frame
    length: int
    tokens_to_generate: int

    @property
    def room(self) -> int:
        """Tokens for the prompt, special tokens included."""
        return self.length - self.tokens_to_generate

    @cached_property
    def anchor(self) -> int:
        """The number of tokens of ``ANCHOR``."""
        return self.tokenizer.count(ANCHOR)

    @cached_property
    def _head(self) -> Callable[[str], int]:
        """Count the text before a context; drafts in a row mostly have the same one."""
        return lru_cache(1)(self.tokenizer.count)

    def prefix(self, draft: Draft) -> str:
        """Return the answer prefix that a sample records; ``""`` where the format wants none."""
        return "" if self.frame.format.answer_prefix == "none" else draft.answer_prefix

    def after(self, draft: Draft) -> str:
        """Return the text that a model is fed after the context: the question, and its frame."""
        return draft.tail + self.frame.after(draft.answer_prefix)

    def costs(self, draft: Draft, seam: str) -> list[int]:
        """Return the tokens that each needle adds, its seam included."""
        counts = self.tokenizer.counts([ANCHOR + seam + needle.text for needle in draft.needles])
        return [count - self.anchor for count in counts]

    def fixed(self, draft: Draft, costs: Sequence[int]) -> int:
        """Return the tokens that a draft needs without any filling, the answer included.

        ``costs`` are those of its needles.
        """
        frame = self.frame
        head = self._head(frame.before + draft.head + ANCHOR)
        tail = self.tokenizer.count(ANCHOR + self.after(draft))
        around = frame.special + head + tail - 2 * self.anchor
        return around + sum(costs) + self.tokens_to_generate

    def least(self, draft: Draft, seam: str) -> int:
        """Return the tokens that a draft needs with the smallest filling, the answer included."""
        return self.fixed(draft, self.costs(draft, seam)) + draft.least

    def whole(self, text: str, answer_prefix: str) -> tuple[int, int]:
        """Return the number of tokens of a prompt as it is fed, and as plain text.

        Each is tokenized as a whole, with the answer prefix and without the answer.
        """
        fed, plain = self.tokenizer.counts(
            [self.frame.prompt(text, answer_prefix), text + answer_prefix]
        )
        return fed + self.frame.special, plain


Take = Callable[[int], Filling]
"""A function that takes a filling from a haystack, given the most tokens that it may cost."""

Mark = Callable[[Sequence[str], Sequence[int]], list[Column]]
"""A function that returns the parts of units of the haystack.

It is given their texts, and the characters of the prompt at which they begin.
"""


class Counted(Protocol):
    """A haystack as the composer sees it, whatever its units are."""

    @property
    def seam(self) -> str:
        """The text that joins its units."""

    @property
    def longest(self) -> int:
        """The number of tokens of its longest unit."""

    @property
    def additive(self) -> bool:
        """Whether the tokenizer splits at the seams, so that a sum is the count of the whole."""


@dataclass(frozen=True)
class Shared:
    """One context, and a sample for each question about it, made when it is asked for.

    The drafts of one context differ in the text that follows it (``tail``, ``answer_prefix``), in
    their references, and in the needles that hold these. All else is the same: ``head``, and the
    needles' texts and depths.

    Attributes
    ----------
    composer
        Which filled the context.
    drafts, context
        The questions, and the context that they share.
    lengths
        For each question the number of tokens of the prompt as it is fed, and as plain text,
        without the answer.
    """

    composer: Composer
    drafts: Sequence[Draft]
    context: Context
    lengths: Sequence[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.drafts)

    def __getitem__(self, number: int) -> Sample:
        draft = self.drafts[number]
        fed, plain = self.lengths[number]
        counting = self.composer.counting
        text = draft.head + self.context.text + draft.tail
        stretches = counting.stretches(draft, self.context)
        starts = [stretch.token(0) for stretch in stretches]
        generate = counting.budget.tokens_to_generate
        return Sample(
            index=-1,
            input=text,
            outputs=draft.outputs,
            length=plain + generate,
            length_w_model_temp=fed + generate,
            answer_prefix=counting.budget.prefix(draft),
            token_position_answer=self._first_value(draft, stretches),
            parts=self._parts(draft, stretches, len(text)),
            depths=[self._depths[number] for number in draft.order],
            token_positions=[starts[number] for number in draft.order],
            golds=[[*gold] for gold in draft.golds],
            id=draft.id,
            cluster=draft.cluster,
            facts=draft.facts,
        )

    @property
    def longest(self) -> int:
        """The number of tokens of the longest of its samples, the answer included."""
        return max(map(max, self.lengths)) + self.composer.counting.budget.tokens_to_generate

    @property
    def fits(self) -> bool:
        """Whether all of its samples are within the budget."""
        return self.longest <= self.composer.counting.budget.length

    @cached_property
    def _starts(self) -> list[int]:
        """The character of the input at which each piece of the context begins."""
        offset = len(self.drafts[0].head)
        return [offset + start for start in self.context.starts()]

    @cached_property
    def _depths(self) -> list[float]:
        """The depth that each needle reached, 0 to 100; it may differ from the one in the draft."""
        return self.context.depths()

    @cached_property
    def _units(self) -> list[Column]:
        """The parts of the haystack's own units."""
        pieces, starts, needles = self.context.pieces, self._starts, {*self.context.slots}
        units = [number for number in range(len(pieces)) if number not in needles]
        return self.composer.mark([pieces[at] for at in units], [starts[at] for at in units])

    def _first_value(self, draft: Draft, stretches: Sequence[Stretch]) -> int | None:
        """Return the index of the first token of the first value that is asked for."""
        if not draft.order:
            return None
        number = draft.order[0]
        needle, piece = draft.needles[number], self.context.pieces[self.context.slots[number]]
        # A filling may have put a label before the needle. One without a value counts as one.
        return stretches[number].token(len(piece) - len(needle.text) + needle.value_start)

    def _parts(self, draft: Draft, stretches: Sequence[Stretch], size: int) -> Parts:
        parts = []
        total, before = max(1, sum(self.context.costs)), self.context.tokens_before()
        asked = {*draft.order[: draft.asked]}
        for number, (needle, slot) in enumerate(
            zip(draft.needles, self.context.slots, strict=True)
        ):
            start = self._starts[slot]
            end = start + len(self.context.pieces[slot])
            value = needle.text[slice(*needle.value)] if needle.value else None
            role = draft.role if number in asked else "distractor"
            position = stretches[number].token(0)
            parts.append(Part(role, start, end, needle.key, value, self._depths[number], position))
            # A filling may have put a label before the needle.
            text = end - len(needle.text)
            if needle.value:
                first, last = needle.value
                parts.append(Part("value", text + first, text + last))
            for role, first, last, key in needle.within:
                token = stretches[number].token(text + first - start)
                depth = round(100 * (before[number] + token - position) / total, 2)
                where = text + first, text + last
                parts.append(Part(role, *where, key, needle.text[first:last], depth, token))
        begin, end = len(draft.head), size - len(draft.tail)
        if end > begin:
            parts.append(Part("context", begin, end))
        parts.append(Part("question", end, size))
        return Parts([*draft.head_parts, *Parts.of(parts).columns, *self._units])


Compose = Callable[[Filling], Shared]
"""A function that returns the context of a filling, with its questions."""


class Stretch(NamedTuple):
    """A stretch of a prompt that holds a needle, cut into tokens.

    Attributes
    ----------
    before
        The number of tokens of the plain text before it, without special tokens.
    ends
        The character of the stretch at which each of its tokens ends.
    start
        The one at which the needle's piece begins.
    """

    before: int
    ends: list[int]
    start: int

    def token(self, character: int) -> int:
        """Return the index, in the tokens of the plain text, of a character of the piece."""
        return self.before + bisect.bisect_right(self.ends, self.start + character)


class Counting(ABC):
    """A way to count the tokens of a prompt, and to find its needles among them."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    @abstractmethod
    def lengths(self, draft: Draft, context: Context) -> tuple[int, int]:
        """Return the number of tokens of the prompt as it is fed, and as plain text.

        Both have the answer prefix, and not the answer.
        """

    @abstractmethod
    def stretches(self, draft: Draft, context: Context) -> list[Stretch]:
        """Return for each needle a stretch of the plain text that holds it, cut into tokens."""

    @abstractmethod
    def fill(self, take: Take, room: int, compose: Compose) -> Shared:
        """Return the longest context that fits the budget; one without units where none does.

        Parameters
        ----------
        take, compose
            Take a filling from the haystack, and put the needles into it.
        room
            Tokens of the budget that the fixed part of the prompt leaves.
        """


class Sums(Counting):
    """Adds up what was counted before: exact where the tokenizer splits at the seams."""

    def lengths(self, draft: Draft, context: Context) -> tuple[int, int]:
        frame = self.budget.frame
        first, last = (context.pieces[0], context.pieces[-1]) if context.pieces else ("", "")
        texts = [last, draft.head + first, last + draft.tail + self.budget.prefix(draft)]
        if frame.chat:
            texts += [frame.before + draft.head + first, last + self.budget.after(draft)]
        counts = self.budget.tokenizer.counts(texts)
        middle = sum(context.costs[1:]) - counts[0]
        plain = counts[1] + middle + counts[2]
        fed = counts[3] + middle + counts[4] if frame.chat else plain + frame.special
        return fed, plain

    def stretches(self, draft: Draft, context: Context) -> list[Stretch]:
        if not context.slots:
            return []
        tokenizer, seam, pieces = self.budget.tokenizer, ANCHOR + context.seam, context.pieces
        opening = tokenizer.count(draft.head + pieces[0]) - context.costs[0]
        # What stands before each needle when its tokens are looked at.
        before = [draft.head if slot == 0 else seam for slot in context.slots]
        spans = tokenizer.spans(
            [text + pieces[slot] for text, slot in zip(before, context.slots, strict=True)]
        )
        tokens_before = [
            opening + tokens - self.budget.anchor if slot else 0
            for slot, tokens in zip(context.slots, context.tokens_before(), strict=True)
        ]
        ends = [[end for _, end in tokens] for tokens in spans]
        return list(map(Stretch, tokens_before, ends, map(len, before)))

    def fill(self, take: Take, room: int, compose: Compose) -> Shared:
        filling = take(room)
        # The first unit has no seam before it and may cost a token more than its sum says.
        while not (shared := compose(filling)).fits and len(filling):
            filling = filling.first(len(filling) - 1)
        return shared


class Whole(Counting):
    """Tokenizes every prompt: slow, and needed for tokenizers that merge across seams."""

    def lengths(self, draft: Draft, context: Context) -> tuple[int, int]:
        text = draft.head + context.text + draft.tail
        return self.budget.whole(text, self.budget.prefix(draft))

    def stretches(self, draft: Draft, context: Context) -> list[Stretch]:
        text = draft.head + context.text + draft.tail
        ends = [end for _, end in self.budget.tokenizer.spans([text])[0]]
        starts = context.starts()
        return [Stretch(0, ends, len(draft.head) + starts[slot]) for slot in context.slots]

    def fill(self, take: Take, room: int, compose: Compose) -> Shared:
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
class Composer:
    """Fills drafts from one haystack for one budget.

    Attributes
    ----------
    haystack
        Where the filling comes from.
    counting
        How its prompts are counted, and the budget that they must not exceed.
    mark
        Returns the parts of units of the haystack.
    """

    haystack: Counted
    counting: Counting
    mark: Mark

    def share(self, drafts: Sequence[Draft], take: Take) -> Shared:
        """Return drafts filled with one context, up to the budget of the longest of them.

        Parameters
        ----------
        drafts
            What must stand in the prompts; see `Shared` for what they have in common.
        take
            Takes a filling from the haystack.

        Raises
        ------
        TooLongError
            If a draft alone is longer than the budget.
        """
        first, budget = drafts[0], self.counting.budget
        costs = budget.costs(first, self.haystack.seam)
        fixed = max(budget.fixed(draft, costs) for draft in drafts)
        room = budget.length - fixed
        if room < first.least:
            raise TooLongError(fixed + first.least, budget.length)
        texts = [needle.text for needle in first.needles]
        depths = [needle.depth for needle in first.needles]

        def compose(filling: Filling) -> Shared:
            context = filling.insert(texts, depths, costs)
            lengths = [self.counting.lengths(draft, context) for draft in drafts]
            return Shared(self, drafts, context, lengths)

        shared = self.counting.fill(take, room, compose)
        if not shared.fits:
            raise TooLongError(shared.longest, budget.length)
        return shared
