"""Asking where the next answers tell the most: which of some lengths can be the effective one.

Each outcome ("8K is the longest length above the threshold") is a claim. Somebody bets on the
answers against it, in a game that is fair if it is true; who wins twentyfold has refuted it, and
may look as often as he likes (Ville's inequality; Waudby-Smith and Ramdas 2024, "Estimating Means
of Bounded Random Variables by Betting"). Against "8K" he bets that a length up to 8K lies below the
threshold, and that a longer one lies above it, and what he wins at all lengths is multiplied. The
averages are taken to fall with the length: one that comes back is not looked for.

A round asks every task equally often. Before it a rate is claimed for each task, so that the mean
of all rates is the average that is claimed: what is expected of the tasks, moved by the same
points. An answer ``y`` to a task that is asked ``n`` times multiplies the money by
``1 + stake (y - claimed) / n``. A round multiplies it on average by no more than
``exp(stake * sum of all (rate - claimed))``, which is 1 or less if the claim is true, whatever is
expected of which task; so only the variance within the tasks counts. Once the tasks of a length are
known a little, a round asks few of them, drawn anew: so the search ends, or turns to another
length, as soon as it can. On average over the draw it multiplies the money by no more than the mean
of all ``1 + stake (rate - claimed)``, to the power of how many are asked (Maclaurin's inequality).
The money lies on several stakes: one that wins most on average where the average is as expected
(Kelly's criterion), and others that do so at gaps that are set.

>>> search = Search(["vt", "cwe"], [4096, 8192])
>>> search.ask()
(4096, ['vt', 'cwe'])
>>> for _ in range(40):
...     search.add(8192, [("vt", 1.0), ("cwe", 1.0)])
>>> str(search)
'≥8K'
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rulerlib.analysis.effective_length import THRESHOLD
from rulerlib.labels import thousands

Array = NDArray[np.float64]

# Gaps between an average and what is claimed of it, for which there is a stake; another is for the
# gap that is expected, within bounds, and has the first share of the money. The rest is kept, so
# that a length where every bet is lost costs no more.
GAPS, EXPECTED_GAPS, MONEY = [0.02, 0.08], (0.012, 0.25), np.array([0.5, 0.3, 0.15])

# No bet loses more than this share of what it is made with.
MOST = 0.8

# What is expected of a task before anybody answered, and as how many answers that counts; and as
# how many answers at each length its mean at all of them counts.
EXPECTED, WEIGHT, ALL = 0.85, 1.5, 6

# The averages that an interval is made of.
AVERAGES = (np.arange(200) + 0.5) / 200

# Averages are expected to walk: to fall by this much from each length to the next, give or take a
# step, from a start a little above the threshold, give or take a spread.
FALL, STEP, START, SPREAD = 0.03, 0.04, 0.014, 0.1

# Standard errors by which a gap is taken to be larger than expected when the next length is chosen:
# one that seems near the threshold after a few answers would else not be asked again.
HOPE = 1.0

# From KNOWN answers to each task at a length on, a round there has FEW tasks, drawn by lot; from
# MANY answers on it has all of them again, each several times.
KNOWN, FEW, MANY = 4, 4, 64

# Averages this near to the threshold are bet on in both directions.
NEAR = 0.01

# How alike right answers on one context are expected to be (their correlation), and what that is
# worth beside what is seen of a task's draws, in variances of a single answer: draws of several
# questions, and of several references, vary less.
ALIKE, UNSEEN = 0.1, 0.6

# Models that are drawn to say what a search will cost.
DRAWN = 40

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
    speed
        Tokens fed a second, as measured or as told; 0: not known yet.
    seconds
        How long the engine took for what was not asked before.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        lengths: Sequence[int],
        threshold: float = THRESHOLD,
        confidence: float = 0.95,
        queries: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.tasks, self.lengths = list(tasks), sorted(lengths)
        self.threshold, self.confidence = threshold / 100, confidence
        self._needed = -math.log(1 - confidence)
        self._queries = np.array([queries.get(task, 1) for task in self.tasks])
        self.path, self.speed, self.seconds = list[dict[str, Any]](), 0.0, 0.0
        shape = len(self.lengths), len(self.tasks)
        self.sums, self.counts, self._squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        # The logarithm of what each stake won: for "above" and for "below", at each length.
        self._won = np.zeros((len(self.lengths), 2, len(MONEY)))
        # The same against each of the `AVERAGES`, both ways.
        self._won_against = np.zeros((len(self.lengths), 2, len(MONEY), len(AVERAGES)))
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

    @cached_property
    def _expected(self) -> Array:
        """The score that is expected of each task at each length: its own, and its mean of all."""
        near = (self.sums.sum(axis=0) + EXPECTED * WEIGHT) / (self.counts.sum(axis=0) + WEIGHT)
        return np.asarray(np.clip((self.sums + ALL * near) / (self.counts + ALL), 0.03, 0.97))

    @property
    def averages(self) -> Array:
        """The average over the tasks that is expected at each length, 0 to 1."""
        return self._curve[0]

    @cached_property
    def _curve(self) -> tuple[Array, Array]:
        """The average that is expected at each length, and its standard error.

        It is the mean of all walks (Kalman's smoother, solved at once) past what was measured.
        """
        expected, count = self._expected, len(self.lengths)
        measured = ((self.sums + 0.5 * expected) / (self.counts + 0.5)).mean(axis=1)
        errors = (self._variances / np.maximum(self.counts, 1)).sum(axis=1) ** 0.5
        errors = np.where(self.counts.any(axis=1), errors / len(self.tasks), np.inf)
        places = np.eye(count)
        rows = np.vstack([places / errors[:, None], np.diff(places, axis=0) / STEP,
                          places[[(count - 1) // 2]] / SPREAD])  # fmt: skip
        start = (self.threshold + START) / SPREAD
        told = [*measured / errors, *[-FALL / STEP] * (count - 1), start]
        covariance = np.linalg.inv(rows.T @ rows)
        return covariance @ (rows.T @ np.array(told)), np.sqrt(np.diag(covariance))

    def evidence(self) -> Array:
        """Return the logarithm of the winnings against each outcome, the shortest first."""
        staked = np.logaddexp.reduce(self._won + np.log(MONEY), axis=2)
        above, below = np.logaddexp(staked, math.log(1 - MONEY.sum())).T
        evidence: Array = np.append(0.0, np.cumsum(below))
        evidence[:-1] += np.cumsum(above[::-1])[::-1]
        return evidence

    def bounds(self) -> tuple[Array, Array]:
        """Return the lowest and the highest average at each length that is not refuted, 0 to 1.

        They hold at any time, all lengths together, for averages that fall with the length: a
        length where little was asked is bounded by its neighbours.
        """
        won = np.logaddexp.reduce(self._won_against, axis=(1, 2)) - math.log(2 * len(MONEY))
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
            f" {_rounded(self.seconds / 3600)} hours."
        )

    # --- What it will cost ---

    def forecast(self, share: float) -> list[float]:
        """Return the tokens of half of all searches, of nine of ten, and at the latest.

        Drawn models are searched for. Their log odds lie between 1 below and 3 above those of the
        threshold at the shortest length, and fall by up to 1 from each length to the next.
        """
        queries = dict(zip(self.tasks, self._queries, strict=True))
        same = self.tasks, self.lengths, 100 * self.threshold, self.confidence, queries
        spent, center = [], math.log(max(self.threshold, 0.01) / max(1 - self.threshold, 0.01))
        for number in range(DRAWN):
            rng = np.random.default_rng(number)
            search = Search(*same)
            falls = rng.uniform(0, 1, len(self.lengths))
            levels = center + rng.uniform(-1, 3) - np.cumsum(falls) + falls[0]
            odds = levels[:, None] + rng.normal(0, 1.5, len(self.tasks))
            rates = dict(zip(self.lengths, 1 / (1 + np.exp(-odds)), strict=True))
            for length, names in search.rounds(share):
                at = [self.tasks.index(name) for name in names]
                right = rng.binomial(self._queries[at], rates[length][at]) / self._queries[at]
                search.add(length, [*zip(names, right, strict=True)])
            spent.append(search.spent)
        last = share * self.design
        return [*np.quantile(np.minimum(spent, last), (0.5, 0.9)), last]

    def cost(self, tokens: Sequence[float]) -> str:
        """Return what a `forecast` says, in hours as well where the `speed` is known."""
        half, most, last = (_rounded(number / 1e6) for number in tokens)
        hours = (_rounded(number / (self.speed or 1) / 3600) for number in tokens)
        when = f"; at {self.speed:,.0f} tokens a second, in {', '.join(hours)} hours"
        return (
            f"It will feed {half} million tokens (half of {DRAWN} drawn models) to {most} (nine of"
            f" ten), and ends at {last} at the latest{when if self.speed else ''}."
        )

    # --- What is asked next ---

    def rounds(self, share: float) -> Iterator[tuple[int, list[str]]]:
        """Yield what is asked until the search is done, or a share of RULER's tokens is fed."""
        while not self.done and self.spent < share * self.design:
            yield self.ask()

    def ask(self) -> tuple[int, list[str]]:
        """Return the length of the next questions, and a task for each: all, or some by lot."""
        place = self._place()
        draws = self.counts[place].mean()
        # The lot of a round follows from its number, so that a search that goes on asks the same.
        few = np.random.default_rng(len(self.path)).permutation(self.tasks)[:FEW]
        # The more was asked at a length, the more is asked before its answers are looked at.
        several = np.repeat(self.tasks, 1 + int(draws / 32))
        return self.lengths[place], (few if KNOWN <= draws < MANY else several).tolist()

    @cached_property
    def _variances(self) -> Array:
        """How much a draw of each task is expected to vary at each length.

        What is seen at all lengths says how much less than a single answer at the same rate.
        """
        single = self._expected * (1 - self._expected)
        alike = (1 + (self._queries - 1) * ALIKE) / self._queries
        seen = (self._squares - self.sums**2 / np.maximum(self.counts, 1)).sum(axis=0)
        expected = (np.maximum(self.counts - 1, 0) * single).sum(axis=0)
        less = np.clip((UNSEEN * alike + seen) / (UNSEEN + expected), 0.02, 1)
        return np.asarray(single * less)

    def _place(self) -> int:
        """Return the place of the length where the next answers tell the most for their tokens.

        For each pair of neighbouring outcomes: what it is expected to cost to refute all others.
        """
        if not self.counts.any():
            return (len(self.lengths) - 1) // 2
        left = np.flatnonzero(~self._refuted)
        averages, errors = self._curve
        first, last, gaps = left[0], left[-1], averages - self.threshold
        missing = np.maximum(self._needed - self.evidence(), 0.1)
        # What it costs to win 1, in the logarithm, where a length is taken to be above or below.
        dear = [self._costs(sign * gaps + HOPE * errors) for sign in (1, -1)]
        best, chosen = math.inf, min(int(first), len(self.lengths) - 1)
        for pair in range(first, last):
            costs = []
            # A length above the threshold refutes shorter outcomes, one below it longer ones.
            if first < pair:
                reach = range(pair - 1, min(pair + 2, len(self.lengths)))
                costs.append(min((missing[pair - 1] * dear[0][at], at) for at in reach))
            if last > pair + 1:
                reach = range(max(0, pair - 1), pair + 2)
                costs.append(min((missing[pair + 2] * dear[1][at], at) for at in reach))
            if costs and (total := sum(cost for cost, _ in costs)) < best:
                best, chosen = total, min(costs)[1]
        return chosen

    def _costs(self, gaps: Array) -> Array:
        """Return the tokens of each length after which bets on averages ``gaps`` away win 1.

        A bet wins on average half the squared gap over the variance (Kelly's criterion).
        """
        small = 0.004 * np.exp(np.clip(300 * (gaps - 0.004), -20, 0))
        gaps = np.where(gaps > 0.004, gaps, small)
        spread = (self._variances + gaps[:, None] ** 2).sum(axis=1)
        won = (len(self.tasks) * gaps) ** 2 / (2 * spread)
        return np.asarray(self._queries.sum() * np.array(self.lengths) / won)

    # --- What came back ---

    def add(self, length: int, scores: Sequence[tuple[str, float]]) -> None:
        """Add a round: a task and its score, 0 to 1, for each of the tasks that `ask` returned."""
        place = self.lengths.index(length)
        numbers = np.array([self.tasks.index(task) for task, _ in scores])
        values = np.array([score for _, score in scores])
        # A task that is not drawn counts as one asked once: stakes do not depend on the draw.
        often = np.maximum(np.bincount(numbers, minlength=len(self.tasks)), 1)[:, None]
        variances, gap = self._variances[place], self.averages[place] - self.threshold
        gaps = np.array([np.clip(abs(gap), *EXPECTED_GAPS), *GAPS])
        spread = (variances + gaps[:, None] ** 2) @ (1 / often)
        stakes = len(self.tasks) * gaps / spread[:, 0]
        claims = np.append(AVERAGES, self.threshold)
        # What is claimed of each task: what is expected, moved so that its mean is the claim.
        expected = self._expected[place][:, None]
        claimed = expected - expected.mean() + claims
        for side, (sign, bets) in enumerate([(1, gap > -NEAR), (-1, gap < NEAR)]):
            # What the stake on a task loses at most: all that is claimed, or what it lacks of 1.
            losses = np.maximum((claimed if sign > 0 else 1 - claimed) / often, 1e-9).max(axis=0)
            off = (values[:, None] - claimed[numbers]) / often[numbers]
            for number, stake in enumerate(stakes):
                won = np.log1p(sign * np.minimum(stake, MOST / losses) * off).sum(axis=0)
                self._won_against[place, side, number] += won[:-1]
                self._won[place, side, number] += won[-1] * bets
        np.add.at(self.sums[place], numbers, values)
        np.add.at(self._squares[place], numbers, values**2)
        np.add.at(self.counts[place], numbers, 1)
        # What is expected, which is looked at several times between two rounds, is another now.
        del self._expected, self._variances, self._curve
        self._refuted |= self.evidence() >= self._needed
        self.path.append({
            "length": length, "draws": len(scores), "mean": float(values.mean()),
            "left": str(self), "tokens": self.spent,
        })  # fmt: skip


def _rounded(number: float) -> str:
    """Return a number with two digits, ``350`` or ``0.012``."""
    return f"{float(f'{number:.2g}'):,g}"
