"""Results on the frontier tasks: two small models and the reference reader.

    make results MODEL=frontier/smollm2
    make results MODEL=frontier/gemma3-270m
    python -m book.frontier

The first two query the models. The last one scores the reference reader, whole and with a window,
on SmolLM2's questions. The page shows two tables, or a note while any result is missing.

>>> percent(0.3, 0.191036, 0.437504)
'30 <small>(19–44)</small>'
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from book.tables import DECIMALS, Plan, Tables
from rulerlib import files
from rulerlib.errors import RulerError
from rulerlib.runs import Run
from rulerlib.samples import Prediction

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "book" / "results" / "frontier"

MODELS = {"smollm2": "SmolLM2 135M", "gemma3-270m": "Gemma 3 270M"}
"""Labels of the models, by folder."""

LANGUAGES = {"da": "Danish", "en": "English"}

WINDOW = 200
"""Words that the windowed reader remembers."""

READERS: dict[str, dict[str, Any]] = {"reader": {}, "window": {"window": WINDOW}}

# The plan with the questions, and the part that the page shows.
PLAN, SHOWN = "smollm2", {"language": "en", "length": 2048}

BESIDE = ("beside", "mistaken")
"""Tables of the readers: scores and mistakes."""

NONE_YET = """\
Version 0.3 changed the prompts of five of these families (all but `trace`). Results follow when
they have been measured again:

```
make results MODEL=frontier/smollm2
RULERLIB_ACCEPT_TERMS=gemma3-270m make results MODEL=frontier/gemma3-270m
python -m book.frontier
```"""
"""Shown if any table is missing."""

TASKS = ("graphwalks", "mrcr", "records", "ladder", "associations", "trace")
"""The rows of the page, a task of each family."""


def beside(plan: Plan) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the accuracy and the mistakes of both readers, asked as a plan says."""
    from rulerlib import analysis

    pairs: list[tuple[dict[str, Any], Prediction]] = []
    for language in plan.languages:
        for length in plan.lengths:
            for name, options in READERS.items():
                settings = plan.settings(language, length) | {
                    "model": name, "engine": "reference",
                    "engine_options": {"tokenizer": plan.model, **options},
                    "output": f"{plan.output}/beside",
                }  # fmt: skip
                run = Run(tasks=plan.tasks, **settings)
                run.predict()
                pairs += run.predictions()
    scores = analysis.scores(pairs)
    errors = analysis.errors(scores)
    return analysis.accuracy(scores), errors[errors["count"] > 0]


def make(folder: Path = FOLDER) -> None:
    """Write the tables ``beside.csv`` (scores) and ``mistaken.csv``."""
    made = beside(Plan.from_file(ROOT / "params" / f"results_frontier_{PLAN}.yaml"))
    for name, table in zip(BESIDE, made, strict=True):
        with files.replacing(folder / f"{name}.csv") as file:
            # What a reader is called goes without what it is.
            table = table.assign(model=table["model"].str.partition(" (")[0])
            table.round(DECIMALS).to_csv(file, index=False, lineterminator="\n")


# --- The page -----------------------------------------------------------------------------------


def percent(mean: float, low: float, high: float) -> str:
    """Return a share in percent with its interval."""
    return f"{100 * mean:.0f} <small>({100 * low:.0f}–{100 * high:.0f})</small>"


def columns(folder: Path = FOLDER) -> dict[tuple[str, str], list[pd.DataFrame]]:
    """Return the scores and the mistakes of each column of the page: who was asked, and where."""
    import pandas as pd

    def chosen(tables: Iterable[pd.DataFrame], **values: Any) -> list[pd.DataFrame]:
        rows = [table[(table[[*values]] == [*values.values()]).all(axis=1)] for table in tables]
        return [table.set_index("task") for table in rows]

    tables = [pd.read_csv(folder / f"{name}.csv") for name in BESIDE]
    names = {"reader": "reader", "window": f"reader, last {WINDOW} words"}
    found = {(title, ""): chosen(tables, model=name, **SHOWN) for name, title in names.items()}
    for name, title in MODELS.items():
        both = [Tables(folder / name).accuracy, Tables(folder / name).errors]
        places = both[0][["language", "length"]].drop_duplicates()
        for language, length in places.itertuples(index=False, name=None):
            where = f"{LANGUAGES[language]}, {length // 1024}K"
            found[title, where] = chosen(both, language=language, length=length)
    return found


def complete(folder: Path = FOLDER) -> bool:
    """Return whether all tables of the page exist."""
    beside = all((folder / f"{name}.csv").exists() for name in BESIDE)
    return beside and all(Tables(folder / name).there for name in MODELS)


def lines(folder: Path = FOLDER) -> Iterator[str]:
    """Yield the two tables of the page as Markdown, or a note if there are none yet."""
    if not complete(folder):
        yield from NONE_YET.splitlines()
        return
    shown = columns(folder)
    heads = [f"{title}<br>{where}" if where else title for title, where in shown]
    (n,) = {int(n) for scores, _ in shown.values() for n in scores["n"]}
    yield f"| score, % (n = {n}) | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * len(heads)}"
    ends = ["mean", "low", "high"]
    for task in TASKS:
        cells = (percent(*scores.loc[task, ends]) for scores, _ in shown.values())
        yield f"| `{task}` | {' | '.join(cells)} |"
    yield ""
    # The whole reader makes no mistakes.
    wrong = [errors for _, errors in shown.values()][1:]
    yield f"| mistakes of {n} | {' | '.join(heads[1:])} |"
    yield f"|---|{'---|' * len(wrong)}"
    for task in TASKS:
        yield f"| `{task}` | {' | '.join(kinds(errors, task) for errors in wrong)} |"


def kinds(errors: pd.DataFrame, task: str) -> str:
    """Return the mistakes of a task, the most frequent first, or ``–``."""
    rows = errors.loc[[task]] if task in errors.index else errors[:0]
    rows = rows[rows["count"] > 0].sort_values("count", ascending=False, kind="stable")
    pairs = zip(rows["error"], rows["count"], strict=True)
    return ", ".join(f"{error} {count}" for error, count in pairs) or "–"


if __name__ == "__main__":
    try:
        make()
    except RulerError as problem:
        sys.exit(f"{type(problem).__name__}: {problem}")
