"""Measures of one answer against its references, pure and by name.

RULER's own, which look for references in an answer, stand in `rulerlib.metrics.ruler`; those
that read an answer as the items it says, in `rulerlib.metrics.items`; the one for what may not be
there, in `rulerlib.metrics.absence`; those of reading comprehension, which hold a short answer
against every accepted one, in `rulerlib.metrics.drop`, `rulerlib.metrics.inspect_f1` and
`rulerlib.metrics.short_answers`:

>>> all_match("Det er 1234567 og 7654321.", ["1234567", "7654321"])
1.0
>>> drop_f1("the 24 yards", ["25 yards"]), f1_inspect("the 24 yards", ["25 yards"])
(0.0, 0.5)
>>> em_raw("The Raiders", ["Raiders"]), em_norm("The Raiders", ["Raiders"])
(0.0, 1.0)
>>> drop_em("tre", ["3"]), drop_em("tre", ["3"], "da")
(0.0, 1.0)
"""

from __future__ import annotations

from collections.abc import Callable

from rulerlib.metrics.absence import VALUE, found_or_none, says_none
from rulerlib.metrics.drop import drop_em, drop_f1
from rulerlib.metrics.inspect_f1 import f1_inspect
from rulerlib.metrics.items import exact_items, item_precision, item_recall, over_answering
from rulerlib.metrics.ruler import (
    all_match,
    appear,
    clean,
    normalize,
    normalized,
    part_match,
    recall,
)
from rulerlib.metrics.short_answers import (
    answer_line,
    em_norm,
    em_raw,
    f1_words,
    format_violation,
    gold_len,
    overlong,
    pred_len,
)

__all__ = [
    "FAULTS", "MEASURES", "OF_GOLDS", "VALUE", "all_match", "answer_line", "appear", "clean",
    "drop_em", "drop_f1", "em_norm", "em_raw", "exact_items", "f1_inspect", "f1_words",
    "format_violation", "found_or_none", "gold_len", "item_precision", "item_recall", "normalize",
    "normalized",
    "over_answering", "overlong", "part_match", "pred_len", "recall", "says_none",
]  # fmt: skip

OF_GOLDS: dict[str, Callable[..., float]] = {
    "drop_em": drop_em,
    "drop_f1": drop_f1,
    "f1_inspect": f1_inspect,
    "em_raw": em_raw,
    "em_norm": em_norm,
    "f1_words": f1_words,
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
"""The measures of which less is better; none of them can be a score."""
