"""A run: one model asked many tasks at many lengths, in one folder.

``runs/<model>/<language>/<length>/data/<task>/validation.jsonl`` holds the
questions, ``runs/<model>/<language>/<length>/pred/<task>.jsonl`` the answers.
The notebooks are a skin over this class.

>>> Run(tasks="niah_single_2", length=8192, num_lengths=3).lengths
(2048, 4096, 8192)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from rulerlib import haystack, languages, models, samples, tasks, tokens
from rulerlib import predict as prediction
from rulerlib.dataset import Dataset, check_queries
from rulerlib.errors import ParameterError, nearest, one_of, whole_number
from rulerlib.progress import Progress
from rulerlib.samples import Prediction, Sample

# Where relative outputs stand, if not where the notebook runs.
HOME = "RULERLIB_HOME"

# Names that IPython itself puts beside the parameters of a notebook.
_IPYTHON = {"In", "Out", "get_ipython", "exit", "quit", "open"}


@dataclass(frozen=True)
class Run:
    """All parameters of a run, checked when it is made; nothing heavy is loaded.

    Parameters
    ----------
    model
        ``"lille"`` (the model inside), a folder, or a hub name.
    engine
        A name in `rulerlib.models.ENGINES`.
    language
        ``"da"``, ``"en"``, or any other pack.
    length
        The longest length in tokens, prompt and answer together.
    num_lengths
        How many lengths: ``length``, its half, the half of that, ...; lengths
        too short for a task are left out.
    tasks
        Names, see `rulerlib.tasks.names`.
    num_samples
        Samples for each task and length.
    seed
        Another seed gives other samples.
    output
        The folder of all runs; relative to the folder that the environment
        variable ``RULERLIB_HOME`` names, else to the current one.
    texts
        Your own text for essay haystacks: a file or a folder.
    data
        Datasets that are there already, also those that NVIDIA's RULER made: a file
        ``<task>/validation.jsonl``, or a folder with such files somewhere below it. ``tasks``
        chooses among them, and their lengths and their language take the place of the
        parameters'.
    chat
        Whether to use the model's chat template; None: where it has one.
    answer_prefix, thinking
        Where the answer prefix stands, and whether the model thinks before it answers; see
        `rulerlib.dataset.Dataset`.
    thinking_tokens, thinking_tags
        Room for thinking on top of ``length``, and what stands around it; see
        `rulerlib.predict.predict`.
    allow_truncation
        Cut prompts that the model cannot take, instead of refusing them.
    engine_options
        Further arguments of the engine, such as ``{"dtype": "float32"}``.
    knobs
        Settings of the tasks that differ from their rows in the table.
    queries_per_context
        So many samples in a row ask about one context, which a model then reads once; see
        `rulerlib.dataset.Dataset`. A study has 1.
    family
        Only tasks of this family are allowed.
    study, study_length, study_samples
        Settings to be compared at one length: for each row its knobs, and
        ``task`` where it is not the first of ``tasks``.

    Raises
    ------
    ParameterError
        If any of them cannot work.
    """

    tasks: str | Sequence[str]
    model: str = "lille"
    engine: str = "transformers"
    language: str = "da"
    length: int = 4096
    num_lengths: int = 1
    num_samples: int = 40
    seed: int = 42
    output: str = "runs"
    texts: str | None = None
    data: str | None = None
    chat: bool | None = None
    allow_truncation: bool = False
    engine_options: dict[str, Any] = field(default_factory=dict)
    knobs: dict[str, Any] = field(default_factory=dict)
    queries_per_context: int = 1
    answer_prefix: str = "assistant"
    thinking: bool | None = None
    thinking_tokens: int = 0
    thinking_tags: Sequence[str] = tokens.TAGS
    family: str | None = None
    study: Sequence[Mapping[str, Any]] = ()
    study_length: int = 1024
    study_samples: int = 10

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "tasks", tuple(tasks.names(self.tasks, self.family)))
        for name in self.tasks:
            check_queries(name, self.queries_per_context, **self.knobs)
        one_of("engine", self.engine, models.ENGINES)
        languages.load(self.language)
        if self.engine != "openai":
            # A served model has a name on its server alone.
            tokens.resolve(self.model)
        whole_number("length", self.length, 1)
        whole_number("num_lengths", self.num_lengths, 1)
        whole_number("num_samples", self.num_samples, 1)
        whole_number("seed", self.seed, 0)
        whole_number("study_length", self.study_length, 1)
        whole_number("study_samples", self.study_samples, 1)
        rows = self.study if isinstance(self.study, (list, tuple)) else [None]
        if not all(isinstance(row, Mapping) for row in rows):
            raise ParameterError("study", self.study, "a list of settings, each {knob: value}")
        one_of("answer_prefix", self.answer_prefix, tokens.PLACES)
        whole_number("thinking_tokens", self.thinking_tokens, 0)
        set_(self, "thinking_tags", tokens.check_tags(self.thinking_tags))
        for name in ("chat", "thinking", "allow_truncation"):
            value = getattr(self, name)
            may_be_none = name != "allow_truncation"
            if not isinstance(value, bool) and not (may_be_none and value is None):
                raise ParameterError(name, value, "True or False")
        if not isinstance(self.output, str) or not self.output.strip():
            raise ParameterError("output", self.output, "the name of a folder")
        options = self.engine_options
        if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
            raise ParameterError(
                "engine_options", options, 'a dictionary such as {"dtype": "float32"}'
            )
        if "api_key" in options:
            # An executed notebook keeps its parameters; this sentence does not repeat the key.
            raise ParameterError(
                "engine_options",
                [*options],
                "without 'api_key', which a notebook would keep: set OPENAI_API_KEY instead",
            )
        if self.texts is not None and not isinstance(self.texts, str):
            raise ParameterError("texts", self.texts, "the name of a file or folder")
        if self._texts is not None and "essay" not in self._haystacks:
            raise ParameterError(
                "texts", self.texts, "left out, because none of the tasks has an essay haystack"
            )
        if self.data is not None:
            set_(self, "language", self._language_of_data())
            set_(self, "length", max(length for _, length in self._given))

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any], family: str | None = None) -> Self:
        """A run with the parameters that stand in a notebook.

        papermill accepts any ``-p name value`` and only warns of a name that
        the notebook does not know; here such a name is an error.

        Parameters
        ----------
        namespace
            ``globals()``, before anything but parameters was set.
        family
            The tasks that the notebook may run, which it calls ``variants``; its knobs are
            parameters too. None: any ``tasks``, as their rows say.
        """
        known = [item.name for item in fields(cls) if item.name not in ("knobs", "family", "tasks")]
        knobs = [item.name for item in fields(tasks.FAMILIES[family].Knobs)] if family else []
        chosen = "variants" if family else "tasks"
        given = parameters(namespace, [chosen, *known, *knobs])
        set_knobs = {name: given.pop(name) for name in knobs if name in given}
        made = cls(
            tasks=given.pop(chosen),
            knobs={name: value for name, value in set_knobs.items() if value is not None},
            family=family,
            **given,
        )
        made.check()
        return made

    def check(self) -> None:
        """Find what can go wrong before anything expensive starts.

        Raises
        ------
        ParameterError
            If a length does not work for the model or a task, or the output
            folder cannot be written.
        """
        _ = self.cells
        for run in self._studies:
            try:
                _ = run.cells
            except ParameterError as error:
                if error.parameter != "length":
                    raise
                raise ParameterError("study_length", error.value, error.allowed) from error
        trial = self.folder / ".trial"
        with samples.replacing(trial) as file:
            file.write("x" * 4096)
        trial.unlink()

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths asked for, rising."""
        return halves(self.length, self.num_lengths)

    @property
    def name(self) -> str:
        """The model's short name: a folder on this machine is known by its last part."""
        path = Path(self.model).expanduser()
        return path.resolve().name if path.is_dir() else self.model.replace("/", "--")

    @property
    def folder(self) -> Path:
        """Where this model's run in this language stands."""
        return home() / self.output / re.sub(r"[^\w.+-]", "_", self.name) / self.language

    @cached_property
    def engine_of(self) -> models.Model:
        """The engine; its weights are loaded with the first prompt."""
        return models.load(self.model, self.engine, **self.engine_options)

    @cached_property
    def _texts(self) -> tuple[str, ...] | None:
        return None if self.texts is None else haystack.read_texts(self.texts)

    @property
    def _haystacks(self) -> set[str]:
        return {
            getattr(tasks.resolve(name, **self.knobs).knobs, "haystack", "") for name in self.tasks
        }

    def label(self, task: str) -> str:
        """The task's name, and the knobs that differ from its row."""
        changed = [f"{name}={value}" for name, value in sorted(self.knobs.items())]
        if self.queries_per_context > 1:
            changed.append(f"queries_per_context={self.queries_per_context}")
        return "+".join([task, *changed])

    def dataset(self, task: str, length: int) -> Dataset:
        """The samples of one task at one length."""
        if (task, length) not in self._datasets:
            self._datasets[task, length] = self._dataset(task, length)
        return self._datasets[task, length]

    @cached_property
    def _datasets(self) -> dict[tuple[str, int], Dataset]:
        return {}

    def _dataset(self, task: str, length: int) -> Dataset:
        return Dataset(
            task=task,
            length=length,
            language=self.language,
            tokenizer=self.engine_of.tokenizer,
            num_samples=self.num_samples,
            seed=self.seed,
            texts=self._texts if self._reads_texts(task) else None,
            chat=self.chat,
            answer_prefix=self.answer_prefix,
            thinking=self.thinking,
            knobs=self.knobs,
            queries_per_context=self.queries_per_context,
        )

    def _reads_texts(self, task: str) -> bool:
        return getattr(tasks.resolve(task, **self.knobs).knobs, "haystack", "") == "essay"

    @cached_property
    def cells(self) -> tuple[tuple[str, int], ...]:
        """Task and length of everything that is run, short lengths first.

        Raises
        ------
        ParameterError
            If ``length`` itself is too short for a task or too long for the model.
        """
        limit = self.engine_of.limit
        tokenizer = self.engine_of.tokenizer
        tags = tokens.check_tags(self.thinking_tags)
        frame = tokenizer.frame(self.chat, self.answer_prefix, self.thinking, tags)
        tokens.check_thinking(self.model, frame, self.thinking, self.thinking_tokens)
        room = None if limit is None else limit - self.thinking_tokens
        if room is not None and self.length > room and not self.allow_truncation:
            beside = f" beside {self.thinking_tokens} for thinking" if self.thinking_tokens else ""
            raise ParameterError(
                "length",
                self.length,
                f"at most {room}, what '{self.model}' can take{beside} (allow_truncation=True cuts"
                " prompts in the middle and says so in every record)",
            )
        if self.data is not None:
            return tuple(self._given)
        found = []
        for length in self.lengths:
            for task in self.tasks:
                try:
                    self.dataset(task, length)
                except ParameterError as error:
                    if error.parameter != "length" or length == self.length:
                        raise
                    continue
                found.append((task, length))
        return tuple(found)

    @cached_property
    def _given(self) -> dict[tuple[str, int], Path]:
        """The files of ``data``, by task and length, short lengths first."""
        found = _files(self.data, self.tasks)
        return dict(sorted(found.items(), key=lambda item: item[0][1]))

    def _language_of_data(self) -> str:
        """What the samples say; NVIDIA's say nothing and are English."""
        spoken = {
            next(samples.read(path, Sample), Sample(0, "", [])).language or "en"
            for path in self._given.values()
        }
        if len(spoken) > 1:
            raise ParameterError("data", self.data, "files in one language")
        return spoken.pop()

    def _count(self, task: str, length: int) -> int:
        """How many samples are asked."""
        if self.data is None:
            return self.num_samples
        there = sum(1 for _ in samples.read(self._given[task, length], Sample))
        return min(self.num_samples, there)

    def _room(self, task: str, length: int) -> int:
        """Tokens to generate."""
        if self.data is None:
            return self.dataset(task, length).tokens_to_generate
        stated = prediction.metadata(self._given[task, length]).get("tokens_to_generate")
        return int(stated or tasks.resolve(task).tokens_to_generate)

    def data_path(self, task: str, length: int) -> Path:
        if self.data is not None:
            return self._given[task, length]
        return self.folder / str(length) / "data" / self.label(task) / "validation.jsonl"

    def prediction_path(self, task: str, length: int) -> Path:
        return self.folder / str(length) / "pred" / f"{self.label(task)}.jsonl"

    def overview(self) -> list[dict[str, Any]]:
        """Task, length, number of samples and room for the answer of everything that is run."""
        return [
            {
                "task": self.label(task),
                "length": length,
                "samples": self._count(task, length),
                "tokens to generate": self._room(task, length),
            }
            for task, length in self.cells
        ]

    def make_data(self) -> list[Path]:
        """Write the datasets, or reuse those that stand there."""
        if self.data is not None:
            return [*self._given.values()]
        # All cells are checked before the first is written.
        return [
            self.dataset(task, length).write(self.data_path(task, length).parent)
            for task, length in self.cells
        ]

    def predict(self, progress: Progress | None = None) -> list[Path]:
        """Ask the model all that it was not asked yet, with one bar for everything."""
        if progress is None:
            work = sum(prediction.cost(length) * self._count(task, length)
                       for task, length in self.cells)  # fmt: skip
            with Progress(work, f"{self.name}, {self.language}") as bar:
                return self.predict(bar)
        data = self.make_data()
        models.reserve(self.engine_of, self.length + self.thinking_tokens)
        return [
            prediction.predict(
                path,
                self.engine_of,
                self.prediction_path(task, length),
                num_samples=self._count(task, length),
                tokens_to_generate=self._room(task, length),
                chat=self.chat,
                answer_prefix=self.answer_prefix,
                thinking=self.thinking,
                allow_truncation=self.allow_truncation,
                progress=progress,
                weight=prediction.cost(length),
                thinking_tokens=self.thinking_tokens,
                thinking_tags=self.thinking_tags,
            )
            for (task, length), path in zip(self.cells, data, strict=True)
        ]

    def predictions(self) -> Iterator[tuple[dict[str, Any], Prediction]]:
        """Every prediction of this run, with what it belongs to."""
        for task, length in self.cells:
            path = self.prediction_path(task, length)
            about = {
                "model": self.name,
                "language": self.language,
                "task": self.label(task),
                "metric": tasks.resolve(task).metric,
                "length": length,
            }
            for record in prediction.read(path, self.num_samples):
                yield about, record

    def cost(self) -> list[dict[str, Any]]:
        """Tokens read and generated, by task and length, and their sums in the last row.

        Of the prompts all tokens are counted, whether computed or found in a cache. What stood
        on disk already is counted too: it is what all these answers cost together.
        """
        rows = []
        for task, length in self.cells:
            records = prediction.read(self.prediction_path(task, length), self.num_samples)
            rows.append({
                "task": self.label(task), "length": f"{length:,}", "n": len(records),
                "prompt tokens": sum(each.others.get("prompt_tokens", 0) for each in records),
                "generated tokens": sum(each.others["tokens_generated"] for each in records),
                "cut off": sum(not each.others["finished"] for each in records),
            })  # fmt: skip
        sums = {name: sum(row[name] for row in rows) for name in list(rows[0])[2:]}
        return [*rows, {"task": "together", "length": "", **sums}]

    def predict_study(self, progress: Progress | None = None) -> None:
        """Ask the model what the study asks, with one bar for everything."""
        if progress is not None:
            for run in self._studies:
                run.predict(progress)
            return
        work = prediction.cost(self.study_length) * self.study_samples * len(self._studies)
        with Progress(work, f"{self.name}, {self.language}, study") as bar:
            self.predict_study(bar)

    def study_predictions(self) -> Iterator[tuple[dict[str, Any], Prediction]]:
        """Every prediction of the study, with the setting that it belongs to."""
        for run, setting in zip(self._studies, self.study, strict=True):
            name = ", ".join(f"{knob} = {value}" for knob, value in setting.items())
            for about, record in run.predictions():
                yield {**about, "setting": name}, record

    @cached_property
    def _studies(self) -> tuple[Run, ...]:
        made = []
        for setting in self.study:
            # A row's own knobs alone: those of this run may not go with all of them.
            knobs = dict(setting)
            task = knobs.pop("task", self.tasks[0])
            haystack_of = getattr(tasks.resolve(task, **knobs).knobs, "haystack", "")
            run = replace(
                self,
                tasks=task,
                knobs=knobs,
                texts=self.texts if haystack_of == "essay" else None,
                length=self.study_length,
                num_lengths=1,
                num_samples=self.study_samples,
                # Few samples of short prompts, with knobs that may not allow for sharing.
                queries_per_context=1,
                study=(),
            )
            # One engine for all settings: a large model is loaded once.
            run.__dict__["engine_of"] = self.engine_of
            made.append(run)
        return tuple(made)

    def example(self, length: int = 512) -> Sample:
        """A small sample of the first task, to be looked at."""
        if self.data is not None:
            return next(samples.read(next(iter(self._given.values())), Sample))
        for size in range(length, 16 * length, 64):
            try:
                # The second sample: the first one's needle stands at the very beginning.
                return self.dataset(self.tasks[0], size)[min(1, self.num_samples - 1)]
            except ParameterError as error:
                if error.parameter != "length":
                    raise
        raise ParameterError("length", length, "longer")


def halves(length: int, num_lengths: int) -> tuple[int, ...]:
    """``length``, its half, the half of that, ...; rising.

    >>> halves(4096, 3)
    (1024, 2048, 4096)
    """
    steps = range(min(num_lengths, length.bit_length()))
    return tuple(sorted({length >> step for step in steps} - {0}))


def parameters(namespace: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """The parameters that stand in a notebook.

    Parameters
    ----------
    namespace
        ``globals()``, before anything but parameters was set.
    known
        The names that the notebook has.

    Raises
    ------
    ParameterError
        If papermill set another one, which it only warns of.
    """
    given = {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_") and name not in _IPYTHON and _is_data(value)
    }
    for name, value in given.items():
        if name not in known:
            raise ParameterError("the parameter name", name, nearest(name, known))
        # "none" is a place for the answer prefix.
        absent = ("null", "") if name == "answer_prefix" else ("none", "null", "")
        if isinstance(value, str) and value.strip().lower() in absent:
            # papermill's -p texts None arrives as text.
            given[name] = None
    return given


def home() -> Path:
    """The folder in which relative outputs stand."""
    return Path(os.environ.get(HOME, "."))


def _files(data: Any, names: Sequence[str]) -> dict[tuple[str, int], Path]:
    """The datasets at a place, by task and length.

    The task is the name of a file's folder. Its length is the nearest folder above whose name is
    a number, as in RULER's own tree, else that of the longest sample.
    """
    place = Path(data).expanduser() if isinstance(data, str) and data.strip() else None
    found = [] if place is None else [place] if place.is_file() else place.rglob("validation.jsonl")
    chosen: dict[tuple[str, int], Path] = {}
    for path in sorted(found):
        task = path.resolve().parent.name
        if task not in names:
            continue
        numbers = [part.name for part in path.resolve().parents if part.name.isdecimal()]
        longest = max((sample.length for sample in samples.read(path, Sample)), default=0)
        length = int(numbers[0]) if numbers and int(numbers[0]) >= longest else longest
        if (task, length) in chosen:
            raise ParameterError(
                "data", data, f"one file of {task} at length {length}, not also {path}"
            )
        chosen[task, length] = path
    if not chosen:
        raise ParameterError(
            "data", data,
            "a file <task>/validation.jsonl, or a folder with such files, of at least one of the"
            f" tasks {', '.join(names)}",
        )  # fmt: skip
    return chosen


def _is_data(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, list, tuple, dict))
