"""The cells of a plan, checked before anything is asked.

A length that a model does not take, and a task whose prompts do not fit into a length, are left out
and named; where nothing is left of one, that is an error. Making prompts for a check needs a
tokenizer alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rulerlib import files, models
from rulerlib.errors import ParameterError, require
from rulerlib.runs import Run
from rulerlib.sweep.models import within
from rulerlib.sweep.plan import Plan

BYTES_PER_TOKEN = 12
"""Bytes of a file of questions or answers for each token of a prompt: it is 4 to 11."""

# A prompt that fits into this share of a length with one seed fits into all of it with any other.
MARGIN = 0.8


class PlannedCell(NamedTuple):
    """A cell of a plan, and where its questions and answers stand.

    Attributes
    ----------
    model
        What the plan calls the model.
    language, length, task, knobs, seed
        As in `rulerlib.store.cell.Cell`.
    folder
        That of its model, language and length, below the folder of all runs.
    label
        Its task with what differs from the default, see `rulerlib.store.cell.Cell.label`.
    answers
        How many it has when it is done.
    """

    model: str
    language: str
    length: int
    task: str
    knobs: Mapping[str, Any]
    seed: int
    folder: str
    label: str
    answers: int

    @property
    def name(self) -> str:
        """By which it is asked for: ``lille/da/1024/vt+seed=43``."""
        return f"{self.model}/{self.language}/{self.length}/{self.label}"


def outline(plan: Plan) -> tuple[list[PlannedCell], list[str]]:
    """Return the cells of a plan, after checking all that can be checked.

    Returns
    -------
    list of PlannedCell
        By model, language, length, task and seed.
    list of str
        A sentence for each length and task that is left out.

    Raises
    ------
    ParameterError
        If a model or its tokenizer cannot be found, no model takes a length, a task fits into no
        length, or the disk has no room.
    DataError
        If the user's texts are damaged.
    MissingExtraError
        If a package is missing that a tokenizer or an engine needs.
    """
    cells: list[PlannedCell] = []
    left_out: list[str] = []
    limits: dict[str, float] = {}
    # By all that decides it: models may share a tokenizer.
    shortest: dict[str, float] = {}
    for name, entry in plan.models.items():
        with within(f"models.{name}"):
            engine = models.load(entry.model, entry.engine, **entry.options())
        thinking = plan.format_of(entry).thinking_tokens
        limits[name] = limit = math.inf if engine.limit is None else engine.limit - thinking
        lengths = [length for length in plan.lengths if length <= limit or plan.allow_truncation]
        for length in plan.lengths[len(lengths) :]:
            left_out.append(f"{name} at {length}: it takes at most {limit} tokens")
        for language in plan.languages:
            run = plan.run(entry, plan.task_knobs, loaded=engine, language=language)
            decides: list[Any] = [engine.tokenizer.fingerprint, run.format.settings(), language]
            decides.append(run.decoding.tokens_to_generate)
            for length in lengths:
                for task, knobs in plan.task_knobs:
                    key = json.dumps([*decides, task, knobs])
                    if key not in shortest:
                        shortest[key] = _shortest(plan, run, task, knobs, left_out)
                    if length < shortest[key]:
                        continue
                    cell = run.cell(task, length, knobs)
                    folder, count = cell.folder(""), plan.num_samples * cell.decoding.samples
                    cells += [
                        PlannedCell(
                            name, language, length, task, dict(cell.knobs), seed,
                            folder.as_posix(), replace(cell, seed=seed).label, count,
                        )
                        for seed in plan.seeds
                    ]  # fmt: skip
    _check(plan, cells, limits)
    files.check_room(plan.folder, disk_needed(plan, cells), plan.num_samples)
    return cells, left_out


def _shortest(
    plan: Plan, run: Run, task: str, knobs: Mapping[str, Any], left_out: list[str]
) -> float:
    """Return the first length into which a task fits with all seeds; note why not into others."""
    for length in plan.lengths:
        cell = run.cell(task, length, knobs)
        for size, seeds in ((round(length * MARGIN), plan.seeds[:1]), (length, plan.seeds)):
            try:
                for seed in seeds:
                    run.dataset(replace(cell, length=size, seed=seed))
                return length
            except ParameterError as error:
                if error.parameter != "length":
                    raise
                reason = error.allowed.partition(" for ")[0]
        left_out.append(f"{task} at {length} in {run.language}: {reason}")
    return math.inf


def _check(plan: Plan, cells: Sequence[PlannedCell], limits: Mapping[str, float]) -> None:
    """Check that each length is taken, each task fits, and no two cells have one file."""
    for length in plan.lengths:
        holds = plan.allow_truncation or length <= max(limits.values())
        taken = ", ".join(f"{name} {limit}" for name, limit in limits.items())
        require(holds, "lengths", length, f"one that a model takes, at most: {taken}")
    for task, _ in plan.task_knobs:
        fits = any(cell.task == task for cell in cells)
        longest = max(plan.lengths)
        require(fits, "tasks", task, f"one whose prompts fit into {longest} tokens, the longest")
    others: dict[str, PlannedCell] = {}
    for cell in cells:
        other = others.setdefault(f"{cell.folder}/{cell.label}", cell)
        reason = f"another model than '{other.model}', whose answers would stand in the same file"
        require(other is cell, "models", cell.model, reason)


def disk_needed(plan: Plan, cells: Iterable[PlannedCell]) -> int:
    """Return about how many bytes the questions and answers of a plan take on disk."""
    # Each answer repeats its question.
    return sum(cell.length * (cell.answers + plan.num_samples) for cell in cells) * BYTES_PER_TOKEN
