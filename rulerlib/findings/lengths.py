"""What effective lengths show: how far models reach, what they claim, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rulerlib.analysis.tables import thousands
from rulerlib.errors import require
from rulerlib.findings.wording import labels, listed, said_count

# So many models have a clause each.
FEW = 4


def position(text: str, lengths: Sequence[int]) -> int:
    """Return where an effective length lies among ``lengths``, which rise; -1: below the shortest.

    >>> position("<4K", [4096, 8192]), position("≥8K", [4096, 8192])
    (-1, 1)

    Raises
    ------
    ParameterError
        If it is none of them.
    """
    if text.startswith("<"):
        return -1
    names = [thousands(length) for length in lengths]
    number = text.upper().lstrip("≥>")
    require(number in names, "effective length", text, f"one of {', '.join(names)}")
    return names.index(number)


def effective(
    table: pd.DataFrame, lengths: Sequence[int], value: str = "effective", other: str | None = None
) -> str:
    """Return how long the contexts of models are effective.

    Parameters
    ----------
    table, lengths, value, other
        As `rulerlib.plots.effective` takes them.
    """
    table = table[table[value].notna()]
    rising = sorted({int(length) for length in lengths})
    places = [position(text, rising) for text in table[value]]
    names = [str(name) for name in labels(table)]
    if len(table) <= FEW:
        said = [
            f"{name} reaches {_reached(str(text))}{_sure(row, value)}."
            for name, text, (_, row) in zip(names, table[value], table.iterrows(), strict=True)
        ]
    else:
        best = [name for name, place in zip(names, places, strict=True) if place == max(places)]
        furthest = _reached(str(table[value].iloc[places.index(max(places))]))
        failed = places.count(-1)
        said = [
            f"Of {len(table)} models, {len(best)} reach furthest, {furthest}: {listed(best, 3)}."
        ]
        middle = sorted(places)[(len(places) - 1) // 2]
        at_least = sum(place >= middle for place in places)
        if middle >= 0:
            said.append(f"{at_least} of them reach {thousands(rising[middle])} or more.")
        if failed:
            said.append(f"{failed} fail at {thousands(rising[0])} already.")
    said += _claimed(table, places, rising)
    if other is not None and other in table:
        differ = sum(
            position(text, rising) != place
            for text, place in zip(table[other], places, strict=True)
        )
        if differ:
            said.append(f"In {said_count(differ, 'row')} '{other}' says otherwise.")
    return "\n".join(said)


def _reached(text: str) -> str:
    """Return an effective length in words."""
    if text.startswith("<"):
        return f"not even {text[1:]}"
    return f"{text[1:]} or more, for nothing longer was asked" if text[0] == "≥" else text


def _sure(row: pd.Series, value: str) -> str:
    """Return the interval of an effective length in words, where there is one."""
    low, high = row.get(f"{value} low"), row.get(f"{value} high")
    if not isinstance(low, str) or not isinstance(high, str):
        return ""
    return ", and its interval is that alone" if low == high else f" (interval {low} to {high})"


def _claimed(table: pd.DataFrame, places: Sequence[int], lengths: Sequence[int]) -> list[str]:
    """Return how many models stay below the length that they claim."""
    if "claimed" not in table:
        return []
    known = [thousands(length) for length in lengths]
    asked = below = 0
    for claim, place in zip(table["claimed"], places, strict=True):
        tokens = _tokens(str(claim))
        if not tokens:
            continue
        # Beyond the longest length that was asked nobody knows.
        reach = lengths[place] if place >= 0 else 0
        asked += 1
        below += reach < min(tokens, lengths[-1])
    if not asked:
        return []
    return [
        f"{below} of {said_count(asked, 'model')} with a claimed length stay below it, as far as"
        f" {known[-1]} can tell."
    ]


def _tokens(claim: str) -> int:
    """Return a length such as ``128K`` or ``1M`` in tokens; 0 where it is none."""
    units = {"K": 1024, "M": 1024**2}
    number, unit = (claim[:-1], claim[-1:].upper()) if claim[-1:].upper() in units else (claim, "")
    try:
        return round(float(number) * units.get(unit, 1))
    except ValueError:
        return 0
