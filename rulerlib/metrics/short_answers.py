r"""Short answers: exact match, plain and normalized, F1 of words, lengths and faults of form.

>>> golds = ["Raiders", ("Denver", "Oakland")]
>>> em_raw("the raiders.", golds), em_norm("the raiders.", golds)
(0.0, 1.0)
>>> round(f1_words("the Oakland Raiders", golds), 2)
0.67
>>> pred_len("the raiders."), gold_len(golds), overlong("the raiders.", golds)
(2, 2, False)
>>> format_violation("3.5"), format_violation("St. Louis,\nthen Ribe.")
((), ('final mark', 'full stop', 'line break'))
"""

from __future__ import annotations

import functools
import re
import string
import unicodedata
from collections import Counter

from rulerlib import languages
from rulerlib.metrics.words import Golds, best, f1, normalized, written

# Not the point in a number.
_FULL_STOP = re.compile(r"(?<!\d)\.|\.(?!\d)")
# What may stand around an answer and between its label and the colon.
_EMPHASIS = "*_`~"
_LINE_BREAK = re.compile(r"[\n\r\v\f\x85\u2028\u2029]")
_FINAL_MARKS = tuple(".,;:!?…")


def answer_line(text: str, language: str = "en") -> str | None:
    """Return what stands after the last label of an answer, ``Answer:``, in its line or the next.

    Labels are the language's word for an answer and the English one, whatever stands before them
    in their line. Markup around the answer is left out. None where there is no label, or nothing
    after any.

    >>> answer_line("It lost **two**.\\nSo 5 - 2 = 3.\\n\\n**Final Answer:** `3`")
    '3'
    >>> answer_line("Endeligt svar:\\n12,5 %", "da"), answer_line("The answer is 3.")
    ('12,5 %', None)

    Raises
    ------
    ParameterError
        If there is no such language.
    DataError
        If its pack has no word for an answer.
    """
    around, end = f"{_EMPHASIS}{string.whitespace}", len(text)
    for label in reversed([*_labels(language).finditer(text)]):
        # Up to the next label, which may follow one with nothing after it.
        if after := text[label.end() : end].strip(around):
            return _LINE_BREAK.split(after, maxsplit=1)[0].rstrip(around)
        end = label.start()
    return None


@functools.cache
def _labels(language: str) -> re.Pattern[str]:
    packs = map(languages.load, (language, "en"))
    words = (pack.text("reading", "answer_prefix").strip(" \n:") for pack in packs)
    either = "|".join(map(re.escape, dict.fromkeys(words)))
    # No label is the end of a word, as in "Ansvar:"; but that of "FinalAnswer:" is one.
    start = r"(?:(?<![^\W_])|(?-i:(?<=[a-zæøå])(?=[A-Z])))"
    return re.compile(rf"{start}(?:{either})[\s{_EMPHASIS}]*[:\uff1a]", re.IGNORECASE)


def em_raw(pred: str, golds: Golds, language: str = "en") -> float:
    """Return 1 if the answer, without white space around it, is a gold to the letter, else 0.

    ``language`` is not used; the measures of golds all take one.
    """
    return best([float(pred.strip() == written(gold)) for gold in golds])


def em_norm(pred: str, golds: Golds, language: str = "en") -> float:
    """Return 1 if the answer is a gold but for case, punctuation and articles, else 0.

    Never below `em_raw`. A number is its value: "3.50" is "3.5", and "-5" is not "5".

    Raises
    ------
    ParameterError
        If there is no such language.
    """
    said = _normal(pred, language)
    return best([float(said == _normal(written(gold), language)) for gold in golds])


def f1_words(pred: str, golds: Golds, language: str = "en") -> float:
    """Return the F1 of the answer's words and the best gold's, 0 to 1, normalized as `em_norm`.

    A word counts as often as it stands there (Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions
    for Machine Comprehension of Text", section 6.1).

    Raises
    ------
    ParameterError
        If there is no such language.
    """
    said, values = Counter(_normal(pred, language).split()), []
    for gold in golds:
        wanted = Counter(_normal(written(gold), language).split())
        values.append(f1((said & wanted).total(), said.total(), wanted.total()))
    return best(values)


def _normal(text: str, language: str) -> str:
    # One form for letters that can be encoded in two ways, such as å.
    return normalized(unicodedata.normalize("NFC", text), language)


def pred_len(pred: str) -> int:
    """Return the number of words of an answer."""
    return len(pred.split())


def gold_len(golds: Golds) -> int:
    """Return the number of words of the longest gold; 0 without any."""
    return max((len(written(gold).split()) for gold in golds), default=0)


def overlong(pred: str, golds: Golds) -> bool:
    """Return whether an answer has more words than every gold."""
    return pred_len(pred) > gold_len(golds)


def format_violation(pred: str) -> tuple[str, ...]:
    """Return in which ways an answer is no bare short answer; none where it is.

    Returns
    -------
    tuple of str
        Of ``"final mark"`` (it ends in a mark of punctuation), ``"full stop"`` (one stands
        anywhere; the point in a number is none) and ``"line break"``, those that hold.
    """
    text = pred.strip()
    ways = {
        "final mark": text.endswith(_FINAL_MARKS),
        "full stop": _FULL_STOP.search(text),
        "line break": _LINE_BREAK.search(text),
    }
    return tuple(name for name, holds in ways.items() if holds)
