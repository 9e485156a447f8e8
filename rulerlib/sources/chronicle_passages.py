"""The passages of the chronicle: what happened, as rows, and how a language tells it in prose.

A record is a table before it is told: who it is about, the year, and a row of values for each
match, port, market day or parish. Each subject (a club, a ship, a market, a district) has several
records, some years apart, in which the same actors come up with other numbers. The kinds of records
stand in ``chronicle.toml`` beside this file, their words in ``chronicle.toml`` in a language's
folder; a new language needs no Python.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from rulerlib.errors import DataError
from rulerlib.languages import Language, read_toml
from rulerlib.parts import Part
from rulerlib.sources import slots
from rulerlib.sources.regions import WordLists
from rulerlib.sources.regions import read_wording as read_encyclopedia

# Records about one subject: one is asked about, the others are its near distractors.
EDITIONS = 4

# Rows of a record.
ROWS = (6, 10)

# Parts of a whole that a record states in per cent.
SHARES = 3

Value = int | Decimal | datetime.date | str
Row = Mapping[str, Any]


KINDS = read_toml(Path(__file__).with_name("chronicle.toml"), "the kinds")
"""The kinds of records by name."""


@dataclass(frozen=True)
class ChronicleRecord:
    """What is true of one season, voyage, market or census; rows are in the order they are told in.

    Each has ``name``, ``date`` and the measures of its kind; a match also ``place``, ``side`` and
    ``result``. ``shares`` are groups with the per cent that each makes up of a larger whole.
    """

    kind: str
    subject: str
    person: str
    year: int
    rows: tuple[Row, ...]
    shares: tuple[tuple[str, Decimal], ...]


Span = tuple[int, int]

SPELLED = 12  # Numbers up to this may be written as words in a text.

_WORD = re.compile(r"[^\W\d]+")
_SLOT = re.compile(r"\{([a-z]+(?:_[a-z]+)?)\}")


class Writing:
    """The way a language writes the chronicle: its wording, numbers, dates and sentences.

    >>> from rulerlib.languages import load
    >>> writing = Writing(load("da"))
    >>> writing.number(12_500), writing.number(Decimal("3.5")), writing.numbers("4. maj, tolv år")
    ('12.500', '3,5', {Decimal('4'), Decimal('12')})
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self.encyclopedia = read_encyclopedia(language.folder / "encyclopedia.toml")
        self.wording = read_wording(language.folder / "chronicle.toml")
        self._forms = self.wording["writing"]
        self._format = self.encyclopedia["format"]
        # One and nought are never an answer.
        words = list(enumerate(self._forms["words"]))[2:]
        self._words = {word: Decimal(number) for number, word in words}
        self._marks = str.maketrans({",": self._format["thousands"], ".": self._format["decimal"]})
        group, decimal = map(re.escape, (self._format["thousands"], self._format["decimal"]))
        self._number = re.compile(rf"\d+(?:{group}\d{{3}}(?!\d))*(?:{decimal}\d+)?")

    def number(self, value: int | Decimal) -> str:
        """Return a number in digits, ``12.500`` in Danish."""
        return f"{value:,}".translate(self._marks)

    def month(self, date: datetime.date) -> str:
        """Return the name of a date's month."""
        return str(self._format["months"][date.month - 1])

    def written(self, value: Value) -> str:
        """Return a value as it stands in texts: a date without its year, a name as it is."""
        if isinstance(value, str):
            return value
        if isinstance(value, datetime.date):
            return self._dated(value, self._forms["dates"][0])
        return self.number(value)

    def spellings(self, value: Value) -> tuple[str, ...]:
        """Return the ways to write a value, first the one in which it stands in texts."""
        if isinstance(value, str):
            return (value,)
        if isinstance(value, datetime.date):
            forms = self._forms["dates"] + self._format["date"]
            return tuple(dict.fromkeys(self._dated(value, form) for form in forms))
        marked = self.number(value)
        plain = str(value).replace(".", self._format["decimal"])
        words = self._forms["words"]
        spelled = [words[value]] if isinstance(value, int) and value < len(words) else []
        return tuple(dict.fromkeys([marked, plain, *spelled]))

    def _dated(self, date: datetime.date, form: str) -> str:
        month, number = self.month(date), date.month
        return form.format(day=date.day, month=month, number=number, year=date.year)

    def numbers(self, text: str) -> set[Decimal]:
        """Return all numbers that stand in a text, in digits or in words."""
        marks = str.maketrans({self._format["thousands"]: "", self._format["decimal"]: "."})
        digits = {Decimal(number.translate(marks)) for number in self._number.findall(text)}
        words = self._words.keys() & set(_WORD.findall(text.casefold()))
        return digits | {self._words[word] for word in words}

    def fill(
        self, template: str, words: Mapping[str, Any], nouns: Mapping[str, list[str]]
    ) -> tuple[str, dict[str, Span]]:
        """Return a sentence, and for each value in it the characters [start, end) that state it.

        ``{carts}`` is the value of that name as `written`, ``{carts_word}`` the same in letters up
        to twelve, ``{carts_noun}`` the noun that agrees with it. ``words`` are the values, and
        ``nouns`` for each of them its singular and plural.
        """
        spans = dict[str, Span]()
        text, *pairs = _parts(template)
        for slot, rest in zip(pairs[::2], pairs[1::2], strict=True):
            name, _, form = slot.partition("_")
            value = words[name]
            if form == "noun":
                text += nouns[name][value != 1] + rest
                continue
            spelled = form == "word" and value <= SPELLED
            piece = self._forms["words"][value] if spelled else self.written(value)
            spans[name] = len(text), len(text) + len(piece)
            text += piece + rest
        return text, spans


@functools.cache
def _parts(template: str) -> list[str]:
    return _SLOT.split(template)


@functools.cache
def read_wording(path: Path) -> dict[str, Any]:
    """Return the checked wording of a language, the tables of its ``chronicle.toml``."""
    wording = slots.checked(path, "a chronicle")
    for kind in KINDS:
        if len(wording["kinds"][kind].get("names", range(ROWS[1]))) < ROWS[1]:
            raise DataError(f"{path}: kinds.{kind}.names are fewer than {ROWS[1]}.")
    return wording


# A passage gets further sentences until it has this many words (drawn for each).
WORDS = (130, 260)

# Numbers of another year that are told in passing.
ASIDES = (1, 3)


@dataclass(frozen=True)
class Passage:
    """A record, told in one paragraph.

    ``spans`` are the characters that state a value, by the number of its row or share, and its
    field; ``distractors`` are values of another year, ``numbers`` all that stand in the text.
    """

    index: int
    record: ChronicleRecord
    text: str
    spans: Mapping[tuple[int, str], Span]
    distractors: tuple[Part, ...]
    numbers: frozenset[Decimal]


class _Sentence(NamedTuple):
    """A sentence, or two that belong together, with the characters of what is stated."""

    text: str
    stated: Mapping[tuple[int, str], Span] = {}
    aside: tuple[str, Span] | None = None


def tell(index: int, record: ChronicleRecord, writing: Writing, rng: random.Random) -> Passage:
    """Return a record as a passage of 120 to 400 words.

    Sentences that state nothing stand anywhere after the opening, until it is long enough.
    """
    table = writing.wording["kinds"][record.kind]
    words = WordLists({}, writing.wording["lists"], rng)
    words |= {"subject": record.subject, "person": record.person, "year": str(record.year)}
    opening, _ = writing.fill(rng.choice(table["opening"]), words, table["nouns"])
    body = list(_rows(record, words, writing, rng))
    shares = _shares(record, writing, rng)
    body.insert(rng.choice((0, len(body))), shares)
    body.insert(0, _Sentence(opening))
    size, target = sum(len(part.text.split()) for part in body), rng.randint(*WORDS)
    for filler in rng.sample(table["filler"], len(table["filler"])):
        if size >= target:
            break
        sentence, _ = writing.fill(filler, words, table["nouns"])
        size += len(sentence.split())
        body.insert(rng.randint(1, len(body)), _Sentence(sentence))

    spans, distractors, start = dict[tuple[int, str], Span](), list[Part](), 0
    for part in body:
        spans |= {what: (start + at, start + end) for what, (at, end) in part.stated.items()}
        if part.aside:
            measure, (at, end) = part.aside
            distractors.append(Part("distractor", start + at, start + end, measure))
        start += len(part.text) + 1
    text = " ".join(part.text for part in body)
    numbers = frozenset(writing.numbers(text))
    return Passage(index, record, text, spans, tuple(distractors), numbers)


def _rows(
    record: ChronicleRecord, words: WordLists, writing: Writing, rng: random.Random
) -> Iterator[_Sentence]:
    """Yield a sentence for each row, after some with a number of another year."""
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
            bounds = KINDS[record.kind]["measures"][measure]
            others = {row[measure] for row in record.rows}
            while (value := rng.randrange(bounds["low"], bounds["high"])) in others:
                pass
            words["value"] = value
            told, spans = writing.fill(rng.choice(table["asides"][measure]), words, {})
            start, end = (place + len(text) + 1 for place in spans["value"])
            text, aside = f"{text} {told}", (measure, (start, end))
        yield _Sentence(text, stated, aside)


def _shares(record: ChronicleRecord, writing: Writing, rng: random.Random) -> _Sentence:
    """Return the sentence that says what parts of a whole some groups make up."""
    groups, parts = zip(*record.shares, strict=True)
    words = dict(zip("abcxyz", groups + parts, strict=True))
    told = writing.wording["kinds"][record.kind]["shares"]["say"]
    text, spans = writing.fill(rng.choice(told), words, {})
    return _Sentence(text, {(number, "share"): spans[slot] for number, slot in enumerate("xyz")})
