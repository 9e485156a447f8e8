"""Questions with the documents that they need, and a source of them that was read from rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rulerlib.parts import Part
from rulerlib.texts import digest

# Distractors are drawn from at least this many documents.
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
    evidence
        The sentences that the answer follows from, in the order of the hops, where they are known.
    """

    text: str
    answers: tuple[str, ...]
    targets: tuple[int, ...]
    # Follows from the rest, so it is no part of a source's digest.
    evidence: tuple[str, ...] = field(default=(), repr=False)


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
        What is known of it by name: ``answer_kind`` (``"number"``, ``"span"``, ``"spans"``), and in
        the built-in files its ``operation`` and ``unit``, what a number counts (``"goals"``).
    within
        The operands that its answer is computed from: each a passage by its index, and a part of
        that.
    """

    golds: tuple[tuple[str, ...], ...] = ()
    id: str = ""
    # What follows from the rest is no part of a source's digest.
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    within: tuple[tuple[int, Part], ...] = field(default=(), repr=False)


class Rows:
    """Questions and documents that were read from a file or a data set.

    Each question comes with the documents on the same matter, its first distractors. In a file from
    elsewhere an answer can be in a distractor by chance, as in RULER.
    """

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

    @property
    def questions(self) -> list[Question]:
        """All questions."""
        return [question for question, _ in self._questions]

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

    def only(self, fits: Callable[[Question], bool]) -> Rows:
        """Return the same documents with the questions that fit; this source if all do."""
        pairs = [pair for pair in self._questions if fits(pair[0])]
        return self if len(pairs) == len(self._questions) else Rows(self._documents, pairs)
