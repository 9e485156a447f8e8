"""Two models on the same samples: the difference, its interval, and how many samples it needs.

A dataset does not depend on the model that answers it, and its needles do not even depend on the
tokenizer, so two models are compared sample by sample, which needs far fewer samples than comparing
two means (Miller 2024, "Adding Error Bars to Evals: A Statistical Approach to Language Model
Evaluations", section 4).

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

from rulerlib import packages
from rulerlib.analysis.accuracy import RESAMPLES, clusters, groups_of, tasks_in
from rulerlib.analysis.combined import Array, interval, size_of
from rulerlib.analysis.scores import nothing, of_measure
from rulerlib.errors import one_of, require
from rulerlib.fields import check
from rulerlib.intervals import clustered, recovered, wilson
from rulerlib.metrics.matches import wants_none

BY = ("language", "task", "length")

_SAME = [*BY, "questions", "index"]

# Pairs of models that are compared at most: more than one can look at.
MOST_PAIRS = 10


def newcombe(both: int, first: int, second: int, neither: int) -> tuple[float, float]:
    """Return the interval of the difference between two proportions of the same samples.

    Method 10 of Newcombe 1998, "Improved confidence intervals for the difference between
    binomial proportions based on paired data", Statistics in Medicine 17: Wilson's intervals of
    the two proportions, combined with their correlation. It stays within -1 and 1, and has
    width where the two never differ.

    Parameters
    ----------
    both, first, second, neither
        How many samples both models have right, only the first, only the second, neither.

    Raises
    ------
    ParameterError
        If there are no samples, or a count is negative.
    """
    counts = both, first, second, neither
    n = sum(counts)
    require(n > 0 and min(counts) >= 0, "counts", counts, "0 or more, not all of them 0")
    ours, theirs = ((hits / n, *wilson(hits, n)) for hits in (both + first, both + second))
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    excess = float(both * neither - first * second)
    if excess > 0:
        # Newcombe's continuity correction: phi towards 0, but not beyond it.
        excess = max(excess - n / 2, 0)
    return recovered(ours, theirs, excess / math.sqrt(margins) if margins else 0.0)


def holm(chances: Sequence[float]) -> list[float]:
    """Return *p* values corrected for how many comparisons are made at once.

    Below 5 % all over, at most one family of comparisons in twenty says of any two equal models
    that they differ (Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure").

    Parameters
    ----------
    chances
        The *p* values of one family. NaN where nothing was tested, which stays and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    tested = [place for place, p in enumerate(chances) if not math.isnan(p)]
    corrected = [math.nan] * len(chances)
    largest = 0.0
    for passed, place in enumerate(sorted(tested, key=lambda place: chances[place])):
        largest = max(largest, min(1.0, (len(tested) - passed) * chances[place]))
        corrected[place] = largest
    return corrected


def samples_needed(difference: float, variance: float) -> float:
    """Return how many samples would tell two models apart, four times in five.

    n = (z(0.975) + z(0.8))^2 * variance / difference^2, with the variance of the differences sample
    by sample (Miller 2024, section 5, equation 9, with one answer for each question).

    Parameters
    ----------
    difference
        Between the two means, 0 to 1.
    variance
        Of the differences, sample by sample.

    Returns
    -------
    float
        A whole number, at least 2; infinite where the models do not differ; NaN where the variance
        is.

    >>> samples_needed(0.05, 0.10)
    314.0
    """
    if difference == 0:
        return math.inf
    if math.isnan(variance):
        return math.nan
    z = sum(map(NormalDist().inv_cdf, (0.975, 0.8)))
    return float(max(2, math.ceil(z * z * variance / (difference * difference))))


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

    Samples are the same if language, task, length, index and what else decides the questions
    (their seed, the user's own texts, how many share a context) are, and the references agree;
    others are left out and counted in ``left_out``. The same needle in another text is another
    sample.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    first, second
        Models, as the table names them. A positive difference is in favour of the first.
    measure
        See `rulerlib.analysis.of_measure`.
    by
        What is compared separately. Where a group holds several tasks, its means are means over
        tasks, as RULER's are.
    resamples, seed
        How often the test by signs draws, and the seed of its random numbers.

    Returns
    -------
    DataFrame
        ``by``, ``n`` (samples both were asked), the two means, ``difference``, ``low``, ``high``;
        ``method``: ``newcombe`` for right-or-wrong answers to independent samples of one task,
        else ``recovered``, the same from the intervals of both means and their correlation over
        samples; ``only_first``, ``only_second``: samples that only one has right or better;
        ``p``: of McNemar's exact test, for the former, else of the test by signs, see
        `by_signs`; ``p_holm``: corrected for all rows of the table, see `holm`;
        ``variance`` of the differences, sample by sample; ``needed``:
        samples of each task that would tell them apart four times in five if they differ by what
        was seen, which is itself uncertain, see `samples_needed`; ``left_out`` (answers);
        ``tasks`` and ``missing``, where groups hold several, see
        `rulerlib.analysis.accuracy.tasks_in`. Means and differences are from -1 to 1. An empty
        table that says why where no sample is shared.

    Raises
    ------
    ParameterError
        If a model is not in the table, both are the same, no row has this measure, or
        ``resamples`` or ``seed`` cannot be one.
    MissingExtraError
        If `scipy` is not installed, which McNemar's test needs.
    """
    models = list(dict.fromkeys(table["model"])) if "model" in table else []
    for name, value in (("first", first), ("second", second)):
        one_of(name, value, models)
    require(first != second, "second", second, "another model than first")
    check(resamples=resamples, seed=seed)
    table = of_measure(table, measure)[
        ["model", *_SAME, "repeat", "outputs", "context_id", "value"]
    ]
    if table["repeat"].any():
        # Answers to one sample are one value: their mean (Miller 2024, section 3.1).
        first_ones = {"outputs": "first", "context_id": "first", "value": "mean"}
        table = table.groupby(["model", *_SAME], sort=False, as_index=False).agg(first_ones)
    both = table[table["model"].isin([first, second])]
    ours, theirs = (both[both["model"] == name] for name in (first, second))
    joined = ours.merge(theirs, on=_SAME, how="inner", suffixes=("", "_other"))
    # What references say: their order, and the language of "none", do not count.
    outputs = joined[["outputs", "outputs_other"]].map(
        lambda said: ["none"] if wants_none(said) else sorted(said)
    )
    same = joined[outputs["outputs"] == outputs["outputs_other"]]
    if same.empty:
        return nothing(f"{first} and {second} were asked no sample in common.")
    answers = {tuple(names.values()): len(part) for names, part in groups_of(both, by)}
    rng = np.random.default_rng(seed)
    rows = [
        {**names, **compared(part, resamples, rng),
         "left_out": answers[tuple(names.values())] - 2 * len(part)}
        for names, part in groups_of(same.assign(unit=clusters(same)), by)
    ]  # fmt: skip
    differences = pd.DataFrame(rows).merge(tasks_in(same, by), on=list(by))
    differences["p_holm"] = holm(differences["p"].tolist())
    return differences.rename(columns={"first": first, "second": second})


def two_by_two(
    table: pd.DataFrame, chosen: Sequence[str] | None = None, **options: Any
) -> pd.DataFrame:
    """Return models compared two by two, each pair as `paired` does it.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    chosen
        Two models; None: all pairs, of which at most ``MOST_PAIRS`` are compared.
    options
        ``measure``, ``by``, ``resamples`` and ``seed``, see `paired`.

    Returns
    -------
    DataFrame
        ``models``, and the columns of `paired`, in which the two means are called ``first mean``
        and ``second mean``, and ``p_holm`` is corrected for all rows of all pairs; an empty table
        says why.

    Raises
    ------
    ParameterError, MissingExtraError
        As `paired` does.
    """
    models = list(dict.fromkeys(table["model"]))
    if len(models) < 2:
        there = f"is one model here, {models[0]}" if models else "are no answers here"
        return nothing(f"There {there}, and a comparison needs two.")
    require(chosen is None or len(chosen) == 2, "chosen", chosen, "two models, or None")
    differences = []
    for first, second in ([chosen] if chosen else [*combinations(models, 2)])[:MOST_PAIRS]:
        pair = paired(table, first, second, **options)
        if len(pair):
            pair = pair.drop(columns="variance")
            pair = pair.rename(columns={first: "first mean", second: "second mean"})
            pair.insert(0, "models", f"{first} − {second}")
            differences.append(pair)
    if not differences:
        return nothing("No two models here were asked the same samples.")
    together = pd.concat(differences, ignore_index=True)
    together["p_holm"] = holm(together["p"].tolist())
    return together


def compared(part: pd.DataFrame, resamples: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return a row of `paired` for one group: the mean over tasks of the differences.

    Parameters
    ----------
    part
        A row for each sample: ``task``; ``unit``, its context or itself; ``value`` and
        ``value_other``, what the first and the second model got.
    resamples, rng
        See `by_signs` and `paired`.
    """
    part = part.assign(difference=part["value"] - part["value_other"])
    tasks = [task for _, task in part.groupby("task", sort=False)]
    binary = bool(part[["value", "value_other"]].isin([0, 1]).all(axis=None))
    first, second = (
        float(np.mean([task[name].mean() for task in tasks])) for name in ("value", "value_other")
    )
    only = int((part["difference"] > 0).sum()), int((part["difference"] < 0).sum())
    if binary and part["unit"].is_unique and len(tasks) == 1:
        both = int(((part["value"] == 1) & (part["value_other"] == 1)).sum())
        low, high = newcombe(both, *only, len(part) - both - sum(only))
        scipy = packages.load("scipy.stats", "notebook", "This analysis")
        p = float(scipy.binomtest(only[0], sum(only)).pvalue) if sum(only) else 1.0
        method = "newcombe"
    else:
        ours, theirs = (_mean_of(tasks, name) for name in ("value", "value_other"))
        low, high = recovered(ours, theirs, _correlation(tasks))
        # The difference of a unit, as far as it moves the mean over tasks.
        moves = [_sums(task)[0][:, 0] / (len(task) * len(tasks)) for task in tasks]
        p = by_signs(np.concatenate(moves), resamples, rng)
        method = "recovered"
    # The variance of the mean over k tasks of n samples each is the sum of theirs over k^2 n.
    spread = sum(variance(task) for task in tasks) / len(tasks) ** 2
    return {
        "n": len(part), "first": first, "second": second, "difference": first - second,
        "low": low, "high": high, "method": method,
        "only_first": only[0], "only_second": only[1], "p": p, "p_holm": p,
        "variance": spread, "needed": samples_needed(first - second, spread),
    }  # fmt: skip


def by_signs(moves: Array, resamples: int, rng: np.random.Generator) -> float:
    """Return the *p* value of a difference, by the signs of its parts.

    Were two models alike, each sample's difference could as well have had the other sign. The
    *p* value is the share of such assignments whose sum is as far from 0 as the one seen: of all
    of them, where they are at most ``resamples``, else of as many random ones. For
    right-or-wrong answers to one task this is McNemar's exact test.

    Parameters
    ----------
    moves
        The difference of each sample, or of each context where samples share it.

    >>> by_signs(np.array([1.0, 1, 1, 1, 0, -1]), 2000, np.random.default_rng(0))
    0.375
    """
    moves = moves[np.abs(moves) > 1e-12]
    if not len(moves):
        return 1.0
    # Sums of the same numbers may differ in their last digit.
    seen = abs(moves.sum()) - 1e-9 * np.abs(moves).sum()
    if 2 ** len(moves) <= resamples:
        signs = np.array(list(product((-1, 1), repeat=len(moves))))
        return float((np.abs(signs @ moves) >= seen).mean())
    signs = rng.choice(np.array([-1, 1], dtype=np.int8), (resamples, len(moves)))
    # The assignment that was seen counts as one of them, so that p is never 0.
    return float(((np.abs(signs @ moves) >= seen).sum() + 1) / (resamples + 1))


def _mean_of(tasks: Sequence[pd.DataFrame], name: str) -> tuple[float, float, float]:
    """Return one model's mean over tasks, and both ends of its interval."""
    cells = [clustered(task[name].tolist(), task["unit"].tolist()) for task in tasks]
    rates = np.array([cell.mean for cell in cells])
    sizes, freedom = np.array([size_of(cell) for cell in cells]).T
    weights = np.full(len(tasks), 1 / len(tasks))
    low, high = interval(rates, sizes, weights, freedom=freedom)
    return float(rates.mean()), low, high


def _correlation(tasks: Sequence[pd.DataFrame]) -> float:
    """Return how the two means depend on each other, over samples or the contexts they share.

    Where nearly all answers of a model are alike, the data say little about it, and a positive
    correlation, which makes the interval narrower, is taken nearer to 0, as Newcombe does.
    """
    products, telling = np.zeros((2, 2)), np.zeros(2)
    for task in tasks:
        values = task[["value", "value_other"]]
        mean = values.mean()
        telling += (len(task) * mean * (1 - mean)).to_numpy()
        away = (values - mean).groupby(task["unit"]).sum().to_numpy() / len(task)
        products += away.T @ away
    spread = math.sqrt(products[0, 0] * products[1, 1])
    if spread < 1e-12:
        return 0.0
    correlation = float(products[0, 1]) / spread
    certain = float(telling.min() / (telling.min() + 1))
    return min(1.0, correlation * certain if correlation > 0 else max(-1.0, correlation))


def variance(rows: pd.DataFrame) -> float:
    """Return n times the variance of the mean of n differences, robust to contexts they share.

    Parameters
    ----------
    rows
        One row for each sample: its ``difference`` and its ``unit``, the context or itself.
    """
    sums, counts = _sums(rows)
    units = len(sums)
    if units < 2:
        return math.nan
    away = sums - counts * rows["difference"].mean()
    return float(units / (units - 1) * (away**2).sum() / len(rows))


def _sums(rows: pd.DataFrame) -> tuple[Array, Array]:
    """Return the sum of the differences of each unit, and how many they are: units x 1."""
    grouped = rows.groupby("unit")["difference"].agg(["sum", "size"]).to_numpy(dtype=float)
    return grouped[:, :1], grouped[:, 1:]
