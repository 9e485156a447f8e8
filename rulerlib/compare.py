"""Whether a change made a model worse: both are asked the same questions until it is known.

    rulerlib compare model=lille model=lille,dtype=bfloat16 --lengths 2048,4096

The verdict is ``worse``, ``as good`` (worse by no more than a margin, by default 1 point), or
``undecided`` where the samples ran out. It holds whenever one stops, see `rulerlib.gate`.
"""

from __future__ import annotations

import html
import itertools
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rulerlib import analysis, commands, escaping, paths
from rulerlib.analysis import labels
from rulerlib.errors import DataError, ParameterError, require, whole_number
from rulerlib.fields import settings, settings_file
from rulerlib.gate import AS_GOOD, UNDECIDED, WORSE, Gate
from rulerlib.progress import Progress
from rulerlib.runs import Run
from rulerlib.store import files

EXIT = {AS_GOOD: 0, WORSE: 1, UNDECIDED: 2}
"""The exit code of each verdict."""

SHOWN = 20
"""Questions that turned and are shown; the others stand in the JSON."""

# The folders of the two models' answers.
NAMES = ("a", "b")
TASKS, LENGTHS = "niah_single_2,niah_multikey_1,vt,qa_1", (2048, 4096)
"""What is asked where nothing else is said."""

# What makes the questions, which have to be independent: one on a context, one answer to each.
SET_HERE = (
    "tasks", "length", "num_lengths", "num_samples", "seed", "output", "data", "sequential",
    "queries_per_context", "samples_per_question",
)  # fmt: skip


@dataclass
class Comparison:
    """What came of a comparison.

    Attributes
    ----------
    verdict
        ``"worse"``, ``"as good"`` or ``"undecided"``.
    names
        The two models.
    questions
        How many both answered.
    difference, interval
        The mean score of the first less that of the second, over all tasks and lengths alike, and
        its confidence sequence; from -1 to 1.
    evidence
        The logarithm of the winnings against "no task became worse".
    worse_tasks
        Tasks in which the second is worse.
    margin, confidence
        As they were asked for; the margin in points of 100.
    pairs
        A row for each question: ``task``, ``language``, ``length``, ``index``, ``depth``, the
        scores ``first`` and ``second``, what is wrong with each answer (``first_error``,
        ``second_error``) and the answers.
    """

    verdict: str
    names: tuple[str, str]
    questions: int
    difference: float
    interval: tuple[float, float]
    evidence: float
    worse_tasks: list[str]
    margin: float
    confidence: float
    pairs: pd.DataFrame = field(repr=False)

    @property
    def turned(self) -> pd.DataFrame:
        """The questions that the first answers better, those with the largest loss first."""
        lost = self.pairs[self.pairs["first"] > self.pairs["second"]]
        order = (lost["second"] - lost["first"]).sort_values(kind="stable").index
        return lost.loc[order]

    def sentence(self) -> str:
        """Return the verdict with the numbers that it rests on."""
        low, high = (100 * bound for bound in self.interval)
        where = f" in {', '.join(self.worse_tasks)}" if self.worse_tasks else ""
        points = "1 point" if self.margin == 1 else f"{self.margin:g} points"
        what = {
            WORSE: f"B is worse than A{where}",
            AS_GOOD: f"B is as good as A: it is not worse by more than {points}",
            UNDECIDED: "It is not decided whether B is worse than A",
        }[self.verdict]
        return (
            f"{what}. {self.questions:,} questions; A's mean less B's is"
            f" {100 * self.difference:.1f} points"
            f" ({100 * self.confidence:g} % interval at any time: {low:.1f} to {high:.1f})."
        )


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
        A folder; the answers go into two folders there.
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
        [run_of(stated, tasks, length, seed + number, Path(output) / name) for number, length in
         enumerate(sorted(lengths, reverse=True))]
        for stated, name in zip((first, second), NAMES, strict=True)
    ]  # fmt: skip
    fingerprints = {run.loaded_engine.tokenizer.fingerprint for side in runs for run in side}
    names = [f"'{side[0].loaded_engine.tokenizer.name}'" for side in runs]
    require(
        len(fingerprints) == 1, "models", " and ".join(names),
        "two that count tokens alike (else their prompts differ; 'tokenizer' is an option of the"
        " engine 'openai')",
    )  # fmt: skip
    cells = sum(len(run.cells) for run in runs[0])
    gate = Gate([labels.task(cell.settings()) for cell in runs[0][0].cells], margin, confidence)
    pairs: list[pd.DataFrame] = []
    with Progress(max_samples * cells, "A and B", quiet) as bar:
        before = 0
        for count in _looks(max_samples):
            for one, other in zip(*runs, strict=True):
                tables = [_answered(run, count) for run in (one, other)]
                new = _joined(*tables).query("index >= @before")
                pairs.append(new)
                for pair in new.to_dict("records"):
                    gate.add(pair["task"], pair["first"] - pair["second"])
                bar.label = f"A and B, {gate.verdict}"
                bar.advance((count - before) * len(one.cells))
            before = count
            if gate.verdict != UNDECIDED:
                break
    return _comparison(gate, _names(first, second), pd.concat(pairs), confidence)


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
    tables = [_scores(analysis.read_predictions(folder)) for folder in (first, second)]
    pairs = _joined(*tables)
    gate = Gate([*dict.fromkeys(pairs["task"])], margin, confidence)
    pairs["difference"] = pairs["first"] - pairs["second"]
    shared = pairs["context_id"].map(lambda name: None if pd.isna(name) else f"context {name}")
    pairs["draw"] = shared.fillna(pairs["index"])
    questions = pairs.groupby(["task", "seed", "draw"], dropna=False)["difference"].mean()
    for pair in questions.reset_index().to_dict("records"):
        gate.add(pair["task"], pair["difference"])
    return _comparison(gate, (str(first), str(second)), pairs, confidence)


def _check(margin: float, max_samples: int, confidence: float) -> None:
    require(0 < margin < 100, "margin", margin, "above 0 and below 100, in points")
    whole_number("max_samples", max_samples, 1)
    require(0 < confidence < 1, "confidence", confidence, "above 0 and below 1")


def run_of(stated: Mapping[str, Any], tasks: Any, length: int, seed: int, output: Path) -> Run:
    """Return the run of a model that is stated as parameters and options of its engine."""
    names = Run.notebook_names()
    options = {name: value for name, value in stated.items() if name not in names}
    values = {name: value for name, value in stated.items() if name in names}
    values["engine_options"] = {**(values.get("engine_options") or {}), **options}
    taken = [name for name in SET_HERE if name in stated]
    require(not taken, "models", taken, "without these, which a comparison sets for both")
    values |= {"tasks": tasks, "length": length, "seed": seed, "output": str(output)}
    return Run.from_notebook(values)


def _looks(most: int) -> Iterator[int]:
    """Yield the numbers of samples after which the answers are looked at."""
    count = 1
    while count < most:
        yield count
        count = max(count + 1, count * 5 // 4)
    yield most


def _answered(run: Run, count: int) -> pd.DataFrame:
    run = replace(run, num_samples=count)
    run.predict(Progress(1, "", quiet=True))
    return _scores(run.predictions())


def _scores(predictions: Iterator[tuple[dict[str, Any], Any]]) -> pd.DataFrame:
    """Return a row for each answer, with its score by RULER's rule and its prompt."""
    kept = [*predictions]
    # A row for each answer, in their order.
    table = analysis.of_measure(analysis.scores(kept), "ruler").reset_index(drop=True)
    prompts = [(answer.input, answer.others.get("answer_prefix", "")) for _, answer in kept]
    return table.assign(
        prompt=pd.Series(prompts, dtype=object),
        seed=pd.Series([about.get("seed") for about, _ in kept], dtype=object),
        depth=[np.mean(depths or [math.nan]) for depths in table["depths"]],
    )


def _joined(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each question that both answered; the same question is the same prompt."""
    keys = ["task", "language", "length", "seed", "index", "repeat"]
    values = ["value", "error", "pred", "prompt", "depth", "context_id"]
    both = first[keys + values].merge(second[keys + values], on=keys, suffixes=("", "_b"))
    require(len(both), "models", "these", "two that were asked the same questions")
    other = both[both["prompt"] != both["prompt_b"]]
    if len(other):
        row = other.iloc[0]
        raise DataError(
            f"Question {row['index']} of {row['task']} at {row['length']:,} tokens is another one"
            " for A than for B: another version of the dataset, or another tokenizer."
        )
    new = {"value": "first", "value_b": "second", "error": "first_error", "error_b": "second_error",
           "pred": "first_answer", "pred_b": "second_answer"}  # fmt: skip
    return both.rename(columns=new).drop(columns=["prompt", "prompt_b", "depth_b", "context_id_b"])


def _names(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[str, str]:
    """Return what is said of the two: the model, and the settings in which they differ."""
    shown = []
    for one, other in ((first, second), (second, first)):
        more = [f"{name}={value}" for name, value in one.items()
                if name != "model" and other.get(name) != value]  # fmt: skip
        shown.append(", ".join([str(one.get("model", "lille")), *more]))
    return shown[0], shown[1]


def _comparison(
    gate: Gate, names: tuple[str, str], pairs: pd.DataFrame, confidence: float
) -> Comparison:
    pairs = pairs.reset_index(drop=True)
    cells = (pairs["first"] - pairs["second"]).groupby([pairs["task"], pairs["length"]]).mean()
    return Comparison(
        gate.verdict, names, gate.count, float(cells.mean()), gate.interval, gate.evidence,
        gate.worse_tasks, 100 * gate.margin, confidence, pairs,
    )  # fmt: skip


# --- The page --------------------------------------------------------------------------------

STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
td:first-child, th:first-child, .text td { text-align: left; } h1 { line-height: 1.2; }"""


def write(comparison: Comparison, folder: str | Path) -> tuple[Path, Path]:
    """Write a page for people and a file for programs, whole or not at all; return both paths."""
    page, data = Path(folder) / "compare.html", Path(folder) / "compare.json"
    with files.replacing(data) as file:
        json.dump(_plain(comparison), file, ensure_ascii=False, indent=1)
    with files.replacing(page) as file:
        file.writelines(f"{line}\n" for line in _page(comparison))
    return page, data


def _plain(comparison: Comparison) -> dict[str, Any]:
    """Return all of a comparison as plain data."""
    stated = {item.name: getattr(comparison, item.name) for item in fields(comparison)}
    tables = {name: json.loads(table.to_json(orient="records", double_precision=6))
              for name, table in _tables(comparison).items()}  # fmt: skip
    turned = json.loads(comparison.turned.to_json(orient="records", double_precision=6))
    return {**stated, "pairs": len(comparison.pairs), **tables, "turned": turned}


def _tables(comparison: Comparison) -> dict[str, pd.DataFrame]:
    """Return what was lost by task, length, depth, and kind of mistake."""
    pairs = comparison.pairs
    placed = pairs.dropna(subset="depth")
    tenths = (placed["depth"] // 10).clip(upper=9).astype(int) * 10
    placed = placed.assign(**{"depth, %": [f"{low} to {low + 10}" for low in tenths]})
    kinds = comparison.turned["second_error"].value_counts()
    mistakes = pd.DataFrame({"mistake of B": kinds.index, "questions": kinds.to_numpy()})
    return {
        "by task": _table(pairs, "task"),
        "by length": _table(pairs, "length"),
        "by depth": _table(placed, "depth, %"),
        "mistakes": mistakes,
    }


def _table(pairs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return n, both means, and how many questions were lost and won, by a column."""
    lost, won = pairs["first"] > pairs["second"], pairs["first"] < pairs["second"]
    groups = pairs.assign(lost=lost, won=won).groupby(column)
    return groups.agg(
        n=("first", "size"), A=("first", "mean"), B=("second", "mean"), lost=("lost", "sum"),
        won=("won", "sum"),
    ).reset_index()  # fmt: skip


def _page(comparison: Comparison) -> Iterator[str]:
    a, b = (html.escape(name) for name in comparison.names)
    yield "<!doctype html><html lang='en'><meta charset='utf-8'>"
    yield f"<title>{comparison.verdict}: {a} and {b}</title><style>{STYLE}</style>"
    yield f"<h1>{html.escape(comparison.sentence())}</h1><p>A: {a}<br>B: {b}</p>"
    for name, table in _tables(comparison).items():
        if len(table):
            yield f"<h2>{name.capitalize()}</h2>"
            yield table.to_html(index=False, border=0, float_format="{:.3f}".format)
    turned = comparison.turned
    if len(turned):
        yield f"<h2>Questions that turned ({min(SHOWN, len(turned))} of {len(turned)})</h2>"
        yield "<table class='text'><tr><th>question</th><th>A</th><th>B</th><th>alike</th></tr>"
        for row in turned.head(SHOWN).to_dict("records"):
            answers = [row["first_answer"], row["second_answer"]]
            letters = zip(*answers, strict=False)
            alike = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], letters))
            texts = [escaping.markup(escaping.shortened(answer)) for answer in answers]
            place = f"{row['task']}, {row['length']:,} tokens, {row['index']}"
            cells = [html.escape(place), *texts, f"the first {alike} letters"]
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        yield "</table>"
    yield "</html>"


# --- The command -----------------------------------------------------------------------------


def _given(text: str) -> dict[str, Any] | Path:
    """Return what is said of a model: its parameters, or a folder of runs."""
    path = paths.named("models", text, "settings such as model=lille, a YAML file, or a folder")
    return path if path.is_dir() else given_model(text)


def given_model(text: str) -> dict[str, Any]:
    """Return the parameters of a model, from ``key=value`` with commas or a YAML file."""
    path = paths.named("models", text, "settings such as model=lille, or a YAML file")
    if path.suffix in (".yaml", ".yml"):
        return settings_file(
            path, "parameters such as model: lille", "Reading a file of parameters"
        )
    return settings("models", text.split(","), "model=lille,dtype=float32")


@commands.command(wrong=3)
def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two models, write what came of it, and return the exit code of the verdict."""
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
    parser.add_argument("--tasks", default=TASKS, help="names with commas between them")
    parser.add_argument(
        "--lengths", default=",".join(map(str, LENGTHS)), help="in tokens, with commas"
    )
    parser.add_argument("--margin", type=float, default=1.0, help="in points; default 1")
    parser.add_argument("--max-samples", type=int, default=200, help="of each task and length")
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output", default="runs/compare", help="a folder")
    given = parser.parse_args(arguments)
    first, second = _given(given.first), _given(given.second)
    if isinstance(first, Path) and isinstance(second, Path):
        comparison = stored(first, second, given.margin, given.confidence)
    elif isinstance(first, Path) or isinstance(second, Path):
        of_a_kind = "both folders of runs, or both models"
        raise ParameterError("models", f"{given.first} and {given.second}", of_a_kind)
    else:
        lengths = [int(n) if n.isdigit() else 0 for n in given.lengths.split(",")]
        require(all(lengths), "lengths", given.lengths, "numbers of tokens, such as 2048,4096")
        comparison = asked(
            first, second, given.tasks, lengths, given.output, given.margin,
            given.max_samples, given.confidence, given.seed,
        )  # fmt: skip
    page, data = write(comparison, given.output)
    print(comparison.sentence())
    print(f"{page}, {data}")
    return EXIT[comparison.verdict]


if __name__ == "__main__":
    sys.exit(main())
