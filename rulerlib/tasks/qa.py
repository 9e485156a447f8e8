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
3.4). Where the documents do not fill the length they are repeated, as there. Unlike there, the
depth of the target documents is set and recorded.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

from rulerlib.errors import flag, require, whole_number
from rulerlib.filling import Take
from rulerlib.haystack import Draft, Filling, Needle, depth_of, depths_of, one_depth
from rulerlib.scoring import ANY
from rulerlib.sources import built_in, open_source, source_file
from rulerlib.sources.source import Question, Rows
from rulerlib.tasks import mistakes
from rulerlib.tasks.documents import Documents, Numbered
from rulerlib.tasks.family import QUESTIONS, Checked, Family, Maker, knob


def source_name(name: str, value: Any) -> None:
    """Check that a knob could name a file or a data set."""
    require(isinstance(value, str) and value, name, value, "None, a file, or a hub name")


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about question answering.

    Attributes
    ----------
    hops
        Documents that an answer needs: 1, or 2 (or more, in a source that has such
        questions). A source with none of that kind is an error.
    source
        None: the language's own file. Else a file in the schema of SQuAD or
        HotpotQA, or such a data set of the hub, ``"owner/name"``.
    num_documents
        Documents in the prompt, targets included; None: as many as fit.
    context
        False leaves out all documents: what a model answers from memory alone.
    depth
        None: depths as in the other tasks. A number from 0 (start) to 100 (end)
        puts a single target document there.
    """

    hops: int = knob(1, whole_number, 1, 2)
    source: str | None = knob(None, source_name)
    num_documents: int | None = knob(None, whole_number, 1)
    context: bool = knob(True, flag)
    depth: float | None = knob(None, one_depth)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_documents is not None:
            whole_number("num_documents", self.num_documents, self.hops)
        allowed_values = "None where an answer needs 2 documents"
        require(self.depth is None or self.hops == 1, "depth", self.depth, allowed_values)


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """Return how many questions one context can be asked (None: any number), and why."""
    if not knobs.context:
        return 1, "context=False leaves no context to share"
    if knobs.depth is not None:
        return 1, "a depth that is set holds for one document alone"
    return None, ""


# The built-in file by the number of documents that an answer needs.
FILES = {1: "squad", 2: "hotpotqa"}

NumberedQuestion = tuple[int, Question]
"""A question after its number in the source."""


class Questions(Maker):
    """Makes the samples of one setting; ``seed`` decides the order of the questions."""

    knobs: Knobs
    # Documents beside the targets, their labels included.
    distractors = True

    @property
    def name(self) -> str:
        """The file or data set of the questions."""
        return self.knobs.source or built_in(self.language, FILES[self.knobs.hops])

    @cached_property
    def source(self) -> Rows:
        """The source of questions and documents."""
        hops = self.knobs.hops
        rows = opened(self.name).only(lambda question: min(len(question.targets), 2) == hops)
        allowed_values = f"{3 - hops}, the number of documents that an answer needs in {self.name}"
        require(rows.num_questions, "hops", hops, allowed_values)
        return rows

    @property
    def digest(self) -> str:
        """A short hash by which a dataset cites its documents and questions."""
        return self.source.digest

    @cached_property
    def haystack(self) -> Documents:  # type: ignore[override]  # Its units are documents.
        return Documents(self.source, self.label, self.budget, self._seed)

    @property
    def label(self) -> str:
        """What stands before each document; see `Documents`."""
        return self.language.text("question_answering", "document")

    @property
    def wanted(self) -> int | None:
        """The number of documents in the prompt, targets included; None: as many as fit."""
        return self.knobs.num_documents

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return ``queries`` drafts on the same documents, and a function that adds distractors."""
        questions_asked = self.asked(index, rng, queries)
        questions = [question for _, question in questions_asked]
        return self._drafts(questions, index, rng), partial(self._take, questions_asked, rng)

    @property
    def repeats(self) -> bool:
        return self.knobs.context and self.wanted is None

    def asked(self, index: int, rng: random.Random, queries: int) -> list[NumberedQuestion]:
        """Return the questions on one context, each after its number in the source."""
        most = self.source.num_questions
        allowed_values = f"at most {most}, the number of questions in {self.name}"
        require(queries <= most, "queries_per_context", queries, allowed_values)
        numbers = [self._number(index * queries + at) for at in range(queries)]
        return [(number, self.source.question(number)) for number in numbers]

    def _number(self, index: int) -> int:
        """Return the number of a sample's question."""
        # Each question once, then each once more with other documents.
        return self._order[index % self.source.num_questions]

    @cached_property
    def _order(self) -> list[int]:
        order = list(range(self.source.num_questions))
        random.Random(f"{self._seed} order").shuffle(order)
        return order

    def _drafts(self, questions: Sequence[Question], index: int, rng: random.Random) -> list[Draft]:
        placed: dict[int, float] = {}
        if self.knobs.context:
            for at, question in enumerate(questions, index * len(questions)):
                targets = list(question.targets)
                if len(targets) == 1:
                    depths = [depth_of(at) if self.knobs.depth is None else self.knobs.depth]
                else:
                    depths = depths_of(len(targets), rng)
                rng.shuffle(targets)
                for target, depth in zip(targets, depths, strict=True):
                    # A document that several questions need stands there once.
                    placed.setdefault(target, depth)
        placed = dict(sorted(placed.items(), key=lambda item: item[1]))
        return [self._draft(question, placed) for question in questions]

    def _draft(self, question: Question, placed: Mapping[int, float]) -> Draft:
        """Return the draft of one question, given the depths of all target documents."""
        template = "template" if self.knobs.context else "no_context_template"
        text = self.language.fill("question_answering", template, query=question.text)
        head, _, tail = text.partition("{context}")
        prefix = self.language.text("question_answering", "answer_prefix")
        draft = Draft(
            head, tail, prefix, list(question.answers), answer=max(question.answers, key=len)
        )
        if not self.knobs.context:
            return draft
        for target, depth in placed.items():
            document = self.haystack.counted.text(target)
            is_needed = target in question.targets
            value = _first_answer(document, question.answers) if is_needed else None
            draft.needles.append(Needle(document, depth, value))
        self._ask(draft, question, [*placed])
        return draft

    def _ask(self, draft: Draft, question: Question, targets: Sequence[int]) -> None:
        """Say which needles of a draft are asked for, given the documents that they are."""
        # The document with the answer first, then the one that leads to it. Those of other
        # questions are distractors to this one.
        hops = [targets.index(target) for target in reversed(question.targets)]
        draft.order = sorted(hops, key=lambda hop: draft.needles[hop].value is None)
        draft.asked, draft.role = len(hops), "document"
        count = self.wanted or len(targets)
        allowed_values = f"at most {self.source.num_documents}, all that there are"
        require(count <= self.source.num_documents, "num_documents", count, allowed_values)
        draft.least = sum(self.haystack.counted.label_costs(count)[:count])
        draft.least += max(0, count - len(targets)) * self.haystack.mean

    def _take(
        self, questions_asked: Sequence[NumberedQuestion], rng: random.Random, room: int
    ) -> Filling:
        """Return distractors: first those on the same matter, then any."""
        documents, source, wanted = self.haystack.counted, self.source, self.wanted
        if not self.knobs.context:
            return Filling([], [], "\n\n")
        questions = [question for _, question in questions_asked]
        seen = {target for question in questions for target in question.targets}
        targets = len(seen)
        one = (
            "a question needs"
            if len(questions_asked) == 1
            else "the questions of this context need"
        )
        holds = wanted is None or wanted >= targets
        require(holds, "num_documents", wanted, f"at least {targets}, which {one}")
        numbers = dict.fromkeys(number for number, _ in questions_asked)
        related = list(dict.fromkeys(index for one in numbers for index in source.related(one)))
        rng.shuffle(related)
        chosen: list[int] = []
        labels = documents.label_costs(targets)
        used = sum(labels[:targets])
        # Most of these are needed, and are counted faster together than one by one.
        (ahead := random.Random()).setstate(rng.getstate())
        likely = room // self.haystack.mean if wanted is None else wanted
        documents.cost(*itertools.islice(_shuffled(self.haystack.pool, ahead), likely))
        for index in self._distractors(related, seen, rng):
            if wanted == targets + len(chosen):
                break
            count = targets + len(chosen)
            if count == len(labels):
                labels = documents.label_costs(count + 1)
            used += labels[count] + sum(documents.cost(index))
            if used > room and wanted is None:
                break
            chosen.append(index)
        there = targets + len(chosen)
        holds = wanted is None or wanted <= there
        require(holds, "num_documents", wanted, f"at most {there}, all that there are")
        return Numbered(documents, chosen, [rng.random() for _ in chosen], wanted is not None)

    def _distractors(
        self, related: Sequence[int], targets: set[int], rng: random.Random
    ) -> Iterator[int]:
        """Yield all documents but the targets, the most wanted first, then all of them again."""
        everything, seen = range(self.source.num_documents), set(targets)
        # Those outside the pool only if that is not enough.
        for index in itertools.chain(related, _shuffled(self.haystack.pool, rng), everything):
            if index not in seen:
                seen.add(index)
                yield index
        # RULER repeats all documents. Here those with the answer stand once where there are others.
        others = [index for index in everything if index not in targets] or everything
        while self.repeats:
            yield from rng.sample(others, len(others))


def _first_answer(document: str, answers: Sequence[str]) -> tuple[int, int] | None:
    """Return where the first answer that stands in a document begins and ends, in any case."""
    folded = document.casefold()
    for answer in answers:
        if answer in document:
            start = document.index(answer)
            return start, start + len(answer)
        wanted = answer.casefold()
        if wanted in folded:
            start = folded.index(wanted)
            # In the folded text one letter may have become two.
            ends = list(itertools.accumulate(len(letter.casefold()) for letter in document))
            last = start + len(wanted)
            return bisect.bisect_right(ends, start), bisect.bisect_left(ends, last) + 1
    return None


def _shuffled(indices: Sequence[int], rng: random.Random) -> Iterator[int]:
    """Yield all indices in random order, drawn as they are needed."""
    order: dict[int, int] = {}
    for at in range(len(indices)):
        # A shuffle that swaps only what is looked at (Durstenfeld 1964).
        other = rng.randrange(at, len(indices))
        yield indices[order.get(other, other)]
        order[other] = order.get(at, at)


def opened(name: str, side: str = "validation") -> Rows:
    """Return a source by its name; a file is read again only when it has changed."""
    path = source_file(name)
    return _opened(name, side, (path.stat().st_mtime_ns, path.stat().st_size) if path else ())


_opened = lru_cache(maxsize=4)(lambda name, side, state: open_source(name, side))


FAMILY = Family(
    name="qa",
    knobs=Knobs,
    variants={"qa_1": Knobs(hops=1), "qa_2": Knobs(hops=2)},
    category=QUESTIONS,
    scoring=ANY,
    tokens_to_generate=32,
    maker=Questions,
    one_language="its questions come with their documents, in the language of these",
    most_queries=most_queries,
    explain=mistakes.explain_question,
)
"""RULER's two settings, SQuAD (one document) and HotpotQA (two)."""
