"""Measures of one answer against its references, pure and by name.

What an answer holds is measured in `rulerlib.metrics.matches`; a short answer is held against every
accepted one in `rulerlib.metrics.short_answers`:

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

_GOLDS = "drop_em drop_f1 em_raw em_norm f1_words"

OF_GOLDS: dict[str, Callable[..., float]] = {
    name: getattr(short_answers, name) for name in _GOLDS.split()
}
"""The measures of reading comprehension, from 0 to 1.

Each takes an answer, its golds (all accepted answers) and the code of a language.
"""

_REFERENCES = (
    "all_match recall part_match exact_items item_recall item_precision over_answering"
    " found_or_none"
)

MEASURES = {name: getattr(matches, name) for name in _REFERENCES.split()} | OF_GOLDS
"""Every measure by its name in tables, from 0 to 1; each takes an answer and its references."""

FAULTS = ("over_answering",)
"""The measures of which less is better; none of them can be a score."""
