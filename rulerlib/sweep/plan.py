"""A plan: what a sweep asks, read from a YAML file, and its cells.

>>> plan = Plan.from_settings({"models": {"lille": {"model": "lille"}}, "languages": ["da", "en"],
...                            "lengths": [1024, 2048], "tasks": "vt,qa_1", "seeds": [42, 43]})
>>> len(plan.task_knobs), plan.models["lille"].engine, plan.output
(2, 'transformers', 'runs/sweep')

What is particular to sweeps is checked here. What every run has (a language, a format, a model's
limit) is checked by `rulerlib.runs.Run` when `outline` makes the cells, before anything is asked: a
length that a model does not take, and a task whose prompts do not fit into a length, are left out
and named; where nothing is left of one, that is an error. Making prompts for a check needs a
tokenizer alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from rulerlib import files, languages, models, tasks
from rulerlib.errors import ParameterError, dictionary, require, whole_number
from rulerlib.fields import check, check_length, home, settings_file, values_of
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.runs import Run
from rulerlib.sweep.models import PlannedModel, built, within

BYTES_PER_TOKEN = 12
"""Bytes of a file of questions or answers for each token of a prompt: it is 4 to 11."""

# A prompt that fits into this share of a length with one seed fits into all of it with any other.
MARGIN = 0.8

TaskKnobs = tuple[str, dict[str, Any]]
"""A task and its knobs."""


@dataclass(frozen=True)
class Plan:
    """What a sweep asks; no model is looked at.

    Attributes
    ----------
    models
        By the names that the plan gives them.
    languages, lengths, seeds
        Each of them with each other: lists, or texts with commas between the values.
    tasks
        Names as `rulerlib.tasks.names` takes them, or a list of names and of knobs beside a name,
        such as ``{"task": "vt", "num_hops": 8}``.
    num_samples
        Samples of each cell.
    queries_per_context, texts, allow_truncation
        As in `rulerlib.parameters.Parameters`.
    question_language
        The language of all questions, where it is not that of their contexts; the cells in this
        language itself are as without it.
    format, decoding
        How all models are asked that say nothing else.
    output
        The folder of the sweep; relative to the folder of `rulerlib.fields.home`.
    cells_per_job
        A job is split where it would have more cells than this.

    Raises
    ------
    ParameterError
        If a value cannot work.
    """

    models: Mapping[str, PlannedModel]
    languages: Sequence[str]
    lengths: Sequence[int]
    tasks: str | Sequence[str | Mapping[str, Any]] = "ruler"
    num_samples: int = 40
    seeds: Sequence[int] = (42,)
    queries_per_context: int = 1
    texts: str | None = None
    allow_truncation: bool = False
    question_language: str | None = None
    format: Mapping[str, Any] = field(default_factory=dict)
    decoding: Mapping[str, Any] = field(default_factory=dict)
    output: str = "runs/sweep"
    cells_per_job: int = 50

    def __post_init__(self) -> None:
        lists = {name: values_of(name, getattr(self, name)) for name in ("lengths", "seeds")}
        for length in lists["lengths"]:
            check_length("lengths", length)
        for seed in lists["seeds"]:
            whole_number("seeds", seed, 0)
        codes = values_of("languages", self.languages, languages.available())
        lists |= {"languages": [_lasting(code) for code in codes]}
        vars(self).update(lists, lengths=sorted(lists["lengths"]))
        check(num_samples=self.num_samples, output=self.output)
        whole_number("cells_per_job", self.cells_per_job, 1)
        if self.question_language is not None:
            code = _lasting(self.question_language, "question_language")
            vars(self).update(question_language=code)
        if self.texts is not None:
            path = files.named("texts", self.texts, "the name of a file or folder")
            vars(self).update(texts=str(path.resolve()))
        require(self.models, "models", dict(self.models), "at least one model by name")
        _ = self.task_knobs

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Return the plan of a YAML file.

        Raises
        ------
        DataError
            If the file cannot be read.
        ParameterError
            If a name in it is unknown, or a value cannot work.
        MissingExtraError
            If `pyyaml` is not installed.
        """
        what = "a plan, which is a list of settings by name"
        return cls.from_settings(settings_file(path, what, "Reading a plan"))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Return a plan of plain data, such as a file holds.

        Raises
        ------
        ParameterError
            If a name is unknown, or a value cannot work.
        """
        models = settings.get("models")
        if models is not None:
            models = dictionary("models", models, '{"lille": {"model": "lille"}}')
            models = {name: PlannedModel.from_settings(name, models[name]) for name in models}
        return built(cls, "", {**settings, "models": models})

    @property
    def task_knobs(self) -> list[TaskKnobs]:
        """The tasks, each with the knobs in which it differs from its row, in their order.

        Raises
        ------
        ParameterError
            If a task or a knob is unknown, or one is given twice.
        """
        rows = [self.tasks] if isinstance(self.tasks, str) else self.tasks
        require(isinstance(rows, (list, tuple)), "tasks", rows, "names, or a list of tasks")
        chosen: list[TaskKnobs] = []
        for row in rows:
            if isinstance(row, Mapping):
                knobs = dictionary("tasks", row, '{"task": "vt", "num_hops": 8}')
                require("task" in knobs, "tasks", knobs, "given with 'task'")
                chosen.append((knobs.pop("task"), knobs))
            else:
                chosen += [(name, {}) for name in tasks.names(row)]
        require(chosen, "tasks", self.tasks, "at least one task")
        for number, (name, knobs) in enumerate(chosen):
            tasks.resolve(name, **knobs)
            require((name, knobs) not in chosen[:number], "tasks", name, "given once")
        return chosen

    def format_of(self, entry: PlannedModel) -> PromptFormat:
        """Return how questions are put to a model."""
        return built(PromptFormat, "format", {**self.format, **entry.format})

    @property
    def folder(self) -> Path:
        """The folder of the sweep."""
        return home() / Path(self.output).expanduser()

    def run(self, entry: PlannedModel, chosen: Sequence[TaskKnobs], **particular: Any) -> Run:
        """Return a run of one model, which asks some tasks and has what is particular to it."""
        names = [*dict.fromkeys(name for name, _ in chosen)]
        if self.texts is not None and any(tasks.resolve(n, **k).reads_texts for n, k in chosen):
            particular["texts"] = self.texts
        same = ("num_samples", "queries_per_context", "allow_truncation", "question_language")
        return Run(
            names, entry.model, entry.engine, entry.engine_options,
            format=self.format_of(entry),
            decoding=built(Decoding, "decoding", {**self.decoding, **entry.decoding}),
            **{name: getattr(self, name) for name in same}, **particular,
        )  # fmt: skip


def _lasting(language: str, parameter: str = "languages") -> str:
    """Return the name of a language by which jobs find it, which run in another folder."""
    if languages.load(language, parameter).code == language:
        return language
    return str(Path(language).expanduser().resolve())


# --- Its cells ------------------------------------------------------------------------------------


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
