"""RULER's measures: whether the references stand in an answer (Hsieh et al. 2024).

>>> all_match("Det er 1234567 og 7654321.", ["1234567", "7654321"])
1.0
>>> recall("Det er 1234567.", ["1234567", "7654321"])
0.5
>>> part_match("Aarhus", ["København", "Århus"])
0.0
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Sequence

_CONTROL = re.compile(r"[\x00-\x1f]")


def normalize(text: str) -> str:
    """Return a text to compare: NFKC and case-folded, so that æ, ø, å match however encoded."""
    if text.isascii():
        return text.lower()
    # Folding can undo the normal form (it turns some letters into several), hence twice.
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def normalized(texts: Iterable[str]) -> list[str]:
    """Return texts normalized, all of them in one go."""
    texts = list(texts)
    if not texts:
        return texts
    together = normalize("\0".join(texts)).split("\0")
    # Unless one of them holds what stands between them.
    return together if len(together) == len(texts) else [*map(normalize, texts)]


def clean(pred: str) -> str:
    """Return a prediction as RULER's script takes it: control characters become newlines."""
    text = pred.strip()
    # What can be printed has no control character.
    return text if text.isprintable() else _CONTROL.sub("\n", text).strip()


# All measures of an answer ask for the same.
@functools.lru_cache(4)
def folded(pred: str) -> str:
    """Return a prediction cleaned and normalized."""
    return normalize(clean(pred))


@functools.lru_cache(4)
def wanted(references: tuple[str, ...]) -> tuple[str, ...]:
    """Return references normalized."""
    return tuple(normalized(references))


@functools.lru_cache(4)
def _appear(pred: str, references: tuple[str, ...]) -> tuple[bool, ...]:
    text = folded(pred)
    return tuple(reference in text for reference in wanted(references))


def appear(pred: str, references: Sequence[str]) -> list[bool]:
    """Return whether each reference stands in the prediction, which all the rules below count."""
    return [*_appear(pred, tuple(references))]


def all_match(pred: str, references: Sequence[str]) -> float:
    """Return 1 if every reference appears in the prediction, else 0: the strict rule."""
    found = appear(pred, references)
    # Without references nothing was asked for, and nothing is found, as in `recall`.
    return float(bool(found) and all(found))


def recall(pred: str, references: Sequence[str]) -> float:
    """Return the share of references that appear in the prediction, 0 to 1.

    RULER's script calls the mean of this ``string_match_all``, though it gives
    part of the points for part of the list.
    """
    found = appear(pred, references)
    return sum(found) / len(found) if found else 0.0


def part_match(pred: str, references: Sequence[str]) -> float:
    """Return 1 if any one reference appears in the prediction, else 0.

    RULER's ``string_match_part``, for question answering.
    """
    return float(any(appear(pred, references)))
