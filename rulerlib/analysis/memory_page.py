"""A page of what some runs of memories came to: their scores, what was delivered, what was kept."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from pathlib import Path

from rulerlib.analysis import memory, memory_pairs, memory_rows
from rulerlib.comparison import STYLE
from rulerlib.store import files

TABLES = {
    "Scores": memory.table, "What can be had for nothing": memory_pairs.floors,
    "What was delivered": memory.store_table, "What was kept": memory.writes,
    "Beside no memory, question by question": memory_pairs.compared,
}  # fmt: skip
"""The tables of a page, by their headings."""


def write(path: Path, folders: Sequence[Path], stopped: Sequence[str] = ()) -> Path:
    """Write a page about the runs in some folders, and what stopped others; return its path.

    Raises
    ------
    ParameterError
        If the file cannot be written.
    """
    rows = memory_rows.of_runs(folders)
    told = [*stopped, memory.reader_ceiling(rows), memory_pairs.no_better(rows)]
    lines = [f"<p>{html.escape(sentence)}</p>" for sentence in told]
    for heading, tabulate in TABLES.items():
        if len(table := tabulate(rows)):
            text = table.to_html(index=False, border=0, na_rep="", float_format="{:.3f}".format)
            lines.append(f"<h2>{heading}</h2>{text}")
    names = (folder / name for folder in folders for name in ("metrics.csv", "metrics.json"))
    places = [html.escape(os.path.relpath(name, path.parent)) for name in names if name.exists()]
    lines += ["<h2>Each question</h2>", *(f"<a href='{name}'>{name}</a><br>" for name in places)]
    head = f"<!doctype html><html lang='en'><meta charset='utf-8'><style>{STYLE}</style>"
    with files.replacing(path) as file:
        file.write("\n".join([f"{head}<title>Memories</title><h1>Memories</h1>", *lines]))
    return path
