"""The passages of the chronicle: a record told in prose, and where in it each value stands."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from rulerlib.sources.chronicle_records import KINDS, Record, Value
from rulerlib.sources.chronicle_wording import Span, Writing
from rulerlib.sources.encyclopedia_wording import Words

# A passage gets further sentences until it has this many words (drawn for each).
WORDS = (130, 260)

# Numbers of another year that are told in passing.
ASIDES = (1, 3)


@dataclass(frozen=True)
class Operand:
    """A value that stands in a passage.

    Attributes
    ----------
    passage
        The index of the passage.
    start, end
        Characters [start, end) of its text.
    field
        What it is: ``"name"``, ``"date"``, ``"place"``, ``"share"`` or a measure.
    value
        What it says: a number, a date, or the text itself.
    """

    passage: int
    start: int
    end: int
    field: str
    value: Value


@dataclass(frozen=True)
class Passage:
    """A record, told.

    Attributes
    ----------
    index
        Its place in the chronicle.
    record
        What it tells.
    text
        One paragraph.
    spans
        Characters [start, end) of the text that state a value, by the number of its row or share
        in the record, and its field.
    distractors
        Values of another year, told in passing.
    numbers
        All numbers that stand in the text, in digits or words.
    """

    index: int
    record: Record
    text: str
    spans: Mapping[tuple[int, str], Span]
    distractors: tuple[Operand, ...]
    numbers: frozenset[Decimal]

    def operand(self, number: int, field: str) -> Operand:
        """Return where a field of a row stands, or the share of that number.

        Raises
        ------
        IndexError, KeyError
            If the record has no such row, share or field, or the text does not state it.
        """
        record = self.record
        value = record.shares[number][1] if field == "share" else record.rows[number][field]
        return Operand(self.index, *self.spans[number, field], field, value)


class _Sentence(NamedTuple):
    """A sentence, or two that belong together, with the characters of what it states."""

    text: str
    stated: Mapping[tuple[int, str], Span] = {}
    aside: tuple[str, Value, Span] | None = None


def tell(index: int, record: Record, writing: Writing, rng: random.Random) -> Passage:
    """Return a record as a passage of 120 to 400 words.

    Rows are told in their order. A number of another year follows the row that it belongs to,
    the shares stand before the rows or after them, and sentences that state nothing stand
    anywhere after the opening, until the passage is long enough.
    """
    table = writing.wording["kinds"][record.kind]
    words = Words({}, writing.wording["lists"], rng)
    words |= {"subject": record.subject, "person": record.person, "year": str(record.year)}
    opening, _ = writing.fill(rng.choice(table["opening"]), words, table["nouns"])
    body = list(_rows(record, words, writing, rng))
    shares = _shares(record, writing, rng)
    body.insert(rng.choice((0, len(body))), shares)
    body.insert(0, _Sentence(opening))
    size, target = sum(len(each.text.split()) for each in body), rng.randint(*WORDS)
    for filler in rng.sample(table["filler"], len(table["filler"])):
        if size >= target:
            break
        sentence, _ = writing.fill(filler, words, table["nouns"])
        size += len(sentence.split())
        body.insert(rng.randint(1, len(body)), _Sentence(sentence))

    spans, distractors, start = dict[tuple[int, str], Span](), list[Operand](), 0
    for each in body:
        spans |= {what: (start + at, start + end) for what, (at, end) in each.stated.items()}
        if each.aside:
            measure, value, (at, end) = each.aside
            distractors.append(Operand(index, start + at, start + end, measure, value))
        start += len(each.text) + 1
    text = " ".join(each.text for each in body)
    numbers = frozenset(writing.numbers(text))
    return Passage(index, record, text, spans, tuple(distractors), numbers)


def _rows(
    record: Record, words: Words, writing: Writing, rng: random.Random
) -> Iterator[_Sentence]:
    """Yield a sentence for each row, and after some of them a number of another year."""
    table = writing.wording["kinds"][record.kind]
    asides = {*rng.sample(range(len(record.rows)), rng.randint(*ASIDES))}
    # All wordings once in any order before one comes again.
    ways = {
        result: itertools.cycle(rng.sample(told, len(told)))
        for result, told in table["say"].items()
    }
    for number, row in enumerate(record.rows):
        words |= row
        text, spans = writing.fill(next(ways[row["result"]]), words, table["nouns"])
        stated = {(number, field): span for field, span in spans.items() if field in row}
        aside = None
        if number in asides:
            measure = rng.choice(list(table["asides"]))
            each = KINDS[record.kind].measures[measure]
            others = {row[measure] for row in record.rows}
            while (value := rng.randrange(each.low, each.high)) in others:
                pass
            words["value"] = value
            told, spans = writing.fill(rng.choice(table["asides"][measure]), words, {})
            start, end = (place + len(text) + 1 for place in spans["value"])
            text, aside = f"{text} {told}", (measure, value, (start, end))
        yield _Sentence(text, stated, aside)


def _shares(record: Record, writing: Writing, rng: random.Random) -> _Sentence:
    """Return the sentence that says what parts of a whole some groups make up."""
    groups, parts = zip(*record.shares, strict=True)
    words = dict(zip("abcxyz", groups + parts, strict=True))
    told = writing.wording["kinds"][record.kind]["shares"]["say"]
    text, spans = writing.fill(rng.choice(told), words, {})
    return _Sentence(text, {(number, "share"): spans[slot] for number, slot in enumerate("xyz")})
