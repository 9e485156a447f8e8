"""One row for each question that a memory was asked, read from the files of its runs.

Each run writes ``metrics.csv``, a row for each question, and ``metrics.json`` with its settings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib import labels, samples
from rulerlib.analysis.accuracy import groups_of
from rulerlib.analysis.scores import nothing
from rulerlib.errors import DataError, ParameterError, shortened
from rulerlib.intervals import clustered
from rulerlib.memory.measures import COLUMNS
from rulerlib.memory.presets import NAMES
from rulerlib.memory.suites import SUITES

TEXTS = (
    "suite", "preset", "model", "language", "profile", "episode", "kind", "question", "answer",
    "gold", "golds",
)  # fmt: skip
"""The columns of ``metrics.csv`` that hold text."""

BY = ("model", "language", "suite", "size", "preset")
"""What is averaged separately by default."""

QUESTION = ("suite", "language", "profile", "knobs", "seed", "episode", "probe")
"""What identifies a question."""

# Settings that are averaged separately too if they vary.
_VARYING = ("profile", "knobs", "changes", "length", "engine")

_OF_RUN = ("knobs", "changes", "length", "engine", "asked", "stored", "bytes")
_COLUMNS = (*COLUMNS, *_OF_RUN, "unit")

_INTEGERS = ("size", "seed", "probe", "index")

# Settings that must be equal if two presets are compared.
_ASKED = ("format", "decoding", "tokens_to_generate")


def read(root: str | Path) -> pd.DataFrame:
    """Return one row for each question of all runs below a folder.

    Returns
    -------
    DataFrame
        The columns of ``metrics.csv``; of the run ``knobs`` and ``changes`` of the preset as text,
        ``length``, ``engine``, ``asked`` (prompt format and decoding as one text), and of its
        store ``stored``, the number of texts, and ``bytes``. ``unit`` identifies the episode. An
        empty table says that there are no runs.

    Raises
    ------
    ParameterError
        If there is no such folder.
    DataError
        If a file is damaged.
    """
    root = Path(root)
    if not root.is_dir():
        raise ParameterError("root", str(root), "a folder that exists")
    rows = of_runs({path.parent for path in sorted(root.rglob("metrics.json"))})
    return rows if len(rows) else nothing(f"There are no metrics below {root}.", _COLUMNS)


def of_runs(folders: Iterable[Path]) -> pd.DataFrame:
    """Return the rows of `read` for the runs in some folders, by suite and preset.

    Folders without metrics are skipped.

    Raises
    ------
    DataError
        If a file is damaged.
    """
    runs = [_run(folder) for folder in sorted(folders) if (folder / "metrics.json").exists()]
    if not any(map(len, runs)):
        return nothing("No run has metrics.", _COLUMNS)
    rows = pd.concat(runs, ignore_index=True)
    unit = rows["suite"]
    for name in ("language", "profile", "knobs", "seed", "episode"):
        unit = unit + "/" + rows[name].astype(str)
    by = ["model", "language", "suite", "size", "preset", *_VARYING, "seed", "index"]
    rows = rows.assign(unit=unit).sort_values(by, key=_sort_key, kind="stable")
    return rows.reset_index(drop=True)[[*_COLUMNS]]


def _sort_key(values: pd.Series) -> pd.Series:
    """Return the positions of suites and presets in their tables; other names follow."""
    names = {"suite": [*SUITES], "preset": [*NAMES]}.get(str(values.name))
    if names is None:
        return values
    order = [*names, *sorted({*values} - {*names})]
    return values.map({name: place for place, name in enumerate(order)})


def _run(folder: Path) -> pd.DataFrame:
    """Return the questions of the run in a folder."""
    about = folder / "metrics.json"
    try:
        values = samples.read_object(about)
        work, cell = values["settings"].get("work", {}), values["settings"].get("cell", {})
        asked = {name: cell[name] for name in _ASKED if name in cell}
        knobs, changes = (_text(work.get(name, {})) for name in ("knobs", "changes"))
        stored, size = (values["telemetry"].get(name, math.nan) for name in ("stored", "bytes"))
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{about}: damaged ({shortened(error)}).") from error
    rows = _questions(folder / "metrics.csv")
    return rows.assign(
        preset=work.get("preset", rows["preset"]),
        model=[labels.model(name, work.get("engine")) for name in rows["model"]],
        knobs=knobs, changes=changes, stored=stored, bytes=size,
        length=work.get("length", 0), engine=work.get("engine", ""),
        asked=json.dumps(asked, sort_keys=True, ensure_ascii=False),
    )  # fmt: skip


def _text(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(values.items()))


def _questions(path: Path) -> pd.DataFrame:
    """Return the table of questions in a file; empty numbers are NaN."""
    kinds = {name: str if name in TEXTS else int if name in _INTEGERS else float
             for name in COLUMNS}  # fmt: skip
    # Only numbers have missing values; a text may be "NA".
    missing = {name: [""] for name in COLUMNS if kinds[name] is not str}
    try:
        table = pd.read_csv(path, dtype=kinds, keep_default_na=False, na_values=missing)
        return table[[*COLUMNS]]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path}: damaged ({' '.join(str(error).split())}).") from error


# --- Groups and means -------------------------------------------------------------------------


def by_of(rows: pd.DataFrame, by: Sequence[str] | None = None) -> list[str]:
    """Return what is averaged separately: ``by``, or `BY` and the settings that vary."""
    if by is not None:
        return list(by)
    models = rows["model"].nunique()
    there = [name for name in _VARYING if name in rows]
    varying = [name for name in there if len(rows[["model", name]].drop_duplicates()) > models]
    return [*BY[:-1], *varying, BY[-1]]


def groups(rows: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield groups of rows without duplicate questions.

    A larger set begins with the smaller ones, so if sizes are not separated, each question counts
    once, with its answer from the largest set.
    """
    same = [*QUESTION, "model", "preset", "changes", "length", "engine"]
    if "size" in by:
        same.append("size")
    rows = rows.sort_values("size", kind="stable", ascending=False)
    rows = rows[~rows.duplicated(same)].sort_index()
    yield from groups_of(rows, by)


def means(part: pd.DataFrame, *columns: str) -> dict[str, float]:
    """Return the means of columns and their 95% intervals, clustered by episode.

    The ends of an interval are called ``"em low"`` and ``"em high"``. Missing values are left out;
    without any value all three numbers are NaN.
    """
    row: dict[str, float] = {}
    for column in columns:
        measured = part[part[column].notna()]
        mean = clustered(measured[column].tolist(), measured["unit"].tolist())
        low, high = (mean.low, mean.high) if mean.n else (math.nan, math.nan)
        row |= {column: mean.mean, f"{column} low": low, f"{column} high": high}
    return row
