"""What the tables share: groups in order, empty tables that say why, lengths as text."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from rulerlib.errors import MissingExtraError

BY = ("model", "language", "task", "length")
"""What is averaged separately where nothing else is asked for."""


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


def parts(table: pd.DataFrame, *by: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield a title and its rows for each group; an empty table, which may say why, as it is."""
    if table.empty:
        yield "", table
        return
    for names, part in groups_of(table, by):
        yield ", ".join(map(str, names.values())), part


def nothing(why: str, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Return an empty table that says in one sentence why; `rulerlib.show` shows the sentence."""
    table = pd.DataFrame(columns=list(columns))
    table.attrs["why"] = why
    return table


def thousands(length: int) -> str:
    """Return a length as it is written.

    >>> thousands(131072), thousands(1000)
    ('128K', '1000')
    """
    return f"{length // 1024}K" if length % 1024 == 0 else str(length)


def scipy(module: str) -> Any:
    """Return a part of `scipy`, which is loaded only where it is used.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    try:
        return importlib.import_module(f"scipy.{module}")
    except ImportError as error:
        raise MissingExtraError("scipy", "notebook", "This analysis") from error
