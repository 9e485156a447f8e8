"""A family from outside of rulerlib: a file that somebody else wrote.

``-p tasks package.module:FAMILY`` names it, alone or beside other names, and means all of its
variants. A package that is installed can name its families as entry points of the group
``rulerlib.tasks``; their tasks then go by their names alone, as those of `rulerlib.frontier` do::

    [project.entry-points."rulerlib.tasks"]
    updates = "package.module:FAMILY"

Its wording stands beside it, in ``module.toml``: a table for each language, which its
maker finds in the language pack as the section of the family's name. It may use everything that
our own families use (`rulerlib.tasks.family`).

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
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

from rulerlib import plugins, tasks
from rulerlib.errors import (
    DataError,
    MissingWordingError,
    ParameterError,
    RulerError,
    require,
    shortened,
)
from rulerlib.languages import Language, placeholders, read_toml
from rulerlib.tasks.family import Family, Maker

_WANTED = "a rulerlib.tasks.family.Family"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{,59}")


@dataclass(frozen=True)
class _Worded:
    """Makes the samples of a family whose wording stands in a file of its own."""

    family: Family
    path: Path

    def __call__(
        self, knobs: Any, language: Language, budget: Any, texts: Any, seed: str,
        wording: Language | None = None,
    ) -> Maker:  # fmt: skip
        name = self.family.name
        own, asked = worded(language, name, self.path), worded(wording or language, name, self.path)
        for one in (own, asked):
            if self.path.exists() and name not in one.templates:
                raise MissingWordingError(
                    f"{self.path}: [{one.code}] is missing, which the tasks of {name} need in this"
                    " language: translate [en]."
                )
        return self.family.maker(knobs, own, budget, texts, seed, asked)

    def read(self, prompt: str, language: Language) -> str | None:
        """Return the answer that follows from a prompt, see `rulerlib.tasks.family.Family`."""
        return self.family.reader(prompt, worded(language, self.family.name, self.path))


# One object for each, so that what is made of a language is found again.
@functools.cache
def worded(language: Language, family: str, path: Path) -> Language:
    """Return a language with a family's wording among its sections, as far as there is one.

    A pack may bring its own, in ``<family>.toml``; else it is the pack's table in the file at
    ``path``.
    """
    own, table = language.folder / f"{family}.toml", _wording(path).get(language.code)
    if own.exists():
        table = read_toml(own, f"the section '{family}' of a language pack")
    if family in language.templates or table is None:
        return language
    sections = (*language.sections, family)
    return replace(language, templates={**language.templates, family: table}, sections=sections)


@functools.cache
def _wording(path: Path) -> dict[str, Any]:
    """Return the tables of a family's wording by language, checked; none where there is no file."""
    tables = read_toml(path, "the wording of a family") if path.exists() else {}
    for code, table in tables.items():
        if not isinstance(table, dict):
            raise DataError(f"{path}: [{code}] is no table.")
        if "template" not in table:
            continue
        for name, needed in (("template", {"context"}), ("answer_prefix", set[str]())):
            text = table.get(name)
            try:
                holds = isinstance(text, str) and needed <= placeholders(text)
            except ValueError:
                holds = False
            if not holds:
                what = " with {context} in it" if needed else ""
                raise DataError(f"{path}: [{code}] needs a text '{name}'{what}.")
    return tables


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
    for variant in family.variants:
        there = tasks.TASKS.get(variant)
        if there is not None and there.family.origin.partition("@")[0] != name:
            raise _taken(name, variant)
    for variant, knobs in family.variants.items():
        tasks.TASKS.add(variant, tasks.Task(variant, family, knobs))
    return [*family.variants]


@functools.cache
def installed() -> dict[str, Family]:
    """Return the families that installed packages register, by name.

    Raises
    ------
    ParameterError, DataError
        As `admit`.
    """
    families, taken = dict[str, Family](), {*tasks.TASKS.own}
    for full_name in plugins.installed("tasks").values():
        family = _loaded(full_name)
        if full_name.startswith("rulerlib."):
            # The version of rulerlib says which source it is.
            family = replace(family, origin="")
        for variant in family.variants:
            if variant in taken:
                raise _taken(full_name, variant)
            taken.add(variant)
        families[family.name] = family
    return families


def _taken(name: str, variant: str) -> ParameterError:
    allowed_values = f"{_WANTED} whose variants have names of their own, not {variant!r}"
    return ParameterError("tasks", name, allowed_values)


def _loaded(name: str) -> Family:
    """Return the family under a name, checked, with its wording and its origin."""
    family: Any = plugins.load("tasks", name, _WANTED)

    def check(holds: object, what: str) -> None:
        require(holds, "tasks", name, f"{_WANTED}{what}")

    check(isinstance(family, Family), f", not {type(family).__name__}")
    check(isinstance(family.name, str) and _NAME.fullmatch(family.name), " with a short name")
    check(isinstance(family.variants, Mapping) and family.variants, " with a variant at least")
    for variant, knobs in family.variants.items():
        holds = isinstance(variant, str) and _NAME.fullmatch(variant)
        check(holds, f" whose variants have names of a-z, 0-9, '.', '_' and '-', not {variant!r}")
        check(is_dataclass(knobs), f" whose variant {variant} is a dataclass of knobs")
    check(callable(family.maker), " whose maker can be called")
    generate = family.tokens_to_generate
    room = callable(generate) or (isinstance(generate, int) and generate > 0)
    check(room, " with tokens_to_generate above 0")
    path = Path(str(sys.modules[name.partition(":")[0]].__file__)).with_suffix(".toml")
    _wording(path)
    origin = f"{name}@{plugins.source_hash(name)}"
    made = _Worded(family, path)
    loaded: Family = replace(family, maker=made, reader=made.read, origin=origin)
    return loaded


def recall(origin: Any) -> None:
    """Import a family that stored answers name, if its files are those that they were made with.

    Otherwise nothing of it is run, and a warning says how its answers are then judged.
    """
    if not isinstance(origin, str) or not plugins.is_plugin(origin):
        return
    name, _, wanted = origin.partition("@")
    if any(task.family.origin == origin for task in tasks.TASKS.outside.values()):
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
