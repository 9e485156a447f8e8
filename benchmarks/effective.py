"""Cost and accuracy of searches for the effective length, on simulated models.

    python benchmarks/effective.py path/to/published_ruler.csv --models 1000

The file has a row for each model and a column for each length, averages in percent; drawn models
are its rows with noise, their tasks spread as those of real models are. Scores of tasks with
several references are shares of these, more spread than if each was found by itself. Questions on
one context are more alike than others: their correlation is `ALIKE`.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing

import numpy as np
import pandas as pd

from rulerlib.analysis import THRESHOLD
from rulerlib.effective import QUERIES, SHARE, Search, shared_queries
from rulerlib.predict import progress_bar
from rulerlib.tasks import RULER

# How much easier than the average a task is, in log odds; and how many references it has.
EASIER = dict(zip(RULER, (3, 3, 2.5, 2, 1, 0, 1.5, 2, 1, -1, 0.5, -0.3, -1.2), strict=True))
REFERENCES = {"niah_multivalue": 4, "niah_multiquery": 4, "vt": 5, "cwe": 10, "fwe": 3}

# The correlation of right answers on one context; and how alike those of several references are,
# as the two parameters of a beta distribution have this sum.
ALIKE, SPREAD = 0.1, 6.0


def rates(average: float, easier: np.ndarray) -> np.ndarray:
    """Return a rate for each task, whose mean is an average."""
    low, high = -12.0, 12.0
    for _ in range(50):
        middle = (low + high) / 2
        if (1 / (1 + np.exp(-(easier + middle)))).mean() < average:
            low = middle
        else:
            high = middle
    return 1 / (1 + np.exp(-(easier + low)))


def draw(task: str, queries: dict[str, int]) -> tuple[int, float]:
    """Return of how many answers a draw is made, and the sum of the beta's parameters."""
    if queries[task] > 1:
        return queries[task], 1 / ALIKE - 1
    return REFERENCES.get(task, 1), SPREAD


def model(number: int, given: argparse.Namespace):
    """Return the lengths, the averages there, the rates, the questions on a context, a generator.

    A generator for each model: another plan searches the same models.
    """
    table = pd.read_csv(given.published)
    lengths = [int(name) for name in table.columns if name.isdigit()]
    shown = table[list(map(str, lengths))].apply(pd.to_numeric, errors="coerce").dropna() / 100
    rng = np.random.default_rng([given.seed, number])
    curve = shown.to_numpy()[rng.integers(len(shown))] + rng.normal(0, 0.01, len(lengths))
    curve = np.minimum.accumulate(np.clip(curve, 0.02, 0.99))
    easier = np.array([*EASIER.values()]) + rng.normal(0, 0.7, len(EASIER))
    truth = np.array([rates(average, easier) for average in curve])
    queries = {task: shared_queries(task, given.queries) for task in RULER}
    return lengths, curve, truth, queries, rng


def searched(number: int, given: argparse.Namespace) -> tuple:
    """Search for a drawn model, and return how it went."""
    lengths, curve, truth, queries, rng = model(number, given)
    search = Search(RULER, lengths, queries=queries)
    for length in search.rounds(SHARE):
        scores = []
        for task, rate in zip(RULER, truth[lengths.index(length)], strict=True):
            size, spread = draw(task, queries)
            if size > 1:
                rate = rng.beta(max(spread * rate, 1e-3), max(spread * (1 - rate), 1e-3))
            scores.append(rng.binomial(size, rate) / size)
        search.add(length, scores)
    left, true = search.candidates, [None, *lengths][int((curve > THRESHOLD / 100).sum())]
    claimed = curve[lengths.index(left[0])] if left[0] else 1.0
    return (
        search.spent / search.design, search.computed / search.design, true in left,
        len(left) <= 2, len(left) == 1, claimed < THRESHOLD / 100 - 0.02, search.answers,
    )  # fmt: skip


def main() -> None:
    """Search for drawn models, and print how it went."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("published", help="a CSV file with a column for each length")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=QUERIES, help="on one context, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    work, rows = functools.partial(searched, given=given), []
    with progress_bar(given.models, "models") as bar, multiprocessing.Pool(given.processes) as pool:
        for row in pool.imap(work, range(given.models), chunksize=10):
            rows.append(row)
            bar.update(1)
    print(f"{given.models} models drawn around the published, seed {given.seed}; questions on a"
          f" context, at most: {given.queries}")  # fmt: skip
    shares, computed, right, two, one, false, answers = map(np.array, zip(*rows, strict=True))
    for name, share in (("fed", shares), ("computed, contexts read once", computed)):
        print(f"tokens {name}, of RULER's design: median {np.median(share):.2%}, nine of ten below"
              f" {np.quantile(share, 0.9):.2%}, 17 of 20 below {np.quantile(share, 0.85):.2%}, mean"
              f" {share.mean():.2%}")  # fmt: skip
    print(f"answers, median {np.median(answers):.0f}; interval holds the truth {right.mean():.1%},"
          f" and at most two lengths as well {(right & two).mean():.1%}; one length"
          f" {one.mean():.1%}")  # fmt: skip
    print(f"claims a length more than 2 points below the threshold: {false.mean():.1%}")


if __name__ == "__main__":
    main()
