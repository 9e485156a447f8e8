"""The columns of RULER's leaderboard for your own runs.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "m", "language": "da", "task": "vt", "length": 4096}
>>> table = summary(scores([(about, Prediction(0, "", ["ABCDE"], "ABCDE"))]))
>>> table[["model", "effective", "4K", "4K strict", "Avg."]].to_dict("records")
[{'model': 'm', 'effective': '≥4K', '4K': 100.0, '4K strict': 100.0, 'Avg.': 100.0}]

Beside each average is the same one by the strict rule, because RULER's script gives part of the
points for part of a list.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from rulerlib.analysis.averages import AVERAGES, NO_AVERAGE, averages, weighted, weights_of
from rulerlib.analysis.effective_length import THRESHOLD, readings
from rulerlib.errors import number
from rulerlib.labels import thousands


def summary(
    table: pd.DataFrame,
    threshold: float = THRESHOLD,
    claimed: Mapping[str, int | str] | None = None,
    measure: str = "ruler",
) -> pd.DataFrame:
    """Return one row for each model, as on RULER's leaderboard.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    threshold
        What an average has to exceed, in percent.
    claimed
        For each model the length that it claims, shown beside the effective one.
    measure
        See `rulerlib.analysis.averages.averages`.

    Returns
    -------
    DataFrame
        ``model``, ``language``; ``claimed``, if given; ``effective`` and its interval, and
        ``unbroken`` if the readings differ for some model; ``effective strict``; ``lengths`` and
        ``tasks``: the number of each in the averages; for each length its average, and the one by
        the strict rule (``4K strict``); ``Avg.``, ``wAvg. (inc)`` and ``wAvg. (dec)``, each with
        ``low``, ``high`` and the same by the strict rule (``Avg. strict``, ``Avg. strict low``,
        ...). All averages are in percent. If nothing has an average, ``attrs["why"]`` says so.

    Raises
    ------
    ParameterError
        If the table is empty or a parameter cannot work.
    """
    number("threshold", threshold, 0, 99.99)
    rows: list[dict[str, Any]] = []
    both = zip(averages(table, measure), averages(table, "strict"), strict=True)
    for one, strict in both:
        row = dict(one.names)
        if claimed:
            row["claimed"] = claimed.get(str(row["model"]), "")
        longest, unbroken = readings(one, threshold) or ({}, {})
        row["effective"] = longest.get("effective", math.nan)
        row["effective low"] = longest.get("low", math.nan)
        row["effective high"] = longest.get("high", math.nan)
        row["unbroken"] = unbroken.get("effective", math.nan)
        strictly, _ = readings(strict, threshold) or ({}, {})
        row["effective strict"] = strictly.get("effective", math.nan)
        row["lengths"] = len(one.measured)
        row["tasks"] = len(one.counts) if one.measured else 0
        for length in one.averages:
            row[thousands(length)] = one.averages[length]
            row[f"{thousands(length)} strict"] = strict.averages[length]
        for weights, name in AVERAGES.items():
            of_length = dict(
                zip(one.measured, weights_of(len(one.measured), weights).tolist(), strict=True)
            )
            for label, averaged in ((name, one), (f"{name} strict", strict)):
                row[label] = weighted([*averaged.averages.values()], weights)
                row[f"{label} low"], row[f"{label} high"] = averaged.interval(of_length)
        rows.append(row)
    frame = pd.DataFrame(rows)
    if frame["effective"].isna().all():
        frame = frame.drop(columns=["effective", "effective low", "effective high"])
        frame = frame.drop(columns=["effective strict", "unbroken"])
        frame.attrs["why"] = NO_AVERAGE
    elif frame["unbroken"].equals(frame["effective"]):
        frame = frame.drop(columns="unbroken")
    return frame
