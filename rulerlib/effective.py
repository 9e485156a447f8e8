"""Find the effective length of a model with about 2% of the tokens that RULER uses.

    rulerlib effective model=smollm2,language=en --lengths 512,1024,2048,4096

RULER asks the same number of questions at every length, although most lengths are far from the
threshold. This search asks at the length that is most informative for its tokens, and ends when at
most two neighbouring lengths can be the effective one. A folder of runs can take the place of the
model: its answers are then read in order, and no model is queried.

Each outcome ("8K is the longest length whose average exceeds the threshold") is a hypothesis about
all lengths: those up to 8K are above the threshold and longer ones are below it. `rulerlib.betting`
tests it after every round; a round asks each task once. Averages are assumed to fall with
the length.

>>> search = Search(["vt", "cwe"], [4096, 8192])
>>> search.ask()
4096
>>> for _ in range(40):
...     search.add(8192, [1.0, 1.0])
>>> str(search)
'≥8K'
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from rulerlib import commands, files
from rulerlib.analysis import THRESHOLD, read_predictions
from rulerlib.betting import NEEDED, Wealth
from rulerlib.compare import answered, drawn, given_model, options, runs_of, scored
from rulerlib.errors import ParameterError, number, values_of, whole_number
from rulerlib.predict import progress_bar
from rulerlib.tasks import names, resolve
from rulerlib.tokens import thousands

QUERIES = 3
"""Default number of questions about one context, for tasks that allow several."""

SHARE = 0.2
"""The search gives up at this share of the tokens of RULER's design."""

PAPER = 500
"""Questions of each task at each length in RULER's design."""

# The averages against which intervals are computed.
AVERAGES = (np.arange(200) + 0.5) / 200

# Before a task has been asked, its score is taken to be the threshold; its mean over all lengths
# counts as much as this many answers at each length.
PRIOR = 3

# The variance of a draw within a task, for estimates of the cost only. Single answers at an average
# of 85.6% have 0.12; tasks differ, and a draw has several questions or several references.
VARIANCE = 0.025


class Search:
    """The possible effective lengths, given the answers so far.

    Parameters
    ----------
    tasks
        Their names; the average is taken over all of them.
    lengths
        In tokens.
    threshold
        The average that an effective length exceeds, in percent.
    queries
        The number of questions about one context, for tasks that share contexts. A draw is then
        their mean score.

    Attributes
    ----------
    sums, counts
        Sum of the scores and number of draws, by length and task.
    path
        A row for each round: ``length``, ``draws``, their ``mean``, ``left`` (the remaining
        outcomes) and ``tokens`` (so far).
    """

    def __init__(
        self,
        tasks: Sequence[str],
        lengths: Sequence[int],
        threshold: float = THRESHOLD,
        queries: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.tasks, self.lengths = list(tasks), sorted(lengths)
        self.threshold = threshold / 100
        self.queries = np.array([queries.get(task, 1) for task in self.tasks])
        self.path = list[dict[str, Any]]()
        self.sums = np.zeros((len(self.lengths), len(self.tasks)))
        self.counts = np.zeros_like(self.sums)
        # Bets that the average at a length lies above, or below, the threshold or a value of the
        # grid.
        self._claims = np.array([self.threshold, *AVERAGES])
        self._above = [Wealth(shape=self._claims.shape) for _ in self.lengths]
        self._below = [Wealth(shape=self._claims.shape) for _ in self.lengths]
        self._rejected = np.zeros(len(self.lengths) + 1, dtype=bool)

    @property
    def answers(self) -> int:
        """The number of answers."""
        return int(self.counts.sum(axis=0) @ self.queries)

    @property
    def spent(self) -> int:
        """The tokens of all prompts so far, each counted with its full length."""
        return int(self.lengths @ self.counts @ self.queries)

    @property
    def computed(self) -> int:
        """The tokens so far if each context is computed once for all its questions."""
        return int((self.lengths @ self.counts).sum())

    @property
    def design(self) -> int:
        """The tokens of RULER's design for the same tasks and lengths."""
        return PAPER * len(self.tasks) * sum(self.lengths)

    @property
    def candidates(self) -> list[int | None]:
        """The lengths that can be the effective one; None means shorter than all of them."""
        outcomes = [None, *self.lengths]
        return [outcomes[at] for at in np.flatnonzero(~self._rejected)]

    @property
    def done(self) -> bool:
        """True if at most two outcomes remain."""
        return len(self.candidates) <= 2

    def __str__(self) -> str:
        """Return the remaining outcomes: ``8K to 16K``, ``<4K``, ``≥128K``."""
        shown = []
        for outcome in self.candidates:
            if outcome is None:
                shown.append(f"<{thousands(self.lengths[0])}")
            else:
                shown.append(("≥" if outcome == self.lengths[-1] else "") + thousands(outcome))
        return " to ".join(dict.fromkeys([*shown[:1], *shown[-1:]])) or "none"

    @property
    def expected(self) -> Any:
        """The expected score of each task at each length, 0 to 1; shape (lengths, tasks)."""
        overall = (self.sums.sum(axis=0) + self.threshold) / (self.counts.sum(axis=0) + 1)
        return (self.sums + PRIOR * overall) / (self.counts + PRIOR)

    @property
    def averages(self) -> Any:
        """The expected average over the tasks at each length, 0 to 1."""
        return self.expected.mean(axis=1)

    def evidence(self) -> Any:
        """Return the logarithm of the money won against each outcome, the shortest first."""
        above = np.array([wealth.log[0] for wealth in self._above])
        below = np.array([wealth.log[0] for wealth in self._below])
        outcomes = range(len(self.lengths) + 1)
        return np.array([below[:at].sum() + above[at:].sum() for at in outcomes])

    def bounds(self) -> tuple[Any, Any]:
        """Return the lowest and the highest possible average at each length, 0 to 1.

        They hold at any time and for all lengths together. A length with few answers is bounded by
        its neighbours, because averages fall with the length.
        """
        limit = NEEDED + math.log(2 * len(self.lengths))
        half = 0.5 / len(AVERAGES)
        lows = [AVERAGES[bet.log[1:] < limit].min(initial=1) - half for bet in self._above]
        highs = [AVERAGES[bet.log[1:] < limit].max(initial=0) + half for bet in self._below]
        return np.maximum.accumulate(lows[::-1])[::-1], np.minimum.accumulate(highs)

    def rounds(self, share: float) -> Iterator[int]:
        """Yield lengths to ask until the search is done or a share of RULER's tokens is used."""
        while not self.done and self.spent < share * self.design:
            yield self.ask()

    def ask(self) -> int:
        """Return the length to ask next: the one expected to win most money for its tokens."""
        if not self.counts.any():
            return self.lengths[(len(self.lengths) - 1) // 2]
        # One standard error is added to each gap, so that a few unlucky answers do not rule out a
        # length. A round wins half the squared gap over the variance (Kelly's criterion).
        errors = np.sqrt(VARIANCE / len(self.tasks) / (self.counts[:, 0] + 1))
        hoped = np.maximum(abs(self.averages - self.threshold) + errors, 0.003) ** 2
        gains = hoped / (VARIANCE + hoped) / self.lengths
        # The lengths between two outcomes that are still possible.
        first, *_, last = np.flatnonzero(~self._rejected)
        return self.lengths[first + np.argmax(gains[first:last])]

    def add(self, length: int, scores: Sequence[float]) -> None:
        """Add a round: the score of each task, 0 to 1, in the order of ``tasks``.

        Each score is compared with what is expected of its task, moved so that the mean over the
        tasks is the claim: differences between tasks then do not count as noise. Only the side of
        the claim on which the average is expected gets a bet.
        """
        place = self.lengths.index(length)
        expected = self.expected[place]
        average = expected.mean()
        largest = self._claims + expected.max() - average
        smallest = self._claims + expected.min() - average
        for score, usual in zip(scores, expected, strict=True):
            gain = score - (self._claims + usual - average)
            self._above[place].bet(np.where(self._claims <= average, gain / largest, 0))
            self._below[place].bet(np.where(self._claims >= average, -gain / (1 - smallest), 0))
        self.sums[place] += scores
        self.counts[place] += 1
        self._rejected |= self.evidence() >= NEEDED
        row = {"length": length, "draws": len(scores), "mean": float(np.mean(scores))}
        self.path.append({**row, "left": str(self), "tokens": self.spent})

    def told(self) -> dict[str, Any]:
        """Return the result and its cost as plain data."""
        left = self.candidates
        return {
            "effective": str(self), "low": left[0], "high": left[-1],
            "threshold": 100 * self.threshold,
            "answers": self.answers, "tokens": self.spent, "computed": self.computed,
            "share": self.spent / self.design, "path": self.path,
        }  # fmt: skip

    def sentence(self) -> str:
        """Return the result, and its cost as a sentence."""
        return (
            f"Effective length {self} (average above {100 * self.threshold:g}%,"
            f" 95% confidence at any time): {self.answers:,} answers,"
            f" at most {self.spent / 1e6:,.1f} million tokens ({self.computed / 1e6:,.1f} if"
            f" contexts are read once), {100 * self.spent / self.design:.2g}% of RULER's design."
        )


def find(
    stated: Mapping[str, Any] | Path,
    lengths: Sequence[int],
    tasks: str | Sequence[str] = "ruler",
    output: str | Path = "runs/effective",
    threshold: float = THRESHOLD,
    share: float = SHARE,
    seed: int = 42,
    queries: int = QUERIES,
) -> Search:
    """Search for the effective length of a model; answers are cached in the output folder.

    Each length has its own questions (another seed), so that all answers are independent.

    Parameters
    ----------
    stated
        The model: ``model``, ``engine`` and other parameters of the notebooks; any other key is an
        option of the engine. Or a folder of runs of one model.
    lengths
        Two or more, in tokens.
    tasks
        See `rulerlib.tasks.names`.
    output
        A folder for questions and answers.
    threshold
        See `Search`.
    share
        The search gives up at this share of the tokens of RULER's design, above 0 and at most 1.
    queries
        At most this many questions about one context, for tasks that allow several; an engine with
        a prefix cache computes the context once.

    Raises
    ------
    ParameterError
        If a value is not allowed.
    RulerError
        As `rulerlib.runs.Run.predict`.
    """
    if not isinstance(lengths, (list, tuple)) or not len({*lengths}) == len(lengths) >= 2:
        raise ParameterError("lengths", lengths, "two or more different numbers of tokens")
    number("threshold", threshold, 0.01, 99.99)
    if not 0 < share <= 1:
        raise ParameterError("share", share, "above 0 and at most 1")
    whole_number("queries", queries, 1)
    chosen = names(tasks)
    stored: dict[tuple[str, int], list[float]] = {}
    runs = {}
    if isinstance(stated, Path):
        stored, shared = _stored(stated, chosen, lengths)
    else:
        shared = {task: shared_queries(task, queries) for task in chosen}
        runs = {run.length: run for run in runs_of(stated, Path(output), chosen, lengths, seed)}

    def draw(task: str, length: int, number: int) -> float:
        """Return the mean score of a draw, given the number of earlier ones."""
        if stored:
            return stored[task, length][number]
        size = shared[task]
        run = replace(runs[length], tasks=task, queries_per_context=size)
        return float(answered(run, number * size, (number + 1) * size)["value"].mean())

    search = Search(chosen, lengths, threshold, shared)
    with progress_bar(round(share * search.design), f"effective length {search}") as bar:
        for length in search.rounds(share):
            before, rounds = search.spent, int(search.counts[search.lengths.index(length), 0])
            try:
                search.add(length, [draw(task, length, rounds) for task in chosen])
            except IndexError:
                break  # The folder has no more answers.
            bar.set_description_str(f"effective length {search}")
            bar.update(search.spent - before)
    return search


def shared_queries(task: str, most: int) -> int:
    """Return the number of questions about one context of a task, at most ``most``."""
    row = resolve(task)
    limit, _ = row.most_queries
    return most if limit is None else max(1, min(most, limit))


def _stored(
    folder: Path, tasks: Sequence[str], lengths: Sequence[int]
) -> tuple[dict[tuple[str, int], list[float]], dict[str, int]]:
    """Return the draws in a folder of runs by task and length, and the size of a task's draw."""
    table = scored(read_predictions(folder, task_names=tasks, lengths=lengths))
    models = [*table.groupby(["model", "language"]).groups]
    if len(models) != 1:
        raise ParameterError("model", models, "a folder with runs of one model in one language")
    groups = drawn(table, ["task", "length", "seed"])
    means = groups["value"].mean().groupby(["task", "length"]).agg(list).to_dict()
    missing = [key for key in itertools.product(tasks, lengths) if key not in means]
    if missing:
        raise ParameterError("lengths", missing[:3], f"lengths at which {folder} has every task")
    sizes = groups.size().groupby("task").max().to_dict()
    return means, sizes


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``rulerlib effective``, and return the exit code."""
    parser = commands.parser(
        "rulerlib.effective",
        "MODEL [options]",
        "Find the effective length of a model with few questions.\n"
        "MODEL is key=value with commas, a YAML file of parameters, or a folder of runs,\n"
        "whose answers are then used instead of new ones.",
        "model=lille,language=en --lengths 512,1024,2048 --tasks vt",
    )
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--lengths", required=True, help="in tokens, with commas")
    parser.add_argument("--threshold", type=float, default=THRESHOLD, help="in percent")
    parser.add_argument("--share", type=float, default=SHARE, help="of RULER's tokens, at most")
    parser.add_argument("--queries", type=int, default=QUERIES, help="about one context, at most")
    options(parser, "ruler", "runs/effective")
    given = vars(parser.parse_args(arguments))
    lengths = values_of("lengths", given.pop("lengths"))
    result = find(given_model(given.pop("model")), lengths, **given)
    print(result.sentence())
    if not result.done:
        print("The search stopped early: the share, or the answers of the folder, are used up.")
    path = Path(given["output"]) / "effective.json"
    files.write_object(path, result.told())
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
