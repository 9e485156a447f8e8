"""The budget of a prompt, and the two ways to count what it takes, to the token.

This is the one module that knows how lengths add up:

    special tokens + template and context + question + answer prefix + tokens to generate

`rulerlib.tasks.composer` fills prompts to their length with it.
"""

from __future__ import annotations

import bisect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeVar

from rulerlib import seams
from rulerlib.errors import RulerError, require
from rulerlib.haystack import ANCHOR, Context, Filling
from rulerlib.prompts import Frame
from rulerlib.tasks.draft import Draft
from rulerlib.tokens import Tokenizer

# Tokens that are taken beyond the room where prompts are tokenized whole: a token that crosses
# the seam between two units makes their text shorter than the sum of their costs.
SLACK = 64


MEMORY_PER_TOKEN = 1024
"""Bytes of memory that making a prompt takes at most for each of its tokens: 280 (noise) to 470
(common words) with ``"words"``, 830 with a BPE, measured at a million tokens."""


def check_length(parameter: str, length: int) -> None:
    """Check that this machine has the memory to make a prompt of a length.

    Parameters
    ----------
    parameter
        What the length is called.
    length
        In tokens.

    Raises
    ------
    ParameterError
        If it has not: names the longest length that fits.
    """
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        # A system that does not say.
        memory = 2**36
    most = memory // MEMORY_PER_TOKEN
    allowed = (
        f"at most {most}: making a prompt takes up to {MEMORY_PER_TOKEN} bytes a token, and this"
        f" machine has {memory / 1e9:.0f} GB of memory"
    )
    require(length <= most, parameter, length, allowed)


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
    def seams(self) -> seams.Seams:
        """What joins cost, and counts of texts that come again."""
        return seams.of(self.tokenizer)

    def prefix(self, draft: Draft) -> str:
        """Return the answer prefix that a sample records; ``""`` where the format wants none."""
        return "" if self.frame.format.answer_prefix == "none" else draft.answer_prefix

    def after(self, draft: Draft) -> str:
        """Return the text that a model is fed after the context: the question, and its frame."""
        return draft.tail + self.frame.after(draft.answer_prefix)

    def costs(self, draft: Draft, seam: str) -> list[int]:
        """Return the tokens that each needle adds, its seam included."""
        texts = (ANCHOR + seam + needle.text for needle in draft.needles)
        # With the places of their tokens, which every sample needs.
        return [len(self.seams.ends(text)) - self.anchor for text in texts]

    def head(self, draft: Draft) -> int:
        """Return the tokens of the text before the context, as a model is fed it."""
        text = self.frame.before + draft.head
        joined = self.seams.count(text + ANCHOR)
        return joined - self.anchor - self.seams.cost(text, ANCHOR)

    def end(self, draft: Draft) -> int:
        """Return the tokens of the text after the context, as a model is fed it."""
        text = self.after(draft)
        joined = self.seams.count(ANCHOR + text)
        return joined - self.anchor - self.seams.cost(ANCHOR, text)

    def fixed(self, draft: Draft, costs: Sequence[int]) -> int:
        """Return the tokens that a draft needs without any filling, the answer included.

        ``costs`` are those of its needles.
        """
        frame = self.frame
        head = self.seams.count(frame.before + draft.head + ANCHOR)
        tail = self.seams.count(ANCHOR + self.after(draft))
        around = frame.special + head + tail - 2 * self.anchor
        return around + sum(costs) + self.tokens_to_generate

    def least(self, draft: Draft, seam: str) -> int:
        """Return the tokens that a draft needs with the smallest filling, the answer included."""
        return self.fixed(draft, self.costs(draft, seam)) + draft.least

    def fed(self, text: str, answer_prefix: str) -> int:
        """Return the number of tokens of a prompt as it is fed, tokenized as a whole."""
        return self.tokenizer.count(self.frame.prompt(text, answer_prefix)) + self.frame.special

    def whole(self, text: str, answer_prefix: str) -> tuple[int, int]:
        """Return the number of tokens of a prompt as it is fed, and as plain text.

        Each is tokenized as a whole, with the answer prefix and without the answer.
        """
        fed = self.fed(text, answer_prefix)
        return fed, self.plain(text, answer_prefix, fed)

    def plain(self, text: str, answer_prefix: str, fed: int) -> int:
        """Return the number of tokens of a prompt as plain text, given that of what is fed."""
        if not self.frame.chat:
            return fed - self.frame.special
        return self.tokenizer.count(text + answer_prefix)


Take = Callable[[int], Filling]
"""A function that takes a filling from a haystack, given the most tokens that it may cost."""


class Fit(Protocol):
    """What is made of a filling."""

    @property
    def fits(self) -> bool:
        """Whether it is within the budget."""


F = TypeVar("F", bound=Fit)


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
    ends: Sequence[int]
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
    def fill(self, take: Take, room: int, compose: Callable[[Filling], F]) -> F:
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
        budget = self.budget
        frame, count, cost = budget.frame, budget.seams.count, budget.seams.cost
        last = context.pieces[-1] if context.pieces else ""
        after, rest = budget.after(draft), draft.tail + budget.prefix(draft)
        opening = budget.head(draft) + self._first(frame.before + draft.head, context)
        fed = opening + context.total + cost(last, after) + budget.end(draft)
        if not frame.chat:
            return fed + frame.special, fed
        plain = self._opening(draft, context) + context.total + cost(last, rest) + count(rest)
        return fed, plain

    def _first(self, head: str, context: Context) -> int:
        """Return how many tokens more than its cost the first piece adds after a head.

        Its cost is that of a seam and the piece after ``ANCHOR``.
        """
        if not context.pieces:
            return 0
        budget, first = self.budget, context.pieces[0]
        cost, usual = budget.seams.cost, ANCHOR + context.seam
        before = cost(usual, first) + budget.seams.count(usual) - budget.anchor
        return cost(head, first) - before

    def _opening(self, draft: Draft, context: Context) -> int:
        """Return the tokens of the plain text before the first piece, less what its cost has."""
        return self._head(draft) + self._first(draft.head, context)

    def _head(self, draft: Draft) -> int:
        """Return the tokens of the text before the context, as plain text."""
        seams, before = self.budget.seams, self.budget.frame.before
        return self.budget.head(draft) - seams.count(before) - seams.cost(before, draft.head)

    def stretches(self, draft: Draft, context: Context) -> list[Stretch]:
        if not context.slots:
            return []
        count, ends = self.budget.seams.count, self.budget.seams.ends
        opening = self._opening(draft, context) - self.budget.anchor
        # What stands before each needle when its tokens are looked at.
        usual, near = ANCHOR + context.seam, seams.ending(draft.head)
        stretches = []
        for slot, before in zip(context.slots, context.tokens_before(), strict=True):
            text = usual if slot else near
            first = opening + before if slot else self._head(draft) - count(near)
            stretches.append(Stretch(first, ends(text + context.pieces[slot]), len(text)))
        return stretches

    def fill(self, take: Take, room: int, compose: Callable[[Filling], F]) -> F:
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
        return [Stretch(0, ends, len(draft.head) + start) for start in context.needle_starts()]

    def fill(self, take: Take, room: int, compose: Callable[[Filling], F]) -> F:
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
