"""What models score against their size, their training length and their architecture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rulerlib import findings
from rulerlib.analysis.correlations import FACTS
from rulerlib.analysis.tables import thousands
from rulerlib.findings.lengths import position
from rulerlib.findings.relations import ranked
from rulerlib.plots import base

_AXES = {
    "parameters": "parameters (billions)",
    "active": "parameters used for a token (billions)",
    "trained_length": "training length (tokens)",
    "architecture": "architecture",
}

_UNKNOWN = "unknown architecture"


def facts(
    table: pd.DataFrame,
    values: Sequence[str] = ("effective", "Avg."),
    lengths: Sequence[int] = (),
    title: str | None = None,
) -> base.Figure:
    """Return a figure of averages and effective lengths against what is known of the models.

    Parameters
    ----------
    table
        From `rulerlib.analysis.correlations.with_facts`: a row for each model, and any of
        ``parameters``, ``active``, ``trained_length`` and ``architecture``.
    values
        The columns to be drawn, a row of panels each: averages in percent, or effective lengths as
        text (``<4K``, ``16K``, ``≥32K``).
    lengths
        The axis of effective lengths, as in `rulerlib.plots.effective`.

    Returns
    -------
    Figure
        Each panel says how many models it shows. Markers and colours tell architectures apart.

    Raises
    ------
    ParameterError
        If the table is empty, or an effective length is none of ``lengths``.
    """
    base.check(table, "model")
    known = [name for name in FACTS if name in table and table[name].notna().any()]
    drawn = table.assign(architecture=table.get("architecture", _UNKNOWN))
    drawn["architecture"] = drawn["architecture"].replace("", None).fillna(_UNKNOWN)
    kinds = list(dict.fromkeys(drawn["architecture"]))
    rising = sorted({int(length) for length in lengths})
    size = 3.4 * len(known) + 0.6, 3 * len(values) + 0.5
    figure, grid = base.subplots(len(values), len(known), size, sharey="row")
    drawn_values = {value: _heights(drawn[value], rising) for value in values}
    for row, value in zip(grid, values, strict=True):
        heights, ticks = drawn_values[value]
        for axes, fact in zip(row, known, strict=True):
            is_kind = fact == "architecture"
            places = drawn[fact].map(kinds.index) if is_kind else drawn[fact].astype(float)
            shown = heights.notna() & places.notna()
            for number, kind in enumerate(kinds):
                own = shown & (drawn["architecture"] == kind)
                axes.plot(places[own], heights[own], base.MARKERS[number % len(base.MARKERS)],
                          color=base.COLOURS[number % len(base.COLOURS)], alpha=0.7,
                          label=kind)  # fmt: skip
            _axis(axes, fact, kinds)
            axes.set_title(f"n = {base.said_count(int(shown.sum()), 'model')}", fontsize=9)
        row[0].set_ylabel("effective length (tokens)" if ticks else f"{value}, %")
        if ticks:
            row[0].set_yticks(range(-1, len(ticks) - 1), ticks)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(kinds), fontsize=8)
    together = ranked(
        drawn,
        {value: heights for value, (heights, _) in drawn_values.items()},
        [fact for fact in known if fact != "architecture"],
    )
    what = f"Scores of {base.said_count(len(table), 'model')} against facts"
    return base.done(figure, what, ("facts", findings.facts(together, _AXES)), title)


def _heights(values: pd.Series, lengths: Sequence[int]) -> tuple[pd.Series, list[str]]:
    """Return where each value stands on its axis, and the axis's ticks from -1 on, if it has any.

    Effective lengths have a place for each length, and one below for none of them.
    """
    if pd.api.types.is_numeric_dtype(values):
        return values, []
    places = [None if pd.isna(text) else position(text, lengths) for text in values]
    return pd.Series(places, values.index, dtype=float), [
        f"<{thousands(lengths[0])}", *map(thousands, lengths)
    ]  # fmt: skip


def _axis(axes: Any, fact: str, kinds: Sequence[str]) -> None:
    """Set the scale, the ticks and the label of the axis of a fact."""
    axes.grid(alpha=0.3)
    axes.set_xlabel(_AXES[fact])
    if fact == "architecture":
        axes.set_xticks(range(len(kinds)), [kind.replace(" ", "\n", 1) for kind in kinds])
        axes.set_xlim(-0.5, len(kinds) - 0.5)
        axes.tick_params(axis="x", labelsize=7)
        return
    axes.set_xscale("log", base=2 if fact == "trained_length" else 10)
    if fact == "trained_length":
        axes.xaxis.set_major_formatter(lambda value, _: thousands(round(value)))
        return
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
