r"""Measures of lists that cannot be fooled: whole items, in any order, each counted once.

RULER looks for references anywhere in an answer, so that 68844777777777 counts as 6884477, and an
answer that names every word there is counts as the right ten. Here an answer is read as the items
that it says, and these are held against the references.

>>> exact_items("They are 12 and 34.", ["34", "12"]), exact_items("12, 34, 56", ["34", "12"])
(1.0, 0.0)
>>> item_recall("68844777777777", ["6884477"]), item_recall("12, 34, 56", ["34", "12"])
(0.0, 1.0)
>>> round(item_precision("12, 34, 56", ["34", "12"]), 2), over_answering("12, 34, 56", ["34", "12"])
(0.67, 1.0)
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence

from rulerlib import languages
from rulerlib.metrics.ruler import clean, folded, normalized, wanted

_UUID = r"(?<![0-9a-fA-F-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9a-fA-F-])"
_HYPHENATED = r"(?<![\w-])[^\W\d_]+(?:-[^\W\d_]+)+(?![\w-])"

WORD = re.compile(r"(?<!\w)[^\W\d_]{2,}(?!\w)")
"""A word of letters."""

_LETTERS = re.compile(r"[^\W\d_]+")
_SPACE = re.compile(r"\s")
_UUIDS = re.compile(_UUID)


def is_uuid(value: str) -> bool:
    """Return whether a value is a UUID."""
    return _UUIDS.fullmatch(value) is not None


def form(references: Sequence[str], longer: bool = False) -> re.Pattern[str]:
    """Return a pattern of what a value looks like, learned from the references.

    Parameters
    ----------
    longer
        Whether numbers and letters that run on beyond the longest reference have this form too.
    """
    values = [unicodedata.normalize("NFC", reference) for reference in references]
    if not values:
        return re.compile(r"(?!)")
    if all(map(is_uuid, values)):
        return _UUIDS
    low, high = min(map(len, values)), max(map(len, values))
    count = f"{{{low},}}" if longer else f"{{{low},{high}}}"
    if all(map(str.isdecimal, values)):
        return re.compile(rf"(?<!\d)\d{count}(?!\d)")
    if all(value.isascii() and value.isalpha() for value in values):
        for letters, is_case in (("[A-Z]", str.isupper), ("[a-z]", str.islower)):
            if all(map(is_case, values)):
                return re.compile(rf"(?<!\w){letters}{count}(?!\w)")
    if all("-" in value for value in values):
        return re.compile(_HYPHENATED)
    return WORD


def listed(text: str) -> list[tuple[str, int]]:
    """Return the items of a list of single words, numbered or with commas, and where each ends."""
    numbered = [(hit[1], hit.end()) for hit in re.finditer(r"\d+[.)]\s*([^\W\d_]+)", text)]
    if numbered:
        return numbered
    items, start = [], 0
    for seam in [*_seams().finditer(text), None]:
        end = seam.start() if seam else len(text)
        item = text[start:end].strip()
        if _LETTERS.fullmatch(item):
            items.append((item, end))
        start = seam.end() if seam else end
    return items


@functools.cache
def _seams() -> re.Pattern[str]:
    """Return a pattern of what stands between the items of a list, in any language."""
    packs = map(languages.load, languages.available())
    lasts = dict.fromkeys(pack.templates["list"]["last"] for pack in packs)
    return re.compile(rf"[,;\n]|\.(?:\s|$)|{'|'.join(map(re.escape, lasts))}")


# All measures of an answer ask for the same items.
@functools.lru_cache(4)
def _said(pred: str, references: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the items that an answer says, and those that it should say, normalized."""
    text = clean(pred)
    if all(_LETTERS.fullmatch(reference) and not reference.isupper() for reference in references):
        # In a sentence every word has the form of a word, so only a list has items.
        items = [item for item, _ in listed(text)]
    elif any(map(_SPACE.search, references)):
        # Nothing has the form of a phrase but the phrase itself.
        items = []
    else:
        items = form(references, longer=True).findall(text)
    answer, asked = folded(pred), frozenset(wanted(references))
    whole = {reference for reference in asked if _stands_whole(reference, answer)}
    others = {*normalized(items)} - asked
    return frozenset(whole | others), asked


def _stands_whole(item: str, text: str) -> bool:
    """Return whether an item stands where no letter, digit or hyphen goes on at either end."""
    start = text.find(item)
    while start >= 0:
        end = start + len(item)
        if not ((start and _goes_on(text[start - 1])) or _goes_on(text[end : end + 1])):
            return True
        start = text.find(item, start + 1)
    return False


def _goes_on(letter: str) -> bool:
    """Return whether a letter, a digit, an underscore or a hyphen stands there."""
    return letter.isalnum() or letter in ("_", "-")


def exact_items(pred: str, references: Sequence[str]) -> float:
    """Return 1 if an answer says every reference and nothing else of their kind, else 0.

    An item is whole: a number with no further digit, a word with no further letter. What has the
    form of the references is learned from them; of words, the items of a list count, because in a
    sentence every word would, and of phrases only those that are wanted. Order and repetition do
    not count.
    """
    said, asked = _said(pred, tuple(references))
    return float(bool(asked) and said == asked)


def item_recall(pred: str, references: Sequence[str]) -> float:
    """Return the share of the references that an answer says as whole items, 0 to 1."""
    said, asked = _said(pred, tuple(references))
    return len(said & asked) / len(asked) if asked else 0.0


def item_precision(pred: str, references: Sequence[str]) -> float:
    """Return the share of the items of an answer that are references, 0 to 1; 0 without items."""
    said, asked = _said(pred, tuple(references))
    return len(said & asked) / len(said) if said else 0.0


def over_answering(pred: str, references: Sequence[str]) -> float:
    """Return 1 if an answer says more different items than there are references, else 0."""
    said, asked = _said(pred, tuple(references))
    return float(bool(asked) and len(said) > len(asked))
