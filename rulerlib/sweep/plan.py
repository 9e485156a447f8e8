"""A plan: what a sweep asks, read from a YAML file and checked by its own rules.

>>> plan = Plan.from_settings({"models": {"lille": {"model": "lille"}}, "languages": ["da", "en"],
...                            "lengths": [1024, 2048], "tasks": "vt,qa_1", "seeds": [42, 43]})
>>> len(plan.asked), plan.models["lille"].engine, plan.output
(2, 'transformers', 'runs/sweep')

What depends on the models (their limits, how long a prompt must be at least) is checked by
`rulerlib.sweep.cells`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from rulerlib import languages, packages, paths, tasks
from rulerlib.dataset import check_length
from rulerlib.errors import (
    DataError,
    ParameterError,
    dictionary,
    flag,
    is_number,
    require,
    shortened,
    whole_number,
)
from rulerlib.parameters import home
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.runs import Run
from rulerlib.sweep.entries import Entry, check_names, entry_of
from rulerlib.sweep.memories import Memories, memories_of

Asked = tuple[str, dict[str, Any]]
"""A task and its knobs."""


@dataclass(frozen=True)
class Plan:
    """What a sweep asks, checked when it is made; no model is looked at.

    Attributes
    ----------
    models
        By the names that the plan gives them.
    languages, lengths, seeds
        Each of them with each other.
    tasks
        Names as `rulerlib.tasks.names` takes them, or a list of names and of knobs beside a name,
        such as ``{"task": "vt", "num_hops": 8}``. An empty list asks none, beside ``memory``.
    memory
        Presets of memories and suites of episodes; None: no memory is asked.
    num_samples
        Samples of each cell.
    queries_per_context, texts, clean_texts, allow_truncation
        As in `rulerlib.parameters.Parameters`.
    question_language
        The language of all questions, where it is not that of their contexts; the cells in this
        language itself are as without it. Memories ask in the language of what they were taught.
    format, decoding
        How all models are asked that say nothing else.
    output
        The folder of the sweep; relative to the folder of `rulerlib.parameters.home`.
    cells_per_job, hours_per_job
        A job is split where it would have more cells than this, or take longer.

    Raises
    ------
    ParameterError
        If a value cannot work.
    """

    models: Mapping[str, Entry]
    languages: Sequence[str]
    lengths: Sequence[int]
    tasks: str | Sequence[str | Mapping[str, Any]] = "ruler"
    memory: Memories | None = None
    num_samples: int = 40
    seeds: Sequence[int] = (42,)
    queries_per_context: int = 1
    texts: str | None = None
    clean_texts: bool = False
    allow_truncation: bool = False
    question_language: str | None = None
    format: Mapping[str, Any] = field(default_factory=dict)
    decoding: Mapping[str, Any] = field(default_factory=dict)
    output: str = "runs/sweep"
    cells_per_job: int = 50
    hours_per_job: float = 8

    def __post_init__(self) -> None:
        for name in ("languages", "lengths", "seeds"):
            _several(name, getattr(self, name))
        for code in self.languages:
            languages.load(code)
        for length in self.lengths:
            check_length("lengths", whole_number("lengths", length, 1))
        for seed in self.seeds:
            whole_number("seeds", seed, 0)
        whole_number("num_samples", self.num_samples, 1)
        whole_number("cells_per_job", self.cells_per_job, 1)
        holds = is_number(self.hours_per_job) and self.hours_per_job > 0
        require(holds, "hours_per_job", self.hours_per_job, "a number above 0")
        flag("allow_truncation", self.allow_truncation)
        if self.question_language is not None:
            languages.load(self.question_language, "question_language")
        if self.texts is not None:
            path = paths.named("texts", self.texts, "the name of a file or folder")
            # Jobs run in another folder.
            object.__setattr__(self, "texts", str(path.resolve()))
        paths.named("output", self.output, "the name of a folder")
        require(self.models, "models", dict(self.models), "at least one model by name")
        object.__setattr__(self, "lengths", tuple(sorted(self.lengths)))
        seen: dict[str, str] = {}
        for entry in self.models.values():
            self.format_of(entry)
            self.decoding_of(entry)
            same = shortened(sorted(_identity(entry).items()), 10_000)
            allowed = f"left out, because it is the same model as '{seen.get(same)}'"
            require(same not in seen, "models", entry.name, allowed)
            seen[same] = entry.name
        _ = self.asked

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
        return cls.from_settings(read_settings(path))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Return a plan of plain data, such as a file holds.

        Raises
        ------
        ParameterError
            If a name is unknown, or a value cannot work.
        """
        check_names("the plan", settings, [item.name for item in fields(cls)])
        for name in ("models", "languages", "lengths"):
            require(name in settings, name, None, "given: a plan needs it")
        entries = dictionary("models", settings["models"], '{"lille": {"model": "lille"}}')
        values = {name: value for name, value in settings.items() if value is not None}
        values["models"] = {name: entry_of(name, given) for name, given in entries.items()}
        if "memory" in values:
            values["memory"] = memories_of(values["memory"])
        return cls(**values)

    def settings(self) -> dict[str, Any]:
        """Return all fields as plain data."""
        entries = {name: entry.settings() for name, entry in self.models.items()}
        for entry in entries.values():
            del entry["name"]
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        memory = None if self.memory is None else self.memory.settings()
        return {**plain, "models": entries, "memory": memory}

    @property
    def asked(self) -> list[Asked]:
        """The tasks, each with the knobs in which it differs from its row, in their order.

        Raises
        ------
        ParameterError
            If a task or a knob is unknown, or one is given twice.
        """
        given = self.tasks
        rows = [given] if isinstance(given, str) else given
        require(isinstance(rows, (list, tuple)), "tasks", rows, "names, or a list of tasks")
        asked: list[Asked] = []
        for row in rows:
            if isinstance(row, Mapping):
                knobs = dictionary("tasks", row, '{"task": "vt", "num_hops": 8}')
                require("task" in knobs, "tasks", knobs, "given with 'task'")
                asked.append((knobs.pop("task"), knobs))
            else:
                asked += [(name, {}) for name in tasks.names(row)]
        require(asked or self.memory, "tasks", given, "at least one task")
        for number, (name, knobs) in enumerate(asked):
            task = tasks.resolve(name, **knobs)
            task.check_queries(self.queries_per_context)
            if self.question_language is not None:
                task.check_question_language(self.question_language)
            require((name, knobs) not in asked[:number], "tasks", name, "given once")
        return asked

    def format_of(self, entry: Entry) -> PromptFormat:
        """Return how questions are put to a model.

        Raises
        ------
        ParameterError
            If a name is unknown, or a value cannot work.
        """
        values = {**self.format, **entry.format}
        check_names("format", values, [item.name for item in fields(PromptFormat)])
        return PromptFormat.from_settings(values)

    def decoding_of(self, entry: Entry) -> Decoding:
        """Return how a model chooses its tokens.

        Raises
        ------
        ParameterError
            If a name is unknown, or a value cannot work.
        """
        values = {**self.decoding, **entry.decoding}
        check_names("decoding", values, [item.name for item in fields(Decoding)])
        return Decoding(**values)

    @cached_property
    def samples(self) -> dict[str, int]:
        """How many answers each model gives to a question."""
        return {name: self.decoding_of(entry).samples for name, entry in self.models.items()}

    @property
    def folder(self) -> Path:
        """The folder of the sweep."""
        return home() / Path(self.output).expanduser()

    def run(self, entry: Entry, **more: Any) -> Run:
        """Return a run of one model of this plan, with what is particular to it."""
        if "tasks" not in more:
            # A run has a task, also where only memories are asked.
            names = [name for name, _ in self.asked] or [tasks.names("ruler")[0]]
            more["tasks"] = [*dict.fromkeys(names)]
        names = more["tasks"]
        knobs = more.get("knobs", {})
        if self.texts is not None and any(tasks.resolve(n, **knobs).reads_texts for n in names):
            more |= {"texts": self.texts, "clean_texts": self.clean_texts}
        return Run(**{
            "model": entry.model, "engine": entry.engine,
            "engine_options": entry.engine_options, "num_samples": self.num_samples,
            "format": self.format_of(entry), "decoding": self.decoding_of(entry),
            "queries_per_context": self.queries_per_context,
            "allow_truncation": self.allow_truncation,
            "question_language": self.question_language, **more,
        })  # fmt: skip


def read_settings(path: str | Path) -> dict[str, Any]:
    """Return what stands in the YAML file of a plan.

    Raises
    ------
    DataError
        If it cannot be read.
    MissingExtraError
        If `pyyaml` is not installed.
    """
    yaml = packages.load("yaml", "notebook", "Reading a plan")
    try:
        settings = yaml.safe_load(paths.read_text(Path(path)))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read ({reason}).") from error
    holds = isinstance(settings, dict) and all(isinstance(name, str) for name in settings)
    if not holds:
        raise DataError(f"{path}: not a plan, which is a list of settings by name.")
    return dict(settings)


def _several(name: str, values: Any) -> None:
    listed = isinstance(values, (list, tuple)) and len(values) > 0
    require(listed, name, values, "a list with at least one entry")
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ParameterError(name, value, "given once")


def _identity(entry: Entry) -> dict[str, Any]:
    """Return what makes an entry of a plan another model than the others."""
    settings = entry.settings()
    return {
        name: value
        for name, value in settings.items()
        if name not in ("name", "resources", "server")
    }
