"""Two models on the same samples: the difference, its interval, and how many samples it needs.

A dataset does not depend on the model that answers it, and its needles do not
even depend on the tokenizer, so two models are compared sample by sample, which
needs far fewer samples than comparing two means (Miller 2024, "Adding Error
Bars to Evals: A Statistical Approach to Language Model Evaluations", section 4).

>>> low, high = newcombe(both=1, first=1, second=7, neither=12)
>>> round(low, 3), round(high, 3)
(-0.507, -0.026)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from rulerlib import metrics
from rulerlib.analysis.averages import RESAMPLES
from rulerlib.analysis.tables import clusters, groups_of, nothing, plain, scipy
from rulerlib.errors import ParameterError, nearest, whole_number

BY = ("language", "task", "length")

_SAME = ["language", "task", "length", "index"]


def newcombe(
    both: int, first: int, second: int, neither: int, confidence: float = 0.95
) -> tuple[float, float]:
    """The interval of the difference of two proportions that were measured on the same samples.

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
    n = both + first + second + neither
    if n == 0 or min(both, first, second, neither) < 0:
        raise ParameterError(
            "counts", (both, first, second, neither), "0 or more, not all of them 0"
        )
    p, q = (both + first) / n, (both + second) / n
    (p_low, p_high), (q_low, q_high) = (
        metrics.wilson(hits, n, confidence) for hits in (both + first, both + second)
    )
    product = (both + first) * (second + neither) * (both + second) * (first + neither)
    excess = float(both * neither - first * second)
    if excess > 0:
        # Newcombe's continuity correction: phi towards 0, but not beyond it.
        excess = max(excess - n / 2, 0)
    phi = excess / math.sqrt(product) if product else 0.0

    def reach(own: float, other: float) -> float:
        return math.sqrt(max(0.0, own * own - 2 * phi * own * other + other * other))

    difference = p - q
    low = difference - reach(p - p_low, q_high - q)
    high = difference + reach(p_high - p, q - q_low)
    return max(-1.0, low), min(1.0, high)


def samples_needed(
    difference: float, variance: float, confidence: float = 0.95, power: float = 0.8
) -> float:
    """How many samples would tell two models apart that differ by so much.

    n = (z(1 - alpha/2) + z(power))^2 * variance / difference^2, with the variance of the
    differences sample by sample (Miller 2024, section 5, equation 9, with one answer for each
    question).

    Parameters
    ----------
    difference
        Between the two means, 0 to 1.
    variance
        Of the differences, sample by sample.

    Returns
    -------
    float
        A whole number; infinite where the models do not differ.

    >>> samples_needed(0.05, 0.10)
    314.0
    """
    if not 0 < confidence < 1 or not 0 < power < 1:
        raise ParameterError("confidence, power", (confidence, power), "between 0 and 1")
    if difference == 0:
        return math.inf
    normal = NormalDist()
    z = normal.inv_cdf(0.5 + confidence / 2) + normal.inv_cdf(power)
    return float(max(2, math.ceil(z * z * variance / (difference * difference))))


def paired(
    table: pd.DataFrame,
    first: str,
    second: str,
    metric: str = "strict",
    by: Sequence[str] = BY,
    confidence: float = 0.95,
    power: float = 0.8,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """The difference between two models, on the samples that both were asked.

    Samples are the same if language, task, length and index are, and the references agree;
    others are left out and counted in ``left_out``.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    first, second
        Names of models. A positive difference is in favour of the first.
    by
        What is compared separately. Where a group holds several tasks, its means are means over
        tasks, as RULER's are.
    resamples, seed
        Of the paired bootstrap, which draws samples (or contexts, where they are shared) within
        each task, with both models' answers.

    Returns
    -------
    DataFrame
        ``by``, ``n`` (samples both were asked), the two means, ``difference``, ``low``, ``high``;
        ``method``: `newcombe` for right-or-wrong answers to independent samples of one task,
        else ``bootstrap`` (percentile); ``only_first``, ``only_second``: samples that only one
        has right; ``p``: of McNemar's exact test, for the former; ``needed``: samples of each
        task that would tell them apart with this power (80 %) if they differ by what was seen,
        which is itself uncertain, see `samples_needed`; ``left_out``.

    Raises
    ------
    ParameterError
        If a model is not in the table, or both are the same.
    """
    models = list(dict.fromkeys(table["model"])) if "model" in table else []
    for name, value in (("first", first), ("second", second)):
        if value not in models:
            raise ParameterError(name, value, nearest(value, models))
    if first == second:
        raise ParameterError("second", second, "another model than first")
    whole_number("resamples", resamples, 1)
    columns = [*_SAME, "outputs", metric]
    if "context_id" in table:
        columns.append("context_id")
    ours, theirs = (table[table["model"] == name][columns] for name in (first, second))
    joined = ours.merge(theirs, on=_SAME, how="inner", suffixes=("", "_other"))
    agree = [
        sorted(one) == sorted(other)
        for one, other in zip(joined["outputs"], joined["outputs_other"], strict=True)
    ]
    same = joined[np.asarray(agree, dtype=bool)]
    if same.empty:
        return nothing(f"{first} and {second} were asked no sample in common.")
    rows = []
    asked = (
        table[table["model"].isin([first, second])].groupby(list(by), observed=True)["index"].size()
    )
    rng = np.random.default_rng(seed)
    for names, part in groups_of(same.assign(unit=clusters(same)), by):
        row = dict(zip(by, names, strict=True))
        row |= _compared(part, metric, confidence, power, resamples, rng)
        key = names if len(by) > 1 else names[0]
        row["left_out"] = int(asked.loc[key]) - 2 * len(part)
        rows.append(row)
    made = pd.DataFrame(rows).rename(columns={"first": first, "second": second})
    return plain(made, by)


def _compared(
    part: pd.DataFrame,
    metric: str,
    confidence: float,
    power: float,
    resamples: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """One group: mean over tasks of the differences."""
    part = part.assign(own=part[metric], other=part[f"{metric}_other"])
    part = part.assign(difference=part["own"] - part["other"])
    tasks = [own for _, own in part.groupby("task", sort=False)]
    binary = bool(part[["own", "other"]].isin([0, 1]).all(axis=None))
    alone = part["unit"].is_unique
    means = {name: float(np.mean([own[name].mean() for own in tasks])) for name in ("own", "other")}
    difference = means["own"] - means["other"]
    only = int((part["difference"] > 0).sum()), int((part["difference"] < 0).sum())
    p = math.nan
    if binary and alone and len(tasks) == 1:
        both = int(((part["own"] == 1) & (part["other"] == 1)).sum())
        low, high = newcombe(both, *only, len(part) - both - sum(only), confidence)
        method = "newcombe"
        p = float(scipy("stats").binomtest(only[0], sum(only)).pvalue) if sum(only) else 1.0
    else:
        drawn = np.mean([_bootstrap(own, resamples, rng) for own in tasks], axis=0)
        low, high = np.quantile(drawn, [0.5 - confidence / 2, 0.5 + confidence / 2])
        method = "bootstrap"
    # The variance of the mean over k tasks of n samples each is the sum of theirs over k^2 n.
    variance = sum(_variance(own) for own in tasks) / len(tasks) ** 2
    return {
        "n": len(part),
        "first": means["own"],
        "second": means["other"],
        "difference": difference,
        "low": float(low),
        "high": float(high),
        "method": method,
        "only_first": only[0],
        "only_second": only[1],
        "p": p,
        "needed": samples_needed(difference, variance, confidence, power),
    }


def _variance(own: pd.DataFrame) -> float:
    """Of the differences, as if independent samples had it: n times that of their mean."""
    sums = own.groupby("unit")["difference"].agg(["sum", "size"])
    count = len(sums)
    if count < 2:
        return math.nan
    away = sums["sum"] - sums["size"] * own["difference"].mean()
    return float(count / (count - 1) * (away**2).sum() / len(own))


def _bootstrap(own: pd.DataFrame, resamples: int, rng: np.random.Generator) -> Any:
    sums = own.groupby("unit")["difference"].agg(["sum", "size"]).to_numpy(dtype=float)
    drawn = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), resamples)
    return (drawn @ sums[:, 0]) / (drawn @ sums[:, 1])
