"""RULER's leaderboard: the public table, with its averages and effective lengths recomputed.

The table is ``book/data/published_ruler.csv``; ``book/data/README.md`` names its source.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib import analysis
from rulerlib.analysis import READINGS, THRESHOLD, effective, weighted
from rulerlib.explore import cells

# Columns of facts about a model; unknown values are empty.
NUMBERS = ("parameters", "active", "trained_length")

LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)

AVERAGES = dict(zip(("avg", "wavg_inc", "wavg_dec"), analysis.AVERAGES.values(), strict=True))
"""Columns of averages in the file, and their names in RULER's table."""

# Rounding error of the printed numbers, with a tolerance for binary floating point.
ROUNDING = 0.05 + 1e-9


def read_table(path: str | Path) -> pd.DataFrame:
    """Return the public table as printed.

    Returns
    -------
    DataFrame
        ``model``, ``size``, ``claimed_length``, ``effective_length`` and ranks as text; one column
        of averages in percent for each length in tokens; ``avg``, ``wavg_inc`` and ``wavg_dec``.
        NaN for missing numbers.
    """
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    lengths = {str(length): length for length in LENGTHS}
    for name in (*lengths, *AVERAGES):
        table[name] = pd.to_numeric(table[name].replace({"-": "", "TBD": ""}))
    return table.rename(columns=lengths)


def names(table: pd.DataFrame) -> pd.Series:
    """Return model and size as one label per row."""
    return pd.Series(
        [
            f"{model} ({size})" if size and size not in model else model
            for model, size in zip(table["model"], table["size"], strict=True)
        ],
        table.index,
    )


def recomputed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the averages and effective lengths that follow from the six columns.

    Parameters
    ----------
    table
        From `read_table`.

    Returns
    -------
    DataFrame
        ``model``, ``claimed``, ``printed`` (effective length, as printed), ``longest`` and
        ``unbroken`` (effective length in both readings); ``Avg.``, ``wAvg. (inc)``, ``wAvg. (dec)``
        with weights 1 to k over the lengths measured.
    """
    columns = {"claimed": table["claimed_length"], "printed": table["effective_length"]}
    again = pd.DataFrame({"model": names(table), **columns})
    rows = table[list(LENGTHS)].to_numpy(dtype=float).tolist()
    for reading in READINGS:
        again[reading] = [
            str(effective(dict(zip(LENGTHS, row, strict=True)), THRESHOLD, reading)) for row in rows
        ]
    for weights, name in analysis.AVERAGES.items():
        again[name] = [weighted(row, weights) for row in rows]
    return again


def facts_of(path: str | Path) -> pd.DataFrame:
    """Return published facts about the models, a row for each, with its source."""
    facts = pd.read_csv(path, keep_default_na=False, na_values={name: [""] for name in NUMBERS})
    return facts.assign(model=names(facts)).drop(columns="size")


def contradictions(table: pd.DataFrame) -> dict[str, list[str]]:
    """Return the printed cells of each model that do not follow from its six averages.

    Averages are compared with the rounding of one decimal. Models without such a cell are left
    out.
    """
    found: dict[str, list[str]] = {}
    again = recomputed(table).to_dict("records")
    for row, own in zip(table.to_dict("records"), again, strict=True):
        notes = []
        stated = row["effective_length"]
        printed = stated.upper().replace(">", "≥")
        if printed.strip("-") and printed != own["longest"]:
            notes.append(f"effective length printed as {stated}, recomputed {own['longest']}")
        for key, name in AVERAGES.items():
            if abs(row[key] - own[name]) > ROUNDING:
                notes.append(f"{name} printed as {row[key]:.1f}, recomputed {own[name]:.2f}")
        if notes:
            found[own["model"]] = notes
    return found


def rows(table: pd.DataFrame, facts: str | Path) -> list[dict[str, Any]]:
    """Return the table as rows of the explorer's leaderboard.

    Effective lengths and averages are the recomputed ones; ``notes`` has what the table prints
    differently.

    Parameters
    ----------
    table
        From `read_table`.
    facts
        The file of `facts_of`.
    """
    notes = contradictions(table)
    again = recomputed(table).merge(facts_of(facts), "left", "model", validate="many_to_one")
    made = []
    for row, own in zip(again.to_dict("records"), table.to_dict("records"), strict=True):
        means = dict(zip(("avg", "inc", "dec"), map(row.get, AVERAGES.values()), strict=True))
        made.append(
            cells.board_row(
                "published", row["model"], "en", row["longest"],
                {length: own[length] for length in LENGTHS},
                claimed=cells.tokens(row["claimed"]), tasks=13, printed=row["printed"],
                notes=notes.get(row["model"]), parameters=row["parameters"],
                trained=row["trained_length"], architecture=row["architecture"],
                source=row["source"], **means,
            )
        )  # fmt: skip
    return made
