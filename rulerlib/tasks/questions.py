"""Where questions and documents come from: the fictional world, SQuAD, HotpotQA.

Every source is a row of questions and a row of documents:

>>> from rulerlib.languages import load
>>> source = Fiction(load("en"), hops=1, seed=7)
>>> question = source.question(0)
>>> len(question.targets), source.document(question.targets[0]).count(question.answers[0])
(1, 1)

Files, and data sets of the Hugging Face hub by name, are read in four shapes:

- SQuAD 1.1 and 2.0 as released (``{"data": [{"paragraphs": ...}]}``; Rajpurkar et al. 2018),
- rows with ``context``, ``question``, ``answers`` (SQuAD on the hub, and Danish sets such as
  ``alexandrainst/multi-wiki-qa:da`` and ``alexandrainst/scandi-qa:da@refs/convert/parquet``),
- HotpotQA as released (``context`` is a list of ``[title, sentences]``; Yang et al. 2018),
- HotpotQA on the hub (``context`` is ``{"title": [...], "sentences": [...]}``).

Questions that the text cannot answer are left out, and so are those whose supporting
documents are not all there.
"""

from __future__ import annotations

import json
import random
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerlib.errors import DataError, MissingExtraError, ParameterError
from rulerlib.haystack import digest, read_file
from rulerlib.languages import Language
from rulerlib.tasks.encyclopedia import World

# Distractors are drawn from at least so many documents. The questions of the fictional
# encyclopedia are about its first so many entries (2,000 different questions): each new document
# must be written and counted, and these are soon known.
POOL = 1_000

# Entries of the fictional encyclopedia: as many as there are names for in every language, 4M
# tokens. One that is not used costs nothing.
WORLD = 24_000


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
    """Questions and documents by index."""

    num_documents: int
    num_questions: int | None
    """None: without end."""
    exclusive: bool
    """Whether an answer must stand in its target documents alone."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A short hash of all that documents and questions are made from."""

    @abstractmethod
    def document(self, index: int) -> str:
        """The text of a document."""

    @abstractmethod
    def question(self, index: int) -> Question:
        """A question."""

    @abstractmethod
    def related(self, index: int) -> Sequence[int]:
        """Documents on the same matter as a question: its first distractors."""

    @abstractmethod
    def pool(self, count: int, seed: str) -> Sequence[int]:
        """Documents that distractors are drawn from: ``count`` or more, if there are so many."""


class Fiction(Source):
    """The fictional encyclopedia, with questions of one hop or two."""

    num_questions = None
    exclusive = True
    num_documents = WORLD

    def __init__(self, language: Language, hops: int, seed: int) -> None:
        self._language, self._hops = language, hops
        # An entry depends on the seed and its index alone: the small world is the beginning of
        # the large one, and its questions are the same at all lengths.
        self._asked = World(language, seed, POOL)
        self._world = World(language, seed, WORLD)

    @property
    def digest(self) -> str:
        # The seed and the rest of the language stand in the metadata of a dataset already.
        return digest([(self._language.folder / "encyclopedia.toml").read_text(encoding="utf-8")])

    def document(self, index: int) -> str:
        entry = (self._asked if index < POOL else self._world).entry(index)
        return f"{entry.title}\n{entry.text}"

    def question(self, index: int) -> Question:
        asked = self._asked.question(index, self._hops)
        return Question(asked.text, asked.answers, asked.entries)

    def related(self, index: int) -> Sequence[int]:
        return self._asked.related(self._asked.question(index, self._hops))

    def pool(self, count: int, seed: str) -> Sequence[int]:
        return range(min(max(count, POOL), WORLD))


class Rows(Source):
    """Questions and documents that were read from a file or a data set.

    Their answers may be as short as "the", so that an answer may stand in a
    distractor by chance, as it may in RULER.

    Parameters
    ----------
    documents
        All different documents.
    questions
        All questions that the documents answer.
    related
        For each question the documents on the same matter.
    """

    exclusive = False

    def __init__(
        self,
        documents: Sequence[str],
        questions: Sequence[Question],
        related: Sequence[Sequence[int]],
    ) -> None:
        self._documents, self._questions, self._related = documents, questions, related
        self.num_documents, self.num_questions = len(documents), len(questions)

    @cached_property
    def digest(self) -> str:
        return digest([*self._documents, *map(repr, self._questions), *map(repr, self._related)])

    def document(self, index: int) -> str:
        return self._documents[index]

    def question(self, index: int) -> Question:
        return self._questions[index]

    def related(self, index: int) -> Sequence[int]:
        return self._related[index]

    def pool(self, count: int, seed: str) -> Sequence[int]:
        some = min(max(count, POOL), self.num_documents)
        return random.Random(f"{seed} pool").sample(range(self.num_documents), some)

    def asking(self, hops: int, name: str) -> Rows:
        """The same documents, with those questions only that need one of them, or several.

        Raises
        ------
        ParameterError
            If there is no such question.
        """
        fit = [
            number
            for number, asked in enumerate(self._questions)
            if min(len(asked.targets), 2) == hops
        ]
        if not fit:
            raise ParameterError(
                "hops", hops, f"{3 - hops}, the number of documents that an answer needs in {name}"
            )
        return Rows(
            self._documents,
            [self._questions[number] for number in fit],
            [self._related[number] for number in fit],
        )


# Half of a character that takes two; no file in UTF-8 can hold it.
_HALF = re.compile("[\ud800-\udfff]")


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is no text but {type(value).__name__}")
    if found := _HALF.search(value):
        raise ValueError(f"{what} holds half a character, U+{ord(found[0]):04X}")
    return unicodedata.normalize("NFC", value).strip()


def _items(value: Any, what: str) -> Sequence[Any]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{what} is no list but {type(value).__name__}")
    return list(value)


class _Reader:
    """Collects documents, each once, and the questions about them."""

    def __init__(self) -> None:
        self.documents: dict[str, int] = {}
        self.questions: list[Question] = []
        self.related: list[Sequence[int]] = []
        self.where = 0

    def read(self, rows: Sequence[Any]) -> None:
        """Read rows of any shape; ``where`` is the one that is being read."""
        # The documents of an article, each once though it comes with every question about it.
        found: dict[str, dict[int, None]] = {}
        for self.where, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise TypeError(f"no JSON object but {type(row).__name__}")
            if isinstance(row.get("context"), str) and (text := _text(row["context"], "context")):
                found.setdefault(self._article(row), {})[self.document(text)] = None
        articles = {article: list(numbers) for article, numbers in found.items()}
        for self.where, row in enumerate(rows):
            if "paragraphs" in row:
                self._squad(row)
            elif isinstance(row["context"], str):
                if _text(row["context"], "context"):
                    number = self.document(_text(row["context"], "context"))
                    self._ask(row, self._answers(row), [number], articles[self._article(row)])
            else:
                self._hotpot(row)

    def document(self, text: str) -> int:
        return self.documents.setdefault(text, len(self.documents))

    @staticmethod
    def _article(row: Mapping[str, Any]) -> str:
        # Without a title, each document is an article of its own.
        return repr(row.get("title") or row["context"])

    def _squad(self, article: Mapping[str, Any]) -> None:
        parts = [
            (text, part)
            for part in _items(article["paragraphs"], "paragraphs")
            if (text := _text(part["context"], "context"))
        ]
        numbers = [self.document(text) for text, _ in parts]
        different = list(dict.fromkeys(numbers))
        for number, (_, part) in zip(numbers, parts, strict=True):
            for asked in _items(part["qas"], "qas"):
                self._ask(asked, self._answers(asked), [number], different)

    @staticmethod
    def _answers(row: Mapping[str, Any]) -> Sequence[Any]:
        answers = row["answers"]
        if row.get("is_impossible"):
            return []
        texts = answers["text"] if isinstance(answers, Mapping) else answers
        texts = [texts] if isinstance(texts, str) else _items(texts, "answers")
        return [text["text"] if isinstance(text, Mapping) else text for text in texts]

    def _hotpot(self, row: Mapping[str, Any]) -> None:
        context, facts = row["context"], row["supporting_facts"]
        if isinstance(context, Mapping):
            pairs = list(zip(context["title"], context["sentences"], strict=True))
            wanted = _items(facts["title"], "supporting_facts")
        else:
            pairs = [(title, sentences) for title, sentences in _items(context, "context")]
            wanted = [title for title, _ in _items(facts, "supporting_facts")]
        numbers = {}
        for title, sentences in pairs:
            title = _text(title, "title")
            text = _text("".join(_items(sentences, "sentences")), "sentences")
            if title or text:
                numbers[title] = self.document(f"{title}\n{text}".strip())
        titles = dict.fromkeys(_text(title, "supporting_facts") for title in wanted)
        if titles and all(title in numbers for title in titles):
            targets = [numbers[title] for title in titles]
            self._ask(row, [row["answer"]], targets, list(numbers.values()))

    def _ask(
        self,
        row: Mapping[str, Any],
        answers: Sequence[Any],
        targets: Sequence[int],
        near: Sequence[int],
    ) -> None:
        question = _text(row["question"], "question")
        distinct = tuple(filter(None, dict.fromkeys(_text(one, "an answer") for one in answers)))
        targets = tuple(dict.fromkeys(targets))
        if question and distinct:
            self.questions.append(Question(question, distinct, targets))
            self.related.append(near)


# owner/name, and after it perhaps :configuration and @revision.
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+(:[\w.-]+)?(@[\w./-]+)?")


def open_source(name: str) -> Rows:
    """Questions from a file (JSON or JSON lines) or from a data set of the hub.

    Parameters
    ----------
    name
        A file, or ``"owner/name"``, ``"owner/name:configuration"``,
        ``"owner/name:configuration@revision"`` on the hub (its ``validation``
        split, else ``val``, ``test``, ``train``). The hub needs the network and
        the package `datasets`.

    Raises
    ------
    ParameterError
        If there is no such file, or the name is no hub name.
    DataError
        If it does not hold questions in one of the known shapes: names the file and the line.
    MissingExtraError
        If `datasets` is needed and not installed.
    """
    path = file(name)
    if path is not None:
        rows, places = _read(path)
    elif _HUB_NAME.fullmatch(name) and not name.endswith((".json", ".jsonl")):
        rows = _from_hub(name)
        places = [f"row {number}" for number in range(1, len(rows) + 1)]
    else:
        raise ParameterError("source", name, "a file that exists, or a hub name 'owner/name'")
    reader = _Reader()
    try:
        reader.read(rows)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise DataError(
            f"{name}, {places[reader.where]}: not in the schema of SQuAD or HotpotQA ({reason})."
        ) from error
    if not reader.questions:
        raise DataError(f"{name}: no question that has an answer.")
    return Rows(list(reader.documents), reader.questions, reader.related)


def file(name: str) -> Path | None:
    """The file of that name, if it is one."""
    try:
        path = Path(name).expanduser()
        return path if path.is_file() else None
    except (OSError, RuntimeError):
        # Too long for a name, in a folder that is locked, or of a user who does not exist.
        return None


def _read(path: Path) -> tuple[Sequence[Any], Sequence[str]]:
    """Rows (or articles), and for each what to call the place where it stands."""
    text = read_file(path)
    if not text.strip():
        raise DataError(f"{path}: empty.")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as whole:
        return _lines(path, text, whole)
    kind = "row"
    if isinstance(content, Mapping) and "data" in content:
        kind, content = "article", content["data"]
    elif isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list):
        raise DataError(f"{path}: not in the schema of SQuAD or HotpotQA (no list of {kind}s).")
    return content, [f"{kind} {number}" for number in range(1, len(content) + 1)]


def _lines(path: Path, text: str, whole: Exception) -> tuple[Sequence[Any], Sequence[str]]:
    """The rows of JSON lines, or the error of what was not meant as such."""
    rows, places = [], []
    # Not splitlines: a text in JSON may hold other characters that end a line for it.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            at: tuple[int, Exception] = number, error
            if not rows and isinstance(whole, json.JSONDecodeError):
                at = whole.lineno, whole
            reason = getattr(at[1], "msg", at[1])
            raise DataError(f"{path}, line {at[0]}: not valid JSON ({reason}).") from error
        places.append(f"line {number}")
    return rows, places


def _from_hub(name: str) -> Sequence[Any]:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("datasets", "hub", f"Reading '{name}' from the hub") from error
    place, _, revision = name.partition("@")
    repository, _, configuration = place.partition(":")
    try:
        splits = datasets.load_dataset(repository, configuration or None, revision=revision or None)
    except Exception as error:
        # The package raises many kinds of errors, of its own and of the network's.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ParameterError("source", name, f"a data set that can be loaded ({reason})") from error
    for split in ("validation", "val", "test", "train"):
        if split in splits:
            return list(splits[split])
    raise DataError(f"{name}: has no split validation, val, test or train.")
