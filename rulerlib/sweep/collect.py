"""The tables of a sweep: every planned cell is looked at, and what is missing is named.

``scores.csv``
    the long table: a row for each answer and measure
``cells.csv``
    a row for each cell: its score with n and interval, and what it cost
``costs.csv``
    a row for each model, memory and length: where the time went, and what an hour bought

Answers are read one cell at a time, so that a sweep of thousands needs no more memory than one.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulerlib import tasks
from rulerlib.errors import DataError
from rulerlib.intervals import clustered
from rulerlib.metering import PHASES
from rulerlib.progress import Progress
from rulerlib.samples import Prediction
from rulerlib.scoring import MEMORY, Scoring
from rulerlib.store import answers, files
from rulerlib.sweep import state
from rulerlib.sweep.cells import Planned
from rulerlib.sweep.sweep import Sweep

SCORES, CELLS, COSTS = "scores.csv", "cells.csv", "costs.csv"

_CELL = ("model", "memory", "language", "length", "task", "seed", "label")

_SCORES = (
    *_CELL, "index", "repeat", "context_id", "measure", "value", "primary", "ruler", "finished",
    "cut_off", "truncation", "prompt_tokens", "tokens_generated",
)  # fmt: skip

_TOKENS = ("prompt", "computed", "generated")

_CELLS = (
    *_CELL, "n", "measure", "mean", "low", "high", "ruler", "cut_off", "truncated", "asked",
    *(f"{phase}_seconds" for phase in PHASES), "processor_seconds",
    *(f"{kind}_tokens" for kind in _TOKENS), "peak_memory_bytes", "peak_gpu_memory_bytes",
    "pred_sha256",
)  # fmt: skip

_COSTS = (
    "model", "memory", "length", "cells", "answers", "asked", "mean", "ruler",
    *(f"{phase}_hours" for phase in PHASES), "hours", "processor_hours", "gpu_hours",
    *(f"{kind}_tokens" for kind in _TOKENS), "cached", "answers_per_hour", "answers_per_gpu_hour",
    "prompt_tokens_per_second", "peak_memory_bytes", "peak_gpu_memory_bytes", "slowest",
)  # fmt: skip


@dataclass
class Collected:
    """What was collected.

    Attributes
    ----------
    rows
        Those of ``cells.csv``.
    costs
        Those of ``costs.csv``.
    missing
        A sentence for each cell that is not done.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    costs: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def collect(sweep: Sweep, quiet: bool = False) -> Collected:
    """Write the tables of a sweep, each whole or not at all.

    Parameters
    ----------
    quiet
        Whether to draw no bar.

    Raises
    ------
    ParameterError
        If the disk is full.
    """
    found = Collected()
    cells = list(sweep.cells)
    with (
        files.replacing(sweep.folder / SCORES) as file,
        Progress(len(cells), "collecting", quiet) as bar,
    ):
        scores = csv.DictWriter(file, _SCORES, lineterminator="\n")
        scores.writeheader()
        for cell in cells:
            try:
                records, cost = _answered(sweep, cell)
            except DataError as error:
                found.missing.append(f"{cell.name}: {error}")
            else:
                rows = [row for record in records for row in _rows(cell, record)]
                scores.writerows(rows)
                found.rows.append(_row(sweep, cell, rows, cost))
            bar.advance(1)
    found.costs = costs(sweep, found.rows)
    _write(sweep.folder / CELLS, _CELLS, found.rows)
    _write(sweep.folder / COSTS, _COSTS, found.costs)
    return found


def _answered(sweep: Sweep, cell: Planned) -> tuple[list[Prediction], dict[str, Any]]:
    """Return the answers of a cell that is done, and what they cost.

    Raises
    ------
    DataError
        If it is not done, or damaged.
    """
    path = cell.answers(sweep.root)
    if not path.exists():
        raise DataError("it has no answers.")
    cost, count = state.read_cost(path), sweep.count(cell)
    if not state.is_done(path, count, cost):
        raise DataError(f"not all of its {count} answers are there, or they were changed.")
    # Of a memory all that there are.
    asked = None if cell.memory else sweep.plan.num_samples
    records = answers.read_predictions(path, asked)
    if len(records) != count:
        raise DataError(f"it has {len(records)} answers instead of {count}.")
    return answers.evidence(path, asked)[0], cost


def _rows(cell: Planned, record: Prediction) -> Iterator[dict[str, Any]]:
    """Yield a row for each measure of an answer."""
    scoring, others = _scoring(cell), record.others
    language = others.get("language") or cell.language
    values = scoring.score(record.pred, record.outputs, record.golds, language)
    for measure, value in values.items():
        yield {
            **_of(cell), "index": record.index, "repeat": record.repeat,
            "context_id": others.get("cluster") or others.get("context_id"),
            "measure": measure, "value": value, "primary": measure == scoring.primary,
            "ruler": measure == scoring.ruler, "finished": others.get("finished"),
            "cut_off": others.get("cut_off") or "", "truncation": record.truncation,
            "prompt_tokens": others.get("prompt_tokens"),
            "tokens_generated": others.get("tokens_generated"),
        }  # fmt: skip


def _scoring(cell: Planned) -> Scoring:
    return MEMORY if cell.memory else tasks.resolve(cell.task, **cell.knobs).scoring


def _of(cell: Planned) -> dict[str, Any]:
    return {name: getattr(cell, name) for name in _CELL}


def _row(
    sweep: Sweep, cell: Planned, rows: Sequence[Mapping[str, Any]], cost: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the row of a cell."""
    primary = [row for row in rows if row["primary"]]
    ruler = [row["value"] for row in rows if row["ruler"]]
    mean = clustered([row["value"] for row in primary], [_cluster(row) for row in primary])
    seconds, tokens = cost.get("seconds") or {}, cost.get("tokens") or {}
    return {
        **_of(cell), "n": mean.n, "measure": primary[0]["measure"], "mean": mean.mean,
        "low": mean.low, "high": mean.high, "ruler": sum(ruler) / len(ruler),
        "cut_off": sum(row["cut_off"] != "" and row["value"] < 1 for row in primary),
        "truncated": sum(row["truncation"] != -1 for row in primary),
        "asked": cost.get("asked", 0),
        **{f"{phase}_seconds": seconds.get(phase, 0) for phase in PHASES},
        "processor_seconds": round(sum((cost.get("processor_seconds") or {}).values()), 6),
        **{f"{kind}_tokens": tokens.get(kind, 0) for kind in _TOKENS},
        "peak_memory_bytes": cost.get("peak_memory_bytes", 0),
        "peak_gpu_memory_bytes": cost.get("peak_gpu_memory_bytes", 0),
        "pred_sha256": _sha256(cell.answers(sweep.root)),
    }  # fmt: skip


def _cluster(row: Mapping[str, Any]) -> tuple[str, Any]:
    context = row["context_id"]
    return ("alone", row["index"]) if context is None else ("context", context)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def costs(sweep: Sweep, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each model, memory and length: where time went, what an hour bought.

    Hours are those of jobs, one after another; GPU hours those of a job times its GPUs. Of a
    server that several jobs ask at once they are more than the server ran.

    Parameters
    ----------
    rows
        Those of ``cells.csv``.
    """
    groups: dict[tuple[str, str | None, int], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["model"], row["memory"], row["length"]].append(row)
    return [_cost(sweep, *key, group) for key, group in groups.items()]


def _cost(
    sweep: Sweep, model: str, memory: str | None, length: int, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    phases = {phase: sum(row[f"{phase}_seconds"] for row in rows) / 3600 for phase in PHASES}
    hours = sum(phases.values())
    gpu_hours = hours * sweep.plan.models[model].resources.gpus
    tokens = {kind: sum(row[f"{kind}_tokens"] for row in rows) for kind in _TOKENS}
    asked = sum(row["asked"] for row in rows)
    slowest = max(rows, key=_seconds)
    # Where an engine cannot tell, it says 0.
    cached = 1 - tokens["computed"] / tokens["prompt"] if tokens["computed"] else None
    return {
        "model": model, "memory": memory, "length": length, "cells": len(rows),
        "answers": sum(row["n"] for row in rows), "asked": asked,
        **{name: sum(row[name] for row in rows) / len(rows) for name in ("mean", "ruler")},
        **{f"{phase}_hours": _short(value) for phase, value in phases.items()},
        "hours": _short(hours),
        "processor_hours": _short(sum(row["processor_seconds"] for row in rows) / 3600),
        "gpu_hours": _short(gpu_hours),
        **{f"{kind}_tokens": value for kind, value in tokens.items()},
        "cached": _short(cached), "answers_per_hour": _short(_ratio(asked, hours)),
        "answers_per_gpu_hour": _short(_ratio(asked, gpu_hours)),
        "prompt_tokens_per_second": _short(_ratio(tokens["prompt"], 3600 * hours)),
        "peak_memory_bytes": max(row["peak_memory_bytes"] for row in rows),
        "peak_gpu_memory_bytes": max(row["peak_gpu_memory_bytes"] for row in rows),
        "slowest": f"{slowest['language']}/{slowest['label']} {_seconds(slowest):.1f} s",
    }  # fmt: skip


def _seconds(row: Mapping[str, Any]) -> float:
    """Return how long a cell took; that it was the first of its job is not its own doing."""
    return float(sum(row[f"{phase}_seconds"] for phase in PHASES if phase != "loading"))


def _ratio(value: float, by: float) -> float | None:
    return value / by if by else None


def _short(value: float | None) -> float | None:
    """Return a number with five digits that count."""
    return None if value is None else float(f"{value:.5g}")


def _write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with files.replacing(path) as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def fingerprint(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a hash of the answers of some cells, by their rows."""
    names = ("model", "memory", "language", "length", "label", "pred_sha256")
    said = [[row[name] for name in names] for row in rows]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
