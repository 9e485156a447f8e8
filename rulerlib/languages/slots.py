"""Slots: what a sentence of a language pack may name in braces, checked before it is filled in.

``slots.toml`` beside this file says for each section what its texts must and may name.

>>> tables = {"say": ["{who} sings {what}."]}
>>> checked(Path("xx.toml"), "a section", {"say": "who | what"}, tables) is tables
True
>>> checked(Path("xx.toml"), "a section", {"say": "who when | what"}, tables)
Traceback (most recent call last):
rulerlib.errors.DataError: xx.toml: say lacks {when} in '{who} sings {what}.'.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rulerlib.errors import DataError
from rulerlib.languages import Language, placeholders, read_toml

_TABLES = read_toml(Path(__file__).with_suffix(".toml"), "the slots of a language")

_CHOICE = re.compile(r"\{([^}]*)\}")


# A language is one object, and its wording does not change.
@functools.cache
def section(language: Language, name: str) -> dict[str, Any]:
    """Return a section of a pack whose texts have all slots of ``slots.toml``; see `checked`."""
    file = language.folder / f"{name}.toml"
    return checked(file, f"the section {name}", _TABLES[name], language.section(name))


def checked(
    path: Path, what: str, wanted: Mapping[str, str], tables: dict[str, Any]
) -> dict[str, Any]:
    """Return the tables of a wording, checked.

    Parameters
    ----------
    path, what
        Its file, and what that is: ``"the section spatial"``.
    wanted
        The names for each place, as ``slots.toml`` has them.
    tables
        The content of the file.

    Raises
    ------
    DataError
        If something is missing, or if a text lacks a name in braces, or has one that nothing would
        fill.
    """
    try:
        for places, names in wanted.items():
            for pieces in itertools.product(*(part.split(",") for part in _CHOICE.split(places))):
                for place, text in _reached(tables, "".join(pieces).split(".")):
                    if names != "*":
                        _check(f"{path}: {place}", text, names)
    except DataError:
        # Which is a ValueError, too, and says what is wrong already.
        raise
    except KeyError as missing:
        raise DataError(f"{path}: {missing} is missing.") from missing
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as {what} ({error}).") from error
    return tables


def _reached(table: Any, steps: list[str], done: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield each place that some steps lead to, and its content."""
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
    needed, _, others = names.partition("|")
    allowed = {*others.split()}
    for way in needed.split():
        allowed |= {*way.split("/")}
    texts = [texts] if isinstance(texts, str) else texts
    if not texts or not isinstance(texts, list):
        raise DataError(f"{where} has no text.")
    for text in texts:
        slots = {*placeholders(text)}
        for way in needed.split():
            if slots.isdisjoint(way.split("/")):
                raise DataError(f"{where} lacks {{{way}}} in {text!r}.")
        for unknown in sorted(slots - allowed):
            raise DataError(f"{where} uses {{{unknown}}}, which nothing fills.")
