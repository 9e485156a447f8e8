"""The table of tasks: a variant is a row of data.

>>> task = resolve("niah_multikey_1", num_needle_k=8)
>>> task.family.name, task.knobs.num_needle_k, task.knobs.haystack
('niah', 8, 'essay')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rulerlib.errors import one_of, require, whole_number
from rulerlib.scoring import Scoring
from rulerlib.tasks import common_words, frequent_words, niah, qa, variable_tracking
from rulerlib.tasks.family import Family

FAMILIES: dict[str, Family] = {
    module.FAMILY.name: module.FAMILY
    for module in (niah, variable_tracking, common_words, frequent_words, qa)
}


@dataclass(frozen=True)
class Task:
    """One row.

    Attributes
    ----------
    name
        ``"niah_single_2"``.
    family
        What all tasks of its kind have in common.
    knobs
        Its settings, an instance of ``family.knobs``.
    """

    name: str
    family: Family
    knobs: Any

    @property
    def scoring(self) -> Scoring:
        """How its answers are judged."""
        return self.family.scoring

    @property
    def category(self) -> str:
        """RULER's category."""
        return self.family.category

    @property
    def tokens_to_generate(self) -> int:
        """Room for the answer, in RULER's numbers."""
        return self.family.tokens_to_generate

    @property
    def reads_texts(self) -> bool:
        """Whether it reads the user's own texts."""
        return self.family.reads_texts(self.knobs)

    def settings(self) -> dict[str, Any]:
        """Return the knobs as plain data."""
        return asdict(self.knobs)

    def check_queries(self, queries_per_context: Any) -> None:
        """Check that one context can be asked this many questions.

        Raises
        ------
        ParameterError
            If not: says how many it can be asked, and what decides it.
        """
        whole_number("queries_per_context", queries_per_context, 1)
        most, why = self.family.most_queries(self.knobs)
        holds = most is None or queries_per_context <= max(1, most)
        allowed = f"{'1' if (most or 1) <= 1 else f'at most {most}'} for {self.name}: {why}"
        require(holds, "queries_per_context", queries_per_context, allowed)


TASKS: dict[str, Task] = {
    name: Task(name, family, knobs)
    for family in FAMILIES.values()
    for name, knobs in family.variants.items()
}


def resolve(name: str, **knobs: Any) -> Task:
    """Return a task by its name, with knobs set anew.

    Raises
    ------
    ParameterError
        If there is no such task or knob (names the nearest), or a value cannot work.
    """
    task = TASKS[one_of("task", name, TASKS)]
    allowed = [item.name for item in fields(task.knobs)]
    for knob in knobs:
        one_of("knob", knob, allowed)
    return replace(task, knobs=replace(task.knobs, **knobs))


def listed(text: str) -> list[str]:
    """Return the names in a text with commas, as papermill's ``-p x [a,b]`` hands over a list.

    >>> listed("a"), listed("['a', 'b']")
    (['a'], ['a', 'b'])
    """
    return [part.strip(" '\"") for part in text.strip("[] ").split(",")]


def names(chosen: str | Sequence[str], family: str | None = None) -> list[str]:
    """Return the task names that a parameter means.

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
    allowed = [name for name, task in TASKS.items() if family in (None, task.family.name)]
    if chosen == "all":
        return allowed
    if isinstance(chosen, str):
        chosen = listed(chosen)
    sequence = isinstance(chosen, (list, tuple))
    require(sequence, "tasks", chosen, "a name, several with commas between, or 'all'")
    named = [one_of("tasks", name, allowed) for name in chosen]
    require(named, "tasks", chosen, "at least one name, or 'all'")
    require(len(set(named)) == len(named), "tasks", chosen, "names that differ")
    return named
