"""The table of tasks: a variant is a row of data.

>>> task = resolve("niah_multikey_1", num_needle_k=8)
>>> task.family.name, task.knobs.num_needle_k, task.knobs.haystack
('niah', 8, 'essay')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from rulerlib.errors import one_of, require, whole_number
from rulerlib.fields import listed
from rulerlib.scoring import Scoring
from rulerlib.tasks import (
    common_words,
    drop,
    episodic,
    frequent_words,
    niah,
    qa,
    semantic,
    spatial,
    variable_tracking,
)
from rulerlib.tasks.family import BESIDE, Family

MOST_QUERIES = 1000
"""The most questions that can be asked about one context, where nothing else sets a limit."""

_RULER = (niah, variable_tracking, common_words, frequent_words, qa)
_OWN = (drop, episodic, semantic, spatial)

FAMILIES: dict[str, Family] = {module.FAMILY.name: module.FAMILY for module in (*_RULER, *_OWN)}
"""The families by name."""


@dataclass(frozen=True)
class Task:
    """One task, a row of the table.

    Attributes
    ----------
    name
        By which it is asked for: ``"niah_single_2"``.
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
        """The rule by which its answers are judged."""
        return self.family.judged(self.knobs) or self.family.scoring

    @property
    def category(self) -> str:
        """Its category; that of the thirteen tasks is one of RULER's four."""
        return BESIDE if self.name in self.family.beside else self.family.category

    @property
    def tokens_to_generate(self) -> int:
        """The room in tokens for the answer, and for the reasoning that the task asks for."""
        return self.family.tokens_to_generate + self.reasoning

    @property
    def reasoning(self) -> int:
        """The part of ``tokens_to_generate`` in which a model reasons before it answers."""
        return self.family.reasoning(self.knobs)

    @property
    def stop(self) -> tuple[str, ...]:
        """The texts at which an answer ends."""
        return self.family.stop(self.knobs)

    @property
    def reads_texts(self) -> bool:
        """Whether it reads the user's own texts."""
        return self.family.reads_texts(self.knobs)

    def settings(self) -> dict[str, Any]:
        """Return the knobs as plain data."""
        # Not asdict, which takes five times as long: knobs are numbers and names.
        return {item.name: getattr(self.knobs, item.name) for item in fields(self.knobs)}

    def stated(self) -> dict[str, Any]:
        """Return the knobs that a dataset states: all but later ones that are not used.

        See `rulerlib.tasks.family.later`.
        """
        settings = self.settings()
        for item in fields(self.knobs):
            if item.metadata.get("later") and settings[item.name] == item.default:
                del settings[item.name]
        return settings

    def check_question_language(self, question_language: Any) -> None:
        """Check that a question can be asked in another language than that of its context.

        Raises
        ------
        ParameterError
            If it cannot: says why.
        """
        why = self.family.one_language
        allowed = f"None for {self.name}: {why}"
        require(not why, "question_language", question_language, allowed)

    def check_judged_by_name(self) -> None:
        """Check that its answers are judged as its family's are, whatever its knobs.

        Harnesses that call us back with a task's name know no more than that.

        Raises
        ------
        ParameterError
            If its knobs decide how they are judged.
        """
        usual = TASKS[self.name].settings()
        changed = {name: value for name, value in self.settings().items() if value != usual[name]}
        allowed = f"knobs of {self.name} that leave the way of judging its answers as it is"
        require(self.scoring == self.family.scoring, "knobs", changed, allowed)

    def check_queries(self, queries_per_context: Any) -> None:
        """Check that one context can be asked this many questions.

        Raises
        ------
        ParameterError
            If it is no whole number, or not allowed: says how many questions are, and what decides
            it.
        """
        whole_number("queries_per_context", queries_per_context, 1, MOST_QUERIES)
        most, why = self.family.most_queries(self.knobs)
        holds = most is None or queries_per_context <= max(1, most)
        allowed = f"{'1' if (most or 1) <= 1 else f'at most {most}'} for {self.name}: {why}"
        require(holds, "queries_per_context", queries_per_context, allowed)


RULER = tuple(name for module in _RULER for name in module.FAMILY.variants)
"""The names of RULER's thirteen tasks."""

TASKS: dict[str, Task] = {
    name: Task(name, module.FAMILY, knobs)
    for module, rows in (
        *((module, module.FAMILY.variants) for module in _RULER),
        *((module, module.FAMILY.beside) for module in _RULER),
        *((module, module.FAMILY.variants) for module in _OWN),
    )
    for name, knobs in rows.items()
}
"""The tasks by name: RULER's thirteen, further settings of its families, and our own families."""


COMMON = tuple(
    item.name
    for item in fields(TASKS[RULER[0]].knobs)
    if all(hasattr(TASKS[name].knobs, item.name) for name in RULER)
)
"""The knobs that all of RULER's tasks have."""


def resolve(name: str, **knobs: Any) -> Task:
    """Return a task by its name, with knobs set anew.

    Raises
    ------
    ParameterError
        If there is no such task or knob (names the nearest), or a value cannot work.
    """
    task = TASKS[one_of("task", name, TASKS)]
    if not knobs:
        return task
    allowed = [item.name for item in fields(task.knobs)]
    for knob in knobs:
        one_of("knob", knob, allowed)
    return replace(task, knobs=replace(task.knobs, **knobs))


def names(chosen: str | Sequence[str], family: str | None = None) -> list[str]:
    """Return the task names that a parameter means.

    Parameters
    ----------
    chosen
        A name, several with commas between them, a list of names, ``"ruler"`` (the thirteen),
        or ``"all"`` (every row of the table).
    family
        Only tasks of this family are allowed.

    Raises
    ------
    ParameterError
        If a name is unknown or of another family, given twice, or none is given.
    """
    allowed = [name for name, task in TASKS.items() if family in (None, task.family.name)]
    if chosen == "all":
        return allowed
    if chosen == "ruler":
        allowed = [name for name in allowed if name in RULER]
        require(allowed, "tasks", chosen, f"'all': the family {family} is not RULER's")
        return allowed
    if isinstance(chosen, str):
        chosen = listed(chosen)
    sequence = isinstance(chosen, (list, tuple))
    require(sequence, "tasks", chosen, "a name, several with commas between, or 'all'")
    named = [one_of("tasks", name, allowed) for name in chosen]
    require(named, "tasks", chosen, "at least one name, or 'all'")
    require(len(set(named)) == len(named), "tasks", chosen, "names that differ")
    return named
