"""The columns of RULER's leaderboard for one's own runs: a row for each model.

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
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.averages import (
    AVERAGES,
    BY,
    NO_AVERAGE,
    WEIGHTS,
    generator,
    rank_intervals,
    ranks,
    weighted,
    weights_of,
    with_strict,
)
from rulerlib.analysis.combined import Array
from rulerlib.analysis.effective_length import readings
from rulerlib.analysis.tables import RESAMPLES, thousands
from rulerlib.sequential import THRESHOLD, check_threshold

# The columns of the effective length, and what they are called among its readings.
_EFFECTIVE = {"effective": "effective", "effective low": "low", "effective high": "high"}


def summary(
    table: pd.DataFrame,
    threshold: float = THRESHOLD,
    claimed: Mapping[str, int | str] | None = None,
    measure: str = "ruler",
    by: Sequence[str] = BY,
    **options: Any,
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
    measure, by
        See `rulerlib.analysis.averages.averages`.
    options
        ``tasks``, ``resamples`` and ``seed``, see there.

    Returns
    -------
    DataFrame
        ``by``; ``claimed``, where given; ``effective`` and its interval, and ``unbroken`` where
        the readings differ for some model; ``effective strict``; ``lengths`` and ``tasks``: the
        number of each that the averages are over; for each length its average, and the one by the
        strict rule (``4K strict``); ``Avg.``, ``wAvg. (inc)`` and ``wAvg. (dec)``, each with
        ``low``, ``high``, the same by the strict rule (``Avg. strict``, ``Avg. strict low``, ...),
        ``rank`` (among the models with the same language that have an average at the same lengths
        over the same tasks: all that any of them has), and the interval of the rank, ``low rank``
        (the best) and ``high rank``, see `rulerlib.analysis.averages.rank_intervals`. All averages
        are in percent. ``attrs["note"]`` says which models have no rank, and why; where nothing has
        an average, ``attrs["why"]`` says why there is no figure.

    Raises
    ------
    ParameterError
        If the table is empty or a parameter cannot work.
    """
    check_threshold(threshold)
    rows: list[dict[str, Any]] = []
    # The lengths and the tasks that a model's averages are over.
    over: list[dict[str, None]] = []
    drawn: list[dict[str, Array]] = []
    seed, count = options.get("seed", 0), options.get("resamples", RESAMPLES)
    for one, strict in with_strict(table, measure, by, **options):
        row = dict(one.names)
        if claimed:
            row["claimed"] = claimed.get(str(row.get("model")), "")
        longest, unbroken = readings(one, threshold) or ({}, {})
        row |= {name: longest.get(column, math.nan) for name, column in _EFFECTIVE.items()}
        row["unbroken"] = unbroken.get("effective", math.nan)
        strictly, _ = readings(strict, threshold) or ({}, {})
        row["effective strict"] = strictly.get("effective", math.nan)
        values, known = one.averages.tolist(), ~np.isnan(one.averages)
        lengths = [thousands(length) for length in itertools.compress(one.lengths, known)]
        over.append(dict.fromkeys([*lengths, *one.over] if lengths else []))
        row["lengths"] = int(known.sum())
        row["tasks"] = max(itertools.compress(one.tasks, known), default=0)
        for length, *both in zip(one.lengths, values, strict.averages.tolist(), strict=True):
            row[thousands(length)], row[f"{thousands(length)} strict"] = both
        # Random numbers other than those of the averages by length.
        quantiles = generator(one.names, seed, 1).standard_normal(count)
        drawn.append({})
        for weights, name in zip(WEIGHTS, AVERAGES, strict=True):
            shares = np.zeros(len(values))
            shares[known] = weights_of(row["lengths"], weights)
            shares /= max(1.0, shares.sum())
            for label, each in ((name, one), (f"{name} strict", strict)):
                row[label] = weighted(each.averages.tolist(), weights)
                row[f"{label} low"], row[f"{label} high"] = each.interval(shares)
            drawn[-1][name] = one.drawn(shares, quantiles)
        rows.append(row)
    frame = pd.DataFrame(rows)
    if frame["effective"].isna().all():
        frame = frame.drop(columns=[*_EFFECTIVE, "effective strict"])
        frame.attrs["why"] = NO_AVERAGE
    if "effective" not in frame or frame["unbroken"].equals(frame["effective"]):
        frame = frame.drop(columns="unbroken")
    others = [frame[column] for column in by if column != "model"]
    lacking = [""] * len(frame)
    for places in frame.groupby(others or np.zeros(len(frame)), sort=False).indices.values():
        every = dict.fromkeys(itertools.chain.from_iterable(over[place] for place in places))
        for place in places:
            lacking[place] = ", ".join(name for name in every if name not in over[place])
    whole = pd.Series([not lacks and bool(own) for lacks, own in zip(lacking, over, strict=True)])
    if not whole.all():
        frame.attrs["note"] = " ".join(
            f"No rank for {', '.join(map(str, frame.loc[place, [*by]]))}: "
            + (f"others have averages over {lacks}." if over[place] else "it has no average.")
            for place, lacks in enumerate(lacking)
            if not whole[place]
        )
    keys = [column[whole] for column in others] or np.zeros(whole.sum())
    groups = frame[whole].groupby(keys, sort=False).indices
    for name in AVERAGES:
        frame[f"{name} rank"] = ranks(frame[name].where(whole), others)
        ends = np.full((len(frame), 2), math.nan)
        for places in groups.values():
            own = np.flatnonzero(whole)[places]
            ends[own] = np.column_stack(
                rank_intervals(np.column_stack([drawn[place][name] for place in own]))
            )
        for column, end in zip((f"{name} low rank", f"{name} high rank"), ends.T, strict=True):
            frame[column] = pd.array(end, dtype="Int64")
    return frame
