"""Asking only until it is clear on which side of a threshold a mean lies.

A fixed design asks the same number of samples everywhere, though most lengths are far above or far
below the threshold of the effective length. A sequential plan looks at the answers after some
samples, and stops where the interval of the mean lies wholly on one side. An interval of 95 % that
is made for one look does not allow that: who looks again and again finds it on the wrong side
sooner or later. Those here hold at all looks at once, and so wherever one stops:

>>> low, high = confidence_sequence([(35, 35)])
>>> round(low, 3), high
(0.858, 1.0)
>>> side([(35, 35)], threshold=85.6), side([(18, 20)], 85.6), side([(5, 15)], 85.6)
('above', None, 'below')

Each is a confidence sequence (Robbins 1970, "Statistical Methods Related to the Law of the
Iterated Logarithm"; for means of values from 0 to 1 Waudby-Smith and Ramdas 2024, "Estimating Means
of Bounded Random Variables by Betting"). Somebody bets on the answers against the claim that the
true rate is p, in a game that is fair if it is. Who wins twentyfold has refuted p: by Ville's
inequality this happens at any time at all to one true p in twenty. The bets here are those of
Krichevsky and Trofimov 1981: before each answer a right one is expected with the probability
(right answers so far + 1/2) / (answers so far + 1). What is won in all is the beta-binomial
likelihood of the answers, with Jeffreys' prior, divided by their likelihood at p.

With several tasks the mean of their rates is asked for. Half of the money bets on each task by
itself, half on all of them as if they were one; and a mean is refuted where even the likeliest
rates that have it are (universal inference, Wasserman, Ramdas and Balakrishnan 2020). For values
between 0 and 1, such as recall, the same formula wins no more than a fair game would (the geometric
mean is below the arithmetic one), so it holds for them, and is a little too wide.

A run asks its tasks in turn, a few samples of each, and reads their answers from their files after
each round: one that was killed comes to the same looks with the same answers, and stops at the same
sample. Samples must come as draws do: in the order of their numbers, in which depths are spread
evenly, and not sorted by how deep a needle lies.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from rulerlib import tasks
from rulerlib.errors import require
from rulerlib.progress import Progress
from rulerlib.store.answers import evidence
from rulerlib.store.cell import Cell

if TYPE_CHECKING:
    from rulerlib.runs import Run

THRESHOLD = 85.6
"""What an average has to exceed for its length to be effective, in percent: RULER's choice, the
average of Llama-2-7B (chat) at 4K."""

LOOK = 10
"""Samples of each task between two looks, at least; of ten samples, each takes another tenth of
the depths."""

# The later a look, the more samples precede it: a quarter more than at the one before.
_GROWTH = 4

CONFIDENCE = 0.95
"""How often all intervals of a mean hold it, and how often it never seems on the wrong side."""

# How often the search halves what is left, of a share of 1.
_HALVINGS = 48

Tally = tuple[float, int]
"""The draws of one task: the sum of their values, and how many they are."""


def looks(most: int, step: int = 1, least: int = LOOK) -> Iterator[int]:
    """Yield after how many samples of each task the answers are looked at; the last is ``most``.

    >>> list(looks(100))
    [10, 20, 30, 40, 50, 62, 77, 96, 100]

    Parameters
    ----------
    most
        The samples that a fixed design would ask.
    step
        Looks are taken at multiples of it: of a batch, or of the questions on one context.
    least
        Samples between two looks, at least.
    """
    count = 0
    while count < most:
        more = max(least, count // _GROWTH)
        count = min(most, count + math.ceil(more / step) * step)
        yield count


def tally(values: Sequence[float], clusters: Sequence[Hashable]) -> Tally:
    """Return the sum and the number of independent draws among values from 0 to 1.

    Values of one cluster, such as the questions on one context or the answers to one question,
    depend on each other and are one draw: their mean.

    >>> tally([1, 0, 1, 1], ["a", "a", "b", "c"])
    (2.5, 3)

    Parameters
    ----------
    clusters
        For each value the name of its cluster.
    """
    drawn: dict[Hashable, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        drawn.setdefault(cluster, []).append(value)
    return math.fsum(math.fsum(draws) / len(draws) for draws in drawn.values()), len(drawn)


def side(tallies: Sequence[Tally], threshold: float) -> str | None:
    """Return whether the mean of several tasks lies ``"above"`` or ``"below"`` a threshold.

    Parameters
    ----------
    tallies
        One for each task.
    threshold
        In percent.

    Returns
    -------
    str or None
        None where the interval holds the threshold, so that it is not clear yet.
    """
    low, high = confidence_sequence(tallies)
    if 100 * low > threshold:
        return "above"
    return "below" if 100 * high < threshold else None


def confidence_sequence(
    tallies: Sequence[Tally], weights: Sequence[float] | None = None
) -> tuple[float, float]:
    """Return an interval of a mean of rates that holds whenever one looks.

    Parameters
    ----------
    tallies
        What was measured of each rate, of a task say. Draws of one rate are independent of those
        of the others.
    weights
        Of each rate in the mean, with the sum 1; None: all alike.

    Returns
    -------
    low, high
        From 0 to 1. (0, 1) where nothing was measured.

    Raises
    ------
    ParameterError
        If a sum is not from 0 to the number of draws.
    """
    for total, count in tallies:
        require(0 <= total <= count, "tallies", total, f"from 0 to the number of draws ({count})")
    shares = [1 / len(tallies)] * len(tallies) if weights is None else weights
    # Rates at which the answers are less likely than this are refuted.
    floor = _won(tallies) + math.log(1 - CONFIDENCE)
    mirrored = [(count - total, count) for total, count in tallies]
    return _lowest(tallies, shares, floor), 1 - _lowest(mirrored, shares, floor)


def _won(tallies: Sequence[Tally]) -> float:
    """Return the logarithm of the likelihood of all answers under the bets."""
    apart = math.fsum(_mixture(total, count) for total, count in tallies)
    together = _mixture(math.fsum(total for total, _ in tallies), sum(n for _, n in tallies))
    larger, smaller = max(apart, together), min(apart, together)
    return larger + math.log((1 + math.exp(smaller - larger)) / 2)


def _mixture(total: float, count: int) -> float:
    """Return the logarithm of the beta-binomial likelihood, with Jeffreys' prior."""
    right, wrong = math.lgamma(total + 0.5), math.lgamma(count - total + 0.5)
    return right + wrong - math.lgamma(count + 1) - math.log(math.pi)


def _lowest(tallies: Sequence[Tally], weights: Sequence[float], floor: float) -> float:
    """Return the lowest mean of rates at which the answers are as likely as ``floor``."""
    if not any(total for total, _ in tallies):
        return 0.0
    unit = max(count for _, count in tallies) / max(weights)
    near, far = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        rates = _likeliest(tallies, weights, unit * middle / (1 - middle))
        if _likelihood(tallies, rates) > floor:
            near = middle
        else:
            far = middle
    rates = _likeliest(tallies, weights, unit * near / (1 - near))
    return math.fsum(weight * rate for weight, rate in zip(weights, rates, strict=True))


def _likeliest(
    tallies: Sequence[Tally], weights: Sequence[float], multiplier: float
) -> list[float]:
    """Return the likeliest rates whose mean is lower, more so for a larger Lagrange multiplier.

    Each is the root p of ``total / p - (count - total) / (1 - p) = multiplier * weight``.
    """
    rates = []
    for (total, count), weight in zip(tallies, weights, strict=True):
        slope = multiplier * weight
        root = math.sqrt(max(0.0, (count + slope) ** 2 - 4 * slope * total))
        rates.append(2 * total / (count + slope + root) if total else 0.0)
    return rates


def _likelihood(tallies: Sequence[Tally], rates: Sequence[float]) -> float:
    """Return the logarithm of the likelihood of all answers at these rates."""
    terms = []
    for (total, count), rate in zip(tallies, rates, strict=True):
        for number, chance in ((total, rate), (count - total, 1 - rate)):
            if number > 0:
                terms.append(number * math.log(chance) if chance > 0 else -math.inf)
    return math.fsum(terms) if -math.inf not in terms else -math.inf


def ask_in_turn(run: Run, cells: Sequence[Cell], progress: Progress) -> None:
    """Ask the tasks of a run in turn until the mean at each length is clear, or all is asked.

    Parameters
    ----------
    run
        Says how many questions a cell has, asks the first of them, and what clear means: a mean
        above or below its threshold.
    cells
        Of the run, short lengths first; their questions are there.
    progress
        A bar to move on; what need not be asked counts as done.
    """
    for _, together in groupby(cells, key=attrgetter("length")):
        most = {cell: run.count(cell) for cell in together}
        counts = dict.fromkeys(most, 0)
        for look in looks(max(most.values()), max(map(run.step, most))):
            for cell in most:
                count = min(look, most[cell])
                plan = {"threshold": run.threshold, "planned": most[cell]}
                run.ask(cell, count, plan=plan)
                progress.advance(run.work([cell]) * (count - counts[cell]) / most[cell])
                counts[cell] = count
            tallies = [_answered(run, cell, count) for cell, count in counts.items()]
            if side(tallies, run.threshold):
                break
        for cell, count in counts.items():
            progress.advance(run.work([cell]) * (1 - count / most[cell]), measured=False)


def _answered(run: Run, cell: Cell, count: int) -> Tally:
    """Return what the first ``count`` samples came to, by what RULER's own script computes."""
    values, clusters, scoring = [], [], tasks.resolve(cell.task).scoring
    for answer in evidence(run.answers(cell), count)[0]:
        language = answer.others.get("language") or "en"
        scores = scoring.score(answer.pred, answer.outputs, answer.golds, language)
        values.append(scores[scoring.ruler])
        shared = answer.others.get("cluster") or answer.others.get("context_id")
        clusters.append(("alone", answer.index) if shared is None else ("context", shared))
    return tally(values, clusters)
