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

import math
import re
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
        Those columns, and ``index``, ``metric`` (the task's strict rule), ``all_match``,
        ``recall``, ``part_match``, ``pred``, ``outputs``, ``depths``, ``finished``,
        ``cut_off`` (``"thinking"``, ``"answer"`` or ``""``), ``truncation``, ``copied``;
        ``setting`` too where a study sets it.
    """
    rows = []
    for about, record in predictions:
        row = {name: about[name] for name in (*BY, "setting") if name in about}
        row["index"] = record.index
        row["metric"] = about.get("metric", "all_match")
        for name, metric in metrics.METRICS.items():
            row[name] = metric(record.pred, record.outputs)
        row |= {
            "pred": record.pred,
            "outputs": record.outputs,
            "depths": record.others.get("depths", []),
            "finished": record.others.get("finished", True),
            "cut_off": record.others.get("cut_off") or "",
            "truncation": record.truncation,
            "copied": copied(record),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def copied(record: Prediction) -> float:
    """The share of the words in the prompt's worked example that the answer repeats.

    Models copy from the example at long lengths (RULER, section 5). NaN where
    the prompt has no example with the same beginning of an answer.
    """
    prefix = record.others.get("answer_prefix", "")
    _, shown, rest = record.input.partition(prefix) if prefix else ("", "", "")
    words = set(re.findall(r"[^\W\d_]{3,}", metrics.normalize(rest.partition("\n\n")[0])))
    if not shown or not words:
        return math.nan
    said = set(re.findall(r"[^\W\d_]{3,}", metrics.normalize(record.pred)))
    return len(words & said) / len(words)


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
        because RULER's script reports it under the same name; and ``cut_off``, where there are
        any, the share of answers that are wrong and were cut off by the limit.
    """
    if "cut_off" in table:
        table = table.assign(cut_off=(table["cut_off"] != "") & (table[metric] < 1))
    grouped = _grouped(table, by)
    made = grouped.agg(n=(metric, "size"), **{metric: (metric, "mean")}).reset_index()
    made = _with_interval(made, metric)
    if metric == "all_match" and "recall" in table:
        made["recall"] = grouped["recall"].mean().to_numpy()
    if "cut_off" in table and table["cut_off"].any():
        made["cut_off"] = grouped["cut_off"].mean().to_numpy()
    return _plain(made, by)


def needles(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each needle that was asked for: its depth, and whether its value was found.

    Where any one reference suffices (question answering), the needle is the
    document with the answer.
    """
    rows = []
    for row in table.to_dict("records"):
        wanted = [[output] for output in row["outputs"]]
        if row["metric"] == "part_match":
            wanted = [row["outputs"]]
        for depth, references in zip(row["depths"], wanted, strict=False):
            found = metrics.part_match(row["pred"], references)
            rows.append({**{name: row[name] for name in BY}, "depth": depth, "found": found})
    return pd.DataFrame(rows, columns=[*BY, "depth", "found"])


def by_depth(table: pd.DataFrame, bins: int = 10, by: Sequence[str] = BY) -> pd.DataFrame:
    """Share of needles found, by depth.

    Parameters
    ----------
    bins
        Into how many equal parts 0 to 100 is cut. A depth on a seam belongs to the part
        towards the middle, so that each of 10 parts holds four of RULER's 40 depths.

    Returns
    -------
    DataFrame
        ``by``, ``depth`` (the middle of its part), ``n``, ``found``, ``low``, ``high``.
    """
    found = needles(table)
    part = (found["depth"] * bins // 100).where(
        found["depth"] <= 50, bins - 1 - (100 - found["depth"]) * bins // 100
    )
    found["depth"] = (part + 0.5) * 100 / bins
    grouped = _grouped(found, [*by, "depth"])
    made = grouped.agg(n=("found", "size"), found=("found", "mean")).reset_index()
    return _plain(_with_interval(made, "found"), by)


def wrong(table: pd.DataFrame, metric: str = "all_match", count: int = 3) -> pd.DataFrame:
    """The first wrong answers, each from another length where possible, in full."""
    failed = table[table[metric] < 1]
    first = failed.groupby("length", sort=False).head(1)
    rest = failed.drop(first.index)
    chosen = pd.concat([first, rest]).head(count)
    return chosen[["task", "length", "index", "depths", "outputs", "pred"]]


def _grouped(table: pd.DataFrame, by: Sequence[str]) -> Any:
    """Groups in the order in which names first appear, and numbers rising."""
    names = [name for name in by if not pd.api.types.is_numeric_dtype(table[name])]
    ordered = {name: pd.Categorical(table[name], table[name].unique()) for name in names}
    return table.assign(**ordered).groupby(list(by), sort=True, observed=True)


def _plain(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    names = [name for name in by if isinstance(table[name].dtype, pd.CategoricalDtype)]
    return table.astype(dict.fromkeys(names, object))


def _with_interval(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    intervals = [
        metrics.wilson(min(n, max(0.0, mean * n)), n)
        for n, mean in zip(table["n"].tolist(), table[metric].tolist(), strict=True)
    ]
    table["low"] = [low for low, _ in intervals]
    table["high"] = [high for _, high in intervals]
    return table
