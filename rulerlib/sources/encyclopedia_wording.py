"""The words of the fictional encyclopedia: read from a language's folder, checked, filled in.

They stand in ``languages/xx/encyclopedia.toml``; a new language needs no Python.

>>> words = Words({"name": "Ada"}, {"colour": ["red", "blue"]}, Random(1))
>>> "{name} likes {colour} and {colour}.".format_map(words)
'Ada likes blue and red.'
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from rulerlib.errors import DataError
from rulerlib.languages import placeholders, read_toml
from rulerlib.sources.encyclopedia_facts import DEEDS, FACTS, POOLS


class Words(dict[str, Any]):
    """The words for the braces of a sentence: those of the entry, else one of a list.

    A list is gone through from a random place, so that a paragraph does not say
    the same word twice before the list is used up.
    """

    def __init__(self, words: dict[str, Any], lists: dict[str, list[str]], rng: Random) -> None:
        super().__init__(words)
        self._lists, self._rng = lists, rng
        self._next: dict[str, int] = {}

    def __missing__(self, name: str) -> str:
        words = self._lists[name]
        if name not in self._next:
            self._next[name] = self._rng.randrange(len(words))
        self._next[name] += 1
        return words[self._next[name] % len(words)]


@functools.cache
def read_wording(path: Path) -> dict[str, Any]:
    """Return the checked wording of a language, the tables of its ``encyclopedia.toml``.

    Raises
    ------
    DataError
        If the file cannot be read, lacks a kind, a fact or a name, or has a
        template with a name in braces that nothing would fill.
    """
    wording = read_toml(path, "an encyclopedia")
    try:
        for part in ("months", "date", "thousands", "decimal"):
            wording["format"][part]
        for part in ("onsets", "rimes", "first"):
            wording["names"][part]
        for pool in POOLS:
            if not wording["names"]["endings"][pool]:
                raise DataError(f"{path}: [names.endings] {pool} is empty.")
        roles = {one["role"] for one in wording["kinds"]["person"]["types"]}
        for role in sorted(DEEDS.keys() - roles):
            raise DataError(f"{path}: [[kinds.person.types]] has no role {role!r}.")
        for where, templates, known in _templates(wording):
            unknown = set().union(*map(placeholders, templates)) - known
            if unknown:
                raise DataError(f"{path}: {where} uses {{{min(unknown)}}}, which nothing fills.")
    except KeyError as missing:
        raise DataError(f"{path}: {missing.args[0]!r} is missing.") from missing
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as an encyclopedia ({error}).") from error
    return wording


def _templates(wording: dict[str, Any]) -> Iterator[tuple[str, list[str], set[str]]]:
    """Yield all templates by their place in the file, with the names that they may use."""
    for kind, facts in FACTS.items():
        table = wording["kinds"][kind]
        types = table.get("types", [{}])
        known = {"name"} | set(wording["lists"]) | set.intersection(*(set(one) for one in types))
        if kind == "person":
            known |= {"last"} | set.intersection(*map(set, wording["pronouns"].values()))
        fillers = table["filler"] + [line for one in types for line in one.get("filler", ())]
        yield f"[kinds.{kind}] opening", table["opening"], known
        yield f"[kinds.{kind}] filler", fillers, known
        yield f"[kinds.{kind}] subject", table["subject"], {"name"}
        for name, fact in facts.items():
            wanted = table["facts"][name]
            where = f"[kinds.{kind}.facts.{name}]"
            yield f"{where} say", wanted["say"], known | {"value"}
            yield f"{where} ask", wanted["ask"], {"subject"}
            if fact.what == "entry":
                yield f"{where} hop", wanted["hop"], {"name"}
            if fact.what == "number":
                yield f"{where} answer", wanted["answer"], {"number"}
