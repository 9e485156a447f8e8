"""What our command lines have in common: their help, the values they read, and how they end.

>>> value("{dtype: float32}"), value("none"), value("3"), value("date")
({'dtype': 'float32'}, None, 3, 'date')

``python -m rulerlib.sweep status PLAN | head -1`` closes its end of the pipe after one line. That
is no mistake, and ends the command in silence, as it ends those that come with a system:

>>> run(lambda: 2)
2
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from rulerlib import packages
from rulerlib.errors import require

CLOSED = 128 + 13
"""The exit code that a shell gives a command that a closed pipe has ended (SIGPIPE is 13)."""


TYPED = {"none": None, "null": None, "": None, "true": True, "false": False}
"""What a text in small letters means; papermill's ``-p`` takes True, False and None for it."""


def parser(module: str, usage: str, about: str, example: str) -> argparse.ArgumentParser:
    """Return a parser for ``python -m module`` whose help ends with an example.

    Parameters
    ----------
    usage, example
        What stands behind the module's name: in general, and as somebody would type it.
    about
        What the command does, as a sentence.
    """
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        usage=f"%(prog)s {usage}",
        description=about,
        epilog=f"example:\n  python -m {module} {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


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
    return {name.strip(): value(said) for name, _, said in parted}


def run(main: Callable[[], int]) -> int:
    """Return the exit code of a command line, `CLOSED` where nobody reads on.

    Parameters
    ----------
    main
        Does what the command line asks for, and returns the exit code.
    """
    try:
        try:
            return main()
        finally:
            # Now, and not when Python ends, where nobody could catch the error.
            sys.stdout.flush()
    except BrokenPipeError:
        closed = [stream for stream in (sys.stdout, sys.stderr) if _is_closed(stream)]
        if not closed:
            # Another pipe broke, such as that to a server.
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in closed:
            # What Python still holds is written there when it ends.
            os.dup2(nowhere, stream.fileno())
        return CLOSED


def _is_closed(stream: TextIO) -> bool:
    """Return whether a stream is a pipe that nobody reads; true where a system cannot say."""
    if not hasattr(select, "poll"):
        return True
    # Not by writing to it: what was written before may be gone, or may still be held.
    asked = select.poll()
    asked.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in asked.poll(0))
