"""Exceptions, and checks that raise them. Each message is one sentence that says what to change."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar, dataclass_transform

import pydantic
from pydantic.dataclasses import dataclass as pydantic_dataclass

HALF = re.compile(r"[\ud800-\udfff]")
"""A surrogate: half of a character that takes two units in UTF-16. UTF-8 cannot encode it."""

LARGEST = 2**63 - 1
"""The largest accepted integer: other programs read numbers in 64 bits."""

LONGEST = 2**24
"""The longest prompt in tokens; making it takes up to 16 GB of memory."""

MUST = "{parameter} is {value}, but must be {allowed}."
"""The message of a `ParameterError`."""

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
    """Another process is writing the same file; the message names its process ID."""


def shortened(value: Any, most: int = 80) -> str:
    """Return the ``repr`` of a value, cut to at most ``most`` characters.

    >>> shortened("abc" * 100, 20), shortened(10**5000)
    ("'abcabcabcabcabca...", 'int')
    """
    try:
        text = repr(value)
    except Exception:
        # Integers of thousands of digits, deeply nested lists and foreign objects.
        text = type(value).__name__
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


def engine_options(parameter: str, options: Any) -> dict[str, Any]:
    """Return a copy of an engine's options; raise a ParameterError if one is an API key."""
    given = dictionary(parameter, options, '{"dtype": "float32"}')
    if "api_key" in given:
        allowed = "without 'api_key': set OPENAI_API_KEY in the environment"
        raise ParameterError(parameter, list(given), allowed)
    return given


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
