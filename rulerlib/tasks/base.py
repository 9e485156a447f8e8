"""From a draft to a sample that fills its budget to the token.

A task says what must stand in the prompt (``Draft``); this module fills the
rest with haystack, counts, and records where everything lies. It is the one
place that knows how lengths add up:

    special tokens + template and context + question + answer prefix + tokens to generate
"""

from __future__ import annotations

import bisect
import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from rulerlib.errors import RulerError
from rulerlib.haystack import ANCHOR, Filling, Needled
from rulerlib.languages import Language
from rulerlib.samples import Sample
from rulerlib.tokens import Frame, Tokenizer

# How many drafts are tried, where drafts differ in length and the budget is all but too small.
ATTEMPTS = 100


class TooLongError(RulerError):
    """What must stand in the prompt is longer than the budget."""

    def __init__(self, needed: int, length: int) -> None:
        super().__init__(f"The fixed part of the prompt needs {needed} tokens of {length}.")
        self.needed = needed


@dataclass(frozen=True)
class Budget:
    """How long a prompt may be, and for whom it is counted.

    Attributes
    ----------
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


@dataclass
class Needle:
    """A text to be put into the haystack at a depth; ``value_at`` is where its value begins."""

    text: str
    depth: float
    value_at: int


@dataclass
class Draft:
    """What a task wants in one prompt.

    Attributes
    ----------
    head, tail
        The template before and after the context.
    answer_prefix
        What the model continues.
    outputs
        The references.
    needles
        By rising depth.
    order
        Positions in ``needles``, in the order in which the sample records them:
        first the needles of ``outputs``, then the others.
    answer
        The whole answer as a model is expected to write it; None: ``outputs``, enumerated.
    least
        Tokens that the context needs beside the needles.
    """

    head: str
    tail: str
    answer_prefix: str
    outputs: list[str]
    needles: list[Needle] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    answer: str | None = None
    least: int = 0


def value_at(needled: Needled, number: int, draft: Draft) -> int:
    """Where a needle's value begins in its piece, before which a filling may put a label."""
    needle = draft.needles[number]
    return len(needled.pieces[needled.places[number]]) - len(needle.text) + needle.value_at


Made = TypeVar("Made")


def until_it_fits(attempt: Callable[[], Made]) -> Made:
    """What ``attempt`` makes; a draft that is too long for the budget is drawn anew.

    Raises
    ------
    TooLongError
        If none of many drafts fits.
    """
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(TooLongError):
            return attempt()
    return attempt()


@dataclass(frozen=True)
class Shared:
    """One context, and a sample for each question about it, made when it is asked for.

    The drafts of one context differ in what follows it (``tail``, ``answer_prefix``), in their
    references, and in which of the needles these are. All else is the same: ``head``, and the
    needles' texts and depths.

    Attributes
    ----------
    drafts, needled
        The questions, and the context that they share.
    lengths
        For each question the tokens of the prompt as it is fed, and as plain text.
    """

    composer: Composer
    drafts: Sequence[Draft]
    needled: Needled
    lengths: Sequence[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.drafts)

    def __getitem__(self, number: int) -> Sample:
        return self.composer.sample(self.drafts[number], self.needled, *self.lengths[number])

    @property
    def longest(self) -> int:
        """The tokens of the longest of its samples, the answer included."""
        return max(map(max, self.lengths)) + self.composer.budget.tokens_to_generate


Take = Callable[[int], Filling]
"""Takes a filling of at most so many tokens from a haystack."""


class Counted(Protocol):
    """What must be known of a haystack, whatever its units are."""

    @property
    def seam(self) -> str:
        """What joins its units."""
        ...

    @property
    def longest(self) -> int:
        """The tokens of its longest unit."""
        ...

    @property
    def additive(self) -> bool:
        """Whether the tokenizer splits at the seams, so that a sum is the count of the whole."""
        ...


class Composer:
    """Fills drafts from one haystack for one budget.

    Parameters
    ----------
    budget
        What must not be exceeded.
    haystack
        Where the filling comes from.
    exact
        Tokenize every prompt as a whole. Slow, and needed only for tokenizers
        that merge across the seams between units.
    """

    def __init__(self, budget: Budget, haystack: Counted, exact: bool = False) -> None:
        self.budget = budget
        self.haystack = haystack
        self.exact = exact
        self._anchor = budget.tokenizer.count(ANCHOR)

    def fixed(self, draft: Draft) -> int:
        """Tokens that a draft needs without any haystack, the answer included."""
        fixed = self._fixed(draft, self._costs(draft)) + draft.least
        return fixed + self.budget.tokens_to_generate

    def share(self, drafts: Sequence[Draft], take: Take) -> Shared:
        """Fill drafts with one context, up to the budget of the longest of them.

        Parameters
        ----------
        drafts
            What must stand in the prompts; see `Shared` for what they have in common.
        take
            Takes a filling of at most so many tokens from the haystack.

        Raises
        ------
        TooLongError
            If a draft alone is longer than the budget.
        """
        first = drafts[0]
        costs = self._costs(first)
        fixed = max(self._fixed(draft, costs) for draft in drafts)
        room = self.budget.room - fixed
        if room < first.least:
            needed = fixed + first.least + self.budget.tokens_to_generate
            raise TooLongError(needed, self.budget.length)
        if self.exact:
            return self._share_exactly(drafts, take, room, costs)
        filling = take(room)
        while True:
            needled = self._insert(filling, first, costs)
            lengths = [self._lengths(draft, needled) for draft in drafts]
            if max(map(max, lengths)) <= self.budget.room or not len(filling):
                break
            # The first unit has no seam before it and may cost a token more than its sum says.
            filling = filling.first(len(filling) - 1)
        return self._checked(drafts, needled, lengths)

    def _checked(
        self, drafts: Sequence[Draft], needled: Needled, lengths: Sequence[tuple[int, int]]
    ) -> Shared:
        if max(map(max, lengths)) > self.budget.room:
            fed = max(fed for fed, _ in lengths)
            raise TooLongError(fed + self.budget.tokens_to_generate, self.budget.length)
        return Shared(self, drafts, needled, lengths)

    def lengths_of(self, sample: Sample) -> tuple[int, int]:
        """``length`` and ``length_w_model_temp`` of a sample, tokenized as a whole."""
        budget, frame = self.budget, self.budget.frame
        plain, fed = budget.tokenizer.counts(
            [
                sample.input + sample.answer_prefix,
                frame.prompt(sample.input, sample.answer_prefix),
            ]
        )
        generate = budget.tokens_to_generate
        return plain + generate, fed + frame.special + generate

    def _costs(self, draft: Draft) -> list[int]:
        """What each needle adds in tokens, its seam included."""
        before = ANCHOR + self.haystack.seam
        counts = self.budget.tokenizer.counts([before + needle.text for needle in draft.needles])
        return [count - self._anchor for count in counts]

    def _after(self, draft: Draft) -> str:
        frame = self.budget.frame
        return draft.tail + frame.after(draft.answer_prefix)

    def _prefix(self, draft: Draft) -> str:
        """The answer prefix as a sample has it: none where none is asked with."""
        return "" if self.budget.frame.answer_prefix == "none" else draft.answer_prefix

    def _fixed(self, draft: Draft, costs: Sequence[int]) -> int:
        frame = self.budget.frame
        head, tail = self.budget.tokenizer.counts(
            [frame.before + draft.head + ANCHOR, ANCHOR + self._after(draft)]
        )
        return frame.special + head + tail - 2 * self._anchor + sum(costs)

    def _insert(self, filling: Filling, draft: Draft, costs: Sequence[int]) -> Needled:
        return filling.insert(
            [needle.text for needle in draft.needles],
            [needle.depth for needle in draft.needles],
            costs,
        )

    def _lengths(self, draft: Draft, needled: Needled) -> tuple[int, int]:
        """Tokens of the prompt as it is fed and as plain text, by addition."""
        frame = self.budget.frame
        first, last = self._ends(needled)
        texts = [last, draft.head + first, last + draft.tail + self._prefix(draft)]
        if frame.chat:
            texts += [frame.before + draft.head + first, last + self._after(draft)]
        counts = self.budget.tokenizer.counts(texts)
        middle = sum(needled.costs[1:]) - counts[0]
        plain = counts[1] + middle + counts[2]
        fed = counts[3] + middle + counts[4] if frame.chat else plain + frame.special
        return fed, plain

    @staticmethod
    def _ends(needled: Needled) -> tuple[str, str]:
        return (needled.pieces[0], needled.pieces[-1]) if needled.pieces else ("", "")

    def _places(self, draft: Draft, needled: Needled) -> tuple[list[int], list[int]]:
        """The token positions of the needles and of their values, by addition."""
        if not needled.places:
            return [], []
        tokenizer, seam = self.budget.tokenizer, ANCHOR + needled.seam
        opening = tokenizer.count(draft.head + needled.pieces[0]) - needled.costs[0]
        # What stands before each needle when its tokens are looked at.
        before = [draft.head if place == 0 else seam for place in needled.places]
        found = tokenizer.spans(
            [
                text + needled.pieces[place]
                for text, place in zip(before, needled.places, strict=True)
            ]
        )
        starts, values = [], []
        for number, (place, tokens_before) in enumerate(
            zip(needled.places, needled.tokens_before(), strict=True)
        ):
            ends = [end for _, end in found[number]]
            base = 0 if place == 0 else opening + tokens_before - self._anchor
            at = len(before[number])
            starts.append(base + bisect.bisect_right(ends, at))
            at += value_at(needled, number, draft)
            values.append(base + bisect.bisect_right(ends, at))
        return starts, values

    def _share_exactly(
        self, drafts: Sequence[Draft], take: Take, room: int, costs: Sequence[int]
    ) -> Shared:
        """The largest number of units whose prompts, tokenized as a whole, fit the budget."""
        filling = take(room + 64)

        def tried(count: int) -> tuple[Needled, list[tuple[int, int]]]:
            needled = self._insert(filling.first(count), drafts[0], costs)
            lengths = []
            for draft in drafts:
                text = draft.head + needled.text + draft.tail
                prompt = self.budget.frame.prompt(text, draft.answer_prefix)
                plain, fed = self.budget.tokenizer.counts([text + self._prefix(draft), prompt])
                lengths.append((fed + self.budget.frame.special, plain))
            return needled, lengths

        def fits(made: tuple[Needled, list[tuple[int, int]]]) -> bool:
            return max(map(max, made[1])) <= self.budget.room

        low, high = 0, len(filling)
        best = tried(0)
        self._checked(drafts, *best)
        # Tokens that hold several units make their sum too large: take more until it does not fit.
        while fits(tried(high)):
            room *= 2
            filling = take(room + 64)
            if len(filling) <= high:
                # All there is.
                break
            high = len(filling)
        while low < high:
            middle = (low + high + 1) // 2
            now = tried(middle)
            if fits(now):
                low, best = middle, now
            else:
                high = middle - 1
        return Shared(self, drafts, *best)

    def _exact_places(self, draft: Draft, needled: Needled) -> tuple[list[int], list[int]]:
        """The same as `_places`, from the tokens of the whole text."""
        text = draft.head + needled.text + draft.tail
        ends = [end for _, end in self.budget.tokenizer.spans([text])[0]]
        starts, values = [], []
        for number in range(len(draft.needles)):
            at = len(draft.head) + needled.character_of(number)
            starts.append(bisect.bisect_right(ends, at))
            values.append(bisect.bisect_right(ends, at + value_at(needled, number, draft)))
        return starts, values

    def sample(self, draft: Draft, needled: Needled, fed: int, plain: int) -> Sample:
        """A draft with its context, which makes so many tokens as it is fed and as plain text."""
        places = self._exact_places if self.exact else self._places
        starts, values = places(draft, needled)
        generate = self.budget.tokens_to_generate
        return Sample(
            index=-1,
            input=draft.head + needled.text + draft.tail,
            outputs=draft.outputs,
            length=plain + generate,
            length_w_model_temp=fed + generate,
            answer_prefix=self._prefix(draft),
            token_position_answer=values[draft.order[0]] if draft.order else None,
            depths=[draft.needles[number].depth for number in draft.order],
            token_positions=[starts[number] for number in draft.order],
        )


class Maker(ABC):
    """What is the same in every family: from a plan for a context to its samples.

    A family itself says what its ``haystack`` is, and in ``plan`` what one context holds.

    Parameters
    ----------
    knobs, language, budget
        What to make, in which language, how long.
    texts
        The dataset's texts; what they are to a family, it says itself.
    seed
        A text from which a family draws what its samples have in common.
    """

    def __init__(
        self, knobs: Any, language: Language, budget: Budget, texts: tuple[str, ...], seed: str
    ) -> None:
        self.knobs, self.language, self.budget = knobs, language, budget
        self._texts, self._seed = texts, seed
        self.exact = False

    @property
    @abstractmethod
    def haystack(self) -> Counted:
        """What fills the prompts, counted once."""

    @abstractmethod
    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """The drafts of one context, one for each of so many questions, and what fills it.

        All of it is drawn from ``rng``, in the same order whatever the length.
        """

    @property
    def composer(self) -> Composer:
        """Fills drafts from the haystack; ``exact`` decides how it counts."""
        return Composer(self.budget, self.haystack, self.exact)

    def draft(self, index: int, rng: random.Random) -> Draft:
        """What must stand in the prompt of one sample."""
        return self.drafts(index, rng, 1)[0]

    def drafts(self, index: int, rng: random.Random, queries: int) -> list[Draft]:
        """What must stand in the prompts of one context with so many questions."""
        drafts, _ = self.plan(index, rng, queries)
        return drafts

    def sample(self, index: int, rng: random.Random) -> Sample:
        """One sample; a draft that is too long for the budget is drawn anew.

        Raises
        ------
        TooLongError
            If none of many drafts fits.
        """
        return self.shared(index, rng, 1)[0]

    def shared(self, index: int, rng: random.Random, queries: int) -> Shared:
        """One context with so many questions, drawn as `sample` draws one.

        Raises
        ------
        TooLongError
            If none of many drafts fits.
        """
        return until_it_fits(lambda: self.composer.share(*self.plan(index, rng, queries)))
