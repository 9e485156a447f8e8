"""The table of tasks: a variant is a row of data.

>>> task = resolve("niah_multikey_1", num_needle_k=8)
>>> task.family.name, task.knobs.num_needle_k, task.knobs.haystack
('niah', 8, 'essay')
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

from rulerlib import plugins
from rulerlib.errors import ParameterError, nearest, one_of, require, whole_number
from rulerlib.fields import listed
from rulerlib.scoring import Scoring
from rulerlib.tasks.family import BESIDE, Family

MOST_QUERIES = 1000
"""The most questions that can be asked about one context, where nothing else sets a limit."""

# The tasks of each family, so that it is imported when one of them is named: RULER's families with
# RULER's settings and with further ones, and our own.
_RULER = {
    "niah": "niah_single_1 niah_single_2 niah_single_3 niah_multikey_1 niah_multikey_2"
            " niah_multikey_3 niah_multivalue niah_multiquery",
    "variable_tracking": "vt",
    "common_words": "cwe",
    "frequent_words": "fwe",
    "qa": "qa_1 qa_2",
}  # fmt: skip
_BESIDE = {
    "niah": "niah_single_4 niah_multivalue_2 niah_multiquery_2 passkey niah_vanilla",
    "variable_tracking": "vt_2",
    "frequent_words": "fwe_2",
}
_OWN = {"drop": "drop_1 drop_2 drop_3"}

T = TypeVar("T")


class Table(Mapping[str, T], Generic[T]):
    """Values by name.

    First our own, each made when it is first asked for; then those of ``installed`` packages, which
    are imported when a name is not among our own; then ``outside``, what a run named itself.
    """

    def __init__(
        self,
        names: Iterable[str],
        load: Callable[[str], T],
        installed: Callable[[], Mapping[str, T]],
    ) -> None:
        self.own, self._load = dict.fromkeys(names), functools.cache(load)
        self._installed = installed
        self.outside: dict[str, T] = {}

    def add(self, name: str, value: T) -> None:
        """Add a value from outside."""
        self.outside[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.outside or name in self._installed()

    def __getitem__(self, name: str) -> T:
        if name in self.outside:
            return self.outside[name]
        if name in self.own:
            return self._load(name)
        return self._installed()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, None]:
        return self.own | dict.fromkeys([*self._installed(), *self.outside])


def _family(name: str) -> Family:
    family: Family = importlib.import_module(f"rulerlib.tasks.{name}").FAMILY
    return family


def _installed_families() -> Mapping[str, Family]:
    from rulerlib.tasks.outside import installed

    return installed()


FAMILIES = Table((*_RULER, *_OWN), _family, _installed_families)
"""The families by name: those of RULER, our own, and those of installed packages."""


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
        answer = self.family.tokens_to_generate
        return (answer if isinstance(answer, int) else answer(self.knobs)) + self.reasoning

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

        See `rulerlib.tasks.family.knob`.
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
        require(not why, "question_language", question_language, f"None for {self.name}: {why}")

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
        allowed_values = f"knobs of {self.name} that leave the way of judging its answers as it is"
        require(self.scoring == TASKS[self.name].scoring, "knobs", changed, allowed_values)

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
        allowed_values = f"{'1' if (most or 1) <= 1 else f'at most {most}'} for {self.name}: {why}"
        require(holds, "queries_per_context", queries_per_context, allowed_values)


_FAMILY_OF = {
    name: family
    for rows in (_RULER, _BESIDE, _OWN)
    for family, names in rows.items()
    for name in names.split()
}


def _task(name: str) -> Task:
    family = FAMILIES[_FAMILY_OF[name]]
    return Task(name, family, {**family.variants, **family.beside}[name])


@functools.cache
def _installed_tasks() -> Mapping[str, Task]:
    return {
        name: Task(name, family, knobs)
        for family in _installed_families().values()
        for name, knobs in family.variants.items()
    }


RULER = tuple(name for names in _RULER.values() for name in names.split())
"""The names of RULER's thirteen tasks."""

TASKS = Table(_FAMILY_OF, _task, _installed_tasks)
"""The tasks by name: RULER's thirteen, further settings of its families, our own families, and
those of installed packages."""

FRONTIER = ("graphwalks", "records", "mrcr", "trace", "ladder", "associations")
"""The names of the frontier's tasks, one of each family of the plug-in `rulerlib.frontier`."""

GROUPS = ("all", "ruler", "frontier")
"""Names that stand for several tasks, see `names`."""


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
    allowed_values = [item.name for item in fields(task.knobs)]
    for knob in knobs:
        one_of("knob", knob, allowed_values)
    return replace(task, knobs=replace(task.knobs, **{**task.family.defaults(knobs), **knobs}))


def _members(group: str) -> Sequence[str]:
    """Return the names of the tasks of a group."""
    if group == "ruler":
        return RULER
    if group == "frontier":
        return FRONTIER
    return [name for name in TASKS if name not in TASKS.outside]


def _is_of(name: str, family: str | None) -> bool:
    """Return whether a task is of a family; None: of any."""
    return family is None or TASKS[name].family.name == family


def names(chosen: str | Sequence[str], family: str | None = None) -> list[str]:
    """Return the task names that a parameter means.

    Parameters
    ----------
    chosen
        A name, several with commas between them, or a list of names. ``"ruler"`` among them means
        the thirteen, ``"frontier"`` one of each family that tells today's best models apart,
        ``"all"`` all tasks of rulerlib and of installed packages, and ``package.module:FAMILY`` all
        tasks of a family from outside, see `rulerlib.tasks.outside`.
    family
        Only tasks of this family are allowed.

    Raises
    ------
    ParameterError
        If a name is unknown or of another family, given twice, or none is given.
    """
    if isinstance(chosen, str):
        chosen = listed(chosen)
    sequence = isinstance(chosen, (list, tuple))
    require(sequence, "tasks", chosen, "a name, several with commas between, or 'all'")
    named = list[str]()
    for name in chosen:
        if name in GROUPS:
            some = [one for one in _members(name) if _is_of(one, family)]
            require(some, "tasks", name, f"'all': the family {family} has none of these")
            named += some
        elif family is None and plugins.is_plugin(name):
            from rulerlib.tasks.outside import admit

            named += admit(name)
        elif isinstance(name, str) and name in TASKS and _is_of(name, family):
            named.append(name)
        else:
            allowed = [one for one in TASKS if _is_of(one, family)]
            raise ParameterError("tasks", name, nearest(name, [*GROUPS, *allowed]))
    require(named, "tasks", chosen, "at least one name, or 'all'")
    require(len(set(named)) == len(named), "tasks", chosen, "names that differ")
    return named
