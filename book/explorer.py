"""The explorer of the site: every stored answer, and the leaderboard.

``explore/index.html`` has every score and the answers behind it (`rulerlib.explore`). The
leaderboard is part of a page of the book: the models with stored answers and RULER's published
table, and OneRULER's by language as a second table.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from book import by_language, leaderboard, stored
from rulerlib import explore
from rulerlib.tasks import RULER

FOLDER, BOARD = "explore", "board"
"""Folders of the explorer and the leaderboard in the site."""

DATA = Path(__file__).parent / "data"
PUBLISHED = DATA / "published_ruler.csv"
BY_LANGUAGE = DATA / "published_oneruler.csv"
FACTS = DATA / "model_facts.csv"
STATIC = explore.site.STATIC

# Replaces the explorer's own leaderboard.
ELSEWHERE = """\
<!doctype html><html lang="en"><head><title>Leaderboard</title>
<meta http-equiv="refresh" content="0; url=../book/leaderboard.html"></head>
<body><a href="../book/leaderboard.html">Leaderboard</a></body></html>
"""


def write(site: Path) -> None:
    """Write the explorer of the stored answers into the folder of the site."""
    home = "../book/leaderboard.html"
    answers = [pair for folder in stored.folders() for pair in stored.predictions(folder)]
    explore.write([], site / FOLDER, home=home, stored=answers)


def write_board(site: Path) -> None:
    """Write the files of the leaderboard page, after `write`."""
    folder = site / BOARD
    folder.mkdir(exist_ok=True)
    for path in STATIC.glob("*.js"):
        shutil.copy(path, folder)
    # Limit all rules to the leaderboard.
    style = (STATIC / "explore.css").read_text("utf-8").replace(":root", "&")
    (folder / "board.css").write_text(f".ruler-board {{\n{style}\n}}\n", "utf-8")
    shown = site / FOLDER / "leaderboard.json"
    measured = json.loads(shown.read_text("utf-8"))["rows"]
    rows = [beside_published(row) for row in measured if row["tasks"] == len(RULER)]
    rows = [row for row in rows if row["averages"]]
    rows += leaderboard.rows(leaderboard.read_table(PUBLISHED), FACTS)
    rows += by_language.rows(by_language.read_table(BY_LANGUAGE))
    shown.with_suffix(".html").write_text(ELSEWHERE, "utf-8")
    (folder / shown.name).write_text(json.dumps({"rows": rows}, ensure_ascii=False), "utf-8")


def beside_published(row: dict[str, Any]) -> dict[str, Any]:
    """Return a measured model at RULER's lengths; no published model has shorter ones."""
    lengths = {str(length) for length in leaderboard.LENGTHS}
    averages = {length: mean for length, mean in row["averages"].items() if length in lengths}
    return {**row, "kind": "this book", "averages": averages}


def board(root: str) -> str:
    """Return the leaderboard as HTML, given the relative address of the site."""
    page = (STATIC / "leaderboard.html").read_text("utf-8")
    main = page.partition("<main>")[2].partition("</main>")[0]
    return f"""\
<link rel="stylesheet" href="{root}{BOARD}/board.css">
<script type="module" src="{root}{BOARD}/leaderboard.js"></script>
<div class="ruler-board">{main}</div>"""
