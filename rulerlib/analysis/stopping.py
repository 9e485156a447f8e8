"""How many samples a sequential plan used, and what it found, at each length.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "m", "language": "da", "task": "vt", "length": 4096, "planned": 500}
>>> table = scores([(about, Prediction(index, "", ["AB"], "AB")) for index in range(40)])
>>> samples_used(table)[["n", "planned", "average", "average is"]].to_dict("records")
[{'n': 40, 'planned': 500, 'average': 100.0, 'average is': 'above'}]
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from rulerlib.analysis.accuracy import tallies
from rulerlib.analysis.averages import BY
from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import groups_of, nothing
from rulerlib.sequential import THRESHOLD, check_threshold, confidence_sequence, side

ALL_ASKED = "No plan was sequential: all samples were asked."


def samples_used(
    table: pd.DataFrame, threshold: float = THRESHOLD, measure: str = "ruler"
) -> pd.DataFrame:
    """Return how many samples sequential plans used, and where the averages lie.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    threshold
        What an average has to exceed, in percent.
    measure
        See `rulerlib.analysis.averages.averages`; the plans themselves look at RULER's.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``length``, ``tasks``; ``n``, the samples that were asked;
        ``planned``, those that a fixed design would have asked; ``used``, how many percent of
        these; ``average``, ``low`` and ``high``, in percent, see
        `rulerlib.sequential.confidence_sequence`; and whether the average is ``"above"`` or
        ``"below"`` the threshold, or ``"undecided"``. Lengths at which all tasks were asked by a
        fixed design are left out; an empty table says that there are no others.

    Raises
    ------
    ParameterError
        If the threshold is no percentage below 100, or no row has this measure.
    """
    check_threshold(threshold)
    if "planned" not in table or table["planned"].isna().all():
        return nothing(ALL_ASKED, [*BY, "length", "n", "planned"])
    rows = []
    for names, part in groups_of(of_measure(table, measure), (*BY, "length")):
        if part["planned"].isna().all():
            continue
        drawn = [own for _, own in tallies(part)]
        low, high = confidence_sequence(drawn)
        rows.append({
            **names, "tasks": len(drawn), **_used(part),
            "average": 100 * math.fsum(total / count for total, count in drawn) / len(drawn),
            "low": 100 * low, "high": 100 * high,
            "average is": side(drawn, threshold) or "undecided",
        })  # fmt: skip
    return pd.DataFrame(rows)


def _used(part: pd.DataFrame) -> dict[str, Any]:
    """Return how many samples of one length were asked, and how many would have been."""
    n = len(part.drop_duplicates(["task", "index"]))
    own = part.groupby("task", sort=False)
    # A task that was asked by a fixed design was asked all of its samples.
    planned = int(own["planned"].max().fillna(own["index"].nunique()).sum())
    return {"n": n, "planned": planned, "used": 100 * n / planned}
