"""A page of what some runs of memories came to: their scores, what was delivered, what was kept."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from rulerlib import files
from rulerlib.comparison import STYLE
from rulerlib.memory import pairs, results, tables

TABLES = {
    "Scores": tables.table, "What can be had for nothing": pairs.floors,
    "What was delivered": tables.store_table, "What was kept": tables.writes,
    "Beside no memory, question by question": pairs.compared,
}  # fmt: skip
"""The tables of a page, by their headings."""


def write(path: Path, folders: Sequence[Path], stopped: Sequence[str] = ()) -> Path:
    """Write a page about the runs in some folders, and what stopped others; return its path.

    The same stands beside it as Markdown, in a file that ends in ``.md``.

    Raises
    ------
    ParameterError
        If a file cannot be written.
    """
    rows = results.of_runs(folders)
    told = [*stopped, tables.reader_ceiling(rows), pairs.no_better(rows)]
    marked = ["# Memories", *map(_both, told)]
    lines = [f"<p>{sentence}</p>" for sentence in marked[1:]]
    for heading, tabulate in TABLES.items():
        if len(table := tabulate(rows)):
            shown = table.map(_cell)
            lines.append(f"<h2>{heading}</h2>{shown.to_html(index=False, border=0, escape=False)}")
            cells = list(shown), ["---"] * len(shown.columns), *shown.to_numpy().astype(str)
            text = "\n".join(f"| {' | '.join(line)} |" for line in cells)
            marked.append(f"## {heading}\n\n{text}")
    names = (folder / name for folder in folders for name in ("metrics.csv", "metrics.json"))
    places = [os.path.relpath(name, path.parent) for name in names if name.exists()]
    # The name of a folder may have a "#", which would end the path of a link.
    links = [(quote(place), _both(place)) for place in places]
    lines += ["<h2>Each question</h2>", *(f"<a href='{at}'>{name}</a><br>" for at, name in links)]
    marked += ["## Each question", "\n".join(f"- [{name}]({at})" for at, name in links)]
    head = f"<!doctype html><html lang='en'><meta charset='utf-8'><style>{STYLE}</style>"
    with files.replacing(path) as file:
        file.write("\n".join([f"{head}<title>Memories</title><h1>Memories</h1>", *lines]))
    with files.replacing(path.with_suffix(".md")) as file:
        file.write("\n\n".join(marked) + "\n")
    return path


def _cell(value: Any) -> str:
    """Return a value of a table as text: of a share three places, of what is missing nothing."""
    shown = f"{value:.3f}" if isinstance(value, float) else str(value)
    return "" if pd.isna(value) else _both(shown)


def _both(text: str) -> str:
    """Return a text that says the same in HTML and in a cell of Markdown: marks are entities.

    >>> _both("a | __b__ < span_short")
    'a &#124; &#95;&#95;b&#95;&#95; &#60; span_short'
    """
    return re.sub(r"[&<>|*`]|__", lambda hit: "".join(f"&#{ord(mark)};" for mark in hit[0]), text)
