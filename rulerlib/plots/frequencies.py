"""Words by rank: how often each word stands in a list or a coded text."""

from __future__ import annotations

import pandas as pd

from rulerlib import findings
from rulerlib.analysis.word_counts import WORD_KINDS
from rulerlib.plots import base

# A marker and a colour for each kind of word.
LOOKS = dict(zip(WORD_KINDS, (("s", "#D55E00"), ("o", "#0072B2"), ("^", "#777777")), strict=True))


def frequencies(table: pd.DataFrame, title: str | None = None) -> base.Figure:
    """Return a figure of the count of each word by its rank, one panel for each text.

    Both axes are logarithmic, so that the counts of a zeta distribution lie on a straight line.

    Parameters
    ----------
    table
        From `rulerlib.analysis.word_counts`.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "counted word")
    texts = list(dict.fromkeys(table["text"]))
    figure, panels = base.panels(len(texts), 3, "times in the text", (4, 3.2))
    for axes, text in zip(panels, texts, strict=True):
        words = table[table["text"] == text]
        for kind, (marker, colour) in LOOKS.items():
            own = words[words["kind"] == kind]
            if len(own):
                axes.plot(own["rank"], own["count"], marker, color=colour, markersize=4,
                          label=f"{kind} ({len(own):,})")  # fmt: skip
        # The same axes everywhere: how steep a text falls is to be compared.
        for axis, most in ((axes.xaxis, table["rank"].max()), (axes.yaxis, table["count"].max())):
            scale = {f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (0.8, 1.4 * most)}
            axes.set(**scale)
            axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axis.set_minor_formatter("")
        axes.set_xlabel("rank of the word")
        axes.set_title(text, fontsize=10)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    said = "frequencies", findings.frequencies(table)
    return base.done(figure, "Counts of words by rank", said, title)
