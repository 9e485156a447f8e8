"""Answers to questions about something that may not be there.

Every answer says either that there is none or something else, and no answer counts as both.

>>> says_none("None."), says_none("1234567. If there were none, I would say so.")
(True, False)
>>> found_or_none("It is 1234567.", ["1234567"]), found_or_none("It is 1234567.", ["none"])
(1.0, 0.0)
>>> found_or_none("Tallet findes ikke.", ["findes ikke"]), found_or_none("findes ikke", ["1234567"])
(1.0, 0.0)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from rulerlib import languages
from rulerlib.metrics.ruler import all_match, clean, normalize

# What has the form of a key or a value: a number, a UUID or two words with a hyphen.
VALUE = re.compile(
    r"\d{5,}|(?<![0-9a-f])[0-9a-f]{8}-[0-9a-f]{4}-|(?<![\w-])[^\W\d_]{2,}-[^\W\d_]{2,}"
)

_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n")


def says_none(pred: str) -> bool:
    """Return whether an answer says that what it was asked for is not there.

    The first of its sentences counts that has a value or one of the phrases that the language packs
    list for this, in whole words and in any language: a model asked in Danish may well answer in
    English. An answer says none if that sentence has such a phrase, so that *the number for
    lamp-door is none* does, and what a model adds after its answer does not matter.
    """
    phrases = _pattern()
    for sentence in _SENTENCES.split(normalize(clean(pred)).replace("’", "'")):
        if phrases.search(sentence):
            return True
        if VALUE.search(sentence):
            return False
    return False


def found_or_none(pred: str, references: Sequence[str]) -> float:
    """Return 1 if an answer is right, also where nothing is there to be found, else 0.

    Where the references are a language's answer for that, the answer has to say so (`says_none`).
    Elsewhere every reference has to appear in it, and it may not say so.
    """
    if says_none(pred):
        return float(wants_none(references))
    return 0.0 if wants_none(references) else all_match(pred, references)


def wants_none(references: Sequence[str]) -> bool:
    """Return whether references say that what is asked for is not there."""
    phrases = _phrases()
    return bool(references) and all(normalize(each) in phrases for each in references)


@functools.cache
def _phrases() -> frozenset[str]:
    packs = map(languages.load, languages.available())
    return frozenset(
        normalize(phrase)
        for pack in packs
        for phrase in pack.templates.get("absent", {}).get("none", [])
    )


@functools.cache
def _pattern() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(_phrases())))})(?!\w)")
