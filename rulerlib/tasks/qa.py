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

Any one reference suffices. By default the documents are entries of a fictional encyclopedia, in
the language's ``squad.json.gz`` (one document) and ``hotpotqa.json.gz`` (two), so that no model
knows an answer by heart; ``source`` takes SQuAD, HotpotQA and files in their formats instead (Hsieh
et al. 2024, "RULER: What's the Real Context Size of Your Long-Context Language Models?", section
3.4). As there, documents are repeated if they do not fill the length. Unlike there, the depth of
the target documents is set and recorded.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from rulerlib.errors import ParameterError, flag, whole_number
from rulerlib.haystack import Budget, Draft, Filling, Needle, Take, depth_of, depths_of
from rulerlib.metrics import ANY
from rulerlib.samples import Prediction
from rulerlib.sources import Question, Rows, built_in, open_source
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import QUESTIONS, Task
from rulerlib.tokens import ANCHOR, costs

# The built-in file by the number of documents that an answer needs.
FILES = {1: "squad", 2: "hotpotqa"}

# Documents whose mean length is taken for that of all.
LOOKED_AT = 64

# A label with this number is as long as labels get.
LAST = 2000

# Distractors are drawn from this many times the documents of one prompt, so that two differ.
POOL_FACTOR = 2


class Documents:
    """The documents of a source as a haystack. All costs are in tokens.

    Parameters
    ----------
    source
        The documents.
    label
        The label before each, with its number and its text: ``"Document {number}: {text}"``.
    budget
        Its length decides how many distractors there are to draw from.
    seed
        Decides which they are.

    Attributes
    ----------
    units
        The indices of the documents.
    mean
        The mean cost of the first ``LOOKED_AT`` documents, rounded up.
    total
        The approximate cost of all documents.
    longest
        The cost of the longest of the first ``LOOKED_AT`` documents, with a long label.
    """

    # The sums are checked by tokenizing finished samples: which documents are neighbours is not
    # known beforehand.
    additive = True

    def __init__(self, source: Rows, label: str, budget: Budget, seed: str) -> None:
        head, _, self._rest = label.partition("{text}")
        self._label = head.rstrip("\n ")
        self.seam = head[len(self._label) :]
        self.source, self._budget, self._seed = source, budget, seed
        self._costs = dict[int, int]()
        self._label_costs = list[int]()
        self._endings = dict[str, int]()
        some = self.cost(*range(min(LOOKED_AT, len(source.documents))))
        self.units = range(len(source.documents))
        self.mean = math.ceil(sum(some) / len(some))
        self.total = self.mean * len(source.documents)
        self.longest = max(some) + self.label_costs(LAST)[LAST - 1]

    def text(self, index: int) -> str:
        """Return a document with the text that follows it in the label."""
        return self.source.documents[index] + self._rest

    def cost(self, *indices: int) -> list[int]:
        """Return what each document adds after its label."""
        new = [index for index in dict.fromkeys(indices) if index not in self._costs]
        texts = [self.text(index) for index in new]
        self._costs.update(zip(new, costs(texts, self.seam, self._budget.tokenizer), strict=True))
        return [self._costs[index] for index in indices]

    def label(self, number: int) -> str:
        """Return the label of a document, ``"Document 7:"``."""
        return self._label.replace("{number}", str(number))

    def label_costs(self, count: int) -> list[int]:
        """Return what each of the first ``count`` labels adds after an empty line, or of more."""
        if len(self._label_costs) < count:
            tokenizer = self._budget.tokenizer
            labels = [f"{ANCHOR}\n\n{self.label(at + 1)}" for at in range(2 * count)]
            anchor = tokenizer.count(ANCHOR)
            self._label_costs = [cost - anchor for cost in tokenizer.counts(labels)]
        return self._label_costs

    def ending(self, text: str) -> int:
        """Return how many tokens more a label costs after this text than after ``ANCHOR``.

        Many tokenizers make one token of a full stop and an empty line, but two of a letter and an
        empty line.
        """
        word = text[-40:].split()[-1]
        if word not in self._endings:
            label = f"\n\n{self.label(1)}"
            after, alone = self._budget.tokenizer.counts([word + label, word])
            self._endings[word] = after - alone - self.label_costs(1)[0]
        return self._endings[word]

    @cached_property
    def pool(self) -> Sequence[int]:
        """The indices of the documents that distractors are drawn from."""
        count = POOL_FACTOR * self._budget.length // max(1, self.mean)
        return self.source.pool(count, self._seed)


class Numbered(Filling):
    """A filling of distractors that are shuffled, and numbered together with the targets.

    Parameters
    ----------
    documents
        The haystack.
    chosen
        Indices of documents, the most wanted first.
    keys
        A random number for each: their order in the prompt.
    whole
        Whether all are needed, so that none can be left out to fit the budget.
    """

    def __init__(
        self, documents: Documents, chosen: Sequence[int], keys: Sequence[float], whole: bool
    ) -> None:
        self._documents, self._chosen, self._keys = documents, chosen, keys
        self._whole = whole
        order = [chosen[at] for at in sorted(range(len(chosen)), key=lambda at: keys[at])]
        texts = [documents.text(index) for index in order]
        super().__init__(texts, documents.cost(*order), "\n\n")

    def __len__(self) -> int:
        return 0 if self._whole else len(self._chosen)

    def first(self, count: int) -> Numbered:
        if self._whole:
            return self
        return Numbered(self._documents, self._chosen[:count], self._keys[:count], False)

    def insert(self, needles: Sequence[Needle], costs: Sequence[int]) -> Filling:
        plain = super().insert(needles, costs)
        documents, seam, count = self._documents, self._documents.seam, len(plain.units)
        endings = [0, *(documents.ending(unit) for unit in plain.units)][:count]
        labels = documents.label_costs(count)
        added = [label + ending for label, ending in zip(labels, endings, strict=False)]
        sums = [*itertools.accumulate(added, initial=0)]
        units = [
            f"{documents.label(number)}{seam}{unit}" for number, unit in enumerate(plain.units, 1)
        ]
        every = [cost + more for cost, more in zip(plain.costs, added, strict=True)]
        # The extra cost of an ending is counted before the label.
        firsts = [
            first + sums[slot] + endings[slot]
            for slot, first in zip(plain.slots, plain.firsts, strict=True)
        ]
        return Filling(units, every, plain.seam, plain.slots, firsts)


class DocumentTask(Task):
    """A task about documents, with other documents as distractors.

    ``seed`` decides the order of the questions. A subclass has the parameters ``source`` and
    ``context``, and defines `name`, `label` and `draft`.
    """

    # All documents except the targets, with their labels.
    marks_units = True

    source: str | None
    context: bool

    @property
    @abstractmethod
    def name(self) -> str:
        """The file or data set of the questions."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The label before each document, see `Documents`."""

    @property
    def wanted(self) -> int | None:
        """The number of documents in the prompt, targets included, or None for all that fit."""
        return None

    @cached_property
    def rows(self) -> Rows:
        """The questions and documents."""
        return open_source(self.name)

    @cached_property
    def filler(self) -> Documents:  # type: ignore[override]  # Its units are documents.
        """The documents."""
        return Documents(self.rows, self.label, self.budget, self.seed)

    @property
    def digest(self) -> str:
        """A short hash of the documents and questions."""
        return self.rows.digest

    @property
    def repeats(self) -> bool:
        return self.context and self.wanted is None

    # --- The questions -----------------------------------------------------------------------

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return questions about the same documents, and a function that adds distractors."""
        numbers = self.asked(index, queries)
        questions = [self.question(number) for number in numbers]
        placed = self.place(questions, index, rng) if self.context else {}
        placed = dict(sorted(placed.items(), key=lambda item: item[1]))
        drafts = [self.draft(question, placed) for question in questions]
        return drafts, partial(self._take, numbers, questions, rng)

    def question(self, number: int) -> Question:
        """Return a question by its number in the source."""
        return self.rows.questions[number]

    def asked(self, index: int, queries: int) -> list[int]:
        """Return the numbers of the questions about one context.

        Each question is asked once, and then once more with other documents.
        """
        most = len(self.rows.questions)
        if queries > most:
            allowed = f"at most {most}, the number of questions in {self.name}"
            raise ParameterError("queries_per_context", queries, allowed)
        return [self.order[(index * queries + at) % most] for at in range(queries)]

    @cached_property
    def order(self) -> list[int]:
        """The numbers of all questions, in random order."""
        order = [*range(len(self.rows.questions))]
        random.Random(f"{self.seed} order").shuffle(order)
        return order

    def place(
        self, questions: Sequence[Question], index: int, rng: random.Random
    ) -> dict[int, float]:
        """Return the depth of each document that the questions need."""
        placed = dict[int, float]()
        for at, question in enumerate(questions, index * len(questions)):
            targets = [*question.targets]
            depths = [depth_of(at)] if len(targets) == 1 else depths_of(len(targets), rng)
            rng.shuffle(targets)
            for target, depth in zip(targets, depths, strict=True):
                # A document that several questions need occurs once.
                placed.setdefault(target, depth)
        return placed

    @abstractmethod
    def draft(self, question: Question, placed: Mapping[int, float]) -> Draft:
        """Return one question, given the depths of all documents that the context needs."""

    def record_targets(self, draft: Draft, question: Question, targets: Sequence[int]) -> None:
        """Record which needles a question needs, given the documents that they are.

        The document with the answer comes first, then the one that leads to it. Documents of other
        questions are distractors.
        """
        hops = [targets.index(target) for target in reversed(question.targets)]
        draft.order = sorted(hops, key=lambda hop: draft.needles[hop].value is None)
        draft.asked, draft.role = len(hops), "document"
        count, most = self.wanted or len(targets), len(self.rows.documents)
        if count > most:
            raise ParameterError("num_documents", count, f"at most {most}, all that there are")
        draft.least = sum(self.filler.label_costs(count)[:count])
        draft.least += max(0, count - len(targets)) * self.filler.mean

    # --- The distractors ---------------------------------------------------------------------

    def _take(
        self, numbers: Sequence[int], questions: Sequence[Question], rng: random.Random, room: int
    ) -> Filling:
        """Return distractors: first those on the same matter, then any."""
        if not self.context:
            return Filling([], [], "\n\n")
        documents, wanted = self.filler, self.wanted
        targets = {target for question in questions for target in question.targets}
        if wanted is not None and wanted < len(targets):
            allowed = f"at least {len(targets)}, which the questions of a context need"
            raise ParameterError("num_documents", wanted, allowed)
        related = [document for number in numbers for document in self.rows.related[number]]
        related = [*dict.fromkeys(related)]
        rng.shuffle(related)
        chosen = list[int]()
        used = sum(documents.label_costs(len(targets))[: len(targets)])
        for index in self._distractors(related, targets, rng):
            count = len(targets) + len(chosen)
            if count == wanted:
                break
            used += documents.label_costs(count + 1)[count] + documents.cost(index)[0]
            if used > room and wanted is None:
                break
            chosen.append(index)
        return Numbered(documents, chosen, [rng.random() for _ in chosen], wanted is not None)

    def _distractors(
        self, related: Sequence[int], targets: set[int], rng: random.Random
    ) -> Iterator[int]:
        """Yield all documents but the targets, the most wanted first, then all of them again."""
        everything, seen = range(len(self.rows.documents)), set(targets)
        # Documents outside the pool only if those in it are not enough.
        for index in itertools.chain(related, _shuffled(self.filler.pool, rng), everything):
            if index not in seen:
                seen.add(index)
                yield index
        # RULER repeats all documents. Targets repeat only if all other documents are used.
        others = [index for index in everything if index not in targets] or everything
        while self.repeats:
            yield from rng.sample(others, len(others))


def _shuffled(indices: Sequence[int], rng: random.Random) -> Iterator[int]:
    """Yield all indices in random order, drawing only as many numbers as are needed."""
    order: dict[int, int] = {}
    for at in range(len(indices)):
        # A shuffle that swaps only what is looked at (Durstenfeld 1964).
        other = rng.randrange(at, len(indices))
        yield indices[order.get(other, other)]
        order[other] = order.get(at, at)


def check_source(value: Any) -> None:
    """Check that the parameter ``source`` could name a file or a data set."""
    if value is not None and not (isinstance(value, str) and value):
        raise ParameterError("source", value, "None, a file, or a hub name")


@dataclass(frozen=True)
class QuestionAnswering(DocumentTask):
    """A task of question answering.

    Attributes
    ----------
    hops
        Documents that an answer needs: 1, or 2 (or more, in a source that has such questions).
    source
        None: the language's own file. Otherwise a file in the schema of SQuAD or HotpotQA, or such
        a data set of the hub, ``"owner/name"``.
    num_documents
        Documents in the prompt, targets included, or None for as many as fit.
    context
        False leaves out all documents, to see what a model answers from memory.
    """

    hops: int = 1
    source: str | None = None
    num_documents: int | None = None
    context: bool = True

    family = "qa"
    category = QUESTIONS
    scoring = ANY
    answer_tokens = 32
    one_language = "its questions come with their documents, in the language of these"

    def __post_init__(self) -> None:
        whole_number("hops", self.hops, 1, 2)
        check_source(self.source)
        if self.num_documents is not None:
            whole_number("num_documents", self.num_documents, self.hops)
        flag("context", self.context)

    def stated(self) -> dict[str, Any]:
        """Return the parameters as a dataset records them, with a former one for old datasets."""
        return {**self.settings(), "depth": None}

    @property
    def most_queries(self) -> tuple[int | None, str]:
        """Any number of questions, if they share documents."""
        return (None, "") if self.context else (1, "context=False leaves no context to share")

    @property
    def name(self) -> str:
        """The file or data set of the questions."""
        return self.source or built_in(self.language, FILES[self.hops])

    @cached_property
    def rows(self) -> Rows:
        """The questions that need as many documents as ``hops`` says, and all documents."""
        rows = super().rows.only(lambda question: min(len(question.targets), 2) == self.hops)
        if not rows.questions:
            other = 3 - self.hops
            allowed = f"{other}, the number of documents that an answer needs in {self.name}"
            raise ParameterError("hops", self.hops, allowed)
        return rows

    @property
    def label(self) -> str:
        """The label before each document."""
        return self.language.text("question_answering", "document")

    @property
    def wanted(self) -> int | None:
        """The number of documents in the prompt, targets included, or None for all that fit."""
        return self.num_documents

    def draft(self, question: Question, placed: Mapping[int, float]) -> Draft:
        """Return one question, given the depths of all documents that the context needs."""
        template = "template" if self.context else "no_context_template"
        text = self.language.fill("question_answering", template, query=question.text)
        head, _, tail = text.partition("{context}")
        prefix = self.language.text("question_answering", "answer_prefix")
        draft = Draft(head, tail, prefix, [*question.answers])
        draft.answer = max(question.answers, key=len)
        for target, depth in placed.items():
            document = self.filler.text(target)
            is_needed = target in question.targets
            value = first_answer(document, question.answers) if is_needed else None
            draft.needles.append(Needle(document, depth, value))
        if self.context:
            self.record_targets(draft, question, [*placed])
        return draft

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        return mistakes.explain_question(prediction, cut_off)


def first_answer(document: str, answers: Sequence[str]) -> tuple[int, int] | None:
    """Return start and end of the first answer that a document contains, in any case."""
    for answer in answers:
        hit = re.search(re.escape(answer), document) or re.search(
            re.escape(answer), document, re.IGNORECASE
        )
        if hit:
            return hit.span()
    return None


TASKS = {"qa_1": QuestionAnswering(hops=1), "qa_2": QuestionAnswering(hops=2)}
"""RULER's two tasks, after SQuAD (one document) and HotpotQA (two)."""
