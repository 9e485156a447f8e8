r"""Scoring: how an answer is judged, from the text that a model wrote to named numbers.

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
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rulerlib.errors import one_of
from rulerlib.metrics import FAULTS, MEASURES, OF_GOLDS
from rulerlib.metrics.short_answers import (
    HYPHENS,
    Golds,
    answer_line,
    format_violation,
    spans_of,
    written,
)

Extract = Callable[[str, str], str | None]
"""A function that returns the answer in what a model wrote, given the code of the language.

None where it is not written as it was asked for: then all of it is judged.
"""

# With its semicolon: "AT&T" and "a&lt" are no entities.
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")


def one_form(text: str) -> str:
    r"""Return a text in the one form in which answers and references are compared.

    HTML's entities are the characters that they stand for, letters that can be encoded in two ways
    have one (NFC), and every hyphen, en dash and minus sign is the one of the keyboard.

    >>> one_form("Dont&eacute; &amp; 2\u2013\u22125"), one_form("AT&T")
    ('Donté & 2--5', 'AT&T')
    """
    if text.isascii() and "&" not in text:
        return text
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return unicodedata.normalize("NFC", text).translate(HYPHENS)


@dataclass(frozen=True)
class Scoring:
    """How the answers of a task are judged.

    Attributes
    ----------
    measures
        Names in `rulerlib.metrics.MEASURES`, in the order in which tables show them. Each
        normalizes as it is defined to.
    primary
        The one that is reported as the score.
    ruler
        The one that RULER's own script computes for such a task, of which its averages are made.
    extract
        Finds the answer in what a model wrote; None: all of it is the answer.
    any_one
        Whether any one of the references suffices, as where they are spellings of one answer.
        Else every one of them must be said.
    own
        Further measures by name, those of a family alone: each takes an answer and its references.

    Raises
    ------
    ParameterError
        If a measure is unknown, or ``primary`` or ``ruler`` is none of `scores`.
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
        """The measures that can be the primary one: of which more is better."""
        return tuple(name for name in self.measures if name not in FAULTS)

    def wanted(self, outputs: Sequence[str]) -> str:
        """Return references in one line: all that must be said, or the first of several forms.

        >>> LIST.wanted(["12", "34"])
        '12, 34'
        >>> ANY.wanted(["1 May 1869", "May 1, 1869", "1.5.1869"])
        '1 May 1869 (2 other forms count too)'
        """
        others = len(outputs) - 1
        if self.any_one and others > 0:
            count = "1 other form counts" if others == 1 else f"{others} other forms count"
            return f"{outputs[0]} ({count} too)"
        return ", ".join(outputs)

    def score(
        self, pred: str, outputs: Sequence[str], golds: Golds = (), language: str = "en"
    ) -> dict[str, float]:
        """Return the value of each measure, from 0 to 1, by its name, of texts in `one_form`.

        Parameters
        ----------
        pred, outputs
            What a model wrote, and its references.
        golds
            Every accepted answer with its spans, for the measures of reading comprehension;
            where there are none, ``outputs``, each of one span.
        language
            The code of the language in which these measures read articles, numbers and dates.

        Raises
        ------
        ParameterError
            If there is no such language.
        """
        answer, references = self.answer(pred, language), tuple(map(one_form, outputs))
        accepted = [tuple(map(one_form, spans_of(gold))) for gold in golds] or references
        return {
            name: OF_GOLDS[name](answer, accepted, language)
            if name in OF_GOLDS
            else (self.own.get(name) or MEASURES[name])(answer, references)
            for name in self.measures
        }

    def diagnose(self, pred: str, golds: Golds, language: str = "en") -> dict[str, Any]:
        """Return facts about a short answer that are shown beside its scores.

        Returns
        -------
        dict
            ``no_answer_line``, whether the answer is not written as it was asked for;
            ``pred_len`` and ``gold_len``, the words of the answer and of the longest gold;
            ``overlong``, whether the first is larger; and ``format_violation``, in which ways it
            is no bare short answer, see `rulerlib.metrics.short_answers.format_violation`.

        Raises
        ------
        ParameterError
            If there is no such language.
        """
        answer, line = self._read(pred, language)
        words = len(answer.split())
        longest = max((len(written(gold).split()) for gold in golds), default=0)
        return {
            "no_answer_line": self.extract is not None and line is None,
            "pred_len": words, "gold_len": longest, "overlong": words > longest,
            "format_violation": format_violation(answer),
        }  # fmt: skip

    def answer(self, pred: str, language: str = "en") -> str:
        """Return the answer in what a model wrote, in `one_form`; all of it where there is none.

        Raises
        ------
        ParameterError
            If there is no such language.
        """
        return self._read(pred, language)[0]

    def _read(self, pred: str, language: str) -> tuple[str, str | None]:
        """Return the answer, and what was extracted."""
        text = one_form(pred)
        line = None if self.extract is None else self.extract(text, language)
        return (text if line is None else line), line


LIST = Scoring(
    ("all_match", "recall", "exact_items", "item_recall", "item_precision", "over_answering"),
    primary="all_match",
    ruler="recall",
)
"""Every reference must appear: needles, chains, lists of words."""

ABSENCE = Scoring(("found_or_none", "recall"), primary="found_or_none", ruler="found_or_none")
"""The same where what is asked for may not be there, and an answer has to say so."""

ANY = Scoring(("part_match",), primary="part_match", ruler="part_match", any_one=True)
"""Any one reference suffices: questions, whose references are spellings of one answer."""

READING = Scoring(
    ("drop_f1", "drop_em", "em_raw", "em_norm", "f1_words", "part_match"),
    primary="drop_f1",
    ruler="part_match",
    any_one=True,
)
"""Short answers to questions about a passage, as DROP judges them, and as others do beside it."""

DROP = replace(READING, extract=answer_line)
"""The same of answers that end in a line ``Answer: ...``."""
