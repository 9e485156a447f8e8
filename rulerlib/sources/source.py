"""Questions with the documents that they need, and a source of them that was read from rows."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rulerlib.errors import require
from rulerlib.parts import Part
from rulerlib.texts import digest

# Distractors are drawn from at least this many documents. The fictional encyclopedia asks about
# this many of its first entries (2,000 different questions): each new document must be written
# and counted, and these are soon known.
POOL = 1_000


@dataclass(frozen=True)
class Question:
    """A question and the documents that it needs.

    Attributes
    ----------
    text, answers
        The question, and its references: any one of them suffices.
    targets
        Documents that hold the answer, by index: one, or several in the order of the hops.
    """

    text: str
    answers: tuple[str, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True)
class ReadingQuestion(Question):
    """A question about one passage or several, of which an answer may have several spans.

    Attributes
    ----------
    golds
        Every accepted answer, each of one or more spans; ``answers`` are the same as texts.
    id
        Its name in its data set; empty where it has none.
    facts
        What is known of it by name: ``answer_kind`` (``"number"``, ``"span"``, ``"spans"``; of the
        chronicle ``"number"``, ``"date"`` or ``"name"``), and of the chronicle its ``operation``
        and ``unit``, what a number counts (``"goals"``).
    within
        What its answer is computed from (operands), and what looks like it (distractors): each a
        passage by its index, and a part of that.
    """

    golds: tuple[tuple[str, ...], ...] = ()
    id: str = ""
    # What follows from the rest is no part of a source's digest.
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    within: tuple[tuple[int, Part], ...] = field(default=(), repr=False)


class Rows:
    """Questions and documents that were read from a file or a data set.

    Each question comes with the documents on the same matter, its first distractors. Answers may be
    as short as "the", so that one may stand in a distractor by chance, as it may in RULER: they are
    not ``exclusive`` to their own documents.
    """

    exclusive = False

    def __init__(
        self, documents: Sequence[str], questions: Sequence[tuple[Question, Sequence[int]]]
    ) -> None:
        self._documents, self._questions = documents, questions
        self.num_documents, self.num_questions = len(documents), len(questions)

    @cached_property
    def digest(self) -> str:
        """A short hash of all documents and questions."""
        questions, related = ([repr(pair[part]) for pair in self._questions] for part in (0, 1))
        return digest([*self._documents, *questions, *related])

    def document(self, index: int) -> str:
        """Return the text of a document."""
        return self._documents[index]

    def question(self, index: int) -> Question:
        """Return a question."""
        return self._questions[index][0]

    def related(self, index: int) -> Sequence[int]:
        """Return the documents on the same matter as a question, its own perhaps among them."""
        return self._questions[index][1]

    def pool(self, count: int, seed: str) -> Sequence[int]:
        """Return at least ``count`` documents to draw distractors from, or all there are."""
        size = min(max(count, POOL), self.num_documents)
        return random.Random(f"{seed} pool").sample(range(self.num_documents), size)

    def asking(self, hops: int, name: str) -> Rows:
        """Return the same documents with only the questions that need one of them, or several.

        Parameters
        ----------
        hops
            1: questions that need one document; 2: those that need two or more.
        name
            What to call this source in an error.

        Raises
        ------
        ParameterError
            If there is no such question.
        """
        pairs = [pair for pair in self._questions if min(len(pair[0].targets), 2) == hops]
        allowed_values = f"{3 - hops}, the number of documents that an answer needs in {name}"
        require(pairs, "hops", hops, allowed_values)
        return Rows(self._documents, pairs)

    def only(self, numbers: Iterable[int]) -> Rows:
        """Return the same documents with only the questions of these numbers."""
        return Rows(self._documents, [self._questions[number] for number in numbers])
