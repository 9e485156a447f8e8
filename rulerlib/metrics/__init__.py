"""Measures of one answer against its references.

`rulerlib.metrics.matches` searches an answer for the references; `rulerlib.metrics.short_answers`
compares a short answer with every accepted one:

>>> MEASURES["all_match"]("Det er 1234567 og 7654321.", ["1234567", "7654321"])
1.0
>>> MEASURES["em_raw"]("The Raiders", ["Raiders"]), MEASURES["em_norm"]("The Raiders", ["Raiders"])
(0.0, 1.0)
>>> MEASURES["drop_em"]("tre", ["3"]), MEASURES["drop_em"]("tre", ["3"], "da")
(0.0, 1.0)
"""

from __future__ import annotations

from collections.abc import Callable

from rulerlib.metrics import matches, short_answers

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
