"""Numbered documents as a haystack: counted with their labels, chosen, shuffled and joined.

A document is one unit of the haystack. Its label, ``Document 7:``, depends on where the document
comes to stand, and so is counted apart from it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from operator import add

from rulerlib.filling import Budget
from rulerlib.haystack import Context, Filling
from rulerlib.sources.source import Rows
from rulerlib.tokens import ANCHOR, Tokenizer, costs

# Documents whose length tells how long one is.
LOOKED_AT = 64

# The number of a label that is as long as they get.
LAST = 2000

# Distractors are drawn from this many times the documents of one prompt, so that two differ.
POOL_FACTOR = 2


class CountedDocuments:
    """The documents of a source and their labels, each counted when it is first used.

    Nothing here depends on a prompt's length. All costs are in tokens.
    """

    def __init__(self, source: Rows, label: str, tokenizer: Tokenizer) -> None:
        head, _, self._rest = label.partition("{text}")
        self._label = head.rstrip("\n ")
        self.seam = head[len(self._label) :]
        self._source, self._tokenizer, self._anchor = source, tokenizer, tokenizer.count(ANCHOR)
        self._labels = list[int]()
        self.costs, self.endings = dict[int, int](), dict[str, int]()
        self.text = cache(self._text)

    def _text(self, index: int) -> str:
        """Return a document as it stands after its label."""
        return self._source.document(index) + self._rest

    def cost(self, *indices: int) -> list[int]:
        """Return what each document adds in tokens after its label."""
        new = [index for index in dict.fromkeys(indices) if index not in self.costs]
        if new:
            counted = costs([*map(self.text, new)], self.seam, self._tokenizer)
            self.costs.update(zip(new, counted, strict=True))
        return [*map(self.costs.__getitem__, indices)]

    def ending(self, text: str) -> int:
        """Return how many tokens more a label costs after this text than after ``ANCHOR``.

        Many tokenizers make one token of a full stop and an empty line, but two
        of a letter and an empty line.
        """
        word = text[-40:].split()[-1]
        if word not in self.endings:
            label = f"\n\n{self.label(1)}"
            after, alone = self._tokenizer.counts([word + label, word])
            self.endings[word] = after - alone - self.label_costs(1)[0]
        return self.endings[word]

    def label(self, number: int) -> str:
        """Return the label of a document, ``"Document 7:"``."""
        return self._label.replace("{number}", str(number))

    def label_costs(self, count: int) -> list[int]:
        """Return what each of the first ``count`` labels adds in tokens, after an empty line.

        The list may be longer than ``count``.
        """
        if len(self._labels) < count:
            labels = [f"{ANCHOR}\n\n{self.label(at + 1)}" for at in range(2 * count)]
            self._labels = [cost - self._anchor for cost in self._tokenizer.counts(labels)]
        return self._labels


# Shared by the lengths of a task, which mostly have the same documents.
_counted = lru_cache(4)(CountedDocuments)


class Documents:
    """The documents of a source as a haystack.

    ``label`` stands before each, with ``{number}`` where its number stands and ``{text}`` at the
    end: ``"Document {number}: {text}"``. The budget's length decides how many distractors there are
    to draw from; the pool of them is drawn from ``seed``.
    """

    # The sums are checked by tokenizing finished samples: no document stands beside a certain
    # other one beforehand.
    additive = True

    def __init__(self, source: Rows, label: str, budget: Budget, seed: str) -> None:
        self.source, self._budget, self._seed = source, budget, seed
        self.counted = _counted(source, label, budget.tokenizer)
        self.seam = self.counted.seam

    @cached_property
    def _some(self) -> list[int]:
        return self.counted.cost(*range(min(LOOKED_AT, self.source.num_documents)))

    @cached_property
    def mean(self) -> int:
        """The mean cost of a document, rounded up, of the first ``LOOKED_AT``."""
        return math.ceil(sum(self._some) / len(self._some))

    @property
    def units(self) -> range:
        """The documents by index."""
        return range(self.source.num_documents)

    @property
    def total(self) -> int:
        """About the cost of all documents."""
        return self.mean * self.source.num_documents

    @cached_property
    def longest(self) -> int:
        """The cost of the longest of the first ``LOOKED_AT`` documents, with a long label."""
        return max(self._some) + self.counted.label_costs(LAST)[LAST - 1]

    @cached_property
    def pool(self) -> Sequence[int]:
        """The documents that distractors are drawn from, by index."""
        count = POOL_FACTOR * self._budget.length // max(1, self.mean)
        return self.source.pool(count, self._seed)


class Numbered(Filling):
    """A filling of distractors: shuffled, and numbered when the targets are put in.

    Parameters
    ----------
    documents
        What they are taken from.
    chosen
        Indices of documents, the most wanted first.
    keys
        A random number for each: their order in the prompt.
    whole
        Whether all are needed, so that none may be left out to fit the budget.
    """

    def __init__(
        self, documents: CountedDocuments, chosen: Sequence[int], keys: Sequence[float], whole: bool
    ) -> None:
        self._documents, self._chosen, self._keys = documents, chosen, keys
        self._whole = whole
        order = sorted(range(len(chosen)), key=keys.__getitem__)
        super().__init__(
            [documents.text(chosen[at]) for at in order],
            documents.cost(*(chosen[at] for at in order)),
            "\n\n",
        )

    def __len__(self) -> int:
        return 0 if self._whole else len(self._chosen)

    def first(self, count: int) -> Numbered:
        if self._whole:
            return self
        return Numbered(self._documents, self._chosen[:count], self._keys[:count], False)

    def insert(
        self, needles: Sequence[str], depths: Sequence[float], costs: Sequence[int]
    ) -> Context:
        plain = super().insert(needles, depths, costs)
        documents, seam, count = self._documents, self._documents.seam, len(plain.pieces)
        endings = [0, *(documents.ending(piece) for piece in plain.pieces)][:count]
        more = map(add, documents.label_costs(count), endings)
        sums = list(itertools.accumulate(more, initial=0))[: count + 1]
        placed = [*zip(plain.slots, plain.needles, strict=True)]
        return Context(
            [
                f"{documents.label(number)}{seam}{piece}"
                for number, piece in enumerate(plain.pieces, 1)
            ],
            plain.seam,
            plain.total + sums[-1],
            plain.slots,
            [
                (before + sums[slot], cost + sums[slot + 1] - sums[slot])
                for slot, (before, cost) in placed
            ],
            # What an ending costs more lies before the label.
            [before + sums[slot] + endings[slot] for slot, (before, _) in placed],
        )
