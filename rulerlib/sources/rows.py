"""Questions and documents read from rows, and what a schema declares to be read.

A module of a data set (`rulerlib.sources.squad`, `rulerlib.sources.hotpotqa`) declares one
`Schema` for each form that its rows have: how to recognize such a row, and how to put its
documents and questions into a `Collection`.

>>> collection = Collection()
>>> numbers = [collection.document(text) for text in ("Oxygen is element 8.", "Iron is 26.")]
>>> collection.ask("Which element is oxygen?", ["8", "8 "], targets=numbers[:1], related=numbers)
>>> source = collection.source()
>>> source.question(0)
Question(text='Which element is oxygen?', answers=('8',), targets=(0,))
>>> source.num_documents, source.related(0)
(2, [0, 1])
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rulerlib.errors import HALF, require
from rulerlib.sources.source import POOL, Question, Source
from rulerlib.texts import digest

# A question, and the documents on the same matter.
Asked = tuple[Question, Sequence[int]]


class Rows(Source):
    """Questions and documents that were read from a file or a data set.

    Their answers may be as short as "the", so that an answer may stand in a
    distractor by chance, as it may in RULER.

    Parameters
    ----------
    documents
        All different documents.
    asked
        All questions that the documents answer, each with the documents on the same matter.
    """

    exclusive = False

    def __init__(self, documents: Sequence[str], asked: Sequence[Asked]) -> None:
        self._documents, self._asked = documents, asked
        self.num_documents, self.num_questions = len(documents), len(asked)

    @cached_property
    def digest(self) -> str:
        questions, related = ([repr(pair[part]) for pair in self._asked] for part in (0, 1))
        return digest([*self._documents, *questions, *related])

    def document(self, index: int) -> str:
        return self._documents[index]

    def question(self, index: int) -> Question:
        return self._asked[index][0]

    def related(self, index: int) -> Sequence[int]:
        return self._asked[index][1]

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
        asked = [pair for pair in self._asked if min(len(pair[0].targets), 2) == hops]
        allowed = f"{3 - hops}, the number of documents that an answer needs in {name}"
        require(asked, "hops", hops, allowed)
        return Rows(self._documents, asked)


class Collection:
    """Collects documents, equal ones once, and the questions about them.

    Attributes
    ----------
    articles
        The documents of an article in their order, where rows that stand apart belong together.
    unanswered
        The names of questions without an answer, in a data set that should answer them all.
    unclear
        The names of questions whose spans may be one answer or several.
    """

    def __init__(self) -> None:
        self.articles: dict[str, dict[int, None]] = {}
        self.unanswered: list[str] = []
        self.unclear: list[str] = []
        self._documents: dict[str, int] = {}
        self._asked: list[Asked] = []

    def document(self, content: str) -> int:
        """Return the index of a document, which is added if it is new."""
        return self._documents.setdefault(content, len(self._documents))

    def ask(
        self, question: Any, answers: Iterable[Any], targets: Iterable[int], related: Iterable[int]
    ) -> None:
        """Add a question, unless it is empty or has no answer.

        Raises
        ------
        TypeError, ValueError
            If the question or an answer is no text.
        """
        question = text(question, "question")
        distinct = dict.fromkeys(text(answer, "an answer") for answer in answers)
        references = tuple(answer for answer in distinct if answer)
        if question and references:
            self.add(Question(question, references, tuple(dict.fromkeys(targets))), related)

    def add(self, question: Question, related: Iterable[int] = ()) -> None:
        """Add a question that is ready."""
        self._asked.append((question, list(related)))

    def source(self) -> Rows:
        """Return the source of all that was collected."""
        return Rows(list(self._documents), self._asked)


Row = Mapping[str, Any]


@dataclass(frozen=True)
class Schema:
    """One form of the rows of a data set: functions that recognize and read them.

    They may raise AttributeError, KeyError, TypeError or ValueError where a row is damaged; the
    reader names its place.

    Attributes
    ----------
    recognizes
        Returns whether a row has this form.
    read
        Puts the documents and questions of a row into a collection.
    prepare
        Is called with every row before the first one is read.
    unfold
        Returns the rows of a file that is a single JSON object; None if it has another form.
    unit
        The name of one of those rows in errors.
    """

    recognizes: Callable[[Row], bool]
    read: Callable[[Row, Collection], None]
    prepare: Callable[[Row, Collection], None] = lambda row, collection: None
    unfold: Callable[[Row], Any] = lambda content: None
    unit: str = "row"


def text(value: Any, name: str) -> str:
    """Return a text in one form (NFC), without white space around it.

    Raises
    ------
    TypeError, ValueError
        If it is no text, or holds half a character.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text but {type(value).__name__}")
    if half := HALF.search(value):
        raise ValueError(f"{name} holds half a character, U+{ord(half[0]):04X}")
    return unicodedata.normalize("NFC", value).strip()


def items(value: Any, name: str) -> list[Any]:
    """Return the items of a list.

    Raises
    ------
    TypeError
        If it is no list.
    """
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is no list but {type(value).__name__}")
    return list(value)
