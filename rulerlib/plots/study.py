"""The figure of a study: its settings at one length, or each of them as a curve over lengths."""

from __future__ import annotations

import pandas as pd

from rulerlib import findings
from rulerlib.analysis.tables import thousands
from rulerlib.plots import base


def study(table: pd.DataFrame, title: str | None = None, trained: int | None = None) -> base.Figure:
    """Return a figure of each setting's mean, its interval and its n.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, by ``setting``; or by ``group``, ``setting`` and
        ``length``, of one model and one language. Where it has several lengths, each setting is a
        curve, and each group has a panel, as in figures 2 and 3 of RULER's paper.
    trained
        A length to be marked on the curves, in tokens: how far the model was trained.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "measured setting")
    if "length" in table and table["length"].nunique() > 1:
        return _curves(table, title, trained)
    names = [f"{name} (n = {n})" for name, n in zip(table["setting"], table["n"], strict=True)]
    what, height = base.measured(table), 1.1 + 0.36 * len(table)
    figure, axes = base.dots(names, table["mean"], table["low"], table["high"], height)
    axes.set_xlim(-0.03, 1.03)
    (at,) = [f" at {thousands(int(size))} tokens" for size in table.get("length", [])[:1]] or [""]
    axes.set_xlabel(f"{what}{at} (bar: 95 % interval)")
    shows = "study", findings.study(table)
    return base.done(figure, f"{what.capitalize()} by setting{at}", shows, title, axes)


def _curves(table: pd.DataFrame, title: str | None, trained: int | None) -> base.Figure:
    """Return a figure with a panel for each group of settings, in which each has a curve."""
    table = table.assign(group=table.get("group", ""))
    groups, what = list(dict.fromkeys(table["group"])), base.measured(table)
    size = (7, 4) if len(groups) == 1 else (5.5, 3.6)
    figure, panels = base.panels(len(groups), 2, f"{what} (95 % interval)", size)
    for axes, group in zip(panels, groups, strict=True):
        rows = table[table["group"] == group]
        own = {name: rows[rows["setting"] == name] for name in dict.fromkeys(rows["setting"])}
        base.lines(axes, own, "mean", 1, table["length"], trained)
        if len(groups) > 1:
            axes.set_title(group, fontsize=10)
    base.legends(figure, panels)
    alone = panels[0] if len(panels) == 1 else None
    what, shows = f"Line chart of {what} against length in tokens", findings.study(table)
    return base.done(figure, what, ("study", shows), title, alone)
