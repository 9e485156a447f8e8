"""The figure of a study: one row for each setting."""

from __future__ import annotations

import pandas as pd

from rulerlib.plots import base


def study(table: pd.DataFrame, title: str | None = None) -> base.Figure:
    """Return a figure of each setting's mean, its interval and its n.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, by ``setting``.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "measured setting")
    rows = list(zip(table["setting"], table["n"], table["mean"], strict=True))
    names = [f"{name} (n = {n})" for name, n, _ in rows]
    what, height = base.measured(table), 1.1 + 0.36 * len(table)
    figure, axes = base.dots(names, table["mean"], table["low"], table["high"], height)
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel(f"{what} (bar: 95 % interval)")
    said = [f"{name} {100 * mean:.0f} %" for name, _, mean in rows]
    alt = f"{what.capitalize()} by setting: {base.said_some(said, 20)}."
    return base.done(figure, alt, title, axes)
