"""Results on the frontier tasks, as the table of the page.

``make results MODEL=frontier/NAME`` writes ``accuracy.csv`` into a folder of its own for each model
of ``params/results_frontier_*.yaml``. Without one, the table is a note that says how to make it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "results" / "frontier"

NONE_YET = """\
Version 0.3 changed the prompts of five of these families (all but `trace`). Results follow when
they have been measured again:

```
make results MODEL=frontier/smollm2
RULERLIB_ACCEPT_TERMS=gemma3-270m make results MODEL=frontier/gemma3-270m
```"""
"""Shown if no table exists."""

TASKS = ("graphwalks", "mrcr", "records", "ladder", "associations", "trace")
"""The rows of the table, a task of each family."""


def lines(folder: Path = FOLDER) -> Iterator[str]:
    """Yield the table as Markdown: a column for each model, language and length."""
    columns: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*/accuracy.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                head = f"{path.parent.name}<br>{row['language']}, {row['length']} (n = {row['n']})"
                mean, low, high = (100 * float(row[name]) for name in ("mean", "low", "high"))
                cell = f"{mean:.0f} <small>({low:.0f}–{high:.0f})</small>"
                columns.setdefault(head, {})[row["task"]] = cell
    if not columns:
        yield from NONE_YET.splitlines()
        return
    yield f"| score, % | {' | '.join(columns)} |"
    yield f"|---|{'---:|' * len(columns)}"
    for task in TASKS:
        yield f"| `{task}` | {' | '.join(cells.get(task, '–') for cells in columns.values())} |"
