"""Figures of tables from `rulerlib.analysis`.

`heatmap` shows the share of needles found by depth and length, `curves` the accuracy against length
with its interval, `models` several models' averages, `errors` the kinds of mistakes, and `study`
the settings of a study, as curves if they were asked at several lengths. Figures of memories are in
`rulerlib.memory.plots`. If matplotlib is not installed, all raise
`rulerlib.errors.MissingExtraError`.

Each takes a ``title`` and has an alt text for screen readers, made from the title and the axes.
Colour is never the only mark: lines have markers, bars have hatches, cells have numbers, and
lightness rises with the value.

A notebook shows a PNG of twice the resolution, with the alt text. Beside it, under a media type of
its own that Jupyter ignores, it stores an SVG for the pages of the book, which adapts to dark mode.
"""

from __future__ import annotations

import functools
import html
import io
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rulerlib import languages, tasks
from rulerlib.errors import ParameterError, load_package
from rulerlib.tasks.mistakes import KINDS
from rulerlib.tokens import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Figure

# Okabe and Ito's colours, which colour-blind readers can distinguish, and a marker for each.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
MARKERS = "os^Dv<>p*"
DASHES = ["-", "--", ":", "-."]

# At most this many lines share a panel, so that each has its own colour.
WITHIN = 8
# Characters of a legend per inch; the height of its lines and its distance to the axes in inches.
_LETTERS, _LINE, _UNDER = 15, 0.17, 0.5


_IN_WORDS = languages.read_toml(Path(tasks.__file__).with_name("names.toml"), "tasks in words")

UNMEASURED = "#d4d4d4"

RED_GREEN = ("#8c0d25", "#c0302c", "#e0702b", "#e6b62e", "#c0da4d", "#a6f28b")
"""The colours of a heatmap, from 0 to 1. Their lightness (CIELAB) rises from 29 to 89, so
that readers who cannot tell red from green can still order them."""

# Without black, which would hide a hatch.
_BRIGHT = [colour for colour in COLOURS if colour != "#000000"]
_LOOKS = [(colour, hatch) for hatch in ("", "//", "..", "xx", "++") for colour in _BRIGHT]
LOOKS = dict(zip(KINDS, _LOOKS, strict=False))
"""A colour and a hatch for each kind of mistake, the same in every figure."""


def pyplot() -> Any:
    """Return `matplotlib.pyplot`, which is loaded on first use.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    return load_package("matplotlib.pyplot", "notebook", "Drawing a figure")


def check(table: pd.DataFrame, holds: str) -> None:
    """Check that a table has rows and that `matplotlib` is installed.

    Parameters
    ----------
    holds
        A description of a row for the error message.

    Raises
    ------
    ParameterError
        If the table is empty.
    MissingExtraError
        If `matplotlib` is not installed.
    """
    pyplot()
    if table.empty:
        raise ParameterError("table", "empty", f"a table with at least one {holds}")


# --- Panels -----------------------------------------------------------------------------------


def panels(
    count: int, most: int, label: str, size: tuple[float, float], room: tuple[float, float] = (0, 0)
) -> tuple[Any, list[Any]]:
    """Return a figure and its panels.

    Parameters
    ----------
    count, most
        The number of panels, and the most in one row.
    label
        The name of the y axis, shown once per row.
    size
        Width and height of a panel in inches.
    room
        Additional width and height of the figure in inches.
    """
    rows = math.ceil(count / most)
    # Four panels are drawn as two rows of two.
    columns = math.ceil(count / rows)
    figure, grid = pyplot().subplots(
        rows, columns, figsize=(size[0] * columns + room[0], size[1] * rows + room[1]),
        squeeze=False, layout="constrained", FigureClass=picture(),
    )  # fmt: skip
    for axes in grid[:, 0]:
        axes.set_ylabel(label)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    return figure, list(grid.flat[:count])


def task_panels(
    table: pd.DataFrame, label: str, size: tuple[float, float], room: tuple[float, float]
) -> tuple[Any, list[tuple[Any, pd.DataFrame]]]:
    """Return a figure with a panel for each task, and each panel with its rows; see `panels`."""
    tasks = by_name(table, "task")
    # More than three panels in a row would be too small to read.
    figure, drawn = panels(len(tasks), 3, label, size, room)
    for axes, name in zip(drawn, tasks, strict=True):
        words = [in_words(name)] if in_words(name) != name else []
        # Wrap the task's parameters, which would overlap the next panel.
        lines = textwrap.wrap(name, int(_LETTERS * size[0] / 2))
        axes.set_title("\n".join(words + lines), fontsize=10)
    return figure, list(zip(drawn, tasks.values(), strict=True))


def done(figure: Any, title: str | None = None, axes: Axes | None = None) -> Figure:
    """Add the title and the alt text to a figure, and close it so that it is shown only once.

    Parameters
    ----------
    title
        The title.
    axes
        The panel that gets the title. If None, the whole figure gets it.
    """
    if title:
        # An inch holds about ten characters.
        wrapped = textwrap.fill(title, max(20, int(10 * figure.get_figwidth())))
        if axes is not None:
            axes.set_title(wrapped, fontsize=11, pad=14)
        else:
            figure.suptitle(wrapped, fontsize=11)
    figure.alt = alt_text(figure, title)
    pyplot().close(figure)
    drawn: Figure = figure
    return drawn


def alt_text(figure: Any, title: str | None) -> str:
    """Return a text for screen readers: the title and the names of the axes."""
    panels = [axes for axes in figure.axes if axes.axison and axes.get_subplotspec() is not None]
    up = ", ".join(dict.fromkeys(axes.get_ylabel() for axes in panels if axes.get_ylabel()))
    across = ", ".join(dict.fromkeys(axes.get_xlabel() for axes in panels if axes.get_xlabel()))
    axes_named = " against ".join(filter(None, (up, across)))
    return ". ".join(filter(None, (title or "Figure", axes_named))) + "."


# --- Contents of a panel ----------------------------------------------------------------------


def look(number: int) -> dict[str, Any]:
    """Return the colour, marker and dashes of a line; the first 32 lines all differ."""
    return {
        "color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
    }  # fmt: skip


def in_percent(axis: Any, whole: float = 1) -> None:
    """Show the numbers of an axis in percent of ``whole``."""
    axis.set_major_formatter(lambda value, _: f"{100 * value / whole:.0f}%")


def dots(axes: Axes, places: Any, values: Any, lows: Any, highs: Any) -> None:
    """Draw a dot and an interval in each row."""
    axes.hlines(places, lows, highs, color=COLOURS[0], linewidth=5, alpha=0.3)
    axes.plot(values, places, "o", color=COLOURS[0], zorder=3)


def name_rows(axes: Axes, names: Sequence[str], shown: bool = True) -> None:
    """Label the rows of a panel from top to bottom, or only make room for them."""
    axes.set_yticks(range(len(names)), names if shown else [""] * len(names), fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(alpha=0.3, axis="x")


def stacked(
    axes: Axes, shares: pd.DataFrame, looks: Mapping[str, tuple[str, str]], across: bool = False
) -> None:
    """Draw a stacked bar for each row; each column has its colour and hatch in ``looks``."""
    before = shares.cumsum(axis=1) - shares
    draw: Any = axes.barh if across else axes.bar
    start = "left" if across else "bottom"
    for name in map(str, shares):
        colour, hatch = looks[name]
        draw(range(len(shares)), shares[name], color=colour, hatch=hatch, edgecolor="#333333",
             linewidth=0.5, label=name, **{start: before[name]})  # fmt: skip
    in_percent(axes.xaxis if across else axes.yaxis)
    axes.grid(alpha=0.3, axis="x" if across else "y")
    axes.set_axisbelow(True)


def draw_lines(
    axes: Axes,
    parts: Mapping[str, pd.DataFrame],
    value: str,
    whole: float,
    lengths: Iterable[int],
) -> None:
    """Draw a line with intervals against length for each part.

    Parameters
    ----------
    parts
        The rows of each line by name, with ``length``, ``low``, ``high`` and ``n``.
    value
        The column to draw.
    whole
        The highest possible value: 1, or 100 for percent.
    lengths
        The ticks of the axis, in tokens.
    """
    rising = sorted(set(lengths))
    # Shift the marks of one length sideways, so that intervals do not overlap.
    room = 1 if len(rising) == 1 else min(0.5, 0.08 * (len(parts) - 1))
    for number, (name, part) in enumerate(parts.items()):
        at = part["length"] * 2 ** (room * ((number + 0.5) / len(parts) - 0.5))
        reach = [part[value] - part["low"], part["high"] - part[value]]
        axes.errorbar(at, part[value], np.clip(reach, 0, None), elinewidth=1.5, alpha=0.85,
                      label=f"{name} ({said_n(part)})", **look(number))  # fmt: skip
    if len(rising) == 1:
        axes.set_xlim(rising[0] / 2, rising[0] * 2)
    axes.set_xscale("log", base=2)
    axes.set_xticks(rising, [thousands(length) for length in rising])
    axes.minorticks_off()
    axes.set_xlabel("length (tokens)")
    axes.grid(alpha=0.3)
    axes.set_ylim(-0.03 * whole, 1.03 * whole)
    in_percent(axes.yaxis, whole)


def legends(figure: Any, drawn: Sequence[Any]) -> None:
    """Add a legend below each panel and make the figure taller."""
    from matplotlib.transforms import ScaledTranslation

    below = 0.0
    for axes in drawn:
        handles, names = axes.get_legend_handles_labels()
        width = figure.get_figwidth() / axes.get_gridspec().ncols
        columns = max(1, int(_LETTERS * width / (max(map(len, names)) + 8)))
        # The offset in inches keeps the legend below the axis label at any height of the axes.
        under = axes.transAxes + ScaledTranslation(0, -_UNDER, figure.dpi_scale_trans)
        axes.legend(handles, names, fontsize=7, ncols=columns, borderaxespad=0,
                    loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=under)  # fmt: skip
        below = max(below, _LINE * math.ceil(len(names) / columns) + 0.3)
    rows = drawn[0].get_gridspec().nrows
    figure.set_figheight(figure.get_figheight() + rows * below)


# --- Groups and names in a table --------------------------------------------------------------


def by_name(table: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    """Return the rows of each value of a column, in the order of the table."""
    return {str(name): part for name, part in table.groupby(column, sort=False)}


def in_words(label: str) -> str:
    """Return a short description of a task, or the label if there is none.

    >>> in_words("vt"), in_words("vt+num_hops=8")
    ('a chain of variables', 'vt+num_hops=8')
    """
    if label in _IN_WORDS:
        return str(_IN_WORDS[label])
    row = tasks.find(label)
    return row.in_words.get(label, label) if row else label


def measured(table: pd.DataFrame) -> str:
    """Return the measures in a table of accuracy, separated by commas."""
    names = dict.fromkeys(name for text in table["measure"] for name in text.split(", "))
    return ", ".join(name.replace("_", "-") for name in names)


def said_n(part: pd.DataFrame) -> str:
    """Return the number of answers behind each mean of a line, or its range."""
    n = sorted(set(part["n"]))
    return f"n = {n[0]:,}" if len(n) == 1 else f"n = {n[0]:,} to {n[-1]:,}"


# --- The picture ----------------------------------------------------------------------------------

SVG = "application/vnd.rulerlib.svg"
"""The media type of the SVG that a notebook stores with a figure."""

ON_COLOUR = {"black": "#010101", "white": "#fefefe"}
"""Near black and near white, which dark mode does not invert."""

_DARK = Path(__file__).with_suffix(".css").read_text("utf-8")

# Pixels of the PNG for each pixel of the page.
_DENSITY = 2


@functools.cache
def picture() -> Any:
    """Return the class of the figures, defined on first use because it needs matplotlib."""
    from matplotlib.figure import Figure as Figure

    class Picture(Figure):
        """A figure with an alt text."""

        alt = ""

        def _ipython_display_(self) -> None:
            # Otherwise Jupyter's inline backend would replace the PNG by its own.
            from IPython.display import publish_display_data

            publish_display_data(*self._repr_mimebundle_())  # type: ignore[no-untyped-call]

        def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
            # The layout is computed once for both formats.
            self.draw_without_rendering()
            self.set_layout_engine(None)
            width, height = (round(self.dpi * side) for side in self.get_size_inches())
            png = io.BytesIO()
            self.savefig(png, format="png", dpi=_DENSITY * self.dpi)
            bundle = {"image/png": png.getvalue(), SVG: svg(self), "text/plain": self.alt}
            return bundle, {"image/png": {"alt": self.alt, "width": width, "height": height}}

    return Picture


def svg(figure: Any) -> str:
    """Return a figure as SVG for a page or a file; the same figure gives the same bytes."""
    import matplotlib

    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": "rulerlib"}):
        figure.savefig(file, format="svg", metadata=nothing)
    _, _, drawn = file.getvalue().partition("<svg ")
    drawn = re.sub(r"\s*<metadata>.*?</metadata>", "", drawn, count=1, flags=re.DOTALL)
    head, _, body = drawn.partition(">")
    words = html.escape(getattr(figure, "alt", ""))
    named = f'<svg class="ruler-figure" role="img" aria-label="{words}" {head}>'
    return f"{named}\n <style>{_DARK}</style>{body}"


# --- Depths -----------------------------------------------------------------------------------


def heatmap(table: pd.DataFrame, title: str | None = None) -> Figure:
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
    check(table, "measured cell")
    lengths = sorted(table["length"].unique())
    depths = sorted({*table.attrs.get("depths", ()), *table["depth"]})
    size = max(2.6, 1.2 + 0.45 * len(lengths)), 3.3
    figure, panels = task_panels(table, "depth (%): 0 start, 100 end", size, (0.9, 0))
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
                      color=ON_COLOUR[ink])  # fmt: skip
        axes.set_xticks(range(len(lengths)), [thousands(length) for length in lengths])
        axes.set_yticks(range(len(depths)), [f"{depth:.0f}" for depth in depths])
        axes.set_xlabel("length (tokens)")
    drawn = [axes for axes, _ in panels]
    rows = drawn[0].get_gridspec().nrows
    # Keep the colour bar equally thin for several rows of panels.
    bar = figure.colorbar(image, ax=drawn, shrink=0.9, aspect=20 * rows)
    bar.solids.set_rasterized(True)
    in_percent(bar.ax.yaxis)
    bar.set_label("found (n in each cell)")
    return done(figure, title)


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
    pyplot()
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("red-green", RED_GREEN).with_extremes(bad=UNMEASURED)


# --- Mistakes ---------------------------------------------------------------------------------


def errors(table: pd.DataFrame, title: str | None = None) -> Figure:
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
    check(table, "mistake")
    lengths = sorted(table["length"].unique())
    kinds = [kind for kind in LOOKS if (table["error"] == kind).any()]
    width = max(2.4, 0.9 + 0.4 * len(lengths))
    figure, panels = task_panels(table, "share of all answers", (width, 2.7), (1.6, 0.3))
    for axes, part in panels:
        shares = part.pivot(index="length", columns="error", values="share")
        stacked(axes, shares.reindex(index=lengths, columns=kinds).fillna(0), LOOKS)
        counts = part.groupby("length")["n"].first()
        names = [
            f"{thousands(length)}\n" + (f"n={counts[length]}" if length in counts else "–")
            for length in lengths
        ]
        axes.set_xticks(range(len(lengths)), names, fontsize=8)
        axes.set_ylim(0, 1)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", fontsize=8)
    return done(figure, title)


# --- Lines against length ---------------------------------------------------------------------


def curves(table: pd.DataFrame, title: str | None = None) -> Figure:
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
    check(table, "measured length")
    groups = {"": table}
    if table["task"].nunique() > WITHIN:
        groups = by_name(table, "category")
    panels = []
    for part in groups.values():
        tasks = by_name(part, "task")
        lines = {", ".join(dict.fromkeys([in_words(name), name])): tasks[name] for name in tasks}
        # Spread a large category evenly over its panels.
        size = math.ceil(len(lines) / math.ceil(len(lines) / WITHIN))
        for start in range(0, len(lines), size):
            panels.append(("", dict(list(lines.items())[start : start + size])))
    return _courses(table, panels, f"{measured(table)} (95% interval)", title)


def _courses(
    table: pd.DataFrame,
    courses: Sequence[tuple[str, Mapping[str, pd.DataFrame]]],
    label: str,
    title: str | None,
) -> Figure:
    """Return a figure of means against length; for each panel its title and its lines."""
    alone = len(courses) == 1
    size = (7 if alone else 5.5, 4 if len(courses) <= 2 else 3.6)
    figure, drawn = panels(len(courses), 2, label, size)
    for axes, (name, lines) in zip(drawn, courses, strict=True):
        draw_lines(axes, lines, "mean", 1, table["length"])
        if name:
            axes.set_title(name, fontsize=10)
    legends(figure, drawn)
    return done(figure, title, drawn[0] if alone else None)


def models(
    table: pd.DataFrame,
    threshold: float | None = None,
    title: str | None = None,
) -> Figure:
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
    check(averaged, "measured length")
    tasks = sorted({*averaged["tasks"]})
    number = f"{tasks[0]} to {tasks[-1]}" if len(tasks) > 1 else f"{tasks[0]}"
    label = f"average over {number} {'task' if tasks == [1] else 'tasks'} (95% interval)"
    figure, (axes,) = panels(1, 1, label, (7, 4))
    lines = by_name(averaged, "line")
    draw_lines(axes, lines, "average", 100, averaged["length"])
    if threshold is not None:
        axes.axhline(threshold, color="#555555", linestyle=(0, (1, 2)), linewidth=1)
        axes.annotate(
            f"threshold {threshold:g}", (1, threshold), xycoords=("axes fraction", "data"),
            xytext=(-3, 2), textcoords="offset points", fontsize=8, color="#555555", ha="right",
        )  # fmt: skip
    legends(figure, [axes])
    return done(figure, title, axes)


# --- Settings ---------------------------------------------------------------------------------


def study(table: pd.DataFrame, title: str | None = None) -> Figure:
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
    check(table, "measured setting")
    table = table.assign(setting=table["setting"].astype(str))
    what = measured(table)
    if "length" in table and table["length"].nunique() > 1:
        groups = by_name(table.assign(group=table.get("group", "")), "group")
        courses = [
            (group if len(groups) > 1 else "", by_name(rows, "setting"))
            for group, rows in groups.items()
        ]
        return _courses(table, courses, f"{what} (95% interval)", title)
    figure, (axes,) = panels(1, 1, "", (7, 1.1 + 0.36 * len(table)))
    dots(axes, range(len(table)), table["mean"], table["low"], table["high"])
    name_rows(axes, (table["setting"] + " (n = " + table["n"].astype(str) + ")").tolist())
    axes.set_xlim(-0.03, 1.03)
    in_percent(axes.xaxis)
    at = f" at {thousands(int(table['length'].iloc[0]))} tokens" if "length" in table else ""
    axes.set_xlabel(f"{what}{at} (bar: 95% interval)")
    return done(figure, title, axes)
