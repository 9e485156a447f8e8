"""A memory from outside this package: ``system: package.module:Memory`` in a preset.

It is a class that Python can import, with these methods:

- ``Memory(folder, ...)`` gets a folder (a `pathlib.Path`) and the settings of the preset by name;
- ``teach(texts)`` gets the texts of one session of an episode, each a `rulerlib.memory.system.Text`
  (a ``str`` with ``day``, ``session``, ``rewarded`` and ``pinned``);
- ``recall(question, k)`` returns at most ``k`` texts: some that it was taught, or its own;
- ``stats()`` is optional: numbers by name, which are written beside the answers; ``stored`` is the
  number of texts that it keeps;
- ``close()`` is optional.

Each episode has a folder of its own. The class is created anew for each session and for the
questions. It runs in a process of its own with an empty working directory, which receives texts or
questions as JSON and nothing else; teaching and asking use two processes. This is no sandbox: the
process has the user's rights, so run memories that you do not trust in a container.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from rulerlib import plugins
from rulerlib.errors import DataError, ParameterError, is_number
from rulerlib.memory.system import Recalled, System, Text

WANTED = "a class with teach(texts) and recall(question, k)"
"""What such a memory must be."""

# The types of the defaults that become settings of a preset.
_PLAIN = (bool, int, float, str, list, dict, type(None))


Recalls = list[tuple[list[Recalled], float]]
"""The texts recalled for each question, and the time in seconds."""


def settings_of(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a memory: ``k``, the defaults of its class, and those that are given.

    Raises
    ------
    ParameterError
        If there is no such class, it lacks a method, or it does not accept the settings.
    """
    kind = plugins.load_class("system", name, WANTED, "teach", "recall")
    signature = inspect.signature(kind)
    try:
        signature.bind(Path(), **{key: value for key, value in settings.items() if key != "k"})
    except TypeError as error:
        raise ParameterError("system", name, f"{WANTED}; {kind.__name__}: {error}") from error
    _, *others = signature.parameters.values()
    defaults = {each.name: each.default for each in others if isinstance(each.default, _PLAIN)}
    return {"k": 5, **defaults, **settings}


class Memory:
    """A memory that is opened for each call, so that only its files connect the calls.

    Parameters
    ----------
    opened
        Returns the memory of an episode, given its folder.
    k
        The number of texts to recall, if `recall` of the memory takes it.
    """

    def __init__(self, opened: Callable[[Path], Any], *k: int) -> None:
        self._opened, self._k, self.requests = opened, k, 0

    def teach(self, folder: Path, texts: Sequence[Text]) -> dict[str, float]:
        """Teach the texts of one session of an episode; return what ``stats`` says after it."""
        memory = self._opened(folder)
        memory.teach(texts)
        stats = memory.stats() if hasattr(memory, "stats") else {}
        if hasattr(memory, "close"):
            memory.close()
        return {name: value for name, value in stats.items() if is_number(value)}

    def recall(self, folder: Path, questions: Sequence[str]) -> Recalls:
        """Return what is recalled for each question about an episode."""
        memory, recalls = self._opened(folder), []
        for question in questions:
            start = time.perf_counter()
            texts = memory.recall(question, *self._k)
            recalls.append((texts, time.perf_counter() - start))
        self.requests += memory.requests if isinstance(memory, System) else len(recalls)
        if hasattr(memory, "close"):
            memory.close()
        return recalls


class OutsideMemory:
    """A process in which a memory from outside is taught or asked.

    Parameters
    ----------
    name, settings
        The class, ``package.module:Memory``, and all of its settings.
    """

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self._name, self._k, self.requests = name, settings["k"], 0
        self._empty = tempfile.TemporaryDirectory(prefix="rulerlib-")
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(
            target=_serve, args=(theirs, name, json.dumps(settings), self._empty.name), daemon=True
        )
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(10)
        self._process.kill()
        self._empty.cleanup()

    def teach(self, folder: Path, texts: Sequence[Text]) -> dict[str, float]:
        """Teach the texts of one session of an episode; return what ``stats`` says after it.

        Raises
        ------
        DataError
            If a method of the memory fails.
        """
        told = [{"text": text, **vars(text)} for text in texts]
        stats: dict[str, float] = self._call("teach", str(folder), told)
        return stats

    def recall(self, folder: Path, questions: Sequence[str]) -> Recalls:
        """Return what is recalled for each question about an episode.

        Raises
        ------
        DataError
            If a method of the memory fails, or it returns anything but at most ``k`` texts.
        """
        recalls = []
        for texts, seconds in self._call("recall", str(folder), [*questions]):
            right = isinstance(texts, list) and len(texts) <= self._k
            if not right or not all(isinstance(text, str) for text in texts):
                raise DataError(
                    f"{self._name}: recall did not return a list of at most {self._k} texts."
                )
            recalls.append(([Recalled(text) for text in texts], seconds))
        self.requests += len(recalls)
        return recalls

    def _call(self, *message: Any) -> Any:
        """Send a message to the process, and return its answer."""
        try:
            self._pipe.send_bytes(json.dumps(message).encode())
            answer = json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            self._process.join(10)
            code = self._process.exitcode
            raise DataError(f"{self._name}: its process ended (exit code {code}).") from error
        if "error" in answer:
            raise DataError(f"{self._name}: {message[0]} failed ({answer['error']}).")
        return answer["value"]


def _serve(pipe: Any, name: str, settings: str, empty: str) -> None:
    """Answer the messages of `OutsideMemory` in a process of its own."""
    sys.argv = [""]
    kind, options = plugins.load("system", name, WANTED), json.loads(settings)
    os.chdir(empty)
    k = options.pop("k")
    memory = Memory(lambda folder: kind(folder, **options), k)
    with contextlib.suppress(EOFError):
        while True:
            method, folder, values = json.loads(pipe.recv_bytes())
            answer: dict[str, Any]
            try:
                if method == "teach":
                    texts = [Text(**text) for text in values]
                    answer = {"value": memory.teach(Path(folder), texts)}
                else:
                    answer = {"value": memory.recall(Path(folder), values)}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
            pipe.send_bytes(json.dumps(answer, default=repr).encode())
