"""The columns of RULER's leaderboard for one's own runs, and simple retrieval beside them.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "m", "language": "da", "task": "vt", "length": 4096}
>>> table = summary(scores([(about, Prediction(0, "", ["ABCDE"], "ABCDE"))]))
>>> table[["model", "effective", "4K", "4K strict", "Avg."]].to_dict("records")
[{'model': 'm', 'effective': '≥4K', '4K': 100.0, '4K strict': 100.0, 'Avg.': 100.0}]

Each average stands beside the same one by the strict rule, because RULER's script gives part of the
points for part of a list.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.accuracy import RESAMPLES
from rulerlib.analysis.averages import (
    AVERAGES,
    NO_AVERAGE,
    Averages,
    weighted,
    weights_of,
    with_strict,
)
from rulerlib.analysis.combined import Array
from rulerlib.analysis.effective_length import THRESHOLD, readings
from rulerlib.fields import check
from rulerlib.labels import thousands

_EFFECTIVE = {"effective": "effective", "effective low": "low", "effective high": "high"}


def summary(
    table: pd.DataFrame,
    threshold: float = THRESHOLD,
    claimed: Mapping[str, int | str] | None = None,
    measure: str = "ruler",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Return one row for each model, as on RULER's leaderboard.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    threshold
        What an average has to exceed, in percent.
    claimed
        For each model the length that it claims; shown beside the effective one.
    measure, resamples, seed
        See `rulerlib.analysis.averages.averages`.

    Returns
    -------
    DataFrame
        ``model``, ``language``; ``claimed``, where given; ``effective`` and its interval, and
        ``unbroken`` where the readings differ for some model; ``effective strict``; ``lengths`` and
        ``tasks``: the number of each that the averages are over; for each length its average, and
        the one by the strict rule (``4K strict``); ``Avg.``, ``wAvg. (inc)`` and ``wAvg. (dec)``,
        each with ``low``, ``high`` and the same by the strict rule (``Avg. strict``,
        ``Avg. strict low``, ...). All averages are in percent. Where nothing has an average,
        ``attrs["why"]`` says why there is no figure.

    Raises
    ------
    ParameterError
        If the table is empty or a parameter cannot work.
    """
    check(threshold=threshold)
    rows: list[dict[str, Any]] = []
    for one, strict in with_strict(table, measure, resamples=resamples, seed=seed):
        row = dict(one.names)
        if claimed:
            row["claimed"] = claimed.get(str(row["model"]), "")
        longest, unbroken = readings(one, threshold) or ({}, {})
        row |= {name: longest.get(column, math.nan) for name, column in _EFFECTIVE.items()}
        row["unbroken"] = unbroken.get("effective", math.nan)
        strictly, _ = readings(strict, threshold) or ({}, {})
        row["effective strict"] = strictly.get("effective", math.nan)
        row["lengths"] = int(one.measured.sum())
        row["tasks"] = max(itertools.compress(one.asked, one.measured), default=0)
        for length, *both in zip(
            one.lengths, one.averages.tolist(), strict.averages.tolist(), strict=True
        ):
            row[thousands(length)], row[f"{thousands(length)} strict"] = both
        for weights, name in AVERAGES.items():
            shares = _shares(one, weights)
            for label, averaged in ((name, one), (f"{name} strict", strict)):
                row[label] = weighted(averaged.averages.tolist(), weights)
                row[f"{label} low"], row[f"{label} high"] = averaged.interval(shares)
        rows.append(row)
    frame = pd.DataFrame(rows)
    if frame["effective"].isna().all():
        frame = frame.drop(columns=[*_EFFECTIVE, "effective strict"])
        frame.attrs["why"] = NO_AVERAGE
    if "effective" not in frame or frame["unbroken"].equals(frame["effective"]):
        frame = frame.drop(columns="unbroken")
    return frame


def _shares(one: Averages, weights: str) -> Array:
    """Return the weight of each length in an average over lengths; their sum is 1, if any has."""
    shares = np.zeros(len(one.lengths))
    shares[one.measured] = weights_of(int(one.measured.sum()), weights)
    return np.asarray(shares / max(1.0, shares.sum()))
