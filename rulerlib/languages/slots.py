"""Slots: what a sentence of a language pack may name in braces, checked before it is filled in.

``slots.toml`` beside this file says for each section what its texts must and may name.

>>> tables = {"say": ["{who} sings {what}."], "lists": {"what": ["a song"]}}
>>> checked(Path("xx.toml"), "a section", {"say": "who | @lists"}, tables) is tables
True
>>> checked(Path("xx.toml"), "a section", {"say": "who when | @lists"}, tables)
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
        The names for each place, as ``slots.toml`` has them; a step that ends in ``?`` may be
        missing.
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
                for place, passed, text in _reached(tables, "".join(pieces).split(".")):
                    if names != "*":
                        _check(f"{path}: {place}", text, names, passed)
    except DataError:
        # Which is a ValueError, too, and says what is wrong already.
        raise
    except KeyError as missing:
        raise DataError(f"{path}: {missing} is missing.") from missing
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as {what} ({error}).") from error
    return tables


def _reached(
    table: Any, steps: list[str], done: tuple[str, ...] = (), passed: tuple[Any, ...] = ()
) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """Yield each place that some steps lead to, the tables on the way, and what stands there."""
    if not steps:
        yield ".".join(done), passed, table
        return
    if isinstance(table, list):
        table = {str(number): entry for number, entry in enumerate(table)}
    step, optional = steps[0].removesuffix("?"), steps[0].endswith("?")
    for key in table if step == "*" else [step]:
        if key in table:
            yield from _reached(table[key], steps[1:], (*done, key), (*passed, table))
        elif not optional:
            raise KeyError(".".join((*done, key)))


def _check(where: str, texts: Any, names: str, passed: tuple[Any, ...]) -> None:
    """Check the names of one text or of several."""
    needed, _, others = names.partition("|")
    free = {name for name in others.split() if not name.startswith("@")}
    for name in others.split():
        # The innermost table of that name; of several rows what they have in common.
        for table in [table[name[1:]] for table in passed if name[1:] in table][-1:]:
            rows = list(table.values()) if isinstance(table, dict) else table
            alike = all(isinstance(row, dict) for row in rows)
            free |= set.intersection(*map(set, rows)) if alike else set(table)
    texts = [texts] if isinstance(texts, str) else texts
    if not texts or not isinstance(texts, list):
        raise DataError(f"{where} has no text.")
    for text in texts:
        slots = {slot if slot in free else slot.partition("_")[0] for slot in placeholders(text)}
        for way in needed.split():
            if slots.isdisjoint(way.split("/")):
                raise DataError(f"{where} lacks {{{way}}} in {text!r}.")
        for unknown in sorted(slots.difference(free, re.split(r"[ /]", needed))):
            raise DataError(f"{where} uses {{{unknown}}}, which nothing fills.")
