"""How DROP is read, as released and as rows of the hub (Dua et al. 2019).

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
or more spans, or a date. A passage stands alone, for nothing says which ones are on the same
matter. A question without any answer (the released training side has a few) is left out, and
that is said.

Rows of ``ucinlp/drop`` have the answers of all annotators in one list::

    {"query_id": "f37e", "passage": "Oakland won 29-6 ...", "question": "Which team won?",
     "answers_spans": {"spans": ["Raiders", "Oakland Raiders"], "types": ["span", "span"]}}

A number or a date is a gold. Which spans make up one answer is not said. Spans that stand there
equally often, and more than once, are taken for one answer that all annotators gave. Else each
span is a gold, and all of them together are another; how many questions that concerns is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rulerlib.sources.rows import Collection, Row, Schema, items, text
from rulerlib.sources.source import ReadingQuestion

# The question that stands twice in the validation side on the hub, once with "/" for a question
# mark (huggingface.co/datasets/EleutherAI/drop/discussions/2).
TWICE = "28553293-d719-441b-8f00-ce3dc6df5398"

_KINDS = ("number", "date", "spans")


def _read_passage(row: Row, collection: Collection) -> None:
    passage = _passage(_object(row, "a passage"), collection)
    for asked in items(row["qa_pairs"], "qa_pairs"):
        _ask(asked, passage, collection)


def _read_passages(row: Row, collection: Collection) -> None:
    for passage in row.values():
        _read_passage(passage, collection)


def _read_row(row: Row, collection: Collection) -> None:
    _ask(row, _passage(row, collection), collection)


def _passage(row: Row, collection: Collection) -> int:
    content = text(row["passage"], "passage")
    if not content:
        raise ValueError("the passage is empty")
    return collection.document(content)


def _ask(asked: Row, passage: int, collection: Collection) -> None:
    asked = _object(asked, "a question")
    question = text(asked["question"], "question")
    name = text(asked.get("query_id") or "", "query_id")
    if not question:
        raise ValueError("a question is empty")
    if name == TWICE and not question.endswith("?"):
        return
    if "answers_spans" in asked:
        given = _listed(asked["answers_spans"])
        if len(given[0]) > 1 and given[0][:1] in given:
            collection.unclear.append(name or question)
    else:
        given = [*map(_gold, _answers(asked))]
    golds = tuple(gold for gold in dict.fromkeys(given) if gold)
    if not golds:
        collection.unanswered.append(name or question)
        return
    answers = tuple(dict.fromkeys(map(", ".join, golds)))
    collection.add(ReadingQuestion(question, answers, (passage,), golds, name))


def _answers(asked: Row) -> list[Any]:
    """Return the answer and the validated answers of a question."""
    validated = asked.get("validated_answers") or []
    if isinstance(validated, Mapping):
        columns = zip(*(items(validated[kind], kind) for kind in _KINDS), strict=True)
        validated = [dict(zip(_KINDS, values, strict=True)) for values in columns]
    return [asked["answer"], *items(validated, "validated_answers")]


def _gold(answer: Row) -> tuple[str, ...]:
    """Return the spans of an answer: its number, else its spans, else its date; or none."""
    number = _object(answer, "an answer")["number"]
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        number = str(number)
    date = _object(answer.get("date") or {}, "a date")
    parts = (text(date.get(part) or "", part) for part in ("day", "month", "year"))
    spans = (text(span, "a span") for span in items(answer.get("spans") or (), "spans"))
    either = (text(number or "", "number"),), tuple(spans), (" ".join(filter(None, parts)),)
    return next((found for kind in either if (found := tuple(filter(None, kind)))), ())


def _listed(answers: Row) -> list[tuple[str, ...]]:
    """Return the golds in a list of all annotators' answers, spans before numbers and dates."""
    columns = [items(_object(answers, "answers_spans")[name], name) for name in ("spans", "types")]
    pairs = [(text(span, "a span"), kind) for span, kind in zip(*columns, strict=True)]
    spans = Counter(span for span, kind in pairs if kind == "span" and span)
    agreed = len({*spans.values()}) == 1 and max(spans.values()) > 1
    golds = [tuple(spans)] + [(span,) for span in spans if not agreed]
    return golds + [(span,) for span, kind in pairs if kind != "span" and span]


def _object(value: Any, name: str) -> Row:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is no object but {type(value).__name__}")
    return value


def _unfold(content: Row) -> list[Any] | None:
    """Return the passages of a file as released; None if it is no such file."""
    passages = list(content.values())
    named = any(isinstance(passage, Mapping) and "qa_pairs" in passage for passage in passages)
    return passages if named else None


SCHEMAS = (
    Schema(lambda row: "qa_pairs" in row, _read_passage, unfold=_unfold, unit="passage"),
    Schema(lambda row: isinstance(row.get("passage"), str) and "question" in row, _read_row),
    # A line of JSON lines may be a file as released, of one passage or several.
    Schema(lambda row: _unfold(row) is not None, _read_passages),
)
