"""Figures from tables.

`heatmap` shows the share of needles found by depth and length, `curves` the
accuracy against length with its interval. Both take a table of
`rulerlib.analysis` and give a matplotlib figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from rulerlib.errors import MissingExtraError, ParameterError, one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    # Red low, green high; lightness rises with it, so that it also reads without red and green.
    "red-green": ["#7f1d1d", "#c2410c", "#eab308", "#a3d65c", "#d9f7be"],
    # Blue low, yellow high: readable with every kind of colour blindness.
    "blue-yellow": "cividis",
}
UNMEASURED = "#d4d4d4"

# Okabe and Ito's colours, told apart by all readers, with a marker for each.
_LINES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
_MARKERS = "os^Dv<>p"


def heatmap(table: pd.DataFrame, colours: str = "red-green", title: str | None = None) -> Figure:
    """Depth by length, one panel for each task.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_depth`, of one model and one language.
    colours
        ``"red-green"``, or ``"blue-yellow"`` for readers who do not tell those apart.

    Returns
    -------
    Figure
        Each cell carries its n; grey cells were not measured.
    """
    one_of("colours", colours, COLOURS)
    if table.empty:
        raise ParameterError("table", "empty", "a table with at least one measured cell")
    plt = _pyplot()
    shades = _shades(colours)
    names = list(dict.fromkeys(table["task"]))
    columns = min(4, len(names))
    rows = math.ceil(len(names) / columns)
    lengths = sorted(table["length"].unique())
    depths = sorted(table["depth"].unique())
    width = max(3.2, 1.6 + 0.62 * len(lengths))
    figure: Figure
    figure, panels = plt.subplots(
        rows,
        columns,
        figsize=(width * columns + 0.9, 3.7 * rows),
        squeeze=False,
        layout="constrained",
    )
    image = None
    for panel, name in zip(panels.flat, names, strict=False):
        part = table[table["task"] == name]
        grid = part.pivot(index="depth", columns="length", values="found")
        grid = grid.reindex(index=depths, columns=lengths)
        counts = part.pivot(index="depth", columns="length", values="n").reindex_like(grid)
        image = panel.imshow(grid.to_numpy(), cmap=shades, vmin=0, vmax=1, aspect="auto")
        _write_counts(panel, grid, counts, shades)
        panel.set_title(name, fontsize=10)
        panel.set_xticks(range(len(lengths)), [_thousands(length) for length in lengths])
        panel.set_yticks(range(len(depths)), [f"{depth:.0f}" for depth in depths])
        panel.set_xlabel("length (tokens)")
    for panel in panels[:, 0]:
        panel.set_ylabel("depth (%): 0 start, 100 end")
    for panel in list(panels.flat)[len(names) :]:
        panel.set_axis_off()
    assert image is not None
    bar = figure.colorbar(image, ax=panels, shrink=0.9)
    bar.set_label("share of needles found (n in each cell)")
    if title:
        figure.suptitle(title)
    plt.close(figure)
    return figure


def curves(
    table: pd.DataFrame,
    metric: str = "all_match",
    title: str | None = None,
    trained: int | None = None,
) -> Figure:
    """Accuracy against length, one line for each task, with its interval.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, of one model and one language.
    trained
        A length to be marked: how far the model was trained.
    """
    if table.empty:
        raise ParameterError("table", "empty", "a table with at least one measured length")
    plt = _pyplot()
    figure: Figure
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for number, name in enumerate(dict.fromkeys(table["task"])):
        part = table[table["task"] == name]
        colour = _LINES[number % len(_LINES)]
        n = sorted(set(part["n"]))
        said = f"n = {n[0]}" if len(n) == 1 else f"n = {n[0]} to {n[-1]}"
        axes.plot(
            part["length"],
            part[metric],
            color=colour,
            marker=_MARKERS[number % len(_MARKERS)],
            label=f"{name} ({said})",
        )
        axes.fill_between(part["length"], part["low"], part["high"], color=colour, alpha=0.15)
    lengths = sorted(table["length"].unique())
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [_thousands(length) for length in lengths])
    axes.minorticks_off()
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("length (tokens)")
    axes.set_ylabel(f"{metric.replace('_', '-')} (band: 95 % interval)")
    if trained is not None and lengths[0] <= trained <= lengths[-1]:
        axes.axvline(trained, color="#777777", linestyle=":", linewidth=1)
        axes.text(trained, 1.01, " trained length", fontsize=8, color="#555555", va="bottom")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    if title:
        axes.set_title(title, fontsize=11, pad=14)
    plt.close(figure)
    return figure


def study(table: pd.DataFrame, metric: str = "all_match", title: str | None = None) -> Figure:
    """One row for each setting of a study: the mean, its interval, its n.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, by ``setting``.
    """
    if table.empty:
        raise ParameterError("table", "empty", "a table with at least one measured setting")
    plt = _pyplot()
    figure: Figure
    figure, axes = plt.subplots(figsize=(7, 1.1 + 0.36 * len(table)), layout="constrained")
    rows = range(len(table))
    axes.hlines(rows, table["low"], table["high"], color=_LINES[0], linewidth=5, alpha=0.3)
    axes.plot(table[metric], rows, "o", color=_LINES[0])
    axes.set_yticks(rows, [f"{name} (n = {n})" for name, n in zip(*_columns(table), strict=True)])
    axes.invert_yaxis()
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel(f"{metric.replace('_', '-')} (bar: 95 % interval)")
    axes.grid(alpha=0.3, axis="x")
    if title:
        axes.set_title(title, fontsize=11)
    plt.close(figure)
    return figure


def _columns(table: pd.DataFrame) -> tuple[list[str], list[int]]:
    return table["setting"].astype(str).tolist(), table["n"].tolist()


def _write_counts(panel: Axes, grid: pd.DataFrame, counts: pd.DataFrame, shades: Any) -> None:
    numbers = counts.fillna(0).to_numpy(dtype=int)
    for row, values in enumerate(grid.to_numpy()):
        for column, value in enumerate(values):
            if math.isnan(value):
                continue
            panel.text(
                column,
                row,
                f"{int(numbers[row, column])}",
                ha="center",
                va="center",
                fontsize=7,
                color=_ink(shades(value)),
            )


def shade(value: float, colours: str = "red-green") -> tuple[str, str]:
    """The colour of a cell of `heatmap`, and of what is written on it, as ``#rrggbb``.

    Parameters
    ----------
    value
        From 0 to 1; NaN: not measured.
    """
    one_of("colours", colours, COLOURS)
    if math.isnan(value):
        return UNMEASURED, "black"
    colour = _shades(colours)(value)
    red, green, blue = (round(255 * part) for part in colour[:3])
    return f"#{red:02x}{green:02x}{blue:02x}", _ink(colour)


def _shades(colours: str) -> Any:
    plt = _pyplot()
    from matplotlib.colors import LinearSegmentedColormap

    chosen = COLOURS[colours]
    return (
        plt.get_cmap(chosen)
        if isinstance(chosen, str)
        else LinearSegmentedColormap.from_list(colours, chosen)
    ).with_extremes(bad=UNMEASURED)


def _ink(colour: Sequence[float]) -> str:
    """Black or white, whichever stands out more: a contrast of at least 4.5, as WCAG 2 asks."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]
    )
    # Where the contrasts to both are the same: (1.05 / (l + .05)) = ((l + .05) / .05).
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "white"


def _thousands(length: int) -> str:
    return f"{length // 1024}K" if length % 1024 == 0 else str(length)


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("matplotlib", "notebook", "Drawing a figure") from error
    return plt
