"""One row for each question that a memory was asked, read from the files of its runs.

Below the folder of the runs each one has left ``metrics.csv``, a row for a question, and
``metrics.json``, which says with which settings. Older runs left only ``metrics.json`` with one
mean; they are a row without a question.

>>> import pathlib, tempfile
>>> folder = pathlib.Path(tempfile.mkdtemp(), "core")
>>> folder.mkdir()
>>> text = '{"metrics": {"episodic": {"em": 0.25}}}'
>>> _ = (folder / "metrics.json").write_text(text, encoding="utf-8")
>>> rows = read(folder.parent)
>>> rows[["suite", "preset", "em", "legacy"]].to_dict("split")["data"]
[['episodic', 'core', 0.25, True]]
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib import paths, samples
from rulerlib.analysis.scores import Names, wanted
from rulerlib.analysis.tables import groups_of, nothing
from rulerlib.errors import DataError, is_number, one_of, require, shortened
from rulerlib.escaping import of_cell
from rulerlib.intervals import clustered
from rulerlib.memory.presets import NAMES
from rulerlib.memory.suites import SUITES

TEXTS = (
    "suite", "preset", "model", "language", "profile", "episode", "kind", "question", "answer",
    "gold",
)  # fmt: skip
"""The columns of ``metrics.csv`` that hold texts, whatever these look like."""

WHOLE = ("size", "seed", "probe", "index")
"""The columns that hold whole numbers."""

SHARES = (
    "em", "em_raw", "em_norm", "f1", "overlong", "format_violation", "answerable", "refused",
    "recall_at_1", "recall_at_5", "recall_at_10", "rr", "in_prompt", "leaked", "constant", "chance",
    "valid", "success",
)  # fmt: skip
"""The columns that hold numbers from 0 to 1; an empty field is one that cannot be said."""

NUMBERS = (
    "pred_len", "gold_len", "needed", "taught", "recalled", "latency_ms", "prompt_tokens", "cut",
    "steps_over",
)  # fmt: skip
"""The columns that hold other numbers."""

BY = ("model", "language", "suite", "size", "preset")
"""What is averaged separately where nothing else is asked for."""

# Settings that are named too where there are several of them.
_VARYING = ("profile", "knobs", "changes", "length", "engine")

# The columns of a table of rows.
_COLUMNS = (
    *TEXTS, *WHOLE, *SHARES, *NUMBERS, "knobs", "changes", "length", "engine", "asked", "legacy",
    "unit",
)  # fmt: skip

# What makes two rows the same question.
QUESTION = ("suite", "language", "profile", "knobs", "seed", "episode", "probe")

# Settings that must be the same where two presets are compared.
ASKED = ("format", "decoding", "tokens_to_generate")


def read(
    root: str | Path,
    models: Names = None,
    languages: Names = None,
    suites: Names = None,
    presets: Names = None,
) -> pd.DataFrame:
    """Return one row for each question of all runs below a folder.

    Parameters
    ----------
    root
        The folder of the runs.
    models, languages, suites, presets
        Only these, by their names; None: all that there are.

    Returns
    -------
    DataFrame
        The columns of ``metrics.csv``; and of the run: ``knobs`` and ``changes`` of the preset as
        texts, ``length``, ``engine``, ``asked`` (the format of the prompt and the decoding, as one
        text) and ``legacy``, whether only a mean is known, which then stands in ``em``. ``unit``
        names the episode, among all others. An empty table says that there are no runs.

    Raises
    ------
    ParameterError
        If there is no such folder, or it has nothing of a name that is asked for.
    DataError
        If a file is damaged: names it, and what is wrong.
    """
    root = Path(root)
    require(root.is_dir(), "root", str(root), "a folder that exists")
    files = ("metrics.json", "metrics.csv")
    rows = of_runs({path.parent for name in files for path in paths.within(root, name)})
    if rows.empty:
        return nothing(f"There are no answers with metrics below {root}.", _COLUMNS)
    there = {
        f"{name}s": dict.fromkeys(rows[name]) for name in ("model", "language", "suite", "preset")
    }
    chosen = {"models": models, "languages": languages, "suites": suites, "presets": presets}
    for parameter, given in chosen.items():
        column, names = parameter.removesuffix("s"), wanted(parameter, given)
        for name in names or ():
            one_of(parameter, name, there[parameter])
        rows = rows[rows[column].isin(names)] if names else rows
    if rows.empty:
        return nothing("No answers are of all the names that were asked for.", _COLUMNS)
    return rows.reset_index(drop=True)


def of_runs(folders: Iterable[Path]) -> pd.DataFrame:
    """Return one row for each question of the runs that left their metrics in some folders.

    Those in which nothing stands, as of a run that was stopped, have no rows.

    Raises
    ------
    DataError
        If a file is damaged.
    """
    runs = [row for folder in sorted(folders) for row in _run(folder)]
    if not runs:
        return nothing("No run has answers with metrics.", _COLUMNS)
    return ordered(_checked(pd.DataFrame(runs)))


def ordered(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows in the order of the suites and presets, and of questions within them."""

    def place(values: pd.Series) -> pd.Series:
        known = {"suite": [*SUITES], "preset": [*NAMES]}.get(str(values.name))
        if known is None:
            return values
        # What is not known comes last, by its name.
        after = [*known, *sorted({*values} - {*known})]
        return values.map({name: number for number, name in enumerate(after)})

    by = ["model", "language", "suite", "size", "preset", *_VARYING, "seed", "index"]
    return rows.sort_values(by, key=place, kind="stable").reset_index(drop=True)


# ------------------------------------------------------------- files


def _run(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the run that left its metrics in a folder, all fields still as texts."""
    about, table = folder / "metrics.json", folder / "metrics.csv"
    if not about.exists() and not table.exists():
        return []
    said = samples.read_object(about) if about.exists() else {}
    settings = said.get("settings", {})
    if not isinstance(settings, dict):
        raise DataError(f"{about}: damaged (settings is {shortened(settings)}).")
    work, cell = (_object(settings.get(name)) for name in ("work", "cell"))
    rows = _questions(table) if table.exists() else _means(about, said, settings)
    asked = {name: cell[name] for name in ASKED if name in cell}
    # A table has the preset's name in folders, which names the changes too.
    same = {"preset": work["preset"]} if "preset" in work else {}
    same |= {
        "knobs": _named(work.get("knobs")), "changes": _named(work.get("changes")),
        "length": work.get("length", 0), "engine": work.get("engine", ""),
        "asked": json.dumps(asked, sort_keys=True, ensure_ascii=False),
        "legacy": not table.exists(), "file": str(table),
    }  # fmt: skip
    return [{**row, **same, "row": number} for number, row in enumerate(rows, 1)]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _named(values: Any) -> str:
    """Return settings by name as one text."""
    return ", ".join(f"{name}={value}" for name, value in sorted(_object(values).items()))


def _questions(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table of questions, which has all columns."""
    try:
        head, *rows = csv.reader(io.StringIO(paths.read_text(path)), strict=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (ValueError, csv.Error) as error:
        raise DataError(f"{path}: damaged ({error}).") from error
    for name in (*TEXTS, *WHOLE, *SHARES, *NUMBERS):
        if name not in head:
            raise DataError(f"{path}: damaged (it has no column '{name}').")
    for number, row in enumerate(rows, 1):
        if len(row) != len(head):
            what = f"question {number} has {len(row)} fields of {len(head)}"
            raise DataError(f"{path}: damaged ({what}).")
    texts = [[of_cell(text) for text in row] for row in rows]
    return [dict(zip(head, row, strict=True)) for row in texts]


def _means(
    path: Path, said: Mapping[str, Any], settings: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Return a row for each suite of which only a mean is known."""
    suites = said.get("metrics")
    if not isinstance(suites, dict) or not all(isinstance(each, dict) for each in suites.values()):
        raise DataError(f"{path}: damaged (metrics is {shortened(suites)}).")
    rows = []
    for suite, measured in suites.items():
        value = measured.get("em")
        if not is_number(value) or not 0 <= value <= 1:
            raise DataError(f"{path}: damaged (em of {suite} is {shortened(value)}).")
        known = {name: str(settings.get(name, "")) for name in TEXTS}
        known |= {name: str(settings.get(name, 0)) for name in WHOLE}
        known |= {"suite": suite, "preset": known["preset"] or path.parent.name, "em": str(value)}
        rows.append({**dict.fromkeys((*SHARES, *NUMBERS), ""), **known})
    return rows


def _checked(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of all files, their numbers read, with the name of each one's episode."""
    numbers = {}
    for name in (*WHOLE, *SHARES, *NUMBERS):
        values = pd.to_numeric(table[name], errors="coerce").astype(float)
        wrong = values.isna() & (table[name] != "")
        if name in WHOLE:
            wrong |= values.isna() | (values % 1 != 0)
        if name in SHARES:
            wrong |= (values < 0) | (values > 1)
        if wrong.any():
            first = table[wrong].iloc[0]
            what = f"question {first['row']}: {name} is {shortened(first[name])}"
            raise DataError(f"{first['file']}: damaged ({what}).")
        numbers[name] = values.astype(int) if name in WHOLE else values
    texts = {name: table[name] for name in _COLUMNS if name in table and name not in numbers}
    rows = pd.DataFrame({**texts, **numbers})
    unit = rows["suite"]
    for name in ("language", "profile", "knobs", "seed", "episode"):
        unit = unit + "/" + rows[name].astype(str)
    return rows.assign(unit=unit)[[*_COLUMNS]]


# ------------------------------------------------------------- groups and means


def by_of(rows: pd.DataFrame, by: Sequence[str] | None = None) -> list[str]:
    """Return what is averaged separately: ``by``, or `BY` and the settings in which rows differ."""
    if by is not None:
        return list(by)
    varying = [name for name in _VARYING if name in rows and rows[name].nunique() > 1]
    return [*BY[:-1], *varying, BY[-1]]


def groups(rows: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield each group of rows, none of which has the same question of the same preset twice.

    A larger set begins with the smaller ones, so where sizes are put together, each question
    counts once, as the largest set has it.
    """
    same = [*QUESTION, "model", "preset", "changes", "length", "engine", "legacy"]
    same += ["size"] * ("size" in by)
    rows = rows.sort_values("size", kind="stable", ascending=False)
    rows = rows[~rows.duplicated(same)].sort_index()
    yield from groups_of(rows, by)


def mean(part: pd.DataFrame, column: str) -> dict[str, float]:
    """Return the mean of a column and its 95 % interval, clustered by episode; NaN where unknown.

    The interval is called ``low`` and ``high`` behind the name of the column.
    """
    known = part[part[column].notna()]
    found = clustered(known[column].tolist(), known["unit"].tolist())
    low, high = (found.low, found.high) if found.n else (math.nan, math.nan)
    return {column: found.mean, f"{column} low": low, f"{column} high": high}
