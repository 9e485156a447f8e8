"""The heatmap: the share that was found of what was asked for, by depth and length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from rulerlib import findings
from rulerlib.analysis.tables import thousands
from rulerlib.errors import one_of
from rulerlib.plots import base
from rulerlib.plots.pictures import INK_ON_COLOUR, WHITE_ON_COLOUR

COLOURS = {
    # Blue low, yellow high: readable with every kind of colour blindness.
    "blue-yellow": "cividis",
    # Red low, green high; lightness rises with it, so that it also reads without red and green.
    "red-green": ["#7f1d1d", "#c2410c", "#eab308", "#a3d65c", "#d9f7be"],
}
UNMEASURED = "#d4d4d4"


def heatmap(
    table: pd.DataFrame, colours: str = "blue-yellow", title: str | None = None
) -> base.Figure:
    """Return a figure of depth by length, one panel for each task.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_depth`, of one model and one language.
    colours
        ``"blue-yellow"``, which all readers can tell apart, or ``"red-green"``.

    Returns
    -------
    Figure
        Each cell carries its n; grey cells were not measured, and neither was a grey row.

    Raises
    ------
    ParameterError
        If the table is empty, or there are no such colours.
    """
    one_of("colours", colours, COLOURS)
    base.check(table, "measured cell")
    shades = _shades(colours)
    lengths = sorted(table["length"].unique())
    depths = findings.depths(table)
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
            axes.text(*at, f"{cell['n']}", ha="center", va="center", fontsize=8,
                      color=_on(shades(cell["found"])))  # fmt: skip
        axes.set_xticks(range(len(lengths)), [thousands(length) for length in lengths])
        axes.set_yticks(range(len(depths)), [f"{depth:.0f}" for depth in depths])
        axes.set_xlabel("length (tokens)")
    drawn = [axes for axes, _ in panels]
    rows = drawn[0].get_gridspec().nrows
    # As thin beside several rows of panels as beside one.
    bar = figure.colorbar(image, ax=drawn, shrink=0.9, aspect=20 * rows)
    bar.solids.set_rasterized(True)
    bar.set_label("share found (n in each cell)")
    what = "Heatmap of the share found by depth and length"
    return base.done(figure, what, ("heatmap", findings.heatmap(table)), title)


def shade(value: float, colours: str = "blue-yellow") -> tuple[str, str]:
    """Return the colour of a cell of `heatmap`, and of what is written on it, as ``#rrggbb``.

    Parameters
    ----------
    value
        From 0 to 1; NaN: not measured.

    Raises
    ------
    ParameterError
        If there are no such colours.
    """
    one_of("colours", colours, COLOURS)
    if math.isnan(value):
        return UNMEASURED, "black"
    colour = _shades(colours)(value)
    red, green, blue = (round(255 * part) for part in colour[:3])
    return f"#{red:02x}{green:02x}{blue:02x}", _ink(colour)


def _shades(colours: str) -> Any:
    plt = base.pyplot()
    from matplotlib.colors import LinearSegmentedColormap

    chosen = COLOURS[colours]
    return (
        plt.get_cmap(chosen)
        if isinstance(chosen, str)
        else LinearSegmentedColormap.from_list(colours, chosen)
    ).with_extremes(bad=UNMEASURED)


def _on(colour: Sequence[float]) -> str:
    """Return the ink of a cell in a figure, which a dark page leaves as it is."""
    return WHITE_ON_COLOUR if _ink(colour) == "white" else INK_ON_COLOUR


def _ink(colour: Sequence[float]) -> str:
    """Return what stands out more, black or white: a contrast of at least 4.5, as WCAG 2 asks."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]
    )
    # Where the contrasts to both are the same: (1.05 / (l + .05)) = ((l + .05) / .05).
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "white"
