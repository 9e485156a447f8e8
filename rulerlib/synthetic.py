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
from typing import Any, NamedTuple

from rulerlib import fields, paths, tasks
from rulerlib.errors import DataError, ParameterError, one_of, shortened
from rulerlib.tasks import Task


class Form(NamedTuple):
    """What a family is called in RULER's file.

    Attributes
    ----------
    task
        Its name there.
    names
        Our knobs by the names of its arguments.
    values
        By the name of an argument and its value there, the value of our knob.
    """

    task: str
    names: Mapping[str, str]
    values: Mapping[str, Mapping[Any, Any]] = {}


# "repeat" is what the first versions of RULER called noise.
_HAYSTACK = {"noise": "noise", "essay": "essay", "needle": "needle", "repeat": "noise"}

FORMS: dict[str, Form] = {
    "niah": Form(
        "niah",
        {
            "type_haystack": "haystack",
            **{
                name: name
                for name in (
                    "type_needle_k", "type_needle_v", "num_needle_k", "num_needle_v",
                    "num_needle_q",
                )
            },
        },
        {"type_haystack": _HAYSTACK},
    ),
    "variable_tracking": Form(
        "variable_tracking",
        {"type_haystack": "haystack", "num_chains": "num_chains", "num_hops": "num_hops"},
        {"type_haystack": _HAYSTACK},
    ),
    "common_words": Form(
        "common_words_extraction",
        {name: name for name in ("freq_cw", "freq_ucw", "num_cw")},
    ),
    "frequent_words": Form(
        "freq_words_extraction",
        {name: name for name in ("alpha", "coded_wordlen", "vocab_size")},
    ),
    "qa": Form("qa", {"dataset": "hops"}, {"dataset": {"squad": 1, "hotpotqa": 2}}),
}  # fmt: skip
"""The families of RULER by our names."""

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
    families = {form.task: family for family, form in FORMS.items()}
    family = families[one_of(f"task of {name}", entry["task"], families)]
    form, knobs = FORMS[family], {}
    for argument, value in (entry.get("args") or {}).items():
        knob = form.names[one_of(f"argument of {name}", argument, form.names)]
        if argument in form.values:
            value = form.values[argument][one_of(argument, value, form.values[argument])]
        knobs[knob] = value
    candidates = [tasks.TASKS[task] for task in tasks.names("all", family) if task in tasks.RULER]
    try:
        # As the family takes them: no fewer keys than are asked for, whatever the file says.
        wanted = asdict(tasks.FAMILIES[family].knobs(**knobs))
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
