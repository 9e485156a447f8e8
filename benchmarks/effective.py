"""Cost and accuracy of searches for the effective length, on simulated models.

    python benchmarks/effective.py path/to/published_ruler.csv --models 1000
    python benchmarks/effective.py path/to/published_ruler.csv --models 1000 --bound

The file has a row for each model and a column for each length, averages in percent; drawn models
are its rows with noise, their tasks spread as those of real models are. Scores of tasks with
several references are shares of these, more spread than if each was found by itself. Questions on
one context are more alike than others: their correlation is `ALIKE`.

``--bound`` prints what no search with the same promises can do without, even one that knows the
rate of every task and only has to prove it. A search that ends at two neighbouring outcomes and is
wrong in one case of twenty has to tell the true model from each model with an outcome outside of
these two, so that its answers carry a Kullback-Leibler divergence of kl(0.05, 0.95) = 2.65 between
both (Wald 1945; Kaufmann, Cappé and Garivier 2016, "On the Complexity of Best-Arm Identification",
lemma 1). The model that is hardest to distinguish: each of its tasks differs by as much as costs
the same tokens to notice.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing

import numpy as np
import pandas as pd
from scipy.stats import betabinom

from rulerlib.analysis.averages import THRESHOLD
from rulerlib.effective import QUERIES, SHARE, Search, shared_queries
from rulerlib.progress import Progress
from rulerlib.tasks import RULER

# How much easier than the average a task is, in log odds; and how many references it has.
EASIER = dict(zip(RULER, (3, 3, 2.5, 2, 1, 0, 1.5, 2, 1, -1, 0.5, -0.3, -1.2), strict=True))
REFERENCES = {"niah_multivalue": 4, "niah_multiquery": 4, "vt": 5, "cwe": 10, "fwe": 3}

# The correlation of right answers on one context; and how alike those of several references are,
# as the two parameters of a beta distribution have this sum.
ALIKE, SPREAD = 0.1, 6.0

# Rates of models that a search must distinguish from the true one.
RATES = np.linspace(0.001, 0.999, 999)


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
    search = Search(RULER, lengths, confidence=given.confidence, queries=queries)
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
    places = np.log(lengths)
    area = np.trapezoid(curve, places) / (places[-1] - places[0])
    _, low, high = search.area()
    return (
        search.spent / search.design, search.computed / search.design, true in left,
        len(left) <= 2, len(left) == 1, claimed < THRESHOLD / 100 - 0.02, search.answers,
        low <= area <= high, high - low,
    )  # fmt: skip


# --- What no search can do without ------------------------------------------------------------


@functools.cache
def chances(size: int, spread: float) -> np.ndarray:
    """Return the chance of each number of right answers of a draw, a row for each of `RATES`."""
    right = np.arange(size + 1)
    return betabinom.pmf(right, size, *(spread * np.array([RATES, 1 - RATES]))[:, :, None])


def telling(truth: np.ndarray, average: float, draws: list, prices: list) -> list[float]:
    """Return the divergence that a token buys between true rates and any on the other side.

    Each task is moved until its divergence is the same multiple of what a draw costs; that
    multiple is returned for which the mean of all tasks arrives at the threshold. There is one
    for each of the prices, the costs of a draw by task.
    """
    curves, bought = [], []
    for rate, (size, spread) in zip(truth, draws, strict=True):
        table = chances(size, spread)
        real = betabinom.pmf(np.arange(size + 1), size, spread * rate, spread * (1 - rate))
        divergences = (real * np.log(np.maximum(real, 1e-300) / np.maximum(table, 1e-300))).sum(1)
        kept = (rate < RATES) if average < THRESHOLD / 100 else (rate > RATES)
        order = np.argsort(divergences[kept])
        roots = np.sqrt(np.maximum(divergences[kept][order], 0))
        curves.append(([0, *roots], [rate, *RATES[kept][order]]))
    for costs in prices:
        low, high = 1e-5, 10.0
        for _ in range(30):
            middle = (low * high) ** 0.5
            moved = sum(
                np.interp(middle * cost**0.5, *curve)
                for cost, curve in zip(costs, curves, strict=True)
            )
            if abs(moved - truth.sum()) < abs(len(RULER) * THRESHOLD / 100 - truth.sum()):
                low = middle
            else:
                high = middle
        bought.append(low**2)
    return bought


def divergence(one: float, other: float) -> float:
    """Return that between two chances of an event."""
    return one * np.log(one / other) + (1 - one) * np.log((1 - one) / (1 - other))


def bound(number: int, given: argparse.Namespace) -> list[float]:
    """Return the least tokens fed and computed for a drawn model, as shares of RULER's design."""
    lengths, curve, truth, queries, _ = model(number, given)
    draws, error = [draw(task, queries) for task in RULER], 1 - given.confidence
    above, least = int((curve > THRESHOLD / 100).sum()), []
    costs = [[queries[task] for task in RULER], [1] * len(RULER)]
    told = [telling(*pair, draws, costs) for pair in zip(truth, curve, strict=True)]
    for bought in np.transpose(told) / lengths:
        prices = []
        # How often the longer one of both neighbours of the truth is kept.
        for often in np.linspace(error, 1 - error, 19):
            price = 0.0
            for near, far, kept in ((above, above + 1, often), (above - 1, above - 2, 1 - often)):
                if 0 <= near < len(lengths):
                    needed = divergence(kept, 1 - error)
                    price += needed / bought[near]
                    if 0 <= far < len(lengths):
                        rest = divergence(error, 1 - error) - needed
                        price += rest / max(bought[near], bought[far])
            prices.append(price)
        least.append(min(prices) / Search(RULER, lengths).design)
    return least


def main() -> None:
    """Search for drawn models, and print how it went."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("published", help="a CSV file with a column for each length")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--queries", type=int, default=QUERIES, help="on one context, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bound", action="store_true", help="what no search can do without")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    work, rows = functools.partial(bound if given.bound else searched, given=given), []
    with Progress(given.models, "models") as bar, multiprocessing.Pool(given.processes) as pool:
        for row in pool.imap(work, range(given.models), chunksize=10):
            rows.append(row)
            bar.update(1)
    print(f"{given.models} models drawn around the published, seed {given.seed}; questions on a"
          f" context, at most: {given.queries}")  # fmt: skip
    shares, computed, *more = map(np.array, zip(*rows, strict=True))
    for name, share in (("fed", shares), ("computed, contexts read once", computed)):
        print(f"tokens {name}, of RULER's design: median {np.median(share):.2%}, nine of ten below"
              f" {np.quantile(share, 0.9):.2%}, 17 of 20 below {np.quantile(share, 0.85):.2%}, mean"
              f" {share.mean():.2%}")  # fmt: skip
    if given.bound:
        return
    right, two, one, false, answers, held, widths = more
    print(f"answers, median {np.median(answers):.0f}; interval holds the truth {right.mean():.1%},"
          f" and at most two lengths as well {(right & two).mean():.1%}; one length"
          f" {one.mean():.1%}")  # fmt: skip
    print(f"area: interval holds the truth {held.mean():.1%}, its width, median "
          f"{np.median(widths):.3f}, nine of ten below {np.quantile(widths, 0.9):.3f}")  # fmt: skip
    print(f"claims a length more than 2 points below the threshold: {false.mean():.1%}")


if __name__ == "__main__":
    main()
