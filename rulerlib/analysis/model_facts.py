"""Facts about models, such as their size, beside what they score: figure 4 of RULER's paper.

>>> scores = pd.DataFrame({"model": ["a", "b"], "Avg.": [70.0, 90.0]})
>>> facts = pd.DataFrame({"model": ["b"], "parameters": [8.0], "architecture": ["transformer"]})
>>> with_facts(scores, facts)[["model", "Avg.", "parameters"]].to_dict("split")["data"]
[['a', 70.0, nan], ['b', 90.0, 8.0]]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from rulerlib import paths
from rulerlib.analysis.tables import nothing
from rulerlib.errors import DataError, require, shortened

NUMBERS = {
    "parameters": "billions of parameters",
    "active": "billions of parameters that are used for one token",
    "trained_length": "the longest training length, in tokens",
}
"""The facts that are numbers; one that is not known is left empty."""

FACTS = (*NUMBERS, "architecture")
"""All facts, of which a table may have any."""


def read_facts(path: str | Path, key: Sequence[str] = ("model",)) -> pd.DataFrame:
    """Return the facts of a CSV file, a row for each model.

    Parameters
    ----------
    path
        The file: a column ``model``, any of ``FACTS``, and further ones, which stay text.
    key
        The columns by which a model is known.

    Raises
    ------
    ParameterError
        If the file does not exist.
    DataError
        If it cannot be read, a column is missing, a number is none or not above 0, or a model
        stands there twice.
    """
    path = paths.named("facts", path, "a CSV file with facts about models")
    require(path.is_file(), "facts", str(path), "a CSV file with facts about models")
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    for name in key:
        if name not in table:
            raise DataError(f"{path}: the column '{name}' is missing.")
    twice = table[table.duplicated([*key])]
    if len(twice):
        raise DataError(f"{path}: {shortened(twice[key[0]].iloc[0])} stands there twice.")
    for name in (name for name in NUMBERS if name in table):
        values = pd.to_numeric(table[name].str.strip(), errors="coerce")
        wrong = table.loc[(table[name].str.strip() != "") & ~(values > 0), name]
        if len(wrong):
            said = shortened(wrong.iloc[0])
            raise DataError(f"{path}: {name} is {said}, but must be a number above 0, or empty.")
        table[name] = values
    return table


def with_facts(
    table: pd.DataFrame, facts: pd.DataFrame | None, key: Sequence[str] = ("model",)
) -> pd.DataFrame:
    """Return a table of models, such as that of `rulerlib.analysis.summary`, with their facts.

    Parameters
    ----------
    facts
        From `read_facts`; None: there are none.
    key
        The columns by which a model is known in both.

    Returns
    -------
    DataFrame
        All rows of ``table``, with the columns of ``facts``, empty where nothing is known; an
        empty table that says so where nothing is known of any model.
    """
    if facts is None:
        return nothing("No facts about the models were given, so they are not set beside them.")
    joined = table.merge(facts, on=[*key], how="left", validate="many_to_one")
    known = [name for name in FACTS if name in facts]
    if not known or joined[known].isna().all(axis=None):
        return nothing("Of none of these models a size, training length or architecture is known.")
    return joined
