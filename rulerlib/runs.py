"""A run: a model's answers to some tasks at some lengths, in one folder.

A run has a `rulerlib.store.Cell` for each task and length, and for each row of its study.
Notebooks call the methods of `Run`.

>>> run = Run(tasks="niah_single_2,vt", length=2048)
>>> [cell.answers("runs").as_posix() for cell in run.cells]
['runs/lille/da/2048/pred/niah_single_2.jsonl', 'runs/lille/da/2048/pred/vt.jsonl']
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field
from tqdm.std import tqdm

from rulerlib import checkpoints, files, languages, models, samples, store, tasks
from rulerlib import predict as prediction
from rulerlib.dataset import Dataset
from rulerlib.errors import LARGEST, LONGEST, ParameterError, notebook_parameters, one_of, validated
from rulerlib.files import digest
from rulerlib.haystack import read_texts
from rulerlib.predict import progress_bar
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.samples import Prediction, Sample
from rulerlib.store import Cell, Given

Count = Annotated[int, Field(ge=1, le=LARGEST)]
Length = Annotated[int, Field(ge=1, le=LONGEST)]

# In a notebook, the fields of a format and of a decoding are parameters of their own.
_FORMAT = [item.name for item in fields(PromptFormat)]
_DECODING = {
    "temperature": "temperature", "top_p": "top_p", "decoding_seed": "seed",
    "samples_per_question": "samples", "tokens_to_generate": "tokens_to_generate",
}  # fmt: skip

# Parameters that a notebook cannot set by these names, and those of the notebook of a family only.
_NOT_SET = {"knobs", "family", "format", "decoding", "loaded", "study_name"}
_STUDY = {"study", "study_length", "study_samples"}


@validated
class Run:
    """A run: its parameters, its cells, their questions and files, and the answers.

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
        `rulerlib.haystack.read_texts`; or ``"essays"``, the language's own, repeated as in RULER.
    data
        Existing questions, also those of NVIDIA's RULER: a file ``<task>/validation.jsonl``, or a
        folder with such files. ``tasks`` selects among them; they set language and length.
    format
        How a question becomes a prompt.
    decoding
        How the model chooses its tokens.
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
        the same knobs). Rows take ``source`` from ``knobs``.
    study_length, study_samples
        The length or lengths of the study in tokens, and the samples of each row. Lengths that are
        too short for a row are left out, except the longest.
    study_name
        The folder of the study. Default: the name of the family.

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
    knobs: dict[str, Any] = field(default_factory=dict)
    queries_per_context: Count = 1
    primary: str | None = None
    family: str | None = None
    study: Sequence[dict[str, Any]] | None = None
    study_length: Length | list[Length] = 1024
    study_samples: Count = 10
    study_name: str | None = None
    question_language: str | None = None

    def __post_init__(self) -> None:
        if self.family is not None:
            one_of("family", self.family, tasks.families())
        self._set("tasks", tuple(tasks.names(self.tasks, self.family)))
        models.engine_class(self.engine)
        checkpoints.checked(self.model, self.engine)
        files.named("output", self.output, "the name of a folder")
        self._set("language", languages.load(self.language).code)
        if self.question_language is not None:
            code = languages.load(self.question_language, "question_language").code
            self._set("question_language", None if code == self.language else code)
        chosen = [tasks.resolve(name, **self.knobs) for name in self.tasks]
        if self.primary is not None:
            # Tasks without this measure report their own.
            one_of("primary", self.primary, sorted({m for t in chosen for m in t.scoring.scores}))
        chosen += [tasks.resolve(name, **knobs) for name, knobs in self.rows]
        if self.own_texts is not None and not any(task.reads_texts for task in chosen):
            raise ParameterError("texts", self.texts, "None: the selected tasks use no texts")
        if self.given:
            # NVIDIA's samples state no language and are English.
            first = next(samples.read(next(iter(self.given.values())), Sample))
            self._set("language", first.language or "en")
            self._set("length", max(length for _, length in self.given))

    def _set(self, name: str, value: Any) -> None:
        """Replace a field of this frozen dataclass by its normal form."""
        object.__setattr__(self, name, value)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths in tokens, shortest first."""
        return halves(self.length, self.num_lengths)

    @property
    def name(self) -> str:
        """The model's name; of a folder, its last part."""
        return checkpoints.short_name(self.model)

    @property
    def root(self) -> Path:
        """The folder of all runs."""
        return files.home() / Path(self.output).expanduser()

    @property
    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """Task and knobs of each row of the study."""
        rows = []
        for setting in self.study or ():
            knobs = {name: value for name, value in setting.items() if name != "group"}
            if "source" in self.knobs:
                knobs.setdefault("source", self.knobs["source"])
            rows.append((knobs.pop("task", self.tasks[0]), knobs))
        return rows

    @cached_property
    def own_texts(self) -> tuple[str, ...] | None:
        """The texts that ``texts`` names, or None."""
        if self.texts == languages.REPEATED:
            return languages.load(self.language).repeated
        return None if self.texts is None else read_texts(self.texts)

    @cached_property
    def given(self) -> Given:
        """The files of ``data`` by task and length; {} if the questions are made here."""
        return {} if self.data is None else store.find_questions(self.data, self.tasks)

    # --- Notebooks -------------------------------------------------------------------------------

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any], family: str | None = None) -> Self:
        """Return a run with the parameters of a notebook.

        papermill accepts any ``-p name value`` and only warns of unknown names; here they are
        errors.

        Parameters
        ----------
        namespace
            ``globals()``, when only parameters are set.
        family
            The family of the notebook, whose knobs are parameters too. If None, any tasks may run,
            with the knobs that all of RULER's have, and without a study.

        Raises
        ------
        ParameterError
            If a name is unknown or a value cannot work.
        DataError, MissingExtraError
            As `Run` and `loaded_engine`.
        """
        knobs = [*tasks.resolve(tasks.names("all", family)[0]).settings()] if family else []
        own = cls.notebook_names() | (_STUDY if family else set())
        values = notebook_parameters(namespace, [*sorted(own), *knobs])
        if "tasks" not in values:
            raise ParameterError("tasks", None, "a name, several with commas between, or 'all'")
        given = {name: value for name, value in values.items() if value is not None}
        decoding = {field: given[name] for name, field in _DECODING.items() if name in given}
        parameters = {
            **{name: values[name] for name in own - {*_FORMAT, *_DECODING} if name in values},
            "format": PromptFormat.from_settings(given),
            "decoding": Decoding(**decoding),
            "knobs": {name: given[name] for name in knobs if name in given},
            "family": family,
        }
        run = cls(**parameters)
        run.check()
        return run

    @classmethod
    def notebook_names(cls) -> set[str]:
        """Return the names of the parameters that a notebook of any task may set."""
        names = {item.name for item in fields(cls)} - _NOT_SET - _STUDY
        return names.union(_FORMAT, _DECODING)

    def check(self) -> None:
        """Check everything that can be checked before a model is loaded.

        Raises
        ------
        ParameterError
            If a length does not work for the model or a task, or the output folder cannot be
            written.
        """
        _ = self.cells, self.study_cells
        files.check_writable(self.root)

    # --- Cells and their questions ---------------------------------------------------------------

    @cached_property
    def loaded_engine(self) -> models.Model:
        """The engine; its weights are loaded with the first prompt.

        Raises
        ------
        ParameterError, MissingExtraError
            As `rulerlib.models.load`.
        """
        if self.loaded is not None:
            engine: models.Model = self.loaded
            return engine
        return models.load(self.model, self.engine, **self.engine_options)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every task at every length, short lengths first.

        Raises
        ------
        ParameterError
            If ``length`` is too short for a task or too long for the model.
        """
        self._check_limit("length", self.length)
        if self.given:
            # Another tokenizer may have counted the lengths, so a prompt may be too long.
            cells = []
            for (task, length), path in self.given.items():
                texts = f"data-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"
                cells.append(replace(self._any_cell, task=task, length=length, texts=texts))
            return tuple(cells)
        cells = [self.cell(task, size, self.knobs) for size in self.lengths for task in self.tasks]
        return tuple(cell for cell in cells if self._fits(cell, "length", self.length))

    @property
    def study_cells(self) -> tuple[Cell, ...]:
        """The cells of the study: each row at each length, short lengths first.

        Raises
        ------
        ParameterError
            If the longest of ``study_length`` is too short for a task or too long for the model.
        """
        return tuple(cell for cell, _ in self._studied)

    @cached_property
    def _studied(self) -> list[tuple[Cell, dict[str, Any]]]:
        """Each cell of the study with its row."""
        if not self.study:
            return []
        lengths = self.study_length if isinstance(self.study_length, list) else [self.study_length]
        longest = max(lengths)
        self._check_limit("study_length", longest)
        study = self.study_name or self.family or "study"
        studied = []
        for size in sorted(set(lengths)):
            for (task, knobs), setting in zip(self.rows, self.study, strict=True):
                cell = replace(self.cell(task, size, knobs), study=study, queries_per_context=1)
                if self._fits(cell, "study_length", longest):
                    studied.append((cell, setting))
        return studied

    def cell(self, task: str, length: int, knobs: Mapping[str, Any]) -> Cell:
        """Return the cell of a task at a length; its prompts need not fit into the length."""
        row = tasks.resolve(task, **knobs)
        usual = tasks.resolve(task).settings()
        texts = self.own_texts if row.reads_texts else None
        return replace(
            self._any_cell,
            task=task,
            length=length,
            knobs={name: value for name, value in knobs.items() if value != usual[name]},
            seed=self.seed,
            queries_per_context=self.queries_per_context,
            texts=None if texts is None else f"{Path(str(self.texts)).name}-{digest(texts)[:8]}",
            question_language=self.question_language,
            family=row.origin or None,
        )

    @cached_property
    def _any_cell(self) -> Cell:
        """A cell with the settings that all cells of this run share."""
        engine = self.loaded_engine
        has_template = engine.tokenizer.chat_template is not None
        chat = None if self.format.chat == has_template else self.format.chat
        return Cell(
            self.name,
            self.tasks[0],
            self.language,
            self.length,
            engine=self.engine,
            options=models.recorded(engine, self.engine_options),
            weights=checkpoints.short_weights(self.model, self.engine),
            format=replace(self.format, chat=chat),
            decoding=self.decoding,
        )

    def _check_limit(self, parameter: str, length: int) -> None:
        """Check a length against the model's limit, and the format against its tokenizer."""
        limit = self.loaded_engine.limit
        if limit is not None and length > limit - self.format.thinking_tokens:
            most = limit - self.format.thinking_tokens
            allowed = f"at most {most}, the limit of '{self.model}' without thinking"
            raise ParameterError(parameter, length, allowed)
        self.format.frame(self.loaded_engine.tokenizer)

    def _fits(self, cell: Cell, parameter: str, longest: int) -> bool:
        """Return whether a cell's length is long enough for its task; the longest has to be."""
        try:
            self.dataset(cell)
        except ParameterError as error:
            if error.parameter != "length":
                raise
            if cell.length == longest:
                raise ParameterError(parameter, error.value, error.allowed) from error
            return False
        return True

    def dataset(self, cell: Cell) -> Dataset:
        """Return the samples of a cell, which are made on demand.

        Raises
        ------
        ParameterError
            If its length is too short.
        """
        if cell not in self._datasets:
            self._datasets[cell] = Dataset(
                cell.task,
                cell.length,
                cell.language,
                self.loaded_engine.tokenizer,
                num_samples=self._num_samples(cell),
                seed=cell.seed,
                format=self.format,
                texts=None if cell.texts is None else self.own_texts,
                knobs=dict(cell.knobs),
                queries_per_context=cell.queries_per_context,
                room=cell.decoding.tokens_to_generate,
                question_language=cell.question_language,
            )
        return self._datasets[cell]

    @cached_property
    def _datasets(self) -> dict[Cell, Dataset]:
        return {}

    def example(self) -> Sample:
        """Return a sample of the first cell."""
        # The needle of the first sample is at the very beginning, so take the second.
        return [*islice(samples.read(self.questions(self.cells[0]), Sample), 2)][-1]

    def _num_samples(self, cell: Cell) -> int:
        return self.num_samples if cell.study is None else self.study_samples

    def _is_given(self, cell: Cell) -> bool:
        return bool(self.given) and cell.study is None

    def count(self, cell: Cell) -> int:
        """Return how many samples of a cell are asked."""
        count = self._num_samples(cell)
        if self._is_given(cell):
            count = min(count, sum(1 for _ in samples.read(self.questions(cell), Sample)))
        return count

    # --- Files and answers -----------------------------------------------------------------------

    def questions(self, cell: Cell) -> Path:
        """Return the file of a cell's questions, which is written if it does not exist yet.

        Raises
        ------
        RunMismatchError, DataError, BusyError, ParameterError
            As `dataset` and `rulerlib.store.write_questions`.
        """
        if self._is_given(cell):
            return self.given[cell.task, cell.length]
        return store.write_questions(self.dataset(cell), cell.questions(self.root).parent)

    def answers(self, cell: Cell) -> Path:
        """Return the file of a cell's answers."""
        return cell.answers(self.root)

    def predict(self) -> list[Path]:
        """Ask the model all questions that it has not answered yet.

        Returns
        -------
        list of Path
            The file of answers of each cell.

        Raises
        ------
        RulerError
            As `questions` and `rulerlib.predict.predict`.
        """
        return self._predict(self.cells, f"{self.name}, {self.language}")

    def predict_study(self) -> list[Path]:
        """Ask the model the questions of the study, see `predict`."""
        return self._predict(self.study_cells, f"{self.name}, {self.language}, study")

    def _predict(self, cells: Sequence[Cell], title: str) -> list[Path]:
        if not cells:
            return []
        # All questions first, because they may show that a parameter cannot work.
        for cell in cells:
            self.questions(cell)
        # Attention makes long prompts slower still, by an unknown factor.
        tokens = sum(cell.length * self.count(cell) for cell in cells)
        with progress_bar(tokens * self.decoding.samples, title) as bar:
            for cell in cells:
                self.ask(cell, self.count(cell), progress=bar)
        return [self.answers(cell) for cell in cells]

    def ask(self, cell: Cell, count: int, progress: tqdm | None = None) -> None:
        """Ask the first questions of a cell, see `rulerlib.predict.predict`."""
        questions = self.questions(cell)
        as_made = self._is_given(cell) and self.format == PromptFormat()
        stated = store.read_metadata(questions).get("tokens_to_generate")
        default = tasks.resolve(cell.task).tokens_to_generate
        room = self.decoding.tokens_to_generate or stated or default
        prediction.predict(
            questions,
            self.loaded_engine,
            self.answers(cell),
            None if as_made else self.format,
            replace(self.decoding, tokens_to_generate=room),
            count,
            progress,
            weight=cell.length,
            cell=cell.settings(),
        )

    def predictions(self) -> Iterator[tuple[dict[str, Any], Prediction]]:
        """Yield each prediction of this run with the settings of its cell.

        Raises a DataError if a file of answers is missing or damaged.
        """
        for cell in self.cells:
            yield from self._answered(cell)

    def study_predictions(self) -> Iterator[tuple[dict[str, Any], Prediction]]:
        """Yield the same as `predictions` for the study, with ``setting`` and ``group``."""
        for cell, setting in self._studied:
            yield from self._answered(cell, **named(setting))

    def _answered(self, cell: Cell, **more: Any) -> Iterator[tuple[dict[str, Any], Prediction]]:
        path = self.answers(cell)
        recorded = store.read_settings(path)
        if "cell" in recorded:
            store.compare(path.parent, {"cell": recorded["cell"]}, {"cell": cell.settings()})
        settings = {**cell.settings(), "name": cell.name, "label": cell.label, **more}
        for record in store.evidence(path, self._num_samples(cell)):
            yield settings, record


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
