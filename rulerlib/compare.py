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

import html
import json
import math
import shutil
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rulerlib import analysis, checkpoints, commands, escaping, files, labels, store, tokens
from rulerlib.betting import Wealth, needed
from rulerlib.errors import DataError, ParameterError, RulerError, ServerError, whole_number
from rulerlib.parsing import numbers, settings, settings_file
from rulerlib.progress import Progress
from rulerlib.runs import Run
from rulerlib.samples import Prediction
from rulerlib.tokens import Tokenizer, Words

WORSE, AS_GOOD, UNDECIDED = "worse", "as good", "undecided"
"""The verdicts."""

EXIT = {AS_GOOD: 0, WORSE: 1, UNDECIDED: 2}
"""The exit code of each verdict."""

STOPPED = 3
"""The exit code of an error, or if a server died."""

TASKS, LENGTHS = "niah_single_2,niah_multikey_1,vt,qa_1", (2048, 4096)
"""The default tasks and lengths."""

# Parameters that a comparison sets itself, because its questions must be independent.
SET_HERE = {"tasks", "length", "num_lengths", "num_samples", "seed", "output", "data"}
SET_HERE |= {"queries_per_context", "samples_per_question"}

SHOWN = 20
"""Lost questions shown on the page; the JSON file has all of them."""

KEYS = ["task", "language", "length", "seed", "index", "repeat"]
"""The columns that identify a question."""

RECORDS = ["first_record", "second_record"]
"""The columns of pairs with both answers as they are stored; tables leave them out."""

STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
td:first-child, th:first-child { text-align: left; } h1 { line-height: 1.2; }"""


# --- The test --------------------------------------------------------------------------------


class Gate:
    """The verdict on the questions answered so far.

    Parameters
    ----------
    tasks
        Names of the tasks.
    margin
        In points of 100: a model that is worse by less is as good.
    confidence
        The probability that a verdict is right, for ``worse`` and ``as good`` separately.
    """

    # Share of the money that is bet on all tasks together, because a change usually hurts all of
    # them; the rest is bet on the tasks one by one, to find one that broke alone.
    TOGETHER = 0.8

    def __init__(self, tasks: Sequence[str], margin: float = 1.0, confidence: float = 0.95) -> None:
        if not 0 < margin < 100:
            raise ParameterError("margin", margin, "above 0 and below 100, in points")
        self.margin, self.confidence = margin / 100, confidence
        self._needed = needed(confidence)
        # Most of the money is on the largest stake, because a broken cache or engine loses nearly
        # every question.
        self._tasks = {task: Wealth(share=0.6) for task in tasks}
        self._all = Wealth(share=0.6)
        # Equal answers win little against "worse by the margin or more", so nearly all is at stake.
        self._close = Wealth(largest=0.99, share=0.6)
        self._differences: Counter[float] = Counter()

    def add(self, task: str, difference: float) -> None:
        """Add a question: the first model's score minus the second's, from -1 to 1.

        Questions must be independent. The verdict `WORSE` holds after each question; `AS_GOOD` and
        `interval` hold after each round with equally many questions of every task and length.
        """
        self._tasks[task].bet(difference)
        self._all.bet(difference)
        self._close.bet((self.margin - difference) / (1 - self.margin))
        self._differences[difference] += 1

    @property
    def count(self) -> int:
        """The number of questions."""
        return self._differences.total()

    @property
    def evidence(self) -> float:
        """The logarithm of the money won against the hypothesis that no task became worse."""
        single = np.logaddexp.reduce([wealth.log for wealth in self._tasks.values()])
        share = math.log((1 - self.TOGETHER) / len(self._tasks))
        return float(np.logaddexp(math.log(self.TOGETHER) + self._all.log, share + single))

    @property
    def worse_tasks(self) -> list[str]:
        """The tasks in which the second model is worse, at the confidence for all together."""
        limit = self._needed + math.log(len(self._tasks))
        return [task for task, wealth in self._tasks.items() if wealth.log >= limit]

    @property
    def interval(self) -> tuple[float, float]:
        """The lowest and the highest mean difference, from -1 to 1, that is not rejected."""
        means = np.linspace(-0.9975, 0.9975, 799)
        larger, smaller = Wealth(shape=means.shape), Wealth(shape=means.shape)
        for difference, count in self._differences.items():
            larger.bet((difference - means) / (1 + means), count)
            smaller.bet((means - difference) / (1 - means), count)
        limit = self._needed + math.log(2)
        kept = means[(larger.log < limit) & (smaller.log < limit)]
        low, high = float(kept[0]), float(kept[-1])
        return (-1.0 if low == means[0] else low), (1.0 if high == means[-1] else high)

    @property
    def verdict(self) -> str:
        """`WORSE` if some task is worse, `AS_GOOD` if the mean difference is below the margin."""
        if self.evidence >= self._needed:
            return WORSE
        return AS_GOOD if self._close.log >= self._needed else UNDECIDED


# --- Asking both models ----------------------------------------------------------------------


def checkpoint_counts(most: int) -> Iterator[int]:
    """Yield the numbers of samples after which the verdict is checked: a quarter more each time.

    >>> list(checkpoint_counts(10))
    [1, 2, 3, 4, 5, 6, 7, 8, 10]
    """
    count = 0
    while count < most:
        count = min(most, count + max(1, count // 4))
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
    margin, confidence
        See `Gate`; ``margin`` in points of 100.
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
        raise ParameterError(
            "models",
            f"'{tokenizer.name}' and '{other.name}'",
            "two that count tokens alike: otherwise their prompts differ"
            " ('tokenizer' is an option of the engine 'openai')",
        )
    gate = Gate([labels.task(cell.settings()) for cell in runs_a[0].cells], margin, confidence)
    both, stopped, before = pd.DataFrame(), "", 0
    with Progress(max_samples, "A and B", quiet) as bar:
        for count in checkpoint_counts(max_samples):
            new = []
            try:
                for run_a, run_b in zip(runs_a, runs_b, strict=True):
                    answers_a = answered(run_a, before, count)
                    new.append(_joined(tokenizer, answers_a, answered(run_b, before, count)))
            except ServerError as error:
                if both.empty:
                    raise
                stopped = f"{error} The same command resumes from here."
                break
            both = pd.concat([both, *new], ignore_index=True)
            for pair in pd.concat(new).to_dict("records"):
                gate.add(pair["task"], pair["first"] - pair["second"])
            bar.set_description_str(f"A and B, {gate.verdict}")
            bar.update(count - before)
            before = count
            if gate.verdict != UNDECIDED:
                break
    names = _name(first, second), _name(second, first)
    return Comparison(gate, names, both, tokenizer.name, stopped=stopped)


def stored(
    first: str | Path, second: str | Path, margin: float = 1.0, confidence: float = 0.95
) -> Comparison:
    """Compare the answers in two folders of runs; no model is queried.

    A question asked at several lengths or several times counts once, with its mean difference; so
    do all questions about one context.

    Raises
    ------
    ParameterError
        If a value is not allowed, or the folders have no questions in common.
    DataError
        If a file of answers is damaged.
    """
    table_a, table_b = (scored(analysis.read_predictions(folder)) for folder in (first, second))
    # Tokens are those of the model, if its tokenizer is on this machine; otherwise words.
    about, _ = table_a["record"].iloc[0]
    name = (about.get("options") or {}).get("tokenizer") or about["model"]
    tokenizer = tokens.load(name) if checkpoints.is_here(name) else Words()
    pairs = _joined(tokenizer, table_a, table_b)
    if pairs.empty:
        raise ParameterError("models", f"{first} and {second}", "two with questions in common")
    gate = Gate(pairs["task"].unique().tolist(), margin, confidence)
    pairs["difference"] = pairs["first"] - pairs["second"]
    questions = drawn(pairs, ["task", "seed"])["difference"].mean()
    for pair in questions.reset_index().to_dict("records"):
        gate.add(pair["task"], pair["difference"])
    note, shared = "", pairs["task"].unique()
    if others := {*table_a["task"]} ^ {*table_b["task"]}:
        note = f"Only one of the two has answers to {', '.join(sorted(others))}."
    if len(shared) == 1:
        note += f" The verdict is about {shared[0]} alone, the only shared task."
    return Comparison(gate, (str(first), str(second)), pairs, tokenizer.name, note.strip())


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
    """Return a row for each answer, with its score by RULER's rule and its record."""
    kept = [*predictions]
    table = analysis.of_measure(analysis.scores(kept), "ruler").reset_index(drop=True)
    return table.assign(
        record=pd.Series(kept, dtype=object),
        seed=pd.Series([about.get("seed") for about, _ in kept], dtype=object),
        depth=[np.mean(depths or [math.nan]) for depths in table["depths"]],
    )


def _joined(tokenizer: Tokenizer, first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each question that both models answered."""

    def side(table: pd.DataFrame, name: str) -> pd.DataFrame:
        new = {"value": "", "error": "_error", "pred": "_answer", "record": "_record"}
        return table.rename(columns={column: name + ending for column, ending in new.items()})

    scores = ["value", "error", "pred", "record"]
    pairs = side(first[[*KEYS, *scores, "depth", "context_id"]], "first").merge(
        side(second[[*KEYS, *scores]], "second"), on=KEYS
    )
    diverging = []
    for row in pairs.to_dict("records"):
        one, other = (row[column][1] for column in RECORDS)
        if _prompt(one) != _prompt(other):
            raise DataError(
                f"Question {row['index']} of {row['task']} at {row['length']:,} tokens differs"
                " between A and B: another version of the dataset, or another tokenizer."
            )
        diverging.append(parted(one, other, tokenizer))
    return pairs.assign(parted=diverging)


def _prompt(answer: Prediction) -> str:
    return answer.input + str(answer.others.get("answer_prefix", ""))


def parted(first: Prediction, second: Prediction, tokenizer: Tokenizer) -> float:
    """Return the first token, from 1, in which two greedy answers differ; thinking counts.

    0 if the answers are identical, NaN if they are not both greedy.

    >>> greedy = {"decoding": "greedy"}
    >>> one, other = (Prediction(0, "", [], text, greedy) for text in ("a b", "a c"))
    >>> parted(one, other, Words()), parted(one, one, Words())
    (2, 0)
    """
    if any(answer.others.get("decoding") != "greedy" for answer in (first, second)):
        return math.nan
    texts = [answer.others.get("thinking", "") + answer.pred for answer in (first, second)]
    if texts[0] == texts[1]:
        return 0
    one, other = ([text[a:b] for a, b in tokenizer.spans([text])[0]] for text in texts)
    for number, (left, right) in enumerate(zip(one, other, strict=False), 1):
        if left != right:
            return number
    return 1 + min(len(one), len(other))


def _name(model: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the name of a model, with the settings in which it differs from the other one."""
    names = [name for name in model if name != "model" and other.get(name) != model[name]]
    return ", ".join(
        [str(model.get("model", "lille")), *(f"{name}={model[name]}" for name in names)]
    )


# --- The result ------------------------------------------------------------------------------


@dataclass
class Comparison:
    """The result of a comparison.

    Attributes
    ----------
    gate
        The verdict and the numbers behind it.
    names
        The two models.
    pairs
        A row for each question: ``task``, ``language``, ``length``, ``index``, ``depth``, the
        scores ``first`` and ``second``, the mistakes ``first_error`` and ``second_error``, the
        answers, ``parted`` (see `parted`) and the `RECORDS`.
    tokenizer
        The tokenizer that counts tokens in ``parted``; ``words`` if the model's is not available.
    note
        Further sentences for the output.
    stopped
        Why the comparison stopped early, as a sentence; empty if it did not.
    """

    gate: Gate
    names: tuple[str, str]
    pairs: pd.DataFrame = field(repr=False)
    tokenizer: str
    note: str = ""
    stopped: str = ""

    @property
    def difference(self) -> float:
        """The first model's mean score minus the second's; all tasks and lengths count alike."""
        pairs = self.pairs
        cells = (pairs["first"] - pairs["second"]).groupby([pairs["task"], pairs["length"]])
        return float(cells.mean().mean())

    @property
    def turned(self) -> pd.DataFrame:
        """The questions on which the second model scores lower, the largest loss first."""
        lost = self.pairs[self.pairs["first"] > self.pairs["second"]]
        order = (lost["second"] - lost["first"]).sort_values(kind="stable").index
        return lost.loc[order]

    def sentences(self) -> list[str]:
        """Return the verdict with its numbers, and how many greedy answers are identical."""
        gate, margin = self.gate, 100 * self.gate.margin
        low, high = (100 * bound for bound in gate.interval)
        where = f" in {', '.join(gate.worse_tasks)}" if gate.worse_tasks else ""
        points = "1 point" if margin == 1 else f"{margin:g} points"
        verdict = {
            WORSE: f"B is worse than A{where}",
            AS_GOOD: f"B is as good as A: it is not worse by more than {points}",
            UNDECIDED: "It is undecided whether B is worse than A",
        }[gate.verdict]
        sentences = [
            f"{verdict}. {gate.count:,} questions; A's mean minus B's is"
            f" {100 * self.difference:.1f} points"
            f" ({100 * gate.confidence:g}% interval at any time: {low:.1f} to {high:.1f}).",
            *filter(None, [self.stopped, self.note]),
        ]
        greedy = self.pairs["parted"].dropna()
        if len(greedy):
            differing = greedy[greedy > 0]
            same = f"{(greedy == 0).sum():,} of {len(greedy):,} greedy answers are identical"
            if len(differing):
                median = differing.quantile(0.5, "higher")
                same += (
                    f"; the others diverge at token {differing.min():g} to {differing.max():g},"
                    f" half of them by token {median:g} (tokens of '{self.tokenizer}')"
                )
            sentences.append(f"{same}.")
        return sentences


def write(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Write ``compare.html``, ``compare.json`` and the lost answers, and return their paths.

    ``turned`` has both answers to each question that the second model lost, as runs that
    ``rulerlib explore`` shows.
    """
    page, data, turned = (
        Path(folder) / name for name in ("compare.html", "compare.json", "turned")
    )
    tables = _tables(comparison)
    rows = {**tables, "turned": comparison.turned.drop(columns=RECORDS)}
    gate = comparison.gate
    values = {
        "verdict": gate.verdict, "names": comparison.names, "questions": gate.count,
        "difference": comparison.difference, "interval": gate.interval, "evidence": gate.evidence,
        "worse_tasks": gate.worse_tasks, "margin": 100 * gate.margin,
        "confidence": gate.confidence, "tokenizer": comparison.tokenizer, "note": comparison.note,
        "pairs": len(comparison.pairs),
    }  # fmt: skip
    for name, table in rows.items():
        values[name] = json.loads(table.to_json(orient="records", double_precision=6))
    files.write_object(data, values)
    with files.replacing(page) as file:
        file.write(_page(comparison, tables, turned))
    return [page, data, *_keep_turned(comparison, turned)]


def _keep_turned(comparison: Comparison, folder: Path) -> list[Path]:
    """Write both answers to each lost question as runs, and return their folder, if any."""
    shutil.rmtree(folder, ignore_errors=True)
    runs: dict[Path, tuple[dict[str, Any], list[Prediction]]] = {}
    for side, name, column in zip("AB", comparison.names, RECORDS, strict=True):
        for about, answer in comparison.turned.sort_values("index", kind="stable")[column]:
            about = {**about, "model": f"{side}: {name}"}
            path = folder / side / about["language"] / str(about["length"]) / "pred"
            _, records = runs.setdefault(path / f"{labels.task(about)}.jsonl", (about, []))
            records.append(answer)
    for path, (about, records) in runs.items():
        files.write_object(store.settings_path(path), {"cell": about})
        with files.replacing(path) as file:
            file.writelines(f"{record.to_json()}\n" for record in records)
    return [folder] if runs else []


def _tables(comparison: Comparison) -> dict[str, pd.DataFrame]:
    """Return the losses by task, length, depth and kind of mistake, and where answers diverge."""
    pairs = comparison.pairs
    pairs = pairs.assign(
        lost=pairs["first"] > pairs["second"], won=pairs["first"] < pairs["second"]
    )
    placed = pairs.dropna(subset="depth")
    tenths = (placed["depth"] // 10).clip(upper=9).astype(int) * 10
    placed = placed.assign(**{"depth, %": [f"{low} to {low + 10}" for low in tenths]})
    tables = {}
    for name, rows, by in (
        ("by task", pairs, "task"),
        ("by length", pairs, "length"),
        ("by depth", placed, "depth, %"),
    ):
        groups, scores = rows.groupby(by), {"A": ("first", "mean"), "B": ("second", "mean")}
        table = groups.agg(n=("first", "size"), **scores, lost=("lost", "sum"), won=("won", "sum"))
        tables[name] = table.reset_index()
    mistakes = comparison.turned["second_error"].value_counts()
    differing = pairs["parted"][pairs["parted"] > 0].astype(int).value_counts().sort_index()
    for name, column, counts in (
        ("mistakes", "mistake of B", mistakes),
        ("first token that differs", "token", differing),
    ):
        tables[name] = counts.rename_axis(column).reset_index(name="questions")
    return tables


def _page(comparison: Comparison, tables: Mapping[str, pd.DataFrame], folder: Path) -> str:
    names = [f"{side}: {name}" for side, name in zip("AB", comparison.names, strict=True)]
    verdict, *more = map(html.escape, [*comparison.sentences(), *names])
    lines = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><style>{STYLE}</style>",
        f"<title>{verdict}</title><h1>{verdict}</h1><p>{'<br>'.join(more)}</p>",
    ]
    lost = len(comparison.turned)
    turned = comparison.turned.head(SHOWN).astype({"parted": "Int64"})
    for name in ("first_answer", "second_answer"):
        turned[name] = turned[name].map(escaping.shortened).map(escaping.visible)
    columns = {"first_answer": "A", "second_answer": "B", "parted": "diverge at token"}
    turned = turned[["task", "length", "index", *columns]].rename(columns=columns)
    for name, table in {**tables, f"lost questions ({len(turned)} of {lost})": turned}.items():
        if len(table):
            lines.append(f"<h2>{name.capitalize()}</h2>")
            lines.append(
                table.to_html(index=False, border=0, float_format="{:.3f}".format, na_rep="")
            )
    if lost:
        command = html.escape(f"rulerlib explore {folder} FOLDER")
        lines.append(f"<p>All of them with their prompts: <code>{command}</code></p>")
    return "\n".join([*lines, "</html>\n"])


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
    parser.add_argument("--confidence", type=float, default=0.95)
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
            comparison = stored(first, second, given["margin"], given["confidence"])
        elif isinstance(first, Path) or isinstance(second, Path):
            models = " and ".join(typed)
            raise ParameterError("models", models, "both folders of runs, or both models")
        else:
            given["lengths"] = numbers("lengths", given["lengths"])
            comparison = asked(first, second, **given)
        paths = write(comparison, given["output"])
    except RulerError as error:
        print(error, file=sys.stderr)
        return STOPPED
    print(*comparison.sentences(), sep="\n")
    print(*paths, sep=", ")
    return STOPPED if comparison.stopped else EXIT[comparison.gate.verdict]


if __name__ == "__main__":
    sys.exit(main())
