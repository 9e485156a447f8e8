"""What curves show: accuracy and averages over lengths, a line for each task or model."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from rulerlib.analysis.tables import thousands
from rulerlib.findings.courses import Course
from rulerlib.findings.wording import labels, listed, percent, said_n

# So many lines have a clause each; more of them are sorted by their course.
FEW = 4


def curves(table: pd.DataFrame) -> str:
    """Return what the accuracy of each task does as the text grows.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, of one model and one language.
    """
    names = dict.fromkeys(table["task"])
    parts = {str(name): table[table["task"] == name] for name in names}
    return _said({name: (Course.of(part), said_n(part)) for name, part in parts.items()}, "task")


def models(table: pd.DataFrame, threshold: float | None = None) -> str:
    """Return what the average of each model does as the text grows, and where it is above a line.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_length`, in percent.
    threshold
        What an effective length has to exceed, in percent.
    """
    names, known = labels(table), table["average"].notna()
    parts = {str(name): table[(names == name) & known] for name in dict.fromkeys(names[known])}
    courses = {
        name: (Course.of(part, "average", 100), said_n(part)) for name, part in parts.items()
    }
    said = _said(courses, "line")
    if threshold is None:
        return said
    return "\n".join([said, *(_beside(name, part, threshold) for name, part in parts.items())])


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


def _said(courses: Mapping[str, tuple[Course, str]], what: str) -> str:
    """Return a sentence for each course, or where they are many, the sorts of courses there are."""
    if len(courses) <= FEW:
        return "\n".join(f"{name} {course} ({n})." for name, (course, n) in courses.items())
    by_sort: dict[str, list[str]] = {
        "fall clearly as the text grows": [],
        "rise clearly": [],
        "show no clear difference between lengths": [],
    }
    falling, rising, level = by_sort.values()
    for name, (course, _) in courses.items():
        (falling if course.fall else rising if course.rise else level).append(name)
    said = [
        f"{len(names)} {sort} ({listed(names, 14)})" for sort, names in by_sort.items() if names
    ]
    ends = f"Of {len(courses)} {what}s, {'; '.join(said)}."
    longest = {name: course for name, (course, _) in courses.items() if course.names}
    if not longest:
        return ends
    ranked = sorted(longest, key=lambda name: longest[name].means[-1])
    best, worst = (f"{name} ({percent(longest[name].means[-1])} at {longest[name].names[-1]})"
                   for name in (ranked[-1], ranked[0]))  # fmt: skip
    return f"{ends}\nAt its longest length, {best} ends highest and {worst} lowest."
