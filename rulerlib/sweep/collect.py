"""What is collected of a sweep: two tables.

``scores.csv``
    the long table: a row for each answer and measure
``cells.csv``
    a row for each cell: its score with n and interval, and what it cost

Every planned cell is looked at, and what is missing is named. Answers are read one cell at a time,
so that a sweep of thousands needs no more memory than one.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerlib import files, tasks
from rulerlib.errors import DataError
from rulerlib.intervals import clustered
from rulerlib.progress import PHASES, Progress
from rulerlib.samples import Prediction
from rulerlib.store import answers
from rulerlib.sweep.plan import PlannedCell
from rulerlib.sweep.sweep import Sweep

SCORES, CELLS = "scores.csv", "cells.csv"

_CELL = ("model", "language", "length", "task", "seed", "label")
_TOKENS = ("prompt", "computed", "generated")


def collect(sweep: Sweep) -> tuple[list[PlannedCell], list[str]]:
    """Write the tables of a sweep, each whole or not at all.

    Returns
    -------
    list of PlannedCell
        The cells that are done.
    list of str
        A sentence for each cell that is not.

    Raises
    ------
    ParameterError
        If the disk is full.
    """
    done: list[PlannedCell] = []
    missing: list[str] = []
    table: list[dict[str, Any]] = []

    def scores() -> Iterator[dict[str, Any]]:
        for cell in sweep.cells:
            try:
                records = _answered(sweep, cell)
            except DataError as error:
                missing.append(f"{cell.name}: {error}")
            else:
                rows = [row for record in records for row in _scores(cell, record)]
                yield from rows
                done.append(cell)
                table.append(_row(sweep, cell, rows))
            bar.advance(1)

    with Progress(len([*sweep.cells]), "collecting") as bar:
        _write(sweep.folder / SCORES, scores())
    _write(sweep.folder / CELLS, table)
    return done, missing


def _answered(sweep: Sweep, cell: PlannedCell) -> list[Prediction]:
    """Return the answers of a cell, which must be done."""
    path, count = sweep.answers(cell), cell.answers
    if not path.exists():
        raise DataError("it has no answers.")
    if not sweep.is_done(cell):
        raise DataError(f"not all of its {count} answers are there, or they were changed.")
    records, again = answers.evidence(path, sweep.plan.num_samples)
    if (there := len(records) + again.get("asked_again", 0)) != count:
        raise DataError(f"it has {there} answers instead of {count}.")
    return records


def _scores(cell: PlannedCell, record: Prediction) -> Iterator[dict[str, Any]]:
    """Yield a row for each measure of an answer."""
    scoring = tasks.resolve(cell.task, **cell.knobs).scoring
    others = record.others
    language = others.get("language") or cell.language
    values = scoring.score(record.pred, record.outputs, record.golds, language)
    for measure, value in values.items():
        yield {
            **{name: getattr(cell, name) for name in _CELL},
            "index": record.index, "repeat": record.repeat,
            "context_id": others.get("cluster") or others.get("context_id"),
            "measure": measure, "value": value, "primary": measure == scoring.primary,
            "ruler": measure == scoring.ruler, "finished": others.get("finished"),
            "cut_off": others.get("cut_off") or "", "truncation": record.truncation,
            "prompt_tokens": others.get("prompt_tokens"),
            "tokens_generated": others.get("tokens_generated"),
        }  # fmt: skip


def _row(sweep: Sweep, cell: PlannedCell, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row of a cell."""
    cost = sweep.cost(cell)
    primary = [row for row in rows if row["primary"]]
    ruler = [row["value"] for row in rows if row["ruler"]]
    # Answers on one context depend on each other; one without a context stands alone.
    contexts = [("", row["index"]) if row["context_id"] is None else row["context_id"]
                for row in primary]  # fmt: skip
    mean = clustered([row["value"] for row in primary], contexts)
    return {
        **{name: getattr(cell, name) for name in _CELL},
        "n": mean.n, "measure": primary[0]["measure"], "mean": mean.mean,
        "low": mean.low, "high": mean.high, "ruler": sum(ruler) / len(ruler),
        "cut_off": sum(row["cut_off"] != "" and row["value"] < 1 for row in primary),
        "truncated": sum(row["truncation"] != -1 for row in primary),
        "asked": cost.get("asked", 0),
        **{f"{phase}_seconds": cost.get("seconds", {}).get(phase, 0) for phase in PHASES},
        **{f"{kind}_tokens": cost.get("tokens", {}).get(kind, 0) for kind in _TOKENS},
    }  # fmt: skip


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with files.replacing(path) as file:
        writer = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, [*row], lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
