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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

import rulerlib
from book import stored
from rulerlib import analysis, files, models, store, tasks
from rulerlib.errors import DataError, ParameterError, RulerError, nearest, settings_file
from rulerlib.intervals import recovered
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.runs import Run

ABOUT = "about"

# Columns of the table of accuracy.
ACCURACY = [
    "model", "language", "task", "length", "n", "measure", "mean", "low", "high", "recall",
    "category", "right",
]  # fmt: skip

# Decimals of a committed number; few enough that machines agree.
DECIMALS = 6

# Characters of a quoted answer.
QUOTED = 400

# Columns that are text even if all of it looks like numbers, and columns written as JSON.
TEXTS = (
    "name", "value", "model", "language", "task", "measure", "category", "missing", "effective",
    "reading", "right", "error", "pred", "note",
)  # fmt: skip
JSON = ("outputs", "depths", "shares")

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
                    settings = self.settings(language, length)
                    run = Run(tasks=name, **settings, loaded=self.loaded_engine)
                    try:
                        _ = run.cells
                    except ParameterError as error:
                        if error.parameter != "length":
                            raise
                    else:
                        yield run


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
        counts = [_answered(run) for run in runs]
        runs = [
            replace(run, num_samples=n, loaded=plan.loaded_engine)
            for run, n in zip(runs, counts, strict=True)
            if n
        ]
    if not runs:
        raise ParameterError("lengths", dict(plan.lengths), "long enough for at least one task")
    # Check everything before the first prompt.
    for run in runs:
        run.check()
    for run in runs:
        run.predict()
    folder = Path(folder)
    write(tabulate(plan, runs), folder)
    # One file of answers per model, also if it has several plans.
    answered = runs[0].answers(runs[0].cells[0]).parents[3]
    stored.pack(answered, folder.parent / Path(plan.model).name)
    return folder


def write(tables: dict[str, pd.DataFrame], folder: Path) -> None:
    """Write tables into a folder, one file for each."""
    for name, table in tables.items():
        with files.replacing(folder / f"{name}.csv") as file:
            table.round(DECIMALS).to_csv(file, index=False, lineterminator="\n")


def _answered(run: Run) -> int:
    """Return the number of questions of a run of one cell with all of their answers."""
    [cell] = run.cells
    path = run.answers(cell)
    if not path.exists():
        return 0
    return sum(1 for _ in store.read_predictions(path)) // run.decoding.samples


def tabulate(plan: Plan, runs: Sequence[Run]) -> dict[str, pd.DataFrame]:
    """Return the tables of the answers on disk by name."""
    scores = analysis.scores(pair for run in runs for pair in run.predictions())
    accuracy = analysis.accuracy(scores)
    cells = dict(list(analysis.of_measure(scores).groupby(list(analysis.BY), sort=False)))
    keys = accuracy[list(analysis.BY)].itertuples(index=False, name=None)
    accuracy["right"] = [right(cells[key]) for key in keys]
    # A task that was asked in one language only is missing in the others.
    asked = [*dict.fromkeys(scores["task"])]
    effective = pd.concat(
        [analysis.effective_lengths(scores, each, tasks=asked) for each in plan.thresholds]
    )
    languages = (part for _, part in scores.groupby("language", sort=False))
    examples = pd.concat([analysis.error_examples(part) for part in languages])
    if len(examples):
        examples["pred"] = examples["pred"].str.strip().str.slice(0, QUOTED)
    for table in (effective, examples):
        for column in {*JSON} & {*table}:
            table[column] = [json.dumps(each, ensure_ascii=False) for each in table[column]]
    return {
        "accuracy": accuracy.reindex(columns=ACCURACY),
        "averages": analysis.by_length(scores, tasks=asked),
        "effective": effective,
        "depths": analysis.by_depth(scores, bins=10),
        "errors": analysis.errors(scores),
        "examples": examples,
        ABOUT: about(plan),
    }


def about(plan: Plan) -> pd.DataFrame:
    """Return settings, weights and versions as ``name`` and ``value``."""
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
    """The committed tables of a folder, by name: ``tables.accuracy``, ``tables.about``, ..."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name.startswith("_"):
            raise AttributeError(name)
        path = self._folder / f"{name}.csv"
        try:
            # "None" and "NA" are valid texts; only numbers can be missing.
            texts = dict.fromkeys(TEXTS, str)
            table = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=[""])
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read ({error}).") from error
        for column in {*TEXTS} & {*table}:
            table[column] = table[column].fillna("")
        for column in {*JSON} & {*table}:
            table[column] = [json.loads(value) for value in table[column]]
        return table if len(table) else analysis.nothing("Nothing of this kind was found.")

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
        keys, names = ["model", "task", "length"], ["mean", "low", "high"]
        ours, theirs = (
            self.accuracy[self.accuracy["language"] == code] for code in (first, second)
        )
        both = ours.merge(theirs, on=keys, suffixes=("", " other"))
        if both.empty:
            return analysis.nothing(f"Not asked in both {first} and {second}.")
        others = [f"{name} other" for name in names]
        ends = [
            recovered(tuple(one), tuple(other), 0.0)
            for one, other in zip(both[names].to_numpy(), both[others].to_numpy(), strict=True)
        ]
        found = both[keys].assign(n=both[["n", "n other"]].min(axis=1))
        found[first], found[second] = both["mean"], both["mean other"]
        found["difference"] = found[first] - found[second]
        found[["low", "high"]] = ends
        return found

    @property
    def reach(self) -> pd.DataFrame:
        """The effective length of each task alone.

        The reading is ``unbroken``, with RULER's score and threshold. ``<1K``: below the threshold
        at the shortest length; ``≥2K``: above it at all measured lengths.
        """
        keys = ["model", "language", "task"]
        rows = []
        for names, part in self.accuracy.groupby(keys, sort=False):
            scores = part["recall"].fillna(part["mean"])
            averages = dict(zip(part["length"], (100 * scores).tolist(), strict=True))
            reached = str(analysis.effective(averages, analysis.THRESHOLD, "unbroken"))
            rows.append({**dict(zip(keys, names, strict=True)), "up to": reached})
        return pd.DataFrame(rows)


def with_and_without_template(name: str, by: Sequence[str]) -> pd.DataFrame:
    """Return how far the chat template changes a model's scores, paired by question.

    Parameters
    ----------
    name
        A model with answers to the same questions in ``book/results`` (with its chat template) and
        in ``book/results/plain`` (without).
    by
        What is compared separately, see `rulerlib.analysis.paired`.

    Returns
    -------
    DataFrame
        ``model``, ``by``, ``n``, the means ``template`` and ``plain`` by RULER's measure, their
        ``difference`` and its 95% interval.
    """
    without = [*stored.predictions(stored.RESULTS / "plain" / name)]
    asked = {(about["language"], about["length"]) for about, _ in without}
    pairs = [
        (about, answer)
        for about, answer in stored.predictions(stored.RESULTS / name)
        if (about["language"], about["length"]) in asked
    ]
    scores = analysis.scores(pairs + without)
    template, plain = dict.fromkeys(scores["model"])
    table = analysis.paired(scores, template, plain, measure="ruler", by=by)
    table = table.rename(columns={template: "template", plain: "plain"}).assign(model=name)
    return table[["model", *by, "n", "template", "plain", "difference", "low", "high"]]


def main(arguments: Sequence[str]) -> None:
    """Make the tables: ``python -m book.tables params/results.yaml book/results/lille``.

    ``--answered`` makes them from the answers at hand and does not query the model.
    """
    paths = [argument for argument in arguments if argument != "--answered"]
    if len(paths) != 2:
        sys.exit("Usage: python -m book.tables [--answered] SETTINGS.yaml FOLDER")
    settings, folder = paths
    try:
        ask = "--answered" not in arguments
        print(f"The tables: {make(Plan.from_file(settings), folder, ask)}")
    except RulerError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
