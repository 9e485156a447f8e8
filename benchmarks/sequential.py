"""How many samples a sequential plan asks, and how often it is wrong.

    python benchmarks/sequential.py                      # 1,000 rounds of each row, about a minute
    python benchmarks/sequential.py --rounds 4000 --most 200

Answers are drawn whose true rates are known, and asked for as `-p sequential true` does it, against
the threshold of the effective length. One row for each number of tasks and rate:

- at any time: in how many percent of the rounds the true rate was refuted after any number of
  samples at all, had one looked at each; at most 5 are allowed;
- wrong side: in how many the plan stopped and named the wrong side of the threshold; above and
  below: what it said; the rest was asked to the end and is undecided;
- samples: the mean of what was asked of each task, and its share of a fixed design.

The last column is what an interval of 95 % comes to that is made for one look and looked at in the
same places: in how many percent of the rounds it names the wrong side. Markdown goes to standard
output, progress to standard error.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Iterable

import numpy as np
from scipy.special import betaln

from rulerlib.analysis.combined import interval
from rulerlib.errors import RulerError
from rulerlib.intervals import wilson
from rulerlib.sequential import THRESHOLD, looks, side

RATES = (0.5, 0.7, 0.8, 0.85, 0.856, 0.9, 0.95, 0.99)
TASKS = (1, 13)

COLUMNS = (
    "tasks", "true rate", "at any time (%)", "wrong side (%)", "above (%)", "below (%)",
    "samples", "of a fixed design (%)", "wrong side, ordinary (%)",
)  # fmt: skip


def missed(right: np.ndarray, rate: float) -> bool:
    """Return whether the true rate was refuted after any number of samples.

    Worked out from the beta-binomial likelihood, for all numbers of samples at once.

    Parameters
    ----------
    right
        Samples x tasks: how many answers are right so far.
    """
    most, tasks = right.shape
    count = np.arange(1, most + 1)
    apart = betaln(right + 0.5, count[:, None] - right + 0.5).sum(axis=1) - tasks * math.log(
        math.pi
    )
    whole = right.sum(axis=1)
    together = betaln(whole + 0.5, tasks * count - whole + 0.5) - math.log(math.pi)
    won = np.logaddexp(apart, together) - math.log(2)
    likelihood = whole * math.log(rate) + (tasks * count - whole) * math.log(1 - rate)
    return bool((won - likelihood >= math.log(20)).any())


def ordinary(sums: np.ndarray, count: int) -> str | None:
    """Return on which side an interval lies that is made for one look."""
    if len(sums) == 1:
        low, high = wilson(float(sums[0]), count)
    else:
        weights = np.full(len(sums), 1 / len(sums))
        low, high = interval(sums / count, np.full(len(sums), float(count)), weights)
    return "above" if 100 * low > THRESHOLD else "below" if 100 * high < THRESHOLD else None


def planned(right: np.ndarray, count: int) -> str | None:
    """Return what a sequential plan finds after ``count`` samples of each task."""
    return side([(float(each), count) for each in right[count - 1]], THRESHOLD)


def first(verdicts: Iterable[tuple[str | None, int]]) -> tuple[str | None, int]:
    """Return the first verdict that is one, or else the last, with the number of samples."""
    known = (None, 0)
    for known in verdicts:
        if known[0]:
            break
    return known


def row(tasks: int, rate: float, rounds: int, most: int, rng: np.random.Generator) -> list[str]:
    """Return one row of the table."""
    wrong = "below" if 100 * rate > THRESHOLD else "above"
    refuted = asked = usual = 0
    said = {"above": 0, "below": 0, None: 0}
    # Of the ordinary interval, which takes a search, few rounds are looked at.
    few = math.ceil(rounds / 4)
    for number in range(rounds):
        right = np.cumsum(rng.random((most, tasks)) < rate, axis=0)
        refuted += missed(right, rate)
        verdict, count = first((planned(right, count), count) for count in looks(most))
        said[verdict] += 1
        asked += count
        if number < few:
            found, _ = first((ordinary(right[count - 1], count), count) for count in looks(most))
            usual += found == wrong
    shares = refuted, said[wrong], said["above"], said["below"]
    percent = [f"{100 * share / rounds:.1f}" for share in shares]
    used = [f"{asked / rounds:.0f}", f"{100 * asked / rounds / most:.0f}"]
    return [str(tasks), f"{rate:g}", *percent, *used, f"{100 * usual / few:.1f}"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=1000, help="of each row (default: 1000)")
    parser.add_argument("--most", type=int, default=500, help="samples of a fixed design")
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    parser.add_argument("--tasks", nargs="+", type=int, default=TASKS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    print(f"| {' | '.join(COLUMNS)} |")
    print("|" + "---|" * len(COLUMNS))
    started = time.monotonic()
    for tasks, rate in itertools.product(options.tasks, options.rates):
        rng = np.random.default_rng([options.seed, tasks, round(1000 * rate)])
        print(f"| {' | '.join(row(tasks, rate, options.rounds, options.most, rng))} |", flush=True)
        print(f"{time.monotonic() - started:.0f} s: {tasks} tasks, {rate}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except RulerError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
