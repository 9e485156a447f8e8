"""One row for each question that a memory was asked, read from the files of its runs.

Below the folder of the runs each one has left ``metrics.csv``, a row for a question, and
``metrics.json``, which says with which settings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib import files, labels, samples
from rulerlib.analysis.accuracy import groups_of
from rulerlib.analysis.scores import nothing
from rulerlib.errors import DataError, require, shortened
from rulerlib.escaping import of_cell
from rulerlib.intervals import Clustered, clustered
from rulerlib.memory.measuring import COLUMNS
from rulerlib.memory.presets import NAMES
from rulerlib.memory.suites import SUITES

TEXTS = (
    "suite", "preset", "model", "language", "profile", "episode", "kind", "question", "answer",
    "gold",
)  # fmt: skip
"""The columns of ``metrics.csv`` that hold texts, whatever these look like."""

BY = ("model", "language", "suite", "size", "preset")
"""What is averaged separately where nothing else is asked for."""

# Settings that are named too where there are several of them.
_VARYING = ("profile", "knobs", "changes", "length", "engine")

_OF_RUN = ("knobs", "changes", "length", "engine", "asked", "stored", "bytes")
_COLUMNS = (*COLUMNS, *_OF_RUN, "unit")

_WHOLE = ("size", "seed", "probe", "index")
_AMOUNTS = (
    "pred_len", "gold_len", "needed", "taught", "recalled", "latency_ms", "prompt_tokens", "cut",
    "steps_over",
)  # fmt: skip
# All other columns are shares.
_SHARES = tuple(name for name in COLUMNS if name not in (*TEXTS, *_WHOLE, *_AMOUNTS))

# What makes two rows the same question.
QUESTION = ("suite", "language", "profile", "knobs", "seed", "episode", "probe")

# Settings that must be the same where two presets are compared.
_ASKED = ("format", "decoding", "tokens_to_generate")


def read(root: str | Path) -> pd.DataFrame:
    """Return one row for each question of all runs below a folder.

    Returns
    -------
    DataFrame
        The columns of ``metrics.csv``; and of the run: ``knobs`` and ``changes`` of the preset as
        texts, ``length``, ``engine``, ``asked`` (the format of the prompt and the decoding, as
        one text), and of its store ``stored``, how many texts it keeps, and ``bytes``. ``unit``
        names the episode, among all others. An empty table says that there are no runs.

    Raises
    ------
    ParameterError
        If there is no such folder.
    DataError
        If a file is damaged: names it, and what is wrong.
    """
    root = Path(root)
    require(root.is_dir(), "root", str(root), "a folder that exists")
    rows = of_runs({path.parent for path in files.within(root, "metrics.json")})
    if rows.empty:
        return nothing(f"There are no answers with metrics below {root}.", _COLUMNS)
    return rows


def of_runs(folders: Iterable[Path]) -> pd.DataFrame:
    """Return one row for each question of the runs that left their metrics in some folders.

    They come in the order of the suites and presets. A run that was stopped has no rows.

    Raises
    ------
    DataError
        If a file is damaged.
    """
    runs = [_run(folder) for folder in sorted(folders) if (folder / "metrics.json").exists()]
    if not any(map(len, runs)):
        return nothing("No run has answers with metrics.", _COLUMNS)
    rows = pd.concat(runs, ignore_index=True)
    unit = rows["suite"]
    for name in ("language", "profile", "knobs", "seed", "episode"):
        unit = unit + "/" + rows[name].astype(str)
    by = ["model", "language", "suite", "size", "preset", *_VARYING, "seed", "index"]
    rows = rows.assign(unit=unit).sort_values(by, key=_place, kind="stable")
    return rows.reset_index(drop=True)[[*_COLUMNS]]


def _place(values: pd.Series) -> pd.Series:
    """Return what rows are sorted by: the place of a suite or preset among its like."""
    names = {"suite": [*SUITES], "preset": [*NAMES]}.get(str(values.name))
    if names is None:
        return values
    # Others come last, by their names.
    order = [*names, *sorted({*values} - {*names})]
    return values.map({name: place for place, name in enumerate(order)})


def _run(folder: Path) -> pd.DataFrame:
    """Return the questions of the run that left its metrics in a folder."""
    about = folder / "metrics.json"
    told = samples.read_object(about)
    settings, telemetry = told.get("settings", {}), _object(told.get("telemetry"))
    if not isinstance(settings, dict):
        raise DataError(f"{about}: damaged (settings is {shortened(settings)}).")
    work, cell = (_object(settings.get(name)) for name in ("work", "cell"))
    rows = _questions(folder / "metrics.csv")
    put = {name: cell[name] for name in _ASKED if name in cell}
    # A table has the preset's name in folders, which names the changes too.
    return rows.assign(
        preset=work.get("preset", rows["preset"]),
        model=[labels.model(name, work.get("engine")) for name in rows["model"]],
        knobs=_named(work.get("knobs")), changes=_named(work.get("changes")),
        length=work.get("length", 0), engine=work.get("engine", ""),
        asked=json.dumps(put, sort_keys=True, ensure_ascii=False),
        **{name: telemetry.get(name, math.nan) for name in ("stored", "bytes")},
    )  # fmt: skip


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _named(values: Any) -> str:
    """Return settings by name as one text."""
    return ", ".join(f"{name}={value}" for name, value in sorted(_object(values).items()))


def _questions(path: Path) -> pd.DataFrame:
    """Return a table of questions, which has all columns, its numbers read; empty ones are NaN."""
    numbers = {name: float for name in COLUMNS if name not in TEXTS}
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)[[*COLUMNS]]
        table = table.replace(dict.fromkeys(numbers, ""), math.nan).astype(numbers)
        wrong = {name: table[name] % 1 != 0 for name in _WHOLE}
        wrong |= {name: (table[name] < 0) | (table[name] > 1) for name in _SHARES}
        for name, rows in wrong.items():
            if rows.any():
                raise ValueError(f"{name} is {table[name][rows].iloc[0]:g}")
        return table.astype(dict.fromkeys(_WHOLE, int)).assign(answer=table["answer"].map(of_cell))
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path}: damaged ({' '.join(str(error).split())}).") from error


# --- Groups and means -------------------------------------------------------------------------


def by_of(rows: pd.DataFrame, by: Sequence[str] | None = None) -> list[str]:
    """Return what is averaged separately: ``by``, or `BY` and the settings in which rows differ."""
    if by is not None:
        return list(by)
    there = [name for name in _VARYING if name in rows]
    kinds = {name: len(rows[["model", name]].drop_duplicates()) for name in there}
    varying = [name for name in there if kinds[name] > rows["model"].nunique()]
    return [*BY[:-1], *varying, BY[-1]]


def groups(rows: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield each group of rows, none of which has the same question of the same preset twice.

    A larger set begins with the smaller ones, so where sizes are put together, each question
    counts once, as the largest set has it.
    """
    same = [*QUESTION, "model", "preset", "changes", "length", "engine"]
    same += ["size"] * ("size" in by)
    rows = rows.sort_values("size", kind="stable", ascending=False)
    rows = rows[~rows.duplicated(same)].sort_index()
    yield from groups_of(rows, by)


def means(part: pd.DataFrame, *columns: str) -> dict[str, float]:
    """Return the means of columns and their 95 % intervals, clustered by episode; NaN: unknown.

    An interval is called ``low`` and ``high`` behind the name of its column.
    """
    row: dict[str, float] = {}
    for column in columns:
        measured = part[part[column].notna()]
        row |= with_ends(column, clustered(measured[column].tolist(), measured["unit"].tolist()))
    return row


def with_ends(name: str, mean: Clustered) -> dict[str, float]:
    """Return a mean under its name, and its interval as ``<name> low`` and ``<name> high``.

    All three are NaN where there are no values.
    """
    low, high = (mean.low, mean.high) if mean.n else (math.nan, math.nan)
    return {name: mean.mean, f"{name} low": low, f"{name} high": high}
