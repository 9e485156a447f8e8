"""Lines against length: the accuracy of tasks, averages of models, and the settings of a study.

Two means differ *clearly* where their 95 % intervals do not overlap. That asks more than a test of
the two alone would, which leaves room for looking at several pairs.

>>> course(["1K", "2K", "4K"], [1.0, 0.9, 0.1], [0.9, 0.8, 0.0], [1.0, 1.0, 0.2])[1]
'falls clearly, from 100 % at 1K to 10 % at 4K'
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from rulerlib.labels import have, in_words, listed, percent, ranked, said_setting, thousands
from rulerlib.plots import base

# So many lines have a clause each; more of them are sorted by their course.
_FEW = 4

# The courses that a line can take, as the end of a sentence about several lines.
FALLING = "with a clear fall as the text grows"
RISING = "with a clear rise"
LEVEL = "with no clear difference between lengths"
ALONE = "asked at one length alone"


# --- Tasks ------------------------------------------------------------------------------------


def curves(
    table: pd.DataFrame, title: str | None = None, trained: int | None = None
) -> base.Figure:
    """Return a figure of accuracy against length, one line for each task, with its interval.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, of one model and one language.
    trained
        A length to be marked, in tokens: how far the model was trained.

    Raises
    ------
    ParameterError
        If the table is empty.

    Notes
    -----
    Each line is a task, each mark the mean over the answers at one length; lengths double from
    tick to tick. The bar at a mark is the 95 % interval: with few answers it is long, because
    few answers say little. Marks of one length stand side by side. Two means are called clearly
    different where their intervals do not overlap: that is rarely chance, even where one has
    looked at several.
    """
    base.check(table, "measured length")
    groups, tasks = _together(table), base.by_name(table, "task")
    size = (7 if len(groups) == 1 else 5.5, 4 if len(groups) <= 2 else 3.6)
    label = f"{base.measured(table)} (95 % interval)"
    figure, panels = base.panels(len(groups), 2, label, size)
    for axes, names in zip(panels, groups, strict=True):
        parts = {", ".join(dict.fromkeys([in_words(name), name])): tasks[name] for name in names}
        base.lines(axes, parts, "mean", 1, table["length"], trained)
    base.legends(figure, panels)
    alone = panels[0] if len(panels) == 1 else None
    return base.done(figure, curves, curves_in_words(table), title, alone)


def _together(table: pd.DataFrame) -> list[list[str]]:
    """Return tasks that share a panel: all, or where that is too many, those of one category."""
    names = list(base.by_name(table, "task"))
    if len(names) <= base.WITHIN:
        return [names]
    groups = []
    for part in base.by_name(table, "category").values():
        names = list(base.by_name(part, "task"))
        # As many in each panel of a large category.
        size = math.ceil(len(names) / math.ceil(len(names) / base.WITHIN))
        groups += [names[start : start + size] for start in range(0, len(names), size)]
    return groups


def curves_in_words(table: pd.DataFrame) -> str:
    """Return what the accuracy of each task does as the text grows."""
    return _courses(table[table["mean"].notna()], "task", "mean", 1)


# --- Models -----------------------------------------------------------------------------------


def models(
    table: pd.DataFrame,
    threshold: float | None = None,
    title: str | None = None,
    trained: int | None = None,
) -> base.Figure:
    """Return a figure of RULER's average against length, one line for each model and language.

    The axis says over how many tasks; a length that lacks some has no average and no mark.

    Parameters
    ----------
    table
        From `rulerlib.analysis.by_length`, in percent.
    threshold
        A line to be drawn: what an effective length has to exceed, in percent.
    trained
        A length to be marked, in tokens.

    Raises
    ------
    ParameterError
        If no length has an average.

    Notes
    -----
    Each line is a model, each mark its average over all tasks at one length; the bar is the 95 %
    interval. A bar that crosses the threshold lies on neither side of it for certain. Two means are
    called clearly different where their intervals do not overlap: that is rarely chance, even where
    one has looked at several.
    """
    averaged = table.assign(line=base.labels(table))[table["average"].notna()]
    base.check(averaged, "measured length")
    parts = base.by_name(averaged, "line")
    tasks = sorted({*averaged["tasks"]})
    number = f"{tasks[0]} to " * (len(tasks) > 1) + base.said_count(tasks[-1], "task")
    label = f"average over {number} (95 % interval)"
    figure, (axes,) = base.panels(1, 1, label, (7, 4))
    base.lines(axes, parts, "average", 100, averaged["length"], trained)
    if threshold is not None:
        axes.axhline(threshold, color="#555555", linestyle=(0, (1, 2)), linewidth=1)
        axes.annotate(
            f"threshold {threshold:g}", (1, threshold), xycoords=("axes fraction", "data"),
            xytext=(-3, 2), textcoords="offset points", fontsize=8, color="#555555", ha="right",
        )  # fmt: skip
    base.legends(figure, [axes])
    return base.done(figure, models, models_in_words(table, threshold), title, axes)


def models_in_words(table: pd.DataFrame, threshold: float | None = None) -> str:
    """Return what the average of each model does as the text grows, and on which side it lies."""
    table = table.assign(line=base.labels(table))
    averaged = table[table["average"].notna()]
    sentences = [_courses(averaged, "line", "average", 100)] if len(averaged) else []
    for name, part in base.by_name(averaged, "line").items() if threshold is not None else ():
        above, below = part["low"] > threshold, part["high"] < threshold
        line = f"the threshold of {threshold:g} %"
        sides = {
            f"clearly above {line}": part[above],
            f"clearly below {line}": part[below],
            f"too near to {line} to tell": part[~above & ~below],
        }
        clauses = [f"{side} at {_lengths(rows)}" for side, rows in sides.items() if len(rows)]
        sentences.append(f"{name} is {', '.join(clauses)}.")
    lacking: dict[str, list[str]] = {}
    for name, part in base.by_name(table[table["average"].isna()], "line").items():
        lacking.setdefault(_lengths(part.sort_values("length"), 8), []).append(name)
    return "\n".join(sentences + [
        f"{listed(names)} {have(names)} no average at {lengths}: not all tasks were asked there."
        for lengths, names in lacking.items()
    ])  # fmt: skip


def _lengths(rows: pd.DataFrame, most: int = 6) -> str:
    return listed([thousands(int(length)) for length in rows["length"]], most)


# --- Settings ---------------------------------------------------------------------------------


def study(table: pd.DataFrame, title: str | None = None, trained: int | None = None) -> base.Figure:
    """Return a figure of each setting's mean, its interval and its n.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, by ``setting``; or by ``group``, ``setting`` and
        ``length``, of one model and one language. Where it has several lengths, each setting is a
        curve, and each group has a panel, as in figures 2 and 3 of RULER's paper.
    trained
        A length to be marked on the curves, in tokens: how far the model was trained.

    Raises
    ------
    ParameterError
        If the table is empty.

    Notes
    -----
    A setting's name says what is set for it; all else that can be set is the same in its panel.
    Another task or operation asks other questions, which may be harder by themselves. Bars are
    95 % intervals; settings on the same line do what the others do. Two means are
    called clearly different where their intervals do not overlap: that is rarely chance, even
    where one has looked at several.
    """
    base.check(table, "measured setting")
    table = table.assign(setting=table["setting"].astype(str).map(said_setting))
    what, says = base.measured(table), study_in_words(table)
    if _at_several_lengths(table):
        groups = base.by_name(table.assign(group=table.get("group", "")), "group")
        size = (7, 4) if len(groups) == 1 else (5.5, 3.6)
        figure, panels = base.panels(len(groups), 2, f"{what} (95 % interval)", size)
        for axes, (group, rows) in zip(panels, groups.items(), strict=True):
            base.lines(axes, base.by_name(rows, "setting"), "mean", 1, table["length"], trained)
            if len(groups) > 1:
                axes.set_title(group, fontsize=10)
        base.legends(figure, panels)
        alone = panels[0] if len(panels) == 1 else None
    else:
        figure, (alone,) = base.panels(1, 1, "", (7, 1.1 + 0.36 * len(table)))
        base.dots(alone, range(len(table)), table["mean"], table["low"], table["high"])
        base.name_rows(alone, (table["setting"] + " (n = " + table["n"].astype(str) + ")").tolist())
        alone.set_xlim(-0.03, 1.03)
        base.in_percent(alone.xaxis)
        at = f" at {thousands(int(table['length'].iloc[0]))} tokens" if "length" in table else ""
        alone.set_xlabel(f"{what}{at} (bar: 95 % interval)")
    return base.done(figure, study, says, title, alone)


def _at_several_lengths(table: pd.DataFrame) -> bool:
    return "length" in table and table["length"].nunique() > 1


def study_in_words(table: pd.DataFrame) -> str:
    """Return which settings are highest and lowest, and whether that is more than chance.

    Settings of one group are compared at the longest length that all of them were asked at.
    """
    # At one length alone all settings stand in one panel.
    group = table.get("group", "") if _at_several_lengths(table) else ""
    sentences = []
    for name, part in base.by_name(table.assign(group=group), "group").items():
        before = f"{name}: " if name else ""
        if "length" in part:
            length = _longest(part, "setting")
            if length is None:
                sentences.append(f"{name or 'The settings'}: no length has all settings.")
                continue
            part = part[part["length"] == length]
            before = f"{f'{name}, at' if name else 'At'} {thousands(length)}: "
        sentences.append(f"{before}{_compared(part)}.")
    return "\n".join(sentences)


def _longest(table: pd.DataFrame, column: str) -> int | None:
    """Return the longest length that all values of a column have; None where none has."""
    names = table.groupby("length")[column].nunique()
    whole = names.index[names == table[column].nunique()]
    return int(whole.max()) if len(whole) else None


def _compared(part: pd.DataFrame) -> str:
    """Return the highest and the lowest of settings, and whether any two differ clearly."""
    shares = dict(zip(part["setting"].astype(str), part["mean"].tolist(), strict=True))
    clause = ranked(shares, "settings")
    if len(part) > 1:
        above = part.sort_values("low", kind="stable").iloc[-1]
        below = part.sort_values("high", kind="stable").iloc[0]
        if above["low"] > below["high"]:
            clause += f"; {above['setting']} is clearly above {below['setting']}"
        else:
            clause += "; no two settings differ clearly"
    return f"{clause} ({base.said_n(part)})"


# --- The course of a line ---------------------------------------------------------------------


def course(
    names: Sequence[str], means: Sequence[float], lows: Sequence[float], highs: Sequence[float]
) -> tuple[str, str]:
    """Return the sort of a line's course, such as `FALLING`, and a clause that describes it.

    Parameters
    ----------
    names
        Lengths (or numbers of facts) that rise, as text.
    means, lows, highs
        A mean from 0 to 1 for each length, and its interval.
    """
    marks = [f"{percent(mean)} at {name}" for name, mean in zip(names, means, strict=True)]
    intervals = f"{100 * min(lows):.0f} to {100 * max(highs):.0f} %"
    if len(names) == 1:
        return ALONE, f"is {marks[0]}, interval {intervals}"
    if fall := _first_fall(lows, highs):
        before, after = fall
        last = f" ({marks[-1]})" if after < len(marks) - 1 else ""
        return FALLING, f"falls clearly, from {marks[before]} to {marks[after]}{last}"
    # What rises falls where everything is turned upside down.
    if rise := _first_fall([-high for high in highs], [-low for low in lows]):
        before, after = rise
        return RISING, f"rises clearly, from {marks[before]} to {marks[after]}"
    low, high = percent(min(means), 1), percent(max(means), 1)
    level = f"is {low}" if low == high else f"lies between {low} and {high}"
    return LEVEL, f"{level}, and no two lengths differ clearly (intervals from {intervals})"


def _first_fall(lows: Sequence[float], highs: Sequence[float]) -> tuple[int, int] | None:
    """Return the first length that is clearly lower than a shorter one, as (shorter, longer)."""
    for later in range(1, len(lows)):
        best = max(range(later), key=lows.__getitem__)
        if highs[later] < lows[best]:
            return best, later
    return None


def _courses(table: pd.DataFrame, column: str, value: str, scale: float) -> str:
    """Return a sentence for each line, or where they are many, the sorts of courses there are.

    Parameters
    ----------
    table
        Without rows that were not measured.
    column, value, scale
        Where a line's name and its heights stand, and the highest value that there can be.
    """
    parts = base.by_name(table, column)
    sentences, sorts = list[str](), dict[str, list[str]]()
    for name, unsorted in parts.items():
        part = unsorted.sort_values("length")
        lengths = [thousands(int(length)) for length in part["length"]]
        heights = ((part[end] / scale).tolist() for end in (value, "low", "high"))
        sort, clause = course(lengths, *heights)
        sentences.append(f"{name} {clause} ({base.said_n(part)}).")
        sorts.setdefault(sort, []).append(name)
    if len(parts) <= _FEW:
        return "\n".join(sentences)
    clauses = [f"{len(names)} {sort} ({listed(names, 14)})" for sort, names in sorts.items()]
    ends = f"Of {len(parts)} {column}s, {'; '.join(clauses)}."
    length = _longest(table, column)
    if length is None:
        return f"{ends}\nNo length has all {column}s, so they are not ranked."
    at = table[table["length"] == length]
    shares = dict(zip(at[column].astype(str), at[value] / scale, strict=True))
    return f"{ends}\nAt {thousands(length)}, {ranked(shares, f'{column}s')}."
