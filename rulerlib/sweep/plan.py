"""A plan: what a sweep asks, read from a YAML file.

>>> plan = Plan.from_settings({"models": {"lille": {"model": "lille"}}, "languages": ["da", "en"],
...                            "lengths": [1024, 2048], "tasks": "vt,qa_1", "seeds": [42, 43]})
>>> len(plan.task_knobs), plan.models["lille"].engine, plan.output
(2, 'transformers', 'runs/sweep')

What is particular to sweeps is checked here. What every run has (a language, a format, a model's
limit) is checked by `rulerlib.runs.Run` when `rulerlib.sweep.sweep` makes the cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from rulerlib import files, languages, tasks
from rulerlib.errors import dictionary, require, whole_number
from rulerlib.fields import check, check_length, home, settings_file, values_of
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.runs import Run
from rulerlib.sweep.models import PlannedModel, built

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

    def decoding_of(self, entry: PlannedModel) -> Decoding:
        """Return how a model chooses its tokens."""
        return built(Decoding, "decoding", {**self.decoding, **entry.decoding})

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
            format=self.format_of(entry), decoding=self.decoding_of(entry),
            **{name: getattr(self, name) for name in same}, **particular,
        )  # fmt: skip


def _lasting(language: str, parameter: str = "languages") -> str:
    """Return the name of a language by which jobs find it, which run in another folder."""
    if languages.load(language, parameter).code == language:
        return language
    return str(Path(language).expanduser().resolve())
