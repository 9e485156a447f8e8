"""Tables as a notebook shows them: shares in percent, intervals in one column, numbers flush right.

>>> percent_of(0.925), between(0.801, 0.974, 100, 1)
('92.5%', '80.1 – 97.4')
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

from rulerlib.escaping import PLAIN, sentence, spoken, visible
from rulerlib.metrics import MEASURES

if TYPE_CHECKING:
    import pandas as pd

INTERVAL = "95%"
"""Part of the name of each column of intervals."""

SHORT = 34
"""Texts of at most this number of characters stay in one line."""


def percent_of(share: float) -> str:
    """Return a share in percent, or a dash for NaN."""
    return "–" if math.isnan(share) else f"{100 * share:.1f}%"


def intervals(shown: pd.DataFrame, shares: Sequence[str], precision: int) -> pd.DataFrame:
    """Return the table with each pair of columns ``low`` and ``high`` as one column of text."""
    for low in [str(name) for name in shown.columns if str(name).endswith("low")]:
        mean = low.removesuffix("low")
        if f"{mean}high" in shown:
            # Plain `low` and `high` belong to the table's mean, which is usually a share.
            scale = 100 if (mean.strip() in shares if mean else shares) else 1
            ends = zip(shown[low], shown.pop(f"{mean}high"), strict=True)
            shown[low] = [between(*pair, scale, precision) for pair in ends]
            label = f"{mean.strip()}, 95%" if mean else "95% interval"
            shown = shown.rename(columns={low: label})
    return shown


def between(low: Any, high: Any, scale: int, precision: int) -> str:
    """Return both ends of an interval as text, or a dash if one is NaN."""
    if isinstance(low, str):
        return low if low == high else f"{low} – {high}"
    if math.isnan(low) or math.isnan(high):
        return "–"
    return f"{scale * low:.{precision}f} – {scale * high:.{precision}f}"


def aligned(styler: Any, numbers: Sequence[int]) -> Any:
    """Return a styled table with numbers flush right and long texts at least 10 em wide.

    ``numbers`` are the positions of the columns of numbers, from 0.
    """
    right, one_line, wide = (
        "text-align: right; white-space: nowrap",
        "white-space: nowrap",
        "min-width: 10em",
    )
    selectors: dict[str, list[str]] = {right: [], one_line: [], wide: []}
    for place in range(styler.data.shape[1]):
        short = styler.data.iloc[:, place].astype(str).str.len().max() <= SHORT
        style = right if place in numbers else one_line if short else wide
        selectors[style].append(f".col{place}")
    rules = [
        {"selector": ", ".join(columns), "props": style}
        for style, columns in selectors.items()
        if columns
    ]
    # Let names wrap, which are often wider than the numbers below them.
    rules.append({"selector": "th.col_heading", "props": "white-space: normal"})
    styler = styler.format_index(_breaking, axis=1)
    return styler.set_table_styles(rules, overwrite=False)


def _breaking(name: Any) -> str:
    """Return a column name as HTML that wraps at underscores and before its n."""
    escaped = html.escape(str(name), quote=False).replace("_", "_<wbr>")
    return escaped.replace("(n = ", "(n&nbsp;=&nbsp;")


def numeric(values: pd.DataFrame, shares: Sequence[str]) -> list[int]:
    """Return the positions of the columns of counts, shares and intervals.

    Parameters
    ----------
    shares
        Columns of shares, which may already be text.
    """
    return [
        place
        for place, name in enumerate(values.columns)
        if name in shares or INTERVAL in str(name) or values[name].dtype.kind in "iuf"
    ]


def table(
    values: pd.DataFrame | Sequence[Mapping[str, Any]],
    percent: Iterable[str] = (),
    precision: int = 1,
    spoken_in: Mapping[str, str] | None = None,
    folded: bool = True,
) -> Any:
    """Return a styled table, with shares as percentages and each interval in one column.

    Columns ``low`` and ``high`` become ``95% interval``; ``x low`` and ``x high`` become
    ``x, 95%``. Columns with one value, except shares and intervals, move to the caption; if the
    measure does, it becomes the name of ``mean``. An empty table is replaced by its
    ``attrs["why"]``.

    Parameters
    ----------
    values
        A table, or its rows. Columns of numbers are flush right.
    percent
        More columns of shares, 0 to 1.
    precision
        Decimals of other numbers.
    spoken_in
        The language code of columns of texts, for screen readers.
    folded
        Whether columns with one value move to the caption.
    """
    import pandas as pd

    values = values if isinstance(values, pd.DataFrame) else pd.DataFrame([*values])
    if values.empty and "why" in values.attrs:
        return sentence(values.attrs["why"])
    share_names = (*MEASURES, "mean", "found", "accuracy", "share", "cut_off", "copied")
    shares = [*dict.fromkeys(name for name in (*percent, *share_names) if name in values)]
    shown = intervals(values.copy(), shares, precision)
    constant = _constant(shown, (*shares, *(spoken_in or ()))) if folded else []
    caption = "; ".join(f"{name}: {_said(shown[name].iloc[0])}" for name in constant)
    renamed = {"mean": shown["measure"].iloc[0]} if "measure" in constant else {}
    shown = shown.drop(columns=constant)
    shares = [name for name in shares if name in shown]
    if "shares" in shown:
        shown["shares"] = [
            ", ".join(f"{outcome}: {100 * often:.0f}%" for outcome, often in outcomes.items())
            for outcomes in shown["shares"]
        ]
    numbers = numeric(shown, shares)
    # Format as text, because a second call of format() would undo the escaping.
    for name in shares:
        shown[name] = [percent_of(share) for share in shown[name]]
    shown = shown.map(lambda value: visible(value) if isinstance(value, str) else value)
    styler = shown.rename(columns=renamed).style.hide(axis="index")
    styler = styler.format(escape="html", thousands=",", precision=precision, na_rep="–")
    for column, code in (spoken_in or {}).items():
        styler = styler.format(partial(spoken, language=code), subset=[column])
    styler = aligned(styler.set_table_attributes(f"class='{PLAIN}'"), numbers)
    return styler.set_caption(html.escape(visible(caption))) if caption else styler


def _constant(shown: pd.DataFrame, kept: Iterable[str]) -> list[Any]:
    """Return the columns with one value, except results; model and language come first.

    A score of 0% in every row is a result. In a single row only the model, language, measure and
    category count as constant.
    """
    names = ("model", "language", "measure", "category")
    about: list[Any] = [name for name in names if name in shown]
    others = [name for name in shown if name not in about] if len(shown) > 1 else []
    results = {*kept, *(name for name in shown if INTERVAL in str(name))}
    results |= {name for name in shown if shown[name].dtype.kind == "f"}
    constant = [
        name
        for name in (*about, *others)
        if len({*map(str, shown[name])}) == 1 and (name not in results or shown[name].isna().all())
    ]
    return constant if len(constant) < shown.shape[1] else about


def _said(value: Any) -> str:
    """Return the value of a constant column as text for the caption."""
    if isinstance(value, Integral) and str(value).isdigit():
        return f"{value:,}"
    return "–" if value is None or value != value or value == "" else str(value)


def grid(
    values: pd.DataFrame,
    rows: str,
    columns: str,
    share: str,
    *,
    interval: bool = True,
    title: str | None = None,
) -> Any:
    """Return a styled table of shares with rows and columns named by two columns of ``values``.

    The head of a column shows its n if all its cells agree; otherwise each cell shows its own.

    Parameters
    ----------
    values
        One row for each cell: ``n``, the share (0 to 1), ``low`` and ``high`` or ``share low``, ...
    rows, columns
        Names of columns, such as ``"task"`` and ``"length"``.
    share
        The column of shares.
    interval
        Whether to show ``low`` and ``high``.
    title
        The caption.
    """
    if values.empty:
        return table(values)
    heads, alike = dict[Any, str](), dict[Any, bool]()
    for value, part in values.groupby(columns, sort=False):
        name = f"{value:,}" if isinstance(value, Integral) else str(value)
        alike[value] = part["n"].nunique() == 1
        heads[value] = f"{name} (n = {part['n'].iloc[0]:,})" if alike[value] else name
    cells = []
    ends = {f"{share} {end}": end for end in ("low", "high")}
    for _, one in values.rename(columns=ends).iterrows():
        lines = [percent_of(one[share])]
        if interval:
            lines.append(between(one["low"], one["high"], 100, 1))
        if not alike[one[columns]]:
            lines.append(f"n = {one['n']:,}")
        cells.append("\n".join(lines))
    wide = values.assign(cell=cells).pivot(index=rows, columns=columns, values="cell")
    wide = wide.loc[values[rows].unique(), list(heads)].rename(columns=heads).fillna("–")
    styler = table(wide.rename_axis(columns=None).reset_index(), folded=False)
    in_lines = {"selector": "td.data", "props": "white-space: pre"}
    styler = aligned(styler, range(1, 1 + len(heads))).set_table_styles([in_lines], overwrite=False)
    return styler.set_caption(html.escape(visible(title))) if title else styler
