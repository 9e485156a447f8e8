"""RULER's leaderboard: the public table, with its averages and effective lengths recomputed.

The table is ``book/data/published_ruler.csv``; ``book/data/README.md`` names its source.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib import analysis
from rulerlib.analysis import READINGS, THRESHOLD, effective, weighted
from rulerlib.errors import DataError
from rulerlib.explore import cells

# Columns of facts about a model; unknown values are empty.
NUMBERS = ("parameters", "active", "trained_length")

LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)

AVERAGES = dict(zip(("avg", "wavg_inc", "wavg_dec"), analysis.AVERAGES.values(), strict=True))
"""Columns of averages in the file, and their names in RULER's table."""

# Rounding error of the printed numbers and of their means.
ROUNDING = 0.05

# Tolerance for binary floating point.
_EXACT = 1e-9


def read_table(path: str | Path) -> pd.DataFrame:
    """Return the public table as printed.

    Returns
    -------
    DataFrame
        ``model``, ``size``, ``claimed_length``, ``effective_length`` as text; one column of
        averages in percent for each length in tokens; ``avg``, ``wavg_inc``, ``wavg_dec`` and the
        ranks of the latter two. NaN for missing numbers.

    Raises
    ------
    DataError
        If the file cannot be read or a column is missing.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    numbers = [str(length) for length in LENGTHS]
    for name in ("model", "size", "claimed_length", "effective_length", *numbers):
        if name not in table:
            raise DataError(f"{path}: the column '{name}' is missing.")
    printed = [name for name in (*AVERAGES, "wavg_inc_rank", "wavg_dec_rank") if name in table]
    for name in (*numbers, *printed):
        table[name] = pd.to_numeric(table[name].replace({"-": "", "TBD": ""}))
    return table.rename(columns=dict(zip(numbers, LENGTHS, strict=True)))


def names(table: pd.DataFrame) -> pd.Series:
    """Return model and size as one label per row."""
    return pd.Series(
        [
            f"{model} ({size})" if size and size not in model else model
            for model, size in zip(table["model"], table["size"], strict=True)
        ],
        table.index,
    )


def recomputed(table: pd.DataFrame, threshold: float = THRESHOLD) -> pd.DataFrame:
    """Return the averages and effective lengths that follow from the six columns.

    Parameters
    ----------
    table
        From `read_table`.
    threshold
        Threshold of the effective length, in percent.

    Returns
    -------
    DataFrame
        ``model``, ``claimed``, ``printed`` (effective length, as printed), ``longest`` and
        ``unbroken`` (effective length in both readings), ``lengths`` (how many were measured),
        ``Avg.``, ``wAvg. (inc)``, ``wAvg. (dec)`` with weights 1 to k over the lengths measured.
    """
    columns = {"claimed": table["claimed_length"], "printed": table["effective_length"]}
    again = pd.DataFrame({"model": names(table), **columns})
    rows = table[list(LENGTHS)].to_numpy(dtype=float).tolist()
    for reading in READINGS:
        again[reading] = [
            str(effective(dict(zip(LENGTHS, row, strict=True)), threshold, reading)) for row in rows
        ]
    again["lengths"] = [sum(not math.isnan(value) for value in row) for row in rows]
    for weights, name in analysis.AVERAGES.items():
        again[name] = [weighted(row, weights) for row in rows]
    return again


def facts_of(path: str | Path) -> pd.DataFrame:
    """Return published facts about the models, a row for each, with its source.

    Raises
    ------
    DataError
        If a model is in it twice.
    """
    facts = pd.read_csv(path, keep_default_na=False, na_values={name: [""] for name in NUMBERS})
    facts["model"], facts["trained_length"] = names(facts), facts["trained_length"].astype("Int64")
    twice = facts.loc[facts["model"].duplicated(), "model"]
    if len(twice):
        raise DataError(f"{path}: {twice.iloc[0]} is in it twice.")
    return facts.drop(columns="size")


def with_facts(table: pd.DataFrame, path: str | Path, threshold: float = THRESHOLD) -> pd.DataFrame:
    """Return the recomputed table with the facts about the models.

    Parameters
    ----------
    path
        The file of `facts_of`.
    threshold
        See `recomputed`.

    Raises
    ------
    DataError
        As `facts_of`.
    """
    again = recomputed(table, threshold)
    return again.merge(facts_of(path), on="model", how="left", validate="many_to_one")


def contradictions(table: pd.DataFrame, threshold: float = THRESHOLD) -> dict[str, list[str]]:
    """Return the printed cells of each model that do not follow from its six averages.

    Averages are compared with the rounding of one decimal. Models without such a cell are left
    out.
    """
    found: dict[str, list[str]] = {}
    again = recomputed(table, threshold).to_dict("records")
    for row, own in zip(table.to_dict("records"), again, strict=True):
        notes = []
        printed = str(row["effective_length"]).upper().replace(">", "≥")
        if printed.strip("-") and printed != own["longest"]:
            stated = row["effective_length"]
            notes.append(f"effective length printed as {stated}, recomputed {own['longest']}")
        for key, name in AVERAGES.items():
            value = row.get(key, math.nan)
            if not math.isnan(value) and abs(value - own[name]) > ROUNDING + _EXACT:
                notes.append(f"{name} printed as {value:.1f}, recomputed {own[name]:.2f}")
        if notes:
            found[own["model"]] = notes
    return found


def rows(
    table: pd.DataFrame, facts: str | Path, threshold: float = THRESHOLD
) -> list[dict[str, Any]]:
    """Return the table as rows of the explorer's leaderboard.

    Effective lengths and averages are the recomputed ones; ``notes`` has what the table prints
    differently.

    Parameters
    ----------
    facts
        The file of `facts_of`.
    threshold
        See `recomputed`.

    Raises
    ------
    DataError
        As `facts_of`.
    """
    notes = contradictions(table, threshold)
    again = with_facts(table, facts, threshold)
    made = []
    for row, own in zip(again.to_dict("records"), table.to_dict("records"), strict=True):
        means = dict(zip(("avg", "inc", "dec"), map(row.get, AVERAGES.values()), strict=True))
        known = {
            name: _known(row[column])
            for name, column in (
                ("parameters", "parameters"), ("trained", "trained_length"),
                ("architecture", "architecture"), ("source", "source"),
            )
        }  # fmt: skip
        made.append(
            cells.board_row(
                "published", row["model"], "en", row["longest"],
                {length: float(own[length]) for length in LENGTHS},
                claimed=cells.tokens(row["claimed"]), tasks=13, printed=row["printed"],
                notes=notes.get(row["model"]), **known, **means,
            )
        )  # fmt: skip
    return made


def _known(value: Any) -> Any:
    """Return a value, or None if it is missing."""
    return None if pd.isna(value) else value
