"""Two models on the same samples: the difference, its interval, and the samples needed to see it.

A dataset does not depend on the model, and its needles do not depend on the tokenizer. So two
models are compared sample by sample, which takes far fewer samples than comparing two means
(Miller 2024, "Adding Error Bars to Evals: A Statistical Approach to Language Model Evaluations",
section 4).

>>> low, high = newcombe(both=1, first=1, second=7, neither=12)
>>> round(low, 3), round(high, 3)
(-0.507, -0.026)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from rulerlib.analysis.accuracy import RESAMPLES, clusters, rows_of, tasks_in
from rulerlib.analysis.averages import Array
from rulerlib.analysis.scores import nothing, of_measure
from rulerlib.errors import ParameterError, one_of, whole_number
from rulerlib.intervals import clustered, recovered, wilson
from rulerlib.metrics.matches import wants_none

BY = ("language", "task", "length")

_SAME = [*BY, "questions", "index"]

MOST_PAIRS = 10
"""The number of pairs that `two_by_two` compares at most."""


def newcombe(both: int, first: int, second: int, neither: int) -> tuple[float, float]:
    """Return the interval of the difference between two proportions of the same samples.

    Method 10 of Newcombe 1998, "Improved confidence intervals for the difference between
    binomial proportions based on paired data", Statistics in Medicine 17: Wilson's intervals of
    the two proportions, combined with their correlation. It stays within -1 and 1.

    Parameters
    ----------
    both, first, second, neither
        The number of samples that both models, only the first, only the second, or neither
        answered correctly.

    Raises
    ------
    ParameterError
        If there are no samples, or a count is negative.
    """
    counts = both, first, second, neither
    n = sum(counts)
    if n == 0 or min(counts) < 0:
        raise ParameterError("counts", counts, "0 or more, not all of them 0")
    ours, theirs = ((hits / n, *wilson(hits, n)) for hits in (both + first, both + second))
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    excess = float(both * neither - first * second)
    if excess > 0:
        # Newcombe's continuity correction.
        excess = max(excess - n / 2, 0)
    return recovered(ours, theirs, excess / math.sqrt(margins) if margins else 0.0)


def holm(chances: Sequence[float]) -> list[float]:
    """Return *p* values corrected for multiple comparisons.

    Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure". If all models are equal,
    a table has any corrected value below 5% in at most 5% of cases.

    Parameters
    ----------
    chances
        The *p* values of one family. NaN stays NaN and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    rising = sorted((p, place) for place, p in enumerate(chances) if not math.isnan(p))
    corrected, largest = [math.nan] * len(chances), 0.0
    for number, (p, place) in enumerate(rising):
        largest = max(largest, min(1.0, (len(rising) - number) * p))
        corrected[place] = largest
    return corrected


def samples_needed(difference: float, variance: float) -> float:
    """Return the number of samples that detect a difference with a power of 80%.

    n = (z(0.975) + z(0.8))^2 * variance / difference^2 (Miller 2024, section 5, equation 9, with
    one answer for each question).

    Parameters
    ----------
    difference
        Between the two means, 0 to 1.
    variance
        Of the differences between samples.

    Returns
    -------
    float
        A whole number, at least 2; infinite if the difference is 0; NaN if the variance is NaN.

    >>> samples_needed(0.05, 0.10)
    314.0
    """
    if difference == 0:
        return math.inf
    if math.isnan(variance):
        return math.nan
    z = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
    return float(max(2, math.ceil(z**2 * variance / difference**2)))


def paired(
    table: pd.DataFrame,
    first: str,
    second: str,
    measure: str = "primary",
    by: Sequence[str] = BY,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the difference between two models, on the samples that both were asked.

    Samples are the same if language, task, length, index and everything else that determines the
    questions (seed, own texts, questions per context) are equal, and the references agree.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    first, second
        Models, as the table names them. A positive difference favours the first.
    measure
        See `rulerlib.analysis.of_measure`.
    by
        What is compared separately. If a group has several tasks, its means are means over tasks.
    resamples, seed
        The number of random draws of the sign test, and their seed.

    Returns
    -------
    DataFrame
        ``by``, ``n`` (samples both were asked), the two means, ``difference``, ``low``, ``high``;
        ``method``: ``newcombe`` for independent samples of one task that are right or wrong, else
        ``recovered``, from the intervals of both means and their correlation; ``only_first`` and
        ``only_second``, the samples on which one model is better; ``p``, of McNemar's exact test
        for ``newcombe``, else of the sign test `by_signs`; ``p_holm``, corrected for all rows, see
        `holm`; ``variance`` of the differences between samples; ``needed``, the samples of each
        task that would detect the observed difference, see `samples_needed`; ``left_out``, the
        answers to samples that only one model was asked; ``tasks`` and ``missing`` if groups have
        several tasks, see `rulerlib.analysis.accuracy.tasks_in`. An empty table if no sample is
        shared.

    Raises
    ------
    ParameterError
        If a model is not in the table, both are the same, no row has this measure, or
        ``resamples`` or ``seed`` is invalid.
    """
    models = list(dict.fromkeys(table["model"])) if "model" in table else []
    for name, value in (("first", first), ("second", second)):
        one_of(name, value, models)
    if first == second:
        raise ParameterError("second", second, "another model than first")
    whole_number("resamples", resamples, 1)
    whole_number("seed", seed, 0)
    table = of_measure(table, measure)[
        ["model", *_SAME, "repeat", "outputs", "context_id", "value"]
    ]
    if table["repeat"].any():
        # The value of a sample is the mean over its answers (Miller 2024, section 3.1).
        first_ones = {"outputs": "first", "context_id": "first", "value": "mean"}
        table = table.groupby(["model", *_SAME], sort=False, as_index=False).agg(first_ones)
    both = table[table["model"].isin([first, second])]
    ours, theirs = (both[both["model"] == name] for name in (first, second))
    joined = ours.merge(theirs, on=_SAME, suffixes=("", "_other"))
    same = joined[joined["outputs"].map(_references) == joined["outputs_other"].map(_references)]
    if same.empty:
        return nothing(f"{first} and {second} have no sample in common.")
    rng = np.random.default_rng(seed)
    same = same.assign(unit=clusters(same))
    differences = rows_of(same, by, lambda part: compared(part, resamples, rng))
    answers = both.groupby(list(by)).size().rename("left_out")
    differences = differences.merge(answers, left_on=list(by), right_index=True)
    differences["left_out"] -= 2 * differences["n"]
    differences = differences.merge(tasks_in(same, by), on=list(by))
    differences["p_holm"] = holm(differences["p"].tolist())
    return differences.rename(columns={"first": first, "second": second})


def two_by_two(
    table: pd.DataFrame, chosen: Sequence[str] | None = None, **options: Any
) -> pd.DataFrame:
    """Return a comparison of each pair of models, see `paired`.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    chosen
        Two models. If None, the first ``MOST_PAIRS`` of all pairs.
    options
        ``measure``, ``by``, ``resamples`` and ``seed``, see `paired`.

    Returns
    -------
    DataFrame
        ``models``, and the columns of `paired`, with the two means as ``first mean`` and
        ``second mean``, and ``p_holm`` corrected for all rows of all pairs; an empty table if
        there is nothing to compare.

    Raises
    ------
    ParameterError
        See `paired`.
    """
    models = list(dict.fromkeys(table["model"]))
    if len(models) < 2:
        there = f"there is only {models[0]}" if models else "there are no answers"
        return nothing(f"A comparison needs two models, but {there}.")
    if chosen is not None and len(chosen) != 2:
        raise ParameterError("chosen", chosen, "two models, or None")
    differences = []
    for first, second in [chosen] if chosen else list(combinations(models, 2))[:MOST_PAIRS]:
        pair = paired(table, first, second, **options)
        if len(pair):
            pair.insert(0, "models", f"{first} − {second}")
            pair = pair.rename(columns={first: "first mean", second: "second mean"})
            differences.append(pair.drop(columns="variance"))
    if not differences:
        return nothing("No two models have a sample in common.")
    together = pd.concat(differences, ignore_index=True)
    together["p_holm"] = holm(together["p"].tolist())
    return together


def _references(outputs: Sequence[str]) -> list[str]:
    """Return references for comparison: in any order, and "none" in any language."""
    return ["none"] if wants_none(outputs) else sorted(outputs)


def compared(part: pd.DataFrame, resamples: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return a row of `paired` for one group: the mean over tasks of the differences.

    Parameters
    ----------
    part
        A row for each sample: ``task``; ``unit``, its context or itself; ``value`` and
        ``value_other``, the scores of the first and the second model.
    resamples, rng
        See `by_signs`.
    """
    part = part.assign(difference=part["value"] - part["value_other"])
    tasks = [task for _, task in part.groupby("task", sort=False)]
    first, second = (
        float(np.mean([task[name].mean() for task in tasks])) for name in ("value", "value_other")
    )
    only_first, only_second = (int((sign * part["difference"] > 0).sum()) for sign in (1, -1))
    binary = bool(part[["value", "value_other"]].isin([0, 1]).all(axis=None))
    if binary and part["unit"].is_unique and len(tasks) == 1:
        both = int((part["value"] + part["value_other"] == 2).sum())
        neither = len(part) - both - only_first - only_second
        low, high = newcombe(both, only_first, only_second, neither)
        differ = only_first + only_second
        p = float(binomtest(only_first, differ).pvalue) if differ else 1.0
        method = "newcombe"
    else:
        share = 1 / part.groupby("task")["task"].transform("size")
        ours, theirs = (
            clustered(part[name].tolist(), part["unit"], part["task"], share.tolist())
            for name in ("value", "value_other")
        )
        low, high = recovered(
            (first, ours.low, ours.high), (second, theirs.low, theirs.high), _correlation(tasks)
        )
        # How far the difference of each unit moves the mean over tasks.
        moves = part["difference"] * share / len(tasks)
        moves = moves.groupby([part["task"], part["unit"]]).sum()
        p = by_signs(moves.to_numpy(), resamples, rng)
        method = "recovered"
    # The variance of the mean over k tasks of n samples each is the sum of theirs over k^2 n.
    spread = sum(variance(task) for task in tasks) / len(tasks) ** 2
    return {
        "n": len(part), "first": first, "second": second, "difference": first - second,
        "low": low, "high": high, "method": method,
        "only_first": only_first, "only_second": only_second, "p": p, "p_holm": p,
        "variance": spread, "needed": samples_needed(first - second, spread),
    }  # fmt: skip


def by_signs(moves: Array, resamples: int, rng: np.random.Generator) -> float:
    """Return the *p* value of a sign test (a paired permutation test).

    If two models are equal, each difference is as likely with the other sign. The *p* value is
    the share of assignments of signs whose sum is at least as far from 0 as the observed one:
    of all assignments if there are at most ``resamples``, else of as many random ones.

    Parameters
    ----------
    moves
        The difference of each sample, or of each context if samples share it.

    >>> by_signs(np.array([1.0, 1, 1, 1, 0, -1]), 2000, np.random.default_rng(0))
    0.375
    """
    moves = moves[np.abs(moves) > 1e-12]
    if not len(moves):
        return 1.0
    # Sums of the same numbers may differ in their last digit.
    observed = abs(moves.sum()) - 1e-9 * np.abs(moves).sum()
    if 2 ** len(moves) <= resamples:
        signs = np.array(list(product((-1, 1), repeat=len(moves))))
        return float((np.abs(signs @ moves) >= observed).mean())
    signs = rng.choice(np.array([-1, 1], dtype=np.int8), (resamples, len(moves)))
    # The observed assignment counts as well, so that p is never 0.
    return float(((np.abs(signs @ moves) >= observed).sum() + 1) / (resamples + 1))


def _correlation(tasks: Sequence[pd.DataFrame]) -> float:
    """Return the correlation of the two means, over samples or the contexts they share.

    If nearly all answers of a model are equal, the data say little about it, and a positive
    correlation, which makes the interval narrower, is shrunk towards 0.
    """
    products, k = np.zeros((2, 2)), np.zeros(2)
    for task in tasks:
        values = task[["value", "value_other"]]
        mean = values.mean()
        k += (len(task) * mean * (1 - mean)).to_numpy()
        away = (values - mean).groupby(task["unit"]).sum().to_numpy() / len(task)
        products += away.T @ away
    spread = math.sqrt(products[0, 0] * products[1, 1])
    if spread < 1e-12:
        return 0.0
    correlation = max(-1.0, min(1.0, float(products[0, 1]) / spread))
    return correlation * float(k.min() / (k.min() + 1)) if correlation > 0 else correlation


def variance(rows: pd.DataFrame) -> float:
    """Return n times the variance of the mean of n differences, robust to shared contexts.

    Parameters
    ----------
    rows
        A row for each sample: its ``difference`` and its ``unit``, the context or itself.
    """
    away = (rows["difference"] - rows["difference"].mean()).groupby(rows["unit"]).sum()
    units = len(away)
    if units < 2:
        return math.nan
    return float(units / (units - 1) * (away**2).sum() / len(rows))
