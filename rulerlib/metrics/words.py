"""Words and numbers of a short answer, as the measures of reading comprehension compare them.

>>> normalized("The 1,234.50 yards!")
'1234.5 yards'
>>> normalized("(-5)") == normalized("5")
False
>>> normalized("Det var 12.500 kr.", "da"), normalized("elleve", "da")
('var 12500.0 kr', '11.0')
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from rulerlib import languages

Golds = Sequence[str | Sequence[str]]
"""All accepted answers, each as a text or as its spans."""

_SPACE = re.compile(r"\s")
_DIGIT = re.compile(r"\d")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Reading:
    """The rules of a language's pack for reading an answer.

    Attributes
    ----------
    articles
        A pattern of its articles, in small letters.
    last
        The word before the last item of an enumeration: ``"and"``.
    plain
        Returns a text whose numbers and dates stand as the measures read them.
    """

    articles: re.Pattern[str]
    last: str
    plain: Callable[[str], str]


@cache
def reading(language: str) -> Reading:
    """Return the rules for reading an answer in a language, given its code.

    Raises
    ------
    ParameterError
        If there is no such language.
    """
    pack = languages.load(language)
    articles = re.compile(rf"\b(?:{'|'.join(map(re.escape, pack.articles))})\b")
    plain = pack.numbers.plain if pack.numbers else str
    return Reading(articles, pack.text("list", "last").strip(), plain)


def spans_of(gold: str | Sequence[str]) -> tuple[str, ...]:
    """Return the spans of an accepted answer."""
    return (gold,) if isinstance(gold, str) else tuple(gold)


def written(gold: str | Sequence[str]) -> str:
    """Return an accepted answer as one text: ``"Ribe, Skive"``."""
    return ", ".join(spans_of(gold))


def best(values: Collection[float]) -> float:
    """Return the largest value, that of the gold which suits an answer best; 0 without any."""
    return max(values, default=0.0)


def f1(common: int, said: int, wanted: int) -> float:
    """Return the F1 of two bags from the numbers of words, those in both first; 0 to 1."""
    if not common:
        return 0.0
    precision, recall = common / said, common / wanted
    return 2 * precision * recall / (precision + recall)


def finite(token: str) -> float | None:
    """Return the number that Python reads in a token; None where it is none, or not finite.

    To Python "nan" and "infinity" are numbers, but in an answer they are words.
    """
    try:
        value = float(token) if _DIGIT.search(token) else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def number(token: str) -> float | None:
    """Return the number in a token, whatever punctuation stands around it; None without any."""
    value = finite(token)
    if value is None and _DIGIT.search(token):
        core = token.strip(string.punctuation)
        value = finite(core.replace(",", "") if _THOUSANDS.fullmatch(core) else core)
        if value is not None and "-" in token[: token.index(core)]:
            return -value
    return value


# The measures of one answer ask for the same texts.
@lru_cache(maxsize=256)
def normalized(text: str, language: str = "en", split: re.Pattern[str] = _SPACE) -> str:
    """Return a text in small letters, without punctuation and articles, its numbers as floats.

    Parameters
    ----------
    text, language
        The text, and the code of its language.
    split
        A pattern of what stands between two tokens, each of which may be a number.

    Returns
    -------
    str
        Words with a space between. A text of nothing but articles keeps them, and one of nothing
        but punctuation keeps that: the grade "A" is an answer, and "the" is another.

    Raises
    ------
    ParameterError
        If there is no such language.
    """
    form, words, articles = reading(language), list[str](), list[str]()
    small = form.plain(text).lower()
    for token in split.split(small):
        value = number(token)
        if value is None:
            token = token.translate(_PUNCTUATION)
            value = finite(token)
        articles += token.split()
        # Minus zero is zero.
        words += (form.articles.sub(" ", token) if value is None else str(value + 0.0)).split()
    return " ".join(words or articles or small.split())
