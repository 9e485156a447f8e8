"""How often the gate of `rulerlib.compare` is wrong, and how soon it sees a break.

    python benchmarks/compare.py

Answers are drawn: of each question, whether the first and the second model have it right. "Paired":
the first model knows all that the second knows, as when part of a cache is lost; otherwise they are
independent. The other rule is a Krichevsky-Trofimov bet on the pairs in which one of both is right.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from rulerlib.compare import AS_GOOD, UNDECIDED, Gate
from rulerlib.predict import progress_bar

# First and second rate, whether paired, and how many questions at most.
BREAKS = [
    (0.91, 0.13, False, 200), (0.91, 0.13, True, 200), (0.91, 0.70, False, 1000),
    (0.91, 0.70, True, 1000), (0.95, 0.90, False, 3000), (0.95, 0.90, True, 3000),
]  # fmt: skip
SAME = [(0.95, 0.95, False, 3000), (0.5, 0.5, False, 3000), (0.1, 0.1, False, 3000)]
ALIKE = [(0.9, 0.9, True, 1000), (0.95, 0.95, True, 1000)]


def drawn(rng: np.random.Generator, first: float, second: float, paired: bool, most: int):
    """Return the differences of some questions."""
    one = rng.random(most)
    other = one if paired else rng.random(most)
    return (one < first).astype(float) - (other < second)


def flagged(differences: np.ndarray) -> tuple[float, str]:
    """Return after how many questions the gate has a verdict, and which."""
    gate = Gate(["task"])
    for count, difference in enumerate(differences.tolist(), 1):
        gate.add("task", difference)
        # Between two questions that both answer alike, "worse" cannot become true.
        if (difference > 0 or count % 20 == 0) and gate.verdict != UNDECIDED:
            return count, gate.verdict
    return math.inf, UNDECIDED


def by_counts(differences: np.ndarray) -> float:
    """Return when a Krichevsky-Trofimov bet on the questions that differ has won twentyfold."""
    lost = won = 0
    money = 0.0
    for count, difference in enumerate(differences.tolist(), 1):
        if difference:
            share = max(0.5, (lost + 0.5) / (lost + won + 1))
            money += math.log(2 * (share if difference > 0 else 1 - share))
            lost, won = lost + (difference > 0), won + (difference < 0)
            if money >= math.log(20):
                return count
    return math.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    print("| A, B | answers | verdict | share of runs | median | 95% | the other rule |")
    print("|---|---|---|---|---|---|---|")
    rows = [*BREAKS, *SAME, *ALIKE]
    with progress_bar(len(rows) * runs, "comparisons") as bar:
        for first, second, paired, most in rows:
            rng, seen, others, verdicts = np.random.default_rng(1), [], [], []
            for _ in range(runs):
                differences = drawn(rng, first, second, paired, most)
                count, verdict = flagged(differences)
                seen.append(count)
                verdicts.append(verdict)
                others.append(by_counts(differences))
                bar.update(1)
            wanted = AS_GOOD if (first, second, paired, most) in ALIKE else "worse"
            share = verdicts.count(wanted) / runs
            times = [*np.quantile(seen, (0.5, 0.95), method="higher"),
                     *np.quantile(others, (0.5, 0.95), method="higher")]  # fmt: skip
            median, late, median_other, late_other = (f"{time:.0f}" for time in times)
            how = "paired" if paired else "independent"
            print(
                f"| {first:.0%}, {second:.0%} | {how} | {wanted} |"
                f" {share:.1%} | {median} | {late} | {median_other}, {late_other} |"
            )


if __name__ == "__main__":
    main()
