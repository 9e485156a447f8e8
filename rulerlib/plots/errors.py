"""Kinds of mistakes by length: bars as high as the error rate."""

from __future__ import annotations

import pandas as pd

from rulerlib import findings
from rulerlib.analysis.tables import thousands
from rulerlib.plots import base

# A colour and a hatch for each kind, the same in every figure.
LOOKS = {
    "empty": ("#999999", ""),
    "said none though present": ("#F0E442", "--"),
    "answered though absent": ("#CC79A7", "\\\\"),
    "refused": ("#56B4E9", "//"),
    "copied example": ("#CC79A7", "xx"),
    "copied beginning": ("#CC79A7", ""),
    "distractor": ("#D55E00", ""),
    "more words": ("#009E73", "//"),
    "overruled": ("#CC79A7", "--"),
    "halfway": ("#56B4E9", "\\\\"),
    "wrong unit": ("#56B4E9", ".."),
    "wrong operand": ("#D55E00", "xx"),
    "wrong arithmetic": ("#0072B2", "//"),
    "wrong value": ("#E69F00", "\\\\"),
    "no context": ("#F0E442", ".."),
    "duplicates": ("#0072B2", "--"),
    "cut off": ("#000000", ""),
    "part of a UUID": ("#009E73", ".."),
    "incomplete": ("#009E73", ""),
    "other": ("#FFFFFF", "++"),
}


def errors(table: pd.DataFrame, title: str | None = None) -> base.Figure:
    """Return a figure of the kinds of mistakes by length, one panel for each task.

    Parameters
    ----------
    table
        From `rulerlib.analysis.errors`, of one model and one language.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "mistake")
    lengths = sorted(table["length"].unique())
    kinds = [kind for kind in LOOKS if (table["error"] == kind).any()]
    width = max(2.4, 0.9 + 0.4 * len(lengths))
    figure, panels = base.task_panels(table, "share of all answers", (width, 2.7), (1.6, 0.3))
    for axes, part in panels:
        shares = part.pivot(index="length", columns="error", values="share")
        shares = shares.reindex(index=lengths, columns=kinds).fillna(0)
        below = shares.cumsum(axis=1) - shares
        for kind in kinds:
            colour, hatch = LOOKS[kind]
            axes.bar(range(len(lengths)), shares[kind], bottom=below[kind], color=colour,
                     hatch=hatch, edgecolor="#333333", linewidth=0.5, label=kind)  # fmt: skip
        counts = part.groupby("length")["n"].first()
        axes.set_xticks(
            range(len(lengths)),
            [f"{thousands(length)}\n" + (f"n={counts[length]}" if length in counts else "–")
             for length in lengths],
            fontsize=8,
        )  # fmt: skip
        axes.set_ylim(0, 1)
        axes.grid(alpha=0.3, axis="y")
        axes.set_axisbelow(True)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", fontsize=8)
    what, said = "Bars of the kinds of mistakes by length", findings.errors(table)
    return base.done(figure, what, ("errors", said), title)
