"""A memory system: it is taught the texts of one episode, and recalls texts for a question.

A system keeps what it needs in a folder and never sees an answer. The systems of this package keep
the texts in one file; any other memory keeps them as it likes.

A memory from outside this package is named ``package.module:Memory`` instead of a preset. It
is a class that Python can import, with these methods:

- ``Memory(folder, ...)`` gets a folder (a `pathlib.Path`) and its settings by name;
- ``teach(texts)`` gets the texts of one session of an episode, each a `Text` (a ``str`` with
  ``day``, ``session``, ``rewarded`` and ``pinned``);
- ``recall(question, k)`` returns at most ``k`` texts: some that it was taught, or its own;
- ``close()`` is optional.

Each episode has a folder of its own. The class is created anew for each session and for the
questions. It runs in a process of its own with an empty working directory, which receives texts or
questions and nothing else; teaching and asking use two processes. This is not a sandbox: the
process has the user's rights, so run memories that you do not trust in a container.
"""

from __future__ import annotations

import inspect
import json
import multiprocessing
import os
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import Field

from rulerlib import plugins
from rulerlib.errors import DataError, ParameterError, validated
from rulerlib.languages import Language
from rulerlib.memory.episodes import Fact

WANTED = "a class with teach(texts) and recall(question, k)"
"""What such a memory must be."""

# The types of the defaults that become settings of a preset.
_PLAIN = (bool, int, float, str, list, dict, type(None))


class Text(str):
    """A text that is taught, with its times and marks.

    Attributes
    ----------
    number
        Its position in the episode, from 0.
    day
        When it happened, in days from the beginning of the episode.
    session
        The session in which it is taught, from 0.
    rewarded, pinned
        Whether knowing it was rewarded, and whether the user asked for it to be kept.
    """

    number: int = 0
    day: int = 0
    session: int = 0
    rewarded: bool = False
    pinned: bool = False

    def __new__(cls, text: str, number: int = 0, **marks: Any) -> Text:
        """Return a text with its marks."""
        marked = super().__new__(cls, text)
        vars(marked).update(number=number, **marks)
        return marked

    @classmethod
    def of(cls, fact: Fact) -> Text:
        """Return the text of a fact, without its meaning."""
        return cls(fact.text, **{name: getattr(fact, name) for name in cls.__annotations__})


class Recalled(NamedTuple):
    """A text that a system recalls for a question.

    Attributes
    ----------
    text
        What is put into the prompt.
    facts
        The numbers of the facts that it comes from; empty if the system does not know.
    """

    text: str
    facts: tuple[int, ...] = ()


@validated
class Settings:
    """The settings of a system: it recalls ``k`` texts at most."""

    k: int = Field(5, ge=1, le=1000)


class System(ABC):
    """A memory of one episode in one folder.

    A subclass builds an index of the texts and searches it. The index is built when the first
    question is asked, so that only the texts have to be saved.

    Parameters
    ----------
    folder
        The folder; texts that were saved there are loaded.
    settings
        An instance of `settings_class`.
    language
        The language of the texts.

    Attributes
    ----------
    settings_class
        The class of its settings.
    texts
        The texts that it keeps.
    requests
        How many questions it was asked since it was opened.
    """

    settings_class: type[Any] = Settings

    def __init__(self, folder: str | Path, settings: Any, language: Language) -> None:
        self.path = Path(folder) / "texts.jsonl"
        self.settings, self.language = settings, language
        self.texts: list[Text] = []
        if self.path.exists():
            with self.path.open(encoding="utf-8") as file:
                self.texts = [Text(**json.loads(line)) for line in file]
        self._index: Any = None
        self.requests = 0

    def teach(self, texts: Sequence[Text]) -> None:
        """Keep the texts of one session, in their order."""
        self.texts += texts
        self._index = None

    def recall(self, question: str) -> list[Recalled]:
        """Return what is recalled for a question, the best match first."""
        self.requests += 1
        if self._index is None:
            self._index = self.build()
        return self.search(self._index, question)

    @abstractmethod
    def build(self) -> Any:
        """Return an index of the texts."""

    @abstractmethod
    def search(self, index: Any, question: str) -> list[Recalled]:
        """Return the texts that match a question, the best one first."""

    def close(self) -> None:
        """Save the texts."""
        with self.path.open("w", encoding="utf-8") as file:
            for text in self.texts:
                print(json.dumps({"text": text, **vars(text)}, ensure_ascii=False), file=file)


def recalled(texts: Sequence[Text]) -> list[Recalled]:
    """Return texts that were taught as recalled ones."""
    return [Recalled(str(text), (text.number,)) for text in texts]


# --- Teaching and asking a memory, in this process or in another ---------------------------------

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

    def teach(self, folder: Path, texts: Sequence[Text]) -> None:
        """Teach the texts of one session of an episode."""
        memory = self._opened(folder)
        memory.teach(texts)
        if hasattr(memory, "close"):
            memory.close()

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
        self._name, self.requests = name, 0
        self._empty = tempfile.TemporaryDirectory(prefix="rulerlib-")
        given = name, dict(settings), self._empty.name
        spawn = multiprocessing.get_context("spawn")
        self._process = ProcessPoolExecutor(1, spawn, initializer=_open, initargs=given)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.shutdown()
        self._empty.cleanup()

    def teach(self, folder: Path, texts: Sequence[Text]) -> None:
        """Teach the texts of one session of an episode.

        Raises
        ------
        DataError
            If a method of the memory fails.
        """
        self._call("teach", folder, texts)

    def recall(self, folder: Path, questions: Sequence[str]) -> Recalls:
        """Return what is recalled for each question about an episode.

        Raises
        ------
        DataError
            If a method of the memory fails, or it returns anything but at most ``k`` texts.
        """
        recalls = self._call("recall", folder, questions)
        self.requests += len(recalls)
        return [([Recalled(text) for text in texts], seconds) for texts, seconds in recalls]

    def _call(self, method: str, *given: Any) -> Any:
        """Call a method of `Memory` in the process."""
        try:
            return self._process.submit(_called, method, *given).result()
        except BrokenProcessPool as error:
            raise DataError(f"{self._name}: its process ended.") from error
        except DataError as error:
            raise DataError(f"{self._name}: {error}") from error


# The memory of the process of an `OutsideMemory`, and how many texts it recalls at most.
_opened: list[tuple[Memory, int]] = []


def _open(name: str, settings: dict[str, Any], empty: str) -> None:
    """Prepare a process of `OutsideMemory`."""
    sys.argv = [""]
    kind, k = plugins.load("system", name, WANTED), settings.pop("k")
    os.chdir(empty)
    _opened.append((Memory(lambda folder: kind(folder, **settings), k), k))


def _called(method: str, folder: Path, given: Sequence[str]) -> Any:
    """Return what a method of the memory returns, as plain data."""
    memory, k = _opened[0]
    try:
        found = getattr(memory, method)(folder, given)
    except Exception as error:
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise DataError(f"{method} failed ({told}).") from None
    if method == "teach":
        return None
    for texts, _ in found:
        right = isinstance(texts, list) and len(texts) <= k
        if not right or not all(isinstance(text, str) for text in texts):
            raise DataError(f"recall did not return a list of at most {k} texts.")
    return [([str.__str__(text) for text in texts], seconds) for texts, seconds in found]
