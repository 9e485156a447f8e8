"""The parameters of a run, checked when they are made, also those that stand in a notebook.

>>> Parameters(tasks="niah_single_2", length=8192, num_lengths=3).lengths
(2048, 4096, 8192)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from rulerlib import checkpoints, fields, languages, models, tasks
from rulerlib.errors import dictionary, is_text, one_of, require
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.store import questions
from rulerlib.texts import read_texts


@dataclass(frozen=True)
class Parameters:
    """All parameters of a run, checked when they are made; nothing heavy is loaded.

    Parameters
    ----------
    tasks
        Names, see `rulerlib.tasks.names`.
    model
        ``"lille"`` (the model inside), a folder, or a hub name.
    engine
        A name in `rulerlib.models.ENGINES`, or a class of your own, ``package.module:Engine``.
    engine_options
        Further arguments of the engine, such as ``{"dtype": "float32"}``.
    loaded
        The engine itself, if it is made already: several runs can share one.
    language
        ``"da"``, ``"en"``, or the folder of a pack of your own, see `rulerlib.languages`.
    question_language
        The language of template, question and answer prefix, for tasks whose questions can be
        asked in another one than that of their contexts; None: ``language``.
    length
        The longest length in tokens, prompt and answer together.
    num_lengths
        The number of lengths: ``length``, its half, the half of that, ...; lengths too short for a
        task are left out.
    num_samples
        Samples for each task and length.
    seed
        Another seed gives other samples.
    output
        The folder of all runs; relative to the folder that the environment variable
        ``RULERLIB_HOME`` names, else to the current one.
    texts
        Your own text, a file or a folder, for the tasks that read texts, see
        `rulerlib.texts.read_texts`; or ``"essays"``, the language's own, repeated as in RULER.
    data
        Datasets that are there already, also those that NVIDIA's RULER made: a file
        ``<task>/validation.jsonl``, or a folder with such files somewhere below it. ``tasks``
        chooses among them, and their lengths and their language take the place of the
        parameters'.
    format
        How a question becomes a prompt.
    decoding
        How the model chooses its tokens.
    allow_truncation
        Cut prompts that the model cannot take, instead of refusing them.
    knobs
        Settings of the tasks that differ from their rows in the table.
    queries_per_context
        How many samples in a row ask about one context, which a model then reads once; see
        `rulerlib.dataset.Dataset`. In a study it is 1.
    primary
        The measure that is reported as the score; None: each task's own.
    family
        Only tasks of this family are allowed.
    study
        Settings to be compared: for each row its knobs, ``task`` where it is not the first of
        ``tasks``, and ``group``, a text that rows have in common which are compared in one panel
        of a figure (without it, rows of the same knobs). Of ``knobs`` a row takes over ``source``
        and ``train``, so that it asks the same questions. Empty or None: no study.
    study_length, study_samples
        Its length, or a list of lengths, in tokens; and the samples for each row. A row is left
        out at lengths too short for it, but not at the longest.
    study_name
        The folder of the study; None: the name of the family.
    notes
        Sentences to be shown with the run: what a notebook's defaults ask that its ``source``
        cannot answer.

    Raises
    ------
    ParameterError
        If any of them cannot work.
    DataError
        If ``texts`` or ``data`` is damaged.
    """

    tasks: str | Sequence[str]
    model: str = "lille"
    engine: str = "transformers"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    loaded: models.Model | None = field(default=None, repr=False, compare=False)
    language: str = "da"
    length: int = 4096
    num_lengths: int = 1
    num_samples: int = 40
    seed: int = 42
    output: str = "runs"
    texts: str | None = None
    data: str | None = None
    format: PromptFormat = field(default_factory=PromptFormat)
    decoding: Decoding = field(default_factory=Decoding)
    allow_truncation: bool = False
    knobs: Mapping[str, Any] = field(default_factory=dict)
    queries_per_context: int = 1
    primary: str | None = None
    family: str | None = None
    study: Sequence[Mapping[str, Any]] | str | None = None
    study_length: int | Sequence[int] = 1024
    study_samples: int = 10
    study_name: str | None = None
    notes: Sequence[str] = field(default=(), repr=False, compare=False)
    question_language: str | None = None

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        if self.family is not None:
            one_of("family", self.family, tasks.FAMILIES)
        set_(self, "tasks", tuple(tasks.names(self.tasks, self.family)))
        fields.check_fields(self)
        checkpoints.checked(self.model, self.engine)
        set_(self, "knobs", dict(self.knobs))
        set_(self, "language", languages.load(self.language).code)
        if self.question_language is not None:
            other = languages.load(self.question_language).code
            allowed_values = "None, because the questions of 'data' are there already"
            require(self.data is None, "question_language", self.question_language, allowed_values)
            set_(self, "question_language", None if other == self.language else other)
        set_(self, "study", self._checked_study())
        chosen = [tasks.resolve(name, **self.knobs) for name in self.tasks]
        # At least one task has the measure; the others report their own.
        measures = sorted({name for task in chosen for name in task.scoring.scores})
        if self.primary is not None:
            one_of("primary", self.primary, measures)
        chosen += [tasks.resolve(name, **knobs) for name, knobs in self.rows]
        named = self.texts is None or isinstance(self.texts, str)
        require(named, "texts", self.texts, "the name of a file or folder")
        read = self.own_texts is None or any(task.reads_texts for task in chosen)
        allowed_values = "left out, because none of the tasks reads texts as it is set"
        require(read, "texts", self.texts, allowed_values)
        if self.given:
            set_(self, "language", questions.language(self.data, self.given))
            set_(self, "length", max(length for _, length in self.given))

    def _checked_study(self) -> tuple[Mapping[str, Any], ...]:
        rows = () if self.study is None else self.study
        sequence = isinstance(rows, (list, tuple))
        require(sequence, "study", rows, "a list of settings, each {knob: value}")
        rows = [dictionary("study", row, '{"num_hops": 2}') for row in rows]
        for row in rows:
            named = is_text(row.get("group", "named"))
            require(named, "study", row, "a row whose group, if it has one, is a text")
        return tuple(rows)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths asked for, rising, in tokens."""
        return halves(self.length, self.num_lengths)

    @property
    def study_lengths(self) -> tuple[int, ...]:
        """The lengths of the study, rising, in tokens."""
        lengths = self.study_length
        return tuple(sorted({*lengths} if isinstance(lengths, (list, tuple)) else {lengths}))

    @property
    def name(self) -> str:
        """The model's name: a folder on this machine is known by its last part."""
        return checkpoints.short_name(self.model)

    @property
    def root(self) -> Path:
        """The folder of all runs."""
        return fields.home() / Path(self.output).expanduser()

    @property
    def settings_of_study(self) -> tuple[Mapping[str, Any], ...]:
        """The settings that the study compares, those of a file included."""
        # Checked when it was set, and no text since.
        return cast(tuple[Mapping[str, Any], ...], self.study)

    @property
    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """Task and knobs of each row of the study."""
        questions = {name: self.knobs[name] for name in ("source", "train") if name in self.knobs}
        first = {"task": self.tasks[0], "group": "", **questions}
        rows = [{**first, **row} for row in self.settings_of_study]
        return [(row.pop("task"), {name: row[name] for name in row if name != "group"})
                for row in rows]  # fmt: skip

    @cached_property
    def own_texts(self) -> tuple[str, ...] | None:
        """The user's own texts, as ``texts`` names them; None where it names none."""
        if self.texts == languages.REPEATED:
            return languages.load(self.language).repeated
        return None if self.texts is None else read_texts(self.texts)

    @cached_property
    def given(self) -> questions.Given:
        """The files of ``data``, by task and length; empty where questions are made here."""
        return {} if self.data is None else questions.find(self.data, self.tasks)


def halves(length: int, num_lengths: int) -> tuple[int, ...]:
    """Return ``length``, its half, the half of that, ...; rising.

    >>> halves(4096, 3)
    (1024, 2048, 4096)
    """
    steps = range(min(num_lengths, length.bit_length()))
    return tuple(sorted({length >> step for step in steps} - {0}))


def named(setting: Mapping[str, Any]) -> dict[str, str]:
    """Return what a row of a study is called, and the group of rows that it is compared with.

    >>> named({"group": "keys", "num_needle_k": 2})
    {'setting': 'num_needle_k = 2', 'group': 'keys'}
    """
    knobs = {name: value for name, value in setting.items() if name != "group"}
    name = ", ".join(f"{knob} = {value}" for knob, value in knobs.items())
    return {"setting": name, "group": setting.get("group", ", ".join(knobs))}
