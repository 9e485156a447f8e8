"""The book's results: tables from a settings file, and the tables of a page.

``make results`` runs a model with the settings of a file such as ``params/results.yaml`` and writes
the tables of the page of results. Runs resume; the tables are small enough to be committed. Each
cell of the accuracy stores which samples were right, so anyone can repeat some of them and compare.

>>> plan = Plan(lengths={512: 4}, languages=["da"], tasks="niah_single_1")
>>> plan.settings("da", 512)["num_samples"]
4
"""

from __future__ import annotations

import functools
import importlib
import json
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rulerlib
from book import stored
from rulerlib import files, models, store, tasks
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, MissingExtraError, ParameterError, nearest, whole_number
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.runs import Run
from rulerlib.store import Cell
from rulerlib.texts import digest

if TYPE_CHECKING:
    import pandas as pd

ABOUT = "about"

TABLES = (
    "accuracy", "averages", "summary", "effective", "depths", "studies", "matchings", "errors",
    "examples",
)  # fmt: skip

# Decimals of a committed number; few enough that machines agree.
DECIMALS = 6

# Characters of a quoted answer.
QUOTED = 400

_TEXTS = (
    "name", "value", "model", "language", "task", "study", "group", "setting", "measure",
    "category", "right", "answers", "dataset", "missing", "effective", "effective low",
    "effective high", "effective strict", "unbroken", "reading", "shares", "error", "outputs",
    "depths", "pred",
)  # fmt: skip

# Columns that hold lists or dictionaries, written as JSON.
_JSON = {"outputs", "depths", "shares"}

NONE_YET = "No results are committed yet; run `make results`."

WRITTEN_WITH = ("torch", "transformers", "tokenizers", "numpy", "pandas", "scipy", "wordfreq")


@dataclass(frozen=True)
class Plan:
    """The settings of the page of results, checked on creation.

    Parameters
    ----------
    model, engine, engine_options
        As in `rulerlib.runs.Run`; float32 gives the same answers on every machine.
    languages, tasks
        A task that does not fit a length is left out there.
    lengths
        Number of samples for each length in tokens.
    trained
        Training length in tokens; marked in figures.
    thresholds
        Thresholds of the effective length, in percent; the page uses the first.
    studies
        For each name ``task``, ``lengths`` in tokens, ``samples`` of each and ``settings``: a list
        of knobs, as `rulerlib.runs.Run` takes it for ``study``.
    seed, output
        As in `rulerlib.runs.Run`.
    bins, examples
        Rows of the heatmaps, and quoted wrong answers per kind and language.

    Raises
    ------
    ParameterError
        If any of them cannot work.
    """

    model: str = "lille"
    engine: str = "transformers"
    engine_options: dict[str, Any] = field(default_factory=dict)
    languages: Sequence[str] = ("da", "en")
    tasks: str | Sequence[str] = "all"
    lengths: Mapping[int, int] = field(default_factory=lambda: {1024: 100})
    trained: int | None = None
    thresholds: Sequence[float] = (85.6,)
    studies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seed: int = 42
    output: str = "runs/results"
    bins: int = 10
    examples: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.lengths, Mapping) or not self.lengths:
            raise ParameterError("lengths", self.lengths, "a number of samples for each length")
        for name in ("languages", "thresholds"):
            value = getattr(self, name)
            if not isinstance(value, (list, tuple)) or not value:
                raise ParameterError(name, value, "a list with at least one entry")
        if self.trained is not None:
            whole_number("trained", self.trained, 1)
        whole_number("bins", self.bins, 1)
        whole_number("examples", self.examples, 1)
        if not isinstance(self.studies, Mapping):
            raise ParameterError("studies", self.studies, "settings by name")
        wanted = {"task", "lengths", "samples", "settings"}
        for name, study in self.studies.items():
            if not isinstance(study, Mapping) or set(study) != wanted:
                raise ParameterError(f"studies.{name}", study, f"{', '.join(sorted(wanted))}")
            lengths = study["lengths"]
            if not isinstance(lengths, (list, tuple)) or not lengths:
                raise ParameterError(f"studies.{name}.lengths", lengths, "a list of lengths")
            for length in lengths:
                whole_number(f"studies.{name}.lengths", length, 1)
        # Runs check the rest.
        for language in self.languages:
            for length in self.lengths:
                Run(tasks=self.tasks, **self.settings(language, length))
            for name in self.studies:
                Run(**self._study(name, language))

    @classmethod
    def from_file(cls, path: str | Path) -> Plan:
        """Return the plan of a YAML file.

        Raises
        ------
        DataError
            If it cannot be read.
        ParameterError
            If a name in it is unknown, or a value cannot work.
        MissingExtraError
            If `pyyaml` is not installed.
        """
        try:
            import yaml
        except ImportError as error:
            raise MissingExtraError("pyyaml", "notebook", "Reading a file of settings") from error
        try:
            settings = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise DataError(f"{path}: cannot be read ({error}).") from error
        if not isinstance(settings, dict):
            raise DataError(f"{path}: not a list of settings.")
        known = [item.name for item in fields(cls)]
        for name in settings:
            if name not in known:
                raise ParameterError("the parameter name", name, nearest(name, known))
        return cls(**settings)

    def settings(self, language: str, length: int) -> dict[str, Any]:
        """Return the arguments of a run in one language at one length, without its tasks."""
        return {
            "model": self.model,
            "engine": self.engine,
            "engine_options": dict(self.engine_options),
            "language": language,
            "length": length,
            "num_samples": self.lengths[length],
            "seed": self.seed,
            "output": self.output,
        }

    def _study(self, name: str, language: str) -> dict[str, Any]:
        study = self.studies[name]
        return {
            **self.settings(language, min(self.lengths)),
            "length": max(study["lengths"]),
            "tasks": study["task"],
            "study": study["settings"],
            "study_length": study["lengths"],
            "study_samples": study["samples"],
            "study_name": name,
        }

    def study_runs(self, language: str) -> Iterator[tuple[str, Run]]:
        """Yield the name and the run of every study, in one language."""
        for name in self.studies:
            yield name, Run(**self._study(name, language), loaded=self.loaded_engine)

    @functools.cached_property
    def loaded_engine(self) -> models.Model:
        """One engine for all runs, so the weights are loaded once."""
        return models.load(self.model, self.engine, **self.engine_options)

    def fitting(self, language: str, length: int) -> Iterator[Run]:
        """Yield the run of each task that fits this length."""
        for name in tasks.names(self.tasks):
            run = self.run(name, language, length)
            try:
                _ = run.cells
            except ParameterError as error:
                if error.parameter != "length":
                    raise
            else:
                yield run

    def run(self, task: str, language: str, length: int, samples: int | None = None) -> Run:
        """Return the run of one task in one language at one length."""
        settings = self.settings(language, length)
        if samples is not None:
            settings["num_samples"] = samples
        return Run(tasks=task, **settings, loaded=self.loaded_engine)


def make(plan: Plan, folder: str | Path, ask: bool = True) -> Path:
    """Query the model for missing answers, write tables and answers, and return the folder.

    Parameters
    ----------
    folder
        Folder of the tables, for example ``book/results/lille``. The answers go to the folder
        next to it with the name of the model.
    ask
        If False, do not query the model; the tables have the answers at hand, however few.

    Returns
    -------
    Path
        ``folder``.

    Raises
    ------
    ParameterError
        If every length is too short for every task, or something else in the plan cannot work.
    """
    main = [
        run
        for length in sorted(plan.lengths)
        for language in plan.languages
        for run in plan.fitting(language, length)
    ]
    if not main:
        raise ParameterError("lengths", dict(plan.lengths), "long enough for at least one task")
    studies = [named for language in plan.languages for named in plan.study_runs(language)]
    if not ask:
        main = [
            plan.run(cell.task, cell.language, cell.length, number)
            for run in main
            for cell in run.cells
            if (number := _answered(run, cell))
        ]
        studies = [
            (name, run)
            for name, run in studies
            if all(_answered(run, cell) >= run.count(cell) for cell in run.study_cells)
        ]
    # Check everything before the first prompt.
    for run in [*main, *(run for _, run in studies)]:
        run.check()
    for run in main:
        run.predict()
    for _, run in studies:
        run.predict_study()
    folder = Path(folder)
    for name, table in tabulate(plan, main, studies).items():
        with files.replacing(folder / f"{name}.csv") as file:
            table.round(DECIMALS).to_csv(file, index=False, lineterminator="\n")
    # One file of answers per model, also if it has several plans.
    answered = main[0].answers(main[0].cells[0]).parents[3]
    stored.pack(answered, folder.parent / Path(plan.model).name)
    return folder


def _answered(run: Run, cell: Cell) -> int:
    """Return the number of questions of a cell with all of their answers."""
    path = run.answers(cell)
    if not path.exists():
        return 0
    return sum(1 for _ in store.read_predictions(path)) // run.decoding.samples


def tabulate(
    plan: Plan, main: Sequence[Run], studies: Sequence[tuple[str, Run]]
) -> dict[str, pd.DataFrame]:
    """Return the tables of the predictions on disk by name: those in ``TABLES``, and ``about``.

    Parameters
    ----------
    main
        The run of each language and length.
    studies
        The runs of the studies, each with its name.
    """
    import pandas as pd

    from book.matchings import matchings
    from rulerlib import analysis

    scores = analysis.scores(pair for run in main for pair in run.predictions())
    accuracy = analysis.accuracy(scores)
    cells = dict(list(analysis.of_measure(scores).groupby(list(analysis.BY), sort=False)))
    keys = list(accuracy[list(analysis.BY)].itertuples(index=False, name=None))
    accuracy["right"] = [right(cells[key]) for key in keys]
    accuracy["answers"] = [digest(cells[key]["pred"]) for key in keys]
    datasets = {
        (run.name, cell.language, cell.task, cell.length): fingerprint(run.dataset(cell))
        for run in main
        for cell in run.cells
    }
    accuracy["dataset"] = [datasets[key] for key in keys]
    effective = pd.concat([analysis.effective_lengths(scores, each) for each in plan.thresholds])
    by = ("model", "language", "group", "setting", "length")
    studied = [
        analysis.accuracy(analysis.scores(run.study_predictions()), by=by).assign(study=name)
        for name, run in studies
        if run.study
    ]
    languages = (part for _, part in scores.groupby("language", sort=False))
    examples = pd.concat([analysis.error_examples(part, plan.examples) for part in languages])
    if len(examples):
        examples["pred"] = examples["pred"].str.strip().str.slice(0, QUOTED)
    for table in (effective, examples):
        for column in _JSON & {*table}:
            table[column] = [json.dumps(each, ensure_ascii=False) for each in table[column]]
    return {
        "accuracy": accuracy,
        "averages": analysis.by_length(scores),
        "summary": analysis.summary(scores, plan.thresholds[0]),
        "effective": effective,
        "depths": analysis.by_depth(scores, plan.bins),
        "studies": pd.concat(studied) if studied else pd.DataFrame(),
        "matchings": matchings(scores),
        "errors": analysis.errors(scores),
        "examples": examples,
        ABOUT: about(plan),
    }


def about(plan: Plan) -> pd.DataFrame:
    """Return settings, weights and versions as ``name`` and ``value``."""
    import pandas as pd

    rows = {"rulerlib": rulerlib.__version__, "python": platform.python_version()}
    rows |= {name: version for name in WRITTEN_WITH if (version := _version(name))}
    rows |= {str(name): str(value) for name, value in plan.loaded_engine.settings.items()}
    rows["decoding"] = str(plan.loaded_engine.decoding(Decoding()))
    # The tokenizer decides whether there is a chat template.
    rows["chat"] = json.dumps(PromptFormat().frame(plan.loaded_engine.tokenizer).chat)
    rows |= {name: json.dumps(value, ensure_ascii=False) for name, value in asdict(plan).items()}
    return pd.DataFrame(rows.items(), columns=["name", "value"])


def fingerprint(dataset: Dataset, version: str | None = None) -> str:
    """Return a short hash of everything that determines a dataset.

    Parameters
    ----------
    version
        Version of `rulerlib`. Default: this version.
    """
    metadata = {**dataset.metadata, "rulerlib": version or rulerlib.__version__}
    return digest([json.dumps(metadata, sort_keys=True)])


def _version(package: str) -> str:
    try:
        return str(importlib.import_module(package).__version__)
    except (ImportError, AttributeError):
        from importlib import metadata

        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return ""


def right(table: pd.DataFrame) -> str:
    """Return which samples of a cell are right, by index: ``"1101"``."""
    ordered = table.sort_values("index")["value"]
    return "".join("1" if value == 1 else "0" for value in ordered)


class Tables:
    """The committed tables, by name: ``tables.accuracy``, ``tables.about``, ...

    Without committed results, tables are empty and display a note. A table that cannot be read
    raises a DataError.
    """

    names: tuple[str, ...] = (*TABLES, ABOUT)
    none_yet = NONE_YET

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    @property
    def there(self) -> bool:
        """Whether results are committed."""
        return (self._folder / f"{ABOUT}.csv").exists()

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name not in self.names:
            raise AttributeError(name)
        return self._read(name)

    def _read(self, name: str) -> pd.DataFrame:
        import pandas as pd

        from rulerlib import analysis

        if not self.there:
            return analysis.nothing(self.none_yet)
        path = self._folder / f"{name}.csv"
        texts = self.texts(name)
        try:
            header = pd.read_csv(path, nrows=0).columns
            # "None" and "NA" are valid texts; only numbers can be missing.
            table = pd.read_csv(
                path,
                dtype={column: str for column in header if column in texts},
                keep_default_na=False,
                na_values={column: [""] for column in header if column not in texts},
            )
        except pd.errors.EmptyDataError:
            return analysis.nothing("Nothing of this kind was found.")
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read ({error}).") from error
        for column in _JSON & {*table}:
            table[column] = [json.loads(value) for value in table[column]]
        return table if len(table) else analysis.nothing("Nothing of this kind was found.")

    def texts(self, name: str) -> set[str]:
        """Return the columns of a table that are text even where all of it looks like numbers."""
        return {*_TEXTS, *(("low", "high") if name == "effective" else ())}

    def between(self, first: str, second: str) -> pd.DataFrame:
        """Return how the scores in two languages differ, task by task.

        Parameters
        ----------
        first, second
            Codes of languages. A positive difference is in favour of the first.

        Returns
        -------
        DataFrame
            A row for each task and length asked in both: the two means, their difference and its
            95% interval, from those of the means (`rulerlib.intervals.recovered`): the samples
            of two languages are drawn apart. Empty if no task was measured in both.
        """
        import pandas as pd

        from rulerlib import analysis
        from rulerlib.intervals import recovered

        if self.accuracy.empty:
            return self.accuracy
        rows = self.accuracy.set_index(["model", "task", "length", "language"])
        ours, theirs = (
            rows[rows.index.get_level_values("language") == code].droplevel("language")
            for code in (first, second)
        )
        both = [place for place in ours.index if place in theirs.index]
        columns = ["mean", "low", "high"]
        found = []
        for place in both:
            one, other = ours.loc[place], theirs.loc[place]
            low, high = recovered(tuple(one[columns]), tuple(other[columns]), 0.0)
            found.append(
                dict(zip(rows.index.names[:3], place, strict=True))
                | {"n": min(one["n"], other["n"]), first: one["mean"], second: other["mean"]}
                | {"difference": one["mean"] - other["mean"], "low": low, "high": high}
            )
        return (
            pd.DataFrame(found)
            if found
            else analysis.nothing(f"Not asked in both {first} and {second}.")
        )

    @property
    def reach(self) -> pd.DataFrame:
        """The effective length of each task alone.

        The reading is ``unbroken``, with RULER's score and threshold. ``<1K``: below the threshold
        at the shortest length; ``≥2K``: above it at all measured lengths.
        """
        import pandas as pd

        from rulerlib.analysis.averages import THRESHOLD, effective

        if self.accuracy.empty:
            return self.accuracy
        keys = ["model", "language", "task"]
        rows = []
        for names, part in self.accuracy.groupby(keys, sort=False):
            scores = part["recall"].fillna(part["mean"])
            averages = dict(zip(part["length"], (100 * scores).tolist(), strict=True))
            reached = str(effective(averages, THRESHOLD, "unbroken"))
            rows.append({**dict(zip(keys, names, strict=True)), "up to": reached})
        return pd.DataFrame(rows)

    @property
    def parted(self) -> pd.DataFrame:
        """The cells of ``matchings`` in which the two rules disagree on an answer."""
        from rulerlib import analysis

        rows = self.matchings
        if rows.empty:
            return rows
        counts, by = ["not_whole", "others_too", "recall_differs"], [*analysis.BY, "n"]
        apart = rows.loc[(rows[counts] > 0).any(axis=1), [*by, "recall", "item_recall", *counts]]
        return apart if len(apart) else analysis.nothing("Both rules agree on every answer.")

    @property
    def versions(self) -> pd.DataFrame:
        """Settings and versions, without the studies, which are long."""
        about = self.about
        return about if about.empty else about[about["name"] != "studies"]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the plan; empty without committed results."""
        if not self.there:
            return {}
        values = dict(self.about.itertuples(index=False, name=None))
        return {
            item.name: json.loads(values[item.name]) for item in fields(Plan) if item.name in values
        }

    @property
    def plan(self) -> Plan:
        """The plan of the tables.

        Raises
        ------
        DataError
            If no results are committed.
        """
        settings = self.settings
        if not settings:
            raise DataError(f"{self._folder}: {self.none_yet}")
        for study in settings["studies"].values():
            # Version 0.1.0 had one length.
            study.setdefault("lengths", [study.pop("length", None)])
        # Keys are strings in JSON.
        lengths = {int(length): count for length, count in settings["lengths"].items()}
        return Plan(**{**settings, "lengths": lengths})

    def parts(self, name: str, *by: str) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yield the parts of a table by some columns, with titles; an empty table is one part."""
        table = self._read(name)
        if table.empty:
            yield "", table
            return
        for names, part in table.groupby(list(by), sort=False):
            yield titled(names), part


def titled(names: Iterable[Any]) -> str:
    """Return names and numbers as a title, numbers with commas: ``lille, da, 1,000``."""
    return ", ".join(f"{name:,}" if isinstance(name, Integral) else str(name) for name in names)


def main(arguments: Sequence[str]) -> None:
    """Make the tables: ``python -m book.tables params/results.yaml book/results/lille``.

    ``--answered`` makes them from the answers at hand and does not query the model.
    """
    paths = [argument for argument in arguments if argument != "--answered"]
    if len(paths) != 2:
        sys.exit("Usage: python -m book.tables [--answered] SETTINGS.yaml FOLDER")
    try:
        folder = make(Plan.from_file(paths[0]), paths[1], ask="--answered" not in arguments)
    except rulerlib.errors.RulerError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    print(f"The tables: {folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
