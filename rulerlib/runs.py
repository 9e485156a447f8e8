"""A run: one model asked many tasks at many lengths, in one folder.

A `Run` makes `rulerlib.store.cell.Cell` values: one for each task and length, and one for each
row of its study. Each cell knows where its questions and its answers stand. The notebooks are a
skin over this class.

>>> run = Run(tasks="niah_single_2,vt", length=2048)
>>> [cell.answers("runs").as_posix() for cell in run.cells]
['runs/lille/da/2048/pred/niah_single_2.jsonl', 'runs/lille/da/2048/pred/vt.jsonl']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from rulerlib import checkpoints, files, models, samples, tasks
from rulerlib import predict as prediction
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError, require
from rulerlib.fields import notebook_parameters
from rulerlib.parameters import Parameters, named
from rulerlib.progress import Progress
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.samples import Prediction, Sample
from rulerlib.store import answers, questions
from rulerlib.store.cell import Cell
from rulerlib.texts import digest

# Notebooks have the fields of these two values as parameters of their own.
_FORMAT = [item.name for item in fields(PromptFormat)]
_DECODING = {
    "temperature": "temperature", "top_p": "top_p", "decoding_seed": "seed",
    "samples_per_question": "samples", "tokens_to_generate": "tokens_to_generate",
}  # fmt: skip

# What a notebook cannot set, or not by this name; and what only the notebook of a family can.
_NOT_SET = {"knobs", "family", "format", "decoding", "loaded", "study_name", "notes"}
_STUDY = {"study", "study_length", "study_samples"}


@dataclass(frozen=True)
class Run(Parameters):
    """A run with its `Parameters`: its cells, their datasets and files, and the model's answers."""

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any], family: str | None = None) -> Self:
        """Return a run with the parameters that stand in a notebook.

        papermill accepts any ``-p name value`` and only warns of a name that the notebook does not
        know; here such a name is an error.

        Parameters
        ----------
        namespace
            ``globals()``, before anything but parameters was set.
        family
            The family whose tasks the notebook may run, and whose knobs are parameters too. None:
            any tasks, with the knobs that all of RULER's have, and no study.

        Raises
        ------
        ParameterError
            If a name is unknown or a value cannot work.
        DataError, MissingExtraError
            As `Parameters` and `loaded_engine`.
        """
        settable = {item.name for item in fields(cls)} - _NOT_SET - (set() if family else _STUDY)
        knobs = [*tasks.TASKS[tasks.names("all", family)[0]].settings()] if family else []
        values = notebook_parameters(namespace, [*sorted(settable), *_FORMAT, *_DECODING, *knobs])
        set_ = {name: value for name, value in values.items() if value is not None}
        require("tasks" in values, "tasks", None, "a name, several with commas between, or 'all'")
        parameters = {
            **{name: value for name, value in values.items() if name in settable},
            "format": PromptFormat(**{name: set_[name] for name in _FORMAT if name in set_}),
            "decoding": Decoding(**{kept: set_[n] for n, kept in _DECODING.items() if n in set_}),
            "knobs": {name: set_[name] for name in knobs if name in set_},
            "family": family,
        }
        if "source" in parameters["knobs"] and values.get("data") is None:
            run = cls._answerable(parameters)
        else:
            run = cls(**parameters)
        run.check()
        return run

    @classmethod
    def _answerable(cls, parameters: Mapping[str, Any]) -> Self:
        """Return a run without the tasks and rows of a study that its source cannot answer.

        The defaults of a notebook are made for the built-in documents. What a file cannot answer
        is left out, and the ``notes`` say so.

        Raises
        ------
        ParameterError, DataError
            If no task is left, or a parameter cannot work with any source.
        """
        knobs = parameters["knobs"]
        built_in = {name: knobs[name] for name in knobs if name not in ("source", "train")}
        plain = cls(**{**parameters, "knobs": built_in})
        plain = replace(plain, loaded=plain.loaded_engine)
        names, notes, errors = list[str](), list[str](), list[ParameterError]()
        for name in plain.tasks:
            try:
                _ = plain.dataset(plain.cell(name, plain.length, knobs))[0]
            except ParameterError as error:
                errors.append(error)
                notes.append(f"Left out: {name} ({str(error).rstrip('.')}).")
            else:
                names.append(name)
        if not names:
            raise errors[0]
        run = replace(plain, tasks=names, knobs=knobs, study=None)
        study = list[Mapping[str, Any]]()
        for setting in plain.settings_of_study:
            try:
                row = replace(run, study=[setting])
                ((task, row_knobs),) = row.rows
                cell = row.cell(task, plain.study_lengths[-1], row_knobs)
                _ = row.dataset(replace(cell, queries_per_context=1))[0]
            except ParameterError as error:
                name = named(setting)["setting"]
                notes.append(f"Left out of the study: {name} ({str(error).rstrip('.')}).")
            else:
                study.append(setting)
        return replace(run, study=study, notes=notes)

    @classmethod
    def notebook_names(cls) -> set[str]:
        """Return the names of the parameters that a notebook of any task may set."""
        names = {item.name for item in fields(cls)} - _NOT_SET - _STUDY
        return names.union(_FORMAT, _DECODING)

    def check(self) -> None:
        """Check all that can be checked before anything expensive starts.

        Raises
        ------
        ParameterError
            If a length does not work for the model or a task, or if the output folder cannot be
            written or has no room for the questions and answers.
        """
        _ = self.cells, self.study_cells
        files.check_writable(self.root)

    # --- What is asked -------------------------------------------------------------------------

    @cached_property
    def loaded_engine(self) -> models.Model:
        """The engine; its weights are loaded with the first prompt.

        Raises
        ------
        ParameterError, MissingExtraError
            As `rulerlib.models.load`.
        """
        if self.loaded is not None:
            return self.loaded
        return models.load(self.model, self.engine, **self.engine_options)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every task at every length, short lengths first.

        Raises
        ------
        ParameterError
            If ``length`` itself is too short for a task or too long for the model.
        """
        self._check_limit("length", self.length)
        if self.given:
            return tuple(self._given_cell(*at) for at in self.given)
        cells = (self.cell(task, size, self.knobs) for size in self.lengths for task in self.tasks)
        return tuple(cell for cell in cells if self._fits(cell, self.length))

    @cached_property
    def study_cells(self) -> tuple[Cell, ...]:
        """The cells of the study, in folders of their own: each of its rows at each length.

        Raises
        ------
        ParameterError
            If the longest of ``study_length`` is too short for a task or too long for the model.
        """
        return tuple(cell for cell, _ in self._studied)

    @cached_property
    def _studied(self) -> tuple[tuple[Cell, Mapping[str, Any]], ...]:
        """Each cell of the study with its row; short lengths first."""
        if not self.rows:
            return ()
        longest = self.study_lengths[-1]
        self._check_limit("study_length", longest)
        name = self.study_name or self.family or "study"
        cells = [
            # Few samples of short prompts, with knobs that may not allow for shared contexts.
            (replace(self.cell(task, size, knobs), study=name, queries_per_context=1), setting)
            for size in self.study_lengths
            for (task, knobs), setting in zip(self.rows, self.settings_of_study, strict=True)
        ]
        try:
            return tuple(pair for pair in cells if self._fits(pair[0], longest))
        except ParameterError as error:
            if error.parameter != "length":
                raise
            raise ParameterError("study_length", error.value, error.allowed) from error

    def cell(self, task: str, length: int, knobs: Mapping[str, Any]) -> Cell:
        """Return the cell of a task at a length, whether its prompts fit there or not."""
        row = tasks.resolve(task, **knobs)
        usual = {**tasks.resolve(task).settings(), **row.family.defaults(knobs)}
        texts = self.own_texts if row.reads_texts else None
        return replace(
            self._usual_cell,
            task=task,
            length=length,
            knobs={name: value for name, value in knobs.items() if value != usual[name]},
            seed=self.seed,
            queries_per_context=self.queries_per_context,
            # Where everything fits, nothing can be cut, and the answers are the same.
            allow_truncation=self.allow_truncation and length > (self._longest or length),
            texts=None if texts is None else f"{Path(str(self.texts)).name}-{digest(texts)[:8]}",
            question_language=self.question_language,
            family=row.family.origin or None,
        )

    def _given_cell(self, task: str, length: int) -> Cell:
        # What a file calls its length may have been counted by another tokenizer.
        return replace(
            self._usual_cell, task=task, length=length, allow_truncation=self.allow_truncation,
            texts=questions.source(self.given[task, length]),
        )  # fmt: skip

    @cached_property
    def _usual_cell(self) -> Cell:
        """A cell with all that the cells of this run have in common."""
        engine = self.loaded_engine
        templated = engine.tokenizer.chat_template is not None
        chat = None if self.format.chat == templated else self.format.chat
        return Cell(
            self.name, self.tasks[0], self.language, self.length, engine=self.engine,
            options=models.recorded(engine, self.engine_options),
            weights=checkpoints.short_weights(self.model, self.engine),
            format=replace(self.format, chat=chat), decoding=self.decoding,
        )  # fmt: skip

    @property
    def _longest(self) -> int | None:
        """Tokens that the model takes beside room for thinking; None where that is unknown."""
        limit = self.loaded_engine.limit
        return None if limit is None else limit - self.format.thinking_tokens

    def _check_limit(self, parameter: str, length: int) -> None:
        """Check a length against the model's limit, and the format against its tokenizer."""
        thinking, most = self.format.thinking_tokens, self._longest
        _ = self.format.frame(self.loaded_engine.tokenizer)
        if most is not None and length > most and not self.allow_truncation:
            beside = f" beside {thinking} for thinking" if thinking else ""
            raise ParameterError(
                parameter,
                length,
                f"at most {most}, what '{self.model}' can take{beside} (allow_truncation=True cuts"
                " prompts in the middle and says so in every record)",
            )

    def _fits(self, cell: Cell, longest: int) -> bool:
        """Return whether a cell's length is long enough; the longest length has to be."""
        try:
            self.dataset(cell)
        except ParameterError as error:
            if error.parameter != "length" or cell.length == longest:
                raise
            return False
        return True

    def dataset(self, cell: Cell) -> Dataset:
        """Return the samples of a cell, made on demand.

        Raises
        ------
        ParameterError
            If its length is too short.
        """
        if cell not in self._datasets:
            self._datasets[cell] = Dataset(
                cell.task, cell.length, cell.language, self.loaded_engine.tokenizer,
                num_samples=self._most(cell), seed=cell.seed, format=self.format,
                texts=None if cell.texts is None else self.own_texts, knobs=dict(cell.knobs),
                queries_per_context=cell.queries_per_context, room=cell.decoding.tokens_to_generate,
                question_language=cell.question_language,
            )  # fmt: skip
        return self._datasets[cell]

    @cached_property
    def _datasets(self) -> dict[Cell, Dataset]:
        return {}

    def example(self, length: int = 512) -> Sample:
        """Return a sample of the first task to be looked at, of about ``length`` tokens.

        It is no longer than the run's ``length``, unless the task needs more. Where ``data`` is
        given it is the first sample there, whatever its length.

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
                # The second sample: the first one's needle stands at the very beginning.
                return self.dataset(replace(cell, length=size))[min(1, self.num_samples - 1)]
            except ParameterError as error:
                if error.parameter != "length":
                    raise
        raise ParameterError("length", length, "longer")

    def _most(self, cell: Cell) -> int:
        return self.num_samples if cell.study is None else self.study_samples

    def count(self, cell: Cell) -> int:
        """Return how many samples of a cell are asked."""
        most = self._most(cell)
        return min(most, questions.count(self.questions(cell))) if self._is_given(cell) else most

    def _room(self, cell: Cell) -> int:
        """Return the tokens to generate, those for thinking not among them."""
        if not self._is_given(cell):
            return self.dataset(cell).tokens_to_generate
        stated = questions.metadata(self.questions(cell)).get("tokens_to_generate")
        room = self.decoding.tokens_to_generate or stated
        return int(room or tasks.resolve(cell.task).tokens_to_generate)

    def _format(self, cell: Cell) -> PromptFormat | None:
        """Return how questions are put; None, where nothing is set: as they were made for."""
        return None if self._is_given(cell) and self.format == PromptFormat() else self.format

    def repeats(self, cell: Cell) -> float | None:
        """Return how often a sentence stands in a haystack, see `Dataset.repeats`."""
        return None if self._is_given(cell) else self.dataset(cell).repeats

    def _is_given(self, cell: Cell) -> bool:
        return bool(self.given) and cell.study is None

    def overview(self) -> list[dict[str, Any]]:
        """Return a row for each cell: task, length, number of samples, and tokens to generate."""
        return [
            {"task": cell.label, "length": cell.length, "samples": self.count(cell),
             "tokens to generate": self._room(cell)}
            for cell in self.cells
        ]  # fmt: skip

    # --- Files -----------------------------------------------------------------------------------

    def questions(self, cell: Cell) -> Path:
        """Return the file of a cell's questions, that of ``data`` where it is given."""
        if self._is_given(cell):
            return self.given[cell.task, cell.length]
        return cell.questions(self.root)

    def answers(self, cell: Cell) -> Path:
        """Return the file of a cell's answers."""
        return cell.answers(self.root)

    def make_data(self, cells: Sequence[Cell] | None = None) -> list[Path]:
        """Write the questions of some cells, or reuse those that are there, and return the files.

        Where ``cells`` is None, those of all cells but the study's.

        Raises
        ------
        RunMismatchError, DataError, BusyError, ParameterError
            As `dataset` and `rulerlib.store.questions.write`.
        """
        cells = self.cells if cells is None else cells
        # All cells are checked before the first is written.
        datasets = {cell: self.dataset(cell) for cell in cells if not self._is_given(cell)}
        for cell, data in datasets.items():
            questions.write(data, self.questions(cell).parent)
        return [self.questions(cell) for cell in cells]

    def predict(self, progress: Progress | None = None) -> list[Path]:
        """Ask the model all that it was not asked yet, with one bar for everything.

        ``progress`` is a bar that counts in the unit of `work`; None: a new one.

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
        """Ask the model what the study asks; see `predict`."""
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
        prediction.predict(
            self.questions(cell), self.loaded_engine, self.answers(cell), self._format(cell),
            replace(self.decoding, tokens_to_generate=self._room(cell)), count,
            cell.allow_truncation, cell=cell.settings(), weight=prediction.cost(cell.length),
            sentence_repeats=self.repeats(cell), **options,
        )  # fmt: skip

    def work(self, cells: Sequence[Cell]) -> float:
        """Return what all answers of some cells cost together, by `rulerlib.predict.cost`."""
        once = (prediction.cost(cell.length) * self.count(cell) for cell in cells)
        return sum(once) * self.decoding.samples

    # --- What came of it -------------------------------------------------------------------------

    def predictions(self) -> Iterator[tuple[dict[str, Any], Prediction]]:
        """Yield the settings of its cell and the prediction, for all predictions of this run.

        Raises a DataError if a file of answers is missing or damaged.
        """
        for cell in self.cells:
            yield from self._answered(cell)

    def study_predictions(self) -> Iterator[tuple[dict[str, Any], Prediction]]:
        """Yield the same as `predictions` for the study.

        ``setting`` names the row of the study, and ``group`` the rows that it is compared with.
        """
        for cell, setting in self._studied:
            yield from self._answered(cell, **named(setting))

    def _answered(self, cell: Cell, **more: Any) -> Iterator[tuple[dict[str, Any], Prediction]]:
        path = self.answers(cell)
        if "cell" in (before := answers.read_settings(path)):
            wanted = {"cell": cell.settings()}
            questions.compare(path.parent, {"cell": before["cell"]}, wanted)
        predictions, counts = answers.evidence(path, self._most(cell))
        settings = {**cell.settings(), "name": cell.name, "label": cell.label, **more, **counts}
        for record in predictions:
            yield settings, record

    def cost(self) -> list[dict[str, Any]]:
        """Return a row for each cell with the tokens read and generated; the last has the sums.

        All tokens of a prompt are counted, whether they were computed or found in a cache, and
        answers that stood on disk before. Raises a DataError as `predictions` does.
        """
        rows = list[dict[str, Any]]()
        for cell in self.cells:
            records = [record for _, record in self._answered(cell)]
            rows.append(
                {
                    "task": cell.label,
                    "length": f"{cell.length:,}",
                    "n": len(records),
                    "prompt tokens": sum(one.others.get("prompt_tokens", 0) for one in records),
                    "generated tokens": sum(one.others["tokens_generated"] for one in records),
                    "cut off": sum(not one.others["finished"] for one in records),
                }
            )
        names = ("n", "prompt tokens", "generated tokens", "cut off")
        sums = {name: sum(row[name] for row in rows) for name in names}
        return [*rows, {"task": "together", "length": "", **sums}]
