"""One prediction against its references, and the interval around a mean.

>>> all_match("Det er 1234567 og 7654321.", ["1234567", "7654321"])
1.0
>>> recall("Det er 1234567.", ["1234567", "7654321"])
0.5
>>> part_match("Aarhus", ["København", "Århus"])
0.0
>>> low, high = wilson(9, 10)
>>> round(low, 3), round(high, 3)
(0.596, 0.982)
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from statistics import NormalDist

from rulerlib.errors import ParameterError

_CONTROL = re.compile(r"[\x00-\x1f]")


def normalize(text: str) -> str:
    """One form for comparison: NFKC and case-folded, so that æ, ø, å match however encoded."""
    # Folding can undo the normal form (it turns some letters into several), hence twice.
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def clean(pred: str) -> str:
    """A prediction as RULER's script takes it: control characters become newlines."""
    return _CONTROL.sub("\n", pred.strip()).strip()


def _found(pred: str, references: Sequence[str]) -> list[bool]:
    """Whether each reference stands in the prediction: what all the rules below count."""
    text = normalize(clean(pred))
    return [normalize(reference) in text for reference in references]


def all_match(pred: str, references: Sequence[str]) -> float:
    """1 if every reference appears in the prediction, else 0: the strict rule."""
    found = _found(pred, references)
    # Without references nothing was asked for, and nothing is found, as in `recall`.
    return float(bool(found) and all(found))


def recall(pred: str, references: Sequence[str]) -> float:
    """The share of references that appear.

    RULER's script calls the mean of this ``string_match_all``, though it gives
    part of the points for part of the list.
    """
    found = _found(pred, references)
    return sum(found) / len(found) if found else 0.0


def part_match(pred: str, references: Sequence[str]) -> float:
    """1 if any one reference appears (RULER's ``string_match_part``, for question answering)."""
    return float(any(_found(pred, references)))


METRICS: dict[str, Callable[[str, Sequence[str]], float]] = {
    "all_match": all_match,
    "recall": recall,
    "part_match": part_match,
}


def wilson(successes: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of a proportion (Wilson 1927).

    It also holds for the mean of values between 0 and 1, such as recall, and is
    then too wide rather than too narrow: their variance is at most p(1 - p).

    Parameters
    ----------
    successes
        Sum of the values, 0 to ``n``.
    n
        Number of independent samples.

    Returns
    -------
    low, high
        (0, 1) where nothing was measured, so that a plot shows that nothing is known.
    """
    if not 0 <= successes <= n:
        raise ParameterError("successes", successes, f"from 0 to n ({n})")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = successes / n
    centre = p + z * z / (2 * n)
    spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At the ends the formula is exactly 0 or 1, and rounding would miss it.
    low = 0.0 if successes == 0 else (centre - spread) / scale
    high = 1.0 if successes == n else (centre + spread) / scale
    return max(0.0, low), min(1.0, high)
