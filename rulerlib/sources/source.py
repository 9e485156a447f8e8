"""A question with the documents that it needs, and what every source of questions offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

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
        Documents that hold the answer, by index: one, or two in the order of the hops.
    """

    text: str
    answers: tuple[str, ...]
    targets: tuple[int, ...]


class Source(ABC):
    """Questions and documents by index.

    Attributes
    ----------
    num_documents, num_questions
        How many there are; None where questions have no end.
    exclusive
        Whether an answer must stand in its target documents alone.
    """

    num_documents: int
    num_questions: int | None
    exclusive: bool

    @property
    @abstractmethod
    def digest(self) -> str:
        """Return a short hash of all that documents and questions are made from."""

    @abstractmethod
    def document(self, index: int) -> str:
        """Return the text of a document."""

    @abstractmethod
    def question(self, index: int) -> Question:
        """Return a question."""

    @abstractmethod
    def related(self, index: int) -> Sequence[int]:
        """Return the documents on the same matter as a question: its first distractors."""

    @abstractmethod
    def pool(self, count: int, seed: str) -> Sequence[int]:
        """Return at least ``count`` documents to draw distractors from, or all there are."""
