"""What a heatmap shows: how much is found, and whether the misses lie together."""

from __future__ import annotations

import math
from fractions import Fraction

import pandas as pd

from rulerlib.analysis.labels import base
from rulerlib.findings.wording import listed, percent, said_count
from rulerlib.tasks import TASKS

# So many tasks have a sentence each.
FEW = 4

# What stands at a depth, by the family of a task; elsewhere it is a needle.
_NOUNS = {"variable_tracking": "hop", "qa": "document", "drop": "passage"}

# A band this rare among misses that fall anywhere is taken for one.
_RARE = 0.05


def depths(table: pd.DataFrame) -> list[float]:
    """Return all depths of a table of `rulerlib.analysis.by_depth`, those without a needle too."""
    return sorted({*table.attrs.get("depths", ()), *table["depth"]})


def heatmap(table: pd.DataFrame) -> str:
    """Return how much was found, and between which depths the misses lie.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_depth`, of one model and one language.
    """
    parts = {str(name): table[table["task"] == name] for name in dict.fromkeys(table["task"])}
    cells = len(depths(table)) * table["length"].nunique()
    if len(parts) <= FEW:
        return "\n".join(f"{name}: {_task(name, part, cells)}." for name, part in parts.items())
    counts = {name: _found(part) for name, part in parts.items()}
    shares = {name: Fraction(right, n) for name, (right, n) in counts.items()}
    most, least = max(shares.values()), min(shares.values())
    best, worst = (
        listed([f"{name} ({right} of {n})" for name, (right, n) in counts.items()
                if shares[name] == share])
        for share in (most, least)
    )  # fmt: skip
    if most == least:
        said = [f"The same share is found of each task: {percent(float(most))}."]
    else:
        said = [f"{'Everything' if most == 1 else 'Most'} is found of {best}."]
        said += [f"{'Least' if least else 'Nothing'} is found of {worst}."]
    bands = [name for name, part in parts.items() if (band := band_of(part)) and band[2] < _RARE]
    if bands:
        said.append(f"Misses keep to a band of depths in {listed(bands)}, more than by chance.")
    return "\n".join(said)


def _found(part: pd.DataFrame) -> tuple[int, int]:
    """Return how many needles were found, and of how many."""
    return round((part["found"] * part["n"]).sum()), int(part["n"].sum())


def _noun(name: str) -> str:
    """Return what stands at a depth in a task."""
    task = TASKS.get(base(name))
    family = task.family.name if task else ""
    return _NOUNS.get(family, "fact" if task and task.category == "memory" else "needle")


def _task(name: str, part: pd.DataFrame, cells: int) -> str:
    """Return what is said of one task, whose panel has a number of cells."""
    right, n = _found(part)
    asked, measured = said_count(n, _noun(name)), int((part["n"] > 0).sum())
    whole = measured == cells
    if right == n:
        where = "at every depth and length" if whole else f"in all {measured} cells with an n"
        return f"all {asked} are found, {where}" if n > 1 else f"{asked} is found, of 1"
    if not right:
        where = "at any depth or length" if whole else f"in any of {measured} cells with an n"
        return f"none of {asked} is found, {where}"
    are = "is" if right == 1 else "are"
    said = f"{right} of {asked} {are} found ({percent(right / n)})"
    low, high, chance = band_of(part) or (0.0, 0.0, 1.0)
    missed = "1 miss" if n - right == 1 else f"{n - right} misses"
    if part["depth"].nunique() == 1:
        return f"{said}; all stood at the same depth"
    lie = "lies" if n - right == 1 else "lie"
    where = f"at {low:.0f} %" if low == high else f"between {low:.0f} and {high:.0f} %"
    said += f"; the {missed} {lie} {where} of the depth"
    if (low, high) == (part["depth"].min(), part["depth"].max()):
        return f"{said}, so that no band of depths stands out"
    if chance < _RARE:
        return f"{said}, so close together as hardly comes by chance"
    return f"{said}, which may be chance"


def band_of(part: pd.DataFrame) -> tuple[float, float, float] | None:
    """Return the depths between which the misses of a task lie, and how often chance does as much.

    If depth made no difference, the rows of the heatmap that have a miss would be any of its rows.
    The chance is that of so many rows, drawn at random, lying within so few neighbouring ones,
    anywhere. It is 1 where rows do not hold about as many needles each, for they cannot be
    exchanged.

    Parameters
    ----------
    part
        The rows of one task.

    Returns
    -------
    tuple or None
        The least depth and the greatest one in percent, and the chance; None without a miss.
    """
    part = part[part["n"] > 0]
    counts = part.groupby("depth")["n"].sum().sort_index()
    misses = ((1 - part["found"]) * part["n"]).round().groupby(part["depth"]).sum().sort_index()
    places = [place for place, missed in enumerate(misses) if missed > 0]
    if not places:
        return None
    rows, hit, width = len(misses), len(places), places[-1] - places[0] + 1
    ends = float(misses.index[places[0]]), float(misses.index[places[-1]])
    if counts.max() > 1.5 * counts.min():
        return (*ends, 1.0)
    # Of windows that slide over the rows: an upper bound, for several windows may hold the same.
    windows = (rows - width + 1) * math.comb(width, hit) / math.comb(rows, hit)
    return (*ends, min(1.0, windows))
