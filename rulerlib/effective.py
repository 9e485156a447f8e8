"""How far a model can be used, for a fiftieth of the tokens: an effective length by search.

    rulerlib effective model=smollm2,language=en --lengths 512,1024,2048,4096

RULER's design asks the same number of questions at every length, though most lengths are far from
the threshold. This search asks the next questions where their answers tell the most for their
tokens, and stops where at most two neighbouring lengths can be the effective one.

Each outcome ("8K is the longest length above the threshold") is a claim. Somebody bets on the
answers against it, in a game that is fair if it is true; who wins twentyfold has refuted it, and
may look as often as he likes (Ville's inequality; Waudby-Smith and Ramdas 2024, "Estimating Means
of Bounded Random Variables by Betting"). Against "8K" he bets that a length up to 8K lies below the
threshold, and that a longer one lies above it, and what he wins at all lengths is multiplied. The
averages are taken to fall with the length: one that comes back is not looked for.

A round draws tasks at random, those more often whose answers vary most. An answer ``y`` to a task
of which ``m`` is expected, drawn with probability ``q`` of ``T`` tasks, counts as
``(y - m) / (q T) + mean of all m``: its mean is the average over the tasks, whatever is expected,
and it varies less than ``y`` does.

>>> search = Search(["vt", "cwe"], [4096, 8192], seed=1)
>>> length, tasks = search.ask()
>>> length, len(tasks)
(4096, 2)
>>> for _ in range(40):
...     search.add(8192, [("vt", 1.0), ("cwe", 1.0)])
>>> str(search)
'≥8K'
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rulerlib import analysis, commands
from rulerlib.analysis.tables import thousands
from rulerlib.compare import given_model, run_of
from rulerlib.errors import require, whole_number
from rulerlib.fields import check
from rulerlib.progress import Progress
from rulerlib.runs import Run
from rulerlib.sequential import THRESHOLD
from rulerlib.store import files
from rulerlib.tasks import names

Array = NDArray[np.float64]

# Stakes, as shares of the most that may be staked, and the money on each: a small stake wins where
# an average is near the threshold, a large one where it is far.
STAKES, MONEY = np.array([0.12, 0.45]), np.array([0.4975, 0.4975])

# Money that is not staked at all, so that a length where every bet is lost costs no more.
KEPT = 1 - MONEY.sum()

# What is expected of a task before anybody answered, and as how many answers that counts.
EXPECTED, WEIGHT = 0.85, 1.5

# How much of the drawing is even: no task is drawn less often than this share of its turn.
EVEN = 0.3

# Points by which an average is expected to fall with each doubling, where nobody asked yet.
FALL = 0.03

# Averages this near to the threshold are bet on in both directions.
NEAR = 0.01

PAPER = 500
"""Questions of each task at each length in RULER's design."""

SHARE = 0.2
"""The search gives up at this share of the tokens of RULER's design."""


class Search:
    """Which of some lengths may be the effective one, given the answers so far.

    Parameters
    ----------
    tasks
        Their names; the average is taken over all of them.
    lengths
        In tokens.
    threshold
        What an average has to exceed, in percent.
    confidence
        How often the true outcome is never refuted.
    seed
        Decides which tasks are drawn.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        lengths: Sequence[int],
        threshold: float = THRESHOLD,
        confidence: float = 0.95,
        seed: int = 42,
    ) -> None:
        self.tasks, self.lengths = list(tasks), sorted(lengths)
        self.threshold, self._needed = threshold / 100, -math.log(1 - confidence)
        self._rng = random.Random(seed)
        shape = len(self.lengths), len(self.tasks)
        self.sums, self.counts = np.zeros(shape), np.zeros(shape)
        # The logarithm of what each stake won: for "above" and for "below", at each length.
        self._won = np.zeros((len(self.lengths), 2, len(STAKES)))
        self._refuted = np.zeros(len(self.lengths) + 1, dtype=bool)

    # --- What is known ---

    def asked(self, length: int, task: str) -> int:
        """Return how many answers to a task at a length were added."""
        return int(self.counts[self.lengths.index(length), self.tasks.index(task)])

    @property
    def spent(self) -> int:
        """The tokens of all questions so far, as if each was as long as allowed."""
        return int(self.counts.sum(axis=1) @ np.array(self.lengths))

    @property
    def design(self) -> int:
        """The tokens of RULER's design for the same tasks and lengths."""
        return PAPER * len(self.tasks) * sum(self.lengths)

    @property
    def candidates(self) -> list[int | None]:
        """The lengths that may be the effective one; None: not even the shortest is."""
        outcomes = [None, *self.lengths]
        return [outcomes[at] for at in np.flatnonzero(~self._refuted)]

    @property
    def done(self) -> bool:
        """Whether at most two outcomes are left."""
        return len(self.candidates) <= 2

    def __str__(self) -> str:
        """Return the outcomes that are left: ``8K to 16K``, ``<4K``, ``≥128K``."""
        shown = [self._name(outcome) for outcome in self.candidates]
        return " to ".join(dict.fromkeys([*shown[:1], *shown[-1:]])) or "none"

    def _name(self, outcome: int | None) -> str:
        if outcome is None:
            return f"<{thousands(self.lengths[0])}"
        return f"{'≥' if outcome == self.lengths[-1] else ''}{thousands(outcome)}"

    @property
    def _expected(self) -> Array:
        """The score that is expected of each task at each length: its own, and its mean of all."""
        near = (self.sums.sum(axis=0) + EXPECTED * WEIGHT) / (self.counts.sum(axis=0) + WEIGHT)
        expected: Array = np.clip((self.sums + 2 * near) / (self.counts + 2), 0.03, 0.97)
        return expected

    @property
    def averages(self) -> Array:
        """The average over the tasks that is expected at each length, 0 to 1."""
        rounds = self.counts.sum(axis=1) / len(self.tasks)
        measured = ((self.sums + 0.5 * self._expected) / (self.counts + 0.5)).mean(axis=1)
        away = np.subtract.outer(np.arange(len(rounds)), np.arange(len(rounds)))
        weights = rounds / (1 + abs(away)) ** 2
        start = self.threshold + 0.014
        near = (weights * (measured - FALL * away)).sum(axis=1) + 0.5 * start
        near /= weights.sum(axis=1) + 0.5
        averages: Array = (rounds * measured + near) / (rounds + 1)
        return averages

    def evidence(self) -> Array:
        """Return the logarithm of the winnings against each outcome, the shortest first."""
        staked = np.logaddexp.reduce(self._won + np.log(MONEY), axis=2)
        above, below = np.logaddexp(staked, math.log(KEPT)).T
        evidence: Array = np.append(0.0, np.cumsum(below))
        evidence[:-1] += np.cumsum(above[::-1])[::-1]
        return evidence

    # --- What is asked next ---

    def ask(self) -> tuple[int, list[str]]:
        """Return the length of the next questions, and a task for each."""
        place = self._place()
        shares = self._shares(place)
        # The more was asked at a length, the more is asked before its answers are looked at.
        rounds = 1 + int(self.counts[place].sum() / len(self.tasks) / 8)
        drawn = self._rng.choices(self.tasks, [*shares], k=rounds * len(self.tasks))
        return self.lengths[place], drawn

    def _shares(self, place: int) -> Array:
        """Return with which probability each task is drawn at a length."""
        expected = self._expected[place]
        spread = np.sqrt(expected * (1 - expected))
        shares: Array = EVEN / len(self.tasks) + (1 - EVEN) * spread / spread.sum()
        return shares

    def _place(self) -> int:
        """Return the place of the length where the next answers tell the most for their tokens.

        For each pair of neighbouring outcomes: what it is expected to cost to refute all others.
        """
        if not self.counts.any():
            return (len(self.lengths) - 1) // 2
        left = np.flatnonzero(~self._refuted)
        first, last, gap = left[0], left[-1], self.averages - self.threshold
        missing = np.maximum(self._needed - self.evidence(), 0.1)
        best, chosen = math.inf, min(int(first), len(self.lengths) - 1)
        for pair in range(first, last):
            costs = []
            # A length above the threshold refutes shorter outcomes, one below it longer ones.
            if first < pair:
                reach = range(pair - 1, min(pair + 2, len(self.lengths)))
                costs.append(min((self._cost(at, gap[at], missing[pair - 1]), at) for at in reach))
            if last > pair + 1:
                reach = range(max(0, pair - 1), pair + 2)
                costs.append(min((self._cost(at, -gap[at], missing[pair + 2]), at) for at in reach))
            if costs and (total := sum(cost for cost, _ in costs)) < best:
                best, chosen = total, min(costs)[1]
        return chosen

    def _cost(self, place: int, gap: float, missing: float) -> float:
        """Return the tokens after which bets on an average ``gap`` away have won what is missing.

        A bet wins on average half the squared gap over the variance (Kelly's criterion).
        """
        expected = self._expected[place]
        # Scores in shares vary less than right or wrong.
        variance = 0.85 * (expected * (1 - expected)).mean()
        gap = gap if gap > 0.004 else 0.004 * math.exp(max(-20.0, 300 * (gap - 0.004)))
        return float(missing * 2 * (variance + gap * gap) / (gap * gap) * self.lengths[place])

    # --- What came back ---

    def add(self, length: int, scores: Sequence[tuple[str, float]]) -> None:
        """Add a round: a task and its score, 0 to 1, for each of the tasks that `ask` returned."""
        place = self.lengths.index(length)
        expected, shares = self._expected[place], self._shares(place)
        numbers = np.array([self.tasks.index(task) for task, _ in scores])
        values = np.array([score for _, score in scores])
        weights, mean = 1 / (len(self.tasks) * shares), expected.mean()
        over = weights[numbers] * (values - expected[numbers]) + mean - self.threshold
        # No bet may lose more than all: the most that a stake can be, in each direction.
        most = [
            1 / ((weights * expected).max() - mean + self.threshold),
            1 / ((weights * (1 - expected)).max() + mean - self.threshold),
        ]
        gap = self.averages[place] - self.threshold
        for side, (sign, bets) in enumerate([(1, gap > -NEAR), (-1, gap < NEAR)]):
            if bets:
                stakes = sign * most[side] * STAKES[:, None]
                self._won[place, side] += np.log1p(stakes * over).sum(axis=1)
        np.add.at(self.sums[place], numbers, values)
        np.add.at(self.counts[place], numbers, 1)
        self._refuted |= self.evidence() >= self._needed


@dataclass
class Searched:
    """What came of a search.

    Attributes
    ----------
    effective
        The outcomes that are left, as text: ``8K to 16K``.
    low, high
        The shortest and the longest of them in tokens; None: not even the shortest length.
    open
        Whether a longer length than all that were asked might be effective.
    confidence, threshold
        As they were asked for; the threshold in percent.
    answers, tokens, share
        How many answers were given, the tokens of their questions at most, and what share of the
        tokens of RULER's design that is, 0 to 1.
    seconds
        How long it took to ask what was not asked before.
    path
        A row for each round: ``length``, ``asked``, ``mean``, ``left`` (the outcomes afterwards)
        and ``tokens`` (spent so far).
    """

    effective: str
    low: int | None
    high: int | None
    open: bool
    confidence: float
    threshold: float
    answers: int
    tokens: int
    share: float
    seconds: float
    path: pd.DataFrame = field(repr=False)

    def sentence(self) -> str:
        """Return what was found, how sure it is, and what it cost."""
        return (
            f"Effective length {self.effective} (average above {self.threshold:g} %,"
            f" {100 * self.confidence:g} % confidence at any time): {self.answers:,} answers,"
            f" {self.tokens / 1e6:,.1f} million tokens at most, {100 * self.share:.2g} % of"
            f" RULER's design, {self.seconds:,.0f} s."
        )


def find(
    stated: Mapping[str, Any],
    lengths: Sequence[int],
    tasks: str | Sequence[str] = "ruler",
    output: str | Path = "runs/effective",
    threshold: float = THRESHOLD,
    confidence: float = 0.95,
    share: float = SHARE,
    seed: int = 42,
    quiet: bool = False,
) -> Searched:
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
    search = Search(names(tasks), lengths, threshold, confidence, seed)
    runs, engine = dict[tuple[str, int], Run](), None
    for number, length in enumerate(search.lengths):
        run = run_of(stated, search.tasks, length, seed + number, Path(output))
        engine = engine or run.loaded_engine
        run = replace(run, loaded=engine)
        run.check()
        runs |= {(task, length): replace(run, tasks=task) for task in search.tasks}
    rows, started = list[dict[str, Any]](), time.monotonic()
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
            rows.append({
                "length": length, "asked": len(scores), "left": str(search),
                "mean": float(np.mean([score for _, score in scores])), "tokens": search.spent,
            })  # fmt: skip
            bar.label = f"effective length {search}"
            bar.advance(search.spent - before)
    left = search.candidates
    return Searched(
        str(search), left[0], left[-1], left[-1] == search.lengths[-1], confidence, threshold,
        int(search.counts.sum()), search.spent, search.spent / search.design,
        time.monotonic() - started, pd.DataFrame(rows),
    )  # fmt: skip


def _scores(run: Run, first: int, count: int) -> list[float]:
    """Return the scores of ``count`` further samples of a run's only task, from ``first`` on."""
    run = replace(run, num_samples=first + count)
    run.predict(Progress(1, "", quiet=True))
    table = analysis.of_measure(analysis.scores(run.predictions()), "ruler")
    new = table[(table["index"] >= first) & (table["index"] < first + count)]
    return [float(value) for value in new["value"]]


def write(result: Searched, folder: str | Path) -> Path:
    """Write what came of a search as JSON, whole or not at all, and return the path."""
    path = Path(folder) / "effective.json"
    plain = {**vars(result), "path": json.loads(result.path.to_json(orient="records"))}
    with files.replacing(path) as file:
        json.dump(plain, file, ensure_ascii=False, indent=1)
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
    parser.add_argument("--tasks", default="ruler", help="names with commas between them")
    parser.add_argument("--threshold", type=float, default=THRESHOLD, help="in percent")
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--share", type=float, default=SHARE, help="of RULER's tokens, at most")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output", default="runs/effective", help="a folder")
    given = parser.parse_args(arguments)
    stated = given_model(given.model)
    lengths = [int(n) if n.isdigit() else 0 for n in given.lengths.split(",")]
    require(all(lengths), "lengths", given.lengths, "numbers of tokens, such as 2048,4096")
    result = find(
        stated, lengths, given.tasks, given.output, given.threshold, given.confidence, given.share,
        given.seed,
    )  # fmt: skip
    path = write(result, given.output)
    print(result.sentence())
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
