"""The explorer of the site: what its pages asked, models that were handed in, and RULER's table.

    explorer.write(Path("_build/html"))

``explore/index.html`` has every score and the answers behind it, ``explore/leaderboard.html`` a row
for each model beside those that RULER's authors published (`rulerlib.explore`).
"""

from __future__ import annotations

from pathlib import Path

from book import execute, leaderboard
from rulerlib import explore

FOLDER = "explore"
"""Where it stands in the site."""

ROOT = Path(__file__).parent.parent
SUBMITTED = ROOT / "book" / "results" / "submitted"
PUBLISHED = ROOT / "book" / "data" / "published_ruler.csv"
FACTS = ROOT / "book" / "data" / "model_facts.csv"


def answered() -> bool:
    """Return whether there are answers that the executed pages asked for."""
    return any(execute.runs().glob("*/*/*/pred/*.jsonl"))


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
        As `rulerlib.explore.write` and `book.leaderboard.rows`.
    """
    return explore.write(
        execute.runs(),
        site / FOLDER,
        handed_in=submitted if submitted.is_dir() else None,
        published=leaderboard.rows(leaderboard.read_table(PUBLISHED), FACTS),
        home="../book/explore.html",
    )
