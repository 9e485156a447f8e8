"""RULER's public table, recomputed from its own six columns.

The table prints, beside a model's average at each length, what follows from
them: Avg., two weighted averages with ranks, and an effective length. Here all
of that is computed again, the cells that the table leaves open are filled, and
every printed cell that its own row contradicts is named. The facts stand in
``book/data/published_ruler.csv``, their source beside them.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib.analysis.averages import (
    READINGS,
    THRESHOLD,
    WEIGHTS,
    Effective,
    effective,
    ranks,
    thousands,
    weighted,
)
from rulerlib.errors import DataError

LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)

AVERAGES = {"avg": "Avg.", "wavg_inc": "wAvg. (inc)", "wavg_dec": "wAvg. (dec)"}

# Numbers are printed to one decimal: each may be off by so much, and a mean of them too.
ROUNDING = 0.05

# Binary fractions of decimal ones are not exact.
_EXACT = 1e-9


def read(path: str | Path) -> pd.DataFrame:
    """The table as it was printed.

    Returns
    -------
    DataFrame
        ``model``, ``size``, ``claimed_length``, ``effective_length`` as text; one column of
        numbers for each length; ``avg``, ``wavg_inc``, ``wavg_dec`` and the ranks of the latter
        two. NaN where the table has no number.

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
    """Model and size in one text, by which a row is known."""
    return pd.Series(
        [
            f"{model} ({size})" if size and size not in model else model
            for model, size in zip(table["model"], table["size"], strict=True)
        ],
        table.index,
    )


def recomputed(table: pd.DataFrame, threshold: float = THRESHOLD) -> pd.DataFrame:
    """What follows from the six columns, row by row.

    Returns
    -------
    DataFrame
        ``model``, ``claimed``, ``printed`` (effective length, as printed), ``longest`` and
        ``unbroken`` (effective length in both readings), ``lengths`` (how many were measured),
        ``Avg.``, ``wAvg. (inc)``, ``wAvg. (dec)`` with weights 1 to k over the lengths measured,
        and their ranks, among the rows that were measured at all lengths.
    """
    made = pd.DataFrame(
        {
            "model": names(table),
            "claimed": table["claimed_length"],
            "printed": table["effective_length"],
        }
    )
    rows = table[list(LENGTHS)].to_numpy(dtype=float).tolist()
    for reading in READINGS:
        made[reading] = [
            str(effective(dict(zip(LENGTHS, row, strict=True)), threshold, reading)) for row in rows
        ]
    made["lengths"] = [sum(not math.isnan(value) for value in row) for row in rows]
    for weights, name in zip(WEIGHTS, AVERAGES.values(), strict=True):
        made[name] = [weighted(row, weights) for row in rows]
        made[f"{name} rank"] = ranks(made[name].where(made["lengths"] == len(LENGTHS)))
    return made


def filled(table: pd.DataFrame) -> pd.DataFrame:
    """The averages of those rows of which the table leaves one open, with their ranks.

    Ranks are among all rows that were measured at all lengths.
    """
    made = recomputed(table)
    printed = [name for name in AVERAGES if name in table]
    still = table[printed].isna().any(axis=1)
    columns = ["model", "lengths"]
    for name in AVERAGES.values():
        columns += [name, f"{name} rank"]
    return made.loc[still, columns].reset_index(drop=True)


def contradictions(table: pd.DataFrame, threshold: float = THRESHOLD) -> pd.DataFrame:
    """Every printed cell that the six columns of its own row contradict.

    Returns
    -------
    DataFrame
        ``model``, ``cell`` (which one), ``printed``, ``recomputed``, ``difference``,
        ``rounding``: whether the rounding of the printed numbers to one decimal could explain
        it, and ``because``. The difference is in percent for averages, in places for ranks, and
        for an effective length what its average lacks to the threshold. Ranks are compared among
        the rows that have one, which count from the best printed rank on; a rank that only ties
        at one decimal decide is explained by rounding.
    """
    again = recomputed(table, threshold)
    rows: list[dict[str, Any]] = []
    for place, model in enumerate(again["model"]):
        rows += _length_contradicted(table.iloc[place], model, threshold)
        for key, name in AVERAGES.items():
            printed = table[key].iloc[place] if key in table else math.nan
            value = again[name].iloc[place]
            # Correctly rounded, it would be this one.
            if math.isnan(printed) or abs(printed - value) <= ROUNDING + _EXACT:
                continue
            rows.append(
                {
                    "model": model,
                    "cell": name,
                    "printed": f"{printed:.1f}",
                    "recomputed": f"{value:.2f}",
                    "difference": printed - value,
                    "rounding": abs(printed - value) <= 2 * ROUNDING + _EXACT,
                    "because": f"the mean over {again['lengths'].iloc[place]} lengths",
                }
            )
    for key in ("wavg_inc", "wavg_dec"):
        if f"{key}_rank" in table:
            rows += _ranks_contradicted(table, again, key)
    columns = ["model", "cell", "printed", "recomputed", "difference", "rounding", "because"]
    return pd.DataFrame(rows, columns=columns)


def _length_contradicted(row: pd.Series, model: str, threshold: float) -> list[dict[str, Any]]:
    averages = {length: float(row[length]) for length in LENGTHS}
    found = effective(averages, threshold)
    printed = _printed(row["effective_length"])
    if printed is None or str(found) == str(printed):
        return []
    cell = {
        "model": model,
        "cell": "Effective Length",
        "printed": row["effective_length"],
        "recomputed": str(found),
    }
    if printed.length is not None and (found.length or 0) < printed.length:
        average = averages[printed.length]
        return [
            {
                **cell,
                "difference": average - threshold,
                # Both the average and the threshold are rounded.
                "rounding": average + ROUNDING > threshold - ROUNDING + _EXACT,
                "because": f"{average:.1f} at {thousands(printed.length)} does not exceed"
                f" {threshold:.1f}",
            }
        ]
    assert found.length is not None
    average = averages[found.length]
    return [
        {
            **cell,
            "difference": average - threshold,
            "rounding": average - ROUNDING < threshold + ROUNDING - _EXACT,
            "because": f"{average:.1f} at {thousands(found.length)} exceeds {threshold:.1f}",
        }
    ]


def _printed(text: str) -> Effective | None:
    """``">128K"``, ``"<4k"``, ``"32K"``; None where nothing is printed."""
    number = text.strip().upper().lstrip("<>≥")
    if not number:
        return None
    if not number.endswith("K") or not number[:-1].isdecimal():
        raise DataError(f"The effective length '{text}' is none such as 32K, >128K or <4K.")
    length = int(number[:-1]) * 1024
    if text.strip().startswith("<"):
        return Effective(None, False, length)
    # A length that is the last one measured is printed with ">".
    return Effective(length, text.strip()[0] in ">≥", LENGTHS[0])


def _ranks_contradicted(table: pd.DataFrame, again: pd.DataFrame, key: str) -> list[dict[str, Any]]:
    printed, name = table[f"{key}_rank"], AVERAGES[key]
    has = printed.notna()
    first = int(printed[has].min())
    found = ranks(again.loc[has, name]) + first - 1
    rows = []
    for place in printed.index[has]:
        was, now = int(printed[place]), int(found[place])
        if was == now:
            continue
        own = again.loc[place, name]
        # The rows that should stand on the other side of it.
        others = again.loc[has & (printed != was), name]
        between = others[(printed[others.index] < was) != (others > own)]
        gap = (between - own).abs().max() if len(between) else 0.0
        rows.append(
            {
                "model": again.loc[place, "model"],
                "cell": f"rank by {name}",
                "printed": str(was),
                "recomputed": str(now),
                "difference": float(was - now),
                "rounding": bool(gap <= 2 * ROUNDING + _EXACT),
                "because": "counted among the rows that have a rank",
            }
        )
    return rows


def all_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """How the ranks change when every row that was measured at all lengths is counted.

    Returns
    -------
    DataFrame
        ``model``; for both weighted averages the printed rank (open where there is none) and
        the rank among all; sorted by the latter for rising weights.
    """
    again = recomputed(table)
    made = pd.DataFrame({"model": again["model"]})
    for key in ("wavg_inc", "wavg_dec"):
        name = AVERAGES[key]
        made[f"{name} printed"] = table[f"{key}_rank"].astype("Int64")
        made[f"{name} rank"] = again[f"{name} rank"]
    return made.sort_values("wAvg. (inc) rank", na_position="last").reset_index(drop=True)
