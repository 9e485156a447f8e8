"""Values that users type: on a command line, in a notebook's parameters, in a YAML file.

>>> value('{"dtype": "float32"}'), value("none"), value("3"), value("date"), listed("a, b")
({'dtype': 'float32'}, None, 3, 'date', ['a', 'b'])
"""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rulerlib.errors import DataError, ParameterError, nearest

# Values of some strings in any case; papermill's -p knows only True, False and None.
_WORDS = {"none": None, "null": None, "": None, "true": True, "false": False}

# Names that IPython adds to the parameters of a notebook.
_IPYTHON = {"In", "Out", "get_ipython", "exit", "quit", "open"}


def value(text: str) -> Any:
    """Return the value of a setting: a number, a list, a dictionary or a string.

    >>> [value(text) for text in ("0.5", "True", '{"Recent": 1}', "['a', None]", "a: b")]
    [0.5, True, {'Recent': 1}, ['a', None], 'a: b']
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _word_or_collection(text.strip())


def _word_or_collection(text: str) -> Any:
    """Return None, True, False, or a list or dictionary in Python or JSON; else the text itself."""
    if text.strip().lower() in _WORDS:
        return _WORDS[text.strip().lower()]
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = read(text)
            if isinstance(found, (list, dict)):
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


def numbers(parameter: str, text: str) -> list[int]:
    """Return numbers of tokens that are separated by commas.

    Raises
    ------
    ParameterError
        If there is none, or something else.
    """
    parts = listed(text)
    if not parts or not all(part.isdecimal() and int(part) for part in parts):
        raise ParameterError(parameter, text, "numbers of tokens, such as 2048,4096")
    return [int(part) for part in parts]


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
        values[name.strip()] = value(typed)
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
            given = _word_or_collection(given)
        values[name] = given
    return values
