"""Errors and parameters: exceptions, checks that raise them, and readers of what users type.

Each message is one sentence that says what to change. Values are typed on a command line, in a
notebook's parameters, or in a YAML file:

>>> value('{"dtype": "float32"}'), value("none"), value("3"), value("date"), listed("a, b")
({'dtype': 'float32'}, None, 3, 'date', ['a', 'b'])
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import pydantic
import yaml
from pydantic.dataclasses import dataclass as pydantic_dataclass

HALF = re.compile(r"[\ud800-\udfff]")
"""A surrogate: half of a character that takes two units in UTF-16. UTF-8 cannot encode it."""

LARGEST = 2**63 - 1
"""The largest accepted integer: other programs read numbers in 64 bits."""

LONGEST = 2**24
"""The longest prompt in tokens; making it takes up to 16 GB of memory."""

MUST = "{parameter} is {value}, but must be {allowed}."
"""The message of a `ParameterError`."""

# Values of some strings in any case; papermill's -p knows only True, False and None.
_WORDS = {"none": None, "null": None, "": None, "true": True, "false": False}

# Names that IPython adds to the parameters of a notebook.
_IPYTHON = {"In", "Out", "get_ipython", "exit", "quit", "open"}

T = TypeVar("T")


class RulerError(Exception):
    """The base class of all errors that rulerlib raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        # IPython and papermill show this instead of a traceback.
        return [f"{type(self).__name__}: {self}"]


class ParameterError(RulerError, ValueError):
    """A parameter has a value that cannot work.

    Parameters
    ----------
    parameter
        Its name, as the user typed it.
    value
        The value.
    allowed
        What is allowed, as the end of the sentence "... is ..., but must be ...".
    """

    def __init__(self, parameter: str, value: Any, allowed: str) -> None:
        self.parameter, self.value, self.allowed = parameter, value, allowed
        shown = shortened(value, 120)
        super().__init__(MUST.format(parameter=parameter, value=shown, allowed=allowed))


class DataError(RulerError, ValueError):
    """A file has invalid content; the message names file and line."""


class MissingWordingError(DataError):
    """A language pack lacks the wording that a task needs; the message names the file."""


class MissingExtraError(RulerError, ImportError):
    """A package is not installed; the message says how to install it.

    Parameters
    ----------
    package
        The name of the package on PyPI.
    extra
        The extra of rulerlib that includes it.
    purpose
        What needs it, as the beginning of a sentence.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}': pip install 'rulerlib[{extra}]'"
        )


class ServerError(RulerError):
    """A server did not answer every request; completed answers are stored."""


class RunMismatchError(RulerError):
    """Files on disk were made with other settings."""


class BusyError(RulerError):
    """Another process is writing the same file."""


def load_package(package: str, extra: str, purpose: str) -> Any:
    """Import a package, or a module of one.

    >>> load_package("json", "hub", "Reading JSON").loads("[1, 2]")
    [1, 2]

    Parameters
    ----------
    package
        Its name for ``import``; the part before the first dot is also its name for ``pip``.
    extra
        The extra of rulerlib that installs it.
    purpose
        The step that needs it, as the beginning of a sentence.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(package.partition(".")[0], extra, purpose) from error


def shortened(value: Any, most: int = 80) -> str:
    """Return the ``repr`` of a value, cut to at most ``most`` characters.

    >>> shortened("abc" * 100, 20)
    "'abcabcabcabcabca..."
    """
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def nearest(value: Any, choices: Iterable[str]) -> str:
    """Return the allowed names and the one that was probably meant, for a `ParameterError`.

    >>> nearest("niah_singel_1", ["niah_single_1", "vt"])
    "one of niah_single_1, vt (did you mean 'niah_single_1'?)"
    """
    meant = value if isinstance(value, str) else shortened(value)
    ratios = {name: difflib.SequenceMatcher(None, name, meant).ratio() for name in choices}
    close = max(ratios, key=ratios.__getitem__, default="")
    hint = f" (did you mean '{close}'?)" if ratios.get(close, 0) >= 0.4 else ""
    return f"one of {', '.join(ratios)}{hint}"


@dataclass_transform(frozen_default=True)
def validated(cls: type[T]) -> type[T]:
    """Make a frozen dataclass whose fields pydantic checks by their annotations.

    Types are strict: ``"3"`` is not an integer. The constructor raises a `ParameterError` (or the
    error of the class's own checks) instead of pydantic's ``ValidationError``.

    >>> @validated
    ... class Size:
    ...     length: int = pydantic.Field(ge=1)
    >>> Size(length=0)
    Traceback (most recent call last):
    rulerlib.errors.ParameterError: length is 0, but must be greater than or equal to 1.
    """
    config = pydantic.ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)
    checked: Any = pydantic_dataclass(frozen=True, config=config)(cls)
    names = [item.name for item in fields(checked)]
    init = checked.__init__

    def __init__(self: Any, *values: Any, **named: Any) -> None:  # noqa: N807
        try:
            # By name, because pydantic's errors give a positional argument by its number.
            init(self, **dict(zip(names, values, strict=False)), **named)
        except pydantic.ValidationError as error:
            raise one_line(error) from None

    checked.__init__ = __init__
    return checked  # type: ignore[no-any-return]


def one_line(error: pydantic.ValidationError) -> RulerError:
    """Return the first of pydantic's errors with parameter, value and what is allowed."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, RulerError):
        return cause
    allowed = first["msg"].removeprefix("Input should be ")
    return ParameterError(str(first["loc"][0]), first["input"], allowed)


def is_number(value: Any) -> bool:
    """Return whether a value is an ``int`` or a ``float``; True and False do not count."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number(parameter: str, value: Any, minimum: float, maximum: float) -> float:
    """Return a number from ``minimum`` to ``maximum``; raise a ParameterError for others."""
    if not is_number(value) or not minimum <= value <= maximum:
        raise ParameterError(parameter, value, f"a number from {minimum:g} to {maximum:g}")
    return float(value)


def one_of(parameter: str, value: Any, choices: Collection[str]) -> str:
    """Return one of the choices; raise a ParameterError with the nearest one for others."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(parameter, value, nearest(value, choices))
    return value


def dictionary(parameter: str, value: Any, example: str) -> dict[str, Any]:
    """Return a copy of a dictionary; raise a ParameterError if its keys are not strings."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ParameterError(parameter, value, f"a dictionary such as {example}")
    return dict(value)


def flag(parameter: str, value: Any) -> bool:
    """Return True or False; raise a ParameterError for other values."""
    if not isinstance(value, bool):
        raise ParameterError(parameter, value, "True or False")
    return value


def whole_number(parameter: str, value: Any, minimum: int, maximum: int = LARGEST) -> int:
    """Return an ``int`` from ``minimum`` to ``maximum``; raise a ParameterError for others.

    A string such as ``"4096"`` is not converted: papermill hands it over after a typing mistake.
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not minimum <= value <= maximum:
        high = f" and at most {maximum}" if maximum < LARGEST or (whole and value > maximum) else ""
        raise ParameterError(parameter, value, f"a whole number, at least {minimum}{high}")
    return int(value)


# --- Readers of what users type ------------------------------------------------------------------


def value(text: str) -> Any:
    """Return the value of a setting: a number, a list, a dictionary or a string.

    >>> [value(text) for text in ("0.5", "True", '{"Recent": 1}', "['a', None]", "a: b")]
    [0.5, True, {'Recent': 1}, ['a', None], 'a: b']
    """
    if text.strip().lower() in _WORDS:
        return _WORDS[text.strip().lower()]
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = read(text)
            if isinstance(found, (int, float, list, dict)):
                return found
    return text


def listed(text: str) -> list[str]:
    """Return names that are separated by commas, with or without brackets and quotes.

    >>> listed("a, b"), listed("['a', \\"b\\"]"), listed("")
    (['a', 'b'], ['a', 'b'], [])
    """
    parts = [part.strip(" '\"") for part in text.strip("[] ").split(",")]
    return [part for part in parts if part]


def values_of(parameter: str, given: Any, choices: Iterable[str] = ()) -> list[Any]:
    """Return one or several values as a list; ``"all"`` stands for all choices.

    >>> values_of("sizes", "50, 200"), values_of("sizes", 50), values_of("suites", "all", ["a"])
    ([50, 200], [50], ['a'])

    Raises
    ------
    ParameterError
        If there is no value, or a duplicate.
    """
    values = [*given] if isinstance(given, (list, tuple)) else [given]
    if isinstance(given, str):
        names = listed(given)
        values = [*names] if choices else [value(name) for name in names]
    if choices and values == ["all"]:
        values = [*choices]
    if not values:
        raise ParameterError(parameter, given, "one or several, separated by commas")
    if len({str(each) for each in values}) < len(values):
        raise ParameterError(parameter, values, "a list without duplicates")
    return values


def settings(parameter: str, texts: Sequence[str], example: str) -> dict[str, Any]:
    """Return settings such as ``k=3`` by name; of the same name, the last.

    Raises
    ------
    ParameterError
        If one has no name.
    """
    values = {}
    for text in texts:
        name, equals, typed = text.partition("=")
        if not equals:
            raise ParameterError(parameter, text, f"a name and a value, such as {example}")
        values[name.strip()] = value(typed.strip())
    return values


def settings_file(path: str | Path, what: str) -> dict[str, Any]:
    """Return the settings in a YAML file by name.

    Parameters
    ----------
    what
        What the file should be, for the error.

    Raises
    ------
    DataError
        If the file cannot be read or holds something else.
    """
    try:
        values = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"{path}: cannot be read ({' '.join(str(error).split())}).") from error
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise DataError(f"{path}: not {what}.")
    return values


def notebook_parameters(namespace: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a notebook by name.

    Strings such as ``"none"``, ``"true"`` and ``"[1, 2]"``, which papermill does not convert, are
    converted here.

    Parameters
    ----------
    namespace
        ``globals()``, when only parameters are set.
    names
        The parameters that the notebook has.

    Raises
    ------
    ParameterError
        If there is another name; papermill only warns.
    """
    data = (str, int, float, bool, list, tuple, dict, type(None))
    values = {}
    for name, given in namespace.items():
        if name.startswith("_") or name in _IPYTHON or not isinstance(given, data):
            continue
        if name not in names:
            raise ParameterError("the parameter name", name, nearest(name, names))
        # "none" is a value of answer_prefix.
        if isinstance(given, str) and (name, given) != ("answer_prefix", "none"):
            found = value(given)
            # papermill has converted numbers already, and left what is quoted as text.
            given = found if isinstance(found, (bool, list, dict, type(None))) else given
        values[name] = given
    return values
