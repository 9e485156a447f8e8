"""Committed tables of the memory benchmark.

The first command resumes; the second writes the tables::

    rulerlib memory --language da,en --sizes 50 --model reference \\
        --engine reference --root runs/reference
    python -m book.memory_tables runs/reference book/results/memory/reference

>>> MemoryTables("no/such/folder").scores.empty
True
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rulerlib
from book.tables import ABOUT, DECIMALS, Tables
from rulerlib import files
from rulerlib.errors import RulerError

if TYPE_CHECKING:
    import pandas as pd

TABLES = ("scores", "floors", "stores", "fates", "compared", "capacity")

SATURATED, GAIN = 0.6, 0.08
"""The two targets: the maximum without a memory, and the minimum gain with one."""

NO_MEMORY = ("core", "span_short")
"""Presets that see nothing of the taught texts."""


def tabulate(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return all tables by the names in `TABLES`, and ``about``.

    Parameters
    ----------
    rows
        One row per question, from `rulerlib.memory.tables.read`. Rows with parameters are points
        of the capacity curve only.
    """
    import pandas as pd

    from rulerlib.memory import tables

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
    from rulerlib.memory import tables

    for name, table in tabulate(tables.read(root)).items():
        with files.replacing(Path(folder) / f"{name}.csv") as file:
            table.round(DECIMALS).to_csv(file, index=False, lineterminator="\n")
    return Path(folder)


def _target(
    row: Mapping[Any, Any], target: str, values: Sequence[float], level: float, sign: int
) -> dict[str, Any]:
    """Return the row of a target: above a level if the sign is 1, below it if it is -1."""
    _, low, high = values
    worst, best = (low, high) if sign > 0 else (high, low)
    verdict = "reached" if sign * (worst - level) >= 0 else "cannot be told yet"
    verdict = "missed" if sign * (best - level) < 0 else verdict
    named = {name: row[name] for name in ("language", "suite", "size", "preset", "n")}
    measured = dict(zip(("value", "value low", "value high"), values, strict=True))
    return {**named, "target": target, **measured, "verdict": verdict}


class MemoryTables(Tables):
    """The committed tables, by name: ``tables.scores``, ``tables.capacity``, ..."""

    names = (*TABLES, ABOUT)
    none_yet = "No results are committed yet; `python -m book.memory_tables` makes them."

    def texts(self, name: str) -> set[str]:
        """Return the columns of a table that are text even where all of it looks like numbers."""
        return {"name", "value"} if name == ABOUT else {"model", "note"}

    def _read(self, name: str) -> pd.DataFrame:
        table = super()._read(name)
        # Some presets are not compared, and a count that is missing would make others fractions.
        return table.astype({"n": "Int64"}) if name == "compared" and len(table) else table

    def parts(self, name: str, *by: str) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yield the parts of a table by some columns, with titles; none if none are committed."""
        if self.there:
            yield from super().parts(name, *by)

    def targets(self) -> pd.DataFrame:
        """Return whether both targets are reached, a row for each system and language.

        Without a memory, less than `SATURATED` of ``episodic`` is answered to the letter; with one,
        `GAIN` more of ``episodic_multi`` than without, normalized, question by question. A target
        is reached or missed if the whole 95% interval says so.
        """
        import pandas as pd

        scores, differences = self.scores, self.compared
        if scores.empty:
            return scores
        lines = []
        for row in scores[scores["suite"] == "episodic"].to_dict("records"):
            if row["preset"] in NO_MEMORY:
                values = [row[f"em_raw{end}"] for end in ("", " low", " high")]
                lines.append(_target(row, f"em_raw below {SATURATED:.0%}", values, SATURATED, -1))
        several = differences[differences["suite"] == "episodic_multi"]
        for row in several[several["difference"].notna()].to_dict("records"):
            values = [row[name] for name in ("difference", "low", "high")]
            lines.append(_target(row, f"+{GAIN:.0%} of em", values, GAIN, 1))
        return pd.DataFrame(lines)

    def told(self, name: str) -> str:
        """Return the value of ``about`` for a name, or an empty text without committed tables."""
        about = self.about
        return "" if about.empty else str(about.set_index("name")["value"].get(name, ""))


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
