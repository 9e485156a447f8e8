"""Figures of memories: scores by suite, capacity, and where answers were lost.

Each figure is of one model in one language; `rulerlib.analysis.parts` takes a table apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rulerlib.errors import ParameterError
from rulerlib.plots import base

LOOKS = {
    "right": ("#0072B2", ""),
    "right without the facts": ("#56B4E9", "//"),
    "read wrongly": ("#E69F00", "\\\\"),
    "no room in the prompt": ("#F0E442", ".."),
    "not recalled": ("#999999", "xx"),
}
"""A colour and a hatch for each of `rulerlib.memory.tables.FATES`, in their order."""

# As in `rulerlib.memory.tables`, which would import all memories.
ORACLE = "oracle"

# The lines of the floors and the ceiling: their colours, dashes and labels.
_LINES = {
    "constant": ("#555555", "--", "always the most frequent answer"),
    "chance": ("#555555", ":", "chance"),
    ORACLE: ("#009E73", "-", "oracle: the facts given"),
}

# Panels of a figure of capacity.
_CAPACITY = {"em": "answered rightly", "recall_at_5": "recall at 5"}


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the name and the panel of each row.

    The name is the preset with its changes; the panel is the suite with what else is averaged
    separately.
    """
    name, panel = table["preset"], table.get("suite", pd.Series("", table.index))
    if "changes" in table:
        name = name + [f", {changes}" if changes else "" for changes in table["changes"]]
    for column in ("size", "profile", "knobs"):
        if column in table and table[column].nunique() > 1:
            prefix = "size " if column == "size" else ""
            values = table[column].astype(str).replace("default", "")
            panel = panel + [f", {prefix}{value}" if value else "" for value in values]
    return table.assign(name=name, panel=panel)


def _with_ends(measure: str) -> tuple[str, str, str]:
    return measure, f"{measure} low", f"{measure} high"


def _panels(
    table: pd.DataFrame, names: Sequence[str]
) -> tuple[Any, list[Any], dict[str, pd.DataFrame]]:
    """Return a figure with a panel for each suite and a row for each name, and their rows."""
    parts = base.by_name(table, "panel")
    figure, drawn = base.panels(len(parts), 3, "", (2.6, 0.9 + 0.24 * len(names)), (1.2, 0.5))
    for axes, suite in zip(drawn, parts, strict=True):
        base.name_rows(axes, names, shown=axes.get_subplotspec().is_first_col())
        axes.set_title(suite, fontsize=9)
    return figure, drawn, parts


def _below(figure: Any, drawn: Sequence[Any], words: str) -> None:
    """Label the axes, and add a legend below the figure."""
    entries: dict[str, Any] = {}
    for axes in drawn:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    columns = drawn[0].get_gridspec().ncols
    for axes in drawn[-columns:]:
        axes.set_xlabel(words, fontsize=8)
    if entries:
        figure.legend(
            entries.values(), entries, loc="outside lower center", ncols=columns, fontsize=8
        )


# --- All presets by suite ---------------------------------------------------------------------


def matrix(
    table: pd.DataFrame, floors: pd.DataFrame | None = None, title: str | None = None
) -> base.Figure:
    """Return a figure of the exact match of all presets by suite, with intervals.

    Lines mark chance, the most frequent answer, and the oracle if it was asked.

    Parameters
    ----------
    table
        From `rulerlib.memory.tables.table`, of one model and one language.
    floors
        From `rulerlib.memory.tables.floors`, of the same questions.

    Raises
    ------
    ParameterError
        If the table is empty, or a preset has two rows for one suite.

    Notes
    -----
    Each dot is a preset's share of right answers in a suite, the bar its 95% interval. A preset
    whose bar is not to the right of the grey lines has not been shown to remember. The green line
    is the score of the model with the facts given.
    """
    base.check(table, "measured preset")
    rows = _named(table)
    if rows.duplicated(["name", "panel"]).any():
        raise ParameterError("table", "of several kinds", "of one model, language and size")
    names = list(dict.fromkeys(rows["name"]))
    figure, drawn, parts = _panels(rows, names)
    for axes, (suite, part) in zip(drawn, parts.items(), strict=True):
        places = [names.index(name) for name in part["name"]]
        base.dots(axes, places, *(part[column] for column in _with_ends("em")))
        for name, level in _levels(part, floors, suite).items():
            colour, dashes, words = _LINES[name]
            axes.axvline(level, color=colour, linestyle=dashes, linewidth=1, label=words)
        axes.set_title(f"{suite}\n{base.said_n(part)}", fontsize=9)
        axes.set_xlim(-0.03, 1.03)
        base.in_percent(axes.xaxis)
    _below(figure, drawn, "exact match (bar: 95% interval)")
    return base.done(figure, title)


def _levels(part: pd.DataFrame, floors: pd.DataFrame | None, suite: str) -> dict[str, float]:
    """Return the positions of the lines in the panel of a suite, by their names in `_LINES`."""
    levels = {ORACLE: part[part["name"] == ORACLE]["em"].mean()}
    if floors is not None and len(floors):
        rows = _named(floors.assign(preset=""))
        rows = rows[rows["panel"] == suite]
        # The floors may be of several models and languages.
        for name in ("model", "language"):
            rows = rows[rows[name].isin(part[name])]
        levels |= {name: rows[name].mean() for name in ("constant", "chance")}
    return {name: levels[name] for name in _LINES if pd.notna(levels.get(name))}


# --- Where answers were lost ------------------------------------------------------------------


def stores(table: pd.DataFrame, title: str | None = None) -> base.Figure:
    """Return a figure of where answers were lost: a stacked bar for each preset and suite.

    Parameters
    ----------
    table
        From `rulerlib.memory.tables.fates`, of one model and one language.

    Raises
    ------
    ParameterError
        If the table is empty.

    Notes
    -----
    Each bar is all questions of a suite. Blue was right, orange was lost by the model, yellow by
    the limit of the prompt, and grey by the memory.
    """
    base.check(table, "question")
    rows = _named(table)
    names = list(dict.fromkeys(rows["name"]))
    figure, drawn, parts = _panels(rows, names)
    for axes, part in zip(drawn, parts.values(), strict=True):
        shares = part.pivot_table(index="name", columns="fate", values="share")
        base.stacked(axes, shares.reindex(index=names, columns=list(LOOKS)), LOOKS, across=True)
        axes.set_xlim(0, 1)
    _below(figure, drawn, "share of the questions")
    return base.done(figure, title)


# --- How much is held -------------------------------------------------------------------------


def capacity(table: pd.DataFrame, title: str | None = None) -> base.Figure:
    """Return a figure of accuracy and recall by the number of facts taught, a line for each preset.

    Parameters
    ----------
    table
        From `rulerlib.memory.tables.capacity`, of one model and one language.

    Raises
    ------
    ParameterError
        If the table is empty.

    Notes
    -----
    The number of facts grows from left to right. The left panel shows answers, the right panel what
    the store found, which needs no model. Bars are 95% intervals.
    """
    base.check(table, "measured number of facts")
    figure, drawn = base.panels(2, 2, "share (bar: 95% interval)", (4.6, 3.6), (0, 0.6))
    parts, counts = base.by_name(_named(table), "name"), sorted({*table["facts"]})
    for axes, (measure, words) in zip(drawn, _CAPACITY.items(), strict=True):
        for number, (name, part) in enumerate(parts.items()):
            if part[measure].isna().all():
                continue
            # Side by side, so that each bar is visible.
            at = part["facts"] * 1.05 ** (number - (len(parts) - 1) / 2)
            mean, low, high = (part[column] for column in _with_ends(measure))
            look = base.look(number)
            axes.vlines(at, low, high, color=look["color"], linewidth=2, alpha=0.35)
            axes.plot(at, mean, label=name, linewidth=1.2, **look)
        axes.set_xscale("log")
        axes.set_xlim(counts[0] / 1.6, counts[-1] * 1.6)
        axes.set_xticks(counts, [f"{facts:,}" for facts in counts], fontsize=8)
        axes.minorticks_off()
        axes.set_ylim(-0.03, 1.03)
        base.in_percent(axes.yaxis)
        axes.grid(alpha=0.3)
        axes.set_title(words, fontsize=10)
    _below(figure, drawn, "facts taught (logarithmic)")
    return base.done(figure, title)
