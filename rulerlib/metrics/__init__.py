r"""Measures of one answer against its references, and `Scoring`, which applies them.

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

`rulerlib.metrics.short_answers` compares a short answer with every accepted one. All measures have
names:

>>> MEASURES["em_raw"]("The Raiders", ["Raiders"]), MEASURES["em_norm"]("The Raiders", ["Raiders"])
(0.0, 1.0)
>>> MEASURES["drop_em"]("tre", ["3"]), MEASURES["drop_em"]("tre", ["3"], "da")
(0.0, 1.0)

`Scoring` goes from the text that a model wrote to named scores:

>>> scores = LIST.score("The values are 112 and 34.", ["12", "34"])
>>> scores["recall"], scores["item_recall"], scores["item_precision"]
(1.0, 0.5, 0.5)
>>> LIST.primary, LIST.ruler
('all_match', 'recall')
>>> READING.score("The Raiders", ["Raiders"])["em_norm"]
1.0
>>> READING.diagnose("They won.", ["Raiders"])["overlong"]
True
>>> READING.score("Dont&#233; lost \N{MINUS SIGN}5.", ["Dont\u00e9 lost -5"])["em_norm"]
1.0
"""

from __future__ import annotations

import functools
import html
import itertools
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rulerlib import languages
from rulerlib.errors import one_of
from rulerlib.metrics import short_answers
from rulerlib.metrics.short_answers import HYPHENS, Golds, answer_line, spans_of


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


# --- Names of measures, and scoring --------------------------------------------------------------

OF_GOLDS: dict[str, Callable[..., float]] = {
    "drop_em": short_answers.drop_em,
    "drop_f1": short_answers.drop_f1,
    "em_raw": short_answers.em_raw,
    "em_norm": short_answers.em_norm,
    "f1_words": short_answers.f1_words,
}
"""The measures of reading comprehension, from 0 to 1.

Each takes an answer, its golds (all accepted answers) and the code of a language.
"""

MEASURES: dict[str, Callable[..., float]] = {
    "all_match": all_match,
    "recall": recall,
    "part_match": part_match,
    "exact_items": exact_items,
    "item_recall": item_recall,
    "item_precision": item_precision,
    "over_answering": over_answering,
    "found_or_none": found_or_none,
    **OF_GOLDS,
}
"""Every measure by its name in tables, from 0 to 1; each takes an answer and its references."""

FAULTS = ("over_answering",)
"""The measures for which lower is better; they cannot be the primary one."""

Extract = Callable[[str, str], str | None]
"""A function that extracts the answer from a model's text, given the code of the language.

It returns None if the text does not have the requested form; then the whole text is judged.
"""


def one_form(text: str) -> str:
    r"""Return a text in the form in which answers and references are compared.

    HTML entities become characters, letters get their composed form (NFC), and every hyphen, en
    dash and minus sign becomes an ASCII hyphen.

    >>> one_form("Dont&eacute; &amp; 2\u2013\u22125"), one_form("AT&T")
    ('Donté & 2--5', 'AT&T')
    """
    return unicodedata.normalize("NFC", html.unescape(text)).translate(HYPHENS)


@dataclass(frozen=True)
class Scoring:
    """How the answers of a task are judged.

    Attributes
    ----------
    measures
        Names in `rulerlib.metrics.MEASURES`, in the order of the columns in tables.
    primary
        The measure that is reported as the score.
    ruler
        The measure of RULER's own script for such a task, for its averages.
    extract
        Extracts the answer from a model's text; if None, the whole text is the answer.
    any_one
        Whether any one of the references suffices, for example if they are spellings of one answer.
        Otherwise all of them are required.
    own
        Further measures by name, of one family only: each takes an answer and its references.

    Raises
    ------
    ParameterError
        If a measure is unknown, or ``primary`` or ``ruler`` is not among `scores`.
    """

    measures: tuple[str, ...]
    primary: str
    ruler: str
    extract: Extract | None = None
    any_one: bool = False
    own: Mapping[str, Callable[[str, Sequence[str]], float]] = field(
        default_factory=dict, hash=False
    )

    def __post_init__(self) -> None:
        for name in self.measures:
            one_of("measure", name, {**MEASURES, **self.own})
        for name in ("primary", "ruler"):
            one_of(name, getattr(self, name), self.scores)

    @property
    def scores(self) -> tuple[str, ...]:
        """The measures that can be the primary one: those for which higher is better."""
        return tuple(name for name in self.measures if name not in FAULTS)

    def wanted(self, outputs: Sequence[str]) -> str:
        """Return the references in one line: all that are required, or the first of several forms.

        >>> LIST.wanted(["12", "34"])
        '12, 34'
        >>> ANY.wanted(["1 May 1869", "May 1, 1869", "1.5.1869"])
        '1 May 1869 (other forms: 2)'
        """
        if self.any_one and len(outputs) > 1:
            return f"{outputs[0]} (other forms: {len(outputs) - 1})"
        return ", ".join(outputs)

    def score(
        self, pred: str, outputs: Sequence[str], golds: Golds = (), language: str = "en"
    ) -> dict[str, float]:
        """Return the value of each measure by its name, from 0 to 1.

        Parameters
        ----------
        pred, outputs
            The model's text, and the references.
        golds
            Every accepted answer with its spans, for the measures of reading comprehension.
            Default: ``outputs``, each of one span.
        language
            The code of the language for articles, numbers and dates.

        Raises
        ------
        ParameterError
            If there is no such language.
        """
        answer = self.answer(pred, language)
        references = tuple(one_form(output) for output in outputs)
        accepted = [tuple(one_form(span) for span in spans_of(gold)) for gold in golds]
        values = {}
        for name in self.measures:
            measure: Callable[..., float] = self.own.get(name) or MEASURES[name]
            if name in OF_GOLDS:
                values[name] = measure(answer, accepted or references, language)
            else:
                values[name] = measure(answer, references)
        return values

    def diagnose(self, pred: str, golds: Golds, language: str = "en") -> dict[str, Any]:
        """Return diagnostics of a short answer.

        Returns
        -------
        dict
            ``pred_len`` and ``gold_len``, the numbers of words of the answer and of the longest
            gold; ``overlong``, whether the first is larger; and ``format_violation``, see
            `rulerlib.metrics.short_answers.format_violation`.

        Raises
        ------
        ParameterError
            If there is no such language.
        """
        answer = self.answer(pred, language)
        words = len(answer.split())
        longest = max((len(short_answers.written(gold).split()) for gold in golds), default=0)
        return {
            "pred_len": words,
            "gold_len": longest,
            "overlong": words > longest,
            "format_violation": short_answers.format_violation(answer),
        }

    def answer(self, pred: str, language: str = "en") -> str:
        """Return the answer in a model's text, in `one_form`; the whole text if there is none.

        Raises
        ------
        ParameterError
            If there is no such language.
        """
        text = one_form(pred)
        answer = self.extract(text, language) if self.extract else None
        return text if answer is None else answer


LIST = Scoring(
    ("all_match", "recall", "exact_items", "item_recall", "item_precision", "over_answering"),
    "all_match",
    "recall",
)
"""All references are required: needles, chains, lists of words."""

ABSENCE = Scoring(("found_or_none", "recall"), "found_or_none", "found_or_none")
"""All references are required, or the answer "none" if the needle is absent."""

ANY = Scoring(("part_match",), "part_match", "part_match", any_one=True)
"""Any one reference suffices: questions, whose references are spellings of one answer."""

READING = Scoring(
    ("drop_f1", "drop_em", "em_raw", "em_norm", "f1_words", "part_match"),
    "drop_f1",
    "part_match",
    any_one=True,
)
"""Short answers to questions about a passage, by DROP's measures and others."""

DROP = replace(READING, extract=answer_line)
"""The same for answers that end with a line ``Answer: ...``."""
