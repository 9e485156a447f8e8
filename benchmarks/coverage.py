"""How often each interval of the tables and figures holds the truth.

    python benchmarks/coverage.py                        # all of them, four minutes of one core
    python benchmarks/coverage.py --only Wilson recall --rounds 500

Answers are drawn whose true rates are known, the interval is computed from them as the tables do
it, and it is counted how often it holds the truth; the target is 95%. One row for each interval,
way of drawing and rate, one column for each number of samples. The counts of right answers are
whole numbers, so coverage jumps up and down as the rate changes: each round draws its rate evenly
from p - d to p + d, d = (1 - p) / 5. The table is Markdown and goes to standard output, progress to
standard error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis import (
    READINGS,
    THRESHOLD,
    Averages,
    compared,
    effective,
    newcombe,
    readings,
    weights_of,
)
from rulerlib.errors import RulerError
from rulerlib.intervals import clustered, wilson

SIZES = (5, 20, 100, 500)
RATES = (0.5, 0.9, 0.99, 1.0)

Array = np.ndarray[Any, Any]
Round = Callable[[int, np.random.Generator], bool]
"""One round with n samples: whether the interval holds the truth."""

LENGTHS = (4096, 8192, 16384, 32768)


def near(p: float, rng: np.random.Generator) -> float:
    """Return a rate from p - d to p + d."""
    return p + float(rng.uniform(-1, 1)) * (1 - p) / 5


def difficulties(p: Any, dependence: float, shape: Any, rng: np.random.Generator) -> Array:
    """Return the rate of each context or sample, with this intraclass correlation."""
    if dependence == 0 or np.all(np.asarray(p) >= 1):
        return np.broadcast_to(p, shape).astype(float)
    if dependence == 1:
        return (rng.random(shape) < p).astype(float)
    much = 1 / dependence - 1
    whole = np.minimum(p, 1 - 1e-9)
    return rng.beta(whole * much, (1 - whole) * much, shape)


def held(low: float, truth: float, high: float) -> bool:
    """Return whether an interval holds the truth, but for rounding."""
    return low - 1e-9 <= truth <= high + 1e-9


# --- Means of one task -----------------------------------------------------------------------


def of_wilson(p: float) -> Round:
    def once(n: int, rng: np.random.Generator) -> bool:
        rate = near(p, rng)
        low, high = wilson(int(rng.binomial(n, rate)), n)
        return held(low, rate, high)

    return once


def of_clusters(p: float, dependence: float, questions: int = 5) -> Round:
    """n contexts, each with five questions."""

    def once(n: int, rng: np.random.Generator) -> bool:
        rate = near(p, rng)
        values = rng.random((n, questions)) < difficulties(rate, dependence, (n, 1), rng)
        found = clustered(values.ravel().astype(float).tolist(), [*np.repeat(range(n), questions)])
        return held(found.low, rate, found.high)

    return once


def of_recall(p: float, dependence: float, needles: int = 4) -> Round:
    """n samples with four needles each."""

    def once(n: int, rng: np.random.Generator) -> bool:
        rate = near(p, rng)
        values = rng.binomial(needles, difficulties(rate, dependence, n, rng)) / needles
        found = clustered(values.tolist(), range(n))
        return held(found.low, rate, found.high)

    return once


# --- Differences of two models ---------------------------------------------------------------


def two(rates: tuple[float, float], alike: float, shape: Any, rng: np.random.Generator) -> Array:
    """Return the answers of two models to the same samples; a share of them is equally hard."""
    hard = rng.random(shape)
    other = np.where(rng.random(shape) < alike, hard, rng.random(shape))
    return np.stack([hard < rates[0], other < rates[1]]).astype(float)


def of_newcombe(p: float, less: float, alike: float) -> Round:
    def once(n: int, rng: np.random.Generator) -> bool:
        first = near(p, rng)
        ours, theirs = two((first, first - less), alike, n, rng)
        both, only = int((ours * theirs).sum()), int((ours * (1 - theirs)).sum())
        other = int(((1 - ours) * theirs).sum())
        low, high = newcombe(both, only, other, n - both - only - other)
        return held(low, less, high)

    return once


def of_pairs(p: float, less: float, alike: float, tasks: int, needles: int) -> Round:
    """Several tasks of n samples; with one needle answers are right or wrong, else recall."""

    def once(n: int, rng: np.random.Generator) -> bool:
        first = near(p, rng)
        ours, theirs = two((first, first - less), alike, (tasks, n, needles), rng).mean(axis=3)
        part = pd.DataFrame({
            "task": np.repeat(range(tasks), n), "unit": np.arange(tasks * n),
            "value": ours.ravel(), "value_other": theirs.ravel(),
        })  # fmt: skip
        row = compared(part, 2, rng)
        return held(row["low"], less, row["high"])

    return once


# --- Averages over tasks and lengths ---------------------------------------------------------


def answered(rates: Array, n: int, dependence: float, rng: np.random.Generator) -> Averages:
    """Return the averages of drawn answers, tasks x lengths; each length has the same samples.

    Parameters
    ----------
    dependence
        0: answers are independent; 1: a sample that is right at one length is right at all
        lengths whose rate is at least that of this one.
    """
    tasks, lengths = rates.shape
    shared = np.broadcast_to(rng.random((tasks, n, 1)), (tasks, n, lengths))
    own = rng.random((tasks, n, lengths))
    values = np.where(rng.random((tasks, n, 1)) < dependence, shared, own) < rates[:, None]
    task, sample, length = np.indices(values.shape)
    rows = pd.DataFrame({
        "task": task.ravel(), "length": np.take(LENGTHS, length.ravel()),
        "value": values.ravel().astype(float), "unit": (n * task + sample).ravel(),
    })  # fmt: skip
    return Averages.of({}, rows, range(tasks), LENGTHS[:lengths])


def mixed(p: float, tasks: int, rng: np.random.Generator) -> Array:
    """Return rates of tasks whose mean is near p: some are never wrong, others often."""
    rate = near(p, rng)
    weights = np.zeros(tasks)
    weights[::3] = 1
    return 1 - (1 - rate) * weights / weights.mean()


def of_average(p: float, tasks: int, spread: bool) -> Round:
    def once(n: int, rng: np.random.Generator) -> bool:
        rates = mixed(p, tasks, rng) if spread else np.full(tasks, near(p, rng))
        one = answered(rates[:, None], n, 0, rng)
        low, high = one.interval({LENGTHS[0]: 1})
        return held(low, 100 * rates.mean(), high)

    return once


def of_weighted(p: float, weights: str, dependence: float) -> Round:
    """Four tasks at four lengths; the rate of failure at the last is twice that at the first."""

    def once(n: int, rng: np.random.Generator) -> bool:
        wrong = (1 - near(p, rng)) * np.linspace(2 / 3, 4 / 3, 4)
        rates = np.broadcast_to(1 - wrong, (4, 4))
        shares = weights_of(4, weights) / weights_of(4, weights).sum()
        one = answered(rates, n, dependence, rng)
        low, high = one.interval(dict(zip(LENGTHS, shares.tolist(), strict=True)))
        return held(low, 100 * float(shares @ (1 - wrong)), high)

    return once


# --- What follows from averages --------------------------------------------------------------

FALLING = {
    "falls at once": (0.97, 0.95, 0.93, 0.6),
    "near the threshold": (0.95, 0.90, 0.87, 0.84),
    "comes back": (0.95, 0.83, 0.89, 0.6),
    "always right": (1.0, 1.0, 1.0, 1.0),
}


def of_effective(shape: str, reading: str, dependence: float) -> Round:
    """Four tasks; whether the truth lies between both ends, which are lengths."""
    rates = np.broadcast_to(FALLING[shape], (4, 4))
    true = dict(zip(LENGTHS, (100 * rates[0]).tolist(), strict=True))
    wanted = str(effective(true, THRESHOLD, reading))
    order = ["<4K", "4K", "8K", "16K", "≥32K"]

    def once(n: int, rng: np.random.Generator) -> bool:
        one = answered(rates, n, dependence, rng)
        (row,) = (row for row in readings(one, THRESHOLD) if row["reading"] == reading)
        return order.index(row["low"]) <= order.index(wanted) <= order.index(row["high"])

    return once


# --- The table -------------------------------------------------------------------------------


def rows() -> Iterator[tuple[str, str, str, Round]]:
    """Yield the interval, the way of drawing, the rate, and one round."""
    for p in RATES:
        yield "mean of right-or-wrong answers (Wilson)", "independent", f"{p:g}", of_wilson(p)
    for icc in (0.0, 0.3, 1.0):
        for p in RATES:
            name = f"n contexts of 5 questions, ICC {icc:g}"
            yield "mean in contexts (clustered)", name, f"{p:g}", of_clusters(p, icc)
    for icc in (0.0, 0.3, 1.0):
        for p in RATES:
            yield "mean recall", f"4 needles, ICC {icc:g}", f"{p:g}", of_recall(p, icc)
    for p, less in ((0.5, 0.0), (0.9, 0.0), (0.9, 0.1), (0.99, 0.0), (0.99, 0.1), (1.0, 0.0)):
        rate = f"{p:g} and {p - less:g}"
        yield "difference (Newcombe)", "half equally hard", rate, of_newcombe(p, less, 0.5)
    for p, less in ((0.5, 0.0), (0.9, 0.1), (0.99, 0.0)):
        rate = f"{p:g} and {p - less:g}"
        kind = "difference (recovered)"
        yield kind, "4 tasks, half equally hard", rate, of_pairs(p, less, 0.5, 4, 1)
        yield kind, "recall, half equally hard", rate, of_pairs(p, less, 0.5, 1, 4)
    for tasks in (4, 13):
        for p in RATES:
            yield "average of tasks", f"{tasks} alike", f"{p:g}", of_average(p, tasks, False)
    for p in (0.9, 0.99):
        yield "average of tasks", "13, a third of them hard", f"{p:g}", of_average(p, 13, True)
    for dependence in (0.0, 0.3, 1.0):
        for p in (0.9, 0.99, 1.0):
            how = f"4 tasks, 4 lengths, dependence {dependence:g}"
            yield "wAvg. (inc)", how, f"{p:g}", of_weighted(p, "inc", dependence)
    for p in (0.9, 0.99):
        how = "4 tasks, 4 lengths, dependence 0.3"
        yield "Avg.", how, f"{p:g}", of_weighted(p, "even", 0.3)
    for shape, rates in FALLING.items():
        for reading in READINGS:
            text = " ".join(f"{rate:g}" for rate in rates)
            once = of_effective(shape, reading, 0.3)
            yield f"effective length ({reading})", f"4 tasks, {shape}", text, once


FAST = ("mean", "difference (Newcombe)")
"""Intervals that take no search, of which four times as many are drawn."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=200, help="of each cell; means: four times")
    parser.add_argument(
        "--only", nargs="+", help="rows whose first two columns contain one of these"
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="numbers of samples")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    heads = ["interval", "drawn", "true rate", *(f"n = {size}" for size in options.sizes)]
    print(f"| {' | '.join(heads)} |")
    print("|" + "---|" * len(heads))
    started = time.monotonic()
    for number, (name, how, rate, once) in enumerate(rows()):
        if options.only and not any(wanted in f"{name}, {how}" for wanted in options.only):
            continue
        count = options.rounds * (4 if name.startswith(FAST) else 1)
        cells = []
        for size in options.sizes:
            rng = np.random.default_rng([options.seed, number, size])
            cells.append(f"{100 * sum(once(size, rng) for _ in range(count)) / count:.1f}")
        print(f"| {' | '.join([name, how, rate, *cells])} |", flush=True)
        print(f"{time.monotonic() - started:.0f} s: {name}, {how}, {rate}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except RulerError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
