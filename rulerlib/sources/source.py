"""A question with the documents that it needs, and what every source of questions offers."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rulerlib.errors import require
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
    """A question about a passage, of which an answer may have several spans.

    Attributes
    ----------
    golds
        Every accepted answer, each of one or more spans; ``answers`` are the same as texts.
    id
        Its name in its data set; empty where it has none.
    """

    golds: tuple[tuple[str, ...], ...] = ()
    id: str = ""


class Source(ABC):
    """Questions and documents by index.

    Attributes
    ----------
    num_documents, num_questions
        How many there are; ``num_questions`` is None where questions have no end.
    exclusive
        Whether an answer must stand in its target documents alone: distractors with an answer in
        them are left out.
    """

    num_documents: int
    num_questions: int | None
    exclusive: bool

    @property
    @abstractmethod
    def digest(self) -> str:
        """A short hash of all that documents and questions are made from."""

    @abstractmethod
    def document(self, index: int) -> str:
        """Return the text of a document.

        Raises
        ------
        IndexError, ParameterError
            If there are not that many documents.
        """

    @abstractmethod
    def question(self, index: int) -> Question:
        """Return a question.

        Raises
        ------
        IndexError, ParameterError
            If there are not that many questions.
        """

    @abstractmethod
    def related(self, index: int) -> Sequence[int]:
        """Return the documents on the same matter as a question, by index: its first distractors.

        The question's own targets may be among them.
        """

    @abstractmethod
    def pool(self, count: int, seed: str) -> Sequence[int]:
        """Return at least ``count`` documents to draw distractors from, or all there are.

        They are given by index; ``seed``, a text, decides which they are.
        """


class Rows(Source):
    """Questions and documents that were read from a file or a data set.

    Their answers may be as short as "the", so that an answer may stand in a
    distractor by chance, as it may in RULER.

    Each question comes with the documents on the same matter.
    """

    exclusive = False

    def __init__(
        self, documents: Sequence[str], questions: Sequence[tuple[Question, Sequence[int]]]
    ) -> None:
        self._documents, self._questions = documents, questions
        self.num_documents, self.num_questions = len(documents), len(questions)

    @cached_property
    def digest(self) -> str:
        questions, related = ([repr(pair[part]) for pair in self._questions] for part in (0, 1))
        return digest([*self._documents, *questions, *related])

    def document(self, index: int) -> str:
        return self._documents[index]

    def question(self, index: int) -> Question:
        return self._questions[index][0]

    def related(self, index: int) -> Sequence[int]:
        return self._questions[index][1]

    def pool(self, count: int, seed: str) -> Sequence[int]:
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
