"""The tables of the explorer: all cells as columns, comparisons, and the leaderboard.

A file of columns is a third of the size of one of rows, and the page must be there in a second.

>>> about = {"model": "lille", "language": "da", "task": "vt", "length": 1024}
>>> table = analysis.scores([(about, Prediction(0, "...", ["ABCDE"], " ABCDE."))])
>>> columns(table)["columns"]["mean"], columns(table)["complete"]
([1.0], [['lille', 'da']])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from rulerlib import analysis
from rulerlib.analysis import AVERAGES, BY
from rulerlib.intervals import holm, recovered
from rulerlib.samples import Prediction as Prediction
from rulerlib.tasks import RULER
from rulerlib.tokens import thousands

NAMES = ("model", "language", "task")
"""The columns of names, which are stored once, under ``names``, and as indices in their column."""

STUDY = ": "
"""The separator between the names of a study and its task."""

_MEANS = ("mean", "low", "high")
_COMPARED = ("task", "length", "n", "first", "second", "difference", "low", "high")


def keys(table: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return the model, language, task and length of each cell, in the order of all columns."""
    return [*map(tuple, analysis.accuracy(table)[list(BY)].to_numpy().tolist())]


def columns(table: pd.DataFrame) -> dict[str, Any]:
    """Return every cell with the mean of its primary measure.

    Parameters
    ----------
    table
        From `rulerlib.scores.scores`.

    Returns
    -------
    dict
        ``names``, for model, language and task; ``columns``: those as numbers of names,
        ``length``, ``n``, ``measure`` (the number of its name among ``measures``), ``mean``,
        ``low``, ``high``, and ``cut_off``, the share of answers that are wrong and were cut off;
        ``measures``; ``complete``: the models, each with a language, that were asked all tasks at
        all lengths that any model here was asked in this language.
    """
    rows = analysis.accuracy(table)
    measures = list(dict.fromkeys(table["measure"]))
    names = {name: list(dict.fromkeys(rows[name])) for name in NAMES}
    shown: dict[str, list[Any]] = {
        name: [names[name].index(value) for value in rows[name]] for name in NAMES
    }
    shown |= {name: rows[name].astype(int).tolist() for name in ("length", "n")}
    shown["measure"] = [measures.index(name) for name in rows["measure"]]
    shown |= _rounded(rows, [*_MEANS, *(["cut_off"] if "cut_off" in rows else [])])
    return {"names": names, "measures": measures, "complete": complete(rows), "columns": shown}


def complete(rows: pd.DataFrame) -> list[list[str]]:
    """Return the models, each with a language, that answered every cell that any model answered.

    Cells of studies do not count.
    """
    rows = rows[~rows["task"].str.contains(STUDY, regex=False)]
    cells: Any = rows.groupby(["model", "language"], sort=False).size()
    most = rows.drop_duplicates(["language", "task", "length"])["language"].value_counts()
    return [[*key] for key, count in cells.items() if count == most[key[1]]]


def of_measure(
    table: pd.DataFrame, measure: str, numbers: Mapping[tuple[Any, ...], int]
) -> dict[str, Any]:
    """Return the means of one measure by the number of the cell, for the cells that have it."""
    rows = analysis.accuracy(table, measure)
    cells = [numbers[key] for key in map(tuple, rows[list(BY)].to_numpy().tolist())]
    return {"measure": measure, "cell": cells, **_rounded(rows, _MEANS)}


def _rounded(rows: pd.DataFrame, names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [_plain(value) for value in rows[name]] for name in names}


def comparisons(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield every comparison of two models, and of two languages of one model.

    Models are compared on their shared samples, see `rulerlib.analysis.paired`. Two languages have
    different samples, so they are compared as independent means.

    Yields
    ------
    dict
        ``kind`` (``"model"`` or ``"language"``), ``first``, ``second``, and ``rows``: for each
        ``language`` or ``model``, ``task`` and ``length`` the number of samples ``n``, the two
        means, their ``difference`` with ``low`` and ``high``, and for models ``p_holm``.
    """
    # Only the compared measures: a table of all is several times as large.
    primary = analysis.of_measure(table)
    models = {str(name): rows for name, rows in primary.groupby("model", sort=False)}
    for first, second in combinations(models, 2):
        rows = analysis.paired(pd.concat([models[first], models[second]]), first, second)
        if len(rows):
            rows = rows.rename(columns={first: "first", second: "second"})
            rows["p_holm"] = holm(rows["p"].tolist())
            yield {"kind": "model", "first": first, "second": second,
                   "rows": _records(rows, ["language", *_COMPARED, "p_holm"])}  # fmt: skip
    means = analysis.accuracy(table)
    for first, second in combinations(dict.fromkeys(table["language"]), 2):
        ours, theirs = (means[means["language"] == name] for name in (first, second))
        rows = ours.merge(theirs, on=["model", "task", "length"], suffixes=("", "_other"))
        if len(rows):
            rows["n"] = rows[["n", "n_other"]].min(axis=1)
            rows["difference"] = rows["mean"] - rows["mean_other"]
            rows[["low", "high"]] = [_independent(row) for row in rows.to_dict("records")]
            rows = rows.rename(columns={"mean": "first", "mean_other": "second"})
            yield {"kind": "language", "first": first, "second": second,
                   "rows": _records(rows, ["model", *_COMPARED])}  # fmt: skip


def _independent(row: Mapping[Any, Any]) -> tuple[float, float]:
    """Return the interval of the difference of two independent means."""
    return recovered(
        (row["mean"], row["low"], row["high"]),
        (row["mean_other"], row["low_other"], row["high_other"]),
        0,
    )


def _records(rows: pd.DataFrame, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows as plain data; what is not known is None."""
    return [{name: _plain(row[name]) for name in names} for row in rows.to_dict("records")]


def _plain(value: Any) -> Any:
    """Return a number without rounding errors, or None for NaN."""
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else round(value, 9)


# --- The leaderboard -------------------------------------------------------------------------


def board_row(
    kind: str,
    model: str,
    language: str = "en",
    effective: str = "",
    averages: Mapping[int, float] | None = None,
    **values: Any,
) -> dict[str, Any]:
    """Return a row of the leaderboard with what is known of a model, as plain data.

    >>> row = board_row("published", "GPT-4", effective="64K", averages={4096: 96.6})
    >>> row["reach"], row["averages"]
    (65536, {4096: 96.6})

    Parameters
    ----------
    kind
        Where its numbers come from, such as ``"run"`` or ``"published"``.
    model, language
        Whose numbers these are.
    effective
        The effective length as text, ``"64K"``, ``"≥128K"`` or ``"<4K"``.
    averages
        In percent, by length in tokens.
    values
        Further columns: ``claimed`` in tokens, ``tasks``, ``avg``, ``inc``, ``dec``, ...;
        ``table``, if it is not RULER's.

    Returns
    -------
    dict
        All of these, and ``reach``: the effective length in tokens, 0 below the shortest, None
        if unknown.
    """
    reach = 0 if effective.startswith("<") else tokens(effective.lstrip("≥"))
    plain = {name: _plain(value) for name, value in values.items()}
    return {
        "kind": kind, "model": model, "language": language, "effective": effective,
        "reach": reach, "averages": {int(length): _plain(mean) for length, mean in
                                     (averages or {}).items() if not math.isnan(mean)},
        **{name: value for name, value in plain.items() if value not in (None, "", [])},
    }  # fmt: skip


def tokens(text: str) -> int | None:
    """Return the tokens of a length as it is written, ``"128K"`` or ``"1M"``; None of other texts.

    >>> tokens("128k"), tokens("1M"), tokens("900"), tokens("unknown")
    (131072, 1048576, 900, None)
    """
    units = {"K": 1024, "M": 1024**2}
    number, unit = (text[:-1], units[text[-1].upper()]) if text[-1:].upper() in units else (text, 1)
    return int(number) * unit if number.isascii() and number.isdigit() else None


def board_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the leaderboard: a row for each model and language that was asked tasks of RULER's.

    Parameters
    ----------
    table
        From `rulerlib.scores.scores`.

    Returns
    -------
    list of dict
        Of `board_row`; models without an average at any length are left out.
    """
    table = table[table["task"].isin(RULER)]
    if table.empty:
        return []
    lengths = sorted(table["length"].unique().tolist())
    board = []
    for row in analysis.summary(table).to_dict("records"):
        if not row.get("lengths") or not isinstance(row.get("effective"), str):
            continue
        averages = dict(zip(("avg", "inc", "dec"), map(row.get, AVERAGES.values()), strict=True))
        board.append(
            board_row(
                "run", row["model"], row["language"],
                # It is RULER's of all its tasks alone.
                row["effective"] if row["tasks"] == len(RULER) else "",
                {length: row[thousands(length)] for length in lengths},
                tasks=row["tasks"], low=row["effective low"], high=row["effective high"],
                strict=row["effective strict"], **averages,
            )
        )  # fmt: skip
    return board
