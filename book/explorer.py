"""The explorer of the site: every stored answer, and the leaderboard.

    explorer.write(Path("_build/html"))

``explore/index.html`` has every score and the answers behind it (`rulerlib.explore`). The
leaderboard is part of a page of the book: the models with stored answers and RULER's published
table, and OneRULER's by language as a second table.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from book import by_language, execute, leaderboard, stored
from rulerlib import explore
from rulerlib.tasks import RULER

FOLDER, BOARD = "explore", "board"
"""Folders of the explorer and the leaderboard in the site."""

ROOT = Path(__file__).parent.parent
PUBLISHED = ROOT / "book" / "data" / "published_ruler.csv"
BY_LANGUAGE = PUBLISHED.with_name("published_oneruler.csv")
FACTS = ROOT / "book" / "data" / "model_facts.csv"
STATIC = explore.site.STATIC

# Replaces the explorer's own leaderboard.
ELSEWHERE = """\
<!doctype html><html lang="en"><head><title>Leaderboard</title>
<meta http-equiv="refresh" content="0; url=../book/leaderboard.html"></head>
<body><a href="../book/leaderboard.html">Leaderboard</a></body></html>
"""


def answered() -> bool:
    """Return whether pages were executed."""
    return execute.runs().is_dir()


def write(site: Path) -> tuple[int, int]:
    """Write the explorer of the stored answers into the folder of the site.

    Returns
    -------
    tuple
        Numbers of cells and answers.

    Raises
    ------
    ParameterError, DataError
        As `rulerlib.explore.write`.
    """
    home = "../book/leaderboard.html"
    answers = [pair for folder in stored.folders() for pair in stored.predictions(folder)]
    return explore.write([], site / FOLDER, home=home, stored=answers)


def write_board(site: Path) -> None:
    """Write the files of the leaderboard page, after `write`."""
    folder = site / BOARD
    folder.mkdir(exist_ok=True)
    for path in STATIC.glob("*.js"):
        shutil.copy(path, folder)
    style = (STATIC / "explore.css").read_text("utf-8")
    # Limit all rules to the leaderboard.
    nested = style.replace(":root", "&")
    (folder / "board.css").write_text(f".ruler-board {{\n{nested}\n}}\n", "utf-8")
    rows = leaderboard.rows(leaderboard.read_table(PUBLISHED), FACTS)
    rows += by_language.rows(by_language.read_table(BY_LANGUAGE))
    if (shown := site / FOLDER / "leaderboard.json").exists():
        known = json.loads(shown.read_text("utf-8"))["rows"]
        rows = [*filter(None, map(_beside_published, known)), *rows]
        shown.with_suffix(".html").write_text(ELSEWHERE, "utf-8")
    (folder / shown.name).write_text(json.dumps({"rows": rows}, ensure_ascii=False), "utf-8")


def _beside_published(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return a measured model at RULER's lengths, or None if a task or every length is missing.

    Shorter lengths are left out, because no published model has them.
    """
    lengths = {name for name in pd.read_csv(PUBLISHED, nrows=0) if name.isdigit()}
    averages = {length: mean for length, mean in row["averages"].items() if length in lengths}
    whole = row["tasks"] == len(RULER) and averages
    return {**row, "kind": "this book", "averages": averages} if whole else None


def board(folder: str) -> Iterator[str]:
    """Yield the leaderboard as HTML, given the relative address of the site."""
    page = (STATIC / "leaderboard.html").read_text("utf-8")
    yield f'<link rel="stylesheet" href="{folder}{BOARD}/board.css">'
    yield f'<script type="module" src="{folder}{BOARD}/leaderboard.js"></script>'
    main = page.partition("<main>")[2].partition("</main>")[0]
    yield f'<div class="ruler-board">{main}</div>'
