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
import warnings
from collections.abc import Mapping
from typing import Any

from rulerlib import plugins, tasks
from rulerlib.errors import ParameterError
from rulerlib.tasks.family import Task

_WANTED = "a dictionary of tasks by name"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{,59}")


def admit(name: str) -> list[str]:
    """Add the tasks of a family to `rulerlib.tasks.OUTSIDE`, and return their names.

    Raises
    ------
    ParameterError
        If the family cannot be imported or is incomplete.
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
    ParameterError
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
    return ParameterError("tasks", name, f"{_WANTED} with names of their own, not {variant!r}")


def _loaded(name: str) -> dict[str, Task]:
    """Return the tasks of a family, checked, with their origin."""
    family: Any = plugins.load("tasks", name, _WANTED)
    if not isinstance(family, Mapping):
        raise ParameterError("tasks", name, f"{_WANTED}, not {type(family).__name__}")
    for key, task in family.items():
        if not _NAME.fullmatch(str(key)):
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


def recall(origin: str) -> None:
    """Import the family of stored answers if its source has not changed.

    Otherwise none of its code runs, and a warning says how its answers are judged.
    """
    name, _, source = origin.partition("@")
    if plugins.source_hash(name) == source:
        admit(name)
    elif not any(task.origin == origin for task in tasks.OUTSIDE.values()):
        warnings.warn(
            f"The source of the family {name} has changed since some answers were written: they are"
            " judged as those of an unknown task.",
            stacklevel=3,
        )
