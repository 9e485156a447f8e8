"""Figures of tables from `rulerlib.analysis`.

`heatmap` shows the share of needles found by depth and length, `curves` the accuracy against length
with its interval, `models` several models' averages, `errors` the kinds of mistakes, and `study`
the settings of a study, as curves if they were asked at several lengths. Figures of memories are in
`rulerlib.memory.plots`. If matplotlib is not installed, all raise
`rulerlib.errors.MissingExtraError`.

Each takes a ``title`` and has an alt text for screen readers, made from the title and the axes.
Colour is never the only mark: lines have markers, bars have hatches, cells
have numbers, and lightness rises with the value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from rulerlib.labels import in_words, thousands
from rulerlib.plots import base
from rulerlib.tasks.mistakes import KINDS

UNMEASURED = "#d4d4d4"

RED_GREEN = ("#8c0d25", "#c0302c", "#e0702b", "#e6b62e", "#c0da4d", "#a6f28b")
"""The colours of a heatmap, from 0 to 1. Their lightness (CIELAB) rises from 29 to 89, so
that readers who cannot tell red from green can still order them."""

# Without black, which would hide a hatch.
_BRIGHT = [colour for colour in base.COLOURS if colour != "#000000"]
_LOOKS = [(colour, hatch) for hatch in ("", "//", "..", "xx", "++") for colour in _BRIGHT]
LOOKS = dict(zip(KINDS, _LOOKS, strict=False))
"""A colour and a hatch for each kind of mistake, the same in every figure."""

# --- Depths -----------------------------------------------------------------------------------


def heatmap(table: pd.DataFrame, title: str | None = None) -> base.Figure:
    """Return a heatmap of the share found by depth and length, with a panel for each task.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_depth`, of one model and one language.

    Returns
    -------
    Figure
        The number in a cell is its n; grey cells were not measured.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "measured cell")
    lengths = sorted(table["length"].unique())
    depths = sorted({*table.attrs.get("depths", ()), *table["depth"]})
    size = max(2.6, 1.2 + 0.45 * len(lengths)), 3.3
    figure, panels = base.task_panels(table, "depth (%): 0 start, 100 end", size, (0.9, 0))
    for axes, part in panels:
        grid = part.pivot(index="depth", columns="length", values="found")
        grid = grid.reindex(index=depths, columns=lengths)
        image = axes.imshow(
            grid, cmap=_shades(), vmin=0, vmax=1, aspect="auto", interpolation="none"
        )
        for cell in part.to_dict("records"):
            at = lengths.index(cell["length"]), depths.index(cell["depth"])
            _, ink = shade(cell["found"])
            axes.text(*at, f"{cell['n']}", ha="center", va="center", fontsize=8,
                      color=base.ON_COLOUR[ink])  # fmt: skip
        axes.set_xticks(range(len(lengths)), [thousands(length) for length in lengths])
        axes.set_yticks(range(len(depths)), [f"{depth:.0f}" for depth in depths])
        axes.set_xlabel("length (tokens)")
    drawn = [axes for axes, _ in panels]
    rows = drawn[0].get_gridspec().nrows
    # Keep the colour bar equally thin for several rows of panels.
    bar = figure.colorbar(image, ax=drawn, shrink=0.9, aspect=20 * rows)
    bar.solids.set_rasterized(True)
    base.in_percent(bar.ax.yaxis)
    bar.set_label("found (n in each cell)")
    return base.done(figure, title)


def shade(value: float) -> tuple[str, str]:
    """Return the colours of a cell of `heatmap` and of the text on it.

    Parameters
    ----------
    value
        From 0 to 1, or NaN if it was not measured.

    Returns
    -------
    colour, ink
        The ink is ``"black"`` or ``"white"``, whichever has the higher contrast (at least 4.5, see
        WCAG 2).
    """
    if math.isnan(value):
        return UNMEASURED, "black"
    colour = _shades()(value)[:3]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour
    )
    # Both contrasts are equal at (1.05 / (l + .05)) = ((l + .05) / .05).
    ink = "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "white"
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour), ink


def _shades() -> Any:
    """Return the colour map of a heatmap, in which cells without a value are grey."""
    base.pyplot()
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("red-green", RED_GREEN).with_extremes(bad=UNMEASURED)


# --- Mistakes ---------------------------------------------------------------------------------


def errors(table: pd.DataFrame, title: str | None = None) -> base.Figure:
    """Return a figure of the kinds of mistakes by length, one panel for each task.

    The height of a bar is the share of wrong answers at that length.

    Parameters
    ----------
    table
        From `rulerlib.analysis.errors`, of one model and one language.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "mistake")
    lengths = sorted(table["length"].unique())
    kinds = [kind for kind in LOOKS if (table["error"] == kind).any()]
    width = max(2.4, 0.9 + 0.4 * len(lengths))
    figure, panels = base.task_panels(table, "share of all answers", (width, 2.7), (1.6, 0.3))
    for axes, part in panels:
        shares = part.pivot(index="length", columns="error", values="share")
        base.stacked(axes, shares.reindex(index=lengths, columns=kinds).fillna(0), LOOKS)
        counts = part.groupby("length")["n"].first()
        names = [
            f"{thousands(length)}\n" + (f"n={counts[length]}" if length in counts else "–")
            for length in lengths
        ]
        axes.set_xticks(range(len(lengths)), names, fontsize=8)
        axes.set_ylim(0, 1)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", fontsize=8)
    return base.done(figure, title)


# --- Lines against length ---------------------------------------------------------------------


def curves(table: pd.DataFrame, title: str | None = None) -> base.Figure:
    """Return a figure of accuracy and its 95% interval against length, one line for each task.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, of one model and one language.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "measured length")
    groups = {"": table}
    if table["task"].nunique() > base.WITHIN:
        groups = base.by_name(table, "category")
    panels = []
    for part in groups.values():
        tasks = base.by_name(part, "task")
        lines = {", ".join(dict.fromkeys([in_words(name), name])): tasks[name] for name in tasks}
        # Spread a large category evenly over its panels.
        size = math.ceil(len(lines) / math.ceil(len(lines) / base.WITHIN))
        for start in range(0, len(lines), size):
            panels.append(("", dict(list(lines.items())[start : start + size])))
    return _lines(table, panels, f"{base.measured(table)} (95% interval)", title)


def _lines(
    table: pd.DataFrame,
    panels: Sequence[tuple[str, Mapping[str, pd.DataFrame]]],
    label: str,
    title: str | None,
) -> base.Figure:
    """Return a figure of means against length; each panel has a title and its lines by name."""
    alone = len(panels) == 1
    size = (7 if alone else 5.5, 4 if len(panels) <= 2 else 3.6)
    figure, drawn = base.panels(len(panels), 2, label, size)
    for axes, (name, lines) in zip(drawn, panels, strict=True):
        base.lines(axes, lines, "mean", 1, table["length"])
        if name:
            axes.set_title(name, fontsize=10)
    base.legends(figure, drawn)
    return base.done(figure, title, drawn[0] if alone else None)


def models(
    table: pd.DataFrame,
    threshold: float | None = None,
    title: str | None = None,
) -> base.Figure:
    """Return a figure of RULER's average against length, one line for each model and language.

    The axis names the number of tasks; a length with missing tasks has no average and no mark.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_length`, in percent.
    threshold
        The threshold of the effective length in percent, drawn as a line.

    Raises
    ------
    ParameterError
        If no length has an average.
    """
    several = table["language"].nunique() > 1
    names = table["model"] + ", " + table["language"] if several else table["model"]
    averaged = table.assign(line=names)[table["average"].notna()]
    base.check(averaged, "measured length")
    tasks = sorted({*averaged["tasks"]})
    number = f"{tasks[0]} to {tasks[-1]}" if len(tasks) > 1 else f"{tasks[0]}"
    label = f"average over {number} {'task' if tasks == [1] else 'tasks'} (95% interval)"
    figure, (axes,) = base.panels(1, 1, label, (7, 4))
    lines = base.by_name(averaged, "line")
    base.lines(axes, lines, "average", 100, averaged["length"])
    if threshold is not None:
        axes.axhline(threshold, color="#555555", linestyle=(0, (1, 2)), linewidth=1)
        axes.annotate(
            f"threshold {threshold:g}", (1, threshold), xycoords=("axes fraction", "data"),
            xytext=(-3, 2), textcoords="offset points", fontsize=8, color="#555555", ha="right",
        )  # fmt: skip
    base.legends(figure, [axes])
    return base.done(figure, title, axes)


# --- Settings ---------------------------------------------------------------------------------


def study(table: pd.DataFrame, title: str | None = None) -> base.Figure:
    """Return a figure of each setting's mean, its interval and its n.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, by ``setting``; or by ``group``, ``setting`` and
        ``length``, of one model and one language. With several lengths, each setting is a curve
        and each group has a panel, as in figures 2 and 3 of RULER's paper.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "measured setting")
    table = table.assign(setting=table["setting"].astype(str))
    what = base.measured(table)
    if "length" in table and table["length"].nunique() > 1:
        groups = base.by_name(table.assign(group=table.get("group", "")), "group")
        panels = [
            (group if len(groups) > 1 else "", base.by_name(rows, "setting"))
            for group, rows in groups.items()
        ]
        return _lines(table, panels, f"{what} (95% interval)", title)
    figure, (axes,) = base.panels(1, 1, "", (7, 1.1 + 0.36 * len(table)))
    base.dots(axes, range(len(table)), table["mean"], table["low"], table["high"])
    base.name_rows(axes, (table["setting"] + " (n = " + table["n"].astype(str) + ")").tolist())
    axes.set_xlim(-0.03, 1.03)
    base.in_percent(axes.xaxis)
    at = f" at {thousands(int(table['length'].iloc[0]))} tokens" if "length" in table else ""
    axes.set_xlabel(f"{what}{at} (bar: 95% interval)")
    return base.done(figure, title, axes)
