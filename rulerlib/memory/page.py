"""The page with the tables of some runs of memories, in HTML and in Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from rulerlib import files
from rulerlib.compare import STYLE
from rulerlib.memory import results, tables
from rulerlib.memory.work import METRICS, TABLE

TABLES = {
    "Scores": tables.table, "Floors": tables.floors, "What was delivered": tables.store_table,
    "What was kept": tables.writes, "Compared with no memory": tables.compared,
}  # fmt: skip
"""The tables of a page, by their headings."""


def write(path: Path, folders: Sequence[Path], stopped: Sequence[str] = ()) -> Path:
    """Write a page with the tables of some runs, and what stopped others; return its path.

    A Markdown version is written to the same path with the ending ``.md``.

    Raises
    ------
    ParameterError
        If a file cannot be written.
    """
    rows = results.of_runs(folders)
    marked = ["# Memories", *map(_escaped, stopped)]
    lines = [f"<p>{sentence}</p>" for sentence in marked[1:]]
    for heading, tabulate in TABLES.items():
        made = tabulate(rows)
        if len(made):
            shown = made.map(_cell)
            lines.append(f"<h2>{heading}</h2>{shown.to_html(index=False, border=0, escape=False)}")
            cells = [list(shown), ["---"] * len(shown.columns), *shown.to_numpy().astype(str)]
            text = "\n".join(f"| {' | '.join(line)} |" for line in cells)
            marked.append(f"## {heading}\n\n{text}")
    names = [folder / name for folder in folders for name in (TABLE, METRICS)]
    lines.append("<h2>Each question</h2>")
    marked.append("## Each question")
    for name in names:
        if name.exists():
            place = os.path.relpath(name, path.parent)
            # The name of a folder may have a "#", which would end the path of a link.
            lines.append(f"<a href='{quote(place)}'>{_escaped(place)}</a><br>")
            marked.append(f"- [{_escaped(place)}]({quote(place)})")
    head = f"<!doctype html><html lang='en'><meta charset='utf-8'><style>{STYLE}</style>"
    with files.replacing(path) as file:
        file.write("\n".join([f"{head}<title>Memories</title><h1>Memories</h1>", *lines]))
    with files.replacing(path.with_suffix(".md")) as file:
        file.write("\n\n".join(marked) + "\n")
    return path


def _cell(value: Any) -> str:
    """Return a value of a table as text: floats with three decimals, nothing for NaN."""
    if pd.isna(value):
        return ""
    return _escaped(f"{value:.3f}" if isinstance(value, float) else str(value))


def _escaped(text: str) -> str:
    """Return a text for HTML and for a cell of Markdown, with special characters as entities.

    >>> _escaped("a | __b__ < span_short")
    'a &#124; &#95;&#95;b&#95;&#95; &#60; span_short'
    """
    return re.sub(r"[&<>|*`]|__", lambda hit: "".join(f"&#{ord(mark)};" for mark in hit[0]), text)
