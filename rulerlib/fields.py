"""Checks by the names of parameters, for modules that do not use pydantic yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from rulerlib import languages
from rulerlib.errors import (
    LONGEST,
    ParameterError,
    dictionary,
    engine_options,
    is_number,
    whole_number,
)
from rulerlib.files import HOME, home
from rulerlib.parsing import (
    listed,
    notebook_parameters,
    numbers,
    settings,
    settings_file,
    value,
    values_of,
)
from rulerlib.prompts import PromptFormat

__all__ = [
    "HOME", "check", "check_fields", "home", "listed", "notebook_parameters", "numbers", "settings",
    "settings_file", "value", "values_of",
]  # fmt: skip


def _threshold(parameter: str, given: Any) -> None:
    if not is_number(given) or not 0 <= given < 100:
        raise ParameterError(parameter, given, "a number from 0 to below 100, in percent")


def _format(parameter: str, given: Any) -> None:
    if not isinstance(given, PromptFormat):
        raise ParameterError(parameter, given, "a PromptFormat")


def _engine(_: str, name: Any) -> None:
    from rulerlib import models

    models.engine_class(name)


_RULES: dict[str, Callable[[str, Any], Any]] = {
    "length": lambda name, given: whole_number(name, given, 1, LONGEST),
    "seed": lambda name, given: whole_number(name, given, 0),
    "num_lengths": lambda name, given: whole_number(name, given, 1),
    "num_samples": lambda name, given: whole_number(name, given, 1),
    "resamples": lambda name, given: whole_number(name, given, 1),
    "language": lambda name, given: languages.load(given, name),
    "engine": _engine,
    "engine_options": engine_options,
    "knobs": lambda name, given: dictionary(name, given, '{"num_hops": 2}'),
    "format": _format,
    "threshold": _threshold,
}


def check(**values: Any) -> None:
    """Check parameters by their names; raise a ParameterError if one cannot work."""
    for name, given in values.items():
        if name in _RULES:
            _RULES[name](name, given)


def check_fields(instance: Any) -> None:
    """Check the fields of a dataclass that are parameters; a default of None is allowed."""
    for item in dataclasses.fields(instance):
        given = getattr(instance, item.name)
        if given is not None or item.default is not None:
            check(**{item.name: given})
