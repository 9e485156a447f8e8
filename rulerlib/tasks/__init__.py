"""The tasks by name: our own, and those of plug-ins.

>>> task = resolve("niah_multikey_1", num_needle_k=8)
>>> task.family, task.num_needle_k, task.haystack
('niah', 8, 'essay')

``-p tasks package.module:FAMILY`` selects all tasks of a plug-in's family, alone or together with
other names. ``FAMILY`` is a dictionary of tasks by name. An installed package can register its
families as entry points of the group ``rulerlib.tasks``; their tasks then have short names, as
those of `rulerlib.frontier` do::

    [project.entry-points."rulerlib.tasks"]
    updates = "package.module:FAMILY"

The wording of a family is in ``module.toml`` in the same folder: a table for each language, which
becomes the section of the language pack with the family's name.

Datasets, cells and answers record the family as ``package.module:FAMILY@hash``, with a hash of its
source, so that another source has another folder of answers. To judge stored answers, `recall`
imports the family if its source has not changed.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from rulerlib import plugins
from rulerlib.errors import ParameterError, listed, nearest, one_of
from rulerlib.tasks import common_words, drop, frequent_words, niah, qa, variable_tracking
from rulerlib.tasks.family import BESIDE, RULER_CATEGORIES, Task

__all__ = [
    "FRONTIER", "GROUPS", "OUTSIDE", "RULER", "TASKS", "Task", "all_tasks", "category",
    "check_judged_by_name", "families", "find", "names", "recall", "resolve",
]  # fmt: skip

RULER = (
    "niah_single_1",
    "niah_single_2",
    "niah_single_3",
    "niah_multikey_1",
    "niah_multikey_2",
    "niah_multikey_3",
    "niah_multivalue",
    "niah_multiquery",
    "vt",
    "cwe",
    "fwe",
    "qa_1",
    "qa_2",
)
"""The names of RULER's thirteen tasks."""

_OWN: dict[str, Task] = {
    **niah.TASKS,
    **variable_tracking.TASKS,
    **common_words.TASKS,
    **frequent_words.TASKS,
    **qa.TASKS,
    **drop.TASKS,
}

TASKS = {name: _OWN[name] for name in RULER} | _OWN
"""The tasks of rulerlib itself: RULER's thirteen, further settings of its families, and DROP."""

FRONTIER = ("graphwalks", "records", "mrcr", "trace", "ladder", "associations")
"""The names of the frontier's tasks, one of each family of the plug-in `rulerlib.frontier`."""

GROUPS = ("all", "ruler", "frontier")
"""Names that stand for several tasks, see `names`."""

OUTSIDE: dict[str, Task] = {}
"""The tasks of plug-ins that a run named as ``package.module:FAMILY``, by name."""


@functools.cache
def _known() -> dict[str, Task]:
    """Return our own tasks and those of installed packages, which this imports."""
    known = dict(TASKS)
    for plugin in plugins.installed("tasks").values():
        for name, task in _loaded(plugin).items():
            if name in known:
                raise _taken(plugin, name)
            known[name] = task
    return known


def all_tasks() -> dict[str, Task]:
    """Return all tasks by name: our own, those of installed plug-ins, and those that a run named.

    This imports the plug-ins.
    """
    return {**_known(), **OUTSIDE}


def find(name: str) -> Task | None:
    """Return a task by its name, or None. Plug-ins are imported only if we have no such task."""
    return OUTSIDE.get(name) or TASKS.get(name) or _known().get(name)


def families() -> dict[str, type[Task]]:
    """Return the families by name: our own, and those of plug-ins."""
    return {task.family: type(task) for task in all_tasks().values()}


def category(name: str) -> str:
    """Return the category of a task; for the thirteen tasks it is one of RULER's four."""
    task = find(name)
    if task is None:
        return "other"
    beside = name in TASKS and name not in RULER and task.category in RULER_CATEGORIES
    return BESIDE if beside else task.category


def resolve(name: str, **parameters: Any) -> Task:
    """Return a task by its name, with some parameters changed.

    Raises
    ------
    ParameterError
        If there is no such task or parameter (names the nearest), or a value cannot work.
    """
    task = find(name) if isinstance(name, str) else None
    if task is None:
        raise ParameterError("task", name, nearest(name, all_tasks()))
    allowed = [item.name for item in fields(task)]  # type: ignore[arg-type]  # It is a dataclass.
    for parameter in parameters:
        one_of("knob", parameter, allowed)
    return task.changed(**parameters)


def check_judged_by_name(name: str, task: Task) -> None:
    """Check that answers are judged in the same way as those of the task ``name``.

    Harnesses that call us back with a task's name know nothing of its parameters.

    Raises
    ------
    ParameterError
        If the parameters decide how answers are judged.
    """
    usual = resolve(name)
    if task.scoring != usual.scoring:
        before = usual.settings()
        changed = {key: value for key, value in task.settings().items() if value != before[key]}
        allowed = f"knobs of {name} that leave the way of judging its answers as it is"
        raise ParameterError("knobs", changed, allowed)


def names(chosen: str | Sequence[str], family: str | None = None) -> list[str]:
    """Return the task names that a parameter means.

    Parameters
    ----------
    chosen
        A name, several with commas between them, or a list of names. ``"ruler"`` means the
        thirteen, ``"frontier"`` one of each family that separates today's best models, ``"all"``
        all tasks of rulerlib and of installed packages, and ``package.module:FAMILY`` all tasks of
        a plug-in.
    family
        Allow only tasks of this family.

    Raises
    ------
    ParameterError
        If a name is unknown or of another family, given twice, or none is given.
    """
    if isinstance(chosen, str):
        chosen = listed(chosen)
    if not isinstance(chosen, (list, tuple)):
        raise ParameterError("tasks", chosen, "a name, several with commas between, or 'all'")
    named = list[str]()
    for name in chosen:
        if name in GROUPS:
            members = {"ruler": RULER, "frontier": FRONTIER}.get(name) or _known()
            named += [member for member in members if family in (None, resolve(member).family)]
        elif family is None and plugins.is_plugin(name):
            named += _admit(name)
        else:
            task = find(name) if isinstance(name, str) else None
            if task is None or family not in (None, task.family):
                known = all_tasks()
                allowed = [other for other in known if family in (None, known[other].family)]
                raise ParameterError("tasks", name, nearest(name, [*GROUPS, *allowed]))
            named.append(name)
    if not named:
        raise ParameterError("tasks", chosen, "at least one name, or 'all'")
    if len(set(named)) < len(named):
        raise ParameterError("tasks", chosen, "names that differ")
    return named


# --- Plug-ins -------------------------------------------------------------------------------------

_WANTED = "a dictionary of tasks by name"


def recall(origin: str) -> None:
    """Import the family of stored answers if its source has not changed.

    Otherwise none of its code runs, and a warning says how its answers are judged.
    """
    name, _, source = origin.partition("@")
    if plugins.source_hash(name) == source:
        _admit(name)
    elif not any(task.origin == origin for task in OUTSIDE.values()):
        warnings.warn(
            f"The source of the family {name} has changed since some answers were written: they are"
            " judged as those of an unknown task.",
            stacklevel=3,
        )


def _admit(name: str) -> list[str]:
    """Add the tasks of a plug-in's family to `OUTSIDE`, and return their names."""
    family = _loaded(name)
    for variant in family:
        there = find(variant)
        if there is not None and there.origin.partition("@")[0] != name:
            raise _taken(name, variant)
    OUTSIDE.update(family)
    return [*family]


def _taken(name: str, variant: str) -> ParameterError:
    return ParameterError("tasks", name, f"{_WANTED} with names of their own, not {variant!r}")


def _loaded(name: str) -> dict[str, Task]:
    """Return the tasks of a family, checked, with their origin."""
    family: Any = plugins.load("tasks", name, _WANTED)
    if not isinstance(family, Mapping):
        raise ParameterError("tasks", name, f"{_WANTED}, not {type(family).__name__}")
    for key, task in family.items():
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{,59}", str(key)):
            allowed = f"{_WANTED} whose names have a-z, 0-9, '.', '_' and '-', not {key!r}"
            raise ParameterError("tasks", name, allowed)
        if not (isinstance(task, Task) and task.tokens_to_generate > 0):
            allowed = f"{_WANTED}, each an instance of Task with answer_tokens above 0"
            raise ParameterError("tasks", name, allowed)
    # The version of rulerlib says which source its own plug-ins have.
    if not name.startswith("rulerlib."):
        origin = f"{name}@{plugins.source_hash(name)}"
        for task in family.values():
            type(task).origin = origin
    return dict(family)
