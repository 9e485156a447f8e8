"""Whether two models, or engines, differ by less than a margin.

>>> verdict(-0.004, 0.007), verdict(-0.02, 0.007), verdict(0.013, 0.05)
('equivalent', 'undecided', 'different')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rulerlib.analysis.pairs import BY, each_pair, paired, samples_needed
from rulerlib.errors import is_number, require

MARGIN = 0.01
"""One point: what a reader of scores in percent takes for no difference."""


def verdict(low: float, high: float, margin: float = MARGIN) -> str:
    """Return what an interval at 90 % of a difference says about a margin above 0."""
    if -margin < low and high < margin:
        return "equivalent"
    return "different" if low > margin or high < -margin else "undecided"


def equivalences(
    table: pd.DataFrame,
    chosen: Sequence[str] | None = None,
    margin: float = MARGIN,
    by: Sequence[str] = BY,
    **options: Any,
) -> pd.DataFrame:
    """Return whether models, or engines, differ by less than a margin, two by two.

    That no difference was found does not say that there is none. For one who changes an engine, a
    quantization or a cache, the question is another one: is the difference, whatever it is, smaller
    than what matters? The test is that of two one-sided tests (Schuirmann 1987, "A Comparison of
    the Two One-Sided Tests Procedure and the Power Approach"): at 5 %, it says yes where the
    interval of 90 % lies within the margin.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    chosen
        Two models, as the table names them; two engines or quantizations of one model are two
        names there, see `rulerlib.analysis.labels`. None: all pairs, see `two_by_two`.
    margin
        What matters, as a share: 0.01 is one point.
    by
        What is compared separately; ``("language",)`` takes the mean over all tasks and lengths
        that are in a language.
    options
        ``measure``, ``resamples`` and ``seed``, see `paired`.

    Returns
    -------
    DataFrame
        ``models``, ``by``, ``n``, ``first mean``, ``second mean``, ``difference``, ``lower`` and
        ``upper`` (at 90 %), ``margin``, ``verdict``: ``"equivalent"``, the difference is smaller
        than the margin; ``"different"``, it is larger; ``"undecided"``, the interval holds both
        smaller and larger ones; and ``needed``: how many samples of each task would show two
        models that do not differ at all to be equivalent, four times in five. Where no answer
        differs, one in n + 1 counts as different. An empty table says why there is none.

    Raises
    ------
    ParameterError
        If the margin is not between 0 and 1, or another parameter cannot work.
    MissingExtraError
        If `scipy` is not installed.
    """
    holds = is_number(margin) and 0 < margin < 1
    require(holds, "margin", margin, "a number above 0 and below 1, such as 0.01 for one point")

    def compare(first: str, second: str) -> pd.DataFrame:
        pairs = paired(table, first, second, by=by, confidence=0.9, **options)
        if pairs.empty:
            return pairs
        # Figures and tables call "low" and "high" an interval of 95 %.
        pairs = pairs.rename(columns={"low": "lower", "high": "upper"})
        pairs["margin"] = float(margin)
        pairs["verdict"] = [
            verdict(low, high, margin)
            for low, high in zip(pairs["lower"], pairs["upper"], strict=True)
        ]
        pairs["needed"] = [
            # One sample has no variance.
            samples_needed(margin, (variance * n + 1) / (n + 1), alike=True)
            for variance, n in zip(pairs["variance"], pairs["n"], strict=True)
        ]
        rest = [name for name in ("left_out", "tasks", "missing") if name in pairs]
        return pairs[[*by, "n", first, second, "difference", "lower", "upper", "margin", "verdict",
                      "needed", *rest]]  # fmt: skip

    return each_pair(table, chosen, compare)
