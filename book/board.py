"""The table of the first page: the four models measured for this book, from `book/results`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

RESULTS = Path(__file__).parent / "results"
MODELS = {
    "qwen2.5-coder-1.5b": "Qwen2.5-Coder 1.5B",
    "qwen2.5-coder-0.5b": "Qwen2.5-Coder 0.5B",
    "smollm2": "SmolLM2 135M",
    "gemma3-270m": "Gemma 3 270M",
}
LANGUAGES = {"en": "English", "da": "Danish"}
LENGTHS = {1024: "1K", 2048: "2K", 4096: "4K", 8192: "8K"}
THRESHOLD = 85.6


def lines() -> Iterator[str]:
    """Yield the table as Markdown: average with interval by length, and effective length."""
    yield f"| model | language | {' | '.join(LENGTHS.values())} | effective length |"
    yield f"|---|---|{'---:|' * len(LENGTHS)}---|"
    for folder, model in MODELS.items():
        if not (RESULTS / folder / "averages.csv").exists():
            continue
        averages = pd.read_csv(RESULTS / folder / "averages.csv").dropna(subset=["average"])
        effective = pd.read_csv(RESULTS / folder / "effective.csv")
        effective = effective[
            (effective["reading"] == "longest") & (effective["threshold"] == THRESHOLD)
        ]
        for code, language in LANGUAGES.items():
            means = averages[averages["language"] == code].set_index("length")
            longest = effective.loc[effective["language"] == code, "effective"]
            if means.empty:
                continue
            cells = [cell(means.loc[length]) if length in means.index else "" for length in LENGTHS]
            yield f"| {model} | {language} | {' | '.join(cells)} | {longest.iloc[0]} |"


def cell(row: pd.Series[float]) -> str:
    """Return an average in percent with its interval in small type.

    >>> cell(pd.Series({"average": 84.83, "low": 79.97, "high": 88.68}))
    '84.8% <small>(80.0–88.7)</small>'
    """
    return f"{row['average']:.1f}% <small>({row['low']:.1f}–{row['high']:.1f})</small>"
