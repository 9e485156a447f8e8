"""How SQuAD is read, as released and as rows of the hub (Rajpurkar et al. 2018).

As released (1.1 and 2.0), ``{"data": [...]}`` with an article in each row::

    {"title": "Oxygen", "paragraphs": [{"context": "Oxygen is element 8.", "qas": [
        {"question": "Which element is oxygen?", "answers": [{"text": "8"}]}]}]}

On the hub, and in Danish sets such as ``alexandrainst/multi-wiki-qa:da`` and
``alexandrainst/scandi-qa:da@refs/convert/parquet``, a row for each question::

    {"title": "Oxygen", "context": "Oxygen is element 8.",
     "question": "Which element is oxygen?", "answers": {"text": ["8"], "answer_start": [18]}}

Related documents are those of the same article.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulerlib.sources.rows import Collection, Row, Schema, items, text


def _read_article(row: Row, collection: Collection) -> None:
    paragraphs = [
        (collection.document(context), paragraph)
        for paragraph in items(row["paragraphs"], "paragraphs")
        if (context := text(paragraph["context"], "context"))
    ]
    article = dict.fromkeys(number for number, _ in paragraphs)
    for number, paragraph in paragraphs:
        for asked in items(paragraph["qas"], "qas"):
            collection.ask(asked["question"], _answers(asked), [number], article)


def _article(row: Row) -> str:
    # Without a title, each document is an article of its own.
    return repr(row.get("title") or row["context"])


def _prepare_row(row: Row, collection: Collection) -> None:
    # A document comes again with each question about it.
    if context := text(row["context"], "context"):
        collection.articles.setdefault(_article(row), {})[collection.document(context)] = None


def _read_row(row: Row, collection: Collection) -> None:
    if context := text(row["context"], "context"):
        article = collection.articles[_article(row)]
        collection.ask(row["question"], _answers(row), [collection.document(context)], article)


def _answers(row: Row) -> list[Any]:
    """Return the answers of a question; none where the text does not answer it."""
    answers = row["answers"]
    if row.get("is_impossible"):
        return []
    texts = answers["text"] if isinstance(answers, Mapping) else answers
    texts = [texts] if isinstance(texts, str) else items(texts, "answers")
    return [answer["text"] if isinstance(answer, Mapping) else answer for answer in texts]


SCHEMAS = (
    Schema(
        recognizes=lambda row: "paragraphs" in row,
        read=_read_article,
        unfold=lambda content: content.get("data"),
        unit="article",
    ),
    Schema(lambda row: isinstance(row.get("context"), str), _read_row, prepare=_prepare_row),
)
