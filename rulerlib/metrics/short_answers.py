r"""Measures that compare a short answer with every accepted one (a gold): DROP's and others.

Numbers are read as the language writes them: "1,234.50" is 1234.5, in Danish "12.500" is 12500 and
"elleve" is 11.

>>> golds = ["Raiders", ("Denver", "Oakland")]
>>> em_raw("the raiders.", golds), em_norm("the raiders.", golds)
(0.0, 1.0)
>>> round(f1_words("the Oakland Raiders", golds), 2)
0.67
>>> format_violation("3.5"), format_violation("St. Louis,\nthen Ribe.")
(False, True)

**DROP's official measures** (Dua et al. 2019, "DROP: A Reading Comprehension Benchmark Requiring
Discrete Reasoning Over Paragraphs", section 5): each span is a bag of words, without articles and
punctuation and with its numbers as floats; the spans of an answer and of a gold are aligned one to
one, so that the sum of their F1 is largest; a gold with a number counts only where the answer has
one of its numbers; and of all golds the best one counts.

>>> drop_f1("Denver Broncos and Oakland", [("Oakland", "Denver Broncos"), ("Denver",)])
1.0
>>> drop_f1("about 24 yards", ["24"]), drop_f1("24 yards", ["25 yards"])
(0.5, 0.0)

The values are those of lm-eval's task ``drop``, which copies the official script, with these
differences:

- **Typographic marks.** The official script strips ASCII punctuation only, so "“Ribe”", "12€" and
  "don’t" differ from "Ribe", "12" and "don't". Here every Unicode punctuation mark and symbol is
  stripped, and every dash is a hyphen.
- **Number words.** The official script has none. Here "twelve" is 12 in each language that has a
  ``numbers.toml``, English included, so "twelve" matches "12" and a gold with "twelve" needs that
  number in the answer.
- **Thousands.** The official script reads "1,234" only. Here "12.500" in Danish, "12 500" in
  Swedish, and "12 500" with a no-break or thin space in any of these languages are 12500.
- **Sign.** The official script splits at every hyphen, so "-5" is "5". Here a hyphen before a
  number is a minus sign unless it follows a letter or a digit.
- **Decimal point.** The official script drops the point if another mark touches the number, so
  "$3.5" and "3.5%" are 35, and "1,234.5" is 12345.
- **Words that Python reads as numbers.** In the official script "infinity" equals "inf".
- **Lists.** The official script takes a list of spans and treats a text as a single span. Here,
  if the gold has several spans, the text is also read as a list (`lists`). A gold span may itself
  contain a comma or "and": "UK, O'Neill and Trinidad and Tobago" has three spans.
- **Articles alone.** In the official script the gold "A" is empty and matches the answer "".
- **White space.** The official script splits at spaces only, so "5", a line break and "yards"
  hold no number.
- **Repeated spans.** In the official script the spans "a, a, b" match "a, b, b" exactly.
"""

from __future__ import annotations

import functools
import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from rulerlib import languages
from rulerlib.errors import load_package

Golds = Sequence[str | Sequence[str]]
"""All accepted answers, each as a text or as its spans."""

_SPACE = re.compile(r"\s")
_DIGIT = re.compile(r"\d")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")

HYPHENS = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-"))
"""Hyphens, the figure dash, the en dash, and minus signs, the last two small and wide."""


@cache
def _rules(language: str) -> tuple[Callable[[str], str], re.Pattern[str], str]:
    """Return how a language writes numbers, its articles, and its word for "and"."""
    pack = languages.load(language)
    articles = re.compile(rf"\b(?:{'|'.join(map(re.escape, pack.articles))})\b")
    plain = pack.numbers.plain if pack.numbers else str
    return plain, articles, pack.text("list", "last").strip()


def spans_of(gold: str | Sequence[str]) -> tuple[str, ...]:
    """Return the spans of an accepted answer."""
    return (gold,) if isinstance(gold, str) else tuple(gold)


def written(gold: str | Sequence[str]) -> str:
    """Return an accepted answer as one text: ``"Ribe, Skive"``."""
    return ", ".join(spans_of(gold))


def f1(common: int, answered: int, wanted: int) -> float:
    """Return the F1, 0 to 1, from the numbers of common, answered and wanted words."""
    if not common:
        return 0.0
    precision, recall = common / answered, common / wanted
    return 2 * precision * recall / (precision + recall)


def finite(token: str) -> float | None:
    """Return the number that Python reads in a token, or None if it is not a finite number.

    Python reads "nan" and "infinity" as numbers, but in an answer they are words.
    """
    try:
        value = float(token) if _DIGIT.search(token) else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _is_mark(character: str) -> bool:
    """Return whether a character is punctuation or a symbol, in ASCII or not."""
    return unicodedata.category(character)[0] in "PS"


def number(token: str) -> float | None:
    """Return the number in a token, ignoring punctuation around it, or None."""
    value = finite(token)
    if value is None and _DIGIT.search(token):
        core = token.strip("".join(filter(_is_mark, token)))
        value = finite(core.replace(",", "") if _THOUSANDS.fullmatch(core) else core)
        if value is not None and "-" in token[: token.index(core)]:
            return -value
    return value


# The measures of one answer ask for the same texts.
@lru_cache(maxsize=256)
def normalized(text: str, language: str = "en", split: re.Pattern[str] = _SPACE) -> str:
    """Return a text in lower case, without punctuation and articles, and with numbers as floats.

    ``split`` is the pattern that separates tokens. Each token may be a number. A text of articles
    only keeps them, and a text of punctuation only keeps it: the grade "A" is an answer.

    >>> normalized("The 1,234.50 yards!"), normalized("(-5)") == normalized("5")
    ('1234.5 yards', False)
    >>> normalized("“Don’t” pay twelve €…")
    'dont pay 12.0'
    >>> normalized("Det var 12.500 kr.", "da"), normalized("elleve", "da")
    ('var 12500.0 kr', '11.0')
    """
    plain, dropped, _ = _rules(language)
    # NFC: é can be encoded in two ways.
    text = unicodedata.normalize("NFC", text).translate(HYPHENS)
    words, articles, small = list[str](), list[str](), plain(text).lower()
    for token in split.split(small):
        value = number(token)
        if value is None:
            token = "".join(character for character in token if not _is_mark(character))
            value = finite(token)
        articles += token.split()
        # Minus zero is zero.
        words += (dropped.sub(" ", token) if value is None else str(value + 0.0)).split()
    return " ".join(words or articles or small.split())


# --- Exact match and F1 of words ---------------------------------------------------------------

# Markup around an answer, and between its label and the colon.
_EMPHASIS = "*_`~"


def answer_line(text: str, language: str = "en") -> str | None:
    r"""Return the text after the last answer label, on the label's line or the next one.

    The labels are "Answer:" and the language's own word, also as "Svaret:" or "Answer (in yards):".
    Other text may precede a label on its line. Markdown emphasis and LaTeX markup such as
    ``\boxed`` are removed. Return None if no label has text after it.

    >>> answer_line("It lost **two**.\nSo 5 - 2 = 3.\n\n**Final Answer:** `3`")
    '3'
    >>> answer_line(r"Answer (in points): $\boxed{20}$")
    '20'
    >>> answer_line("Endeligt svar:\n12,5 %", "da"), answer_line("The answer is 3.")
    ('12,5 %', None)
    """
    text = _without_latex(text)
    around, end = f"{_EMPHASIS}{string.whitespace}", len(text)
    for label in reversed([*_labels(language).finditer(text)]):
        # Stop at the next label: this one may have no text of its own.
        if after := text[label.end() : end].strip(around):
            return after.splitlines()[0].rstrip(around)
        end = label.start()
    return None


def _without_latex(text: str) -> str:
    r"""Return a text without LaTeX's ``\boxed{}``, ``\text{}``, spaces and display delimiters."""
    text = text.replace("{,}", ",")
    text = re.sub(r"\\[,;: ]", "\u2009", text)
    text = re.sub(r"\\(?:text|math)[a-z]*\s*\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\${0,2}\\boxed\s*\{([^{}]*)\}\${0,2}", r"\1", text)
    return re.sub(r"\$\$|\\[()\[\]]", "", text)


@functools.cache
def _labels(language: str) -> re.Pattern[str]:
    words = list[str]()
    for pack in map(languages.load, (language, "en")):
        # A pack without questions about passages may name the word itself.
        asked = pack.templates.get("reading", {}).get("answer_prefix")
        words += (asked or pack.templates.get("answer", "")).strip(" \n:").split()[-1:]
    either = "|".join(map(re.escape, dict.fromkeys(words)))
    # A label is a whole word, unlike in "Ansvar:", or a part in capitals, as in "FinalAnswer:".
    start = r"(?:(?<![^\W_])|(?-i:(?<=[a-zæøå])(?=[A-Z])))"
    # The definite forms of the Nordic languages: "Svaret", "Svarið".
    word, gap = rf"(?:{either})(?:et|ið)?", rf"[\s{_EMPHASIS}]*"
    unit = rf"(?:\([^()\n]*\){gap})?"
    return re.compile(rf"{start}{word}{gap}{unit}[:\uff1a]", re.IGNORECASE)


def em_raw(pred: str, golds: Golds, language: str = "en") -> float:
    """Return 1 if the answer, without white space around it, equals a gold, else 0.

    ``language`` is not used: all measures of golds take one.
    """
    return float(any(pred.strip() == written(gold) for gold in golds))


def em_norm(pred: str, golds: Golds, language: str = "en") -> float:
    """Return 1 if the answer equals a gold, ignoring case, punctuation and articles, else 0.

    Never below `em_raw`. Numbers are compared by value: "3.50" is "3.5", and "-5" is not "5".
    """
    answer = normalized(pred, language)
    return float(any(answer == normalized(written(gold), language) for gold in golds))


def f1_words(pred: str, golds: Golds, language: str = "en") -> float:
    """Return the F1 of the answer's words and the best gold's, 0 to 1, normalized as `em_norm`.

    A word counts as often as it occurs (Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions
    for Machine Comprehension of Text", section 6.1).
    """
    answer, values = Counter(normalized(pred, language).split()), []
    for gold in golds:
        wanted = Counter(normalized(written(gold), language).split())
        values.append(f1((answer & wanted).total(), answer.total(), wanted.total()))
    return max(values, default=0.0)


def format_violation(pred: str) -> bool:
    """Return whether an answer is not a bare short answer.

    It ends with punctuation, has a full stop outside a number, or several lines.
    """
    text = pred.strip()
    ends = text.endswith((".", ",", ";", ":", "!", "?", "…")) or len(text.splitlines()) > 1
    return ends or re.search(r"(?<!\d)\.|\.(?!\d)", text) is not None


# --- DROP -----------------------------------------------------------------------------------

# White space, an em dash, or a hyphen that is not the minus sign of a number.
_DROP_SPLIT = re.compile(r"[\s—]|(?<=[\w-])-|-(?![$€£¥]?\.?\d)")

# Between the items of a list; not the comma in a number.
_MARKS = r"[;\n]|,(?!\d)|(?<!\d),"


def drop_em(pred: str, golds: Golds, language: str = "en") -> float:
    """Return 1 if the answer has exactly the spans of a gold, in any order, else 0."""
    pairs = _pairs(pred, golds, language)
    return float(any(Counter(spans) == Counter(wanted) for spans, wanted in pairs))


def drop_f1(pred: str, golds: Golds, language: str = "en") -> float:
    """Return the F1 of the answer's spans and those of the best gold, 0 to 1, with 2 decimals."""
    pairs = _pairs(pred, golds, language)
    return max((_aligned(spans, wanted) for spans, wanted in pairs), default=0.0)


def lists(pred: str, language: str = "en", gold: Sequence[str] = ()) -> list[list[str]]:
    """Return the spans of an answer in each way to read it as a list.

    1. The whole text as one span.
    2. Split at commas, semicolons and line breaks, but not within a number.
    3. Split at "and" as well, but not within a span of ``gold``, which may be a name with "and" or
       a comma.

    >>> lists("UK and Trinidad and Tobago", gold=["Trinidad and Tobago", "UK"])[-1]
    ['UK', 'Trinidad and Tobago']
    """
    _, _, joint = _rules(language)
    last, text = rf"(?i:{re.escape(joint)})(?=\s)", pred.strip()
    marks = rf"(?:{_MARKS})(?:[^\S\n]*{last})?"
    separators = rf"{marks}|(?<=\s){last}"
    names = [span for span in gold if re.search(separators, span)]
    names.sort(key=len, reverse=True)
    masked = text
    for at, name in enumerate(names):
        masked = re.sub(rf"(?i){re.escape(name)}", f"\0{at}\0", masked)
    last_way = re.split(separators, masked)
    for at, name in enumerate(names):
        last_way = [piece.replace(f"\0{at}\0", name) for piece in last_way]
    ways = ([text], re.split(marks, text), last_way)
    return [[span for piece in way if (span := piece.strip())] for way in ways]


def _normal(spans: Sequence[str], language: str) -> list[str]:
    """Return the normalized spans that are not empty."""
    return [text for span in spans if (text := normalized(span, language, _DROP_SPLIT))]


def _pairs(pred: str, golds: Golds, language: str) -> list[tuple[list[str], list[str]]]:
    """Return pairs of the normalized spans: of the answer in each way to read it, and of a gold."""
    pairs = []
    for gold in map(spans_of, golds):
        wanted = _normal(gold, language)
        if wanted:
            ways = lists(pred, language, gold) if len(wanted) > 1 else [[pred]]
            pairs += [(_normal(way, language), wanted) for way in ways]
    return pairs


def _aligned(spans: list[str], wanted: list[str]) -> float:
    """Return the mean F1 of spans that are aligned; a span without a partner counts 0."""
    bags, golds = ([{*span.split()} for span in texts] for texts in (spans, wanted))
    scores = [[_f1(bag, gold) for bag in bags] for gold in golds]
    optimize = load_package("scipy.optimize", "notebook", "Scoring DROP's answers")
    pairs = zip(*optimize.linear_sum_assignment(scores, maximize=True), strict=True)
    total: float = sum(scores[row][column] for row, column in pairs)
    mean = total / max(len(bags), len(golds))
    # As numpy rounds, which lm-eval does; Python's round is of the exact binary fraction.
    return round(100 * mean) / 100


def _f1(bag: set[str], wanted: set[str]) -> float:
    """Return the F1 of two bags of words; 0 if the gold has numbers, and the answer none of them.

    A bag is a set here, as in the official script: a word counts once.
    """
    numbers = {word for word in wanted if finite(word) is not None}
    if numbers and not numbers & bag:
        return 0.0
    return f1(len(bag & wanted), len(bag), len(wanted))
