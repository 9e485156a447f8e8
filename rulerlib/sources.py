"""Sources of questions and documents: files of SQuAD, HotpotQA and DROP.

`open_source` reads a file, or a data set of the Hugging Face hub by its name:

>>> import json, tempfile
>>> row = {"context": "Oxygen is element 8.", "question": "Which is oxygen?", "answers": ["8"]}
>>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
...     print(json.dumps([row]), file=file, flush=True)
...     source = open_source(file.name)
>>> question = source.question(0)
>>> question.answers, source.document(question.targets[0])
(('8',), 'Oxygen is element 8.')

`built_in` returns a language's own file of
fictional documents. Questions without an answer are left out.

SQuAD (Rajpurkar et al. 2018).

As released (1.1 and 2.0), ``{"data": [...]}`` with an article in each row::

    {"title": "Oxygen", "paragraphs": [{"context": "Oxygen is element 8.", "qas": [
        {"question": "Which element is oxygen?", "answers": [{"text": "8"}]}]}]}

On the hub, and in Danish sets such as ``alexandrainst/multi-wiki-qa:da`` and
``alexandrainst/scandi-qa:da@refs/convert/parquet``, a row for each question::

    {"title": "Oxygen", "context": "Oxygen is element 8.",
     "question": "Which element is oxygen?", "answers": {"text": ["8"], "answer_start": [18]}}

Related documents are those of the same article. The built-in files have another key: in a question
of SQuAD or HotpotQA, ``"spellings"`` lists further accepted answers, which need not be in the text.

HotpotQA (Yang et al. 2018).

As released, documents are pairs of a title and its sentences::

    {"question": "Where was the founder of Acme born?", "answer": "Ribe",
     "supporting_facts": [["Acme", 0], ["Wile", 1]],
     "context": [["Wile", ["Wile made traps.", " He was born in Ribe."]],
                 ["Acme", ["Acme was founded by Wile."]]]}

On the hub, the same data are in columns: ``"context": {"title": [...], "sentences": [...]}`` and
``"supporting_facts": {"title": [...], "sent_id": [...]}``.

A document is its title and, below it, its sentences. A question whose supporting documents are
not all in its row is left out. Its evidence is the supporting sentences; related documents are the
others of its row.

DROP (Dua et al. 2019).

As released, passages by their name::

    {"nfl_1184": {"passage": "Oakland won 29-6 ...", "qa_pairs": [
        {"question": "Which team won?", "query_id": "f37e",
         "answer": {"number": "", "date": {"day": "", "month": "", "year": ""},
                    "spans": ["Raiders"]},
         "validated_answers": [{"number": "", "date": {}, "spans": ["Oakland Raiders"]}]}]}}

On the hub (``EleutherAI/drop``, of which inspect_evals reads the revision
``619386fc7ffe6dace3cc6d3483c69b164ebf6bf3``), a row for each question, with validated answers in
columns::

    {"query_id": "f37e", "passage": "Oakland won 29-6 ...", "question": "Which team won?",
     "answer": {"number": "", "date": {...}, "spans": ["Raiders"]},
     "validated_answers": {"number": [""], "date": [{...}], "spans": [["Oakland Raiders"]]}}

The golds of a question are its answer and all validated ones, without duplicates: a number, one or
more spans, or a date. Questions without an answer (the released training side has a few) are left
out.

The built-in files have further keys. A passage has a ``"title"``; those with the same one are
related. A question has its ``"operation"`` and ``"unit"``; ``"passages"``, the names of all the
passages that it needs if there are several (they must come before it in the file); and
``"operands"``, the values that its answer is computed from: ``[passage, start, end, field]``, in
which ``passage`` counts these passages from 0 and ``[start, end)`` are characters.
"""

from __future__ import annotations

import functools
import gzip
import json
import random
import re
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerlib import checkpoints
from rulerlib.errors import HALF, DataError, MissingWordingError, ParameterError, load_package
from rulerlib.languages import Language
from rulerlib.samples import Part
from rulerlib.texts import digest, read_file

_NO_SCHEMA = "not in the schema of SQuAD or HotpotQA or DROP"

# owner/name, and after it perhaps :configuration and @revision.
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+(:[\w.-]+)?(@[\w./-]+)?")


def open_source(name: str, side: str = "validation") -> Rows:
    """Return the questions of a file (JSON or JSON lines) or of a data set of the hub.

    Parameters
    ----------
    name
        A file, possibly compressed (``.gz``), or ``"owner/name"``, ``"owner/name:configuration"``,
        ``"owner/name:configuration@revision"`` on the hub. The hub needs the network and the
        package `datasets`.
    side
        For data sets of the hub: ``"validation"`` is the split ``validation``, or else ``val``,
        ``test`` or ``train``; ``"train"`` is the split ``train``. A file has one side.

    Raises
    ------
    ParameterError
        If there is no such file, and the name is not a hub name or cannot be loaded.
    DataError
        If it cannot be read, or is not in one of the known schemas: names the file and the line.
    MissingExtraError
        If `datasets` is needed and not installed.
    """
    path = source_file(name)
    return _open(name, side, (path.stat().st_mtime_ns, path.stat().st_size) if path else ())


# Reading a large file takes seconds, and every length of a run needs it.
@functools.lru_cache(maxsize=4)
def _open(name: str, side: str, state: tuple[int, ...]) -> Rows:
    """Read a source; a file is read again if its ``state`` has changed."""
    path = source_file(name)
    if path is not None:
        rows = _read_json(path)
    else:
        if not _HUB_NAME.fullmatch(name) or name.endswith((".json", ".jsonl", ".gz")):
            allowed = "a file that exists, or a hub name 'owner/name'"
            raise ParameterError("source", name, allowed)
        rows = _numbered("row", _load_from_hub(name, side))
    collection = Collection()
    for place, row in rows:
        try:
            read_row(row, collection)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise DataError(f"{name}, {place}: {_NO_SCHEMA} ({reason}).") from error
    source = collection.source()
    if not source.num_questions:
        raise DataError(f"{name}: no question that has an answer.")
    return source


def built_in(language: Language, name: str) -> str:
    """Return the path of a language's own file: squad, hotpotqa, drop or drop_train.

    Raises
    ------
    MissingWordingError
        If the language has none.
    """
    path = language.folder / f"{name}.json.gz"
    if not path.is_file():
        raise MissingWordingError(f"{path} is missing: set 'source' to a file in this format.")
    return str(path)


def source_file(name: str) -> Path | None:
    """Return the file of that name, or None if there is none."""
    path = Path(name).expanduser()
    return path if path.is_file() else None


def _read_json(path: Path) -> list[tuple[str, Any]]:
    """Return the rows of a file, each with a description of its place: ``"row 1"``."""
    try:
        content = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    content = read_file(path) if content is None else content
    if not content.strip():
        raise DataError(f"{path}: empty.")
    try:
        rows = json.loads(content)
    except ValueError as error:
        return _read_lines(path, content, error)
    unit = "row"
    if isinstance(rows, dict):
        if "data" in rows:
            rows, unit = rows["data"], "article"
        elif has_passages(rows):
            rows, unit = [{name: passage} for name, passage in rows.items()], "passage"
        else:
            rows = [rows]
    return _numbered(unit, rows)


def _numbered(unit: str, rows: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(f"{unit} {number}", row) for number, row in enumerate(rows, 1)]


def _read_lines(path: Path, content: str, whole: Exception) -> list[tuple[str, Any]]:
    """Return the rows of JSON lines; ``whole`` is the error of reading the file as one value."""
    rows: list[tuple[str, Any]] = []
    # Not splitlines: strings in JSON can contain other line separators.
    for number, line in enumerate(content.split("\n"), 1):
        try:
            if line.strip():
                rows.append((f"line {number}", json.loads(line)))
        except ValueError as error:
            # If already the first line is wrong, the file may be one value over several lines.
            shown, place = (error, number) if rows else (whole, getattr(whole, "lineno", 1))
            reason = getattr(shown, "msg", shown)
            raise DataError(f"{path}, line {place}: not valid JSON ({reason}).") from error
    return rows


def _load_from_hub(name: str, side: str) -> list[Any]:
    datasets = load_package("datasets", "hub", f"Reading '{name}' from the hub")
    place, _, revision = name.partition("@")
    repository, _, configuration = place.partition(":")
    try:
        splits = datasets.load_dataset(repository, configuration or None, revision=revision or None)
    except Exception as error:
        # The package raises many kinds of errors, of its own and of the network's.
        allowed = f"a data set that can be loaded ({checkpoints.reason(error)})"
        raise ParameterError("source", name, allowed) from error
    wanted = ("train",) if side == "train" else ("validation", "val", "test", "train")
    for split in wanted:
        if split in splits:
            return list(splits[split])
    raise DataError(f"{name}: has no split {', '.join(wanted)}.")


# --- schemas ---

# Distractors are drawn from at least this many documents.
POOL = 1_000

# The id of a question that the validation side on the hub has twice, once with "/" for a question
# mark (huggingface.co/datasets/EleutherAI/drop/discussions/2).
KNOWN_DUPLICATE_ID = "28553293-d719-441b-8f00-ce3dc6df5398"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """A question and the documents that it needs.

    Attributes
    ----------
    text, answers
        The question, and its references: any one of them suffices.
    targets
        The indices of the documents with the answer: one, or several in the order of the hops.
    evidence
        For HotpotQA, the sentences that the answer follows from, in the order of the hops.
    golds
        For DROP, every accepted answer as one or more spans; ``answers`` are the same as texts.
    id
        Its name in its data set, or ``""``.
    facts
        For DROP, its ``answer_kind`` (``"number"``, ``"span"``, ``"spans"``), and in the built-in
        files its ``operation`` and ``unit``, what a number counts (``"goals"``).
    within
        The operands of the answer: for each the index of its document, and a part of that.
    """

    text: str
    answers: tuple[str, ...]
    targets: tuple[int, ...]
    evidence: tuple[str, ...] = ()
    golds: tuple[tuple[str, ...], ...] = ()
    id: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)
    within: tuple[tuple[int, Part], ...] = ()

    @property
    def identity(self) -> str:
        """The part that a source's digest covers. Stored datasets cite it: do not change it."""
        text = f"text={self.text!r}, answers={self.answers!r}, targets={self.targets!r}"
        if not self.golds:
            return f"Question({text})"
        return f"ReadingQuestion({text}, golds={self.golds!r}, id={self.id!r})"


class Rows:
    """Questions and documents that were read from a file or a data set.

    Each question comes with the documents on the same matter, its first distractors. In other
    people's files, a distractor can contain the answer by chance, as in RULER.
    """

    def __init__(
        self, documents: Sequence[str], questions: Sequence[tuple[Question, Sequence[int]]]
    ) -> None:
        self._documents, self._questions = documents, questions
        self.num_documents, self.num_questions = len(documents), len(questions)

    @cached_property
    def digest(self) -> str:
        """A short hash of all documents and questions."""
        questions = [question.identity for question, _ in self._questions]
        related = [repr(related) for _, related in self._questions]
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
        """Return the documents on the same matter as a question, perhaps including its own."""
        return self._questions[index][1]

    def pool(self, count: int, seed: str) -> Sequence[int]:
        """Return at least ``count`` documents to draw distractors from, or all there are."""
        size = min(max(count, POOL), self.num_documents)
        return random.Random(f"{seed} pool").sample(range(self.num_documents), size)

    def only(self, fits: Callable[[Question], bool]) -> Rows:
        """Return the same documents with the questions that fit; this source if all do."""
        pairs = [pair for pair in self._questions if fits(pair[0])]
        return self if len(pairs) == len(self._questions) else Rows(self._documents, pairs)


class Collection:
    """Documents and questions while they are read.

    Attributes
    ----------
    articles
        The documents of each article, by title.
    passages
        The document of each passage of DROP, by name.
    """

    def __init__(self) -> None:
        # Dictionaries without values keep the order, and each document once.
        self.articles = defaultdict[str, dict[int, None]](dict)
        self.passages: dict[str, int] = {}
        self._documents: dict[str, int] = {}
        self._questions: list[tuple[Question, Iterable[int]]] = []

    def document(self, content: str) -> int:
        """Return the index of a document, which is added if it is new."""
        return self._documents.setdefault(content, len(self._documents))

    def ask(
        self,
        question: Any,
        answers: Iterable[Any],
        targets: Iterable[int],
        related: Iterable[int],
        evidence: tuple[str, ...] = (),
    ) -> None:
        """Add a question, unless it is empty or has no answer.

        Raises
        ------
        TypeError, ValueError
            If the question or an answer is not a string.
        """
        asked = text(question, "question")
        texts = dict.fromkeys(text(answer, "an answer") for answer in answers)
        accepted = tuple(answer for answer in texts if answer)
        if asked and accepted:
            self.add(Question(asked, accepted, tuple(dict.fromkeys(targets)), evidence), related)

    def add(self, question: Question, related: Iterable[int]) -> None:
        """Add a question; ``related`` can still grow until `source` is called."""
        self._questions.append((question, related))

    def source(self) -> Rows:
        """Return the source of all that was collected."""
        pairs = [(question, [*related]) for question, related in self._questions]
        return Rows([*self._documents], pairs)


def read_row(row: Any, collection: Collection) -> None:
    """Add a row in any of the known forms to a collection.

    Raises
    ------
    AttributeError, KeyError, TypeError, ValueError
        If the row has none of the known forms, or is damaged.
    """
    if "paragraphs" in row:
        for paragraph in row["paragraphs"]:
            _read_squad(row.get("title"), paragraph["context"], paragraph["qas"], collection)
    elif isinstance(row.get("context"), str):
        _read_squad(row.get("title"), row["context"], [row], collection)
    elif "context" in row:
        _read_hotpotqa(row, collection)
    elif "qa_pairs" in row:
        _read_drop(row, collection, "")
    elif "passage" in row:
        _read_drop({"passage": row["passage"], "qa_pairs": [row]}, collection, "")
    elif has_passages(row):
        for name, passage in row.items():
            _read_drop(passage, collection, name)
    else:
        fields = ", ".join(map(repr, row))
        raise ValueError(f"its fields are {fields[:80]}" if fields else "it has no fields")


def has_passages(row: Row) -> bool:
    """Return whether a row is a dictionary of DROP's passages, by their names."""
    return any(isinstance(value, Mapping) and "qa_pairs" in value for value in row.values())


def text(value: Any, name: str) -> str:
    """Return a string in one form (NFC), without white space around it."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text but {type(value).__name__}")
    if half := HALF.search(value):
        raise ValueError(f"{name} holds half a character, U+{ord(half[0]):04X}")
    return unicodedata.normalize("NFC", value).strip()


def _read_squad(title: Any, context: Any, questions: Iterable[Row], collection: Collection) -> None:
    """Read a document of SQuAD with its questions."""
    content = text(context, "context")
    if not content:
        return
    # Without a title, each document is an article of its own.
    article = collection.articles[repr(title or context)]
    document = collection.document(content)
    article[document] = None
    for row in questions:
        answers = [] if row.get("is_impossible") else row["answers"]
        if isinstance(answers, Mapping):
            answers = answers["text"]
        if isinstance(answers, str):
            answers = [answers]
        texts = [answer["text"] if isinstance(answer, Mapping) else answer for answer in answers]
        collection.ask(row["question"], [*texts, *row.get("spellings", [])], [document], article)


def _read_hotpotqa(row: Row, collection: Collection) -> None:
    """Read a question of HotpotQA with its documents."""
    context, facts = row["context"], row["supporting_facts"]
    if isinstance(context, Mapping):
        context = [*zip(context["title"], context["sentences"], strict=True)]
        facts = [*zip(facts["title"], facts["sent_id"], strict=True)]
    numbers: dict[str, int] = {}
    told: dict[tuple[str, int], str] = {}
    for title, sentences in context:
        title = text(title, "title")
        content = text("".join(sentences), "sentences")
        if title or content:
            numbers[title] = collection.document(f"{title}\n{content}".strip())
            told |= {(title, at): sentence.strip() for at, sentence in enumerate(sentences)}
    facts = [(text(title, "supporting_facts"), number) for title, number in facts]
    if facts and all(title in numbers for title, _ in facts):
        targets = [numbers[title] for title, _ in facts]
        answers = [row["answer"], *row.get("spellings", [])]
        # Some released facts name a sentence that does not exist.
        evidence = tuple(told[fact] for fact in facts if fact in told)
        collection.ask(row["question"], answers, targets, numbers.values(), evidence)


def _read_drop(row: Row, collection: Collection, name: str) -> None:
    """Read a passage of DROP with its questions."""
    content = text(row["passage"], "passage")
    if not content:
        raise ValueError("the passage is empty")
    collection.passages[name] = passage = collection.document(content)
    related: dict[int, None] = {}
    if row.get("title"):
        related = collection.articles[text(row["title"], "title")]
        related[passage] = None
    for question in row["qa_pairs"]:
        _ask(question, passage, collection, related)


def _ask(row: Row, passage: int, collection: Collection, related: Iterable[int]) -> None:
    """Add a question about a passage of DROP."""
    question = text(row["question"], "question")
    name = text(row.get("query_id") or "", "query_id")
    if not question:
        raise ValueError("a question is empty")
    if name == KNOWN_DUPLICATE_ID and not question.endswith("?"):
        return
    validated = row.get("validated_answers") or []
    if isinstance(validated, Mapping):
        columns = zip(*(validated[kind] for kind in _KINDS), strict=True)
        validated = [dict(zip(_KINDS, values, strict=True)) for values in columns]
    golds = dict.fromkeys(_gold(answer) for answer in [row["answer"], *validated])
    golds.pop((), None)
    if not golds:
        return
    first, *_ = golds
    facts = {"answer_kind": "span"}
    if len(first) > 1:
        facts["answer_kind"] = "spans"
    elif re.fullmatch(r"-?[\d.,]+", first[0]):
        facts["answer_kind"] = "number"
    facts |= {key: text(row[key], key) for key in ("operation", "unit") if key in row}
    targets = tuple(collection.passages[other] for other in row.get("passages", ())) or (passage,)
    within = tuple(
        (targets[at], Part("operand", start, end, key))
        for at, start, end, key in row.get("operands", ())
    )
    answers = tuple(dict.fromkeys(", ".join(gold) for gold in golds))
    asked = Question(question, answers, targets, (), tuple(golds), name, facts, within)
    collection.add(asked, related)


_KINDS = ("number", "date", "spans")


def _gold(answer: Row) -> tuple[str, ...]:
    """Return the spans of an answer: its number, else its spans, else its date; or none."""
    number = answer["number"]
    if isinstance(number, (int, float)):
        number = str(number)
    if number:
        return (text(number, "number"),)
    spans = [text(span, "a span") for span in answer.get("spans") or ()]
    if any(spans):
        return tuple(span for span in spans if span)
    date = answer.get("date") or {}
    day = [text(date.get(part) or "", part) for part in ("day", "month", "year")]
    return (" ".join(filter(None, day)),) if any(day) else ()
