"""How SQuAD, HotpotQA and DROP are read, as released and as rows of the hub.

`reader_of` returns the function that puts a row of some form into a `Collection`.

>>> collection = Collection()
>>> numbers = [collection.document(text) for text in ("Oxygen is element 8.", "Iron is 26.")]
>>> collection.ask("Which element is oxygen?", ["8", "8 "], targets=numbers[:1], related=numbers)
>>> source = collection.source()
>>> source.question(0)
Question(text='Which element is oxygen?', answers=('8',), targets=(0,))
>>> source.num_documents, source.related(0)
(2, [0, 1])

SQuAD (Rajpurkar et al. 2018).

As released (1.1 and 2.0), ``{"data": [...]}`` with an article in each row::

    {"title": "Oxygen", "paragraphs": [{"context": "Oxygen is element 8.", "qas": [
        {"question": "Which element is oxygen?", "answers": [{"text": "8"}]}]}]}

On the hub, and in Danish sets such as ``alexandrainst/multi-wiki-qa:da`` and
``alexandrainst/scandi-qa:da@refs/convert/parquet``, a row for each question::

    {"title": "Oxygen", "context": "Oxygen is element 8.",
     "question": "Which element is oxygen?", "answers": {"text": ["8"], "answer_start": [18]}}

Related documents are those of the same article. Two keys of the built-in files are read as well:
``"spellings"`` in a question of SQuAD or HotpotQA lists further accepted answers, which need not be
in the text.

HotpotQA (Yang et al. 2018).

As released, documents are pairs of a title and its sentences::

    {"question": "Where was the founder of Acme born?", "answer": "Ribe",
     "supporting_facts": [["Acme", 0], ["Wile", 1]],
     "context": [["Wile", ["Wile made traps.", " He was born in Ribe."]],
                 ["Acme", ["Acme was founded by Wile."]]]}

On the hub, the same stand in columns: ``"context": {"title": [...], "sentences": [...]}`` and
``"supporting_facts": {"title": [...], "sent_id": [...]}``.

A document is its title and, below it, its sentences. A question whose supporting documents are
not all there is left out. Its evidence is the supporting sentences; related documents are the
others of its row.

DROP (Dua et al. 2019).

As released, passages by their name::

    {"nfl_1184": {"passage": "Oakland won 29-6 ...", "qa_pairs": [
        {"question": "Which team won?", "query_id": "f37e",
         "answer": {"number": "", "date": {"day": "", "month": "", "year": ""},
                    "spans": ["Raiders"]},
         "validated_answers": [{"number": "", "date": {}, "spans": ["Oakland Raiders"]}]}]}}

On the hub (``EleutherAI/drop``, of which inspect_evals reads the revision
``619386fc7ffe6dace3cc6d3483c69b164ebf6bf3``), a row for each question, whose validated answers
stand in columns::

    {"query_id": "f37e", "passage": "Oakland won 29-6 ...", "question": "Which team won?",
     "answer": {"number": "", "date": {...}, "spans": ["Raiders"]},
     "validated_answers": {"number": [""], "date": [{...}], "spans": [["Oakland Raiders"]]}}

The golds of a question are its answer and all validated ones, without repetition: a number, one
or more spans, or a date. A question without any answer (the released training side has a few) is
left out, and a warning counts them.

The built-in files have further keys. A passage has a ``"title"``; those with the same one are
related. A question has its ``"operation"`` and ``"unit"``; ``"passages"``, the names of all the
passages that it needs if there are several (they must come before it in the file); and
``"operands"``, the values that its answer is computed from: ``[passage, start, end, field]``, where
``passage`` counts these passages from 0 and ``[start, end)`` are characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rulerlib.errors import HALF
from rulerlib.parts import Part
from rulerlib.sources.source import Question, ReadingQuestion, Rows


class Collection:
    """Collects documents, equal ones once, and the questions about them.

    Attributes
    ----------
    articles
        The documents of an article in their order, where rows that stand apart belong together.
        Those of later rows come to a question's ``related`` documents, too.
    passages
        The passages of DROP by their name.
    unanswered
        The names of questions without an answer, in a data set that should answer them all.
    """

    def __init__(self) -> None:
        self.articles = defaultdict[str, dict[int, None]](dict)
        self.passages: dict[str, int] = {}
        self.unanswered: list[str] = []
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
            If the question or an answer is no text.
        """
        question = text(question, "question")
        distinct = dict.fromkeys(text(answer, "an answer") for answer in answers)
        references = tuple(answer for answer in distinct if answer)
        if question and references:
            targets = tuple(dict.fromkeys(targets))
            self.add(Question(question, references, targets, evidence), related)

    def add(self, question: Question, related: Iterable[int] = ()) -> None:
        """Add a question that is ready."""
        self._questions.append((question, related))

    def source(self) -> Rows:
        """Return the source of all that was collected."""
        pairs = [(question, list(related)) for question, related in self._questions]
        return Rows(list(self._documents), pairs)


Row = Mapping[str, Any]


def reader_of(row: Any) -> Callable[[Row, Collection], None]:
    """Return the function that puts a row into a collection.

    It may raise AttributeError, KeyError, TypeError or ValueError where the row is damaged.

    Raises
    ------
    TypeError, ValueError
        If the row has none of the known forms.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"no JSON object but {type(row).__name__}")
    if "paragraphs" in row:
        return _read_article
    if isinstance(row.get("context"), str):
        return _read_squad
    if isinstance(row.get("context"), (list, Mapping)):
        return _read_hotpotqa
    if "qa_pairs" in row:
        return _read_passage
    if isinstance(row.get("passage"), str) and "question" in row:
        return _read_drop
    # A file as released, or a line of JSON lines, has one passage or several by their names.
    if any(isinstance(value, Mapping) and "qa_pairs" in value for value in row.values()):
        return _read_passages
    fields = ", ".join(map(repr, row))
    raise ValueError(f"its fields are {fields[:80]}" if fields else "it has no fields")


def unfolded(content: Any) -> tuple[Any, str]:
    """Return the rows of a whole file, and what one of them is called in an error."""
    if not isinstance(content, Mapping):
        return content, "row"
    if content.get("data") is not None:
        return content["data"], "article"
    if any(isinstance(value, Mapping) and "qa_pairs" in value for value in content.values()):
        return [{name: passage} for name, passage in content.items()], "passage"
    return [content], "row"


def text(value: Any, name: str) -> str:
    """Return a text in one form (NFC), without white space around it."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text but {type(value).__name__}")
    if half := HALF.search(value):
        raise ValueError(f"{name} holds half a character, U+{ord(half[0]):04X}")
    return unicodedata.normalize("NFC", value).strip()


def items(value: Any, name: str) -> list[Any]:
    """Return the items of a list."""
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is no list but {type(value).__name__}")
    return list(value)


def _read_article(row: Row, collection: Collection) -> None:
    paragraphs = [
        (collection.document(context), paragraph)
        for paragraph in items(row["paragraphs"], "paragraphs")
        if (context := text(paragraph["context"], "context"))
    ]
    article = dict.fromkeys(number for number, _ in paragraphs)
    for number, paragraph in paragraphs:
        for question in items(paragraph["qas"], "qas"):
            collection.ask(question["question"], _squad_answers(question), [number], article)


def _read_squad(row: Row, collection: Collection) -> None:
    context = text(row["context"], "context")
    if context:
        # Without a title, each document is an article of its own.
        article = collection.articles[repr(row.get("title") or row["context"])]
        # A document comes again with each question about it.
        article[collection.document(context)] = None
        targets = [collection.document(context)]
        collection.ask(row["question"], _squad_answers(row), targets, article)


def _squad_answers(row: Row) -> list[Any]:
    """Return the answers of a question; none where the text does not answer it."""
    answers = row["answers"]
    if row.get("is_impossible"):
        return []
    texts = answers["text"] if isinstance(answers, Mapping) else answers
    texts = [texts] if isinstance(texts, str) else items(texts, "answers")
    texts = [answer["text"] if isinstance(answer, Mapping) else answer for answer in texts]
    return [*texts, *items(row.get("spellings") or (), "spellings")]


def _read_hotpotqa(row: Row, collection: Collection) -> None:
    context, facts = row["context"], row["supporting_facts"]
    if isinstance(context, Mapping):
        pairs = list(zip(context["title"], context["sentences"], strict=True))
        supporting = list(
            zip(items(facts["title"], "supporting_facts"), facts["sent_id"], strict=True)
        )
    else:
        pairs = [(title, sentences) for title, sentences in context]
        supporting = [(title, number) for title, number in items(facts, "supporting_facts")]
    numbers: dict[str, int] = {}
    told: dict[tuple[str, int], str] = {}
    for title, sentences in pairs:
        title, sentences = text(title, "title"), items(sentences, "sentences")
        content = text("".join(sentences), "sentences")
        if title or content:
            numbers[title] = collection.document(f"{title}\n{content}".strip())
            told |= {(title, at): sentence.strip() for at, sentence in enumerate(sentences)}
    facts = [(text(title, "supporting_facts"), number) for title, number in supporting]
    if facts and all(title in numbers for title, _ in facts):
        targets = [numbers[title] for title, _ in facts]
        answers = [row["answer"], *items(row.get("spellings") or (), "spellings")]
        # Some released facts name a sentence that is not there.
        evidence = tuple(told[fact] for fact in facts if fact in told)
        collection.ask(row["question"], answers, targets, numbers.values(), evidence)


# The question that stands twice in the validation side on the hub, once with "/" for a question
# mark (huggingface.co/datasets/EleutherAI/drop/discussions/2).
TWICE = "28553293-d719-441b-8f00-ce3dc6df5398"

_KINDS = ("number", "date", "spans")


def _read_passage(row: Row, collection: Collection, name: str = "") -> None:
    passage = _passage(_object(row, "a passage"), collection)
    collection.passages[name] = passage
    related: Iterable[int] = ()
    if row.get("title"):
        related = collection.articles[text(row["title"], "title")]
        collection.articles[text(row["title"], "title")][passage] = None
    for question in items(row["qa_pairs"], "qa_pairs"):
        _ask(question, passage, collection, related)


def _read_passages(row: Row, collection: Collection) -> None:
    for name, passage in row.items():
        _read_passage(passage, collection, name)


def _read_drop(row: Row, collection: Collection) -> None:
    _ask(row, _passage(row, collection), collection)


def _passage(row: Row, collection: Collection) -> int:
    content = text(row["passage"], "passage")
    if not content:
        raise ValueError("the passage is empty")
    return collection.document(content)


def _ask(row: Row, passage: int, collection: Collection, related: Iterable[int] = ()) -> None:
    row = _object(row, "a question")
    question = text(row["question"], "question")
    name = text(row.get("query_id") or "", "query_id")
    if not question:
        raise ValueError("a question is empty")
    if name == TWICE and not question.endswith("?"):
        return
    golds = tuple(gold for gold in dict.fromkeys(map(_gold, _answers(row))) if gold)
    if not golds:
        collection.unanswered.append(name or question)
        return
    answers = tuple(dict.fromkeys(map(", ".join, golds)))
    number = re.fullmatch(r"-?[\d.,]+", golds[0][0])
    kind = "spans" if len(golds[0]) > 1 else "number" if number else "span"
    facts = {"answer_kind": kind}
    facts |= {key: text(row[key], key) for key in ("operation", "unit") if key in row}
    names = items(row.get("passages") or (), "passages")
    targets = tuple(collection.passages[name] for name in names) or (passage,)
    within = tuple(
        (targets[at], Part("operand", start, end, field))
        for at, start, end, field in items(row.get("operands") or (), "operands")
    )
    asked = ReadingQuestion(
        question, answers, targets, golds=golds, id=name, facts=facts, within=within
    )
    collection.add(asked, related)


def _answers(row: Row) -> list[Any]:
    """Return the answer and the validated answers of a question."""
    validated = row.get("validated_answers") or []
    if isinstance(validated, Mapping):
        columns = zip(*(items(validated[kind], kind) for kind in _KINDS), strict=True)
        validated = [dict(zip(_KINDS, values, strict=True)) for values in columns]
    return [row["answer"], *items(validated, "validated_answers")]


def _gold(answer: Row) -> tuple[str, ...]:
    """Return the spans of an answer: its number, else its spans, else its date; or none."""
    number = _object(answer, "an answer")["number"]
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        number = str(number)
    date = _object(answer.get("date") or {}, "a date")
    parts = (text(date.get(part) or "", part) for part in ("day", "month", "year"))
    listed = (text(span, "a span") for span in items(answer.get("spans") or (), "spans"))
    either = (text(number or "", "number"),), tuple(listed), (" ".join(filter(None, parts)),)
    return next((spans for kind in either if (spans := tuple(filter(None, kind)))), ())


def _object(value: Any, name: str) -> Row:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is no object but {type(value).__name__}")
    return value
