"""The parameters of a run, checked when they are made, also those that stand in a notebook.

>>> Parameters(tasks="niah_single_2", length=8192, num_lengths=3).lengths
(2048, 4096, 8192)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from rulerlib import checkpoints, commands, given, languages, models, paths, synthetic, tasks
from rulerlib.dataset import check_length
from rulerlib.errors import (
    ParameterError,
    dictionary,
    flag,
    is_text,
    nearest,
    one_of,
    require,
    whole_number,
)
from rulerlib.given import Given
from rulerlib.models import options
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.sequential import THRESHOLD, check_threshold
from rulerlib.tasks import Task
from rulerlib.texts import read_texts

HOME = "RULERLIB_HOME"
"""The environment variable that names the folder of relative outputs."""

# Names that IPython itself puts beside the parameters of a notebook.
_IPYTHON = {"In", "Out", "get_ipython", "exit", "quit", "open"}

# Parameters of the notebooks that may be a list or a dictionary, which papermill's -p hands over
# as text. Of all others a text that begins with a bracket is a text.
_COLLECTIONS = {
    "changes", "claimed", "compare", "engine_options", "facts", "knobs", "language", "languages",
    "lengths", "models", "presets", "runs", "seeds", "sizes", "stop", "study", "study_length",
    "suites", "tasks", "thinking_tags",
}  # fmt: skip


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
        `rulerlib.texts.read_texts`.
    clean_texts
        Read stray control characters of old encodings in them as Windows-1252 has them.
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
    sequential
        Whether asking ends at a length as soon as the interval of the average over its tasks lies
        wholly above or below ``threshold``, see `rulerlib.sequential`; ``num_samples`` is then
        the most that is asked of each task. A study is asked as a whole.
    threshold
        What an average has to exceed for its length to be effective, in percent.
    primary
        The measure that is reported as the score; None: each task's own.
    family
        Only tasks of this family are allowed.
    study
        Settings to be compared: for each row its knobs, ``task`` where it is not the first of
        ``tasks``, and ``group``, a text that rows have in common which are compared in one panel
        of a figure (without it, rows of the same knobs); or a file in the form of RULER's
        ``synthetic.yaml``, of which the settings of this family count. Empty or None: no study.
    study_length, study_samples
        Its length, or a list of lengths, in tokens; and the samples for each row. A row is left
        out at lengths too short for it, but not at the longest.
    study_name
        The folder of the study; None: the name of the family.

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
    clean_texts: bool = False
    data: str | None = None
    format: PromptFormat = field(default_factory=PromptFormat)
    decoding: Decoding = field(default_factory=Decoding)
    allow_truncation: bool = False
    knobs: Mapping[str, Any] = field(default_factory=dict)
    queries_per_context: int = 1
    sequential: bool = False
    threshold: float = THRESHOLD
    primary: str | None = None
    family: str | None = None
    study: Sequence[Mapping[str, Any]] | str | None = None
    study_length: int | Sequence[int] = 1024
    study_samples: int = 10
    study_name: str | None = None
    question_language: str | None = None

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        if self.family is not None:
            one_of("family", self.family, tasks.FAMILIES)
        set_(self, "tasks", tuple(tasks.names(self.tasks, self.family)))
        models.engine_class(self.engine)
        set_(self, "language", languages.load(self.language).code)
        self._check_question_language()
        checkpoints.checked(self.model, self.engine)
        for name, least in (
            ("length", 1), ("num_lengths", 1), ("num_samples", 1), ("seed", 0),
            ("study_samples", 1),
        ):  # fmt: skip
            whole_number(name, getattr(self, name), least)
        check_length("length", self.length)
        for length in self._given_study_lengths():
            whole_number("study_length", length, 1)
            check_length("study_length", length)
        flag("allow_truncation", self.allow_truncation)
        flag("clean_texts", self.clean_texts)
        flag("sequential", self.sequential)
        check_threshold(self.threshold)
        paths.named("output", self.output, "the name of a folder")
        for name, kind in (("format", PromptFormat), ("decoding", Decoding)):
            holds = isinstance(getattr(self, name), kind)
            require(holds, name, getattr(self, name), f"a {kind.__name__}")
        set_(self, "knobs", dictionary("knobs", self.knobs, '{"num_hops": 2}'))
        options.checked("engine_options", self.engine_options)
        set_(self, "study", self._checked_study())
        asked = [tasks.resolve(name, **self.knobs) for name in self.tasks]
        self._check_primary(asked)
        asked += [tasks.resolve(name, **knobs) for name, knobs in self.rows]
        if self.texts is not None and not isinstance(self.texts, str):
            raise ParameterError("texts", self.texts, "the name of a file or folder")
        if self.own_texts is not None and not any(task.reads_texts for task in asked):
            raise ParameterError(
                "texts", self.texts, "left out, because none of the tasks reads texts as it is set"
            )
        if self.given:
            set_(self, "language", given.language(self.data, self.given))
            set_(self, "length", max(length for _, length in self.given))

    def _check_question_language(self) -> None:
        if self.question_language is None:
            return
        other = languages.load(self.question_language, "question_language").code
        made = self.data is None
        allowed = "None, because the questions of 'data' are there already"
        require(made, "question_language", self.question_language, allowed)
        object.__setattr__(self, "question_language", None if other == self.language else other)

    def _check_primary(self, asked: Sequence[Task]) -> None:
        """Check that at least one task has the measure; the others report their own."""
        measures = sorted({name for task in asked for name in task.scoring.scores})
        if self.primary is not None and self.primary not in measures:
            raise ParameterError("primary", self.primary, nearest(self.primary, measures))

    def _checked_study(self) -> tuple[Mapping[str, Any], ...]:
        rows = () if self.study is None else self.study
        if isinstance(rows, str) and rows.endswith((".yaml", ".yml")):
            rows = self._of_family(synthetic.read(Path(rows).expanduser()))
        listed = isinstance(rows, (list, tuple))
        require(listed, "study", rows, "a list of settings, each {knob: value}")
        rows = [dictionary("study", row, '{"num_hops": 2}') for row in rows]
        for row in rows:
            named = is_text(row.get("group", "named"))
            require(named, "study", row, "a row whose group, if it has one, is a text")
        return tuple(rows)

    def _given_study_lengths(self) -> Sequence[Any]:
        """Return what ``study_length`` says as a list, not yet checked."""
        if not isinstance(self.study_length, (list, tuple)):
            return [self.study_length]
        require(self.study_length, "study_length", self.study_length, "at least one length")
        return self.study_length

    def _of_family(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows of a file whose tasks are of this run's family."""
        allowed = tasks.names("all", self.family)
        chosen = [row for row in rows if row["task"] in allowed]
        require(chosen, "study", self.study, f"a file with settings of {self.family}")
        return chosen

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths asked for, rising, in tokens."""
        return halves(self.length, self.num_lengths)

    @property
    def study_lengths(self) -> tuple[int, ...]:
        """The lengths of the study, rising, in tokens."""
        return tuple(sorted({*self._given_study_lengths()}))

    @property
    def name(self) -> str:
        """The model's name: a folder on this machine is known by its last part."""
        return checkpoints.short_name(self.model)

    @property
    def root(self) -> Path:
        """The folder of all runs."""
        return home() / Path(self.output).expanduser()

    @property
    def settings_of_study(self) -> tuple[Mapping[str, Any], ...]:
        """The settings that the study compares, those of a file included."""
        # Checked when it was set, and no text since.
        return cast(tuple[Mapping[str, Any], ...], self.study)

    @property
    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """Task and knobs of each row of the study."""
        rows = [{"task": self.tasks[0], "group": "", **row} for row in self.settings_of_study]
        return [(row.pop("task"), {name: row[name] for name in row if name != "group"})
                for row in rows]  # fmt: skip

    @cached_property
    def own_texts(self) -> tuple[str, ...] | None:
        """The user's own texts, as ``texts`` names them; None where it names none."""
        return None if self.texts is None else read_texts(self.texts, self.clean_texts)

    @cached_property
    def given(self) -> Given:
        """The files of ``data``, by task and length; empty where questions are made here."""
        return {} if self.data is None else given.find(self.data, self.tasks)


def halves(length: int, num_lengths: int) -> tuple[int, ...]:
    """Return ``length``, its half, the half of that, ...; rising.

    >>> halves(4096, 3)
    (1024, 2048, 4096)
    """
    steps = range(min(num_lengths, length.bit_length()))
    return tuple(sorted({length >> step for step in steps} - {0}))


def notebook_parameters(namespace: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that stand in a notebook, by name.

    Texts such as ``"none"``, ``"true"`` and ``"[1, 2]"``, which papermill does not convert, become
    the values that they mean; lists and dictionaries are read as YAML.

    Parameters
    ----------
    namespace
        ``globals()``, before anything but parameters was set.
    known
        The names that the notebook has.

    Raises
    ------
    ParameterError
        If there is a name that is not known; papermill only warns of it.
    """
    values = {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_") and name not in _IPYTHON and _is_data(value)
    }
    for name, value in values.items():
        if name not in known:
            if options.is_key(name):
                raise ParameterError("the parameter name", name, f"left out, {options.INSTEAD}")
            renamed = name == "variants" and "tasks" in known
            raise ParameterError(
                "the parameter name", name, "'tasks'" if renamed else nearest(name, known)
            )
        # Of an answer prefix "none" is a value.
        typed = commands.TYPED if name != "answer_prefix" else {"": None, "null": None}
        if isinstance(value, str) and value.strip().lower() in typed:
            values[name] = typed[value.strip().lower()]
        elif isinstance(value, str) and name in _COLLECTIONS:
            values[name] = commands.collection(value)
    return values


def home() -> Path:
    """Return the folder in which relative outputs stand, see `HOME`."""
    return Path(os.environ.get(HOME, ".")).expanduser()


def _is_data(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, list, tuple, dict))


def named(setting: Mapping[str, Any]) -> dict[str, str]:
    """Return what a row of a study is called, and the group of rows that it is compared with.

    >>> named({"group": "keys", "num_needle_k": 2})
    {'setting': 'num_needle_k = 2', 'group': 'keys'}
    """
    knobs = {name: value for name, value in setting.items() if name != "group"}
    name = ", ".join(f"{knob} = {value}" for knob, value in knobs.items())
    return {"setting": name, "group": setting.get("group", ", ".join(knobs))}
