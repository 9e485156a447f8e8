"""Check whether a change made a model worse: ask both models the same questions until it is clear.

    rulerlib compare model=lille model=lille,dtype=bfloat16 --lengths 2048,4096

The verdict is ``worse``, ``as good`` (worse by at most a margin, 1 point by default) or
``undecided`` if the samples ran out. A sequential test decides (`rulerlib.betting`), so the verdict
holds whenever you stop.

>>> gate = Gate(["niah_single_2"])
>>> for _ in range(7):
...     gate.add("niah_single_2", 1.0)
>>> gate.verdict, gate.worse_tasks
('worse', ['niah_single_2'])
"""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rulerlib import analysis, commands, files
from rulerlib.betting import NEEDED, Wealth
from rulerlib.errors import (
    DataError,
    ParameterError,
    RulerError,
    settings,
    settings_file,
    values_of,
    whole_number,
)
from rulerlib.predict import progress_bar
from rulerlib.runs import Run
from rulerlib.samples import Prediction
from rulerlib.scores import task_label

WORSE, AS_GOOD, UNDECIDED = "worse", "as good", "undecided"
"""The verdicts."""

EXIT = {AS_GOOD: 0, WORSE: 1, UNDECIDED: 2}
"""The exit code of each verdict."""

STOPPED = 3
"""The exit code of an error."""

TASKS, LENGTHS = "niah_single_2,niah_multikey_1,vt,qa_1", (2048, 4096)
"""The default tasks and lengths."""

# Parameters that a comparison sets itself, because its questions must be independent.
SET_HERE = {"tasks", "length", "num_lengths", "num_samples", "seed", "output", "data"}
SET_HERE |= {"queries_per_context", "samples_per_question"}

KEYS = ["task", "language", "length", "seed", "index", "repeat"]
"""The columns that identify a question."""


# --- The test --------------------------------------------------------------------------------


class Gate:
    """The verdict on the questions answered so far.

    Parameters
    ----------
    tasks
        Names of the tasks.
    margin
        In points of 100: a model that is worse by less is as good.

    Attributes
    ----------
    count
        The number of questions.
    """

    # Share of the money that is bet on all tasks together, because a change usually hurts all of
    # them; the rest is bet on the tasks one by one, to find one that broke alone.
    TOGETHER = 0.8

    def __init__(self, tasks: Sequence[str], margin: float = 1.0) -> None:
        if not 0 < margin < 100:
            raise ParameterError("margin", margin, "above 0 and below 100, in points")
        self.margin = margin / 100
        # Most of the money is on the largest stake, because a broken cache or engine loses nearly
        # every question.
        self._tasks = {task: Wealth(share=0.6) for task in tasks}
        self._all = Wealth(share=0.6)
        # Equal answers win little against "worse by the margin or more", so nearly all is at stake.
        self._close = Wealth(largest=0.99, share=0.6)
        self._differences: Counter[float] = Counter()
        self.count = 0

    def add(self, task: str, difference: float) -> None:
        """Add a question: the first model's score minus the second's, from -1 to 1.

        Questions must be independent. The verdict `WORSE` holds after each question; `AS_GOOD` and
        `interval` hold after each round with equally many questions of every task and length.
        """
        self._tasks[task].bet(difference)
        self._all.bet(difference)
        self._close.bet((self.margin - difference) / (1 - self.margin))
        self._differences[difference] += 1
        self.count += 1

    @property
    def evidence(self) -> float:
        """The logarithm of the money won against the hypothesis that no task became worse."""
        single = np.logaddexp.reduce([wealth.log for wealth in self._tasks.values()])
        share = math.log((1 - self.TOGETHER) / len(self._tasks))
        return float(np.logaddexp(math.log(self.TOGETHER) + self._all.log, share + single))

    @property
    def worse_tasks(self) -> list[str]:
        """The tasks in which the second model is worse, with 95% confidence for all together."""
        limit = NEEDED + math.log(len(self._tasks))
        return [task for task, wealth in self._tasks.items() if wealth.log >= limit]

    @property
    def interval(self) -> tuple[float, float]:
        """The lowest and the highest mean difference, from -1 to 1, that is not rejected."""
        means = np.linspace(-0.9975, 0.9975, 799)
        larger, smaller = Wealth(shape=means.shape), Wealth(shape=means.shape)
        for difference, count in self._differences.items():
            larger.bet((difference - means) / (1 + means), count)
            smaller.bet((means - difference) / (1 - means), count)
        limit = NEEDED + math.log(2)
        kept = means[(larger.log < limit) & (smaller.log < limit)]
        low, high = float(kept[0]), float(kept[-1])
        return (-1.0 if low == means[0] else low), (1.0 if high == means[-1] else high)

    @property
    def verdict(self) -> str:
        """`WORSE` if some task is worse, `AS_GOOD` if the mean difference is below the margin."""
        if self.evidence >= NEEDED:
            return WORSE
        return AS_GOOD if self._close.log >= NEEDED else UNDECIDED


# --- Asking both models ----------------------------------------------------------------------


def asked(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    tasks: str | Sequence[str] = TASKS,
    lengths: Sequence[int] = LENGTHS,
    output: str | Path = "runs/compare",
    margin: float = 1.0,
    max_samples: int = 200,
    seed: int = 42,
) -> Comparison:
    """Ask two models until the verdict is clear; answers are cached in the output folder.

    Each length has its own questions (another seed), so that all of them are independent. The
    longest are asked first.

    Parameters
    ----------
    first, second
        The models: ``model``, ``engine`` and other parameters of the notebooks; any other key is an
        option of the engine.
    tasks, lengths
        The questions; ``lengths`` in tokens.
    output
        A folder; the answers are written to ``a`` and ``b`` in it.
    margin
        See `Gate`.
    max_samples
        At most this many questions of each task at each length.

    Raises
    ------
    ParameterError
        If a value is not allowed, or the models count tokens differently.
    RulerError
        As `rulerlib.runs.Run.predict`.
    """
    whole_number("max_samples", max_samples, 1)
    runs_a = runs_of(first, Path(output) / "a", tasks, lengths, seed)
    runs_b = runs_of(second, Path(output) / "b", tasks, lengths, seed)
    tokenizer, other = runs_a[0].loaded_engine.tokenizer, runs_b[0].loaded_engine.tokenizer
    if tokenizer.fingerprint != other.fingerprint:
        names = f"'{tokenizer.name}' and '{other.name}'"
        raise ParameterError("tokenizer", names, "the same for both, or their prompts differ")
    gate = Gate([task_label(cell.settings()) for cell in runs_a[0].cells], margin)
    rounds, before = list[pd.DataFrame](), 0
    with progress_bar(max_samples, "A and B") as bar:
        while gate.verdict == UNDECIDED and before < max_samples:
            # A quarter more each time.
            count = min(max_samples, before + max(1, before // 4))
            for run_a, run_b in zip(runs_a, runs_b, strict=True):
                pairs = joined(answered(run_a, before, count), answered(run_b, before, count))
                for task, difference in zip(pairs["task"], pairs["difference"], strict=True):
                    gate.add(task, difference)
                rounds.append(pairs)
            bar.set_description_str(f"A and B, {gate.verdict}")
            bar.update(count - before)
            before = count
    return Comparison(gate, pd.concat(rounds, ignore_index=True))


def stored(first: str | Path, second: str | Path, margin: float = 1.0) -> Comparison:
    """Compare the answers in two folders of runs over the tasks they share; no model is queried.

    A question asked at several lengths or several times counts once, with its mean difference; so
    do all questions about one context.

    Raises
    ------
    ParameterError
        If a value is not allowed, or the folders have no questions in common.
    DataError
        If a file of answers is damaged.
    """
    pairs = joined(*(scored(analysis.read_predictions(folder)) for folder in (first, second)))
    if pairs.empty:
        raise ParameterError("models", f"{first} and {second}", "two with questions in common")
    gate = Gate(pairs["task"].unique().tolist(), margin)
    questions = drawn(pairs, ["task", "seed"])["difference"].mean().reset_index()
    for task, difference in zip(questions["task"], questions["difference"], strict=True):
        gate.add(task, difference)
    return Comparison(gate, pairs)


def drawn(table: pd.DataFrame, keys: list[str]) -> Any:
    """Return the answers of a table grouped by draw: a question, or all about one context."""
    shared = table["context_id"].map(lambda name: None if pd.isna(name) else f"context {name}")
    return table.assign(draw=shared.fillna(table["index"])).groupby([*keys, "draw"], dropna=False)


def runs_of(
    stated: Mapping[str, Any],
    output: Path,
    tasks: str | Sequence[str],
    lengths: Sequence[int],
    seed: int,
) -> list[Run]:
    """Return the run of a model at each length, the longest first; all share one engine.

    ``stated`` has parameters of the notebooks and options of the engine.
    """
    if taken := [name for name in stated if name in SET_HERE]:
        raise ParameterError("models", taken, "without these, which a comparison sets for both")
    names = Run.notebook_names()
    values = {name: value for name, value in stated.items() if name in names}
    options = {name: value for name, value in stated.items() if name not in names}
    values["engine_options"] = {**(values.get("engine_options") or {}), **options}
    values |= {"tasks": tasks, "output": str(output)}
    runs = [
        Run.from_notebook({**values, "length": length, "seed": seed + number})
        for number, length in enumerate(sorted(lengths, reverse=True))
    ]
    return [replace(run, loaded=runs[0].loaded_engine) for run in runs]


def answered(run: Run, before: int, count: int) -> pd.DataFrame:
    """Ask the questions of a run from ``before`` up to ``count``, and return their scores."""
    run = replace(run, num_samples=count)
    for cell in run.cells:
        run.ask(cell, count)
    return scored(pair for pair in run.predictions() if pair[1].index >= before)


def scored(predictions: Iterator[tuple[dict[str, Any], Prediction]]) -> pd.DataFrame:
    """Return a row for each answer, with its score by RULER's rule and its prompt."""
    kept = [*predictions]
    table = analysis.of_measure(analysis.scores(kept), "ruler").reset_index(drop=True)
    return table.assign(
        seed=pd.Series([about.get("seed") for about, _ in kept], dtype=object),
        prompt=[answer.input + str(answer.others.get("answer_prefix", "")) for _, answer in kept],
    )


def joined(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each question that both models answered."""
    columns = [*KEYS, "value", "pred", "prompt"]
    pairs = first[[*columns, "context_id"]].merge(second[columns], on=KEYS, suffixes=("_a", "_b"))
    for row in pairs[pairs["prompt_a"] != pairs["prompt_b"]].to_dict("records"):
        raise DataError(
            f"Question {row['index']} of {row['task']} at {row['length']:,} tokens differs"
            " between A and B: another version of the dataset, or another tokenizer."
        )
    return pairs.assign(difference=pairs["value_a"] - pairs["value_b"])


# --- The result ------------------------------------------------------------------------------


@dataclass
class Comparison:
    """The result of a comparison.

    Attributes
    ----------
    gate
        The verdict and the numbers behind it.
    pairs
        A row for each question: ``task``, ``language``, ``length``, ``index``, the scores
        ``value_a`` and ``value_b``, their ``difference``, and the answers ``pred_a`` and
        ``pred_b``.
    """

    gate: Gate
    pairs: pd.DataFrame = field(repr=False)

    @property
    def difference(self) -> float:
        """The first model's mean score minus the second's; all tasks and lengths count alike."""
        return float(self.pairs.groupby(["task", "length"])["difference"].mean().mean())

    def sentence(self) -> str:
        """Return the verdict with its numbers."""
        gate, margin = self.gate, 100 * self.gate.margin
        low, high = (100 * bound for bound in gate.interval)
        where = f" in {', '.join(gate.worse_tasks)}" if gate.worse_tasks else ""
        verdict = {
            WORSE: f"B is worse than A{where}",
            AS_GOOD: f"B is as good as A: it is not worse by more than {margin:g} of 100 points",
            UNDECIDED: "It is undecided whether B is worse than A",
        }[gate.verdict]
        return (
            f"{verdict}. {gate.count:,} questions of {', '.join(self.pairs['task'].unique())};"
            f" A's mean minus B's is {100 * self.difference:.1f} points"
            f" (95% interval at any time: {low:.1f} to {high:.1f})."
        )

    def told(self) -> dict[str, Any]:
        """Return the verdict, the means by task and length, and what B lost as plain data."""
        gate = self.gate
        cells = self.pairs.groupby(["task", "length"]).agg(
            n=("index", "size"), a=("value_a", "mean"), b=("value_b", "mean")
        )
        lost = self.pairs[self.pairs["difference"] > 0]
        lost = lost[["task", "language", "length", "seed", "index", "pred_a", "pred_b"]]
        return {
            "verdict": gate.verdict, "questions": gate.count, "difference": self.difference,
            "interval": gate.interval, "worse_tasks": gate.worse_tasks,
            "margin": 100 * gate.margin,
            "cells": cells.reset_index().to_dict("records"), "lost": lost.to_dict("records"),
        }  # fmt: skip


# --- The command -----------------------------------------------------------------------------


def given_model(text: str) -> dict[str, Any] | Path:
    """Return a model's parameters, from ``key=value`` or a YAML file, or its folder of runs."""
    path = files.named("models", text, "settings such as model=lille, a YAML file, or a folder")
    if path.is_dir():
        return path
    if text.endswith((".yaml", ".yml")):
        return settings_file(path, "parameters such as model: lille")
    return settings("models", text.split(","), "model=lille,dtype=float32")


def options(parser: ArgumentParser, tasks: str, output: str) -> None:
    """Add the options that this command shares with ``rulerlib effective``."""
    parser.add_argument("--tasks", default=tasks, help="names with commas between them")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output", default=output, help="a folder")


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``rulerlib compare``, and return the exit code of the verdict."""
    parser = commands.parser(
        "rulerlib.compare",
        "A B [options]",
        "Ask two models the same questions until it is clear whether B is worse than A.\n"
        "Each is key=value with commas, a YAML file of parameters, or a folder of runs.\n"
        "Exit code: 0 as good, 1 worse, 2 undecided, 3 an error.",
        "model=lille model=lille,dtype=bfloat16 --lengths 2048,4096",
    )
    parser.add_argument("first", metavar="A", help="the model before the change")
    parser.add_argument("second", metavar="B", help="the model after the change")
    parser.add_argument("--lengths", default="2048,4096", help="in tokens, with commas")
    parser.add_argument("--margin", type=float, default=1.0, help="in points; default 1")
    parser.add_argument("--max-samples", type=int, default=200, help="of each task and length")
    options(parser, TASKS, "runs/compare")
    given = vars(parser.parse_args(arguments))
    typed = given.pop("first"), given.pop("second")
    try:
        first, second = map(given_model, typed)
        if isinstance(first, Path) and isinstance(second, Path):
            comparison = stored(first, second, given["margin"])
        elif isinstance(first, Path) or isinstance(second, Path):
            models = " and ".join(typed)
            raise ParameterError("models", models, "both folders of runs, or both models")
        else:
            given["lengths"] = values_of("lengths", given["lengths"])
            comparison = asked(first, second, **given)
        path = Path(given["output"]) / "compare.json"
        files.write_object(path, {"models": typed, **comparison.told()})
    except RulerError as error:
        print(error, file=sys.stderr)
        return STOPPED
    print(comparison.sentence())
    print(path)
    return EXIT[comparison.gate.verdict]


if __name__ == "__main__":
    sys.exit(main())
