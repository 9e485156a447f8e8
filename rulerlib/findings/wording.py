"""How findings and figures say numbers, names and lists.

>>> said_count(1, "task"), said_count(2, "task"), said_some(["a", "b", "c"], most=2)
('1 task', '2 tasks', 'a; b; and 1 more, in the table')
>>> percent(0.996), percent(0.001), percent(1.0), listed(["a", "b", "c"])
('99.6 %', '0.1 %', '100 %', 'a, b and c')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd


def percent(share: float, decimals: int = 0) -> str:
    """Return a share in percent; with a decimal where it would round to none or to all."""
    text = f"{100 * share:.{decimals}f}"
    if float(text) in (0, 100) and share not in (0, 1):
        # Of a thousand answers one may be wrong.
        return f"{min(99.9, max(0.1, 100 * share)):.1f} %"
    return f"{float(text):g} %"


def ranked(shares: Mapping[str, float], things: str, verb: str = "") -> str:
    """Return which shares are highest and which lowest, or that there is nothing to rank.

    Shares that a table shows alike, with a decimal, are alike here.

    Parameters
    ----------
    shares
        One or more, by their names.
    things
        What the names are, such as ``tasks``.
    verb
        What a share is of, after its number, such as ``wrong``.

    >>> ranked({"a": 0.9, "b": 0.5, "c": 0.9}, "tasks"), ranked({"a": 0.5, "b": 0.5}, "tasks")
    ('a and c highest with 90 %, b lowest with 50 %', 'both tasks have 50 %')
    """
    shown = {name: percent(share, 1) for name, share in shares.items()}
    ends = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
    after = f" {verb}" if verb else ""
    if shown[ends[0]] == shown[ends[1]]:
        share = percent(shares[ends[0]])
        if len(shares) == 1:
            return f"{ends[0]} has {share}{after}"
        return (
            f"{'both' if len(shares) == 2 else f'all {len(shares)}'} {things} have {share}{after}"
        )
    # As many decimals as tell them apart.
    decimals = int(percent(shares[ends[0]]) == percent(shares[ends[1]]))
    clauses = (
        f"{listed([name for name in shown if shown[name] == shown[end]], 4)} {side} with"
        f" {percent(shares[end], decimals)}{after}"
        for side, end in zip(("highest", "lowest"), ends, strict=True)
    )
    return ", ".join(clauses)


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


def has(names: Sequence[str]) -> str:
    """Return the verb behind some names: ``has`` or ``have``."""
    return "has" if len(names) == 1 else "have"


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
