"""Memory presets by suite, by the number of facts taught, and where their answers were lost.

Each figure is of one model in one language; `rulerlib.analysis.parts` takes a table apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rulerlib import findings
from rulerlib.analysis.memory import FATES, ORACLE
from rulerlib.errors import require
from rulerlib.findings.memories import levels, named, panels
from rulerlib.plots import base

# A colour and a hatch for each fate, the same in every figure.
LOOKS = {
    "right": ("#0072B2", ""),
    "right without the facts": ("#56B4E9", "//"),
    "read wrongly": ("#E69F00", "\\\\"),
    "no room in the prompt": ("#F0E442", ".."),
    "not recalled": ("#999999", "xx"),
}

# Lines at what can be had for nothing, and at the ceiling: their dashes and their words.
_LINES = {
    "constant": ("#555555", "--", "always the most frequent answer"),
    "chance": ("#555555", ":", "chance"),
    ORACLE: ("#009E73", "-", "oracle: the facts given"),
}

_WHAT = {"em_norm": "exact match, normalized", "em_raw": "exact match, raw", "f1": "F1 of words"}


def matrix(
    table: pd.DataFrame,
    floors: pd.DataFrame | None = None,
    measure: str = "em_norm",
    title: str | None = None,
) -> base.Figure:
    """Return a figure of all presets by suite: a dot for each, with its interval.

    Lines stand at chance, at the constant answer, and at the oracle where it was asked.

    Parameters
    ----------
    table
        From `rulerlib.analysis.memory.table`, of one model and one language.
    floors
        From `rulerlib.analysis.memory_pairs.floors`, of the same questions.
    measure
        ``"em_norm"``, ``"em_raw"`` or ``"f1"``.

    Raises
    ------
    ParameterError
        If the table is empty, or a preset has two rows for one suite.
    """
    base.check(table, "measured preset")
    names = list(dict.fromkeys(named(table)))
    suites = list(dict.fromkeys(panels(table)))
    table = table.assign(name=named(table), panel=panels(table))
    alone = not table.duplicated(["name", "panel"]).any()
    require(alone, "table", "of several kinds", "of one model, language and size")
    size = (2.6, 0.9 + 0.24 * len(names))
    figure, drawn = base.panels(len(suites), 3, "", size, (1.2, 0.5))
    for axes, suite in zip(drawn, suites, strict=True):
        part = table[table["panel"] == suite].set_index("name")
        places = [names.index(name) for name in part.index]
        ends = (part[f"{measure} {end}"] for end in ("low", "high"))
        axes.hlines(places, *ends, color=base.COLOURS[0], linewidth=5, alpha=0.3)
        axes.plot(part[measure], places, "o", color=base.COLOURS[0], zorder=3)
        for name, level in levels(part, floors, suite, measure).items():
            colour, dashes, words = _LINES[name]
            axes.axvline(level, color=colour, linestyle=dashes, linewidth=1, label=words)
        counts = sorted({*part["n"]})
        n = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
        axes.set_title(f"{suite}\n{n}", fontsize=9)
        first = axes.get_subplotspec().is_first_col()
        axes.set_yticks(range(len(names)), names if first else [""] * len(names), fontsize=8)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(-0.03, 1.03)
        axes.grid(alpha=0.3, axis="x")
    _below(figure, drawn, f"{_WHAT.get(measure, measure)} (bar: 95 % interval)")
    what = f"Dots of {_WHAT.get(measure, measure)} by preset and suite"
    said = "matrix", findings.matrix(table, floors, measure)
    return base.done(figure, what, said, title)


def _below(figure: Any, drawn: Sequence[Any], words: str) -> None:
    """Say below the panels what is measured, and below the figure what its marks are."""
    entries: dict[str, Any] = {}
    for axes in drawn:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    columns = drawn[0].get_gridspec().ncols
    for axes in drawn[-columns:]:
        axes.set_xlabel(words, fontsize=8)
    if entries:
        figure.legend(entries.values(), entries, loc="outside lower center", ncols=3, fontsize=8)


def capacity(table: pd.DataFrame, title: str | None = None) -> base.Figure:
    """Return a figure of accuracy and recall by the number of facts taught, a line for each preset.

    Parameters
    ----------
    table
        From `rulerlib.analysis.memory.capacity`, of one model and one language.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "measured number of facts")
    figure, drawn = base.panels(2, 2, "share (bar: 95 % interval)", (4.6, 3.6), (0, 0.6))
    table = table.assign(name=named(table))
    names, known = list(dict.fromkeys(table["name"])), sorted({*table["facts"]})
    what = {"em_norm": "answered rightly", "recall_at_5": "recall at 5"}
    for axes, (measure, words) in zip(drawn, what.items(), strict=True):
        for name, part in _lines(table, measure).items():
            number = names.index(name)
            colour = base.COLOURS[number % len(base.COLOURS)]
            # Side by side, so that each bar is seen.
            at = part["facts"] * 1.05 ** (number - (len(names) - 1) / 2)
            axes.vlines(at, part[f"{measure} low"], part[f"{measure} high"], color=colour,
                        linewidth=2, alpha=0.35)  # fmt: skip
            axes.plot(at, part[measure], label=name, color=colour, linewidth=1.2,
                      linestyle=base.DASHES[number // len(base.COLOURS) % len(base.DASHES)],
                      marker=base.MARKERS[number % len(base.MARKERS)])  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(known[0] / 1.6, known[-1] * 1.6)
        axes.set_xticks(known, [f"{number:,}" for number in known], fontsize=8)
        axes.minorticks_off()
        axes.set_ylim(-0.03, 1.03)
        axes.grid(alpha=0.3)
        axes.set_title(words, fontsize=10)
    _below(figure, drawn, "facts taught (logarithmic)")
    said = "capacity", findings.capacity(table)
    return base.done(figure, "Line charts by the number of facts taught", said, title)


def _lines(table: pd.DataFrame, measure: str) -> dict[str, pd.DataFrame]:
    """Return the rows of each preset that has values, by its name."""
    return {
        str(name): part
        for name, part in table.groupby("name", sort=False)
        if part[measure].notna().any()
    }


def stores(table: pd.DataFrame, title: str | None = None) -> base.Figure:
    """Return a figure of where answers were lost: a stacked bar for each preset and suite.

    Parameters
    ----------
    table
        From `rulerlib.analysis.memory.fates`, of one model and one language.

    Raises
    ------
    ParameterError
        If the table is empty.
    """
    base.check(table, "question")
    table = table.assign(name=named(table), panel=panels(table))
    names = list(dict.fromkeys(table["name"]))
    suites = list(dict.fromkeys(table["panel"]))
    size = (2.6, 0.9 + 0.24 * len(names))
    figure, drawn = base.panels(len(suites), 3, "", size, (1.2, 0.5))
    for axes, suite in zip(drawn, suites, strict=True):
        part = table[table["panel"] == suite]
        shares = part.pivot_table(index="name", columns="fate", values="share")
        shares = shares.reindex(index=names, columns=list(FATES))
        left = shares.cumsum(axis=1) - shares
        for fate in FATES:
            colour, hatch = LOOKS[fate]
            axes.barh(range(len(names)), shares[fate], left=left[fate], color=colour, hatch=hatch,
                      edgecolor="#333333", linewidth=0.5, label=fate)  # fmt: skip
        axes.set_title(suite, fontsize=9)
        first = axes.get_subplotspec().is_first_col()
        axes.set_yticks(range(len(names)), names if first else [""] * len(names), fontsize=8)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.grid(alpha=0.3, axis="x")
        axes.set_axisbelow(True)
    _below(figure, drawn, "share of the questions")
    said = "stores", findings.stores(table)
    return base.done(figure, "Stacked bars of what became of each question", said, title)
