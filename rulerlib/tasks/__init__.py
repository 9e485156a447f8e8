"""The table of tasks: a variant is a row of data.

>>> task = resolve("niah_multikey_1", num_needle_k=8)
>>> task.family, task.knobs.num_needle_k, task.knobs.haystack
('niah', 8, 'essay')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from types import ModuleType
from typing import Any

from rulerlib.errors import ParameterError, nearest, one_of
from rulerlib.tasks import common_words, frequent_words, niah, qa, variable_tracking

FAMILIES: dict[str, ModuleType] = {
    "niah": niah,
    "variable_tracking": variable_tracking,
    "common_words": common_words,
    "frequent_words": frequent_words,
    "qa": qa,
}


@dataclass(frozen=True)
class Task:
    """One row.

    Attributes
    ----------
    name
        ``"niah_single_2"``.
    family
        The module that makes it: ``"niah"``.
    knobs
        Its settings, an instance of the family's ``Knobs``.
    tokens_to_generate
        Room for the answer, in RULER's numbers.
    metric
        The strict rule by which an answer counts: a name in `rulerlib.metrics`.
    """

    name: str
    family: str
    knobs: Any
    tokens_to_generate: int
    metric: str

    @property
    def module(self) -> ModuleType:
        """Where ``Knobs`` and ``Family`` of this task are."""
        return FAMILIES[self.family]

    def settings(self) -> dict[str, Any]:
        """The knobs as plain data."""
        return asdict(self.knobs)


TASKS: dict[str, Task] = {
    name: Task(name, family, knobs, module.TOKENS_TO_GENERATE, module.METRIC)
    for family, module in FAMILIES.items()
    for name, knobs in module.VARIANTS.items()
}


def resolve(name: str, **knobs: Any) -> Task:
    """A task by its name, with knobs set anew.

    Raises
    ------
    ParameterError
        If there is no such task or knob (names the nearest), or a value cannot work.
    """
    task = TASKS[one_of("task", name, TASKS)]
    allowed = [item.name for item in fields(task.knobs)]
    for knob in knobs:
        if knob not in allowed:
            raise ParameterError("knob", knob, nearest(knob, allowed))
    return replace(task, knobs=replace(task.knobs, **knobs))


def listed(text: str) -> list[str]:
    """Names with commas between them, as papermill's ``-p x [a,b]`` hands over a list.

    >>> listed("a"), listed("['a', 'b']")
    (['a'], ['a', 'b'])
    """
    return [part.strip(" '\"") for part in text.strip("[] ").split(",")]


def names(chosen: str | Sequence[str], family: str | None = None) -> list[str]:
    """The task names that a parameter means.

    Parameters
    ----------
    chosen
        A name, several with commas between them, a list of names, or ``"all"``.
    family
        Only tasks of this family are allowed.

    Raises
    ------
    ParameterError
        If a name is unknown, given twice, or none is given.
    """
    allowed = [name for name, task in TASKS.items() if family in (None, task.family)]
    if chosen == "all":
        return allowed
    if isinstance(chosen, str):
        chosen = listed(chosen)
    if not isinstance(chosen, (list, tuple)):
        raise ParameterError("variants", chosen, "a name, several with commas between, or 'all'")
    found = [one_of("variants", name, allowed) for name in chosen]
    if not found:
        raise ParameterError("variants", chosen, "at least one name, or 'all'")
    if len(set(found)) < len(found):
        raise ParameterError("variants", chosen, "names that differ")
    return found
