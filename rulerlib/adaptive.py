"""Asking where the next answers tell the most: which of some lengths can be the effective one.

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

import math
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rulerlib.analysis.tables import thousands
from rulerlib.sequential import THRESHOLD

Array = NDArray[np.float64]

# Stakes, as shares of the most that may be staked, and the money on each: a small stake wins where
# an average is near the threshold, a large one where it is far.
STAKES, MONEY = np.array([0.12, 0.45]), np.array([0.4975, 0.4975])

# Money that is not staked at all, so that a length where every bet is lost costs no more.
KEPT = 1 - MONEY.sum()

# What is expected of a task before anybody answered, and as how many answers that counts.
EXPECTED, WEIGHT = 0.85, 1.5

# The averages that an interval is made of.
AVERAGES = (np.arange(200) + 0.5) / 200

# How much of the drawing is even: no task is drawn less often than this share of its turn.
EVEN = 0.3

# Points by which an average is expected to fall with each doubling, where nobody asked yet.
FALL = 0.03

# Averages this near to the threshold are bet on in both directions.
NEAR = 0.01

PAPER = 500
"""Questions of each task at each length in RULER's design."""


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
    queries
        For tasks that share contexts, how many questions each has: a draw is then the mean of
        their scores.

    Attributes
    ----------
    sums, counts
        Of the draws, by length and task.
    path
        A row for each round: ``length``, ``draws``, their ``mean``, ``left`` (the outcomes
        afterwards) and ``tokens`` (fed so far).
    seconds
        How long it took to ask what was not asked before.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        lengths: Sequence[int],
        threshold: float = THRESHOLD,
        confidence: float = 0.95,
        seed: int = 42,
        queries: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.tasks, self.lengths = list(tasks), sorted(lengths)
        self.threshold, self.confidence = threshold / 100, confidence
        self._needed, self._rng = -math.log(1 - confidence), random.Random(seed)
        self._queries = np.array([queries.get(task, 1) for task in self.tasks])
        self.path, self.seconds = list[dict[str, Any]](), 0.0
        shape = len(self.lengths), len(self.tasks)
        self.sums, self.counts = np.zeros(shape), np.zeros(shape)
        # The logarithm of what each stake won: for "above" and for "below", at each length.
        self._won = np.zeros((len(self.lengths), 2, len(STAKES)))
        # The same against each of the `AVERAGES`, both ways.
        self._won_against = np.zeros((len(self.lengths), 2, len(STAKES), len(AVERAGES)))
        self._refuted = np.zeros(len(self.lengths) + 1, dtype=bool)

    # --- What is known ---

    def asked(self, length: int, task: str) -> int:
        """Return how many draws of a task at a length were added."""
        return int(self.counts[self.lengths.index(length), self.tasks.index(task)])

    @property
    def answers(self) -> int:
        """How many questions were answered."""
        return int(self.counts.sum(axis=0) @ self._queries)

    @property
    def spent(self) -> int:
        """The tokens of all questions so far, as if each was as long as allowed."""
        return int(self.lengths @ self.counts @ self._queries)

    @property
    def computed(self) -> int:
        """The tokens of all contexts so far, each computed once for its questions."""
        return int((self.lengths @ self.counts).sum())

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

    def bounds(self) -> tuple[Array, Array]:
        """Return the lowest and the highest average at each length that is not refuted, 0 to 1.

        They hold at any time, all lengths together, for averages that fall with the length: a
        length where little was asked is bounded by its neighbours.
        """
        won = np.logaddexp.reduce(self._won_against, axis=(1, 2)) - math.log(2 * len(STAKES))
        kept = won < self._needed + math.log(len(self.lengths))
        step = 1 / len(AVERAGES)
        lows = np.where(kept, AVERAGES, 1).min(axis=1) - step / 2
        highs = np.where(kept, AVERAGES, 0).max(axis=1) + step / 2
        return np.maximum.accumulate(lows[::-1])[::-1], np.minimum.accumulate(highs)

    def area(self) -> tuple[float, float, float]:
        """Return the area under the averages over log length, 0 to 1, and both ends of it."""
        lows, highs = self.bounds()
        places = np.log(self.lengths)
        curves = (np.clip(self.averages, lows, highs), lows, highs)
        areas = (np.trapezoid(curve, places) / (places[-1] - places[0]) for curve in curves)
        value, low, high = map(float, areas)
        return value, low, high

    def told(self) -> dict[str, Any]:
        """Return what was found and what it cost, as plain data."""
        left = self.candidates
        return {
            "effective": str(self), "low": left[0], "high": left[-1], "area": self.area(),
            "confidence": self.confidence, "threshold": 100 * self.threshold,
            "answers": self.answers, "tokens": self.spent, "computed": self.computed,
            "share": self.spent / self.design, "seconds": self.seconds, "path": self.path,
        }  # fmt: skip

    def sentence(self) -> str:
        """Return what was found, how sure it is, and what it cost."""
        area, low, high = self.area()
        return (
            f"Effective length {self} (average above {100 * self.threshold:g} %,"
            f" {100 * self.confidence:g} % confidence at any time), area under the averages"
            f" {area:.2f} ({low:.2f} to {high:.2f}): {self.answers:,} answers, at most"
            f" {self.spent / 1e6:,.1f} million tokens ({self.computed / 1e6:,.1f} where contexts"
            f" are read once), {100 * self.spent / self.design:.2g} % of RULER's design,"
            f" {self.seconds:,.0f} s."
        )

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
        drawn = weights[numbers] * (values - expected[numbers]) + mean
        # The least and the most that it may be, so that no bet loses more than all.
        least, largest = mean - (weights * expected).max(), mean + (weights * (1 - expected)).max()
        gap = self.averages[place] - self.threshold
        claims = np.append(AVERAGES, self.threshold)
        for side, (sign, bets) in enumerate([(1, gap > -NEAR), (-1, gap < NEAR)]):
            most = sign / (claims - least if sign > 0 else largest - claims)
            off = STAKES[:, None, None] * most[:, None] * (drawn - claims[:, None])
            won = np.log1p(off).sum(axis=2)
            self._won_against[place, side] += won[:, :-1]
            self._won[place, side] += won[:, -1] * bets
        np.add.at(self.sums[place], numbers, values)
        np.add.at(self.counts[place], numbers, 1)
        self._refuted |= self.evidence() >= self._needed
        self.path.append({
            "length": length, "draws": len(scores), "mean": float(values.mean()),
            "left": str(self), "tokens": self.spent,
        })  # fmt: skip
