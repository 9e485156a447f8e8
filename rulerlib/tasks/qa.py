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

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rulerlib.errors import ParameterError, flag, whole_number
from rulerlib.haystack import Draft, Needle
from rulerlib.samples import Prediction
from rulerlib.scoring import ANY
from rulerlib.sources import Question, Rows, built_in
from rulerlib.tasks import mistakes
from rulerlib.tasks.documents import DocumentTask, check_source
from rulerlib.tasks.family import QUESTIONS

# The built-in file by the number of documents that an answer needs.
FILES = {1: "squad", 2: "hotpotqa"}


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
        if not rows.num_questions:
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
