"""A family from outside of rulerlib: a file that somebody else wrote.

``-p tasks package.module:FAMILY`` names it, alone or beside other names, and means all of its
variants. A package that is installed can name its families as entry points of the group
``rulerlib.tasks``; their tasks then go by their names alone, as those of `rulerlib.frontier` do::

    [project.entry-points."rulerlib.tasks"]
    updates = "package.module:FAMILY"

Its wording stands beside it, in ``module.toml``: a table for each language, which its tasks find
in the language pack as the section of the family's name. It may use everything that our own
families use (`rulerlib.tasks.family`).

A dataset, a cell and every answer record the family as ``package.module:FAMILY@hash``, with a hash
of the two files: with another source the answers stand in another folder. Who reads stored answers
(`recall`) has the family imported if its files are the very ones that the answers were made with.
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
from rulerlib.errors import ParameterError, RulerError, require, shortened
from rulerlib.tasks.family import Task, wording_of

_WANTED = "a dictionary of tasks by name"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{,59}")


def admit(name: str) -> list[str]:
    """Return the names of the tasks of a family from outside, which are then among all others.

    Raises
    ------
    ParameterError
        If it cannot be imported, is no family, or lacks something: says what.
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
    """Return the tasks of installed packages by name: see `rulerlib.plugins`.

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
        require(holds, "tasks", name, f"{_WANTED}{what}")

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
    """Import a family that stored answers name, if its files are those that they were made with.

    Otherwise nothing of it is run, and a warning says how its answers are then judged.
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
