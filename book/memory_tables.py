"""Committed tables of the memory benchmark.

The first command resumes; the second writes the tables::

    rulerlib memory --language da,en --sizes 50 --model reference \\
        --engine reference --root runs/reference
    python -m book.memory_tables runs/reference book/results/memory/reference

>>> verdict(0.1, 0.4, above=0.08)
'reached'
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

import rulerlib
from book.tables import ABOUT, Tables, write
from rulerlib.errors import RulerError
from rulerlib.memory import tables

SATURATED, GAIN = 0.6, 0.08
"""The two targets: the maximum without a memory, and the minimum gain with one."""

NO_MEMORY = ("core", "span_short")
"""Presets that see nothing of the taught texts."""


def tabulate(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return all tables by name.

    Parameters
    ----------
    rows
        One row per question, from `rulerlib.memory.tables.read`. Rows with parameters are points
        of the capacity curve only.
    """
    matrix = rows[rows["knobs"] == ""]
    fates = tables.fates(matrix)
    told = {
        "rulerlib": rulerlib.__version__,
        "python": platform.python_version(),
        "model": ", ".join(dict.fromkeys(rows["model"])),
        "seeds": ", ".join(map(str, sorted(rows["seed"].unique()))),
        "runs": str(len(rows.drop_duplicates([*tables.BY, "knobs", "seed"]))),
        "questions": str(len(rows)),
    }
    return {
        "scores": tables.table(matrix),
        "floors": tables.floors(matrix),
        "stores": tables.store_table(matrix),
        "fates": fates[fates["count"] > 0].reset_index(drop=True),
        "compared": tables.compared(matrix),
        "capacity": tables.capacity(rows),
        ABOUT: pd.DataFrame(told.items(), columns=["name", "value"]),
    }


def make(root: str | Path, folder: str | Path) -> Path:
    """Write the tables of all runs below a folder, and return theirs.

    Raises
    ------
    RulerError
        As `rulerlib.memory.tables.read`.
    """
    write(tabulate(tables.read(root)), Path(folder))
    return Path(folder)


def verdict(low: float, high: float, above: float) -> str:
    """Return whether a value is above a target, given its 95% interval."""
    if low >= above:
        return "reached"
    return "missed" if high < above else "cannot be told yet"


def targets(results: Tables) -> pd.DataFrame:
    """Return whether both targets are reached, a row for each system and language.

    Without a memory, less than `SATURATED` of ``episodic`` is answered to the letter; with one,
    `GAIN` more of ``episodic_multi`` than without, normalized, question by question. A target
    is reached or missed if the whole 95% interval says so.
    """
    rows = []
    for row in results.scores.query("suite == 'episodic'").to_dict("records"):
        if row["preset"] in NO_MEMORY:
            value, low, high = (row[f"em_raw{end}"] for end in ("", " low", " high"))
            said = verdict(-high, -low, -SATURATED)
            rows.append((row, f"em_raw below {SATURATED:.0%}", value, low, high, said))
    several = results.compared.query("suite == 'episodic_multi'").dropna(subset="difference")
    for row in several.to_dict("records"):
        value, low, high = row["difference"], row["low"], row["high"]
        rows.append((row, f"+{GAIN:.0%} of em", value, low, high, verdict(low, high, GAIN)))
    about = ("language", "suite", "size", "preset")
    return pd.DataFrame(
        [(*(row[name] for name in about), int(row["n"]), *rest) for row, *rest in rows],
        columns=[*about, "n", "target", "value", "value low", "value high", "verdict"],
    )


def main(arguments: Sequence[str]) -> None:
    """Make the tables: ``python -m book.memory_tables runs/reference book/results/memory``."""
    if len(arguments) != 2:
        sys.exit("Usage: python -m book.memory_tables RUNS FOLDER")
    try:
        folder = make(*arguments)
    except RulerError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    print(f"The tables: {folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
