"""What curves show: accuracy and averages over lengths, a line for each task or model."""

from __future__ import annotations

import pandas as pd

from rulerlib.analysis.tables import thousands
from rulerlib.findings.courses import Course
from rulerlib.findings.settings import longest
from rulerlib.findings.wording import has, labels, listed, ranked, said_n

# So many lines have a clause each; more of them are sorted by their course.
FEW = 4


def curves(table: pd.DataFrame) -> str:
    """Return what the accuracy of each task does as the text grows.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, of one model and one language.
    """
    return _said(table[table["mean"].notna()], "task", "mean", 1)


def models(table: pd.DataFrame, threshold: float | None = None) -> str:
    """Return what the average of each model does as the text grows, and where it is above a line.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_length`, in percent.
    threshold
        What an effective length has to exceed, in percent.
    """
    table = table.assign(line=labels(table))
    known = table[table["average"].notna()]
    said = [_said(known, "line", "average", 100)] if len(known) else []
    if threshold is not None:
        said += [_beside(str(name), part, threshold) for name, part in _parts(known, "line")]
    lacking: dict[str, list[str]] = {}
    for name, part in _parts(table[table["average"].isna()], "line"):
        lengths = listed([thousands(int(length)) for length in sorted(part["length"])], 8)
        lacking.setdefault(lengths, []).append(name)
    return "\n".join(said + [
        f"{listed(names)} {has(names)} no average at {lengths}: not all tasks were asked there."
        for lengths, names in lacking.items()
    ])  # fmt: skip


def _parts(table: pd.DataFrame, column: str) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows of each line with its name, in the order of the table."""
    return [(str(name), part) for name, part in table.groupby(column, sort=False)]


def _beside(name: str, part: pd.DataFrame, threshold: float) -> str:
    """Return at which lengths an average is clearly above or below a threshold, and where open."""
    above, below = part["low"] > threshold, part["high"] < threshold
    sides = {
        f"clearly above the threshold of {threshold:g} %": part[above],
        f"clearly below the threshold of {threshold:g} %": part[below],
        f"too near to the threshold of {threshold:g} % to tell": part[~above & ~below],
    }
    said = [
        f"{side} at {listed([thousands(int(length)) for length in own['length']])}"
        for side, own in sides.items()
        if len(own)
    ]
    return f"{name} is {', '.join(said)}."


def _said(table: pd.DataFrame, column: str, value: str, scale: float) -> str:
    """Return a sentence for each line, or where they are many, the sorts of courses there are.

    Parameters
    ----------
    table
        Without rows that were not measured.
    column, value, scale
        Where a line's name and its heights stand, and the highest value that there can be.
    """
    parts = _parts(table, column)
    courses = {name: Course.of(part, value, scale) for name, part in parts}
    if len(courses) <= FEW:
        return "\n".join(f"{name} {courses[name]} ({said_n(part)})." for name, part in parts)
    by_sort: dict[tuple[str, str], list[str]] = {
        ("falls clearly as the text grows", "fall clearly as the text grows"): [],
        ("rises clearly", "rise clearly"): [],
        ("shows no clear difference between lengths",
         "show no clear difference between lengths"): [],
        ("was asked at one length alone", "were asked at one length alone"): [],
    }  # fmt: skip
    falling, rising, level, alone = by_sort.values()
    for name, course in courses.items():
        sort = falling if course.fall else rising if course.rise else level
        (alone if len(course.names) == 1 else sort).append(name)
    said = [
        f"{len(names)} {sort[len(names) > 1]} ({listed(names, 14)})"
        for sort, names in by_sort.items()
        if names
    ]
    ends = f"Of {len(courses)} {column}s, {'; '.join(said)}."
    length = longest(table, column)
    if length is None:
        return f"{ends}\nNo length has all {column}s, so they are not ranked."
    at = table[table["length"] == length]
    shares = dict(zip(at[column].astype(str), at[value] / scale, strict=True))
    return f"{ends}\nAt {thousands(length)}, {ranked(shares, f'{column}s')}."
