"""What goes wrong, by name: each error is one sentence that says what to change."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

HALF = re.compile(r"[\ud800-\udfff]")
"""A surrogate: half of a character that UTF-16 writes as two. UTF-8 cannot hold it."""

LARGEST = 2**63 - 1
"""The largest whole number that is accepted: other programs read numbers in 64 bits."""

MUST = "{parameter} is {value}, but must be {allowed}."
"""What a `ParameterError` says."""


class RulerError(Exception):
    """The base of every error that rulerlib raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # As it is, without asking its own parameters again: another process may have raised it.
        return Exception.__new__, (type(self), *self.args), self.__dict__

    def _render_traceback_(self) -> list[str]:
        # IPython asks for this: in a notebook, and in papermill's report of one, the
        # sentence stands alone, without pages of code that the user did not write.
        return [f"{type(self).__name__}: {self}"]


class ParameterError(RulerError, ValueError):
    """A parameter has a value that cannot work.

    Parameters
    ----------
    parameter
        Its name, as the user typed it.
    value
        What the user gave.
    allowed
        What would have been right, as the rest of the sentence "... must be ...".
    """

    def __init__(self, parameter: str, value: Any, allowed: str) -> None:
        self.parameter, self.value, self.allowed = parameter, value, allowed
        super().__init__(
            MUST.format(parameter=parameter, value=shortened(value, 120), allowed=allowed)
        )


class DataError(RulerError, ValueError):
    """A file does not hold what it should; the message names file and line."""


class MissingWordingError(DataError):
    """A language pack lacks the words that a task needs; the message names their file."""


class MissingExtraError(RulerError, ImportError):
    """A package that this step needs is not installed; the message says how to get it.

    Parameters
    ----------
    package
        Its name, as `pip` knows it.
    extra
        The extra of rulerlib that brings it along.
    purpose
        What needs it, as the beginning of a sentence.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}': pip install 'rulerlib[{extra}]'"
        )


class ServerError(RulerError):
    """A server did not answer every request; the answers that came are kept."""


class RunMismatchError(RulerError):
    """A run on disk was made with other settings than those asked for now."""


class BusyError(RulerError):
    """Another process is writing the same file; the message names its process ID."""


def shortened(value: Any, most: int = 80) -> str:
    """Return a value as Python writes it, cut to at most ``most`` characters.

    >>> shortened("abc" * 100, 20), shortened(10**5000)
    ("'abcabcabcabcabca...", 'int')
    """
    try:
        text = repr(value)
    except Exception:
        # Numbers of thousands of digits, lists within lists, and objects of others.
        text = type(value).__name__
    return text if len(text) <= most else text[: most - 3] + "..."


def nearest(value: Any, choices: Iterable[str]) -> str:
    """Return which names are allowed and which one was probably meant, for a `ParameterError`.

    >>> nearest("niah_singel_1", ["niah_single_1", "vt"])
    "one of niah_single_1, vt (did you mean 'niah_single_1'?)"
    """
    meant = value if isinstance(value, str) else shortened(value)
    ratios = {name: difflib.SequenceMatcher(None, name, meant).ratio() for name in choices}
    # Of several that are as near, the first.
    close = max(ratios, key=ratios.__getitem__, default="")
    hint = f" (did you mean '{close}'?)" if ratios.get(close, 0) >= 0.4 else ""
    return f"one of {', '.join(ratios)}{hint}"


def require(holds: object, parameter: str, value: Any, allowed: str) -> None:
    """Raise a `ParameterError` unless a condition holds.

    >>> require(2 < 1, "length", 2, "at most 1")
    Traceback (most recent call last):
    rulerlib.errors.ParameterError: length is 2, but must be at most 1.

    Parameters
    ----------
    holds
        The condition; its truth value counts.
    parameter, value, allowed
        See `ParameterError`.

    Raises
    ------
    ParameterError
        If the condition does not hold.
    """
    if not holds:
        raise ParameterError(parameter, value, allowed)


def is_number(value: Any) -> bool:
    """Return whether a value is an ``int`` or a ``float``; True and False do not count."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number(parameter: str, value: Any, minimum: float, maximum: float) -> float:
    """Return ``value`` if it is a number from ``minimum`` to ``maximum``.

    Raises
    ------
    ParameterError
        If it is anything else.
    """
    holds = is_number(value) and minimum <= value <= maximum
    require(holds, parameter, value, f"a number from {minimum:g} to {maximum:g}")
    return float(value)


def one_of(parameter: str, value: Any, choices: Collection[str]) -> str:
    """Return ``value`` if it is among ``choices``.

    Raises
    ------
    ParameterError
        If it is not: names the nearest that is.
    """
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(parameter, value, nearest(value, choices))
    return value


def dictionary(parameter: str, value: Any, example: str) -> dict[str, Any]:
    """Return a copy of ``value`` if it is a dictionary whose keys are texts.

    Raises
    ------
    ParameterError
        If it is not: gives ``example`` as one that is allowed.
    """
    named = isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
    require(named, parameter, value, f"a dictionary such as {example}")
    return dict(value)


def engine_options(parameter: str, options: Any) -> dict[str, Any]:
    """Return a copy of an engine's options, among which no key may be: notebooks keep parameters.

    Raises
    ------
    ParameterError
        If they are no dictionary, or hold an API key.
    """
    given = dictionary(parameter, options, '{"dtype": "float32"}')
    allowed_values = "without 'api_key': set OPENAI_API_KEY in the environment"
    require("api_key" not in given, parameter, [*given], allowed_values)
    return given


def is_text(value: Any) -> bool:
    r"""Return whether a value is a text that is not empty and can be written in UTF-8.

    >>> is_text("æ"), is_text(""), is_text("\ud800")
    (True, False, False)
    """
    return isinstance(value, str) and bool(value) and not HALF.search(value)


def flag(parameter: str, value: Any) -> bool:
    """Return ``value`` if it is True or False.

    Raises
    ------
    ParameterError
        If it is anything else.
    """
    require(isinstance(value, bool), parameter, value, "True or False")
    return bool(value)


def whole_number(parameter: str, value: Any, minimum: int, maximum: int = LARGEST) -> int:
    """Return ``value`` if it is an ``int`` from ``minimum`` to ``maximum``.

    A text such as ``"4096"`` is refused, not converted: papermill hands over
    text when a parameter was mistyped, and guessing would hide that.

    Raises
    ------
    ParameterError
        If it is anything else.
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    high = f" and at most {maximum}" if maximum < LARGEST or (whole and value > maximum) else ""
    require(
        whole and minimum <= value <= maximum,
        parameter,
        value,
        f"a whole number, at least {minimum}{high}",
    )
    return int(value)
