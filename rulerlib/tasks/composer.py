"""How a prompt is filled to its length.

A family says what must stand in a prompt (`Draft`); a `Composer` fills the rest with
haystack, counts, and records where everything lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Protocol

from rulerlib.haystack import Context, Filling
from rulerlib.parts import Column, Part, Parts
from rulerlib.samples import Sample
from rulerlib.tasks.budget import Counting, Stretch, Take, TooLongError
from rulerlib.tasks.draft import Draft

Mark = Callable[[Iterable[str], Iterable[int]], list[Column]]
"""A function that returns the parts of units of the haystack.

It is given their texts, and the characters of the prompt at which they begin; both are worked out
only when it looks at them.
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

    def text(self, number: int) -> str:
        """Return the prompt of a question, without the answer prefix."""
        draft = self.drafts[number]
        return draft.head + self.context.text + draft.tail

    def __getitem__(self, number: int) -> Sample:
        draft = self.drafts[number]
        fed, plain = self.lengths[number]
        counting = self.composer.counting
        text = self.text(number)
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
    def _depths(self) -> list[float]:
        """The depth that each needle reached, 0 to 100; it may differ from the one in the draft."""
        return self.context.depths()

    @cached_property
    def _units(self) -> list[Column]:
        """The parts of the haystack's own units."""
        pieces, starts = self.context.pieces, self.context.starts(len(self.drafts[0].head))
        if not self.context.slots:
            return self.composer.mark(pieces, starts)
        own = bytearray(b"\x01") * len(pieces)
        for slot in self.context.slots:
            own[slot] = False
        return self.composer.mark(compress(pieces, own), compress(starts, own))

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
        context = self.context
        total, before = max(1, context.total), context.tokens_before()
        asked = {*draft.order[: draft.asked]}
        places = zip(draft.needles, context.slots, context.needle_starts(), strict=True)
        for number, (needle, slot, place) in enumerate(places):
            start = len(draft.head) + place
            end = start + len(context.pieces[slot])
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
        known = [*draft.head_parts, *Parts.of(parts).columns]
        # Those of the units are many, and who asks a question mostly does not look at them.
        return Parts(known, lambda: self._units)


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
