"""RULER's leaderboard: its public table, recomputed from its own columns.

The public table prints, beside a model's average at each length, what follows from them: Avg.,
two weighted averages with ranks, and an effective length. Here all of that is computed again
from its six columns, and every printed cell that its own row contradicts is named. The facts stand
in ``book/data/published_ruler.csv``, their source beside them.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib.analysis import averages
from rulerlib.analysis.averages import weighted
from rulerlib.analysis.effective_length import READINGS, THRESHOLD, Effective, effective, even
from rulerlib.errors import DataError
from rulerlib.explore import cells
from rulerlib.labels import thousands, tokens

# Of a model; unknown ones are left empty.
NUMBERS = ("parameters", "active", "trained_length")

LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)

AVERAGES = dict(zip(("avg", "wavg_inc", "wavg_dec"), averages.AVERAGES.values(), strict=True))
"""The averages' columns in the file, and their names in RULER's table."""

IN_WORDS = {"Effective Length": "effective length", "Avg.": "average"}

# Numbers are printed to one decimal: each may be off by this much, and a mean of them too.
ROUNDING = 0.05

# Binary fractions of decimal ones are not exact.
_EXACT = 1e-9


def read_table(path: str | Path) -> pd.DataFrame:
    """Return the table as it was printed.

    Returns
    -------
    DataFrame
        ``model``, ``size``, ``claimed_length``, ``effective_length`` as text; one column of
        averages in percent for each length in tokens; ``avg``, ``wavg_inc``, ``wavg_dec`` and the
        ranks of the latter two. NaN where the table has no number.

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
    """Return model and size in one text, by which a row is known."""
    return pd.Series(
        [
            f"{model} ({size})" if size and size not in model else model
            for model, size in zip(table["model"], table["size"], strict=True)
        ],
        table.index,
    )


def recomputed(table: pd.DataFrame, threshold: float = THRESHOLD) -> pd.DataFrame:
    """Return what follows from the six columns, row by row.

    Parameters
    ----------
    table
        From `read_table`, as in all functions here.
    threshold
        What an average has to exceed to be effective, in percent.

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
    for weights, name in averages.AVERAGES.items():
        again[name] = [weighted(row, weights) for row in rows]
    return again


def facts_of(path: str | Path) -> pd.DataFrame:
    """Return what is known of the models beside their scores, a row for each, with its source.

    Raises
    ------
    DataError
        If a model stands there twice.
    """
    facts = pd.read_csv(path, keep_default_na=False, na_values={name: [""] for name in NUMBERS})
    facts["model"], facts["trained_length"] = names(facts), facts["trained_length"].astype("Int64")
    twice = facts.loc[facts["model"].duplicated(), "model"]
    if len(twice):
        raise DataError(f"{path}: {twice.iloc[0]} stands there twice.")
    return facts.drop(columns="size")


def with_facts(table: pd.DataFrame, path: str | Path, threshold: float = THRESHOLD) -> pd.DataFrame:
    """Return what follows from the six columns, beside what is known of the models.

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


def contradictions(table: pd.DataFrame, threshold: float = THRESHOLD) -> pd.DataFrame:
    """Return every printed cell that the six columns of its own row contradict.

    Returns
    -------
    DataFrame
        ``model``, ``cell`` (which one), ``printed``, ``recomputed``, ``difference``,
        ``rounding``: whether the rounding of the printed numbers to one decimal could explain
        it, and ``because``. The difference is in percent for averages, in places for ranks, and
        for an effective length what its average lacks to the threshold. Ranks are compared among
        the rows that have one, which count from the best printed rank on; where only averages
        that are alike to one decimal change places, rounding explains it.

    Raises
    ------
    DataError
        If a printed effective length is no length.
    """
    again = recomputed(table, threshold)
    rows: list[tuple[Any, ...]] = []
    for row, model in enumerate(again["model"]):
        rows += _length_contradicted(table.iloc[row], model, threshold)
        because = f"the mean over {again['lengths'].iloc[row]} lengths"
        for key, name in AVERAGES.items():
            printed = table[key].iloc[row] if key in table else math.nan
            value = again[name].iloc[row]
            away = abs(printed - value)
            # Correctly rounded, it would be this one.
            if not math.isnan(printed) and away > ROUNDING + _EXACT:
                rounding = away <= 2 * ROUNDING + _EXACT
                rows.append((model, name, f"{printed:.1f}", f"{value:.2f}", printed - value,
                             rounding, because))  # fmt: skip
    for key in ("wavg_inc", "wavg_dec"):
        if f"{key}_rank" in table:
            rows += _ranks_contradicted(table, again, key)
    columns = ["model", "cell", "printed", "recomputed", "difference", "rounding", "because"]
    return pd.DataFrame(rows, columns=columns)


def audited(table: pd.DataFrame, threshold: float = THRESHOLD) -> list[str]:
    """Return a sentence for each contradiction that rounding cannot explain; one for the rest."""
    found = contradictions(table, threshold)
    sentences = [
        f"**{row['model']}**: the {IN_WORDS.get(row['cell'], row['cell'])} is printed as"
        f" {row['printed']}. It is {row['recomputed']}: {row['because']}."
        for row in found[~found["rounding"]].to_dict("records")
    ]
    rest = int(found["rounding"].sum())
    return [*sentences, f"{rest} further cells differ by no more than rounding explains."]


def _length_contradicted(row: pd.Series, model: str, threshold: float) -> list[tuple[Any, ...]]:
    """Return what contradicts the effective length of a row; nothing where nothing does."""
    averages = {length: float(row[length]) for length in LENGTHS}
    own, printed = effective(averages, threshold), _printed(row["effective_length"])
    if printed is None or str(own) == str(printed):
        return []
    # Both the average and the threshold are rounded.
    if printed.length is not None and (own.length or 0) < printed.length:
        length, verb = printed.length, "does not exceed"
        rounding = averages[length] + ROUNDING > threshold - ROUNDING + _EXACT
    else:
        assert own.length is not None
        length, verb = own.length, "exceeds"
        rounding = averages[length] - ROUNDING < threshold + ROUNDING - _EXACT
    because = f"{averages[length]:.1f} at {thousands(length)} {verb} {threshold:.1f}"
    return [(model, "Effective Length", row["effective_length"], str(own),
             averages[length] - threshold, rounding, because)]  # fmt: skip


def _printed(text: str) -> Effective | None:
    """Return what ``">128K"``, ``"<4k"``, ``"32K"`` say; None where nothing is printed."""
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


def _ranks_contradicted(
    table: pd.DataFrame, again: pd.DataFrame, key: str
) -> list[tuple[Any, ...]]:
    """Return the ranks by one average that the averages themselves contradict."""
    printed, name = table[f"{key}_rank"], AVERAGES[key]
    has = printed.notna()
    # Of equal averages all have the best of their ranks.
    places = even(again.loc[has, name]).rank(method="min", ascending=False)
    counted = places + int(printed[has].min()) - 1
    rows: list[tuple[Any, ...]] = []
    for row in printed.index[has & (printed != counted.reindex(printed.index))]:
        was, now, own = int(printed[row]), int(counted[row]), again.loc[row, name]
        # The rows that should stand on the other side of it.
        others = again.loc[has & (printed != was), name]
        between = others[(printed[others.index] < was) != (others > own)]
        gap = (between - own).abs().max() if len(between) else 0.0
        rows.append((again.loc[row, "model"], f"rank by {name}", str(was), str(now),
                     float(was - now), bool(gap <= 2 * ROUNDING + _EXACT),
                     "counted among the rows that have a rank"))  # fmt: skip
    return rows


def rows(
    table: pd.DataFrame, facts: str | Path, threshold: float = THRESHOLD
) -> list[dict[str, Any]]:
    """Return the table as rows of the explorer's leaderboard.

    Effective lengths and averages are the recomputed ones; what the table prints otherwise is said
    in ``notes``.

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
    notes: dict[str, list[str]] = {}
    for row in contradictions(table, threshold).to_dict("records"):
        rounding = "; rounding could explain it" if row["rounding"] else ""
        notes.setdefault(row["model"], []).append(
            f"{row['cell']} {row['printed']}, recomputed {row['recomputed']}"
            f" ({row['because']}{rounding})"
        )
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
                claimed=tokens(row["claimed"]), tasks=13, printed=row["printed"],
                notes=notes.get(row["model"]), **known, **means,
            )
        )  # fmt: skip
    return made


def _known(value: Any) -> Any:
    """Return a value, None where a table has none."""
    return None if pd.isna(value) else value
