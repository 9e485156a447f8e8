"""A run: a model's answers to some tasks at some lengths, in one folder.

A run has a `rulerlib.store.cell.Cell` for each task and length, and for each row of its study.
Notebooks call the methods of `Run`.

>>> run = Run(tasks="niah_single_2,vt", length=2048)
>>> [cell.answers("runs").as_posix() for cell in run.cells]
['runs/lille/da/2048/pred/niah_single_2.jsonl', 'runs/lille/da/2048/pred/vt.jsonl']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from rulerlib import checkpoints, files, models, samples, tasks
from rulerlib import predict as prediction
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.parameters import Parameters, named
from rulerlib.parsing import notebook_parameters
from rulerlib.progress import Progress
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.samples import Prediction, Sample
from rulerlib.store import answers, questions
from rulerlib.store.cell import Cell
from rulerlib.texts import digest

# In a notebook, the fields of a format and of a decoding are parameters of their own.
_FORMAT = [item.name for item in fields(PromptFormat)]
_DECODING = {
    "temperature": "temperature", "top_p": "top_p", "decoding_seed": "seed",
    "samples_per_question": "samples", "tokens_to_generate": "tokens_to_generate",
}  # fmt: skip

# Parameters that a notebook cannot set by these names, and those of the notebook of a family only.
_NOT_SET = {"knobs", "family", "format", "decoding", "loaded", "study_name", "notes"}
_STUDY = {"study", "study_length", "study_samples"}


class Run(Parameters):
    """A run with its `Parameters`: its cells, their questions and files, and the answers."""

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
            As `Parameters` and `loaded_engine`.
        """
        knobs = [*tasks.resolve(tasks.names("all", family)[0]).settings()] if family else []
        own = cls.notebook_names() | (_STUDY if family else set())
        values = notebook_parameters(namespace, [*sorted(own), *knobs])
        if "tasks" not in values:
            raise ParameterError("tasks", None, "a name, several with commas between, or 'all'")
        given = {name: value for name, value in values.items() if value is not None}
        split = {*_FORMAT, *_DECODING}
        format_ = {name: given[name] for name in _FORMAT if name in given}
        decoding = {field: given[name] for name, field in _DECODING.items() if name in given}
        parameters = {
            **{name: value for name, value in values.items() if name in own and name not in split},
            "format": PromptFormat(**format_),
            "decoding": Decoding(**decoding),
            "knobs": {name: given[name] for name in knobs if name in given},
            "family": family,
        }
        if "source" in parameters["knobs"] and values.get("data") is None:
            run = cls._answerable(parameters)
        else:
            run = cls(**parameters)
        run.check()
        return run

    @classmethod
    def notebook_names(cls) -> set[str]:
        """Return the names of the parameters that a notebook of any task may set."""
        names = {item.name for item in fields(cls)} - _NOT_SET - _STUDY
        return names.union(_FORMAT, _DECODING)

    @classmethod
    def _answerable(cls, parameters: Mapping[str, Any]) -> Self:
        """Return a run without the tasks and rows of its study that its source cannot answer.

        A notebook's defaults fit the built-in documents. `notes` names what is left out.

        Raises
        ------
        ParameterError, DataError
            If no task is left, or a parameter cannot work with any source.
        """
        knobs = parameters["knobs"]
        built_in = {name: knobs[name] for name in knobs if name not in ("source", "train")}
        plain = cls(**{**parameters, "knobs": built_in})
        plain = replace(plain, loaded=plain.loaded_engine)
        names, notes, errors = [], [], []
        for name in plain.tasks:
            try:
                plain.dataset(plain.cell(name, plain.length, knobs))[0]
                names.append(name)
            except ParameterError as error:
                errors.append(error)
                notes.append(f"Left out: {name} ({str(error).rstrip('.')}).")
        if not names:
            raise errors[0]
        run = replace(plain, tasks=names, knobs=knobs, study=None)
        study: list[dict[str, Any]] = []
        for setting in plain.settings_of_study:
            try:
                row = replace(run, study=[setting])
                task, row_knobs = row.rows[0]
                cell = row.cell(task, plain.study_lengths[-1], row_knobs)
                row.dataset(replace(cell, queries_per_context=1))[0]
                study.append(setting)
            except ParameterError as error:
                name = named(setting)["setting"]
                notes.append(f"Left out of the study: {name} ({str(error).rstrip('.')}).")
        return replace(run, study=study, notes=notes)

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
            return tuple(self._given_cell(task, length) for task, length in self.given)
        cells = [self.cell(task, size, self.knobs) for size in self.lengths for task in self.tasks]
        return tuple(cell for cell in cells if self._fits(cell, self.length))

    @cached_property
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
        if not self.rows:
            return []
        longest = self.study_lengths[-1]
        self._check_limit("study_length", longest)
        studied = []
        for size in self.study_lengths:
            for (task, knobs), setting in zip(self.rows, self.settings_of_study, strict=True):
                cell = replace(
                    self.cell(task, size, knobs),
                    study=self.study_name or self.family or "study",
                    queries_per_context=1,
                )
                try:
                    if self._fits(cell, longest):
                        studied.append((cell, setting))
                except ParameterError as error:
                    if error.parameter != "length":
                        raise
                    raise ParameterError("study_length", error.value, error.allowed) from error
        return studied

    def cell(self, task: str, length: int, knobs: Mapping[str, Any]) -> Cell:
        """Return the cell of a task at a length; its prompts need not fit into the length."""
        row = tasks.resolve(task, **knobs)
        usual = {**tasks.resolve(task).settings(), **row.defaults(knobs)}
        texts = self.own_texts if row.reads_texts else None
        return replace(
            self._any_cell,
            task=task,
            length=length,
            knobs={name: value for name, value in knobs.items() if value != usual[name]},
            seed=self.seed,
            queries_per_context=self.queries_per_context,
            # If every prompt fits, the answers do not depend on allow_truncation.
            allow_truncation=self.allow_truncation and length > (self._limit or length),
            texts=None if texts is None else f"{Path(str(self.texts)).name}-{digest(texts)[:8]}",
            question_language=self.question_language,
            family=row.origin or None,
        )

    def _given_cell(self, task: str, length: int) -> Cell:
        """Return the cell of a file of ``data``."""
        # Another tokenizer may have counted its length.
        return replace(
            self._any_cell,
            task=task,
            length=length,
            allow_truncation=self.allow_truncation,
            texts=questions.source(self.given[task, length]),
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

    @property
    def _limit(self) -> int | None:
        """The model's limit without the tokens for thinking, or None if it is unknown."""
        limit = self.loaded_engine.limit
        return None if limit is None else limit - self.format.thinking_tokens

    def _check_limit(self, parameter: str, length: int) -> None:
        """Check a length against the model's limit, and the format against its tokenizer."""
        self.format.frame(self.loaded_engine.tokenizer)
        if self._limit is not None and length > self._limit and not self.allow_truncation:
            thinking = self.format.thinking_tokens
            without = f" without the {thinking} tokens for thinking" if thinking else ""
            raise ParameterError(
                parameter,
                length,
                f"at most {self._limit}, the limit of '{self.model}'{without}"
                " (allow_truncation=True cuts prompts in the middle and records it)",
            )

    def _fits(self, cell: Cell, longest: int) -> bool:
        """Return whether a cell's length is long enough for its task; the longest has to be."""
        try:
            self.dataset(cell)
        except ParameterError as error:
            if error.parameter != "length" or cell.length == longest:
                raise
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

    def example(self, length: int = 512) -> Sample:
        """Return a sample of the first task, of about ``length`` tokens.

        It is no longer than the run's ``length``, unless the task needs more. If ``data`` is
        given, it is the first sample there.

        Raises
        ------
        ParameterError
            If the task needs more than 16 times ``length``.
        """
        if self.given:
            return next(samples.read(next(iter(self.given.values())), Sample))
        length = min(length, self.length)
        cell = self.cell(self.tasks[0], length, self.knobs)
        for size in range(length, 16 * length, 64):
            try:
                # The needle of the first sample is at the very beginning, so take the second.
                return self.dataset(replace(cell, length=size))[min(1, self.num_samples - 1)]
            except ParameterError as error:
                if error.parameter != "length":
                    raise
        raise ParameterError("length", length, "longer")

    def _num_samples(self, cell: Cell) -> int:
        return self.num_samples if cell.study is None else self.study_samples

    def _is_given(self, cell: Cell) -> bool:
        return bool(self.given) and cell.study is None

    def count(self, cell: Cell) -> int:
        """Return how many samples of a cell are asked."""
        count = self._num_samples(cell)
        return min(count, questions.count(self.questions(cell))) if self._is_given(cell) else count

    def _tokens_to_generate(self, cell: Cell) -> int:
        if not self._is_given(cell):
            return self.dataset(cell).tokens_to_generate
        stated = questions.metadata(self.questions(cell)).get("tokens_to_generate")
        default = tasks.resolve(cell.task).tokens_to_generate
        return int(self.decoding.tokens_to_generate or stated or default)

    def repeats(self, cell: Cell) -> float | None:
        """Return how often a sentence is repeated in a haystack, see `Dataset.repeats`."""
        return None if self._is_given(cell) else self.dataset(cell).repeats

    def overview(self) -> list[dict[str, Any]]:
        """Return a row for each cell: task, length, number of samples, and tokens to generate."""
        return [
            {
                "task": cell.label,
                "length": cell.length,
                "samples": self.count(cell),
                "tokens to generate": self._tokens_to_generate(cell),
            }
            for cell in self.cells
        ]

    # --- Files and answers -----------------------------------------------------------------------

    def questions(self, cell: Cell) -> Path:
        """Return the file of a cell's questions, or that of ``data``."""
        if self._is_given(cell):
            return self.given[cell.task, cell.length]
        return cell.questions(self.root)

    def answers(self, cell: Cell) -> Path:
        """Return the file of a cell's answers."""
        return cell.answers(self.root)

    def make_data(self, cells: Sequence[Cell] | None = None) -> list[Path]:
        """Write the questions of some cells (default: `cells`), or reuse existing files.

        Raises
        ------
        RunMismatchError, DataError, BusyError, ParameterError
            As `dataset` and `rulerlib.store.questions.write`.
        """
        cells = self.cells if cells is None else cells
        for cell in cells:
            if not self._is_given(cell):
                questions.write(self.dataset(cell), self.questions(cell).parent)
        return [self.questions(cell) for cell in cells]

    def predict(self, progress: Progress | None = None) -> list[Path]:
        """Ask the model all questions that it has not answered yet.

        Parameters
        ----------
        progress
            A bar that counts in the unit of `work`. If None, a new one.

        Returns
        -------
        list of Path
            The file of answers of each cell.

        Raises
        ------
        RulerError
            As `make_data` and `rulerlib.predict.predict`.
        """
        return self._predict(self.cells, f"{self.name}, {self.language}", progress)

    def predict_study(self, progress: Progress | None = None) -> list[Path]:
        """Ask the model the questions of the study, see `predict`."""
        return self._predict(self.study_cells, f"{self.name}, {self.language}, study", progress)

    def _predict(self, cells: Sequence[Cell], title: str, progress: Progress | None) -> list[Path]:
        if not cells:
            return []
        if progress is None:
            with Progress(self.work(cells), title) as bar:
                return self._predict(cells, title, bar)
        self.make_data(cells)
        longest = max(cell.length for cell in cells)
        models.reserve(self.loaded_engine, longest + self.format.thinking_tokens)
        for cell in cells:
            self.ask(cell, self.count(cell), progress=progress)
        return [self.answers(cell) for cell in cells]

    def ask(self, cell: Cell, count: int, **options: Any) -> None:
        """Ask the first questions of a cell; ``options`` are those of `rulerlib.predict`."""
        as_made = self._is_given(cell) and self.format == PromptFormat()
        prediction.predict(
            self.questions(cell),
            self.loaded_engine,
            self.answers(cell),
            None if as_made else self.format,
            replace(self.decoding, tokens_to_generate=self._tokens_to_generate(cell)),
            count,
            cell.allow_truncation,
            cell=cell.settings(),
            weight=prediction.cost(cell.length),
            sentence_repeats=self.repeats(cell),
            **options,
        )

    def work(self, cells: Sequence[Cell]) -> float:
        """Return the sum of `rulerlib.predict.cost` over all answers of some cells."""
        once = sum(prediction.cost(cell.length) * self.count(cell) for cell in cells)
        return once * self.decoding.samples

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
        recorded = answers.read_settings(path)
        if "cell" in recorded:
            questions.compare(path.parent, {"cell": recorded["cell"]}, {"cell": cell.settings()})
        predictions, counts = answers.evidence(path, self._num_samples(cell))
        settings = {**cell.settings(), "name": cell.name, "label": cell.label, **more, **counts}
        for record in predictions:
            yield settings, record

    def cost(self) -> list[dict[str, Any]]:
        """Return a row for each cell with the tokens read and generated, and their sums.

        All prompt tokens count, also those found in a cache and those of answers that were on disk
        before. Raises a DataError as `predictions` does.
        """
        rows: list[dict[str, Any]] = []
        for cell in self.cells:
            others = [record.others for _, record in self._answered(cell)]
            rows.append(
                {
                    "task": cell.label,
                    "length": f"{cell.length:,}",
                    "n": len(others),
                    "prompt tokens": sum(each.get("prompt_tokens", 0) for each in others),
                    "generated tokens": sum(each["tokens_generated"] for each in others),
                    "cut off": sum(not each["finished"] for each in others),
                }
            )
        names = ("n", "prompt tokens", "generated tokens", "cut off")
        sums = {name: sum(row[name] for row in rows) for name in names}
        return [*rows, {"task": "together", "length": "", **sums}]
