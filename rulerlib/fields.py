"""Parameters: what somebody types becomes a value, and each value is checked once, by its name.

>>> check(length=4096, seed=42, language="da")
>>> check(seed=-1)
Traceback (most recent call last):
rulerlib.errors.ParameterError: seed is -1, but must be a whole number, at least 0.
>>> value("{dtype: float32}"), value("none"), value("3"), value("date"), listed("a, b")
({'dtype': 'float32'}, None, 3, 'date', ['a', 'b'])
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerlib import files, languages, packages
from rulerlib.errors import (
    DataError,
    ParameterError,
    dictionary,
    engine_options,
    flag,
    is_number,
    nearest,
    require,
    whole_number,
)
from rulerlib.prompts import Decoding, PromptFormat

HOME = "RULERLIB_HOME"
"""The environment variable that names the folder of relative outputs."""

MEMORY_PER_TOKEN = 1024
"""Bytes that making a prompt takes at most for each of its tokens: 280 (noise) to 470 (common
words) with "words", 830 with a BPE, measured at a million tokens."""

TYPED = {"none": None, "null": None, "": None, "true": True, "false": False}
"""What a text in small letters means; papermill's ``-p`` takes True, False and None for it."""

# Names that IPython itself puts beside the parameters of a notebook.
_IPYTHON = {"In", "Out", "get_ipython", "exit", "quit", "open"}

# Parameters of the notebooks that may be a list or a dictionary, which papermill's -p hands over
# as text. Of all others a text that begins with a bracket is a text.
_COLLECTIONS = {
    "changes", "claimed", "compare", "engine_options", "facts", "knobs", "language", "languages",
    "lengths", "models", "presets", "runs", "seeds", "sizes", "stop", "study", "study_length",
    "suites", "tasks", "thinking_tags",
}  # fmt: skip


# --- Checks ----------------------------------------------------------------------------------


def check(**values: Any) -> None:
    """Check values of parameters, by their names in `RULES`.

    Raises
    ------
    ParameterError
        If one cannot work: says what is allowed.
    """
    for name, given in values.items():
        RULES[name](name, given)


def check_fields(instance: Any) -> None:
    """Check the fields of a dataclass that are parameters; None may stand where it is the default.

    Raises
    ------
    ParameterError
        As `check`.
    """
    for item in dataclasses.fields(instance):
        given = getattr(instance, item.name)
        if item.name in RULES and not (given is None and item.default is None):
            check(**{item.name: given})


def check_length(parameter: str, length: Any) -> None:
    """Check that a length is a whole number of tokens, and that a prompt of it fits into memory.

    Raises
    ------
    ParameterError
        If it does not: names the longest length that does.
    """
    whole_number(parameter, length, 1)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        memory = 2**36  # A system that does not say.
    most = memory // MEMORY_PER_TOKEN
    allowed_values = (
        f"at most {most}: making a prompt takes up to {MEMORY_PER_TOKEN} bytes a token, and this"
        f" machine has {memory / 1e9:.0f} GB of memory"
    )
    require(length <= most, parameter, length, allowed_values)


def _lengths(parameter: str, given: Any) -> None:
    several = given if isinstance(given, (list, tuple)) else [given]
    require(several, parameter, given, "at least one length")
    for length in several:
        check_length(parameter, length)


def _whole(least: int) -> Callable[[str, Any], Any]:
    return lambda parameter, given: whole_number(parameter, given, least)


def _kind(kind: type) -> Callable[[str, Any], None]:
    """Return the rule of a parameter that is a value of a class."""
    return lambda name, given: require(isinstance(given, kind), name, given, f"a {kind.__name__}")


def _language(parameter: str, given: Any) -> None:
    languages.load(given, parameter)


def _engine(_: str, name: Any) -> None:
    # Engines are imported when one is named.
    from rulerlib import models

    models.engine_class(name)


def _threshold(parameter: str, given: Any) -> None:
    holds = is_number(given) and 0 <= given < 100
    require(holds, parameter, given, "a number from 0 to below 100, in percent")


RULES: dict[str, Callable[[str, Any], Any]] = {
    "length": check_length,
    "study_length": _lengths,
    "seed": _whole(0),
    "num_lengths": _whole(1),
    "num_samples": _whole(1),
    "study_samples": _whole(1),
    "queries_per_context": _whole(1),
    "resamples": _whole(1),
    "allow_truncation": flag,
    "language": _language,
    "question_language": _language,
    "engine": _engine,
    "engine_options": engine_options,
    "format": _kind(PromptFormat),
    "decoding": _kind(Decoding),
    "knobs": lambda name, given: dictionary(name, given, '{"num_hops": 2}'),
    "output": lambda name, given: files.named(name, given, "the name of a folder"),
    "threshold": _threshold,
}
"""How each parameter is checked that has a meaning of its own, by its name."""


# --- What is typed ---------------------------------------------------------------------------


def value(text: str) -> Any:
    """Return what is typed as the value of a setting: a number, a list, a dictionary or a text.

    >>> [value(text) for text in ("0.5", "True", '{"Recent": 1}', "[a, None]", "a: b")]
    [0.5, True, {'Recent': 1}, ['a', None], 'a: b']
    """
    text = text.strip()
    if text.lower() in TYPED:
        return TYPED[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return collection(text) if text[0] in "[{" else text


def listed(text: str) -> list[str]:
    """Return the names that are typed with commas between them, perhaps in brackets and quotes.

    >>> listed("a, b"), listed("['a', \\"b\\"]"), listed("")
    (['a', 'b'], ['a', 'b'], [])
    """
    parts = (part.strip(" '\"") for part in text.strip("[] ").split(","))
    return [part for part in parts if part]


def values_of(parameter: str, given: Any, choices: Iterable[str] = ()) -> list[Any]:
    """Return what is combined as a list; ``"all"`` stands for all choices.

    >>> values_of("sizes", "50, 200"), values_of("sizes", 50), values_of("suites", "all", ["a"])
    ([50, 200], [50], ['a'])

    Raises
    ------
    ParameterError
        If there is nothing, or the same twice.
    """
    values = [*given] if isinstance(given, (list, tuple)) else [given]
    if isinstance(given, str):
        names = listed(given)
        values = [*names] if choices else [value(name) for name in names]
    if choices and values == ["all"]:
        values = [*choices]
    require(values, parameter, given, "one or several, with commas between them")
    once = len({*map(str, values)}) == len(values)
    require(once, parameter, values, "a list without repetition")
    return values


def numbers(parameter: str, text: str) -> list[int]:
    """Return the numbers of tokens that are typed with commas between them.

    Raises
    ------
    ParameterError
        If one is none.
    """
    values = [int(part) if part.isdecimal() else 0 for part in listed(text)]
    require(values and all(values), parameter, text, "numbers of tokens, such as 2048,4096")
    return values


def settings(parameter: str, texts: Sequence[str], example: str) -> dict[str, Any]:
    """Return settings such as ``k=3`` by name; the last of the same name counts.

    Raises
    ------
    ParameterError
        If one has no name.
    """
    for text in texts:
        require("=" in text, parameter, text, f"a name and a value, such as {example}")
    parted = (text.partition("=") for text in texts)
    return {name.strip(): value(typed) for name, _, typed in parted}


def collection(text: str) -> Any:
    """Return the list or the dictionary that a text in YAML says; any other text as it is.

    Raises
    ------
    MissingExtraError
        If `pyyaml` is not installed, where a text may be such.
    """
    if not re.match(r"\s*[\[{-]|[^\n]*:\s", text):
        # A name: nothing that would need a reader.
        return text
    yaml = packages.load("yaml", "notebook", "Reading a list or a dictionary")
    try:
        # Its numbers are JSON's where it is JSON: YAML takes 1e-5 for a text.
        read = json.loads(text)
    except (ValueError, RecursionError):
        try:
            read = yaml.load(text, _loader(yaml))
        except (yaml.YAMLError, RecursionError, ValueError):
            return text
    return read if isinstance(read, (list, dict)) else text


def settings_file(path: str | Path, what: str, purpose: str) -> dict[str, Any]:
    """Return the settings that stand in a YAML file, by name.

    Parameters
    ----------
    what, purpose
        What such a file is, and what it is read for, for an error.

    Raises
    ------
    DataError
        If the file cannot be read, or holds something else.
    MissingExtraError
        If `pyyaml` is not installed.
    """
    yaml = packages.load("yaml", "notebook", purpose)
    try:
        values = yaml.safe_load(files.read_text(Path(path)))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"{path}: cannot be read ({' '.join(str(error).split())}).") from error
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise DataError(f"{path}: not {what}.")
    return values


def _loader(yaml: Any) -> Any:
    """Return what reads YAML with Python's None, and without words and dates that mean more.

    To YAML 1.1 the language ``no`` is False, and 2026-01-31 no text.
    """
    loader = type("Loader", (yaml.SafeLoader,), {})
    loader.yaml_implicit_resolvers = {  # type: ignore[attr-defined]
        first: [pair for pair in pairs if not pair[0].endswith((":bool", ":timestamp"))]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for kind, words in (("bool", r"([Tt]rue|[Ff]alse)$"), ("null", "None$")):
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(words), [*"TtFfN"])  # type: ignore[attr-defined]
    return loader


def notebook_parameters(namespace: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that stand in a notebook, by name.

    Texts such as ``"none"``, ``"true"`` and ``"[1, 2]"``, which papermill does not convert, become
    the values that they mean; lists and dictionaries are read as YAML.

    Parameters
    ----------
    namespace
        ``globals()``, before anything but parameters was set.
    names
        The names that the notebook has.

    Raises
    ------
    ParameterError
        If there is another name; papermill only warns of it.
    """
    data = (str, int, float, bool, list, tuple, dict, type(None))
    values = {
        name: given
        for name, given in namespace.items()
        if not name.startswith("_") and name not in _IPYTHON and isinstance(given, data)
    }
    for name, given in values.items():
        if name not in names:
            renamed = name == "variants" and "tasks" in names
            raise ParameterError(
                "the parameter name", name, "'tasks'" if renamed else nearest(name, names)
            )
        # Of an answer prefix "none" is a value.
        typed = TYPED if name != "answer_prefix" else {"": None, "null": None}
        if isinstance(given, str) and given.strip().lower() in typed:
            values[name] = typed[given.strip().lower()]
        elif isinstance(given, str) and name in _COLLECTIONS:
            values[name] = collection(given)
    return values


def home() -> Path:
    """Return the folder in which relative outputs stand, see `HOME`."""
    return Path(os.environ.get(HOME, ".")).expanduser()
