"""What figures of memories show: which remember, where answers were lost, how much is held."""

from __future__ import annotations

import pandas as pd

from rulerlib.analysis.memory import ORACLE
from rulerlib.findings.courses import Course
from rulerlib.findings.wording import listed, percent, ranked

FLOORS = ("constant", "chance")
"""What can be had for nothing: the answer that is right most often, and a value at random."""

# What a figure of capacity shows, in words.
_CAPACITY = {"recall_at_5": "Recall at 5", "em_norm": "The share of right answers"}

# Fates of a question that was answered rightly.
_RIGHT = ("right", "right without the facts")


def panels(table: pd.DataFrame) -> pd.Series:
    """Return the name of each row's panel: its suite, with what else is averaged separately."""
    name = table["suite"]
    for column in ("size", "profile", "knobs"):
        if column in table and table[column].nunique() > 1:
            own = table[column].astype(str).where(table[column].astype(str) != "default", "")
            prefix = "size " if column == "size" else ""
            name = name + [f", {prefix}{each}" if each else "" for each in own]
    return name


def named(table: pd.DataFrame) -> pd.Series:
    """Return what each row is called: its preset, with the settings that were changed."""
    if "changes" not in table:
        return table["preset"]
    return table["preset"] + [f", {each}" if each else "" for each in table["changes"]]


def levels(
    part: pd.DataFrame, floors: pd.DataFrame | None, suite: str, measure: str
) -> dict[str, float]:
    """Return where lines stand in the panel of a suite: `FLOORS` and the oracle, by their names.

    Parameters
    ----------
    part
        The rows of the panel, by their names.
    """
    found = {}
    own = pd.DataFrame() if floors is None else floors
    if len(own):
        own = own[panels(own) == suite]
        for name in ("model", "language"):
            own = own[own[name].isin(part[name])] if name in own and name in part else own
    for name in FLOORS:
        if len(own) and own[name].notna().any():
            found[name] = float(own[name].mean())
    if ORACLE in part.index:
        found[ORACLE] = float(part[measure][part.index == ORACLE].mean())
    return found


def matrix(
    table: pd.DataFrame, floors: pd.DataFrame | None = None, measure: str = "em_norm"
) -> str:
    """Return which presets are clearly above what can be had for nothing, suite by suite.

    Parameters
    ----------
    table, floors, measure
        As `rulerlib.plots.matrix` takes them.
    """
    table = table.assign(name=named(table), panel=panels(table))
    said = []
    for suite in dict.fromkeys(table["panel"]):
        part = table[table["panel"] == suite].set_index("name")
        part = part[part[measure].notna()]
        if part.empty:
            said.append(f"{suite}: not measured.")
            continue
        known = levels(part, floors, suite, measure)
        free = [known[name] for name in FLOORS if name in known]
        ceiling = f"with the facts given {percent(known[ORACLE])}; " if ORACLE in known else ""
        if not free:
            said.append(f"{suite}: {ceiling}{ranked(part[measure].to_dict(), 'presets')}.")
            continue
        above = [str(name) for name in part.index[part[f"{measure} low"] > max(free)]]
        which = listed(above, 8) if above else "no preset"
        be = "are" if len(above) > 1 else "is"
        said.append(
            f"{suite}: {ceiling}{which} {be} clearly above {percent(max(free))}, which can be had"
            " for nothing."
        )
    return "\n".join(said)


def stores(table: pd.DataFrame) -> str:
    """Return where each preset lost most of the answers that it lost.

    Parameters
    ----------
    table
        From `rulerlib.analysis.memory.fates`, of one model and one language.
    """
    table = table.assign(name=named(table))
    said: dict[str, list[str]] = {}
    for name in dict.fromkeys(table["name"]):
        own = table[table["name"] == name]
        counts = own.groupby("fate", sort=False)["count"].sum()
        lost = counts.drop(list(_RIGHT), errors="ignore")
        if not lost.sum():
            said.setdefault("nothing is lost", []).append(str(name))
            continue
        most = [str(fate) for fate in lost.index if lost[fate] == lost.max()]
        said.setdefault(f"most is lost as {listed(most)}", []).append(
            f"{name} ({lost.max()} of {counts.sum()} questions{' each' if len(most) > 1 else ''})"
        )
    return "\n".join(
        f"{where[:1].upper()}{where[1:]}: {listed(names, 12)}." for where, names in said.items()
    )


def capacity(table: pd.DataFrame) -> str:
    """Return what becomes of recall and of right answers as more facts are taught.

    Parameters
    ----------
    table
        From `rulerlib.analysis.memory.capacity`, of one model and one language.
    """
    table = table.assign(name=named(table))
    said = []
    for measure, words in _CAPACITY.items():
        courses = {}
        for name in dict.fromkeys(table["name"]):
            part = table[(table["name"] == name) & table[measure].notna()].sort_values("facts")
            if len(part):
                ends = (part[column].tolist() for column in (f"{measure} low", f"{measure} high"))
                facts = [f"{number:,} facts" for number in part["facts"]]
                courses[str(name)] = Course(facts, part[measure].tolist(), *ends)
        falling = {name: course for name, course in courses.items() if course.fall}
        alone = [name for name, course in courses.items() if len(course.names) == 1]
        rest = [name for name in courses if name not in falling and name not in alone]
        if alone:
            said.append(
                f"{words} of {listed(alone, 12)} was measured at one number of facts alone."
            )
        if falling:
            clauses = [f"of {name} {course}" for name, course in falling.items()]
            said.append(f"{words} {'; '.join(clauses)}.")
        if rest and falling:
            said.append(f"That of {listed(rest, 12)} does not fall clearly.")
        elif rest:
            said.append(f"{words} falls clearly for none of {listed(rest, 12)}.")
    return "\n".join(said) or "Nothing was measured."
