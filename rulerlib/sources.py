"""Sources of questions and documents: files of SQuAD, HotpotQA and DROP.

`open_source` reads a file, or a data set of the Hugging Face hub by its name:

>>> import json, tempfile
>>> row = {"context": "Oxygen is element 8.", "question": "Which is oxygen?", "answers": ["8"]}
>>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
...     print(json.dumps([row]), file=file, flush=True)
...     source = open_source(file.name)
>>> question = source.questions[0]
>>> question.answers, source.documents[question.targets[0]]
(('8',), 'Oxygen is element 8.')

`built_in` returns a language's own file of fictional documents. Questions without an answer are
left out.

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
not all in its row is left out. Related documents are the others of its row.

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
from pathlib import Path
from typing import Any

from rulerlib import checkpoints
from rulerlib.errors import DataError, MissingWordingError, ParameterError, load_package
from rulerlib.files import digest, read_file
from rulerlib.languages import Language
from rulerlib.samples import Part

# Distractors are drawn from at least this many documents.
POOL = 1_000

# owner/name, and after it perhaps :configuration and @revision.
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+(:[\w.-]+)?(@[\w./-]+)?")

# The id of a question that the validation side of DROP on the hub has twice, once with "/" for a
# question mark (huggingface.co/datasets/EleutherAI/drop/discussions/2).
KNOWN_DUPLICATE_ID = "28553293-d719-441b-8f00-ce3dc6df5398"

# The forms of an answer of DROP.
_FORMS = ("number", "date", "spans")

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


@dataclass
class Rows:
    """Questions and documents that were read from a file or a data set.

    In other people's files, a distractor can contain the answer by chance, as in RULER.

    Attributes
    ----------
    documents, questions
        All of them.
    related
        For each question the indices of the documents on the same matter, perhaps including its
        own: its first distractors.
    """

    documents: list[str]
    questions: list[Question]
    related: list[list[int]]

    @functools.cached_property
    def digest(self) -> str:
        """A short hash of all documents and questions."""
        questions = [question.identity for question in self.questions]
        return digest([*self.documents, *questions, *map(repr, self.related)])

    def pool(self, count: int, seed: str) -> Sequence[int]:
        """Return at least ``count`` documents to draw distractors from, or all there are."""
        size = min(max(count, POOL), len(self.documents))
        return random.Random(f"{seed} pool").sample(range(len(self.documents)), size)

    def only(self, fits: Callable[[Question], bool]) -> Rows:
        """Return the same documents with the questions that fit."""
        kept = [number for number, question in enumerate(self.questions) if fits(question)]
        questions = [self.questions[number] for number in kept]
        return Rows(self.documents, questions, [self.related[number] for number in kept])


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
        If it cannot be read, or is not in one of the known schemas: names the file and the row.
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
    elif _HUB_NAME.fullmatch(name) and not name.endswith((".json", ".jsonl", ".gz")):
        rows = _load_from_hub(name, side)
    else:
        raise ParameterError("source", name, "a file that exists, or a hub name 'owner/name'")
    collection = Collection()
    for number, row in enumerate(rows, 1):
        try:
            read_row(row, collection)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            schemas = "not in the schema of SQuAD or HotpotQA or DROP"
            raise DataError(f"{name}, row {number}: {schemas} ({reason}).") from error
    source = collection.source()
    if not source.questions:
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


def _read_json(path: Path) -> list[Any]:
    """Return the rows of a file."""
    try:
        packed = path.suffix == ".gz"
        content = gzip.decompress(path.read_bytes()).decode() if packed else read_file(path)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    try:
        rows = json.loads(content)
    except ValueError:
        return _read_lines(path, content)
    if isinstance(rows, dict):
        rows = rows.get("data", [rows])
    return list(rows)


def _read_lines(path: Path, content: str) -> list[Any]:
    """Return the rows of JSON lines."""
    rows = []
    # Not splitlines: strings in JSON can contain other line separators.
    for number, line in enumerate(content.split("\n"), 1):
        try:
            if line.strip():
                rows.append(json.loads(line))
        except ValueError as error:
            raise DataError(f"{path}, line {number}: not valid JSON ({error}).") from error
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


# --- The schemas ----------------------------------------------------------------------------------


class Collection:
    """Documents and questions while they are read.

    Attributes
    ----------
    documents
        The index of each document by its text.
    questions, related
        The questions, and the documents on the same matter, which can grow until `source`.
    articles
        The documents of each article, by title.
    passages
        The document of each passage of DROP, by name.
    """

    def __init__(self) -> None:
        self.documents: dict[str, int] = {}
        self.questions: list[Question] = []
        self.related: list[Iterable[int]] = []
        # Dictionaries without values keep the order, and each document once.
        self.articles = defaultdict[str, dict[int, None]](dict)
        self.passages: dict[str, int] = {}

    def document(self, text: str) -> int:
        """Return the index of a document, which is added if it is new."""
        return self.documents.setdefault(text, len(self.documents))

    def ask(
        self, row: Row, answers: Iterable[str], targets: Iterable[int], related: Iterable[int]
    ) -> None:
        """Add the question of a row of SQuAD or HotpotQA, unless it is empty or has no answer."""
        question = clean(row["question"], "question")
        texts = [clean(answer, "an answer") for answer in [*answers, *row.get("spellings", [])]]
        accepted = tuple(dict.fromkeys(filter(None, texts)))
        if question and accepted:
            self.questions.append(Question(question, accepted, tuple(dict.fromkeys(targets))))
            self.related.append(related)

    def source(self) -> Rows:
        """Return the source of all that was collected."""
        return Rows([*self.documents], self.questions, [[*related] for related in self.related])


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
    elif any(isinstance(value, Mapping) and "qa_pairs" in value for value in row.values()):
        for name, passage in row.items():
            _read_drop(passage, collection, name)
    else:
        raise ValueError(f"its fields are {', '.join(row)[:80]}")


def clean(value: Any, name: str) -> str:
    """Return a string in one form (NFC), without white space around it."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text but {type(value).__name__}")
    return unicodedata.normalize("NFC", value).strip()


def _read_squad(title: Any, context: Any, questions: Iterable[Row], collection: Collection) -> None:
    """Read a document of SQuAD with its questions."""
    content = clean(context, "context")
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
        texts = [answer["text"] if isinstance(answer, Mapping) else answer for answer in answers]
        collection.ask(row, texts, [document], article)


def _read_hotpotqa(row: Row, collection: Collection) -> None:
    """Read a question of HotpotQA with its documents."""
    context, facts = row["context"], row["supporting_facts"]
    if isinstance(context, Mapping):
        context = zip(context["title"], context["sentences"], strict=True)
        facts = zip(facts["title"], facts["sent_id"], strict=True)
    numbers: dict[str, int] = {}
    for title, sentences in context:
        title = clean(title, "title")
        content = clean("".join(sentences), "sentences")
        if title or content:
            numbers[title] = collection.document(f"{title}\n{content}".strip())
    titles = [clean(title, "supporting_facts") for title, _ in facts]
    if titles and all(title in numbers for title in titles):
        targets = [numbers[title] for title in titles]
        collection.ask(row, [row["answer"]], targets, numbers.values())


def _read_drop(row: Row, collection: Collection, name: str) -> None:
    """Read a passage of DROP with its questions."""
    content = clean(row["passage"], "passage")
    if not content:
        raise ValueError("the passage is empty")
    collection.passages[name] = passage = collection.document(content)
    related: dict[int, None] = {}
    if row.get("title"):
        related = collection.articles[clean(row["title"], "title")]
        related[passage] = None
    for pair in row["qa_pairs"]:
        question = _drop_question(pair, passage, collection.passages)
        if question is not None:
            collection.questions.append(question)
            collection.related.append(related)


def _drop_question(row: Row, passage: int, passages: Mapping[str, int]) -> Question | None:
    """Return a question about a passage of DROP, or None if it is left out."""
    question = clean(row["question"], "question")
    name = clean(row.get("query_id") or "", "query_id")
    if not question:
        raise ValueError("a question is empty")
    if name == KNOWN_DUPLICATE_ID and not question.endswith("?"):
        return None
    validated = row.get("validated_answers") or []
    if isinstance(validated, Mapping):
        columns = zip(*(validated[form] for form in _FORMS), strict=True)
        validated = [dict(zip(_FORMS, values, strict=True)) for values in columns]
    golds = dict.fromkeys(_gold(answer) for answer in [row["answer"], *validated])
    golds.pop((), None)
    if not golds:
        return None
    first, *_ = golds
    kind = "spans" if len(first) > 1 else "span"
    if kind == "span" and re.fullmatch(r"-?[\d.,]+", first[0]):
        kind = "number"
    named = {key: clean(row[key], key) for key in ("operation", "unit") if key in row}
    targets = tuple(passages[other] for other in row.get("passages", ())) or (passage,)
    within = tuple(
        (targets[at], Part("operand", start, end, key))
        for at, start, end, key in row.get("operands", ())
    )
    return Question(
        question,
        answers=tuple(dict.fromkeys(", ".join(gold) for gold in golds)),
        targets=targets,
        golds=tuple(golds),
        id=name,
        facts={"answer_kind": kind, **named},
        within=within,
    )


def _gold(answer: Row) -> tuple[str, ...]:
    """Return the spans of an answer: its number, else its spans, else its date; or none."""
    if answer["number"]:
        return (clean(str(answer["number"]), "number"),)
    spans = [clean(span, "a span") for span in answer.get("spans") or ()]
    if any(spans):
        return tuple(filter(None, spans))
    date = answer.get("date") or {}
    day = [clean(date.get(part) or "", part) for part in ("day", "month", "year")]
    return (" ".join(filter(None, day)),) if any(day) else ()
