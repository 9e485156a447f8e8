r"""Measures of one answer against its references.

`rulerlib.metrics.matches` searches an answer for the references; `rulerlib.metrics.short_answers`
compares a short answer with every accepted one:

>>> MEASURES["all_match"]("Det er 1234567 og 7654321.", ["1234567", "7654321"])
1.0
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

import html
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rulerlib.errors import one_of
from rulerlib.metrics import matches, short_answers
from rulerlib.metrics.short_answers import HYPHENS, Golds, answer_line, spans_of

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
    "all_match": matches.all_match,
    "recall": matches.recall,
    "part_match": matches.part_match,
    "exact_items": matches.exact_items,
    "item_recall": matches.item_recall,
    "item_precision": matches.item_precision,
    "over_answering": matches.over_answering,
    "found_or_none": matches.found_or_none,
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
