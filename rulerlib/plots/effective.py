"""Effective lengths: a row for each model, a dot, and its interval."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rulerlib import findings
from rulerlib.analysis.tables import thousands
from rulerlib.findings.lengths import position
from rulerlib.plots import base


def effective(
    table: pd.DataFrame,
    lengths: Sequence[int],
    value: str = "effective",
    other: str | None = None,
    title: str | None = None,
) -> base.Figure:
    """Return a figure of how long a context is effective.

    Parameters
    ----------
    table
        One row for each ``model``: an effective length as text (``<4K``, ``16K``, ``≥32K``), and
        where they are known ``<value> low`` and ``<value> high`` (as `rulerlib.analysis.summary`
        has them), ``language`` and ``claimed``. Rows without an effective length are left out.
    lengths
        Those at which a model has an average, in tokens: the axis. From
        `rulerlib.analysis.averaged`.
    value
        The column of the effective length.
    other
        A column with a second effective length, shown as a hollow mark where it differs: what
        is printed elsewhere, or the other reading. A table need not have it.

    Returns
    -------
    Figure
        An arrow to the right says that no longer length was measured; the place left of a length,
        that it failed; an arrow there, that this model has no average at a shorter one.

    Raises
    ------
    ParameterError
        If the table is empty, or an effective length is none of ``lengths``.
    """
    whole, table = table, table[table[value].notna()]
    base.check(table, "model")
    rising = sorted({int(length) for length in lengths})

    def positions(column: str) -> list[float]:
        return [position(text, rising) for text in table[column if column in table else value]]

    # All of them before anything is drawn: one of them may lie on no length of the axis.
    dots, lows, highs = (positions(name) for name in (value, f"{value} low", f"{value} high"))
    others = positions(other or value)
    models = base.labels(table).tolist()
    claims = [
        f" (claims {length})" if length else ""
        for length in table.get("claimed", pd.Series("", table.index))
    ]
    names = [model + claim for model, claim in zip(models, claims, strict=True)]
    figure, axes = base.dots(names, dots, lows, highs, 1.5 + 0.27 * len(table))
    for row, (dot, elsewhere, text) in enumerate(zip(dots, others, table[value], strict=True)):
        way = 1 if text.startswith("≥") else -1 if dot % 1 else 0
        if way:
            axes.annotate("", (dot + 0.45 * way, row), (dot + 0.05 * way, row),
                          arrowprops={"arrowstyle": "->", "color": base.COLOURS[0]})  # fmt: skip
        if elsewhere != dot:
            axes.plot(elsewhere, row, "D", markerfacecolor="none", color=base.COLOURS[1], zorder=3)
    axes.set_xlim(-1.5, len(rising) - 0.3)
    ticks = [f"<{thousands(rising[0])}", *map(thousands, rising)]
    axes.set_xticks(range(-1, len(rising)), ticks)
    axes.set_xlabel("effective length (tokens)")
    if dots != others:
        from matplotlib.lines import Line2D

        marks = [
            Line2D([], [], marker="o", color=base.COLOURS[0], linestyle="", label=value),
            Line2D([], [], marker="D", color=base.COLOURS[1], markerfacecolor="none", linestyle="",
                   label=f"{other}, where it differs"),
        ]  # fmt: skip
        figure.legend(handles=marks, fontsize=8, loc="outside lower center", ncols=2)
    what = f"Effective length of {base.said_count(len(table), 'model')}"
    shows = "effective", findings.effective(whole, lengths, value, other)
    return base.done(figure, what, shows, title, axes)
