"""Heatmaps of the needles found by depth and length, and bars of the kinds of mistakes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from rulerlib.errors import one_of
from rulerlib.labels import thousands
from rulerlib.plots import base
from rulerlib.tasks.mistakes import KINDS

UNMEASURED = "#d4d4d4"

RED_GREEN = ("#8c0d25", "#c0302c", "#e0702b", "#e6b62e", "#c0da4d", "#a6f28b")
"""The default colours of a heatmap, from 0 to 1. Their lightness (CIELAB) rises from 29 to 89, so
that readers who cannot tell red from green can still order them."""

CMAPS = ("red-green", "viridis")
"""The colour maps of a heatmap: `RED_GREEN`, or that of matplotlib."""

# Without black, which would hide a hatch.
_BRIGHT = [colour for colour in base.COLOURS if colour != "#000000"]
LOOKS = dict(
    zip(
        KINDS,
        ((colour, hatch) for hatch in ("", "//", "..", "xx", "++") for colour in _BRIGHT),
        strict=False,
    )
)
"""A colour and a hatch for each kind of mistake, the same in every figure."""

# --- Depths -----------------------------------------------------------------------------------


def heatmap(table: pd.DataFrame, title: str | None = None, cmap: str = "red-green") -> base.Figure:
    """Return a heatmap of the share found by depth and length, with a panel for each task.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_depth`, of one model and one language.
    cmap
        ``"red-green"`` or ``"viridis"``.

    Returns
    -------
    Figure
        The number in a cell is its n; grey cells were not measured.

    Raises
    ------
    ParameterError
        If the table is empty, or the colour map is unknown.
    """
    base.check(table, "measured cell")
    shades = _shades(cmap)
    lengths = sorted(table["length"].unique())
    depths = sorted({*table.attrs.get("depths", ()), *table["depth"]})
    size = max(2.6, 1.2 + 0.45 * len(lengths)), 3.3
    figure, panels = base.task_panels(table, "depth (%): 0 start, 100 end", size, (0.9, 0))
    for axes, part in panels:
        grid = part.pivot(index="depth", columns="length", values="found")
        grid = grid.reindex(index=depths, columns=lengths)
        image = axes.imshow(
            grid.to_numpy(), cmap=shades, vmin=0, vmax=1, aspect="auto", interpolation="none"
        )
        for cell in part.to_dict("records"):
            at = lengths.index(cell["length"]), depths.index(cell["depth"])
            # Dark mode does not invert these two inks.
            white = _ink(shades(cell["found"])) == "white"
            axes.text(*at, f"{cell['n']}", ha="center", va="center", fontsize=8,
                      color=base.WHITE_ON_COLOUR if white else base.INK_ON_COLOUR)  # fmt: skip
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


def shade(value: float, cmap: str = "red-green") -> tuple[str, str]:
    """Return the colours of a cell of `heatmap` and of the text on it.

    Parameters
    ----------
    value
        From 0 to 1, or NaN if it was not measured.
    cmap
        ``"red-green"`` or ``"viridis"``.

    Raises
    ------
    ParameterError
        If the colour map is unknown.
    """
    if math.isnan(value):
        return UNMEASURED, "black"
    colour = _shades(cmap)(value)
    red, green, blue = (round(255 * part) for part in colour[:3])
    return f"#{red:02x}{green:02x}{blue:02x}", _ink(colour)


def _shades(cmap: str) -> Any:
    """Return a colour map of matplotlib in which cells without a value are grey."""
    pyplot = base.pyplot()
    from matplotlib.colors import LinearSegmentedColormap

    if one_of("cmap", cmap, CMAPS) == "viridis":
        shades = pyplot.get_cmap("viridis")
    else:
        shades = LinearSegmentedColormap.from_list(cmap, RED_GREEN)
    return shades.with_extremes(bad=UNMEASURED)


def _ink(colour: Sequence[float]) -> str:
    """Return black or white, whichever has the higher contrast (at least 4.5, see WCAG 2)."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]
    )
    # Both contrasts are equal at (1.05 / (l + .05)) = ((l + .05) / .05).
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "white"


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
