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
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from rulerlib.languages import Language, read_toml
from rulerlib.sources.regions import WordLists, checked_wording
from rulerlib.sources.regions import read_wording as read_encyclopedia

# Records about one subject: one is asked about, the others are its near distractors.
EDITIONS = 4

# Rows of a record.
ROWS = (6, 10)

# Parts of a whole that a record states in per cent.
SHARES = 3

Value = int | Decimal | datetime.date | str
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Measure:
    """A number that each row has, from ``low`` to below ``high``.

    A ``distinct`` one can rank rows. A sum (``total``) is not asked for of four digits.
    """

    low: int
    high: int
    distinct: bool = True
    total: bool = True


@dataclass(frozen=True)
class Kind:
    """A kind of record.

    Attributes
    ----------
    pool
        The names of the encyclopedia that the subject's name is taken from.
    month, gap, years
        The month of the first row, after February, so that no leap day lies between two rows; the
        days from one row to the next; the years from one record of a subject to the next.
    label
        The field that a row is called by when it is measured: its name or its date.
    chronological, lasting
        Whether the rows are always told by date; and whether rows of one name are the same thing in
        all years, so that "how many parishes in 1880 and 1890" could mean two numbers.
    """

    pool: str
    measures: dict[str, Measure]
    month: int
    gap: tuple[int, int]
    years: tuple[int, int] = (2, 5)
    label: str = "name"
    chronological: bool = False
    lasting: bool = False
    conditions: Mapping[str, tuple[str, str, tuple[str, ...]]] = field(default_factory=dict)


KINDS: dict[str, Kind] = {
    name: Kind(**row | {"measures": {key: Measure(**it) for key, it in row["measures"].items()}})
    for name, row in read_toml(Path(__file__).with_name("chronicle.toml"), "the kinds").items()
}


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

# The slots that a question must have beside {subject} and {year}, by the key of its wording.
_ANY = {"count": "", "month": "month", "days": "a b", "first": "a b", "order": "", "nth": "nth"}
_MEASURED = {
    "sum": "names", "difference": "a b", "largest": "", "smallest": "", "nth": "nth", "sort": "",
    "compare": "a b", "years_sum": "name years", "years_difference": "name a b",
    "years_compare": "name a b", "years_largest": "name years", "years_smallest": "name years",
    "years_sort": "name years",
}  # fmt: skip
_TOTAL = {"total": ""}
_LIMIT = {"above": "limit", "below": "limit"}

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
    return checked_wording(path, "a chronicle", _templates)


def _templates(wording: dict[str, Any]) -> Iterator[tuple[str, list[str], set[str], set[str]]]:
    for part in ("dates", "words", "together", "ranks", "orders", "percent", "days"):
        wording["writing"][part]
    lists = set(wording["lists"])
    for name, kind in KINDS.items():
        table, here = wording["kinds"][name], f"[kinds.{name}"
        if len(table.get("names", range(ROWS[1]))) < ROWS[1]:
            raise ValueError(f"{here}] names are fewer than {ROWS[1]}")
        row = {"name", "date", *kind.measures} | ({"place"} if kind.conditions else set())
        results = ("won", "lost", "drawn") if kind.conditions else ("told",)
        yield f"{here}] subject", table["subject"], {"word"}, set()
        yield f"{here}] called", table["called"], {"name"}, set()
        yield f"{here}] opening", table["opening"], {"subject", "year", "person"}, set()
        yield f"{here}] filler", table["filler"], set(), lists
        for result in results:
            yield f"{here}.say] {result}", table["say"][result], row, lists
        for measure, told in table["asides"].items():
            yield f"{here}.asides] {measure}", told, {"value"}, {"name"}
        shares, slots_asked = table["shares"], {"subject", "year", "a"}
        yield f"{here}.shares] say", shares["say"], set("abcxyz"), set()
        yield f"{here}.shares] one", shares["one"], slots_asked, set()
        yield f"{here}.shares] two", shares["two"], slots_asked | {"b"}, set()
        tables = {"": _ANY | dict.fromkeys(kind.conditions, "")}
        for measure, bounds in kind.measures.items():
            table["nouns"][measure]
            limits = _LIMIT | (_TOTAL if bounds.total else {})
            tables[measure] = limits | (_MEASURED if bounds.distinct else {})
        for measure, keys in tables.items():
            questions = table["questions"][measure] if measure else table["questions"]
            for key, slots in keys.items():
                when = set() if key.startswith("years_") else {"year"}
                needed = {"subject", *slots.split()} | when
                where = f"{here}.questions{'.' * bool(measure)}{measure}] {key}"
                yield where, questions[key], needed, set()


# A passage gets further sentences until it has this many words (drawn for each).
WORDS = (130, 260)

# Numbers of another year that are told in passing.
ASIDES = (1, 3)


@dataclass(frozen=True)
class Operand:
    """A value that stands in a passage, given by its index, at characters [start, end).

    ``field`` is what it is: ``"name"``, ``"date"``, ``"place"``, ``"share"`` or a measure.
    """

    passage: int
    start: int
    end: int
    field: str
    value: Value


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
    distractors: tuple[Operand, ...]
    numbers: frozenset[Decimal]

    def operand(self, number: int, field: str) -> Operand:
        """Return where a field of a row stands, or the share of that number."""
        record = self.record
        value = record.shares[number][1] if field == "share" else record.rows[number][field]
        return Operand(self.index, *self.spans[number, field], field, value)


class _Sentence(NamedTuple):
    """A sentence, or two that belong together, with the characters of what is stated."""

    text: str
    stated: Mapping[tuple[int, str], Span] = {}
    aside: tuple[str, Value, Span] | None = None


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

    spans, distractors, start = dict[tuple[int, str], Span](), list[Operand](), 0
    for part in body:
        spans |= {what: (start + at, start + end) for what, (at, end) in part.stated.items()}
        if part.aside:
            measure, value, (at, end) = part.aside
            distractors.append(Operand(index, start + at, start + end, measure, value))
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
            bounds = KINDS[record.kind].measures[measure]
            others = {row[measure] for row in record.rows}
            while (value := rng.randrange(bounds.low, bounds.high)) in others:
                pass
            words["value"] = value
            told, spans = writing.fill(rng.choice(table["asides"][measure]), words, {})
            start, end = (place + len(text) + 1 for place in spans["value"])
            text, aside = f"{text} {told}", (measure, value, (start, end))
        yield _Sentence(text, stated, aside)


def _shares(record: ChronicleRecord, writing: Writing, rng: random.Random) -> _Sentence:
    """Return the sentence that says what parts of a whole some groups make up."""
    groups, parts = zip(*record.shares, strict=True)
    words = dict(zip("abcxyz", groups + parts, strict=True))
    told = writing.wording["kinds"][record.kind]["shares"]["say"]
    text, spans = writing.fill(rng.choice(told), words, {})
    return _Sentence(text, {(number, "share"): spans[slot] for number, slot in enumerate("xyz")})
