"""Tables of the models measured for this book, from `book/results`."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from book.stored import RESULTS
from rulerlib import checkpoints
from rulerlib.analysis import THRESHOLD
from rulerlib.tokens import thousands

MODELS = {
    "qwen2.5-coder-1.5b": "Qwen2.5-Coder 1.5B",
    "qwen2.5-coder-0.5b": "Qwen2.5-Coder 0.5B",
    "smollm2": "SmolLM2 135M",
    "gemma3-270m": "Gemma 3 270M",
}
LANGUAGES = {"en": "English", "da": "Danish"}

# The rows of the table of frontier tasks, a task of each family.
FRONTIER = ("graphwalks", "mrcr", "records", "ladder", "associations", "trace")


def fetched() -> Iterator[str]:
    """Yield the table of the models in the package index."""
    yield "| name | what it is | licence | window | languages | download |"
    yield "|---|---|---|---:|---|---:|"
    for name, model in checkpoints.MODELS.items():
        about = model["about"].rpartition(", of ")[0] + ("" if model["chat"] else ", a base model")
        terms = f"[{model['licence']}]({model['terms']})" if "terms" in model else model["licence"]
        own = ", ".join(model["languages"])
        size = f"{model['size'] / 1e6:,.0f} MB"
        yield f"| `{name}` | {about} | {terms} | {model['window']:,} | {own} | {size} |"


def models() -> Iterator[str]:
    """Yield the table of the first page: effective length, and average with interval by length."""
    averages, effective = (
        pd.concat([pd.read_csv(RESULTS / folder / f"{table}.csv") for folder in MODELS])
        for table in ("averages", "effective")
    )
    averages = averages.dropna(subset=["average"]).set_index(["model", "language", "length"])
    effective = effective[
        (effective["reading"] == "longest") & (effective["threshold"] == THRESHOLD)
    ].set_index(["model", "language"])["effective"]
    lengths = sorted(averages.index.unique("length"))
    yield f"| model | language | effective | {' | '.join(map(thousands, lengths))} |"
    yield f"|---|---|---|{'---:|' * len(lengths)}"
    for model, title in MODELS.items():
        for code, language in LANGUAGES.items():
            cells = {}
            for length in lengths:
                if (model, code, length) in averages.index:
                    row = averages.loc[model, code, length]
                    interval = f"<small>({row['low']:.1f}–{row['high']:.1f})</small>"
                    cells[length] = f"{row['average']:.1f}% {interval}"
            if cells:
                row = [title, language, effective[model, code]]
                row += [cells.get(length, "") for length in lengths]
                yield f"| {' | '.join(row)} |"


def frontier() -> Iterator[str]:
    """Yield the scores on the frontier tasks: a column for each model, language and length."""
    columns: dict[str, dict[str, str]] = {}
    for path in sorted(RESULTS.glob("frontier/*/accuracy.csv")):
        for row in pd.read_csv(path).to_dict("records"):
            head = f"{path.parent.name}<br>{row['language']}, {row['length']} (n = {row['n']})"
            mean, low, high = (100 * row[name] for name in ("mean", "low", "high"))
            cell = f"{mean:.0f} <small>({low:.0f}–{high:.0f})</small>"
            columns.setdefault(head, {})[row["task"]] = cell
    yield f"| score, % | {' | '.join(columns)} |"
    yield f"|---|{'---:|' * len(columns)}"
    for task in FRONTIER:
        yield f"| `{task}` | {' | '.join(cells[task] for cells in columns.values())} |"
