"""The book's results: tables of a model's answers, from a file of settings.

``make results`` runs a model with the settings of a file such as ``params/results_smollm2.yaml``,
and writes the tables that pages show and every answer (`book.stored`). Runs resume.

>>> plan = Plan(lengths={512: 4}, languages=["da"], tasks="niah_single_1")
>>> plan.settings("da", 512)["num_samples"]
4
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rulerlib
from book import stored
from rulerlib import files, models, store, tasks
from rulerlib.errors import DataError, ParameterError, RulerError, nearest, settings_file
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.runs import Run
from rulerlib.store import Cell

if TYPE_CHECKING:
    import pandas as pd

ABOUT = "about"
TABLES = ("accuracy", "averages", "effective", "depths", "errors", "examples")

# Columns of the table of accuracy.
ACCURACY = [
    "model", "language", "task", "length", "n", "measure", "mean", "low", "high", "recall",
    "category", "right",
]  # fmt: skip

# Decimals of a committed number; few enough that machines agree.
DECIMALS = 6

# Characters of a quoted answer.
QUOTED = 400

# Columns that are text even if all of it looks like numbers.
_TEXTS = {
    "name", "value", "model", "language", "task", "measure", "category", "missing", "effective",
    "reading", "right", "shares", "error", "outputs", "depths", "pred",
}  # fmt: skip

# Columns that hold lists or dictionaries, written as JSON.
_JSON = {"outputs", "depths", "shares"}

NONE_YET = "No results are committed yet; run `make results`."

WRITTEN_WITH = ("torch", "transformers", "tokenizers", "numpy", "pandas", "scipy", "wordfreq")


@dataclass(frozen=True)
class Plan:
    """The settings of a model's tables; runs check them.

    Parameters
    ----------
    model, engine, engine_options, languages, tasks, seed, output
        As in `rulerlib.runs.Run`. A task that does not fit a length is left out there.
    lengths
        Number of samples for each length in tokens.
    thresholds
        Thresholds of the effective length, in percent.
    """

    model: str = "lille"
    engine: str = "transformers"
    engine_options: dict[str, Any] = field(default_factory=dict)
    languages: Sequence[str] = ("da", "en")
    tasks: str | Sequence[str] = "all"
    lengths: dict[int, int] = field(default_factory=lambda: {1024: 100})
    thresholds: Sequence[float] = (85.6,)
    seed: int = 42
    output: str = "runs/results"

    def __post_init__(self) -> None:
        if not isinstance(self.lengths, dict) or not self.lengths:
            raise ParameterError("lengths", self.lengths, "a number of samples for each length")
        for language in self.languages:
            for length in self.lengths:
                Run(tasks=self.tasks, **self.settings(language, length))

    @classmethod
    def from_file(cls, path: str | Path) -> Plan:
        """Return the plan of a YAML file.

        Raises
        ------
        DataError
            If it cannot be read.
        ParameterError
            If a name in it is unknown, or a value cannot work.
        """
        settings = settings_file(path, "the settings of results")
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

    @functools.cached_property
    def loaded_engine(self) -> models.Model:
        """One engine for all runs, so the weights are loaded once."""
        return models.load(self.model, self.engine, **self.engine_options)

    def runs(self) -> Iterator[Run]:
        """Yield a run for each task, language and length that fit, the shortest length first."""
        for length in sorted(self.lengths):
            for language in self.languages:
                for name in tasks.names(self.tasks):
                    run = self.run(name, **self.settings(language, length))
                    try:
                        _ = run.cells
                    except ParameterError as error:
                        if error.parameter != "length":
                            raise
                    else:
                        yield run

    def run(self, task: str, **settings: Any) -> Run:
        """Return the run of a task with this plan's engine."""
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

    Raises
    ------
    ParameterError
        If every length is too short for every task, or something else in the plan cannot work.
    """
    runs = list(plan.runs())
    if not ask:
        runs = [
            plan.run(cell.task, **plan.settings(cell.language, cell.length) | {"num_samples": n})
            for run in runs
            for cell in run.cells
            if (n := _answered(run, cell))
        ]
    if not runs:
        raise ParameterError("lengths", dict(plan.lengths), "long enough for at least one task")
    # Check everything before the first prompt.
    for run in runs:
        run.check()
    for run in runs:
        run.predict()
    folder = Path(folder)
    for name, table in tabulate(plan, runs).items():
        with files.replacing(folder / f"{name}.csv") as file:
            table.round(DECIMALS).to_csv(file, index=False, lineterminator="\n")
    # One file of answers per model, also if it has several plans.
    answered = runs[0].answers(runs[0].cells[0]).parents[3]
    stored.pack(answered, folder.parent / Path(plan.model).name)
    return folder


def _answered(run: Run, cell: Cell) -> int:
    """Return the number of questions of a cell with all of their answers."""
    path = run.answers(cell)
    if not path.exists():
        return 0
    return sum(1 for _ in store.read_predictions(path)) // run.decoding.samples


def tabulate(plan: Plan, runs: Sequence[Run]) -> dict[str, pd.DataFrame]:
    """Return the tables of the answers on disk by name: those in ``TABLES``, and ``about``."""
    import pandas as pd

    from rulerlib import analysis

    scores = analysis.scores(pair for run in runs for pair in run.predictions())
    accuracy = analysis.accuracy(scores)
    cells = dict(list(analysis.of_measure(scores).groupby(list(analysis.BY), sort=False)))
    keys = accuracy[list(analysis.BY)].itertuples(index=False, name=None)
    accuracy["right"] = [right(cells[key]) for key in keys]
    effective = pd.concat([analysis.effective_lengths(scores, each) for each in plan.thresholds])
    languages = (part for _, part in scores.groupby("language", sort=False))
    examples = pd.concat([analysis.error_examples(part) for part in languages])
    if len(examples):
        examples["pred"] = examples["pred"].str.strip().str.slice(0, QUOTED)
    for table in (effective, examples):
        for column in _JSON & {*table}:
            table[column] = [json.dumps(each, ensure_ascii=False) for each in table[column]]
    return {
        "accuracy": accuracy.reindex(columns=ACCURACY),
        "averages": analysis.by_length(scores),
        "effective": effective,
        "depths": analysis.by_depth(scores, bins=10),
        "errors": analysis.errors(scores),
        "examples": examples,
        ABOUT: about(plan),
    }


def about(plan: Plan) -> pd.DataFrame:
    """Return settings, weights and versions as ``name`` and ``value``."""
    import pandas as pd

    rows = {"rulerlib": rulerlib.__version__, "python": platform.python_version()}
    for name in WRITTEN_WITH:
        try:
            rows[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    rows |= {str(name): str(value) for name, value in plan.loaded_engine.settings.items()}
    rows["decoding"] = str(plan.loaded_engine.decoding(Decoding()))
    # The tokenizer decides whether there is a chat template.
    rows["chat"] = json.dumps(PromptFormat().frame(plan.loaded_engine.tokenizer).chat)
    rows |= {name: json.dumps(value, ensure_ascii=False) for name, value in asdict(plan).items()}
    return pd.DataFrame(rows.items(), columns=["name", "value"])


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
        """True if results are committed."""
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
        return _TEXTS | ({"low", "high"} if name == "effective" else set())

    def between(self, first: str, second: str) -> pd.DataFrame:
        """Return the differences between the scores in two languages, task by task.

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
        keys = ["model", "task", "length"]
        ours, theirs = (
            self.accuracy[self.accuracy["language"] == code] for code in (first, second)
        )
        found = []
        for row in ours.merge(theirs, on=keys, suffixes=("", " other")).to_dict("records"):
            one, other = (
                tuple(row[f"{name}{end}"] for name in ("mean", "low", "high"))
                for end in ("", " other")
            )
            low, high = recovered(one, other, 0.0)
            found.append(
                {key: row[key] for key in keys}
                | {"n": min(row["n"], row["n other"]), first: one[0], second: other[0]}
                | {"difference": one[0] - other[0], "low": low, "high": high}
            )
        if not found:
            return analysis.nothing(f"Not asked in both {first} and {second}.")
        return pd.DataFrame(found)

    @property
    def reach(self) -> pd.DataFrame:
        """The effective length of each task alone.

        The reading is ``unbroken``, with RULER's score and threshold. ``<1K``: below the threshold
        at the shortest length; ``≥2K``: above it at all measured lengths.
        """
        import pandas as pd

        from rulerlib.analysis import THRESHOLD, effective

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
    def plan(self) -> Plan:
        """The plan of the tables.

        Raises
        ------
        DataError
            If no results are committed.
        """
        if not self.there:
            raise DataError(f"{self._folder}: {self.none_yet}")
        values = dict(self.about.itertuples(index=False, name=None))
        settings = {item.name: json.loads(values[item.name]) for item in fields(Plan)}
        # Keys are strings in JSON.
        settings["lengths"] = {int(length): n for length, n in settings["lengths"].items()}
        return Plan(**settings)

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
    except RulerError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    print(f"The tables: {folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
