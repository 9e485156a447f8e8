"""Numbers as the cells of a table: shares, intervals, and columns that stand under each other.

>>> percent(0.925), between(0.801, 0.974, 100, 1)
('92.5 %', '80.1 – 97.4')
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

INTERVAL = "95 %"
"""What stands in the name of a column of intervals."""

SHORT = 34
"""Texts of so many characters stay in one line."""


def percent(share: float) -> str:
    """Return a share in percent; a dash where it is not known."""
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def intervals(shown: pd.DataFrame, shares: Sequence[str], precision: int) -> pd.DataFrame:
    """Return the table with each pair of columns ``low`` and ``high`` as one column of text."""
    for low in [str(name) for name in shown.columns if str(name).endswith("low")]:
        mean = low.removesuffix("low")
        if f"{mean}high" in shown:
            # Alone they belong to the mean of the table, which is a share if the table has one.
            scale = 100 if (mean.strip() in shares if mean else shares) else 1
            ends = zip(shown[low], shown.pop(f"{mean}high"), strict=True)
            shown[low] = [between(*pair, scale, precision) for pair in ends]
            label = f"{mean.strip()}, 95 %" if mean else "95 % interval"
            shown = shown.rename(columns={low: label})
    return shown


def between(low: Any, high: Any, scale: int, precision: int) -> str:
    """Return both ends of an interval as text; a dash where they are not known."""
    if isinstance(low, str):
        return low if low == high else f"{low} – {high}"
    if math.isnan(low) or math.isnan(high):
        return "–"
    return f"{scale * low:.{precision}f} – {scale * high:.{precision}f}"


def aligned(styler: Any, numbers: Iterable[int]) -> Any:
    """Return a styled table whose columns of numbers are flush right, and whose texts have room.

    Short texts stay in one line, as numbers do, and others have a width in which they can be read:
    beside many numbers they would have a word a line.

    Parameters
    ----------
    numbers
        The places of the columns of numbers, from 0.
    """
    places = [*numbers]
    looks: dict[str, list[str]] = {"text-align: right; white-space: nowrap": []}
    for place in range(styler.data.shape[1]):
        texts = styler.data.iloc[:, place].astype(str)
        text = "white-space: nowrap" if texts.str.len().max() <= SHORT else "min-width: 16em"
        look = next(iter(looks)) if place in places else text
        looks.setdefault(look, []).append(f".col{place}")
    rules = [{"selector": ", ".join(own), "props": look} for look, own in looks.items() if own]
    return styler.set_table_styles(rules, overwrite=False)


def numeric(values: pd.DataFrame, shares: Sequence[str]) -> list[int]:
    """Return the places of the columns that hold numbers: counts, shares and intervals.

    Parameters
    ----------
    shares
        Columns of shares, which may be text already.
    """
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return [
        place
        for place, name in enumerate(values.columns)
        if name in shares
        or INTERVAL in str(name)
        or (is_numeric_dtype(values[name]) and not is_bool_dtype(values[name]))
    ]
