"""A fictional chronicle: what happened to clubs, ships, markets and districts, told in prose.

Each subject has a record for each of several years: a table of matches, ports of call, market days
or parishes, in which the same names come up with other numbers. The passages on one subject are
near distractors of each other, and a question may need two or three of them. The kinds of records
are in ``chronicle.toml`` beside this file, their wording in ``chronicle.toml`` of a language; a new
language needs no Python.
"""

from __future__ import annotations

import datetime
import itertools
import random
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rulerlib import languages
from rulerlib.languages.names import Names
from tools.documents.encyclopedia import HERE, Words, genitive, read_wording, spell_date

KINDS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "chronicle.toml").read_text("utf-8"))
"""The kinds of records."""

# Records about one subject, rows of a record, and parts of a whole that it states in per cent.
EDITIONS, ROWS, SHARES = 4, (6, 10), 3

# Towns that a subject uses: one for its own name, the others for rows.
TOWNS = 12

# The years of the first records, and how many per cent each part of a whole is.
FIRST_YEARS, SHARE = (1861, 1899), (6, 32)

# A passage gets further sentences until it has this many words (drawn for each).
WORDS = (130, 260)

# Numbers of another year that are told in passing.
ASIDES = (1, 3)

# Numbers up to this may be written as words in a text.
SPELLED = 12

Value = int | Decimal | datetime.date | str
Row = dict[str, Any]
Span = tuple[int, int]

_SLOT = re.compile(r"\{([a-z]+(?:_[a-z]+)?)\}")
_WORD = re.compile(r"[^\W\d]+")


@dataclass(frozen=True)
class Passage:
    """A record and the paragraph that tells it.

    ``rows`` have ``name``, ``date`` and the measures of their kind, a match also ``place``,
    ``side`` and ``result``. ``shares`` are groups with their per cent of a larger whole. ``spans``
    are the characters that state a value, by the number of its row or share and its field, and
    ``numbers`` all numbers of the text.
    """

    kind: str
    subject: str
    year: int
    rows: list[Row]
    shares: list[tuple[str, Decimal]]
    text: str
    spans: dict[tuple[int, str], Span]
    numbers: set[Decimal]


class Writing:
    """The way a language writes the chronicle: its wording, numbers, dates and sentences."""

    def __init__(self, code: str) -> None:
        self.language = languages.load(code)
        self.wording = read_wording(code, "chronicle")
        self.forms = self.wording["writing"]
        self.format = self.language.section("names")["format"]
        # One and nought are never an answer.
        words = list(enumerate(self.forms["words"]))[2:]
        self._words = {word: Decimal(number) for number, word in words}
        group, decimal = re.escape(self.format["thousands"]), re.escape(self.format["decimal"])
        self._number = re.compile(rf"\d+(?:{group}\d{{3}}(?!\d))*(?:{decimal}\d+)?")

    def number(self, value: int | Decimal) -> str:
        """Return a number in digits, ``12.500`` in Danish."""
        marks = {",": self.format["thousands"], ".": self.format["decimal"]}
        return f"{value:,}".translate(str.maketrans(marks))

    def month(self, date: datetime.date) -> str:
        """Return the name of a date's month."""
        return str(self.format["months"][date.month - 1])

    def spellings(self, value: Value) -> list[str]:
        """Return the ways to write a value, first the one that texts have (dates: no year)."""
        if isinstance(value, str):
            return [value]
        if isinstance(value, datetime.date):
            forms = self.forms["dates"] + self.format["date"]
            return [spell_date(form, value, self.format["months"]) for form in forms]
        written = [self.number(value), str(value).replace(".", self.format["decimal"])]
        if isinstance(value, int) and value < len(self.forms["words"]):
            written.append(self.forms["words"][value])
        return list(dict.fromkeys(written))

    def written(self, value: Value) -> str:
        """Return a value as texts have it."""
        return self.spellings(value)[0]

    def numbers(self, text: str) -> set[Decimal]:
        """Return all numbers of a text, in digits or in words."""
        marks = str.maketrans({self.format["thousands"]: "", self.format["decimal"]: "."})
        digits = {Decimal(number.translate(marks)) for number in self._number.findall(text)}
        words = self._words.keys() & set(_WORD.findall(text.casefold()))
        return digits | {self._words[word] for word in words}

    def fill(
        self, template: str, words: Mapping[str, Any], nouns: Mapping[str, list[str]]
    ) -> tuple[str, dict[str, Span]]:
        """Return a sentence, and for each value in it the characters [start, end) that state it.

        ``{carts}`` is the value of that name as `written`, ``{carts_word}`` the same in letters up
        to twelve, ``{carts_noun}`` the noun that agrees with it, ``{name_s}`` a Swedish genitive.
        ``nouns`` are the singular and plural of what each value counts.
        """
        spans = dict[str, Span]()
        text, *pairs = _SLOT.split(template)
        for slot, rest in zip(pairs[::2], pairs[1::2], strict=True):
            name, _, form = slot.partition("_")
            value = words[name]
            piece = self.written(value)
            if form == "noun":
                piece = nouns[name][value != 1]
            else:
                if form == "word" and value <= SPELLED:
                    piece = self.forms["words"][value]
                spans[name] = len(text), len(text) + len(piece)
            text += (genitive(piece) if form == "s" else piece) + rest
        return text, spans


class Chronicle:
    """The passages of a language and a seed."""

    def __init__(self, code: str, seed: int) -> None:
        self.writing, self._seed = Writing(code), seed
        self._names = Names(self.writing.language, seed)

    def passages(self, number: int) -> list[Passage]:
        """Return the passages on a subject, one for each of its years."""
        rng = random.Random(f"{self._seed}:subject:{number}")
        kind = list(KINDS)[number % len(KINDS)]
        table = self.writing.wording["kinds"][kind]
        towns = [self._names.word("town", number * TOWNS + at) for at in range(TOWNS)]
        pool = KINDS[kind]["pool"]
        word = towns[0] if pool == "town" else self._names.word(pool, number)
        subject, _ = self.writing.fill(rng.choice(table["subject"]), {"word": word}, {})
        gender = rng.choice(("he", "she"))
        person = self._names.full_name(rng, gender, self._names.word("surname", number))
        year, passages = rng.randint(*FIRST_YEARS), []
        for _ in range(EDITIONS):
            names = rng.sample(table.get("names", towns[1:]), rng.randint(*ROWS))
            rows = self._rows(rng, kind, names, datetime.date(year, KINDS[kind]["month"], 1))
            if not KINDS[kind]["chronological"] and rng.random() < 0.5:
                rng.shuffle(rows)
            groups = rng.sample(table["shares"]["groups"], SHARES)
            shares = list(zip(groups, _percents(rng), strict=True))
            words = {"subject": subject, "person": person, "year": str(year)}
            text, spans = self._tell(rng, kind, rows, shares, words)
            numbers = self.writing.numbers(text)
            passages.append(Passage(kind, subject, year, rows, shares, text, spans, numbers))
            year += rng.randint(*KINDS[kind]["years"])
        return passages

    def _rows(
        self, rng: random.Random, kind: str, names: list[str], start: datetime.date
    ) -> list[Row]:
        """Return a row for each name, by date."""
        values = {}
        for measure, bounds in KINDS[kind]["measures"].items():
            choices = range(bounds["low"], bounds["high"])
            distinct = bounds["distinct"]
            values[measure] = (
                rng.sample(choices, len(names)) if distinct else rng.choices(choices, k=len(names))
            )
        rows, date = list[Row](), start + datetime.timedelta(days=rng.randrange(28))
        for number, name in enumerate(names):
            row: Row = {"name": name, "date": date, "result": "told"}
            row |= {measure: values[measure][number] for measure in values}
            if kind == "season":
                lead = row["goals"] - row["against"]
                row["result"] = "won" if lead > 0 else "lost" if lead < 0 else "drawn"
                row["side"] = rng.choice(("home", "away"))
                row["place"] = self.writing.wording["kinds"][kind]["places"][row["side"]]
            rows.append(row)
            date += datetime.timedelta(days=rng.randint(*KINDS[kind]["gap"]))
        return rows

    def _tell(
        self,
        rng: random.Random,
        kind: str,
        rows: list[Row],
        shares: list[tuple[str, Decimal]],
        given: dict[str, str],
    ) -> tuple[str, dict[tuple[int, str], Span]]:
        """Return a record as a paragraph, and where in it each value is stated."""
        table, writing = self.writing.wording["kinds"][kind], self.writing
        words = Words(given, writing.wording["lists"], rng)
        opening, _ = writing.fill(rng.choice(table["opening"]), words, {})
        # Sentences, each with the characters of the values that it states.
        body: list[tuple[str, dict[tuple[int, str], Span]]] = []
        with_aside = rng.sample(range(len(rows)), rng.randint(*ASIDES))
        # All wordings are used once, in random order, before one comes again.
        ways = {
            result: itertools.cycle(rng.sample(told, len(told)))
            for result, told in table["say"].items()
        }
        for number, row in enumerate(rows):
            words |= row
            text, spans = writing.fill(next(ways[row["result"]]), words, table["nouns"])
            stated = {(number, name): span for name, span in spans.items() if name in row}
            if number in with_aside:
                measure = rng.choice(list(table["asides"]))
                bounds = KINDS[kind]["measures"][measure]
                others = {row[measure] for row in rows}
                free = [n for n in range(bounds["low"], bounds["high"]) if n not in others]
                words["value"] = rng.choice(free)
                aside, _ = writing.fill(rng.choice(table["asides"][measure]), words, {})
                text = f"{text} {aside}"
            body.append((text, stated))
        (a, x), (b, y), (c, z) = shares
        slots = {"a": a, "b": b, "c": c, "x": x, "y": y, "z": z}
        text, spans = writing.fill(rng.choice(table["shares"]["say"]), slots, {})
        stated = {(number, "share"): spans[slot] for number, slot in enumerate("xyz")}
        body.insert(rng.choice((0, len(body))), (text, stated))
        body.insert(0, (opening, {}))
        size, target = sum(len(text.split()) for text, _ in body), rng.randint(*WORDS)
        for filler in rng.sample(table["filler"], len(table["filler"])):
            if size >= target:
                break
            text, _ = writing.fill(filler, words, {})
            size += len(text.split())
            body.insert(rng.randint(1, len(body)), (text, {}))
        places, start = dict[tuple[int, str], Span](), 0
        for text, stated in body:
            places |= {what: (start + at, start + end) for what, (at, end) in stated.items()}
            start += len(text) + 1
        return " ".join(text for text, _ in body), places


def _percents(rng: random.Random) -> list[Decimal]:
    """Return different parts of a hundred, all whole or all with one decimal that is not 0."""
    parts = [Decimal(part) for part in rng.sample(range(*SHARE), SHARES)]
    if rng.random() < 0.5:
        return parts
    return [part + Decimal(rng.randint(1, 9)) / 10 for part in parts]
