"""Needles that may not be there: what an answer tells about the text.

Where half of the keys that are asked for stand in the text (`rulerlib.tasks.absence`), a model that
always says "none" is right half of the time, and so is one that finds every needle and never says
it. Youden's J (Youden 1950, "Index for Rating Diagnostic Tests") takes the first for what it is:
the share of absent keys of which a model says that there is none, minus the share of present ones
of which it says so. It is 1 for a model that always knows, and 0 for one whose answers do not
depend on the text, whatever they are.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "m", "language": "en", "task": "niah_single_1", "length": 1024,
...          "knobs": {"present": 0.5}}
>>> said = [(True, ["1234567"]), (False, ["none"])]
>>> table = scores([
...     (about, Prediction(index, "", outputs, "none", {"facts": {"present": there}}))
...     for index, (there, outputs) in enumerate(said * 10)
... ])
>>> absence(table)[["n", "there", "absent", "youden"]].to_dict("records")
[{'n': 20, 'there': 0.0, 'absent': 1.0, 'youden': 0.0}]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.accuracy import clusters
from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import BY, groups_of, nothing
from rulerlib.intervals import Clustered, clustered, recovered
from rulerlib.metrics import says_none

ALL_THERE = "Every key that was asked for stands in its text: present=0.5 asks for others as well."

_MEANS = ("there", "absent", "youden")


def absence(table: pd.DataFrame, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return how well a model knows what is there and what is not.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    by
        What is counted separately.

    Returns
    -------
    DataFrame
        ``by``; ``n``, the answers to questions that allow "none"; ``there``: the accuracy where
        the keys stand in the text; ``absent``: where they do not; ``youden``: see above, from -1
        to 1; each with its 95 % interval in ``... low`` and ``... high``, cluster-robust where
        questions share contexts. NaN where there are no such questions. The interval of J is found
        from those of its two shares, as that of a difference of two models is, see
        `rulerlib.intervals.recovered`. An empty table says that no question allows "none".
    """
    rows = of_measure(table)
    there = [facts.get("present") for facts in rows["facts"]]
    rows = rows.assign(there=there, said=[float(says_none(pred)) for pred in rows["pred"]])
    rows = rows[rows["there"].notna()]
    columns = [f"{name}{end}" for name in _MEANS for end in ("", " low", " high")]
    if rows.empty:
        return nothing(table.attrs.get("why", ALL_THERE), [*by, "n", *columns])
    rows = rows.assign(unit=clusters(rows))
    return pd.DataFrame([{**names, **_known(part)} for names, part in groups_of(rows, by)])


def _known(part: pd.DataFrame) -> dict[str, Any]:
    """Return the row of one group."""
    own = part[part["there"].astype(bool)], part[~part["there"].astype(bool)]
    found: dict[str, Any] = {"n": len(part)}
    for name, rows in zip(_MEANS, own, strict=False):
        found |= _columns(name, *_ends(_mean(rows, "value")))
    return found | _columns("youden", *youden(*own))


def youden(there: pd.DataFrame, absent: pd.DataFrame) -> tuple[float, float, float]:
    """Return Youden's J and both ends of its 95 % interval; NaN where either has no rows.

    Parameters
    ----------
    there, absent
        A row for each answer about keys that stand in the text, and about others: ``said``, 1 if
        it says that there is none, else 0; and ``unit``, its context, or itself.
    """
    if there.empty or absent.empty:
        return math.nan, math.nan, math.nan
    first, second = (_ends(_mean(rows, "said")) for rows in (absent, there))
    low, high = recovered(first, second, _correlation(absent, there))
    return first[0] - second[0], low, high


def _columns(name: str, value: float, low: float, high: float) -> dict[str, float]:
    return {name: value, f"{name} low": low, f"{name} high": high}


def _mean(rows: pd.DataFrame, column: str) -> Clustered:
    return clustered(rows[column].tolist(), rows["unit"].tolist())


def _ends(mean: Clustered) -> tuple[float, float, float]:
    """Return a mean and both ends of its interval; NaN where there are no values."""
    return (mean.mean, mean.low, mean.high) if mean.n else (math.nan,) * 3


def _correlation(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return how what is said of absent and of present keys goes together over contexts.

    0 where no context is asked about both. It is not estimated from a few: where it is positive,
    so that the interval would be narrower, 0 is taken.
    """
    away = [
        (rows["said"] - rows["said"].mean()).groupby(rows["unit"]).sum() / len(rows)
        for rows in (first, second)
    ]
    both = pd.concat(away, axis=1).fillna(0).to_numpy()
    spread = math.sqrt(float((both[:, 0] ** 2).sum() * (both[:, 1] ** 2).sum()))
    if spread < 1e-12:
        return 0.0
    return float(np.clip(both[:, 0] @ both[:, 1] / spread, -1.0, 0.0))
