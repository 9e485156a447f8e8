"""The F1 of inspect_ai, by which its DROP is scored: of bags of words, for the best gold.

>>> f1_inspect("It was 24 yards", ["24-yard", "24 yards"])
0.67
>>> f1_inspect("Oakland, Denver", [("Oakland", "Denver")])
0.0

In the second example the golds' spans are joined by a comma alone, as inspect_evals does, and
a comma without a space parts no words. `rulerlib.metrics.drop` says what DROP's own script does
otherwise.
"""

from __future__ import annotations

import re
import string
from collections import Counter

from rulerlib.metrics.words import Golds, Reading, best, f1, finite, reading, spans_of

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def f1_inspect(pred: str, golds: Golds, language: str = "en") -> float:
    """Return what the scorer ``f1`` of inspect_ai gives, from 0 to 1, with 2 decimals.

    Equal to inspect_ai from version 0.3.285 on, whose bags keep how often a word stands there.

    Raises
    ------
    ParameterError
        If there is no such language.
    """
    form = reading(language)
    said = _bag(pred, form)
    bags = [bag for gold in golds if (bag := _bag(",".join(spans_of(gold)), form))]
    values = [f1((said & wanted).total(), said.total(), wanted.total()) for wanted in bags]
    return round(best(values), 2)


def _bag(text: str, form: Reading) -> Counter[str]:
    return Counter(
        word for token in re.split(" |-", form.plain(text)) for word in _word(token, form).split()
    )


def _word(token: str, form: Reading) -> str:
    """Return a token without punctuation and articles, a number as Python writes a float."""
    token = token.casefold()
    bare = token.strip(string.whitespace + string.punctuation)
    for kept in (token, bare, token.translate(_PUNCTUATION)):
        if (value := finite(kept)) is not None:
            return str(value)
    return form.articles.sub(" ", token.translate(_PUNCTUATION))
