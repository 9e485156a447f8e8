"""Simple retrieval beside the whole benchmark: who passes the one and fails the other.

RULER's paper sets its average beside two tests that nearly every model passes, a pass key in noise
and a needle in essays (Hsieh et al. 2024, "RULER: What's the Real Context Size of Your
Long-Context Language Models?", appendix E). There they are ``niah_single_1`` and
``niah_single_2``; here also ``passkey`` and ``niah_vanilla``, the tests that came before.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "m", "language": "en", "length": 4096}
>>> table = scores([
...     ({**about, "task": "passkey"}, Prediction(0, "", ["7"], "7")),
...     ({**about, "task": "vt"}, Prediction(0, "", ["A", "B"], "A")),
... ])
>>> contrast(table)[["simple", "score", "average", "difference"]].to_dict("records")
[{'simple': 'passkey', 'score': 100.0, 'average': 50.0, 'difference': 50.0}]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rulerlib.analysis.averages import BY, by_length
from rulerlib.analysis.labels import base
from rulerlib.analysis.tables import nothing
from rulerlib.tasks import RULER

SIMPLE = ("passkey", "niah_vanilla", "niah_single_1", "niah_single_2")
"""The tasks of simple retrieval."""

NOT_BOTH = "No model was asked both a task of simple retrieval and tasks of RULER."


def contrast(table: pd.DataFrame, measure: str = "ruler", by: Sequence[str] = BY) -> pd.DataFrame:
    """Return the score of each task of simple retrieval beside the average over RULER's tasks.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    measure, by
        See `rulerlib.analysis.averages.averages`.

    Returns
    -------
    DataFrame
        ``by``, ``length``, ``simple`` (the task), ``n``, ``score``, ``low``, ``high``; ``average``
        over those of RULER's tasks that the model was asked, ``tasks`` of them, with
        ``average low`` and ``average high``; ``difference``, by how many points the average is
        below, with ``difference low`` and ``difference high``, which follow from the intervals of
        both as if they were independent. Where a simple task is one of the average's own, that is
        too wide rather than too narrow. All in percent. An empty table says why there is none.

    Raises
    ------
    ParameterError
        If no row has this measure.
    """
    columns = [*by, "length"]
    whole = table[table["task"].map(base).isin(RULER)]
    asked = [task for task in SIMPLE if (table["task"] == task).any()]
    # A task alone says nothing of a benchmark.
    if not asked or whole["task"].nunique() < 1 + (set(whole["task"]) <= set(SIMPLE)):
        return nothing(NOT_BOTH, [*columns, "simple"])
    benchmark = by_length(whole, measure, by=by)
    strict = ["strict", "strict low", "strict high"]
    benchmark = benchmark.drop(columns=["n", "missing", *strict])
    benchmark = benchmark.rename(columns={"low": "average low", "high": "average high"})
    parts = []
    for task in asked:
        own = by_length(table[table["task"] == task], measure, by=by)
        own = own.drop(columns=["tasks", "missing", *strict]).rename(columns={"average": "score"})
        own.insert(len(columns), "simple", task)
        parts.append(own)
    joined = pd.concat(parts, ignore_index=True).merge(benchmark, on=columns)
    if joined.empty:
        return nothing(NOT_BOTH, [*columns, "simple"])
    score, average = joined["score"], joined["average"]
    joined["difference"] = score - average
    down = np.hypot(score - joined["low"], joined["average high"] - average)
    joined["difference low"] = joined["difference"] - down
    up = np.hypot(joined["high"] - score, average - joined["average low"])
    joined["difference high"] = joined["difference"] + up
    return joined
