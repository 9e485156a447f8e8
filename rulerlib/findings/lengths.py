"""What effective lengths show: how far models reach, what they claim, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from rulerlib.analysis.tables import thousands, tokens
from rulerlib.errors import require
from rulerlib.findings.wording import has, labels, listed, said_count

# So many models have a clause each.
FEW = 4


def position(text: str, lengths: Sequence[int]) -> float:
    """Return where an effective length lies among ``lengths``, which rise; -1: below the shortest.

    What lies below another length lies half a place before it: where, nobody knows.

    >>> position("<4K", [4096, 8192]), position("≥8K", [4096, 8192]), position("<8K", [4096, 8192])
    (-1, 1, 0.5)

    Raises
    ------
    ParameterError
        If it is none of them.
    """
    names = [thousands(length) for length in lengths]
    number = text.upper().lstrip("<≥>")
    require(number in names, "effective length", text, f"one of {', '.join(names)}")
    place = names.index(number)
    return place - (0.5 if place else 1) if text.startswith("<") else place


def effective(
    table: pd.DataFrame, lengths: Sequence[int], value: str = "effective", other: str | None = None
) -> str:
    """Return how long the contexts of models are effective.

    Parameters
    ----------
    table, lengths, value, other
        As `rulerlib.plots.effective` takes them.
    """
    called, known = labels(table), table[value].notna()
    unknown = [str(name) for name in called[~known]]
    names, table = [str(name) for name in called[known]], table[known]
    rising = sorted({int(length) for length in lengths})
    places = [position(text, rising) for text in table[value]]
    if len(table) <= FEW:
        said = [
            f"{name} {_reached(str(text))}{_sure(row, value)}."
            for name, text, (_, row) in zip(names, table[value], table.iterrows(), strict=True)
        ]
    else:
        said = _many(names, [str(text) for text in table[value]])
    said += _claimed(table, value)
    if unknown:
        said.append(f"{listed(unknown)} {has(unknown)} no average at any length.")
    if other is not None and other in table:
        differ = sum(
            position(text, rising) != place
            for text, place in zip(table[other], places, strict=True)
        )
        if differ:
            said.append(f"In {said_count(differ, 'row')} '{other}' says otherwise.")
    return "\n".join(said)


def _many(names: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return how far many models reach: the furthest, half of them, and those that fail at once."""
    reach = [_tokens(text) for text in texts]
    furthest, middle = max(reach), sorted(reach)[(len(reach) - 1) // 2]
    best = [name for name, length in zip(names, reach, strict=True) if length == furthest]
    said = []
    if len(best) == len(names):
        said.append(f"All {len(names)} models reach {thousands(furthest)}." if furthest else "")
    else:
        verb = "reaches" if len(best) == 1 else "reach"
        said.append(
            f"Of {len(names)} models, {len(best)} {verb} furthest, {thousands(furthest)}:"
            f" {listed(best, 3)}."
        )
        if middle:
            at_least = sum(length >= middle for length in reach)
            said.append(f"{at_least} of them reach {thousands(middle)} or more.")
    if opened := sum(text.startswith("≥") for text in texts):
        verb = "was" if opened == 1 else "were"
        said.append(f"{opened} {verb} asked nothing longer than that.")
    failed = Counter(text[1:] for text in texts if text.startswith("<"))
    said += [
        f"{count} {'fails' if count == 1 else 'fail'} at {length} already."
        for length, count in failed.items()
    ]
    return [sentence for sentence in said if sentence]


def _reached(text: str) -> str:
    """Return how far a model reaches, in words."""
    if text.startswith("<"):
        return f"does not reach {text[1:]}"
    more = " or more, for nothing longer was asked" if text[0] == "≥" else ""
    return f"reaches {text.lstrip('≥')}{more}"


def _sure(row: pd.Series, value: str) -> str:
    """Return the interval of an effective length in words, where there is one."""
    low, high = row.get(f"{value} low"), row.get(f"{value} high")
    if not isinstance(low, str) or not isinstance(high, str):
        return ""
    return ", and its interval is that alone" if low == high else f" (interval {low} to {high})"


def _tokens(text: str) -> int:
    """Return an effective length in tokens, as far as it is known; 0 where every length failed."""
    return 0 if text.startswith("<") else tokens(text.lstrip("≥")) or 0


def _claimed(table: pd.DataFrame, value: str) -> list[str]:
    """Return how many models stay below the length that they claim, and where that is open."""
    if "claimed" not in table:
        return []
    claims = [
        (str(text), known)
        for text, claim in zip(table[value], table["claimed"], strict=True)
        if (known := tokens(str(claim)))
    ]
    if not claims:
        return []
    short = [text for text, claim in claims if _tokens(text) < claim]
    opened = sum(text.startswith("≥") for text in short)
    verb = "stays" if len(short) - opened == 1 else "stay"
    said = f"Of {said_count(len(claims), 'model')} with a claimed length,"
    said += f" {len(short) - opened} {verb} below it"
    if opened:
        said += f"; {opened} {'was' if opened == 1 else 'were'} asked nothing so long"
    return [f"{said}."]
