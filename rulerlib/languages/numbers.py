"""Normalize the numbers and dates of a language for scoring.

Metrics read "1234.5" and "3 May 1886". The file ``numbers.toml`` of a language pack describes how
the language writes these in digits and in words; without it only "1,234.5" is read. The file
affects no prompt, so it is not part of the pack's fingerprint.

>>> from rulerlib.languages import load
>>> plain = load("da").numbers.plain
>>> plain("12.500 kr. er 3,5 gange så meget."), plain("to hundrede og femogtyve")
('12500 kr. er 3.5 gange så meget.', '225')
>>> plain("3/5 1886"), plain("en hund"), plain("En.")
('3 maj 1886', 'en hund', '1')
>>> load("en").numbers.plain("twenty-five of 1,204 yards")
'25 of 1204 yards'

The entries of ``numbers.toml``:

=============================  ===================================================================
``thousands``, ``decimal``     the marks in "1.234,5"; no-break and thin spaces also count
``dates``                      regular expressions of dates in digits, with day, month, year
``months``                     the twelve names
``one``                        articles that also mean "one"
``words``, ``scales``          numbers below a hundred, and a hundred and a thousand
``compound``, ``joint``        the form of a unit and a ten in one word; "and" between numbers
=============================  ===================================================================
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any


def _any(words: Mapping[str, Any] | list[str]) -> str:
    """Return a pattern for any of these words, the longest first."""
    return "(?:" + "|".join(map(re.escape, sorted(words, key=len, reverse=True))) + ")"


class Numbers:
    """The form of numbers and dates in a language.

    Parameters
    ----------
    table
        The entries of ``numbers.toml``.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._months, self._one = list(table["months"]), set(table["one"])
        self._dates = [re.compile(rf"(?<!\d){date}(?!\d)") for date in table["dates"]]
        # In every language thousands may also be separated by a no-break or thin space.
        thousands = rf"[{re.escape(table['thousands'])}\u00a0\u2009\u202f]"
        decimal = re.escape(table["decimal"])
        # Not part of a longer row of digits and marks, such as an IP address.
        self._digits = re.compile(
            rf"(?<![\d.,])([1-9]\d{{0,2}}(?:{thousands}\d{{3}})+|\d+)(?:{decimal}(\d+))?(?![.,]?\d)"
        )
        words, scales = dict(table["words"]), table["scales"]
        units = {word: value for word, value in words.items() if 1 <= value < 10}
        units |= dict.fromkeys(self._one, 1)
        tens = {word: value for word, value in words.items() if value >= 20}
        for ten in tens:
            for unit in units:
                compound = table["compound"].format(unit=unit, ten=ten)
                words[compound] = tens[ten] + units[unit]
        # "twenty four" like "twenty-four".
        words |= {word.replace("-", " "): value for word, value in words.items()}
        self._values = words | scales | dict.fromkeys(self._one, 1)
        small, one, joint = _any(words), _any(table["one"]), re.escape(table["joint"])
        hundred, thousand = (
            _any([word for word, value in scales.items() if value == scale])
            for scale in (100, 1000)
        )

        def more(what: str) -> str:
            return rf"(?:{gap}(?:{joint}{gap})?{what}|{gap}{joint}{gap}{one})?"

        gap = r"(?:-|\s*)"
        below = rf"(?:(?:(?:{small}|{one}){gap})?{hundred}{more(small)}|{small})"
        above = rf"(?:(?:{below}|{one}){gap})?{thousand}{more(below)}"
        # A hyphen before a word is not a minus sign: "- two" and "-two" are items of a list.
        self._written = re.compile(rf"(?:(?<!\w)-)?\b(?:{above}|{below})\b", re.IGNORECASE)
        self._word = re.compile(_any(self._values))

    def plain(self, text: str) -> str:
        """Return a text with numbers as "12" and "1234.5", and dates as "3 maj 1886"."""
        text = unicodedata.normalize("NFC", text)
        # A text of this word alone.
        if text.strip(" .!\n").casefold() in self._one:
            return "1"
        for date in self._dates:
            text = date.sub(self._date, text)
        text = self._digits.sub(self._number, text)
        return self._written.sub(self._value, text)

    def _date(self, match: re.Match[str]) -> str:
        day, month = int(match["day"]), int(match["month"])
        if not (1 <= day <= 31 and 1 <= month <= 12):
            return match[0]
        return f"{day} {self._months[month - 1]} {match['year']}"

    def _number(self, match: re.Match[str]) -> str:
        whole, rest = re.sub(r"\D", "", match[1]), match[2]
        return whole if rest is None else f"{whole}.{rest}"

    def _value(self, match: re.Match[str]) -> str:
        """Return the value of a number in words."""
        total = part = 0
        for word in self._word.findall(match[0].casefold()):
            value = self._values[word]
            if value == 1000:
                total, part = total + max(1, part) * value, 0
            else:
                part = max(1, part) * value if value == 100 else part + value
        return f"{total + part:g}" if total + part < 1e6 else match[0]
