"""The table of the first page: the four models measured for this book, from `book/results`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from rulerlib.tokens import thousands

RESULTS = Path(__file__).parent / "results"
MODELS = {
    "qwen2.5-coder-1.5b": "Qwen2.5-Coder 1.5B",
    "qwen2.5-coder-0.5b": "Qwen2.5-Coder 0.5B",
    "smollm2": "SmolLM2 135M",
    "gemma3-270m": "Gemma 3 270M",
}
LANGUAGES = {"en": "English", "da": "Danish"}
THRESHOLD = 85.6


def lines() -> Iterator[str]:
    """Yield the table as Markdown: effective length, and average with interval by length."""
    averages, effective = read("averages"), read("effective")
    averages = averages.dropna(subset=["average"]).set_index(["model", "language", "length"])
    effective = effective[
        (effective["reading"] == "longest") & (effective["threshold"] == THRESHOLD)
    ].set_index(["model", "language"])["effective"]
    lengths = sorted(averages.index.unique("length"))
    yield f"| model | language | effective | {' | '.join(map(thousands, lengths))} |"
    yield f"|---|---|---|{'---:|' * len(lengths)}"
    for model, title in MODELS.items():
        for code, language in LANGUAGES.items():
            keys = [(model, code, length) for length in lengths]
            if any(key in averages.index for key in keys):
                cells = [cell(averages.loc[key]) if key in averages.index else "" for key in keys]
                row = [title, language, effective[model, code], *cells]
                yield f"| {' | '.join(row)} |"


def read(table: str) -> pd.DataFrame:
    """Return one of the tables of all models."""
    return pd.concat([pd.read_csv(RESULTS / folder / f"{table}.csv") for folder in MODELS])


def cell(row: pd.Series[float]) -> str:
    """Return an average in percent with its interval in small type.

    >>> cell(pd.Series({"average": 84.83, "low": 79.97, "high": 88.68}))
    '84.8% <small>(80.0–88.7)</small>'
    """
    return f"{row['average']:.1f}% <small>({row['low']:.1f}–{row['high']:.1f})</small>"
