"""Tables from predictions: accuracy with its interval, by task, length, depth.

Every table says n, and every mean has an interval.

>>> from rulerlib.samples import Prediction
>>> record = Prediction(0, "...", ["12"], " 12.", {"depths": [50]})
>>> about = {"model": "lille", "language": "da", "task": "niah_single_1", "length": 1024}
>>> table = scores([(about, record)])
>>> accuracy(table)[["task", "length", "n", "all_match"]].to_dict("records")
[{'task': 'niah_single_1', 'length': 1024, 'n': 1, 'all_match': 1.0}]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from rulerlib import metrics
from rulerlib.samples import Prediction

BY = ("model", "language", "task", "length")


def scores(predictions: Iterable[tuple[Mapping[str, Any], Prediction]]) -> pd.DataFrame:
    """One row for each prediction.

    Parameters
    ----------
    predictions
        What a prediction belongs to (model, language, task, length), and it.

    Returns
    -------
    DataFrame
        Those columns, and ``index``, ``all_match``, ``recall``, ``part_match``,
        ``pred``, ``outputs``, ``depths``, ``finished``, ``truncation``.
    """
    rows = []
    for about, record in predictions:
        row = {name: about[name] for name in BY}
        row["index"] = record.index
        for name, metric in metrics.METRICS.items():
            row[name] = metric(record.pred, record.outputs)
        row |= {
            "pred": record.pred,
            "outputs": record.outputs,
            "depths": record.others.get("depths", []),
            "finished": record.others.get("finished", True),
            "truncation": record.truncation,
        }
        rows.append(row)
    return pd.DataFrame(rows)


def accuracy(
    table: pd.DataFrame, metric: str = "all_match", by: Sequence[str] = BY
) -> pd.DataFrame:
    """Means with their 95 % Wilson interval.

    Parameters
    ----------
    table
        From `scores`.
    metric
        A column of ``table`` between 0 and 1.
    by
        What is averaged separately.

    Returns
    -------
    DataFrame
        ``by``, ``n``, the metric, ``low``, ``high``; mean ``recall`` beside all-match,
        because RULER's script reports it under the same name.
    """
    grouped = table.groupby(list(by), sort=True, observed=True)
    made = grouped.agg(n=(metric, "size"), **{metric: (metric, "mean")}).reset_index()
    made = _with_interval(made, metric)
    if metric == "all_match" and "recall" in table:
        made["recall"] = grouped["recall"].mean().to_numpy()
    return made


def needles(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each needle that was asked for: its depth, and whether its value was found."""
    rows = [
        {
            **{name: row[name] for name in BY},
            "depth": depth,
            "found": metrics.recall(row["pred"], [output]),
        }
        for row in table.to_dict("records")
        for depth, output in zip(row["depths"], row["outputs"], strict=False)
    ]
    return pd.DataFrame(rows, columns=[*BY, "depth", "found"])


def by_depth(table: pd.DataFrame, bins: int = 10, by: Sequence[str] = BY) -> pd.DataFrame:
    """Share of needles found, by depth.

    Parameters
    ----------
    bins
        Into how many equal parts 0 to 100 is cut; 40 is each of RULER's depths by itself.

    Returns
    -------
    DataFrame
        ``by``, ``depth`` (the middle of its part), ``n``, ``found``, ``low``, ``high``.
    """
    found = needles(table)
    part = (found["depth"] * bins // 100).clip(upper=bins - 1)
    found["depth"] = (part + 0.5) * 100 / bins
    grouped = found.groupby([*by, "depth"], sort=True, observed=True)
    made = grouped.agg(n=("found", "size"), found=("found", "mean")).reset_index()
    return _with_interval(made, "found")


def wrong(table: pd.DataFrame, metric: str = "all_match", count: int = 3) -> pd.DataFrame:
    """The first wrong answers, each from another length where possible, in full."""
    failed = table[table[metric] < 1]
    first = failed.groupby("length", sort=False).head(1)
    rest = failed.drop(first.index)
    chosen = pd.concat([first, rest]).head(count)
    return chosen[["task", "length", "index", "depths", "outputs", "pred"]]


def _with_interval(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    intervals = [
        metrics.wilson(min(n, max(0.0, mean * n)), n)
        for n, mean in zip(table["n"].tolist(), table[metric].tolist(), strict=True)
    ]
    table["low"] = [low for low, _ in intervals]
    table["high"] = [high for _, high in intervals]
    return table
