"""What the tables share: groups in order, empty tables that say why, lengths as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rulerlib import packages
from rulerlib.intervals import Clustered

BY = ("model", "language", "task", "length")
"""What is averaged separately where nothing else is asked for."""

THRESHOLD = 85.6
"""What an average has to exceed for its length to be effective, in percent: RULER's choice, the
average of Llama-2-7B (chat) at 4K."""

RESAMPLES = 2000
"""How often is drawn what an interval or a test is computed from by drawing."""


def even(values: Any) -> Any:
    """Return a number, or a column or array of numbers, without the last digits.

    Sums of the same decimals may differ there, so that equal values would not be equal. Whatever
    holds a mean against another one or against a threshold takes both without them.

    >>> mean = 100 * np.mean([0.4, 0.7])
    >>> bool(mean > 55), bool(even(mean) > 55)
    (True, False)
    """
    return np.round(values, 9)


def groups_of(
    table: pd.DataFrame, by: Sequence[str]
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield each group: what it is called in each of the columns ``by``, and its rows.

    Names come in the order in which they first appear, and numbers rise.
    """
    keys = [
        values
        if pd.api.types.is_numeric_dtype(values)
        else values.astype(pd.CategoricalDtype(list(values.unique())))
        for values in (table[name] for name in by)
    ]
    for names, part in table.groupby(keys, sort=True, observed=True):
        yield dict(zip(by, names, strict=True)), part


def rows_of(
    table: pd.DataFrame, by: Sequence[str], row: Callable[[pd.DataFrame], Mapping[str, Any]]
) -> pd.DataFrame:
    """Return a table with a row for each group: its names, and what ``row`` makes of its rows."""
    return pd.DataFrame([{**names, **row(part)} for names, part in groups_of(table, by)])


def with_ends(name: str, mean: Clustered) -> dict[str, float]:
    """Return a mean under its name, and its interval as ``<name> low`` and ``<name> high``.

    All three are NaN where there are no values.
    """
    low, high = (mean.low, mean.high) if mean.n else (math.nan, math.nan)
    return {name: mean.mean, f"{name} low": low, f"{name} high": high}


def tasks_in(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return how many tasks are in each group, for means over several of them.

    Returns
    -------
    DataFrame
        ``by``, ``tasks``, and ``missing``: the names of tasks that the same group was asked at
        another length, but not at this one, so that the means of the two lengths are not over the
        same tasks. Only ``by`` where no group has more than one task.
    """
    groups = [(names, dict.fromkeys(part["task"])) for names, part in groups_of(table, by)]
    keys = [tuple(names[name] for name in by if name != "length") for names, _ in groups]
    at_any_length: dict[tuple[Any, ...], dict[str, None]] = {}
    for key, (_, tasks) in zip(keys, groups, strict=True):
        at_any_length[key] = at_any_length.get(key, {}) | tasks
    rows = [
        {**names, "tasks": len(tasks),
         "missing": ", ".join(task for task in at_any_length[key] if task not in tasks)}
        for key, (names, tasks) in zip(keys, groups, strict=True)
    ]  # fmt: skip
    several = any(len(tasks) > 1 for _, tasks in groups)
    return pd.DataFrame(rows, columns=[*by, *(("tasks", "missing") if several else ())])


def parts(
    table: pd.DataFrame, *by: str, above_zero: str | None = None
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield a title and its rows for each group; an empty table, which may say why, as it is.

    A group in which nothing of the column ``above_zero`` is more than 0 is left out: a figure of
    zeros shows nothing.
    """
    if table.empty:
        yield "", table
        return
    for names, part in groups_of(table, by):
        if above_zero is None or (part[above_zero] > 0).any():
            yield ", ".join(map(str, names.values())), part


def nothing(why: str, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Return an empty table that says in one sentence why; `rulerlib.show` shows the sentence."""
    table = pd.DataFrame(columns=list(columns))
    table.attrs["why"] = why
    return table


def scipy(module: str) -> Any:
    """Return a part of `scipy` by its name, which is loaded only where it is used.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    return packages.load(f"scipy.{module}", "notebook", "This analysis")
