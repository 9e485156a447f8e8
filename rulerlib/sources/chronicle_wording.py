"""The words of the fictional chronicle: read from a language's folder, checked, filled in.

They stand in ``languages/xx/chronicle.toml``; a new language needs no Python.

>>> from rulerlib.languages import load
>>> writing = Writing(load("da"))
>>> writing.number(12_500), writing.number(Decimal("3.5")), writing.numbers("den 4. maj, tolv år")
('12.500', '3,5', {Decimal('4'), Decimal('12')})
>>> text, spans = writing.fill("Den {date} kom {carts_word} {carts_noun}.", {
...     "date": datetime.date(1911, 5, 4), "carts": 3}, {"carts": ["vogn", "vogne"]})
>>> text, [text[start:end] for start, end in spans.values()]
('Den 4. maj kom tre vogne.', ['4. maj', 'tre'])
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from rulerlib.errors import DataError
from rulerlib.languages import Language, placeholders, read_toml
from rulerlib.sources.chronicle_records import KINDS, ROWS, Value
from rulerlib.sources.encyclopedia_wording import read_wording as read_encyclopedia

Span = tuple[int, int]

# Numbers up to this may be written as words in a text.
SPELLED = 12

# The slots that a question must have, by the key of its wording: {subject} besides, and {year}
# where it does not compare years.
_ANY = {
    "count": "",
    "month": "month",
    "days": "a b",
    "first": "a b",
    "order": "",
    "nth": "nth",
}
_MEASURED = {
    "sum": "names",
    "difference": "a b",
    "largest": "",
    "smallest": "",
    "nth": "nth",
    "sort": "",
    "compare": "a b",
    "years_sum": "name years",
    "years_difference": "name a b",
    "years_compare": "name a b",
    "years_largest": "name years",
    "years_smallest": "name years",
    "years_sort": "name years",
}
_TOTAL = {"total": ""}
_LIMIT = {"above": "limit", "below": "limit"}

_WORD = re.compile(r"[^\W\d]+")
_SLOT = re.compile(r"\{([a-z]+(?:_[a-z]+)?)\}")


class Writing:
    """The way a language writes the chronicle: its wording, numbers, dates and sentences.

    Parameters
    ----------
    language
        Its folder must have a ``chronicle.toml`` and an ``encyclopedia.toml``.

    Raises
    ------
    DataError
        If one of them cannot be read, or lacks something.
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self.encyclopedia = read_encyclopedia(language.folder / "encyclopedia.toml")
        self.wording = read_wording(language.folder / "chronicle.toml")
        self._forms = self.wording["writing"]
        self._format = self.encyclopedia["format"]
        # One and nought are also an article and a saying, and never an answer.
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
        """Return all numbers that stand in a text, in digits or (from two to twenty) in words."""
        marks = str.maketrans({self._format["thousands"]: "", self._format["decimal"]: "."})
        digits = {Decimal(each.translate(marks)) for each in self._number.findall(text)}
        words = self._words.keys() & set(_WORD.findall(text.casefold()))
        return digits | {self._words[word] for word in words}

    def fill(
        self, template: str, words: Mapping[str, Any], nouns: Mapping[str, list[str]]
    ) -> tuple[str, dict[str, Span]]:
        """Return a sentence, and for each value in it the characters [start, end) that state it.

        Parameters
        ----------
        template
            ``{carts}`` is the value of that name as `written`, ``{carts_word}`` the same in
            letters up to twelve, ``{carts_noun}`` the noun that agrees with it.
        words, nouns
            The values, and for each noun its singular and plural.

        Raises
        ------
        KeyError
            If the template names something that is not there.
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
    """Return the text before the first slot, then each slot and the text after it."""
    return _SLOT.split(template)


@functools.cache
def read_wording(path: Path) -> dict[str, Any]:
    """Return the checked wording of a language, the tables of its ``chronicle.toml``.

    Raises
    ------
    DataError
        If the file cannot be read, lacks a kind, a question or a word, or has a template that
        lacks a value or has a name in braces that nothing would fill.
    """
    wording = read_toml(path, "a chronicle")
    try:
        for part in ("dates", "words", "together", "ranks", "orders", "percent", "days"):
            wording["writing"][part]
        for kind in KINDS:
            names = wording["kinds"][kind].get("names")
            if names is not None and len(names) < ROWS[1]:
                raise DataError(f"{path}: [kinds.{kind}] names are fewer than {ROWS[1]}.")
        for where, templates, needed, others in _templates(wording):
            if not templates:
                raise DataError(f"{path}: {where} is empty.")
            for template in templates:
                slots = [slot.partition("_")[0] for slot in placeholders(template)]
                for lacking in sorted(needed - {*slots}):
                    raise DataError(f"{path}: {where} lacks {{{lacking}}} in {template!r}.")
                for unknown in sorted({*slots} - needed - others):
                    raise DataError(f"{path}: {where} uses {{{unknown}}}, which nothing fills.")
    except KeyError as missing:
        raise DataError(f"{path}: {missing.args[0]!r} is missing.") from missing
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as a chronicle ({error}).") from error
    return wording


def _templates(wording: dict[str, Any]) -> Iterator[tuple[str, list[str], set[str], set[str]]]:
    """Yield all templates by their place, with the names they must use and those they may."""
    lists = set(wording["lists"])
    for name, kind in KINDS.items():
        table, here = wording["kinds"][name], f"[kinds.{name}"
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
        shares, asked = table["shares"], {"subject", "year", "a"}
        yield f"{here}.shares] say", shares["say"], set("abcxyz"), set()
        yield f"{here}.shares] one", shares["one"], asked, set()
        yield f"{here}.shares] two", shares["two"], asked | {"b"}, set()
        tables = {"": _ANY | dict.fromkeys(kind.conditions, "")}
        for measure, each in kind.measures.items():
            table["nouns"][measure]
            limits = _LIMIT | (_TOTAL if each.total else {})
            tables[measure] = limits | (_MEASURED if each.distinct else {})
        for measure, keys in tables.items():
            questions = table["questions"][measure] if measure else table["questions"]
            for key, slots in keys.items():
                when = set() if key.startswith("years_") else {"year"}
                needed = {"subject", *slots.split()} | when
                where = f"{here}.questions{'.' * bool(measure)}{measure}] {key}"
                yield where, questions[key], needed, set()
