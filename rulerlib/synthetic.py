"""RULER's ``synthetic.yaml``: the settings of tasks in the form of its scripts.

>>> rows({"two": {"task": "niah", "args": {"type_haystack": "repeat", "num_needle_v": 2}}})
[{'task': 'niah_single_1', 'num_needle_v': 2}]
>>> rows({"a": {"task": "qa", "args": {"dataset": "squad"}}})
[{'task': 'qa_1'}]

A study takes such a file: ``-p study synthetic.yaml`` asks each of its settings that belong to the
notebook's family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rulerlib import fields, paths, tasks
from rulerlib.errors import DataError, ParameterError, one_of, shortened
from rulerlib.tasks import Task

FAMILIES = {
    "niah": "niah",
    "variable_tracking": "variable_tracking",
    "common_words_extraction": "common_words",
    "freq_words_extraction": "frequent_words",
    "qa": "qa",
}
"""The families of RULER by what its file calls them."""

# What its file calls our knobs, unless it has our name; and their values, unless it has ours.
_ARGUMENTS = {"haystack": "type_haystack", "hops": "dataset"}
_VALUES: dict[str, dict[str, Any]] = {
    # "repeat" is what the first versions of RULER called noise.
    "type_haystack": {"noise": "noise", "essay": "essay", "needle": "needle", "repeat": "noise"},
    "dataset": {"squad": 1, "hotpotqa": 2},
}

# What RULER's script takes where neither is set, whatever the length.
_FREQUENCIES = {"freq_cw": 30, "freq_ucw": 3}


def rows(entries: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings in a ``synthetic.yaml`` as rows of a study.

    Parameters
    ----------
    entries
        What the file says: for each name a ``task`` and its ``args``. Those that it leaves out are
        as in our row of the table.

    Returns
    -------
    list of dict
        Each ``{"task": ..., knob: value}``: of RULER's thirteen the one that differs in the
        fewest knobs, and those knobs.

    Raises
    ------
    DataError
        If an entry is no setting.
    ParameterError
        If a task, an argument or a value is unknown, or cannot work.
    """
    return [_row(name, entry) for name, entry in entries.items()]


def _row(name: str, entry: Any) -> dict[str, Any]:
    """Return one setting as a row of a study."""
    holds = isinstance(entry, dict) and isinstance(entry.get("args") or {}, dict)
    if not holds or "task" not in entry:
        raise DataError(f"{name}: {shortened(entry)}, not a task with its args.")
    family = FAMILIES[one_of(f"task of {name}", entry["task"], FAMILIES)]
    make, knobs = tasks.FAMILIES[family].knobs, {}
    by_argument = {_ARGUMENTS.get(knob, knob): knob for knob in asdict(make())}
    for argument, value in (entry.get("args") or {}).items():
        knob = by_argument[one_of(f"argument of {name}", argument, by_argument)]
        if argument in _VALUES:
            value = _VALUES[argument][one_of(argument, value, _VALUES[argument])]
        knobs[knob] = value
    candidates = [tasks.TASKS[task] for task in tasks.names("all", family) if task in tasks.RULER]
    try:
        # As the family takes them: no fewer keys than are asked for, whatever the file says.
        wanted = asdict(make(**knobs))
    except ParameterError as error:
        raise ParameterError(f"{error.parameter} of {name}", error.value, error.allowed) from error
    # RULER says these for every length, as ours are where nobody sets them.
    if all(wanted.get(knob) == value for knob, value in _FREQUENCIES.items()):
        wanted |= dict.fromkeys(_FREQUENCIES)
    task, differs = min(
        ((task, _differing(task, wanted)) for task in candidates), key=lambda pair: len(pair[1])
    )
    return {"task": task.name, **differs}


def _differing(task: Task, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the knobs that are not as the row of a task has them."""
    row = task.settings()
    return {knob: value for knob, value in wanted.items() if row[knob] != value}


def read(path: str | Path) -> list[dict[str, Any]]:
    """Return the settings in a file as rows of a study.

    Raises
    ------
    DataError, ParameterError, MissingExtraError
        As `rows`, and if the file cannot be read.
    """
    file = paths.named("study", path, "a list of settings, or a file of them")
    what = "the settings of tasks by their names"
    try:
        entries = fields.settings_file(file, what, "Reading a synthetic.yaml")
    except RecursionError as error:
        raise DataError(f"{path}: not {what}.") from error
    try:
        return rows(entries)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
