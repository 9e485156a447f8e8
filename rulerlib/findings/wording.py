"""How findings and figures say numbers, names and lists.

>>> said_count(1, "task"), said_count(2, "task"), said_some(["a", "b", "c"], most=2)
('1 task', '2 tasks', 'a; b; and 1 more, in the table')
>>> percent(0.996), percent(0.001), percent(1.0), listed(["a", "b", "c"])
('99.6 %', '0.1 %', '100 %', 'a, b and c')
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def percent(share: float) -> str:
    """Return a share as whole percent; with a decimal where it would round to none or to all."""
    whole = round(100 * share)
    if whole in (0, 100) and share != whole / 100:
        # Of a thousand answers one may be wrong.
        return f"{min(99.9, max(0.1, 100 * share)):.1f} %"
    return f"{whole} %"


def said_count(number: int, what: str) -> str:
    """Return a number with what is counted: ``1 task``, ``2 tasks``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def said_some(parts: Sequence[str], most: int = 12) -> str:
    """Return the first ``most`` parts of a sentence as one text: screen readers skip nothing."""
    left = len(parts) - most
    return "; ".join([*parts[:most], *([f"and {left} more, in the table"] if left > 0 else [])])


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return names as a part of a sentence; further ones are counted."""
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def labels(table: pd.DataFrame) -> pd.Series:
    """Return what each row is called: its model, with the language where there are several."""
    several = "language" in table and table["language"].nunique() > 1
    return table["model"] + ", " + table["language"] if several else table["model"]


def measured(table: pd.DataFrame) -> str:
    """Return the names of the measures whose means a table of accuracy has, as one text."""
    names = dict.fromkeys(name for each in table["measure"] for name in each.split(", "))
    return ", ".join(name.replace("_", "-") for name in names)


def said_n(part: pd.DataFrame) -> str:
    """Return how many answers the means of a line rest on, in words."""
    n = sorted(set(part["n"]))
    if not n:
        return "not measured"
    return f"n = {n[0]}" if len(n) == 1 else f"n = {n[0]} to {n[-1]}"
