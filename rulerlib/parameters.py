"""The parameters of a run, checked when they are made.

>>> Parameters(tasks="niah_single_2", length=8192, num_lengths=3).lengths
(2048, 4096, 8192)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field

from rulerlib import checkpoints, files, languages, models, tasks
from rulerlib.errors import (
    LARGEST,
    LONGEST,
    ParameterError,
    engine_options,
    is_text,
    one_of,
    validated,
)
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.store import questions
from rulerlib.texts import read_texts

Count = Annotated[int, Field(ge=1, le=LARGEST)]
Length = Annotated[int, Field(ge=1, le=LONGEST)]


@validated
class Parameters:
    """The parameters of a run, checked before a model is loaded.

    Parameters
    ----------
    tasks
        Names, see `rulerlib.tasks.names`.
    model
        ``"lille"`` (the bundled model), a folder, or a hub name.
    engine
        A name in `rulerlib.models.ENGINES`, or a class of your own, ``package.module:Engine``.
    engine_options
        Further arguments of the engine, such as ``{"dtype": "float32"}``.
    loaded
        An engine that several runs share. If None, a new one.
    language
        ``"da"``, ``"en"``, or the folder of a language pack, see `rulerlib.languages`.
    question_language
        The language of template, question and answer prefix, for tasks whose questions can be
        asked in another one than that of their contexts. Default: ``language``.
    length
        The longest length in tokens, prompt and answer together.
    num_lengths
        The number of lengths: ``length``, its half, the half of that, ...; lengths that are too
        short for a task are left out.
    num_samples
        Samples for each task and length.
    seed
        The seed of the samples.
    output
        The folder of all runs, relative to the folder in the environment variable
        ``RULERLIB_HOME`` or to the current one.
    texts
        A file or folder with your own text, for the tasks that read texts, see
        `rulerlib.texts.read_texts`; or ``"essays"``, the language's own, repeated as in RULER.
    data
        Existing questions, also those of NVIDIA's RULER: a file ``<task>/validation.jsonl``, or a
        folder with such files. ``tasks`` selects among them; they set language and length.
    format
        How a question becomes a prompt.
    decoding
        How the model chooses its tokens.
    allow_truncation
        Cut prompts that are too long for the model instead of raising an error.
    knobs
        Settings of the tasks that differ from their defaults.
    queries_per_context
        How many consecutive samples share one context, see `rulerlib.dataset.Dataset`. In a study
        it is 1.
    primary
        The measure that is reported as the score. Default: each task's own.
    family
        If set, only tasks of this family are allowed.
    study
        Settings to compare. Each row has knobs, ``task`` if it is not the first of ``tasks``, and
        ``group``, a text shared by rows that appear in one panel of a figure (default: rows with
        the same knobs). Rows take ``source`` and ``train`` from ``knobs``.
    study_length, study_samples
        The length or lengths of the study in tokens, and the samples of each row. Lengths that are
        too short for a row are left out, except the longest.
    study_name
        The folder of the study. Default: the name of the family.
    notes
        Sentences to show with the run: tasks that its ``source`` cannot answer.

    Raises
    ------
    ParameterError
        If a value cannot work.
    DataError
        If ``texts`` or ``data`` is damaged.
    """

    tasks: str | Sequence[str]
    model: str = "lille"
    engine: str = "transformers"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    loaded: Any = field(default=None, repr=False, compare=False)
    language: str = "da"
    length: Length = 4096
    num_lengths: Count = 1
    num_samples: Count = 40
    seed: int = Field(42, ge=0, le=LARGEST)
    output: str = "runs"
    texts: str | None = None
    data: Any = None
    format: PromptFormat = field(default_factory=PromptFormat)
    decoding: Decoding = field(default_factory=Decoding)
    allow_truncation: bool = False
    knobs: dict[str, Any] = field(default_factory=dict)
    queries_per_context: Count = 1
    primary: str | None = None
    family: str | None = None
    study: Sequence[dict[str, Any]] | None = None
    study_length: Length | list[Length] = 1024
    study_samples: Count = 10
    study_name: str | None = None
    notes: Sequence[str] = field(default=(), repr=False, compare=False)
    question_language: str | None = None

    def __post_init__(self) -> None:
        if self.family is not None:
            one_of("family", self.family, tasks.families())
        self._set("tasks", tuple(tasks.names(self.tasks, self.family)))
        models.engine_class(self.engine)
        engine_options("engine_options", self.engine_options)
        checkpoints.checked(self.model, self.engine)
        files.named("output", self.output, "the name of a folder")
        self._set("language", languages.load(self.language).code)
        if self.question_language is not None:
            if self.data is not None:
                allowed = "None, because the questions in 'data' exist already"
                raise ParameterError("question_language", self.question_language, allowed)
            code = languages.load(self.question_language, "question_language").code
            self._set("question_language", None if code == self.language else code)
        self._set("study", tuple(self.study or ()))
        for row in self.settings_of_study:
            if not is_text(row.get("group", "any")):
                raise ParameterError("study", row, "a row whose group is a text")
        chosen = [tasks.resolve(name, **self.knobs) for name in self.tasks]
        if self.primary is not None:
            # Tasks without this measure report their own.
            one_of("primary", self.primary, sorted({m for t in chosen for m in t.scoring.scores}))
        chosen += [tasks.resolve(name, **knobs) for name, knobs in self.rows]
        if self.own_texts is not None and not any(task.reads_texts for task in chosen):
            raise ParameterError("texts", self.texts, "None: the selected tasks use no texts")
        if self.given:
            self._set("language", questions.language(self.data, self.given))
            self._set("length", max(length for _, length in self.given))

    def _set(self, name: str, value: Any) -> None:
        """Replace a field of this frozen dataclass by its normal form."""
        object.__setattr__(self, name, value)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths in tokens, shortest first."""
        return halves(self.length, self.num_lengths)

    @property
    def study_lengths(self) -> tuple[int, ...]:
        """The lengths of the study in tokens, shortest first."""
        lengths = self.study_length
        return tuple(sorted(set(lengths))) if isinstance(lengths, list) else (lengths,)

    @property
    def name(self) -> str:
        """The model's name; of a folder, its last part."""
        return checkpoints.short_name(self.model)

    @property
    def root(self) -> Path:
        """The folder of all runs."""
        return files.home() / Path(self.output).expanduser()

    @property
    def settings_of_study(self) -> tuple[dict[str, Any], ...]:
        """The settings that the study compares."""
        return cast(tuple[dict[str, Any], ...], self.study)

    @property
    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """Task and knobs of each row of the study."""
        shared = ("source", "train")
        source: dict[str, Any] = {name: self.knobs[name] for name in shared if name in self.knobs}
        rows: list[tuple[str, dict[str, Any]]] = []
        for setting in self.settings_of_study:
            knobs = {**source, **setting}
            knobs.pop("group", None)
            rows.append((knobs.pop("task", self.tasks[0]), knobs))
        return rows

    @cached_property
    def own_texts(self) -> tuple[str, ...] | None:
        """The texts that ``texts`` names, or None."""
        if self.texts == languages.REPEATED:
            return languages.load(self.language).repeated
        return None if self.texts is None else read_texts(self.texts)

    @cached_property
    def given(self) -> questions.Given:
        """The files of ``data`` by task and length; {} if the questions are made here."""
        return {} if self.data is None else questions.find(self.data, self.tasks)


def halves(length: int, num_lengths: int) -> tuple[int, ...]:
    """Return ``length``, its half, the half of that, ..., shortest first.

    >>> halves(4096, 3)
    (1024, 2048, 4096)
    """
    steps = range(min(num_lengths, length.bit_length()))
    return tuple(sorted({length >> step for step in steps} - {0}))


def named(setting: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of a row of a study and that of its group.

    >>> named({"group": "keys", "num_needle_k": 2})
    {'setting': 'num_needle_k = 2', 'group': 'keys'}
    """
    knobs = {name: value for name, value in setting.items() if name != "group"}
    name = ", ".join(f"{knob} = {value}" for knob, value in knobs.items())
    return {"setting": name, "group": setting.get("group", ", ".join(knobs))}
