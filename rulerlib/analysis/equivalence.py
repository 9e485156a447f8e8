"""Whether two models, or engines, differ by less than a margin.

That no difference was found does not say that there is none. For one who changes an engine, a
quantization or a cache, the question is another one: is the difference, whatever it is, smaller
than what matters? The test is that of two one-sided tests (Schuirmann 1987, "A Comparison of the
Two One-Sided Tests Procedure and the Power Approach"): at 5 %, it says yes where the interval of
90 % lies within the margin.

>>> verdict(-0.004, 0.007, margin=0.01), verdict(-0.02, 0.007, margin=0.01)
('equivalent', 'undecided')
>>> verdict(0.013, 0.05, margin=0.01)
'different'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import pandas as pd

from rulerlib.analysis.pairs import BY, each_pair, paired
from rulerlib.errors import is_number, require

MARGIN = 0.01
"""One point: what a reader of scores in percent takes for no difference."""

_CONFIDENCE = 0.9


def verdict(low: float, high: float, margin: float = MARGIN) -> str:
    """Return what an interval says about a margin.

    Parameters
    ----------
    low, high
        Of the difference, at 90 %.
    margin
        What matters, above 0.

    Returns
    -------
    str
        ``"equivalent"``: the difference is smaller than the margin; ``"different"``: it is
        larger; ``"undecided"``: the interval holds both smaller and larger ones.
    """
    if -margin < low and high < margin:
        return "equivalent"
    return "different" if low > margin or high < -margin else "undecided"


def samples_for(
    margin: float, variance: float, confidence: float = _CONFIDENCE, power: float = 0.8
) -> float:
    """Return how many samples would show two models of no difference to be equivalent.

    n = (z(confidence) + z(power))^2 * variance / margin^2, with z of both sides: 1.64 and 1.28
    (Julious 2004, "Sample Sizes for Clinical Trials with Normal Data", section 5).

    Parameters
    ----------
    margin
        What matters, above 0.
    variance
        Of the differences, sample by sample.

    >>> samples_for(0.01, 0.05)
    4282.0
    """
    normal = NormalDist()
    z = normal.inv_cdf(0.5 + confidence / 2) + normal.inv_cdf(0.5 + power / 2)
    return float(max(2, math.ceil(z * z * variance / (margin * margin))))


def equivalence(
    table: pd.DataFrame,
    first: str,
    second: str,
    margin: float = MARGIN,
    by: Sequence[str] = BY,
    **options: Any,
) -> pd.DataFrame:
    """Return whether two models differ by less than a margin.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    first, second
        Models, as the table names them; two engines or quantizations of one model are two names
        there, see `rulerlib.analysis.labels`.
    margin
        What matters, as a share: 0.01 is one point.
    by
        What is compared separately; ``("language",)`` takes the mean over all tasks and lengths
        that are in a language.
    options
        ``measure``, ``resamples`` and ``seed``, see `rulerlib.analysis.pairs.paired`.

    Returns
    -------
    DataFrame
        ``by``, ``n``, the two means, ``difference``, ``low`` and ``high`` (at 90 %), ``margin``,
        ``verdict``, and ``needed``: how many samples of each task would show two models that do
        not differ at all to be equivalent, four times in five. Where no answer differs, one in
        n + 1 counts as different. An empty table says why there is none.

    Raises
    ------
    ParameterError
        If the margin is not between 0 and 1, or another parameter cannot work.
    """
    holds = is_number(margin) and 0 < margin < 1
    require(holds, "margin", margin, "a number above 0 and below 1, such as 0.01 for one point")
    pairs = paired(table, first, second, by=by, confidence=_CONFIDENCE, **options)
    if pairs.empty:
        return pairs
    pairs["margin"] = float(margin)
    pairs["verdict"] = [
        verdict(low, high, margin) for low, high in zip(pairs["low"], pairs["high"], strict=True)
    ]
    pairs["needed"] = [
        # One sample has no variance.
        math.nan if math.isnan(variance) else samples_for(margin, (variance * n + 1) / (n + 1))
        for variance, n in zip(pairs["variance"], pairs["n"], strict=True)
    ]
    rest = [name for name in ("left_out", "tasks", "missing") if name in pairs]
    shown = ["n", first, second, "difference", "low", "high", "margin", "verdict", "needed"]
    return pairs[[*by, *shown, *rest]]


def equivalences(
    table: pd.DataFrame,
    chosen: Sequence[str] | None = None,
    margin: float = MARGIN,
    **options: Any,
) -> pd.DataFrame:
    """Return whether models differ by less than a margin, two by two.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    chosen
        Two models; None: all pairs, see `rulerlib.analysis.pairs.two_by_two`.
    margin, options
        See `equivalence`.

    Returns
    -------
    DataFrame
        ``models``, and the columns of `equivalence`, in which the two means are called ``first
        mean`` and ``second mean``, and the ends of the interval at 90 % ``lower`` and ``upper``.
        An empty table says why there is none.

    Raises
    ------
    ParameterError, MissingExtraError
        As `equivalence`.
    """
    together = each_pair(
        table, chosen, lambda first, second: equivalence(table, first, second, margin, **options)
    )
    # Figures and tables call "low" and "high" an interval of 95 %.
    return together.rename(columns={"low": "lower", "high": "upper"})
