"""How far a model can be used, for a fiftieth of the tokens: an effective length by search.

    rulerlib effective model=smollm2,language=en --lengths 512,1024,2048,4096

RULER's design asks the same number of questions at every length, though most lengths are far from
the threshold. This search asks the next questions where their answers tell the most for their
tokens (`rulerlib.adaptive`), and stops where at most two neighbouring lengths can be the effective
one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rulerlib import commands
from rulerlib.adaptive import Search
from rulerlib.compare import answered, given_model, options, runs_of
from rulerlib.errors import require, whole_number
from rulerlib.fields import check, numbers
from rulerlib.progress import Progress
from rulerlib.runs import Run
from rulerlib.sequential import THRESHOLD
from rulerlib.store import files
from rulerlib.tasks import names, resolve

QUERIES = 4
"""Questions on one context, where a task allows several: more of them tell less and less."""

SHARE = 0.2
"""The search gives up at this share of the tokens of RULER's design."""


def find(
    stated: Mapping[str, Any],
    lengths: Sequence[int],
    tasks: str | Sequence[str] = "ruler",
    output: str | Path = "runs/effective",
    threshold: float = THRESHOLD,
    confidence: float = 0.95,
    share: float = SHARE,
    seed: int = 42,
    queries: int = QUERIES,
    quiet: bool = False,
) -> Search:
    """Ask a model until its effective length is known; what was asked before is not asked again.

    Each length has questions of its own (another seed), so that all answers are independent.

    Parameters
    ----------
    stated
        What the model is: ``model``, ``engine``, and any other parameter of the notebooks; what is
        none of these is an option of the engine.
    lengths
        Two or more, in tokens.
    tasks
        See `rulerlib.tasks.names`.
    output
        A folder for the questions and answers.
    threshold, confidence
        See `Search`.
    share
        The search gives up at this share of the tokens of RULER's design, above 0 and at most 1.
    queries
        Questions on one context at most, where a task allows several; an engine with a prefix cache
        computes it once.

    Raises
    ------
    ParameterError
        If a value cannot work.
    RulerError
        As `rulerlib.runs.Run.predict`.
    """
    several = isinstance(lengths, (list, tuple)) and len({*lengths}) == len(lengths) >= 2
    require(several, "lengths", lengths, "two or more that differ, in tokens")
    check(threshold=threshold)
    require(0 < confidence < 1, "confidence", confidence, "above 0 and below 1")
    require(0 < share <= 1, "share", share, "above 0 and at most 1")
    whole_number("seed", seed, 0)
    whole_number("queries", queries, 1)
    chosen = names(tasks)
    shared = {task: shared_queries(task, queries) for task in chosen}
    search = Search(chosen, lengths, threshold, confidence, seed, shared)
    runs = {
        (task, run.length): replace(run, tasks=task, queries_per_context=shared[task])
        for run in runs_of(stated, Path(output), chosen, lengths, seed)
        for task in chosen
    }
    started = time.monotonic()
    with Progress(round(share * search.design), f"effective length {search}", quiet) as bar:
        while not search.done and search.spent < share * search.design:
            before = search.spent
            length, drawn = search.ask()
            scores = [
                (task, value)
                for task in dict.fromkeys(drawn)
                for value in _scores(
                    runs[task, length], search.asked(length, task), drawn.count(task)
                )
            ]
            search.add(length, scores)
            bar.label = f"effective length {search}"
            bar.advance(search.spent - before)
    search.seconds = time.monotonic() - started
    return search


def shared_queries(task: str, most: int) -> int:
    """Return how many questions one context of a task gets, at most ``most``."""
    row = resolve(task)
    limit, _ = row.family.most_queries(row.knobs)
    return most if limit is None else max(1, min(most, limit))


def _scores(run: Run, first: int, count: int) -> list[float]:
    """Return the mean scores on ``count`` further contexts of a run's only task, from ``first``."""
    queries = run.queries_per_context
    new = answered(run, first * queries, (first + count) * queries)
    return [float(mean) for mean in new["value"].groupby(new["index"] // queries).mean()]


def write(search: Search, folder: str | Path) -> Path:
    """Write what came of a search as JSON, whole or not at all, and return the path."""
    path = Path(folder) / "effective.json"
    files.write_object(path, search.told())
    return path


@commands.command()
def main(arguments: Sequence[str] | None = None) -> int:
    """Search for a model's effective length, write what came of it, and return the exit code."""
    parser = commands.parser(
        "rulerlib.effective",
        "MODEL [options]",
        "Ask a model until it is known how far it can be used. MODEL is key=value with commas,\n"
        "or a YAML file of parameters. In simulations half of all models took 1 % of the tokens\n"
        "of RULER's design, and nine of ten at most 5 %.",
        "model=lille,language=en --lengths 512,1024,2048,4096 --tasks niah_single_2,vt",
    )
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--lengths", required=True, help="in tokens, with commas")
    parser.add_argument("--threshold", type=float, default=THRESHOLD, help="in percent")
    parser.add_argument("--share", type=float, default=SHARE, help="of RULER's tokens, at most")
    parser.add_argument("--queries", type=int, default=QUERIES, help="on one context, at most")
    options(parser, "ruler", "runs/effective")
    given = parser.parse_args(arguments)
    stated = given_model(given.model)
    result = find(
        stated, numbers("lengths", given.lengths), given.tasks, given.output, given.threshold,
        given.confidence, given.share, given.seed, given.queries,
    )  # fmt: skip
    print(result.sentence())
    print(write(result, given.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
