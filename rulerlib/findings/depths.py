"""What a heatmap shows: how much is found, and whether the misses lie together."""

from __future__ import annotations

import math

import pandas as pd

from rulerlib.findings.wording import listed, percent, said_count

# So many tasks have a sentence each.
FEW = 4

# A band this rare among misses that fall anywhere is taken for one.
_RARE = 0.05


def heatmap(table: pd.DataFrame) -> str:
    """Return how many needles were found, and between which depths the misses lie.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_depth`, of one model and one language.
    """
    parts = {name: table[table["task"] == name] for name in dict.fromkeys(table["task"])}
    if len(parts) <= FEW:
        return "\n".join(f"{name}: {_task(part)}." for name, part in parts.items())
    found = {str(name): _found(part) for name, part in parts.items()}
    whole = [name for name, (right, n) in found.items() if right == n]
    none = [name for name, (right, _) in found.items() if not right]
    ranked = sorted(found, key=lambda name: found[name][0] / found[name][1])
    best, worst = ("{}, {} of {}".format(name, *found[name]) for name in (ranked[-1], ranked[0]))
    said = [f"Most is found of {best}; least of {worst}."]
    said += [f"Everything is found of {listed(whole)}."] if whole else []
    said += [f"Nothing is found of {listed(none)}."] if none else []
    bands = [
        str(name) for name, part in parts.items() if (band := band_of(part)) and band[2] < _RARE
    ]
    if bands:
        said.append(f"Misses keep to a band of depths in {listed(bands)}, more than by chance.")
    return "\n".join(said)


def _found(part: pd.DataFrame) -> tuple[int, int]:
    """Return how many needles were found, and of how many."""
    return round((part["found"] * part["n"]).sum()), int(part["n"].sum())


def _task(part: pd.DataFrame) -> str:
    right, n = _found(part)
    if right == n:
        return f"all {said_count(n, 'needle')} are found, at every depth and length"
    if not right:
        return f"none of {said_count(n, 'needle')} is found, at any depth or length"
    are = "is" if right == 1 else "are"
    said = f"{right} of {said_count(n, 'needle')} {are} found ({percent(right / n)})"
    low, high, chance = band_of(part) or (0.0, 0.0, 1.0)
    missed = "1 miss" if n - right == 1 else f"{n - right} misses"
    if part["depth"].nunique() == 1:
        return f"{said}; all stood at the same depth"
    lie = "lies" if n - right == 1 else "lie"
    where = f"at {low:.0f} %" if low == high else f"between {low:.0f} and {high:.0f} %"
    said += f"; the {missed} {lie} {where} of the depth"
    if (low, high) == (part["depth"].min(), part["depth"].max()):
        return f"{said}, which is the whole of it"
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
