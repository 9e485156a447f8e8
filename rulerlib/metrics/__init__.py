"""Measures of one answer against its references, pure and by name.

What an answer holds is measured in `rulerlib.metrics.matches`; a short answer is held against every
accepted one in `rulerlib.metrics.short_answers`:

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

from rulerlib.metrics import matches, short_answers
from rulerlib.metrics.matches import (
    VALUE,
    all_match,
    appear,
    clean,
    exact_items,
    found_or_none,
    item_precision,
    item_recall,
    normalize,
    normalized,
    over_answering,
    part_match,
    recall,
    says_none,
)  # fmt: skip
from rulerlib.metrics.short_answers import (
    answer_line,
    drop_em,
    drop_f1,
    em_norm,
    em_raw,
    f1_inspect,
    f1_words,
    format_violation,
    gold_len,
    overlong,
    pred_len,
)  # fmt: skip

OF_GOLDS: dict[str, Callable[..., float]] = {
    measure.__name__: measure
    for measure in (drop_em, drop_f1, f1_inspect, em_raw, em_norm, f1_words)
}
"""The measures of reading comprehension, from 0 to 1.

Each takes an answer, its golds (all accepted answers) and the code of a language.
"""

MEASURES: dict[str, Callable[..., float]] = {
    measure.__name__: measure
    for measure in (
        all_match, recall, part_match, exact_items, item_recall, item_precision, over_answering,
        found_or_none,
    )
} | OF_GOLDS  # fmt: skip
"""Every measure by its name in tables, from 0 to 1; each takes an answer and its references."""

FAULTS = ("over_answering",)
"""The measures of which less is better; none of them can be a score."""
