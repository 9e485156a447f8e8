"""The leaderboard of the explorer: a row for each model and language, as RULER's table has it.

>>> row = blank("published", "GPT-4", claimed=131072, effective="64K", averages={4096: 96.6})
>>> row["reach"], row["averages"]
(65536, {4096: 96.6})
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from rulerlib import analysis
from rulerlib.analysis.averages import AVERAGES
from rulerlib.analysis.tables import thousands, tokens
from rulerlib.tasks import RULER

KINDS = ("run", "handed in", "published")
"""Where the numbers of a row come from: runs that are shown here, a submission, another table."""


def blank(
    kind: str,
    model: str,
    language: str = "en",
    effective: str = "",
    averages: Mapping[int, float] | None = None,
    **values: Any,
) -> dict[str, Any]:
    """Return a row with what is known of a model, as plain data.

    Parameters
    ----------
    kind
        One of ``KINDS``.
    model, language
        Whose numbers these are.
    effective
        The effective length as text, ``"64K"``, ``"≥128K"`` or ``"<4K"``.
    averages
        In percent, by length in tokens.
    values
        Further columns: ``claimed`` in tokens, ``tasks``, ``avg``, ``inc``, ``dec``, ...

    Returns
    -------
    dict
        All of these, and ``reach``: the effective length in tokens, 0 below the shortest.
    """
    reach = 0 if effective.startswith("<") else tokens(effective.lstrip("≥"))
    known = {name: _plain(value) for name, value in values.items()}
    return {
        "kind": kind, "model": model, "language": language, "effective": effective,
        "reach": reach, "averages": {int(length): _plain(mean) for length, mean in
                                     (averages or {}).items() if not math.isnan(mean)},
        **{name: value for name, value in known.items() if value not in (None, "", [])},
    }  # fmt: skip


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 9)
    return value


def rows(table: pd.DataFrame, claimed: Mapping[str, int | None], kinds: Mapping[str, str]) -> Any:
    """Return a row for each model and language that was asked tasks of RULER's.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    claimed
        The length that a model claims, in tokens, where somebody says so.
    kinds
        Of each model that is no run of one's own its kind.

    Returns
    -------
    list of dict
        Of `blank`; models without an average at any length are left out.
    """
    table = table[table["task"].isin(RULER)]
    if table.empty:
        return []
    lengths = sorted(table["length"].unique().tolist())
    made = []
    for row in analysis.summary(table).to_dict("records"):
        if not row.get("lengths") or not isinstance(row.get("effective"), str):
            continue
        averages = dict(zip(("avg", "inc", "dec"), map(row.get, AVERAGES.values()), strict=True))
        made.append(
            blank(
                kinds.get(row["model"], "run"), row["model"], row["language"], row["effective"],
                {length: row[thousands(length)] for length in lengths},
                claimed=claimed.get(row["model"]), tasks=row["tasks"],
                low=row["effective low"], high=row["effective high"],
                strict=row["effective strict"], unbroken=row.get("unbroken", ""), **averages,
            )
        )  # fmt: skip
    return made
