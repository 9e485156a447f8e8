"""What goes wrong, by name: each error is one sentence that says what to change."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

MUST = "{parameter} is {value}, but must be {allowed}."
"""What a `ParameterError` says."""


class RulerError(Exception):
    """The base of every error that rulerlib raises on purpose."""

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


class MissingExtraError(RulerError, ImportError):
    """A package that this step needs is not installed; the message says how to get it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}': pip install -e '.[{extra}]'"
            " in the project's folder."
        )


class ServerError(RulerError):
    """A server could not be asked to the end; what it answered is kept."""


class RunMismatchError(RulerError):
    """A run on disk was made with other settings than those asked for now."""


class BusyError(RulerError):
    """Another process is writing the same file; the message says which one, and since when."""


def shortened(value: Any, most: int = 80) -> str:
    """Return a value as Python writes it, cut to at most ``most`` characters."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def nearest(value: Any, choices: Iterable[str]) -> str:
    """Say which names are allowed and which one was probably meant.

    >>> nearest("niah_singel_1", ["niah_single_1", "vt"])
    "one of niah_single_1, vt (did you mean 'niah_single_1'?)"
    """
    names = list(choices)
    close = difflib.get_close_matches(str(value), names, n=1, cutoff=0.4)
    hint = f" (did you mean '{close[0]}'?)" if close else ""
    return f"one of {', '.join(names)}{hint}"


def require(holds: object, parameter: str, value: Any, allowed: str) -> None:
    """Refuse a parameter's value unless something holds.

    >>> require(2 < 1, "length", 2, "at most 1")
    Traceback (most recent call last):
    rulerlib.errors.ParameterError: length is 2, but must be at most 1.

    Raises
    ------
    ParameterError
        If it does not hold; its arguments are those of this function.
    """
    if not holds:
        raise ParameterError(parameter, value, allowed)


def is_number(value: Any) -> bool:
    """Return whether a value is a number; True and False are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def one_of(parameter: str, value: Any, choices: Iterable[str]) -> str:
    """Return ``value`` if it is among ``choices``.

    Raises
    ------
    ParameterError
        With the nearest allowed name.
    """
    names = list(choices)
    if not isinstance(value, str) or value not in names:
        raise ParameterError(parameter, value, nearest(value, names))
    return value


def flag(parameter: str, value: Any) -> bool:
    """Return ``value`` if it is True or False.

    Raises
    ------
    ParameterError
    """
    require(isinstance(value, bool), parameter, value, "True or False")
    return bool(value)


def whole_number(parameter: str, value: Any, minimum: int, maximum: int | None = None) -> int:
    """Return ``value`` if it is an ``int`` from ``minimum`` to ``maximum``.

    A text such as ``"4096"`` is refused, not converted: papermill hands over
    text when a parameter was mistyped, and guessing would hide that.

    Raises
    ------
    ParameterError
    """
    high = f" and at most {maximum}" if maximum is not None else ""
    whole = isinstance(value, int) and not isinstance(value, bool)
    holds = whole and value >= minimum and (maximum is None or value <= maximum)
    require(holds, parameter, value, f"a whole number, at least {minimum}{high}")
    return int(value)
