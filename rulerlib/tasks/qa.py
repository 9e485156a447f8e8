"""Question answering: documents that answer a question, among others that do not.

An example of ``qa_1`` (English, shortened)::

    Answer the question from the documents given. Write the answer only and nothing else.

    Here are the documents.

    Document 1:
    River Spalvent
    The River Spalvent is a broad, slow river known for its plentiful perch. ...

    Document 3:
    Stustomat
    The Stustomat is a device for measuring damp in timber, and it was shown at many
    exhibitions. ... The patent deed was issued on 12 December 1886 and bears a green seal. ...

    Question: On which day, month and year was the Stustomat patented?

    outputs: ["12 December 1886", "December 12, 1886", ..., "1886-12-12"]

Any one reference suffices. By default the documents are a fictional
encyclopedia (`rulerlib.tasks.encyclopedia`), so that no model knows an answer by
heart; ``source`` takes SQuAD, HotpotQA and what has their shape instead (Hsieh
et al. 2024, "RULER: What's the Real Context Size of Your Long-Context Language
Models?", section 3.4). Unlike there, the depth of the target documents is set
and recorded.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

from rulerlib.errors import ParameterError, flag, whole_number
from rulerlib.haystack import ANCHOR, DEPTHS, Filling, Needled, depth_of, one_depth
from rulerlib.languages import Language
from rulerlib.tasks.base import Budget, Draft, Maker, Needle, Shared, Take
from rulerlib.tasks.questions import Fiction, Question, Rows, Source, file, open_source

# Documents whose length tells how long one is.
LOOKED_AT = 64

# Distractors are drawn from this many times the documents of one prompt, so that two differ.
POOL_FACTOR = 2


@dataclass(frozen=True)
class Knobs:
    """What can be set about question answering.

    Attributes
    ----------
    hops
        Documents that an answer needs: 1, or 2 (or more, in a source that has such
        questions). A source with none of that kind is an error.
    source
        None: the fictional encyclopedia. Else a file in the schema of SQuAD or
        HotpotQA, or such a data set of the hub, ``"owner/name"``.
    num_documents
        Documents in the prompt, targets included; None: as many as fit.
    context
        False leaves out all documents: what a model answers from memory alone.
    depth
        None: depths as in the other tasks. A number from 0 to 100 puts a single
        target document there.
    """

    hops: int = 1
    source: str | None = None
    num_documents: int | None = None
    context: bool = True
    depth: float | None = None

    def __post_init__(self) -> None:
        whole_number("hops", self.hops, 1, 2)
        if self.source is not None and (not isinstance(self.source, str) or not self.source):
            raise ParameterError("source", self.source, "None, a file, or a hub name")
        if self.num_documents is not None:
            whole_number("num_documents", self.num_documents, self.hops)
        flag("context", self.context)
        if self.depth is not None:
            one_depth(self.depth)
            if self.hops > 1:
                raise ParameterError("depth", self.depth, "None where an answer needs 2 documents")


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """How many questions one context can be asked (None: any number), and what decides it."""
    if not knobs.context:
        return 1, "context=False leaves no context to share"
    if knobs.depth is not None:
        return 1, "a depth that is set holds for one document alone"
    return None, ""


# Questions of the encyclopedia that take the place of those that do not go with others.
OTHERS = range(1_000_000, 2_000_000)

# How many of them are tried.
TRIES = 1000


class Documents:
    """The documents of a source as counted units, each counted when it is first used.

    A document is joined to its label, ``Document 7:``, as `Composer` joins a
    unit to the text before it.
    """

    def __init__(self, source: Source, language: Language, budget: Budget, seed: str) -> None:
        self.source = source
        label = language.text("question_answering", "document")
        head, _, self._rest = label.partition("{text}")
        self._label = head.rstrip("\n ")
        self.seam = head[len(self._label) :]
        self._budget, self._seed = budget, seed
        self._tokenizer = budget.tokenizer
        self._anchor = budget.tokenizer.count(ANCHOR)
        self._costs: dict[int, int] = {}
        self._folded: dict[int, str] = {}
        self._endings: dict[str, int] = {}
        self._label_costs: list[int] = []

    # The sums are checked by tokenizing finished samples: no document stands beside a certain
    # other one beforehand.
    additive = True

    @cached_property
    def _some(self) -> list[int]:
        return [self.cost(index) for index in range(min(LOOKED_AT, self.source.num_documents))]

    @cached_property
    def mean(self) -> int:
        """About what a document costs."""
        return math.ceil(sum(self._some) / len(self._some))

    @cached_property
    def longest(self) -> int:
        """The cost of a long document with its label."""
        return max(self._some) + self.label_costs(1000)[-1]

    @property
    def most(self) -> int:
        """No document that was counted so far costs more with its label."""
        return max(self._costs.values()) + max(self._label_costs) + max(self._endings.values())

    @cached_property
    def pool(self) -> Sequence[int]:
        """Where distractors are drawn from."""
        count = POOL_FACTOR * self._budget.length // max(1, self.mean)
        return self.source.pool(count, self._seed)

    def text(self, index: int) -> str:
        return self.source.document(index) + self._rest

    def cost(self, index: int) -> int:
        """What a document adds in tokens after its label."""
        cost = self._costs.get(index)
        if cost is None:
            text = ANCHOR + self.seam + self.text(index)
            cost = self._costs[index] = self._tokenizer.count(text) - self._anchor
        return cost

    def ending(self, text: str) -> int:
        """How many tokens a label costs more after this text than after ``ANCHOR``.

        Many tokenizers make one token of a full stop and an empty line, but two
        of a letter and an empty line.
        """
        word = text[-40:].split()[-1]
        if word not in self._endings:
            label = f"\n\n{self.label(1)}"
            after, alone = self._tokenizer.counts([word + label, word])
            self._endings[word] = after - alone - self.label_costs(1)[0]
        return self._endings[word]

    def label(self, number: int) -> str:
        return self._label.replace("{number}", str(number))

    def label_costs(self, count: int) -> list[int]:
        """What the first labels, or more of them, add in tokens, each after an empty line."""
        have = len(self._label_costs)
        if have < count:
            labels = [f"{ANCHOR}\n\n{self.label(at + 1)}" for at in range(have, 2 * count)]
            self._label_costs += [
                tokens - self._anchor for tokens in self._tokenizer.counts(labels)
            ]
        return self._label_costs

    def folded(self, index: int) -> str:
        """A document without regard to case."""
        if index not in self._folded:
            self._folded[index] = self.source.document(index).casefold()
        return self._folded[index]


class Numbered(Filling):
    """Distractors, the most wanted first, which are shuffled and numbered at the end.

    Parameters
    ----------
    documents
        Where they are from.
    chosen
        Indices of documents, the most wanted first.
    keys
        A random number for each: their order in the prompt.
    whole
        Whether all are needed, so that none may be left out to fit the budget.
    """

    def __init__(
        self, documents: Documents, chosen: Sequence[int], keys: Sequence[float], whole: bool
    ) -> None:
        self._documents, self._chosen, self._keys = documents, chosen, keys
        self._whole = whole
        order = sorted(range(len(chosen)), key=keys.__getitem__)
        super().__init__(
            [documents.text(chosen[at]) for at in order],
            [documents.cost(chosen[at]) for at in order],
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
    ) -> Needled:
        plain = super().insert(needles, depths, costs)
        documents, seam = self._documents, self._documents.seam
        labels = documents.label_costs(len(plain.pieces))
        endings = [0, *(documents.ending(piece) for piece in plain.pieces)]
        return Labelled(
            [
                f"{documents.label(number)}{seam}{piece}"
                for number, piece in enumerate(plain.pieces, 1)
            ],
            # There are more labels and endings than pieces.
            [sum(parts) for parts in zip(labels, plain.costs, endings, strict=False)],
            plain.seam,
            plain.places,
            endings,
        )


@dataclass
class Labelled(Needled):
    """Documents with their labels; a label costs ``endings[i]`` more after what stands before."""

    endings: list[int]

    def tokens_before(self) -> list[int]:
        before = super().tokens_before()
        # What an ending costs more lies before the label.
        return [
            tokens + self.endings[place] for tokens, place in zip(before, self.places, strict=True)
        ]


class Family(Maker):
    """Makes the samples of one setting of the knobs; parameters as in `rulerlib.tasks.base.Maker`.

    ``texts`` are not used, as documents come from ``knobs.source``; from ``seed`` the fictional
    world and the order of questions are drawn.
    """

    knobs: Knobs

    @cached_property
    def source(self) -> Source:
        """Where questions and documents are from."""
        name, hops = self.knobs.source, self.knobs.hops
        if name is None:
            number = int.from_bytes(hashlib.sha256(self._seed.encode()).digest()[:4], "big")
            return Fiction(self.language, hops, number)
        return _opened(name, _state(name)).asking(hops, name)

    @property
    def digest(self) -> str:
        """A short hash by which a dataset cites its documents and questions."""
        return self.source.digest

    @cached_property
    def haystack(self) -> Documents:
        return Documents(self.source, self.language, self.budget, self._seed)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """So many questions, and the target documents of all of them at their depths."""
        numbers = self._numbers(index, rng, queries)
        return self._drafts(numbers, index, rng), partial(self._take, numbers, rng)

    def shared(self, index: int, rng: random.Random, queries: int) -> Shared:
        """So many questions on the same documents, drawn as `sample` draws one.

        Raises
        ------
        TooLongError
            If their target documents do not fit the budget.
        """
        made = super().shared(index, rng, queries)
        left = self.budget.length - made.longest
        if self.knobs.context and self.knobs.num_documents is None and left > self.haystack.most:
            raise ParameterError(
                "length",
                self.budget.length,
                f"at most {self.budget.length - left}, because"
                f" {self.knobs.source or 'the encyclopedia'} has no more than"
                f" {self.source.num_documents} documents",
            )
        return made

    def _numbers(self, index: int, rng: random.Random, queries: int) -> list[int]:
        """The questions on one context.

        Where an answer must stand in its own target documents alone, a question whose answer
        stands in another's target, or the other way round, gives way to one that is drawn.
        """
        source, numbers = self.source, list[int]()
        if source.num_questions is not None and queries > source.num_questions:
            raise ParameterError(
                "queries_per_context",
                queries,
                f"at most {source.num_questions}, the number of questions in {self.knobs.source}",
            )
        for place in range(queries):
            number = self._number(index * queries + place)
            tries = 0
            while source.exclusive and any(self._clash(number, other) for other in numbers):
                tries += 1
                if tries > TRIES:
                    raise ParameterError(
                        "queries_per_context",
                        queries,
                        f"less: no more than {place} questions were found whose answers stand in"
                        " no other's documents",
                    )
                number = rng.choice(OTHERS)
            numbers.append(number)
        return numbers

    def _clash(self, one: int, other: int) -> bool:
        """Whether an answer to one of two questions stands in the other's targets, not its own."""
        asked = self.source.question(one), self.source.question(other)
        return asked[0].text == asked[1].text or any(
            answer.casefold() in self.haystack.folded(target)
            for mine, yours in (asked, asked[::-1])
            for target in yours.targets
            if target not in mine.targets
            for answer in mine.answers
        )

    def _number(self, index: int) -> int:
        """The question of a sample."""
        if self.source.num_questions is None:
            return index
        # Each question once, then each once more with other documents.
        return self._order[index % self.source.num_questions]

    @cached_property
    def _order(self) -> list[int]:
        order = list(range(self.source.num_questions or 0))
        random.Random(f"{self._seed} order").shuffle(order)
        return order

    def _drafts(self, numbers: Sequence[int], index: int, rng: random.Random) -> list[Draft]:
        questions = [self.source.question(number) for number in numbers]
        placed: dict[int, float] = {}
        if self.knobs.context:
            for at, question in enumerate(questions, index * len(numbers)):
                targets = list(question.targets)
                if len(targets) == 1:
                    depths = [depth_of(at) if self.knobs.depth is None else self.knobs.depth]
                else:
                    depths = sorted(rng.sample(DEPTHS, len(targets)))
                rng.shuffle(targets)
                for target, depth in zip(targets, depths, strict=True):
                    # A document that several questions need stands there once.
                    placed.setdefault(target, depth)
        placed = dict(sorted(placed.items(), key=lambda item: item[1]))
        return [self._draft(question, placed) for question in questions]

    def _draft(self, question: Question, placed: Mapping[int, float]) -> Draft:
        """One question, where the target documents of all are at these depths."""
        template = "template" if self.knobs.context else "no_context_template"
        text = self.language.fill("question_answering", template, query=question.text)
        head, _, tail = text.partition("{context}")
        prefix = self.language.text("question_answering", "answer_prefix")
        draft = Draft(
            head, tail, prefix, list(question.answers), answer=max(question.answers, key=len)
        )
        if not self.knobs.context:
            return draft
        targets, answered = list(placed), []
        for target, depth in placed.items():
            document = self.haystack.text(target)
            at = _place(document, question.answers) if target in question.targets else None
            answered.append(at is not None)
            draft.needles.append(Needle(document, depth, at or 0))
        # The document with the answer first, then the one that leads to it. Those of other
        # questions are distractors to this one.
        hops = [targets.index(target) for target in reversed(question.targets)]
        draft.order = sorted(hops, key=lambda place: not answered[place])
        count = self.knobs.num_documents or len(targets)
        if count > self.source.num_documents:
            raise ParameterError(
                "num_documents", count, f"at most {self.source.num_documents}, all that there are"
            )
        draft.least = sum(self.haystack.label_costs(count)[:count])
        draft.least += max(0, count - len(targets)) * self.haystack.mean
        return draft

    def _take(self, numbers: Sequence[int], rng: random.Random, room: int) -> Filling:
        """Distractors: first those on the same matter, then any."""
        documents, source, wanted = self.haystack, self.source, self.knobs.num_documents
        if not self.knobs.context:
            return Filling([], [], "\n\n")
        questions = [source.question(number) for number in numbers]
        seen = {target for question in questions for target in question.targets}
        targets = len(seen)
        if wanted is not None and wanted < targets:
            raise ParameterError(
                "num_documents",
                wanted,
                f"at least {targets}, which a question needs"
                if len(numbers) == 1
                else f"at least {targets}, which the questions of this context need",
            )
        answers = [
            answer.casefold()
            for question in questions
            for answer in question.answers
            if source.exclusive
        ]
        related = list(dict.fromkeys(index for one in numbers for index in source.related(one)))
        rng.shuffle(related)
        chosen: list[int] = []
        labels = documents.label_costs(targets)
        used = sum(labels[:targets])
        # Those outside the pool only if that is not enough.
        everything = range(source.num_documents)
        for index in itertools.chain(related, _shuffled(documents.pool, rng), everything):
            if wanted == targets + len(chosen):
                break
            if index in seen:
                continue
            seen.add(index)
            if answers and any(answer in documents.folded(index) for answer in answers):
                continue
            place = targets + len(chosen)
            if place == len(labels):
                labels = documents.label_costs(place + 1)
            used += labels[place] + documents.cost(index)
            if used > room and wanted is None:
                break
            chosen.append(index)
        if wanted is not None and wanted > targets + len(chosen):
            raise ParameterError(
                "num_documents", wanted, f"at most {targets + len(chosen)}, all that there are"
            )
        return Numbered(documents, chosen, [rng.random() for _ in chosen], wanted is not None)


def _place(document: str, answers: Sequence[str]) -> int | None:
    """Where the first answer that stands in a document begins, however it is capitalized."""
    folded = document.casefold()
    for answer in answers:
        if answer in document:
            return document.index(answer)
        if answer.casefold() in folded:
            # Not the place in the folded text, where one letter may have become two.
            found = re.search(re.escape(answer), document, re.IGNORECASE)
            return found.start() if found else 0
    return None


def _shuffled(indices: Sequence[int], rng: random.Random) -> Iterator[int]:
    """All indices in random order, drawn as they are needed."""
    order: dict[int, int] = {}
    for at in range(len(indices)):
        # A shuffle that swaps only what is looked at (Durstenfeld 1964).
        other = rng.randrange(at, len(indices))
        yield indices[order.get(other, other)]
        order[other] = order.get(at, at)


@lru_cache(maxsize=4)
def _opened(name: str, state: tuple[int, ...]) -> Rows:
    return open_source(name)


def _state(name: str) -> tuple[int, ...]:
    """What changes when a file changes."""
    path = file(name)
    return (path.stat().st_mtime_ns, path.stat().st_size) if path else ()


VARIANTS: dict[str, Knobs] = {"qa_1": Knobs(hops=1), "qa_2": Knobs(hops=2)}
"""RULER's two settings, SQuAD (one document) and HotpotQA (two), on the fictional world."""

TOKENS_TO_GENERATE = 32
METRIC = "part_match"
