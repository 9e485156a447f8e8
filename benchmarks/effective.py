"""What a search for an effective length costs, and how often it is right: drawn models.

    python benchmarks/effective.py path/to/published_ruler.csv --models 1000

The file has a row for each model and a column for each length, averages in percent; drawn models
are its rows with noise, their tasks spread as those of real models are. Scores of tasks with
several references are shares of these, more spread than if each was found by itself. Questions on
one context are more alike than others: their correlation is `ALIKE`.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from rulerlib.adaptive import Search
from rulerlib.effective import QUERIES, SHARE, shared_queries
from rulerlib.sequential import THRESHOLD
from rulerlib.tasks import RULER

# How much easier than the average a task is, in log odds; and how many references it has.
EASIER = dict(zip(RULER, (3, 3, 2.5, 2, 1, 0, 1.5, 2, 1, -1, 0.5, -0.3, -1.2), strict=True))
REFERENCES = {"niah_multivalue": 4, "niah_multiquery": 4, "vt": 5, "cwe": 10, "fwe": 3}

# The correlation of right answers on one context.
ALIKE = 0.1


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


def main() -> None:
    """Search for drawn models, and print how it went."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("published", help="a CSV file with a column for each length")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--queries", type=int, default=QUERIES, help="on one context, at most")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    table = pd.read_csv(given.published)
    lengths = [int(name) for name in table.columns if name.isdigit()]
    shown = table[list(map(str, lengths))].apply(pd.to_numeric, errors="coerce").dropna() / 100
    queries = {task: shared_queries(task, given.queries) for task in RULER}
    places, rows = np.log(lengths), []
    for number in range(given.models):
        # A generator for each model: another plan searches the same models.
        rng = np.random.default_rng([given.seed, number])
        curve = shown.to_numpy()[rng.integers(len(shown))] + rng.normal(0, 0.01, len(lengths))
        curve = np.minimum.accumulate(np.clip(curve, 0.02, 0.99))
        easier = np.array([*EASIER.values()]) + rng.normal(0, 0.7, len(EASIER))
        truth = np.array([rates(average, easier) for average in curve])
        search = Search(RULER, lengths, confidence=given.confidence, queries=queries)
        for length, tasks in search.rounds(SHARE):
            scores = []
            for task in tasks:
                rate, size = (
                    truth[lengths.index(length), RULER.index(task)],
                    REFERENCES.get(task, 1),
                )
                spread = 6.0
                if queries[task] > 1:
                    size, spread = queries[task], 1 / ALIKE - 1
                if size > 1:
                    rate = rng.beta(max(spread * rate, 1e-3), max(spread * (1 - rate), 1e-3))
                scores.append((task, rng.binomial(size, rate) / size))
            search.add(length, scores)
        above = int((curve > THRESHOLD / 100).sum())
        true = [None, *lengths][above]
        left = search.candidates
        claimed = curve[lengths.index(left[0])] if left[0] else 1.0
        area = np.trapezoid(curve, places) / (places[-1] - places[0])
        _, low, high = search.area()
        rows.append(
            (search.spent / search.design, search.computed / search.design, true in left,
             len(left) <= 2, len(left) == 1, claimed < THRESHOLD / 100 - 0.02, search.answers,
             low <= area <= high, high - low)
        )  # fmt: skip
    shares, computed, right, two, one, false, answers, held, widths = map(
        np.array, zip(*rows, strict=True)
    )
    print(f"{given.models} models drawn around {len(shown)}, {lengths[0]} to {lengths[-1]} tokens")
    print(f"interval holds the truth {right.mean():.1%}, and at most two lengths as well "
          f"{(right & two).mean():.1%}; one length {one.mean():.1%}")  # fmt: skip
    print(f"tokens of RULER's design: median {np.median(shares):.2%}, nine of ten below "
          f"{np.quantile(shares, 0.9):.2%}, mean {shares.mean():.2%}; answers, median "
          f"{np.median(answers):.0f}")  # fmt: skip
    print(f"tokens computed, where contexts are read once: median {np.median(computed):.2%}, nine "
          f"of ten below {np.quantile(computed, 0.9):.2%}, mean {computed.mean():.2%}")  # fmt: skip
    print(f"area: interval holds the truth {held.mean():.1%}, its width, median "
          f"{np.median(widths):.3f}, nine of ten below {np.quantile(widths, 0.9):.3f}")  # fmt: skip
    print(f"claims a length more than 2 points below the threshold: {false.mean():.1%}")


if __name__ == "__main__":
    main()
