"""Figures from tables.

`heatmap` shows the share of needles found by depth and length, `curves` the
accuracy against length with its interval, `models` several models' averages,
`effective` how long a context is effective, `errors` the kinds of mistakes, and
`correlation` which tasks move together. All take what `rulerlib.analysis` gives
and make a matplotlib figure whose ``alt`` says in words what it shows: a
notebook stores it beside the picture, for readers who do not see it.

Nothing is told by colour alone: lines have markers, bars have hatches, cells
have numbers, and lightness rises with the value.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from rulerlib import tasks
from rulerlib.analysis.averages import thousands
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
_DASHES = ["-", "--", ":", "-."]

# Kinds of mistakes: a colour and a hatch for each, the same in every figure.
_KINDS = {
    "empty": ("#999999", ""),
    "refused": ("#56B4E9", "//"),
    "copied example": ("#CC79A7", "xx"),
    "distractor": ("#D55E00", ""),
    "wrong value": ("#E69F00", "\\\\"),
    "no context": ("#F0E442", ".."),
    "duplicates": ("#0072B2", "--"),
    "cut off": ("#000000", ""),
    "incomplete": ("#009E73", ""),
    "other": ("#FFFFFF", "++"),
}


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
    shades = _shades(colours)
    names = list(dict.fromkeys(table["task"]))
    rows, columns = _shape(len(names), 4)
    lengths = sorted(table["length"].unique())
    depths = sorted(table["depth"].unique())
    width = max(3.2, 1.6 + 0.62 * len(lengths))
    figure, panels = _panels(rows, columns, (width * columns + 0.9, 3.7 * rows))
    image = None
    for panel, name in zip(panels.flat, names, strict=False):
        part = table[table["task"] == name]
        grid = part.pivot(index="depth", columns="length", values="found")
        grid = grid.reindex(index=depths, columns=lengths)
        counts = part.pivot(index="depth", columns="length", values="n").reindex_like(grid)
        image = panel.imshow(grid.to_numpy(), cmap=shades, vmin=0, vmax=1, aspect="auto")
        _write_counts(panel, grid, counts, shades)
        panel.set_title(name, fontsize=10)
        panel.set_xticks(range(len(lengths)), [thousands(length) for length in lengths])
        panel.set_yticks(range(len(depths)), [f"{depth:.0f}" for depth in depths])
        panel.set_xlabel("length (tokens)")
    _label_rows(panels, len(names), "depth (%): 0 start, 100 end")
    assert image is not None
    bar = figure.colorbar(image, ax=panels, shrink=0.9)
    bar.set_label("share of needles found (n in each cell)")
    if title:
        figure.suptitle(title)
    return _done(figure, _say_heatmap(table, names), title)


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
    groups = _together(list(dict.fromkeys(table["task"])))
    rows, columns = _shape(len(groups), 2)
    figure, panels = _panels(
        rows, columns, (7 if columns == 1 else 11, 4 if rows == 1 else 3.6 * rows)
    )
    for axes, names in zip(panels.flat, groups, strict=False):
        parts = {name: table[table["task"] == name] for name in names}
        _lines(axes, parts, metric, 1, table["length"])
        _mark_trained(axes, trained, table["length"])
    _label_rows(panels, len(groups), f"{metric.replace('_', '-')} (band: 95 % interval)")
    if title and len(groups) == 1:
        panels[0, 0].set_title(title, fontsize=11, pad=14)
    elif title:
        figure.suptitle(title)
    return _done(figure, _say_curves(table, "task", metric, 100), title)


def models(
    table: pd.DataFrame,
    threshold: float | None = None,
    title: str | None = None,
    trained: int | None = None,
) -> Figure:
    """RULER's average against length, one line for each model and language, with its interval.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_length`, in percent.
    threshold
        A line to be drawn: what an effective length has to exceed.
    trained
        A length to be marked.
    """
    if table.empty or table["average"].notna().sum() == 0:
        raise ParameterError("table", "empty", "a table with at least one measured length")
    languages = table["language"].nunique() > 1 if "language" in table else False
    label = table["model"] + (", " + table["language"] if languages else "")
    table = table.assign(label=label)
    names = list(dict.fromkeys(label))
    figure, axes = _one(7 if len(names) <= len(_LINES) else 9, 4)
    parts = {name: table[(label == name) & table["average"].notna()] for name in names}
    _lines(axes, parts, "average", 100, table["length"])
    axes.set_ylabel("average over tasks, % (band: 95 % interval)")
    if threshold is not None:
        axes.axhline(threshold, color="#555555", linestyle=(0, (1, 2)), linewidth=1)
        axes.annotate(
            f"threshold {threshold:g}", (1, threshold), xycoords=("axes fraction", "data"),
            xytext=(-3, 2), textcoords="offset points", fontsize=8, color="#555555", ha="right",
        )  # fmt: skip
    _mark_trained(axes, trained, table["length"])
    if title:
        axes.set_title(title, fontsize=11, pad=14)
    return _done(figure, _say_curves(table, "label", "average", 1), title)


def effective(
    table: pd.DataFrame,
    lengths: Sequence[int],
    name: str = "model",
    value: str = "effective",
    other: str | None = None,
    title: str | None = None,
) -> Figure:
    """How long a context is effective: a row for each model, a dot, and its interval.

    Parameters
    ----------
    table
        One row for each model: a name, an effective length as text (``<4K``, ``16K``, ``≥32K``),
        and where they are known ``<value> low`` and ``<value> high`` (as
        `rulerlib.analysis.summary` has them) and ``claimed``.
    lengths
        Those that were measured, in tokens: the axis.
    name, value
        Columns of ``table``.
    other
        A column with a second effective length, shown as a hollow mark where it differs: what
        is printed elsewhere, or the other reading.

    Returns
    -------
    Figure
        An arrow says that no longer length was measured; the place left of the axis, that even
        the shortest failed.
    """
    if table.empty:
        raise ParameterError("table", "empty", "a table with at least one model")
    rising = sorted({int(length) for length in lengths})
    records = table.to_dict("records")
    # All of them before anything is drawn: one of them may lie on no length of the axis.
    places = [_place(record[value], rising) for record in records]
    ends = [
        [_place(record.get(f"{value} {end}", record[value]), rising) for end in ("low", "high")]
        for record in records
    ]
    others = places if other is None else [_place(record[other], rising) for record in records]
    figure, axes = _one(7, 1.5 + 0.27 * len(table))
    for row, (at, (low, high), elsewhere) in enumerate(zip(places, ends, others, strict=True)):
        axes.hlines(row, low, high, color=_LINES[0], linewidth=5, alpha=0.3)
        axes.plot(at, row, "o", color=_LINES[0], zorder=3)
        if str(records[row][value]).startswith("≥"):
            axes.annotate("", (at + 0.45, row), (at + 0.05, row),
                          arrowprops={"arrowstyle": "->", "color": _LINES[0]})  # fmt: skip
        if elsewhere != at:
            axes.plot(elsewhere, row, "D", markerfacecolor="none", color=_LINES[1], zorder=3)
    labels = [
        f"{record[name]} (claims {record['claimed']})" if record.get("claimed") else record[name]
        for record in records
    ]
    axes.set_yticks(range(len(table)), labels, fontsize=8)
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.set_xlim(-1.5, len(rising) - 0.3)
    ticks = [f"<{thousands(rising[0])}", *map(thousands, rising)]
    axes.set_xticks(range(-1, len(rising)), ticks)
    axes.set_xlabel("effective length (tokens)")
    axes.grid(alpha=0.3, axis="x")
    if other is not None:
        from matplotlib.lines import Line2D

        marks = [
            Line2D([], [], marker="o", color=_LINES[0], linestyle="", label=value),
            Line2D([], [], marker="D", color=_LINES[1], markerfacecolor="none", linestyle="",
                   label=f"{other}, where it differs"),
        ]  # fmt: skip
        figure.legend(handles=marks, fontsize=8, loc="outside lower center", ncols=2)
    if title:
        axes.set_title(title, fontsize=11)
    said = [f"{record[name]} {record[value]}" for record in records]
    alt = f"Effective length of {_count(len(table), 'model')}: {_some(said)}."
    return _done(figure, alt, title)


def errors(table: pd.DataFrame, title: str | None = None) -> Figure:
    """Kinds of mistakes by length, one panel for each task: bars as high as the error rate.

    Parameters
    ----------
    table
        From `rulerlib.analysis.errors`, of one model and one language.
    """
    if table.empty:
        raise ParameterError("table", "empty", "a table with at least one mistake")
    names = list(dict.fromkeys(table["task"]))
    lengths = sorted(table["length"].unique())
    kinds = [kind for kind in _KINDS if (table["error"] == kind).any()]
    rows, columns = _shape(len(names), 4)
    width = max(2.6, 1.0 + 0.5 * len(lengths))
    figure, panels = _panels(rows, columns, (width * columns + 1.6, 2.7 * rows + 0.3))
    for panel, name in zip(panels.flat, names, strict=False):
        part = table[table["task"] == name]
        wide = part.pivot(index="length", columns="error", values="share")
        wide = wide.reindex(index=lengths, columns=kinds)
        base = pd.Series(0.0, wide.index)
        for kind in kinds:
            colour, hatch = _KINDS[kind]
            panel.bar(range(len(lengths)), wide[kind].fillna(0), bottom=base, color=colour,
                      hatch=hatch, edgecolor="#333333", linewidth=0.5, label=kind)  # fmt: skip
            base = base + wide[kind].fillna(0)
        counts = part.groupby("length")["n"].first().reindex(lengths)
        ticks = [
            f"{thousands(length)}\n" + (f"n={int(n)}" if n == n else "–")
            for length, n in zip(lengths, counts, strict=True)
        ]
        panel.set_xticks(range(len(lengths)), ticks, fontsize=7)
        panel.set_ylim(0, 1)
        panel.set_title(name, fontsize=10)
        panel.grid(alpha=0.3, axis="y")
        panel.set_axisbelow(True)
    _label_rows(panels, len(names), "share of all answers")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", fontsize=8)
    if title:
        figure.suptitle(title)
    return _done(figure, _say_errors(table, names, lengths), title)


def correlation(found: Any, title: str | None = None) -> Figure:
    """Tasks by tasks: their correlation across models, ordered by the tree at its left.

    Parameters
    ----------
    found
        From `rulerlib.analysis.correlation`.
    """
    if isinstance(found, str):
        raise ParameterError("found", found, "a correlation")
    from scipy.cluster import hierarchy

    plt = _pyplot()
    matrix = found.matrix
    names = matrix.index.tolist()
    size = 1.6 + 0.42 * len(names)
    figure, (left, right) = _columns_of(size + 2.6, size, [1, 3])
    hierarchy.dendrogram(found.tree, orientation="left", ax=left, no_labels=True,
                         color_threshold=0, above_threshold_color="#333333")  # fmt: skip
    # The tree counts its leaves from below, ten units each.
    left.set_ylim(10 * len(names), 0)
    left.set_xlabel("1 − correlation", fontsize=8)
    for side in ("left", "top", "right"):
        left.spines[side].set_visible(False)
    shades = plt.get_cmap("PuOr_r")
    # As high as the tree beside it, so that each row is level with its leaf.
    image = right.imshow(matrix.to_numpy(), cmap=shades, vmin=-1, vmax=1, aspect="auto")
    for row, values in enumerate(matrix.to_numpy()):
        for column, value in enumerate(values):
            light = abs(value) < 0.75
            right.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7,
                       color="black" if light else "white")  # fmt: skip
    right.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
    right.set_yticks(range(len(names)), names, fontsize=8)
    figure.colorbar(image, ax=right, shrink=0.8, label="correlation")
    about = f"{found.models} models, {_count(found.observations, 'cell')} of model and length"
    right.set_title(title or about, fontsize=10)
    low = matrix.where(~pd.DataFrame(
        [[one == other for other in names] for one in names], names, names
    )).stack()  # fmt: skip
    most, least = low.idxmax(), low.idxmin()
    alt = (
        f"Correlation of {len(names)} tasks across {about}, ordered by hierarchical clustering:"
        f" {', '.join(names)}. Highest: {most[0]} and {most[1]}, {low[most]:.2f}; lowest:"
        f" {least[0]} and {least[1]}, {low[least]:.2f}."
    )
    return _done(figure, alt, title)


def study(table: pd.DataFrame, metric: str = "all_match", title: str | None = None) -> Figure:
    """One row for each setting of a study: the mean, its interval, its n.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, by ``setting``.
    """
    if table.empty:
        raise ParameterError("table", "empty", "a table with at least one measured setting")
    figure, axes = _one(7, 1.1 + 0.36 * len(table))
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
    said = [
        f"{name} {100 * mean:.0f} %"
        for name, mean in zip(_columns(table)[0], table[metric], strict=True)
    ]
    alt = f"{metric.replace('_', '-').capitalize()} by setting: {_some(said, 20)}."
    return _done(figure, alt, title)


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


# --- What the figures share -------------------------------------------------------------------


@functools.cache
def _picture() -> Any:
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that says in words what it shows."""

        alt = ""

        def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
            # A notebook stores the words beside the picture, and shows them where it cannot.
            file = io.BytesIO()
            self.savefig(file, format="png")
            bundle = {"image/png": file.getvalue(), "text/plain": self.alt}
            return bundle, {"image/png": {"alt": self.alt}}

    return Picture


def _panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    made: tuple[Any, Any] = _pyplot().subplots(
        rows, columns, figsize=size, squeeze=False, layout="constrained", FigureClass=_picture()
    )
    return made


def _shape(count: int, most: int) -> tuple[int, int]:
    """Rows and columns for so many panels, ``most`` of them side by side."""
    columns = min(most, count)
    return math.ceil(count / columns), columns


def _label_rows(panels: Any, count: int, label: str) -> None:
    """What is measured, beside each row; places that no panel took stay empty."""
    for panel in panels[:, 0]:
        panel.set_ylabel(label)
    for panel in list(panels.flat)[count:]:
        panel.set_axis_off()


def _one(width: float, height: float) -> tuple[Any, Any]:
    figure, panels = _panels(1, 1, (width, height))
    return figure, panels[0, 0]


def _columns_of(width: float, height: float, ratios: Sequence[float]) -> tuple[Any, Any]:
    made: tuple[Any, Any] = _pyplot().subplots(
        1, len(ratios), figsize=(width, height), layout="constrained",
        gridspec_kw={"width_ratios": ratios}, FigureClass=_picture(),
    )  # fmt: skip
    return made


def _done(figure: Any, alt: str, title: str | None) -> Figure:
    """The figure with its words, and closed: matplotlib would show it twice, and warn after 20."""
    figure.alt = f"{title}. {alt}" if title else alt
    _pyplot().close(figure)
    made: Figure = figure
    return made


def _together(names: Sequence[str]) -> list[list[str]]:
    """Tasks that share a panel: all, or where that is too many, those of one kind."""
    if len(names) <= len(_LINES):
        return [list(names)]
    groups: dict[str, list[str]] = {}
    for name in names:
        task = tasks.TASKS.get(name.partition("+")[0])
        family = task.family if task else "other"
        # Word counts are two families of one task each; RULER calls both aggregation.
        kind = "aggregation" if family.endswith("_words") else family
        if family == "niah":
            kind = "niah, one needle" if "single" in name else "niah, more needles"
        groups.setdefault(kind, []).append(name)
    return list(groups.values())


def _lines(
    axes: Axes, parts: Mapping[str, pd.DataFrame], value: str, whole: float, lengths: Iterable[int]
) -> None:
    """A named line for each part, against length; ``whole`` is the highest value there can be."""
    for number, (name, part) in enumerate(parts.items()):
        _line(axes, number, part, value, f"{name} ({_said_n(part)})")
    _length_axis(axes, lengths)
    axes.set_ylim(-0.03 * whole, 1.03 * whole)
    _legend(axes, len(parts))


def _line(axes: Axes, number: int, part: pd.DataFrame, value: str, label: str) -> None:
    colour = _LINES[number % len(_LINES)]
    axes.plot(
        part["length"],
        part[value],
        color=colour,
        marker=_MARKERS[number % len(_MARKERS)],
        # A ninth line would look like the first.
        linestyle=_DASHES[number // len(_LINES) % len(_DASHES)],
        label=label,
    )
    axes.fill_between(part["length"], part["low"], part["high"], color=colour, alpha=0.15)


def _length_axis(axes: Axes, lengths: Iterable[int]) -> None:
    known = sorted(set(lengths))
    axes.set_xscale("log", base=2)
    axes.set_xticks(known, [thousands(length) for length in known])
    axes.minorticks_off()
    axes.set_xlabel("length (tokens)")
    axes.grid(alpha=0.3)


def _mark_trained(axes: Axes, trained: int | None, lengths: Iterable[int]) -> None:
    known = sorted(set(lengths))
    if trained is not None and known[0] <= trained <= known[-1]:
        axes.axvline(trained, color="#777777", linestyle=":", linewidth=1)
        axes.text(trained, 0.02, " trained length", fontsize=8, color="#555555", va="bottom",
                  transform=axes.get_xaxis_transform())  # fmt: skip


def _legend(axes: Axes, count: int) -> None:
    if count <= len(_LINES):
        axes.legend(fontsize=8)
    else:
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))


def _said_n(part: pd.DataFrame) -> str:
    n = sorted(set(part["n"]))
    if not n:
        return "not measured"
    return f"n = {n[0]}" if len(n) == 1 else f"n = {n[0]} to {n[-1]}"


def _place(text: str, lengths: Sequence[int]) -> int:
    """Where an effective length lies on the axis; -1: below the shortest."""
    if str(text).startswith("<"):
        return -1
    names = [thousands(length) for length in lengths]
    number = str(text).upper().lstrip("≥>")
    if number not in names:
        raise ParameterError("effective length", text, f"one of {', '.join(names)}")
    return names.index(number)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _some(parts: Sequence[str], most: int = 12) -> str:
    """So many of a list; screen readers cannot skip the rest of a long sentence."""
    left = len(parts) - most
    return "; ".join(parts[:most]) + (f"; and {left} more, in the table" if left > 0 else "")


def _say_curves(table: pd.DataFrame, name: str, value: str, scale: float) -> str:
    said = []
    for label in dict.fromkeys(table[name]):
        part = table[(table[name] == label) & table[value].notna()].sort_values("length")
        if part.empty:
            said.append(f"{label}: not measured")
            continue
        first, last = part.iloc[0], part.iloc[-1]
        words = f"{label}: {scale * first[value]:.0f} % at {thousands(int(first['length']))}"
        if len(part) > 1:
            words += f", {scale * last[value]:.0f} % at {thousands(int(last['length']))}"
        said.append(words)
    kind = "average" if value == "average" else value.replace("_", "-")
    return f"Line chart of {kind} against length in tokens. {_some(said, 14)}."


def _say_heatmap(table: pd.DataFrame, names: Sequence[str]) -> str:
    said = []
    for name in names:
        part = table[table["task"] == name]
        worst = part.iloc[int(part["found"].to_numpy().argmin())]
        whole = (part["found"] * part["n"]).sum() / part["n"].sum()
        said.append(
            f"{name}: {100 * whole:.0f} % found in all, least at"
            f" {thousands(int(worst['length']))} tokens around depth {worst['depth']:.0f} %,"
            f" {100 * worst['found']:.0f} %"
        )
    return f"Heatmap of the share of needles found by depth and length. {_some(said, 13)}."


def _say_errors(table: pd.DataFrame, names: Sequence[str], lengths: Sequence[int]) -> str:
    said = []
    for name in names:
        part = table[(table["task"] == name) & (table["count"] > 0)]
        if part.empty:
            said.append(f"{name}: no mistakes")
            continue
        longest = part[part["length"] == part["length"].max()]
        worst = longest.iloc[int(longest["share"].to_numpy().argmax())]
        said.append(
            f"{name}: {100 * longest['share'].sum():.0f} % wrong at"
            f" {thousands(int(worst['length']))} tokens, most often '{worst['error']}'"
        )
    return f"Bars of the kinds of mistakes by length. {_some(said, 13)}."


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("matplotlib", "notebook", "Drawing a figure") from error
    return plt
