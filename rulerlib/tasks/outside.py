"""Families of tasks from plug-ins.

``-p tasks package.module:FAMILY`` selects all tasks of a family, alone or together with other
names. ``FAMILY`` is a dictionary of tasks by name. An installed package can register its families
as entry points of the group ``rulerlib.tasks``; their tasks then have short names, as those of
`rulerlib.frontier` do::

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
import sys
import warnings
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from rulerlib import plugins, tasks
from rulerlib.errors import ParameterError, RulerError, shortened
from rulerlib.tasks.family import Task, wording_of

_WANTED = "a dictionary of tasks by name"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{,59}")


def admit(name: str) -> list[str]:
    """Add the tasks of a family to `rulerlib.tasks.OUTSIDE`, and return their names.

    Raises
    ------
    ParameterError
        If the family cannot be imported or is incomplete.
    DataError
        If the file of its wording is damaged.
    """
    family = _loaded(name)
    for variant in family:
        there = tasks.find(variant)
        if there is not None and there.origin.partition("@")[0] != name:
            raise _taken(name, variant)
    tasks.OUTSIDE.update(family)
    return [*family]


@functools.cache
def installed() -> dict[str, Task]:
    """Return the tasks of installed packages by name, see `rulerlib.plugins`.

    Raises
    ------
    ParameterError, DataError
        As `admit`.
    """
    found = dict[str, Task]()
    for full_name in plugins.installed("tasks").values():
        for name, task in _loaded(full_name).items():
            if name in found or name in tasks.TASKS:
                raise _taken(full_name, name)
            found[name] = task
    return found


def _taken(name: str, variant: str) -> ParameterError:
    allowed_values = f"{_WANTED} with names of their own, not {variant!r}"
    return ParameterError("tasks", name, allowed_values)


def _loaded(name: str) -> dict[str, Task]:
    """Return the tasks of a family, checked, with their origin."""
    family: Any = plugins.load("tasks", name, _WANTED)

    def check(holds: object, what: str) -> None:
        if not holds:
            raise ParameterError("tasks", name, f"{_WANTED}{what}")

    check(isinstance(family, Mapping) and family, f", not {type(family).__name__}")
    for task_name, task in family.items():
        holds = isinstance(task_name, str) and _NAME.fullmatch(task_name)
        check(holds, f" whose names have a-z, 0-9, '.', '_' and '-', not {task_name!r}")
        check(isinstance(task, Task) and is_dataclass(task), f", and {task_name} is none")
        check(_NAME.fullmatch(getattr(task, "family", "")), " with a short name of their family")
        generate = task.tokens_to_generate
        check(isinstance(generate, int) and generate > 0, " with answer_tokens above 0")
    wording_of(Path(str(sys.modules[name.partition(":")[0]].__file__)).with_suffix(".toml"))
    # The version of rulerlib says which source its own plug-ins have.
    if not name.startswith("rulerlib."):
        origin = f"{name}@{plugins.source_hash(name)}"
        for task in family.values():
            type(task).origin = origin
    return dict(family)


def recall(origin: Any) -> None:
    """Import the family of stored answers if its source has not changed.

    Otherwise none of its code runs, and a warning says how its answers are judged.
    """
    if not isinstance(origin, str) or not plugins.is_plugin(origin):
        return
    name, _, wanted = origin.partition("@")
    if any(task.origin == origin for task in tasks.OUTSIDE.values()):
        return
    if plugins.source_hash(name) == wanted:
        try:
            admit(name)
            return
        except RulerError as error:
            why = str(error)
    else:
        why = "its files are not here as they were then"
    warnings.warn(
        f"The family {shortened(name)[1:-1]} that asked for some answers cannot be used, because"
        f" {why}: they are judged as those of tasks that nobody knows.",
        stacklevel=3,
    )
