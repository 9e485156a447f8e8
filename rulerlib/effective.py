"""How far a model can be used, for a fiftieth of the tokens: an effective length by search.

    rulerlib effective model=smollm2,language=en --lengths 512,1024,2048,4096

RULER's design asks the same number of questions at every length, though most lengths are far from
the threshold. This search asks the next questions where their answers tell the most for their
tokens (`rulerlib.adaptive`), and stops where at most two neighbouring lengths can be the effective
one. It says beforehand what that will cost. A folder of runs may stand in the place of the model:
its answers are drawn in their order, and nothing is asked.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rulerlib import commands, files
from rulerlib.adaptive import Search
from rulerlib.analysis import read_predictions
from rulerlib.analysis.effective_length import THRESHOLD
from rulerlib.compare import answered, drawn, given_model, options, runs_of, scored
from rulerlib.errors import require, whole_number
from rulerlib.fields import check, numbers
from rulerlib.models import Generation, Model, Request, load_weights
from rulerlib.progress import Progress
from rulerlib.runs import Run
from rulerlib.tasks import names, resolve

# Returns the mean scores of a task at a length: from which draw on, and how many.
Draws = Callable[[str, int, int, int], list[float]]

QUERIES = 7
"""Questions on one context at most, where a task allows several: more tell less and less."""

# Of tasks in which most answers are right, each further question tells less than elsewhere.
FEWER = {"niah_multikey_1": 3, "niah_multikey_2": 4, "niah_multikey_3": 6}

SHARE = 0.2
"""The search gives up at this share of the tokens of RULER's design."""


def find(
    stated: Mapping[str, Any] | Path,
    lengths: Sequence[int],
    tasks: str | Sequence[str] = "ruler",
    output: str | Path = "runs/effective",
    threshold: float = THRESHOLD,
    confidence: float = 0.95,
    share: float = SHARE,
    seed: int = 42,
    queries: int = QUERIES,
    quiet: bool = False,
    speed: float | None = None,
) -> Search:
    """Ask a model until its effective length is known; what was asked before is not asked again.

    Each length has questions of its own (another seed), so that all answers are independent.

    Parameters
    ----------
    stated
        What the model is: ``model``, ``engine``, and any other parameter of the notebooks; what is
        none of these is an option of the engine. Or a folder of runs of one model.
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
    speed
        Tokens fed a second, for what it will cost; None: as the first answers show.

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
    whole_number("queries", queries, 1)
    require(speed is None or speed > 0, "tokens_per_second", speed, "above 0")
    chosen, meter = names(tasks), _Meter()
    if isinstance(stated, Path):
        draws, shared = _stored(stated, chosen, lengths)
    else:
        runs = [*runs_of(stated, Path(output), chosen, lengths, seed)]
        draws, shared = _asking(runs, chosen, queries, meter)
    search = Search(chosen, lengths, threshold, confidence, shared)
    search.speed, forecast = speed or 0.0, search.forecast(share)

    tell = (lambda _: None) if quiet else print
    tell(search.cost(forecast))
    with Progress(round(share * search.design), f"effective length {search}", quiet) as bar:
        for length, batch in search.rounds(share):
            before, scores = search.spent, []
            for task in dict.fromkeys(batch):
                new = draws(task, length, search.asked(length, task), batch.count(task))
                scores += [(task, value) for value in new]
            if len(scores) < len(batch):
                break  # A folder has no more answers.
            search.add(length, scores)
            search.seconds = meter.seconds
            if meter.prompt_tokens and not search.speed:
                search.speed = meter.prompt_tokens / search.seconds
                tell(search.cost(forecast))
            bar.set_description_str(f"effective length {search}")
            bar.update(search.spent - before)
    return search


def shared_queries(task: str, most: int) -> int:
    """Return how many questions one context of a task gets, at most ``most``."""
    row, most = resolve(task), min(most, FEWER.get(task, most))
    limit, _ = row.family.most_queries(row.knobs)
    return most if limit is None else max(1, min(most, limit))


def _asking(
    runs: Sequence[Run], chosen: Sequence[str], most: int, meter: _Meter
) -> tuple[Draws, dict[str, int]]:
    """Return a function that asks an engine, and the questions on a context by task."""
    shared = {task: shared_queries(task, most) for task in chosen}
    engine, of_length = _Metered(runs[0].loaded_engine, meter), {run.length: run for run in runs}

    def draws(task: str, length: int, first: int, count: int) -> list[float]:
        queries = shared[task]
        run = replace(of_length[length], tasks=task, queries_per_context=queries, loaded=engine)
        new = answered(run, first * queries, (first + count) * queries)
        return [float(mean) for mean in new["value"].groupby(new["index"] // queries).mean()]

    return draws, shared


class _Meter:
    """Counts the prompt tokens of a model's answers, and the seconds until they came."""

    def __init__(self) -> None:
        self.prompt_tokens, self.seconds = 0, 0.0


class _Metered:
    """A model whose answers a meter counts; otherwise it is the model itself."""

    def __init__(self, model: Model, meter: _Meter) -> None:
        self._model, self._meter = model, meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """See `rulerlib.models.Model`."""
        load_weights(self._model)
        began = time.perf_counter()
        for position, generation in self._model.generate(requests):
            now = time.perf_counter()
            self._meter.seconds += now - began
            self._meter.prompt_tokens += generation.prompt_tokens
            yield position, generation
            began = time.perf_counter()


def _stored(
    folder: Path, tasks: Sequence[str], lengths: Sequence[int]
) -> tuple[Draws, dict[str, int]]:
    """Return a function that reads a folder of runs, and the questions on a context by task."""
    table = scored(read_predictions(folder, task_names=tasks, lengths=lengths))
    models = [*table.groupby(["model", "language"]).groups]
    require(len(models) == 1, "model", models, "a folder of runs of one model in one language")
    groups = drawn(table, ["task", "length", "seed"])
    means = groups["value"].mean().groupby(["task", "length"]).agg(list).to_dict()
    lacking = [key for key in itertools.product(tasks, lengths) if key not in means]
    require(not lacking, "lengths", lacking[:3], f"lengths at which {folder} has every task")
    sizes = groups.size().groupby("task").max().to_dict()
    return lambda task, length, first, count: means[task, length][first : first + count], sizes


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Search for a model's effective length, write what came of it, and return the exit code."""
    parser = commands.parser(
        "rulerlib.effective",
        "MODEL [options]",
        "Ask a model until it is known how far it can be used, and say beforehand what\n"
        "it will cost. MODEL is key=value with commas, a YAML file of parameters, or a\n"
        "folder of runs, whose answers are then drawn in the place of new ones.",
        "model=lille,language=en --lengths 512,1024,2048 --tasks vt",
    )
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--lengths", required=True, help="in tokens, with commas")
    parser.add_argument("--threshold", type=float, default=THRESHOLD, help="in percent")
    parser.add_argument("--share", type=float, default=SHARE, help="of RULER's tokens, at most")
    parser.add_argument("--queries", type=int, default=QUERIES, help="on one context, at most")
    parser.add_argument(
        "--tokens-per-second", type=float, help="for the hours; else measured on the first answers"
    )
    options(parser, "ruler", "runs/effective")
    given = parser.parse_args(arguments)
    result = find(
        given_model(given.model), numbers("lengths", given.lengths), given.tasks, given.output,
        given.threshold, given.confidence, given.share, given.seed, given.queries,
        speed=given.tokens_per_second,
    )  # fmt: skip
    print(result.sentence())
    if not result.done:
        print("It is not known more closely: the share, or the answers of the folder, are used up.")
    path = Path(given.output) / "effective.json"
    files.write_object(path, result.told())
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
