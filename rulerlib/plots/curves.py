"""Lines against length: the accuracy of tasks, and the averages of models."""

from __future__ import annotations

import math

import pandas as pd

from rulerlib import findings
from rulerlib.plots import base


def curves(
    table: pd.DataFrame, title: str | None = None, trained: int | None = None
) -> base.Figure:
    """Return a figure of accuracy against length, one line for each task, with its interval.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, of one model and one language.
    trained
        A length to be marked, in tokens: how far the model was trained.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "measured length")
    groups, what = _together(table), base.measured(table)
    size = (7 if len(groups) == 1 else 5.5, 4 if len(groups) <= 2 else 3.6)
    figure, panels = base.panels(len(groups), 2, f"{what} (95 % interval)", size)
    parts = {name: table[table["task"] == name] for names in groups for name in names}
    for axes, names in zip(panels, groups, strict=True):
        own = {name: parts[name] for name in names}
        base.lines(axes, own, "mean", 1, table["length"], trained)
    base.legends(figure, panels)
    alone = panels[0] if len(panels) == 1 else None
    what, said = f"Line chart of {what} against length in tokens", findings.curves(table)
    return base.done(figure, what, ("curves", said), title, alone)


def _together(table: pd.DataFrame) -> list[list[str]]:
    """Return tasks that share a panel: all, or where that is too many, those of one category."""
    names = list(dict.fromkeys(table["task"]))
    if len(names) <= base.WITHIN:
        return [names]
    groups = []
    for _, part in table.groupby("category", sort=False):
        names = list(dict.fromkeys(part["task"]))
        # As many in each panel of a large category.
        size = math.ceil(len(names) / math.ceil(len(names) / base.WITHIN))
        groups += [names[start : start + size] for start in range(0, len(names), size)]
    return groups


def models(
    table: pd.DataFrame,
    threshold: float | None = None,
    title: str | None = None,
    trained: int | None = None,
) -> base.Figure:
    """Return a figure of RULER's average against length, one line for each model and language.

    The axis says over how many tasks; a length that lacks some has no average and no mark.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_length`, in percent.
    threshold
        A line to be drawn: what an effective length has to exceed, in percent.
    trained
        A length to be marked, in tokens.

    Raises
    ------
    ParameterError
        If no length has an average.
    """
    base.check(table[table["average"].notna()], "measured length")
    names, known = base.labels(table), table["average"].notna()
    parts = {name: table[(names == name) & known] for name in dict.fromkeys(names)}
    tasks = sorted({*table.loc[known, "tasks"]})
    number = f"{tasks[0]} to " * (len(tasks) > 1) + base.said_count(tasks[-1], "task")
    label = f"average over {number}, % (95 % interval)"
    figure, (axes,) = base.panels(1, 1, label, (7, 4))
    base.lines(axes, parts, "average", 100, table.loc[known, "length"], trained)
    if threshold is not None:
        axes.axhline(threshold, color="#555555", linestyle=(0, (1, 2)), linewidth=1)
        axes.annotate(
            f"threshold {threshold:g}", (1, threshold), xycoords=("axes fraction", "data"),
            xytext=(-3, 2), textcoords="offset points", fontsize=8, color="#555555", ha="right",
        )  # fmt: skip
    base.legends(figure, [axes])
    what = f"Line chart of the average over {number} against length in tokens"
    return base.done(figure, what, ("models", findings.models(table, threshold)), title, axes)
