"""The explorer of the site: what its pages asked, models that were handed in, published tables.

    explorer.write(Path("_build/html"))

``explore/index.html`` has every score and the answers behind it (`rulerlib.explore`). Its
leaderboard stands in a page of the book: a row for each model that was handed in, beside those that
RULER's authors published; and, as a second table, those of OneRULER by language.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from book import by_language, execute, leaderboard
from rulerlib import explore
from rulerlib.tasks import RULER

FOLDER, BOARD = "explore", "board"
"""Where the explorer and the leaderboard stand in the site."""

ROOT = Path(__file__).parent.parent
SUBMITTED = ROOT / "book" / "results" / "submitted"
PUBLISHED = ROOT / "book" / "data" / "published_ruler.csv"
BY_LANGUAGE = PUBLISHED.with_name("published_oneruler.csv")
FACTS = ROOT / "book" / "data" / "model_facts.csv"
STATIC = explore.site.STATIC

# Where the explorer's own leaderboard would stand.
ELSEWHERE = """\
<!doctype html><html lang="en"><head><title>Leaderboard</title>
<meta http-equiv="refresh" content="0; url=../book/leaderboard.html"></head>
<body><a href="../book/leaderboard.html">Leaderboard</a></body></html>
"""


def asked() -> list[Path]:
    """Return what the model inside answered to RULER's tasks on the executed pages, file by file.

    Other models stand in the explorer as they were handed in, once. What readers that are no model
    answered, what studies asked and what this model cannot do at all stays on its page.
    """
    files = Path(execute.runs()).glob("lille*/*/*/pred/*")
    return [path for path in files if path.name.partition(".")[0] in RULER]


def answered() -> bool:
    """Return whether there are answers that the executed pages asked for."""
    return bool(asked())


def write(site: Path, submitted: Path = SUBMITTED) -> tuple[int, int]:
    """Write the explorer into the folder of the site.

    Parameters
    ----------
    submitted
        The folder of models that were handed in; there may be none.

    Returns
    -------
    tuple
        How many cells there are, and how many answers.

    Raises
    ------
    ParameterError, DataError
        As `rulerlib.explore.write`.
    """
    with tempfile.TemporaryDirectory() as runs:
        for path in asked():
            place = runs / path.relative_to(execute.runs())
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
        return explore.write(
            runs,
            site / FOLDER,
            handed_in=submitted if submitted.is_dir() else None,
            home="../book/explore.html",
        )


def write_board(site: Path) -> None:
    """Write what the book's page of the leaderboard loads; `write`, if at all, comes before.

    Left out are models that were run for the book's pages, with a few samples of a few tasks.
    """
    folder = site / BOARD
    folder.mkdir(exist_ok=True)
    for path in STATIC.glob("*.js"):
        shutil.copy(path, folder)
    style = (STATIC / "explore.css").read_text("utf-8")
    # All rules hold within the page's part; its variables hang on that part.
    nested = style.replace(":root", "&")
    (folder / "board.css").write_text(f".ruler-board {{\n{nested}\n}}\n", "utf-8")
    rows = leaderboard.rows(leaderboard.read_table(PUBLISHED), FACTS)
    rows += by_language.rows(by_language.read_table(BY_LANGUAGE))
    if (shown := site / FOLDER / "leaderboard.json").exists():
        known = json.loads(shown.read_text("utf-8"))["rows"]
        rows = [*(row for row in known if row["kind"] == "handed in"), *rows]
        shown.with_suffix(".html").write_text(ELSEWHERE, "utf-8")
    (folder / shown.name).write_text(json.dumps({"rows": rows}, ensure_ascii=False), "utf-8")


def board(folder: str) -> Iterator[str]:
    """Yield the leaderboard as a part of a page, given the address of the site's folder."""
    page = (STATIC / "leaderboard.html").read_text("utf-8")
    yield f'<link rel="stylesheet" href="{folder}{BOARD}/board.css">'
    yield f'<script type="module" src="{folder}{BOARD}/leaderboard.js"></script>'
    main = page.partition("<main>")[2].partition("</main>")[0]
    yield f'<div class="ruler-board">{main}</div>'
