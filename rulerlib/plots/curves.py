"""Lines against length: the accuracy of tasks, averages of models, and the settings of a study.

Two means differ *clearly* where their 95 % intervals do not overlap. That asks more than a test of
the two alone would, which leaves room for looking at several pairs.

>>> course = Course(["1K", "2K", "4K"], [1.0, 0.9, 0.1], [0.9, 0.8, 0.0], [1.0, 1.0, 0.2])
>>> str(course)
'stays at 90 % or more up to 2K, then falls clearly, to 10 % at 4K'
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from rulerlib.analysis.tables import thousands
from rulerlib.plots import base
from rulerlib.wording import have, listed, percent, ranked

# So many lines have a clause each; more of them are sorted by their course.
_FEW = 4

# A course that begins so high is said to stay there.
_HIGH = 0.5

# Intervals wider than this say next to nothing.
_WIDE = 0.5


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
        parts = {name: tasks[name] for name in names}
        base.lines(axes, parts, "mean", 1, table["length"], trained)
    base.legends(figure, panels)
    alone = panels[0] if len(panels) == 1 else None
    return base.done(figure, curves, curves_in_words(table), title, alone)


def _together(table: pd.DataFrame) -> list[list[str]]:
    """Return tasks that share a panel: all, or where that is too many, those of one category."""
    names = list(dict.fromkeys(table["task"]))
    if len(names) <= base.WITHIN:
        return [names]
    groups = []
    for part in base.by_name(table, "category").values():
        names = list(dict.fromkeys(part["task"]))
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
    label = f"average over {number}, % (95 % interval)"
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
    what, says = base.measured(table), study_in_words(table)
    if _at_several_lengths(table):
        groups = base.by_name(table.assign(group=table.get("group", "")), "group")
        size = (7, 4) if len(groups) == 1 else (5.5, 3.6)
        figure, panels = base.panels(len(groups), 2, f"{what} (95 % interval)", size)
        for axes, (group, rows) in zip(panels, groups.items(), strict=True):
            parts = base.by_name(rows, "setting")
            base.lines(axes, parts, "mean", 1, table["length"], trained)
            if len(groups) > 1:
                axes.set_title(group, fontsize=10)
        base.legends(figure, panels)
        alone = panels[0] if len(panels) == 1 else None
    else:
        figure, (alone,) = base.panels(1, 1, "", (7, 1.1 + 0.36 * len(table)))
        base.dots(alone, range(len(table)), table["mean"], table["low"], table["high"])
        counts = zip(table["setting"], table["n"], strict=True)
        base.name_rows(alone, [f"{name} (n = {n})" for name, n in counts])
        alone.set_xlim(-0.03, 1.03)
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
    """Return the highest and the lowest of settings, and whether they differ clearly."""
    part = part.sort_values("mean", kind="stable")
    shares = dict(zip(part["setting"].astype(str), part["mean"].tolist(), strict=True))
    n, ends = base.said_n(part), (100 * part["low"].min(), 100 * part["high"].max())
    if len(part) == 1:
        ((name, share),) = shares.items()
        interval = f"interval {ends[0]:.0f} to {ends[1]:.0f} %"
        return f"{name} has {percent(share)}, {interval} ({n}), and nothing beside it"
    ranking, pairs = ranked(shares, "settings"), clear_pairs(part)
    tenths = {name: percent(share, 1) for name, share in shares.items()}
    lowest, highest = (
        [name for name in shares if tenths[name] == tenths[end]]
        for end in (next(iter(shares)), next(reversed(shares)))
    )
    if lowest == highest:
        return f"{ranking}, with intervals from {ends[0]:.0f} to {ends[1]:.0f} % ({n})"
    if not pairs:
        return f"{ranking}; no two settings differ clearly ({n})"
    if {*itertools.product(highest, lowest)} <= {*pairs}:
        return f"{ranking}, which is a clear difference ({n})"
    return f"{ranking}; {pairs[0][0]} is clearly above {pairs[0][1]} ({n})"


def clear_pairs(part: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the pairs of settings of which the first is clearly above the second."""
    rows = list(zip(part["setting"].astype(str), part["low"], part["high"], strict=True))
    return [
        (above, below) for above, low, _ in reversed(rows) for below, _, high in rows if low > high
    ]


# --- The course of a line ---------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """Means from 0 to 1 with their intervals, at lengths (or numbers of facts) that rise.

    Attributes
    ----------
    names
        The lengths as text.
    means, lows, highs
        One for each length.
    """

    names: Sequence[str]
    means: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]

    @classmethod
    def of(cls, part: pd.DataFrame, value: str = "mean", scale: float = 1) -> Course:
        """Return the course of one line of a figure, whose highest value would be ``scale``."""
        part = part.sort_values("length")
        names = [thousands(int(length)) for length in part["length"]]
        return cls(names, *((part[name] / scale).tolist() for name in (value, "low", "high")))

    @cached_property
    def fall(self) -> tuple[int, int] | None:
        """The first length that is clearly lower than a shorter one, as (shorter, longer)."""
        for later in range(1, len(self.names)):
            best = max(range(later), key=lambda place: self.lows[place])
            if self.highs[later] < self.lows[best]:
                return best, later
        return None

    def rise(self, start: int = 0) -> tuple[int, int] | None:
        """Return the first length that is clearly higher than a shorter one, from a place on."""
        for later in range(start + 1, len(self.names)):
            worst = min(range(start, later), key=lambda place: self.highs[place])
            if self.lows[later] > self.highs[worst]:
                return worst, later
        return None

    def _at(self, place: int) -> str:
        return f"{percent(self.means[place])} at {self.names[place]}"

    def __str__(self) -> str:
        ends = f"{100 * min(self.lows):.0f} to {100 * max(self.highs):.0f} %"
        if len(self.names) == 1:
            return f"is {self._at(0)}, interval {ends}"
        if self.fall is not None:
            return self._falling(*self.fall)
        if rise := self.rise():
            return f"rises clearly, from {self._at(rise[0])} to {self._at(rise[1])}"
        low, high = min(self.means), max(self.means)
        if percent(low, 1) == percent(high, 1):
            lengths = f"each of its {len(self.names)} lengths"
            return f"is {percent(low)} at {lengths}, with intervals from {ends}"
        # As many decimals as tell them apart.
        decimals = int(percent(low) == percent(high))
        text = f"lies between {percent(low, decimals)} and {percent(high, decimals)}"
        text += ", and no two lengths differ clearly"
        widest = max(high - low for low, high in zip(self.lows, self.highs, strict=True))
        if widest > _WIDE:
            text += f": intervals are up to {100 * widest:.0f} points wide, too wide to tell"
        return text

    def _falling(self, best: int, first: int) -> str:
        """Return how it falls: what it held before, where it is clearly lower, and what follows."""
        last = len(self.names) - 1
        kept = min(self.means[:first])
        if first > 1 and kept >= _HIGH:
            floor = f"{math.floor(round(100 * kept, 6))} %{' or more' if kept < 1 else ''}"
            text = f"stays at {floor} up to {self.names[first - 1]}, then falls clearly, to"
        else:
            text = f"falls clearly, from {self._at(best)} to"
        text += f" {self._at(first)}"
        if back := self.rise(first):
            return f"{text}, and is clearly higher again with {self._at(back[1])}"
        return text if first == last else f"{text} ({self._at(last)})"


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
    courses = {name: Course.of(part, value, scale) for name, part in parts.items()}
    if len(courses) <= _FEW:
        return "\n".join(
            f"{name} {courses[name]} ({base.said_n(part)})." for name, part in parts.items()
        )
    falling, rising, level, alone = list[str](), list[str](), list[str](), list[str]()
    for name, course in courses.items():
        sort = falling if course.fall else rising if course.rise() else level
        (alone if len(course.names) == 1 else sort).append(name)
    sorts = (
        (falling, "falls clearly as the text grows", "fall clearly as the text grows"),
        (rising, "rises clearly", "rise clearly"),
        (level, "shows no clear difference between lengths",
         "show no clear difference between lengths"),
        (alone, "was asked at one length alone", "were asked at one length alone"),
    )  # fmt: skip
    clauses = [
        f"{len(names)} {several if len(names) > 1 else one} ({listed(names, 14)})"
        for names, one, several in sorts
        if names
    ]
    ends = f"Of {len(courses)} {column}s, {'; '.join(clauses)}."
    length = _longest(table, column)
    if length is None:
        return f"{ends}\nNo length has all {column}s, so they are not ranked."
    at = table[table["length"] == length]
    shares = dict(zip(at[column].astype(str), at[value] / scale, strict=True))
    return f"{ends}\nAt {thousands(length)}, {ranked(shares, f'{column}s')}."
