"""Check the names in braces that the texts of a language pack use.

``slots.toml`` next to this file lists for each section the names that its texts must and may use.

>>> tables = {"say": ["{who} sings {what}."]}
>>> checked(Path("xx.toml"), "a section", {"say": "who | what"}, tables) is tables
True
>>> checked(Path("xx.toml"), "a section", {"say": "who when | what"}, tables)
Traceback (most recent call last):
rulerlib.errors.DataError: xx.toml: say lacks {when} in '{who} sings {what}.'.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rulerlib.errors import DataError
from rulerlib.languages import Language, placeholders, read_toml

_TABLES = read_toml(Path(__file__).with_suffix(".toml"), "the slots of a language")


# Every episode asks for the sections of its language.
@functools.cache
def section(language: Language, name: str) -> dict[str, Any]:
    """Return a section of a pack after checking its texts against ``slots.toml``."""
    file = language.folder / f"{name}.toml"
    return checked(file, f"the section {name}", _TABLES[name], language.section(name))


def checked(
    path: Path, what: str, wanted: Mapping[str, str], tables: dict[str, Any]
) -> dict[str, Any]:
    """Return the tables of a wording after checking them.

    Parameters
    ----------
    path, what
        The file, and its content in words: ``"the section spatial"``.
    wanted
        The names for each place, as in ``slots.toml``.
    tables
        The content of the file.

    Raises
    ------
    DataError
        If a place is missing, or if a text lacks a name in braces or has an unknown one.
    """
    try:
        for pattern, names in wanted.items():
            for place in _places(pattern):
                for where, texts in _reached(tables, place.split(".")):
                    if names != "*":
                        _check(f"{path}: {where}", texts, names)
    except KeyError as missing:
        raise DataError(f"{path}: {missing} is missing.") from missing
    except (AttributeError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as {what} ({error}).") from error
    return tables


def _places(pattern: str) -> list[str]:
    """Return the places that a pattern means.

    >>> _places("kinds.{a,b}.name")
    ['kinds.a.name', 'kinds.b.name']
    """
    choice = re.search(r"\{([^}]*)\}", pattern)
    if choice is None:
        return [pattern]
    before, after = pattern[: choice.start()], pattern[choice.end() :]
    rests = _places(after)
    return [before + one + rest for one in choice[1].split(",") for rest in rests]


def _reached(table: Any, steps: list[str], done: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the name and the content of each place that some steps lead to."""
    if not steps:
        yield ".".join(done), table
        return
    if isinstance(table, list):
        table = {str(number): entry for number, entry in enumerate(table)}
    for key in table if steps[0] == "*" else [steps[0]]:
        if key not in table:
            raise KeyError(".".join((*done, key)))
        yield from _reached(table[key], steps[1:], (*done, key))


def _check(where: str, texts: Any, names: str) -> None:
    """Check the names in braces of one text or of several."""
    must, _, may = names.partition("|")
    # For "day/nth", a text needs one of the two.
    needed = [way.split("/") for way in must.split()]
    allowed = {*may.split(), *(name for way in needed for name in way)}
    texts = [texts] if isinstance(texts, str) else texts
    if not texts or not isinstance(texts, list):
        raise DataError(f"{where} has no text.")
    for text in texts:
        try:
            used = placeholders(text)
        except ValueError as error:
            raise DataError(f"{where}: {error} in {text!r}.") from error
        for way in needed:
            if used.isdisjoint(way):
                raise DataError(f"{where} lacks {{{'/'.join(way)}}} in {text!r}.")
        for unknown in sorted(used - allowed):
            raise DataError(f"{where} uses the unknown name {{{unknown}}}.")
