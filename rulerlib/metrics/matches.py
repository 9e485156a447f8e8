r"""Measures of what an answer holds: RULER's own, those of whole items, and of what is not there.

RULER looks for references anywhere in an answer (Hsieh et al. 2024):

>>> all_match("Det er 1234567 og 7654321.", ["1234567", "7654321"])
1.0
>>> recall("Det er 1234567.", ["1234567", "7654321"])
0.5
>>> part_match("Aarhus", ["København", "Århus"])
0.0

So 68844777777777 counts as 6884477, and an answer that names every word there is counts as the
right ten. The measures of items cannot be fooled: an answer is read as the whole items that it
says, in any order, each counted once, and these are held against the references:

>>> exact_items("They are 12 and 34.", ["34", "12"]), exact_items("12, 34, 56", ["34", "12"])
(1.0, 0.0)
>>> item_recall("68844777777777", ["6884477"]), item_recall("12, 34, 56", ["34", "12"])
(0.0, 1.0)
>>> round(item_precision("12, 34, 56", ["34", "12"]), 2), over_answering("12, 34, 56", ["34", "12"])
(0.67, 1.0)

Where something may not be there, an answer says either that there is none or something else, and
no answer counts as both:

>>> says_none("None."), says_none("1234567. If there were none, I would say so.")
(True, False)
>>> found_or_none("It is 1234567.", ["1234567"]), found_or_none("It is 1234567.", ["none"])
(1.0, 0.0)
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Sequence

from rulerlib import languages

_CONTROL = re.compile(r"[\x00-\x1f]")


def normalize(text: str) -> str:
    """Return a text to compare: NFKC and case-folded, so that æ, ø, å match however encoded."""
    if text.isascii():
        return text.lower()
    # Folding can undo the normal form (it turns some letters into several), hence twice.
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def normalized(texts: Iterable[str]) -> list[str]:
    """Return texts normalized, all of them in one go."""
    texts = list(texts)
    if not texts:
        return texts
    together = normalize("\0".join(texts)).split("\0")
    # No seam was found where a text itself holds the separator.
    return together if len(together) == len(texts) else [*map(normalize, texts)]


def clean(pred: str) -> str:
    """Return a prediction as RULER's script takes it: control characters become newlines."""
    text = pred.strip()
    # What can be printed has no control character.
    return text if text.isprintable() else _CONTROL.sub("\n", text).strip()


# All measures of an answer ask for the same.
@functools.lru_cache(4)
def _folded(pred: str, references: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return a prediction cleaned and normalized, and its references normalized."""
    return normalize(clean(pred)), normalized(references)


def appear(pred: str, references: Sequence[str]) -> list[bool]:
    """Return whether each reference stands in the prediction, which all the rules below count."""
    text, wanted = _folded(pred, tuple(references))
    return [reference in text for reference in wanted]


def all_match(pred: str, references: Sequence[str]) -> float:
    """Return 1 if every reference appears in the prediction, else 0: the strict rule."""
    hits = appear(pred, references)
    # Without references nothing was asked for, and nothing is found, as in `recall`.
    return float(bool(hits) and all(hits))


def recall(pred: str, references: Sequence[str]) -> float:
    """Return the share of references that appear in the prediction, 0 to 1.

    RULER's script calls the mean of this ``string_match_all``, though it gives
    part of the points for part of the list.
    """
    hits = appear(pred, references)
    return sum(hits) / len(hits) if hits else 0.0


def part_match(pred: str, references: Sequence[str]) -> float:
    """Return 1 if any one reference appears in the prediction, else 0.

    RULER's ``string_match_part``, for question answering.
    """
    return float(any(appear(pred, references)))


def word_errors(pred: str, reference: str) -> float:
    """Return the word error rate: words to insert, delete or replace, over those of the reference.

    >>> word_errors("the cat sat down", "the cat sat"), word_errors("", "a b")
    (0.3333333333333333, 1.0)
    """
    words, wanted = pred.split(), reference.split()
    row = [*range(len(wanted) + 1)]
    for at, word in enumerate(words, 1):
        before, row = row, [at]
        for place, other in enumerate(wanted):
            row.append(min(before[place] + (word != other), before[place + 1] + 1, row[-1] + 1))
    return float(row[-1] / max(1, len(wanted)))


def soft(pred: str, reference: str) -> float:
    """Return 1 where a reference stands in an answer, else 1 less the word errors, at least 0."""
    pred, reference = pred.lower(), reference.lower()
    return 1.0 if reference in pred else max(0.0, 1 - word_errors(pred, reference))


# --- Whole items -------------------------------------------------------------------------------

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

    Where ``longer``, numbers and letters that run on beyond the longest reference have it too.
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
    packs = [*map(languages.load, languages.available())]
    # The Dutch "en" is an article of other languages.
    articles = {f" {article} " for pack in packs for article in pack.articles}
    lasts = sorted({pack.templates["list"]["last"] for pack in packs} - articles)
    return re.compile(rf"[,;\n]|\.(?:\s|$)|{'|'.join(map(re.escape, lasts))}")


# All measures of an answer ask for the same items.
@functools.lru_cache(4)
def _items(pred: str, references: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
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
    answer, expected = _folded(pred, references)
    # No letter, digit or hyphen goes on at either end.
    whole = {
        item
        for item in expected
        if item in answer and re.search(rf"(?<![\w-]){re.escape(item)}(?![\w-])", answer)
    }
    others = {*normalized(items)} - {*expected}
    return frozenset(whole | others), frozenset(expected)


def exact_items(pred: str, references: Sequence[str]) -> float:
    """Return 1 if an answer says every reference and nothing else of their kind, else 0.

    An item is whole: a number with no further digit, a word with no further letter. What has the
    form of the references is learned from them; of words, the items of a list count, because in a
    sentence every word would, and of phrases only those that are wanted. Order and repetition do
    not count.
    """
    items, wanted_items = _items(pred, tuple(references))
    return float(bool(wanted_items) and items == wanted_items)


def item_recall(pred: str, references: Sequence[str]) -> float:
    """Return the share of the references that an answer says as whole items, 0 to 1."""
    items, wanted_items = _items(pred, tuple(references))
    return len(items & wanted_items) / len(wanted_items) if wanted_items else 0.0


def item_precision(pred: str, references: Sequence[str]) -> float:
    """Return the share of the items of an answer that are references, 0 to 1; 0 without items."""
    items, wanted_items = _items(pred, tuple(references))
    return len(items & wanted_items) / len(items) if items else 0.0


def over_answering(pred: str, references: Sequence[str]) -> float:
    """Return 1 if an answer says more different items than there are references, else 0."""
    items, wanted_items = _items(pred, tuple(references))
    return float(bool(wanted_items) and len(items) > len(wanted_items))


# --- What may not be there ---------------------------------------------------------------------

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
    _, phrases = _none()
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
    phrases, _ = _none()
    return bool(references) and all(normalize(reference) in phrases for reference in references)


@functools.cache
def _none() -> tuple[frozenset[str], re.Pattern[str]]:
    """Return the phrases of all packs that say that there is none, and a pattern of any of them."""
    sections = (languages.load(code).templates.get("absent", {}) for code in languages.available())
    phrases = sorted({normalize(phrase) for table in sections for phrase in table.get("none", [])})
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, phrases))})(?!\w)")
    return frozenset(phrases), pattern
