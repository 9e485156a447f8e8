"""Lines against length: the accuracy of tasks, averages of models, and the settings of a study."""

from __future__ import annotations

import math

import pandas as pd

from rulerlib.labels import in_words, thousands
from rulerlib.plots import base

# --- Tasks ------------------------------------------------------------------------------------


def curves(
    table: pd.DataFrame, title: str | None = None, trained: int | None = None
) -> base.Figure:
    """Return a figure of accuracy and its 95% interval against length, one line for each task.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, of one model and one language.
    trained
        The model's training length in tokens, marked on the axis.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "measured length")
    groups, tasks = _together(table), base.by_name(table, "task")
    size = (7 if len(groups) == 1 else 5.5, 4 if len(groups) <= 2 else 3.6)
    label = f"{base.measured(table)} (95% interval)"
    figure, panels = base.panels(len(groups), 2, label, size)
    for axes, names in zip(panels, groups, strict=True):
        parts = {", ".join(dict.fromkeys([in_words(name), name])): tasks[name] for name in names}
        base.lines(axes, parts, "mean", 1, table["length"], trained)
    base.legends(figure, panels)
    alone = panels[0] if len(panels) == 1 else None
    return base.done(figure, title, alone)


def _together(table: pd.DataFrame) -> list[list[str]]:
    """Return the tasks of each panel: all in one, or grouped by category if there are many."""
    names = list(base.by_name(table, "task"))
    if len(names) <= base.WITHIN:
        return [names]
    groups = []
    for part in base.by_name(table, "category").values():
        names = list(base.by_name(part, "task"))
        # Spread a large category evenly over its panels.
        size = math.ceil(len(names) / math.ceil(len(names) / base.WITHIN))
        groups += [names[start : start + size] for start in range(0, len(names), size)]
    return groups


# --- Models -----------------------------------------------------------------------------------


def models(
    table: pd.DataFrame,
    threshold: float | None = None,
    title: str | None = None,
    trained: int | None = None,
) -> base.Figure:
    """Return a figure of RULER's average against length, one line for each model and language.

    The axis names the number of tasks; a length with missing tasks has no average and no mark.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_length`, in percent.
    threshold
        The threshold of the effective length in percent, drawn as a line.
    trained
        The model's training length in tokens, marked on the axis.

    Raises
    ------
    ParameterError
        If no length has an average.
    """
    averaged = table.assign(line=base.labels(table))[table["average"].notna()]
    base.check(averaged, "measured length")
    parts = base.by_name(averaged, "line")
    tasks = sorted({*averaged["tasks"]})
    number = f"{tasks[0]} to {tasks[-1]}" if len(tasks) > 1 else f"{tasks[0]}"
    label = f"average over {number} {'task' if tasks == [1] else 'tasks'} (95% interval)"
    figure, (axes,) = base.panels(1, 1, label, (7, 4))
    base.lines(axes, parts, "average", 100, averaged["length"], trained)
    if threshold is not None:
        axes.axhline(threshold, color="#555555", linestyle=(0, (1, 2)), linewidth=1)
        axes.annotate(
            f"threshold {threshold:g}", (1, threshold), xycoords=("axes fraction", "data"),
            xytext=(-3, 2), textcoords="offset points", fontsize=8, color="#555555", ha="right",
        )  # fmt: skip
    base.legends(figure, [axes])
    return base.done(figure, title, axes)


# --- Settings ---------------------------------------------------------------------------------


def study(table: pd.DataFrame, title: str | None = None, trained: int | None = None) -> base.Figure:
    """Return a figure of each setting's mean, its interval and its n.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, by ``setting``; or by ``group``, ``setting`` and
        ``length``, of one model and one language. With several lengths, each setting is a curve
        and each group has a panel, as in figures 2 and 3 of RULER's paper.
    trained
        The model's training length in tokens, marked on the curves.

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
        size = (7, 4) if len(groups) == 1 else (5.5, 3.6)
        figure, panels = base.panels(len(groups), 2, f"{what} (95% interval)", size)
        for axes, (group, rows) in zip(panels, groups.items(), strict=True):
            base.lines(axes, base.by_name(rows, "setting"), "mean", 1, table["length"], trained)
            if len(groups) > 1:
                axes.set_title(group, fontsize=10)
        base.legends(figure, panels)
        alone = panels[0] if len(panels) == 1 else None
    else:
        figure, (alone,) = base.panels(1, 1, "", (7, 1.1 + 0.36 * len(table)))
        base.dots(alone, range(len(table)), table["mean"], table["low"], table["high"])
        base.name_rows(alone, (table["setting"] + " (n = " + table["n"].astype(str) + ")").tolist())
        alone.set_xlim(-0.03, 1.03)
        base.in_percent(alone.xaxis)
        at = f" at {thousands(int(table['length'].iloc[0]))} tokens" if "length" in table else ""
        alone.set_xlabel(f"{what}{at} (bar: 95% interval)")
    return base.done(figure, title, alone)
