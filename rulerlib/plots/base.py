"""What the figures share: colours, panels, legends that leave the axes their room, words."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from rulerlib import packages
from rulerlib.analysis.tables import thousands
from rulerlib.errors import require
from rulerlib.findings.guides import GUIDES
from rulerlib.findings.wording import labels as labels
from rulerlib.findings.wording import measured as measured
from rulerlib.findings.wording import said_count as said_count
from rulerlib.findings.wording import said_n as said_n
from rulerlib.plots.pictures import picture
from rulerlib.show_run import finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

Numbers = Sequence[float] | pd.Series

# Okabe and Ito's colours, told apart by all readers, with a marker for each.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
MARKERS = "os^Dv<>p"
DASHES = ["-", "--", ":", "-."]

# Entries of a legend, and characters of each, that leave room for the lines within the axes.
WITHIN, NARROW = 8, 34
# Entries of a legend below the axes; further ones are counted.
MOST = 36
# Characters of an entry; longer ones are cut.
WIDEST = 60
# Letters of a legend in an inch; and in inches the height of its lines, and how far below the axes
# it begins.
_LETTERS, _LINE, _UNDER = 15, 0.17, 0.5


def pyplot() -> Any:
    """Return `matplotlib.pyplot`, which is loaded only where it is used.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    return packages.load("matplotlib.pyplot", "notebook", "Drawing a figure")


def check(table: pd.DataFrame, holds: str) -> None:
    """Check that there is something to draw, and to draw it with.

    Parameters
    ----------
    holds
        What a row of the table is, in words.

    Raises
    ------
    ParameterError
        If the table is empty.
    MissingExtraError
        If `matplotlib` is not installed.
    """
    pyplot()
    require(not table.empty, "table", "empty", f"a table with at least one {holds}")


def subplots(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """Return a figure of a size in inches, and its panels, rows x columns.

    Parameters
    ----------
    options
        What `matplotlib.pyplot.subplots` takes besides.
    """
    figure, grid = pyplot().subplots(
        rows, columns, figsize=size, squeeze=False, layout="constrained", FigureClass=picture(),
        **options,
    )  # fmt: skip
    return figure, grid


def panels(
    count: int, most: int, label: str, size: tuple[float, float], room: tuple[float, float] = (0, 0)
) -> tuple[Any, list[Any]]:
    """Return a figure and its panels.

    Parameters
    ----------
    count, most
        How many panels, and how many of them side by side.
    label
        What is measured, written beside each row.
    size
        Width and height of a panel in inches.
    room
        By how much the figure is wider and higher than its panels.
    """
    columns = min(most, count)
    rows = math.ceil(count / columns)
    figure, grid = subplots(rows, columns, (size[0] * columns + room[0], size[1] * rows + room[1]))
    for axes in grid[:, 0]:
        axes.set_ylabel(label)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    return figure, list(grid.flat[:count])


def task_panels(
    table: pd.DataFrame, label: str, size: tuple[float, float], room: tuple[float, float]
) -> tuple[Any, list[tuple[Any, pd.DataFrame]]]:
    """Return a figure with a panel for each task, and each panel with its rows; see `panels`."""
    names = list(dict.fromkeys(table["task"]))
    # Three side by side can still be read on a page.
    figure, drawn = panels(len(names), 3, label, size, room)
    for axes, name in zip(drawn, names, strict=True):
        # The knobs of a task would reach into the next panel.
        lines = textwrap.wrap(name.replace("+", " +"), int(_LETTERS * size[0] / 2))
        axes.set_title("\n".join(lines).replace(" +", "+"), fontsize=10)
    parts = [table[table["task"] == name] for name in names]
    return figure, list(zip(drawn, parts, strict=True))


def dots(
    names: Sequence[str], values: Numbers, lows: Numbers, highs: Numbers, height: float
) -> tuple[Any, Any]:
    """Return a figure and its panel: a row for each name, a dot at its value, and its interval.

    Parameters
    ----------
    height
        Of the figure, in inches.
    """
    figure, grid = subplots(1, 1, (7, height))
    axes, rows = grid[0, 0], range(len(names))
    axes.hlines(rows, lows, highs, color=COLOURS[0], linewidth=5, alpha=0.3)
    axes.plot(values, rows, "o", color=COLOURS[0], zorder=3)
    axes.set_yticks(rows, names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(alpha=0.3, axis="x")
    return figure, axes


def done(
    figure: Any,
    what: str,
    said: tuple[str, str],
    title: str | None = None,
    axes: Axes | None = None,
) -> Figure:
    """Return the figure with its words; it is closed, because matplotlib would show it twice.

    Parameters
    ----------
    what
        What kind of figure it is, and of what. For readers who do not see it, this and what it
        shows are its text.
    said
        The name of its function here, and what it shows of this run, from `rulerlib.findings`.
    title, axes
        A title, and what it stands above; None: the whole figure.
    """
    name, words = said
    stated = (text.removesuffix(".") for text in (title, what, *words.split("\n")) if text)
    figure.alt = ". ".join([*stated, ""]).rstrip()
    figure.says = finding(words, GUIDES[name])
    if title and axes is not None:
        axes.set_title(title, fontsize=11, pad=14)
    elif title:
        figure.suptitle(title)
    pyplot().close(figure)
    drawn: Figure = figure
    return drawn


def lines(
    axes: Axes,
    parts: Mapping[str, pd.DataFrame],
    value: str,
    whole: float,
    lengths: Iterable[int],
    trained: int | None,
) -> None:
    """Draw a named line for each part, against length, with its interval and its legend.

    Parameters
    ----------
    parts
        The rows of each line by its name, with ``length``, ``low``, ``high`` and ``n``.
    value
        The column that is drawn.
    whole
        The highest value that there can be: 1, or 100 percent.
    lengths
        Those of the axis, in tokens.
    trained
        A length to be marked where it lies on the axis: how far the model was trained.
    """
    known = sorted(set(lengths))
    for number, (name, part) in enumerate(parts.items()):
        colour = COLOURS[number % len(COLOURS)]
        # Without its dashes a ninth line would look like the first.
        dashes = DASHES[number // len(COLOURS) % len(DASHES)]
        # At one length alone there are no lines: dots stand side by side, each with a bar.
        beside = 2 ** ((number - (len(parts) - 1) / 2) / len(parts)) if len(known) == 1 else 1
        at = part["length"] * beside
        axes.plot(at, part[value], label=f"{name} ({said_n(part)})", color=colour,
                  linestyle=dashes, marker=MARKERS[number % len(MARKERS)])  # fmt: skip
        if len(part) == 1:
            # A band of one length has no width.
            axes.vlines(at, part["low"], part["high"], color=colour, linewidth=5, alpha=0.3)
        else:
            axes.fill_between(at, part["low"], part["high"], color=colour, alpha=0.15)
    if len(known) == 1:
        axes.set_xlim(known[0] / 2, known[0] * 2)
    axes.set_xscale("log", base=2)
    axes.set_xticks(known, [thousands(length) for length in known])
    axes.minorticks_off()
    axes.set_xlabel("length (tokens)")
    axes.grid(alpha=0.3)
    axes.set_ylim(-0.03 * whole, 1.03 * whole)
    if trained is not None and known[0] <= trained <= known[-1]:
        axes.axvline(trained, color="#777777", linestyle=":", linewidth=1)
        axes.text(trained, 0.02, " trained length", fontsize=8, color="#555555", va="bottom",
                  transform=axes.get_xaxis_transform())  # fmt: skip


def legends(figure: Any, drawn: Sequence[Any]) -> None:
    """Add a legend to each panel: within it if it is small, else below, where the figure grows."""
    from matplotlib.transforms import ScaledTranslation

    below = 0.0
    for axes in drawn:
        handles, labels = axes.get_legend_handles_labels()
        if len(labels) <= WITHIN and max(map(len, labels)) <= NARROW:
            axes.legend(fontsize=8)
            continue
        left = len(labels) - MOST
        labels = [cut(label) for label in labels[:MOST]]
        if left > 0:
            labels[-1] += f"; and {left} more, in the table"
        width = figure.get_figwidth() / axes.get_gridspec().ncols
        columns = max(1, int(_LETTERS * width / (max(map(len, labels)) + 8)))
        # Below the words under the axis, whatever the height of the axes will be.
        under = axes.transAxes + ScaledTranslation(0, -_UNDER, figure.dpi_scale_trans)
        axes.legend(handles[:MOST], labels, fontsize=7, ncols=columns, borderaxespad=0,
                    loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=under)  # fmt: skip
        below = max(below, _LINE * math.ceil(len(labels) / columns) + 0.3)
    if below:
        rows = drawn[0].get_gridspec().nrows
        figure.set_figheight(figure.get_figheight() + rows * below)


def cut(label: str) -> str:
    """Return a label of at most ``WIDEST`` characters, cut before its end, where labels differ."""
    if len(label) <= WIDEST:
        return label
    return f"{label[: WIDEST - 25]} … {label[-22:]}"
