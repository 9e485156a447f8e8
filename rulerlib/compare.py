"""Whether a change made a model worse: both are asked the same questions until it is known.

    rulerlib compare model=lille model=lille,dtype=bfloat16 --lengths 2048,4096

The verdict is ``worse``, ``as good`` (worse by no more than a margin, by default 1 point), or
``undecided`` where the samples ran out. It holds whenever one stops, see `rulerlib.gate`.
"""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rulerlib import analysis, checkpoints, commands, files, labels, tokens
from rulerlib.comparison import Comparison, parted, write
from rulerlib.errors import (
    DataError,
    ParameterError,
    RulerError,
    ServerError,
    require,
    whole_number,
)
from rulerlib.fields import numbers, settings, settings_file
from rulerlib.gate import AS_GOOD, UNDECIDED, WORSE, Gate
from rulerlib.progress import Progress
from rulerlib.runs import Run
from rulerlib.samples import Prediction
from rulerlib.tokens import Tokenizer, Words

EXIT = {WORSE: 1, UNDECIDED: 2, AS_GOOD: 0}
"""The exit code of each verdict; of several, the first here counts."""

# The exit code where a server did not answer to the end, and of any mistake.
STOPPED = 3

TASKS, LENGTHS = "niah_single_2,niah_multikey_1,vt,qa_1", (2048, 4096)
"""What is asked where nothing else is said."""

# The later a look, the more samples precede it: a quarter more than at the one before.
_GROWTH = 4

# What makes the questions, which have to be independent: one on a context, one answer to each.
SET_HERE = (
    "tasks", "length", "num_lengths", "num_samples", "seed", "output", "data",
    "queries_per_context", "samples_per_question",
)  # fmt: skip


def looks(most: int) -> Iterator[int]:
    """Yield after how many samples of each task the answers are looked at; the last is ``most``.

    >>> list(looks(10))
    [1, 2, 3, 4, 5, 6, 7, 8, 10]

    Parameters
    ----------
    most
        The samples that a fixed design would ask.
    """
    count = 0
    while count < most:
        count = min(most, count + max(1, count // _GROWTH))
        yield count


def asked(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    tasks: str | Sequence[str] = TASKS,
    lengths: Sequence[int] = LENGTHS,
    output: str | Path = "runs/compare",
    margin: float = 1.0,
    max_samples: int = 200,
    confidence: float = 0.95,
    seed: int = 42,
    quiet: bool = False,
) -> Comparison:
    """Ask two models until the verdict is known; what was asked before is not asked again.

    Each length has questions of its own (another seed), so that all of them are independent; the
    longest are asked first, and the depths of the needles are spread over the first questions.

    Parameters
    ----------
    first, second
        What they are: ``model``, ``engine``, and any other parameter of the notebooks; what is
        none of these is an option of the engine.
    tasks, lengths
        What is asked; ``lengths`` in tokens.
    output
        A folder; the answers go into ``a`` and ``b`` there.
    margin
        In points of 100.
    max_samples
        The most questions of each task at each length.
    confidence
        See `Gate`.

    Raises
    ------
    ParameterError
        If a value cannot work, or the two count tokens differently.
    RulerError
        As `rulerlib.runs.Run.predict`.
    """
    _check(margin, max_samples, confidence)
    require(lengths, "lengths", lengths, "one or more numbers of tokens")
    runs = [
        [*runs_of(stated, Path(output) / name, tasks, lengths, seed)]
        for stated, name in ((first, "a"), (second, "b"))
    ]
    engines = [side[0].loaded_engine for side in runs]
    tokenizer = engines[0].tokenizer
    names = [f"'{engine.tokenizer.name}'" for engine in engines]
    require(
        len({engine.tokenizer.fingerprint for engine in engines}) == 1, "models",
        " and ".join(names),
        "two that count tokens alike (else their prompts differ; 'tokenizer' is an option of the"
        " engine 'openai')",
    )  # fmt: skip
    cells = sum(len(run.cells) for run in runs[0])
    gate = Gate([labels.task(cell.settings()) for cell in runs[0][0].cells], margin, confidence)
    pairs: list[pd.DataFrame] = []
    with Progress(max_samples * cells, "A and B", quiet) as bar:
        before, stopped = 0, ""
        for count in looks(max_samples):
            try:
                new = [
                    _joined(tokenizer, *(answered(run, before, count) for run in both))
                    for both in zip(*runs, strict=True)
                ]
            except ServerError as error:
                if not pairs:
                    raise
                stopped = f"{error} The same command goes on from here."
                break
            for pair in pd.concat(new).to_dict("records"):
                gate.add(pair["task"], pair["first"] - pair["second"])
            pairs += new
            bar.set_description_str(f"A and B, {gate.verdict}")
            bar.update((count - before) * cells)
            before = count
            if gate.verdict != UNDECIDED:
                break
    together = pd.concat(pairs, ignore_index=True)
    return Comparison(gate, _names(first, second), together, tokenizer.name, stopped=stopped)


def stored(
    first: str | Path, second: str | Path, margin: float = 1.0, confidence: float = 0.95
) -> Comparison:
    """Compare the answers that stand in two folders of runs.

    A question that was asked at several lengths or answered several times counts once, with the
    mean of its differences; so do the questions on one context.

    Raises
    ------
    ParameterError
        If a value cannot work, or the folders have no questions in common.
    DataError
        If a file of answers is damaged.
    """
    _check(margin, 1, confidence)
    tables = [scored(analysis.read_predictions(folder)) for folder in (first, second)]
    one, other = ({*table["task"]} for table in tables)
    tokenizer, shared, alone = _tokenizer(tables[0]), one & other, sorted(one ^ other)
    pairs = _joined(tokenizer, *tables)
    require(len(pairs), "models", f"{first} and {second}", "two with questions in common")
    gate = Gate([*dict.fromkeys(pairs["task"])], margin, confidence)
    pairs["difference"] = pairs["first"] - pairs["second"]
    questions = drawn(pairs, ["task", "seed"])["difference"].mean()
    for pair in questions.reset_index().to_dict("records"):
        gate.add(pair["task"], pair["difference"])
    note = f"Only one of both was asked {', '.join(alone)}. " if alone else ""
    if len(shared) == 1:
        note += f"The verdict is about {', '.join(shared)} alone, the one task in common."
    return Comparison(gate, (str(first), str(second)), pairs, tokenizer.name, note.strip())


def drawn(table: pd.DataFrame, keys: list[str]) -> Any:
    """Return the answers of a table grouped as draws: a question, or all those on one context."""
    shared = table["context_id"].map(lambda name: None if pd.isna(name) else f"context {name}")
    return table.assign(draw=shared.fillna(table["index"])).groupby([*keys, "draw"], dropna=False)


def _check(margin: float, max_samples: int, confidence: float) -> None:
    require(0 < margin < 100, "margin", margin, "above 0 and below 100, in points")
    whole_number("max_samples", max_samples, 1)
    require(0 < confidence < 1, "confidence", confidence, "above 0 and below 1")


def runs_of(
    stated: Mapping[str, Any], output: Path, tasks: str | Sequence[str], lengths: Sequence[int],
    seed: int,
) -> Iterator[Run]:  # fmt: skip
    """Yield the run of a model at each length, the longest first; all have one engine.

    What is stated are parameters of the notebooks, and options of the engine.
    """
    names, engine = Run.notebook_names(), None
    taken = [name for name in SET_HERE if name in stated]
    require(not taken, "models", taken, "without these, which a comparison sets for both")
    values = {name: value for name, value in stated.items() if name in names}
    options = {name: value for name, value in stated.items() if name not in names}
    values |= {"engine_options": {**(values.get("engine_options") or {}), **options}}
    values |= {"tasks": tasks, "output": str(output)}
    for number, length in enumerate(sorted(lengths, reverse=True)):
        run = Run.from_notebook({**values, "length": length, "seed": seed + number})
        if engine is None:
            engine = run.loaded_engine
        yield replace(run, loaded=engine)


def answered(run: Run, before: int, count: int) -> pd.DataFrame:
    """Ask the questions of a run from ``before`` up to ``count``, and return their scores.

    They are asked in one batch; those before were asked by an earlier call.
    """
    run = replace(run, num_samples=count)
    run.make_data()
    for cell in run.cells:
        run.ask(cell, count, start=before)
    # Those before were judged then.
    return scored(pair for pair in run.predictions() if pair[1].index >= before)


def scored(predictions: Iterator[tuple[dict[str, Any], Prediction]]) -> pd.DataFrame:
    """Return a row for each answer, with its score by RULER's rule and its record."""
    kept = [*predictions]
    # A row for each answer, in their order.
    table = analysis.of_measure(analysis.scores(kept), "ruler").reset_index(drop=True)
    return table.assign(
        record=pd.Series(kept, dtype=object),
        seed=pd.Series([about.get("seed") for about, _ in kept], dtype=object),
        depth=[np.mean(depths or [math.nan]) for depths in table["depths"]],
    )


def _tokenizer(scores: pd.DataFrame) -> Tokenizer:
    """Return that of the model that answered, if it is on this machine; else words."""
    about, _ = scores["record"].iloc[0]
    name = (about.get("options") or {}).get("tokenizer") or about["model"]
    return tokens.load(name) if checkpoints.is_here(name) else Words()


def _joined(tokenizer: Tokenizer, first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each question that both answered; the same question is the same prompt."""
    keys = ["task", "language", "length", "seed", "index", "repeat"]
    values = ["value", "error", "pred", "record", "depth", "context_id"]
    both = first[keys + values].merge(second[keys + values], on=keys, suffixes=("", "_b"))
    apart = []
    for row in both.to_dict("records"):
        (_, one), (_, other) = row["record"], row["record_b"]
        prompts = {(a.input, a.others.get("answer_prefix", "")) for a in (one, other)}
        if len(prompts) > 1:
            raise DataError(
                f"Question {row['index']} of {row['task']} at {row['length']:,} tokens is another"
                " one for A than for B: another version of the dataset, or another tokenizer."
            )
        apart.append(parted(one, other, tokenizer))
    new = {"value": "first", "value_b": "second", "error": "first_error", "error_b": "second_error",
           "pred": "first_answer", "pred_b": "second_answer",
           "record": "first_record", "record_b": "second_record"}  # fmt: skip
    both = both.assign(parted=apart).rename(columns=new)
    return both.drop(columns=["depth_b", "context_id_b"])


def _names(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[str, str]:
    """Return what is said of the two: the model, and the settings in which they differ."""
    shown = []
    for one, other in ((first, second), (second, first)):
        more = [f"{name}={value}" for name, value in one.items()
                if name != "model" and other.get(name) != value]  # fmt: skip
        shown.append(", ".join([str(one.get("model", "lille")), *more]))
    return shown[0], shown[1]


# --- The command -----------------------------------------------------------------------------


def given_model(text: str) -> dict[str, Any] | Path:
    """Return a model's parameters, from ``key=value`` or a YAML file, or its folder of runs."""
    path = files.named("models", text, "settings such as model=lille, a YAML file, or a folder")
    if path.is_dir():
        return path
    if text.endswith((".yaml", ".yml")):
        example = "parameters such as model: lille"
        return settings_file(path, example, "Reading a file of parameters")
    return settings("models", text.split(","), "model=lille,dtype=float32")


def options(parser: ArgumentParser, tasks: str, output: str) -> None:
    """Add the options that every command has which asks until something is known."""
    parser.add_argument("--tasks", default=tasks, help="names with commas between them")
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output", default=output, help="a folder")


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two models, write what came of it, and return the exit code of the verdict."""
    try:
        return _compare(arguments)
    except RulerError as error:
        print(error, file=sys.stderr)
        return STOPPED


def _compare(arguments: Sequence[str] | None) -> int:
    parser = commands.parser(
        "rulerlib.compare",
        "A B [options]",
        "Ask two models the same questions until it is known whether B is worse than A.\n"
        "Each is key=value with commas, a YAML file of parameters, or a folder of runs.\n"
        "Exit code: 0 as good, 1 worse, 2 undecided, 3 an error.",
        "model=lille model=lille,dtype=bfloat16 --lengths 2048,4096",
    )
    parser.add_argument("first", metavar="A", help="the model as it was")
    parser.add_argument("second", metavar="B", help="the model as it is now")
    parser.add_argument("--lengths", default="2048,4096", help="in tokens, with commas")
    parser.add_argument("--margin", type=float, default=1.0, help="in points; default 1")
    parser.add_argument("--max-samples", type=int, default=200, help="of each task and length")
    options(parser, TASKS, "runs/compare")
    given = parser.parse_args(arguments)
    first, second = given_model(given.first), given_model(given.second)
    folder = Path(given.output)
    if isinstance(first, Path) and isinstance(second, Path):
        return _tell(stored(first, second, given.margin, given.confidence), folder)
    if isinstance(first, Path) or isinstance(second, Path):
        models = f"{given.first} and {given.second}"
        raise ParameterError("models", models, "both folders of runs, or both models")
    comparison = asked(
        first,
        second,
        given.tasks,
        numbers("lengths", given.lengths),
        folder,
        given.margin,
        given.max_samples,
        given.confidence,
        given.seed,
    )
    return _tell(comparison, folder)


def _tell(comparison: Comparison, folder: Path) -> int:
    """Write and print what came of a comparison, and return its exit code."""
    paths_written = write(comparison, folder)
    print(*comparison.sentences(), sep="\n")
    print(*paths_written, sep=", ")
    return STOPPED if comparison.stopped else EXIT[comparison.gate.verdict]


if __name__ == "__main__":
    sys.exit(main())
