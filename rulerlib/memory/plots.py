"""Figures of memories: scores by suite, capacity, and where answers were lost.

Each figure is of one model in one language; `rulerlib.analysis.parts` takes a table apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rulerlib import plots
from rulerlib.errors import ParameterError

LOOKS = {
    "right": ("#0072B2", ""),
    "right without the facts": ("#56B4E9", "//"),
    "read wrongly": ("#E69F00", "\\\\"),
    "no room in the prompt": ("#F0E442", ".."),
    "not recalled": ("#999999", "xx"),
}
"""A colour and a hatch for each of `rulerlib.memory.tables.FATES`, in their order."""

# The lines of the floors and the ceiling: their colours, dashes and labels.
_LINES = {
    "constant": ("#555555", "--", "always the most frequent answer"),
    "chance": ("#555555", ":", "chance"),
    "oracle": ("#009E73", "-", "oracle: the facts given"),
}

# Panels of a figure of capacity.
_CAPACITY = {"em": "answered rightly", "recall_at_5": "recall at 5"}


def _panels(table: pd.DataFrame) -> tuple[Any, list[Any], list[str]]:
    """Return a figure, its panels with their rows (one for each suite), and all presets."""
    parts, names = plots.by_name(table, "suite"), list(dict.fromkeys(table["preset"]))
    figure, drawn = plots.panels(len(parts), 3, "", (2.6, 0.9 + 0.24 * len(names)), (1.2, 0.5))
    for axes, (suite, part) in zip(drawn, parts.items(), strict=True):
        plots.name_rows(axes, names, shown=axes.get_subplotspec().is_first_col())
        axes.set_title(f"{suite}\n{plots.said_n(part)}", fontsize=9)
    return figure, [*zip(drawn, parts.values(), strict=True)], names


def _below(figure: Any, drawn: Sequence[Any], words: str) -> None:
    """Label the axes, and add a legend below the figure."""
    entries: dict[str, Any] = {}
    for axes in drawn:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    columns = drawn[0].get_gridspec().ncols
    for axes in drawn[-columns:]:
        axes.set_xlabel(words, fontsize=8)
    figure.legend(entries.values(), entries, loc="outside lower center", ncols=columns, fontsize=8)


def matrix(
    table: pd.DataFrame, floors: pd.DataFrame | None = None, title: str | None = None
) -> plots.Figure:
    """Return a figure of the exact match of all presets by suite, with intervals.

    Lines mark chance, the most frequent answer, and the oracle if it was asked. A preset whose bar
    is not to the right of the grey lines has not been shown to remember.

    Parameters
    ----------
    table
        From `rulerlib.memory.tables.table`, of one model, language and size.
    floors
        From `rulerlib.memory.tables.floors`; those of other questions are ignored.

    Raises
    ------
    ParameterError
        If the table is empty, or a preset has two rows for one suite.
    """
    plots.check(table, "measured preset")
    if table.duplicated(["preset", "suite"]).any():
        raise ParameterError("table", "of several kinds", "of one model, language and size")
    figure, drawn, names = _panels(table)
    for axes, part in drawn:
        places = [names.index(name) for name in part["preset"]]
        plots.dots(axes, places, *(part[column] for column in ("em", "em low", "em high")))
        levels = {"oracle": part[part["preset"].str.startswith("oracle")]["em"].mean()}
        if floors is not None and len(floors):
            own = floors.merge(part[["model", "language", "suite", "size"]].drop_duplicates())
            levels |= {name: own[name].mean() for name in ("constant", "chance")}
        for name, (colour, dashes, words) in _LINES.items():
            if pd.notna(levels.get(name)):
                axes.axvline(levels[name], color=colour, ls=dashes, linewidth=1, label=words)
        axes.set_xlim(-0.03, 1.03)
        plots.in_percent(axes.xaxis)
    _below(figure, [axes for axes, _ in drawn], "exact match (bar: 95% interval)")
    return plots.done(figure, title)


def stores(table: pd.DataFrame, title: str | None = None) -> plots.Figure:
    """Return a figure of where answers were lost: a stacked bar for each preset and suite.

    Blue was right, orange was lost by the model, yellow by the limit of the prompt, and grey by the
    memory.

    Parameters
    ----------
    table
        From `rulerlib.memory.tables.fates`, of one model, language and size.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    plots.check(table, "question")
    figure, drawn, names = _panels(table)
    for axes, part in drawn:
        shares = part.pivot_table(index="preset", columns="fate", values="share")
        plots.stacked(axes, shares.reindex(index=names, columns=list(LOOKS)), LOOKS, across=True)
        axes.set_xlim(0, 1)
    _below(figure, [axes for axes, _ in drawn], "share of the questions")
    return plots.done(figure, title)


def capacity(table: pd.DataFrame, title: str | None = None) -> plots.Figure:
    """Return a figure of accuracy and recall by the number of facts taught, a line for each preset.

    The left panel shows answers, the right panel what the store found, which needs no model.

    Parameters
    ----------
    table
        From `rulerlib.memory.tables.capacity`, of one model and one language.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    plots.check(table, "measured number of facts")
    measures = [name for name in _CAPACITY if table[name].notna().any()]
    figure, drawn = plots.panels(len(measures), 2, "share (bar: 95% interval)", (5, 3.6))
    for axes, name in zip(drawn, measures, strict=True):
        columns = {"facts": "length", f"{name} low": "low", f"{name} high": "high"}
        part = table[table[name].notna()].rename(columns=columns)
        plots.draw_lines(axes, plots.by_name(part, "preset"), name, 1, part["length"])
        axes.set_xlabel("facts taught (logarithmic)")
        axes.set_title(_CAPACITY[name], fontsize=10)
    plots.legends(figure, drawn)
    return plots.done(figure, title)
