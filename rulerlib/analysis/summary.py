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
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.averages import (
    AVERAGES,
    BY,
    NO_AVERAGE,
    Averages,
    generator,
    weighted,
    weights_of,
    with_strict,
)
from rulerlib.analysis.combined import Array
from rulerlib.analysis.effective_length import readings
from rulerlib.analysis.tables import RESAMPLES, even, thousands
from rulerlib.fields import check
from rulerlib.sequential import THRESHOLD

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
        each with ``low``, ``high``, the same by the strict rule (``Avg. strict``,
        ``Avg. strict low``, ...), ``rank`` (among the models with the same language that have an
        average at the same lengths over the same tasks: all that any of them has), and the
        interval of the rank, ``low rank`` (the best) and ``high rank``, see `rank_intervals`. All
        averages are in percent. ``attrs["note"]`` says which models have no rank, and why; where
        nothing has an average, ``attrs["why"]`` says why there is no figure.

    Raises
    ------
    ParameterError
        If the table is empty or a parameter cannot work.
    """
    check(threshold=threshold)
    rows: list[dict[str, Any]] = []
    # The lengths and the tasks that a model's averages are over, and draws of these averages.
    over: list[dict[str, None]] = []
    drawn: list[dict[str, Array]] = []
    for one, strict in with_strict(table, measure, resamples=resamples, seed=seed):
        row = dict(one.names)
        if claimed:
            row["claimed"] = claimed.get(str(row["model"]), "")
        longest, unbroken = readings(one, threshold) or ({}, {})
        row |= {name: longest.get(column, math.nan) for name, column in _EFFECTIVE.items()}
        row["unbroken"] = unbroken.get("effective", math.nan)
        strictly, _ = readings(strict, threshold) or ({}, {})
        row["effective strict"] = strictly.get("effective", math.nan)
        lengths = [thousands(length) for length in itertools.compress(one.lengths, one.measured)]
        over.append(dict.fromkeys([*lengths, *one.tasks] if lengths else []))
        row["lengths"] = len(lengths)
        row["tasks"] = max(itertools.compress(one.asked, one.measured), default=0)
        for length, *both in zip(
            one.lengths, one.averages.tolist(), strict.averages.tolist(), strict=True
        ):
            row[thousands(length)], row[f"{thousands(length)} strict"] = both
        # Random numbers other than those of the averages by length.
        quantiles = generator(one.names, seed, 1).standard_normal(resamples)
        drawn.append({})
        for weights, name in AVERAGES.items():
            shares = _shares(one, weights)
            for label, averaged in ((name, one), (f"{name} strict", strict)):
                row[label] = weighted(averaged.averages.tolist(), weights)
                row[f"{label} low"], row[f"{label} high"] = averaged.interval(shares)
            drawn[-1][name] = one.drawn(shares, quantiles)
        rows.append(row)
    frame = pd.DataFrame(rows)
    if frame["effective"].isna().all():
        frame = frame.drop(columns=[*_EFFECTIVE, "effective strict"])
        frame.attrs["why"] = NO_AVERAGE
    if "effective" not in frame or frame["unbroken"].equals(frame["effective"]):
        frame = frame.drop(columns="unbroken")
    return _ranked(frame, over, drawn)


def _shares(one: Averages, weights: str) -> Array:
    """Return the weight of each length in an average over lengths; their sum is 1, if any has."""
    shares = np.zeros(len(one.lengths))
    shares[one.measured] = weights_of(int(one.measured.sum()), weights)
    return np.asarray(shares / max(1.0, shares.sum()))


def _ranked(
    frame: pd.DataFrame, over: Sequence[dict[str, None]], drawn: Sequence[dict[str, Array]]
) -> pd.DataFrame:
    """Return a table of `summary` with ranks within each language, and a note on who has none."""
    lacking = [""] * len(frame)
    groups: list[Any] = [*frame.groupby("language", sort=False).indices.values()]
    for places in groups:
        every = dict.fromkeys(itertools.chain.from_iterable(over[place] for place in places))
        for place in places:
            lacking[place] = ", ".join(name for name in every if name not in over[place])
    whole = np.array(
        [not lacks and bool(names) for lacks, names in zip(lacking, over, strict=True)]
    )
    if not whole.all():
        frame.attrs["note"] = " ".join(
            f"No rank for {', '.join(frame[name].iloc[place] for name in BY)}: "
            + (f"others have averages over {lacking[place]}." if over[place]
               else "it has no average.")
            for place in np.flatnonzero(~whole).tolist()
        )  # fmt: skip
    for name in AVERAGES.values():
        ends = np.full((3, len(frame)), math.nan)
        for places in groups:
            at = places[whole[places]]
            if len(at):
                low, high = rank_intervals(np.column_stack([drawn[place][name] for place in at]))
                ends[:, at] = ranks(frame.loc[at, name]).to_numpy(dtype=float), low, high
        for column, values in zip(("rank", "low rank", "high rank"), ends, strict=True):
            frame[f"{name} {column}"] = pd.array(values, dtype="Int64")
    return frame


def ranks(values: pd.Series) -> pd.Series:
    """Return ranks, of which 1 is the highest; equal values share the better one."""
    counted: pd.Series = even(values).rank(method="min", ascending=False).astype("Int64")
    return counted


def rank_intervals(drawn: Array, confidence: float = 0.95) -> tuple[Array, Array]:
    """Return the interval of the rank of each model, of which 1 is the highest.

    Parameters
    ----------
    drawn
        Draws x models: what the averages may truly be. Models are drawn independently of each
        other. They were asked the same samples and are right together more often than that, so
        the intervals are too wide rather than too narrow.

    Returns
    -------
    low rank, high rank
        The best and the worst rank, for each model.

    >>> low, high = rank_intervals(np.array([[90.0, 80, 10], [70, 80, 10], [90, 80, 10]]), 0.6)
    >>> low.tolist(), high.tolist()
    ([1, 1, 3], [2, 2, 3])
    """
    ahead = (drawn[:, None, :] > drawn[:, :, None] + 1e-9).sum(axis=2) + 1
    ends = [0.5 - confidence / 2, 0.5 + confidence / 2]
    low, high = np.quantile(ahead, ends, axis=0, method="inverted_cdf")
    return low.astype(int), high.astype(int)
