r"""Measures of whether an answer contains the references.

RULER searches for references anywhere in an answer (Hsieh et al. 2024):

>>> all_match("Det er 1234567 og 7654321.", ["1234567", "7654321"])
1.0
>>> recall("Det er 1234567.", ["1234567", "7654321"])
0.5
>>> part_match("Aarhus", ["København", "Århus"])
0.0

So 68844777777777 counts as 6884477, and an answer with every word of the list counts as right. The
measures of items compare whole items, in any order and each once:

>>> exact_items("They are 12 and 34.", ["34", "12"]), exact_items("12, 34, 56", ["34", "12"])
(1.0, 0.0)
>>> item_recall("68844777777777", ["6884477"]), item_recall("12, 34, 56", ["34", "12"])
(0.0, 1.0)
>>> round(item_precision("12, 34, 56", ["34", "12"]), 2), over_answering("12, 34, 56", ["34", "12"])
(0.67, 1.0)

If a needle can be absent, an answer either says so or does not:

>>> says_none("None."), says_none("1234567. If there were none, I would say so.")
(True, False)
>>> found_or_none("It is 1234567.", ["1234567"]), found_or_none("It is 1234567.", ["none"])
(1.0, 0.0)
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Sequence

from rulerlib import languages


def normalize(text: str) -> str:
    """Return a text to compare: NFKC and case-folded, so that æ, ø, å match however encoded."""
    # Folding can undo the normal form (it turns some letters into several), hence twice.
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def clean(pred: str) -> str:
    """Return a prediction with control characters as newlines, as in RULER's script."""
    return re.sub(r"[\x00-\x1f]", "\n", pred.strip()).strip()


def appear(pred: str, references: Sequence[str]) -> list[bool]:
    """Return whether each reference appears in the prediction; a blank one never does."""
    text = normalize(clean(pred))
    return [bool(wanted.strip()) and wanted in text for wanted in map(normalize, references)]


def all_match(pred: str, references: Sequence[str]) -> float:
    """Return 1 if every reference appears in the prediction, else 0: the strict rule."""
    hits = appear(pred, references)
    # Without references the score is 0, as in `recall`.
    return float(bool(hits) and all(hits))


def recall(pred: str, references: Sequence[str]) -> float:
    """Return the share of references that appear in the prediction, 0 to 1.

    The mean of this is ``string_match_all`` of RULER's script.
    """
    hits = appear(pred, references)
    return sum(hits) / len(hits) if hits else 0.0


def part_match(pred: str, references: Sequence[str]) -> float:
    """Return 1 if any one reference appears in the prediction, else 0.

    RULER's ``string_match_part``, for question answering.
    """
    return float(any(appear(pred, references)))


# --- Whole items -------------------------------------------------------------------------------

_UUID = r"(?<![0-9a-fA-F-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9a-fA-F-])"
_HYPHENATED = r"(?<![\w-])[^\W\d_]+(?:-[^\W\d_]+)+(?![\w-])"

WORD = re.compile(r"(?<!\w)[^\W\d_]{2,}(?!\w)")
"""A word of letters."""

_LETTERS = re.compile(r"[^\W\d_]+")
_UUIDS = re.compile(_UUID)


def is_uuid(value: str) -> bool:
    """Return whether a value is a UUID."""
    return _UUIDS.fullmatch(value) is not None


def form(references: Sequence[str], longer: bool = False) -> re.Pattern[str]:
    """Return a pattern of what a value looks like, learned from the references.

    If ``longer``, numbers and words longer than the longest reference match as well.
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
    for letters in ("[A-Z]", "[a-z]"):
        if all(re.fullmatch(f"{letters}+", value) for value in values):
            return re.compile(rf"(?<!\w){letters}{count}(?!\w)")
    if all("-" in value for value in values):
        return re.compile(_HYPHENATED)
    return WORD


# Emphasis, code and quotes. An apostrophe inside a word stays.
_MARKUP = re.compile(r"```\w*|[*`\"“”„«»]|(?<!\w)['‘’]|['‘’](?!\w)")
_UNDERSCORES = re.compile(r"(?<!\w)(_{1,2})([^\W_](?:[^_\n]*[^\W_])?)\1(?!\w)")
_BULLET = re.compile(r"^ *[-+•‣◦·–—>]+ *", re.MULTILINE)


def plain(text: str) -> str:
    """Return a text without emphasis, quotes and bullets.

    >>> plain('- **dog**: "cat"').split()
    ['dog', ':', 'cat']
    """
    return _BULLET.sub("", _UNDERSCORES.sub(r"\2", _MARKUP.sub(" ", text)))


# The header of a table above its line of dashes; a label, which no count follows; a note in
# brackets or a count; the number of an entry.
_HEADER = re.compile(r"^.*\n(?=.*-)(?=.*\|)[-|: ]+$", re.MULTILINE)
_LABEL = re.compile(r"^[^:\n]*:(?! *[x×]?\d)", re.MULTILINE)
_NOTE = re.compile(r"(?<=[^\W\d_]) *(?:\([^()\n]*\)|[-–—→=:>]+ ?\d+ [^\W\d_]+)")
_NUMBER = re.compile(r"(?<![\w.,])\(?\d+(?:[.):]| -)(?! ?(?:\d|$))", re.MULTILINE)
_LINE = re.compile(r"\n|[.!?…]+(?=\s|$)")


def listed(text: str) -> list[str]:
    r"""Return the single words of a list: lines, a table or JSON, with counts after the words.

    In a sentence, the words of its enumeration count:

    >>> listed("1. **dog**: 12\n2. **cat**: 11"), listed("The words are dog, cat and bee.")
    (['dog', 'cat'], ['dog', 'cat', 'bee'])
    >>> listed("dog cat bee"), listed("I do not know.")
    (['dog', 'cat', 'bee'], [])
    """
    text = _NUMBER.sub("\n", plain(_HEADER.sub("", text)))
    lines = _LINE.split(_LABEL.sub("", _NOTE.sub("", text)))
    return [item for line in lines for item in _enumerated(line) if _LETTERS.fullmatch(item)]


def _enumerated(line: str) -> list[str]:
    """Return the words that a line enumerates."""
    pieces = [
        [word for word in piece.split() if not word.strip("x×").isdecimal()]
        for piece in _separators().split(f" {line} ")
    ]
    pieces = [words for words in pieces if words]
    if len(pieces) == 1:
        words = pieces[0]
        # Words separated by spaces are a sentence if only the first one has a capital.
        is_sentence = words[0][0].isupper() and any(word[0].islower() for word in words[1:])
        return [] if is_sentence else words
    items = list[str]()
    for words, after in itertools.pairwise([*pieces, []]):
        # "The words are dog, cat"
        if len(words) == 1 or (len(after) == 1 and not items):
            items.append(words[-1])
    return items


@functools.cache
def _separators() -> re.Pattern[str]:
    """Return the pattern of what separates words of a list, with "and" in all languages."""
    packs = [languages.load(code) for code in languages.available()]
    words = "|".join({re.escape(pack.templates["list"]["last"].strip()) for pack in packs})
    return re.compile(rf"[,;:|/&()\[\]{{}}•‣◦·=→]|\s[-–—]+>?\s|\s(?:{words})(?=\s)")


# Four measures need the same items. Without the cache, scoring an answer takes three times as long.
@functools.lru_cache(1)
def _items(pred: str, references: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the items of an answer and the expected items, normalized."""
    text, expected = clean(pred), {*map(normalize, references)}
    if all(_LETTERS.fullmatch(reference) and not reference.isupper() for reference in references):
        # Any word of a sentence would be an item, so only lists count.
        items = listed(text)
    elif any(" " in reference for reference in references):
        # Only the phrase itself has the form of a phrase.
        items = []
    else:
        items = form(references, longer=True).findall(plain(text))
    answer = normalize(plain(text))
    # No letter, digit or hyphen continues the item at either end.
    whole = {
        item for item in expected if re.search(rf"(?<![\w-]){re.escape(item)}(?![\w-])", answer)
    }
    others = {*map(normalize, items)} - expected
    return frozenset(whole | others), frozenset(expected)


def exact_items(pred: str, references: Sequence[str]) -> float:
    """Return 1 if an answer has every reference and nothing else of their form, else 0.

    Items are whole: a number without a further digit, a word without a further letter. Their form
    is that of the references. Words count only as items of a list, and phrases only if they are
    references. Order and repetition do not matter.
    """
    items, wanted_items = _items(pred, tuple(references))
    return float(bool(wanted_items) and items == wanted_items)


def item_recall(pred: str, references: Sequence[str]) -> float:
    """Return the share of the references that an answer has as whole items, 0 to 1."""
    items, wanted_items = _items(pred, tuple(references))
    return len(items & wanted_items) / len(wanted_items) if wanted_items else 0.0


def item_precision(pred: str, references: Sequence[str]) -> float:
    """Return the share of the items of an answer that are references, 0 to 1; 0 without items."""
    items, wanted_items = _items(pred, tuple(references))
    return len(items & wanted_items) / len(items) if items else 0.0


def over_answering(pred: str, references: Sequence[str]) -> float:
    """Return 1 if an answer has more different items than there are references, else 0."""
    items, wanted_items = _items(pred, tuple(references))
    return float(bool(wanted_items) and len(items) > len(wanted_items))


# --- Absent needles ------------------------------------------------------------------------------

# What has the form of a key or a value: a number, a UUID or two words with a hyphen.
VALUE = re.compile(
    r"\d{5,}|(?<![0-9a-f])[0-9a-f]{8}-[0-9a-f]{4}-|(?<![\w-])[^\W\d_]{2,}-[^\W\d_]{2,}"
)

_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n")


def says_none(pred: str) -> bool:
    """Return whether an answer says that the needle is absent.

    The first sentence with a value or with a phrase such as "none" decides. Phrases come from the
    language packs, as whole words and in any language: a model asked in Danish can answer in
    English. A sentence with both, such as *the number for lamp-door is none*, says none.
    """
    _, phrases = _none()
    for sentence in _SENTENCES.split(normalize(clean(pred)).replace("’", "'")):
        if phrases.search(sentence):
            return True
        if VALUE.search(sentence):
            return False
    return False


def found_or_none(pred: str, references: Sequence[str]) -> float:
    """Return 1 if an answer is right, else 0; the needle can be absent.

    If the references are a language's word for "none", the answer must say so (`says_none`).
    Otherwise it must contain every reference, and must not say so.
    """
    if says_none(pred):
        return float(wants_none(references))
    return 0.0 if wants_none(references) else all_match(pred, references)


def wants_none(references: Sequence[str]) -> bool:
    """Return whether the references say that the needle is absent."""
    phrases, _ = _none()
    return bool(references) and all(normalize(reference) in phrases for reference in references)


@functools.cache
def _none() -> tuple[frozenset[str], re.Pattern[str]]:
    """Return the phrases for "none" of all packs, and a pattern of any of them."""
    sections = (languages.load(code).templates.get("absent", {}) for code in languages.available())
    phrases = sorted({normalize(phrase) for table in sections for phrase in table.get("none", [])})
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, phrases))})(?!\w)")
    return frozenset(phrases), pattern
