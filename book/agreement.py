"""Two pages that show a score of the same model, task and length show the same number.

``make book`` runs it over the executed notebooks and the committed tables::

    python -m book.agreement

Read are the tables that readers see, as numbers in HTML: a second way from what was computed.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from book import execute
from book.tables import Tables

RESULTS = execute.ROOT / "book" / "results"

# What a score is of; a table that tells more apart shows other scores.
KEY = ["model", "language", "task", "length"]


class Number(NamedTuple):
    """A score in percent that a page shows, and what it is of."""

    what: tuple[str, str, str, int, str]
    """Model, language, task, length in tokens, and measure."""

    n: int
    value: float
    page: str


def of_tables() -> Iterator[Number]:
    """Yield the scores of the committed tables, as the pages of results show them."""
    for path in sorted(RESULTS.rglob("accuracy.csv")):
        # These are shown as one average of all needles, of as many questions in each language.
        if path.parent.name.endswith("_languages"):
            continue
        for row in Tables(path.parent).accuracy.to_dict("records"):
            page = str(path.parent.relative_to(execute.ROOT))
            for measure, share in ((row["measure"], row["mean"]), ("recall", row["recall"])):
                what = (*(row[name] for name in KEY), measure)
                yield Number(what, row["n"], round(100 * share, 1), page)


def of_page(path: Path) -> Iterator[Number]:
    """Yield the scores in an executed notebook's tables of accuracy.

    Parameters
    ----------
    path
        Of the executed notebook, whose parameters name the model and the language.
    """

    cells = json.loads(path.read_text("utf-8"))["cells"]
    given: dict[str, Any] = {}
    for cell in cells:
        if {"parameters", "injected-parameters"} & {*cell["metadata"].get("tags", [])}:
            exec("".join(cell["source"]), given)
    for cell in cells:
        # Other tables have the same columns for another reader's answers, or a study's.
        if "analysis.accuracy(scores)" not in "".join(cell["source"]):
            continue
        pages = ("".join(out.get("data", {}).get("text/html", "")) for out in cell["outputs"])
        for table in (one for page in pages if "<table" in page for one in _tables(page)):
            rows = table.assign(**{k: given.get(k) for k in KEY[:2] if k not in table})
            measures = [name for name in table if table[name].astype(str).str.endswith(" %").all()]
            for row in rows.to_dict("records"):
                what = (*(row[name] for name in KEY[:3]), int(row["length"]), measures[0])
                shown = float(row[measures[0]].removesuffix(" %"))
                yield Number(what, int(row["n"]), shown, path.stem)


def _tables(page: str) -> Iterator[Any]:
    """Yield the tables of accuracy in a piece of HTML, with what their captions say of all rows."""
    import bs4
    import pandas as pd

    for shown in bs4.BeautifulSoup(page, "html.parser").find_all("table"):
        (table,) = pd.read_html(io.StringIO(str(shown)), thousands=",")
        caption = shown.caption.get_text().split("; ") if shown.caption else []
        told = dict(part.split(": ", 1) for part in caption if ": " in part)
        alike = {name: told[name].replace(",", "") for name in (*KEY, "n") if name in told}
        table = table.assign(**alike)[[*alike, *table.columns]]
        names = [*table.columns]
        if {"task", "length", "n"} <= {*names} and {*names[: names.index("n")]} <= {*KEY}:
            yield table


def differing(numbers: Iterator[Number]) -> list[str]:
    """Return a sentence for each score of which two pages show other numbers."""
    first: dict[tuple[Any, ...], Number] = {}
    sentences = []
    for number in numbers:
        known = first.setdefault(number.what, number)
        if (known.n, known.value) != (number.n, number.value):
            sentences.append(
                f"{', '.join(map(str, number.what))}: {known.value} % of {known.n} on {known.page},"
                f" {number.value} % of {number.n} on {number.page}."
            )
    return sentences


def main() -> None:
    """Say which numbers differ, and fail if any does."""
    paths = [path for page in execute.pages() if (path := execute.executed_path(page)).exists()]
    shown = [number for path in paths for number in of_page(path)]
    if sentences := differing(iter([*of_tables(), *shown])):
        sys.exit("\n".join(sentences))
    print(f"{len(shown)} scores on {len(paths)} pages agree with each other and with the tables.")


if __name__ == "__main__":
    main()
