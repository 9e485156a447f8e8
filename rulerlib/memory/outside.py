"""A memory that somebody else wrote: ``system: package.module:Memory`` in a preset.

It is a class that Python can import, with these methods:

- ``Memory(folder, ...)`` is called with a folder of its own (a `pathlib.Path`), and with the
  preset's settings by name;
- ``teach(texts)`` is given texts of one episode, each a `rulerlib.memory.system.Text`: a ``str``
  with ``day``, ``session``, ``rewarded``, ``pinned``;
- ``recall(question, k)`` returns at most ``k`` texts, those that it was taught or texts of its own;
- ``stats()`` is optional: numbers by name, which are written beside the answers; ``stored`` is how
  many texts it keeps;
- ``close()`` is optional.

Each episode has a folder of its own. After each session the memory is closed and made anew, and
asking happens in another process than teaching: what does not stand in the folder is forgotten.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerlib import packages
from rulerlib.errors import DataError, is_number
from rulerlib.memory.system import Recalled, System, Text
from rulerlib.store.cell import safe_name

WANTED = "a class with teach(texts) and recall(question, k)"
"""What such a memory must be."""

# The methods of such a class, with arguments as they are called with.
_NEEDED: dict[str, tuple[Any, ...]] = {"teach": ([],), "recall": ("", 5)}
_OPTIONAL: dict[str, tuple[Any, ...]] = {"stats": (), "close": ()}

# What can stand in a preset.
_PLAIN = (bool, int, float, str, list, dict, type(None))


def outside_class(name: str) -> type[Any]:
    """Return the class of a memory by its name, checked.

    Raises
    ------
    ParameterError
        If there is no such class, or it lacks a method: says which.
    """
    return packages.outside_class("system", name, WANTED, _NEEDED, _OPTIONAL)


def settings_of(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a memory: ``k``, those of its class that have a usual value, and own.

    Raises
    ------
    ParameterError
        If the class cannot be made with them: says why.
    """
    kind = outside_class(name)
    chosen = {key: value for key, value in settings.items() if key != "k"}
    packages.check_call("system", name, WANTED, kind, Path(), **chosen)
    _, *others = inspect.signature(kind).parameters.values()
    usual = {
        parameter.name: parameter.default
        for parameter in others
        if isinstance(parameter.default, _PLAIN)
    }
    return {"k": 5, **usual, **settings}


class OutsideMemory(System):
    """A memory of somebody else as a system of ours.

    Parameters
    ----------
    folder
        Where the folders of the episodes are.
    name, settings
        Its class, and all its settings.
    """

    def __init__(self, folder: str | Path, name: str, settings: Mapping[str, Any]) -> None:
        self._folder, self._name = Path(folder), name
        self._settings = {key: value for key, value in settings.items() if key != "k"}
        self._k = settings["k"]
        self.counts = {"requests": 0, "hits": 0}
        self._told = Counter[str]()
        self._open: tuple[str, Any] | None = None

    def _memory(self, episode: str) -> Any:
        """Return the memory of an episode; that of another episode is closed."""
        if self._open is None or self._open[0] != episode:
            self.close()
            folder = self._folder / safe_name(episode)
            folder.mkdir(parents=True, exist_ok=True)
            kind = outside_class(self._name)
            self._open = episode, self._called(kind, folder, **self._settings)
        return self._open[1]

    def _called(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """Call a function that we did not write, and say in one sentence what went wrong in it."""
        try:
            return function(*arguments, **named)
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            what = f"{function.__name__} failed ({reason})"
            raise DataError(f"{self._name}: {what}.") from error

    def learn(self, episode: str, texts: Sequence[Text]) -> None:
        """See `System`; it writes what it likes, and nobody takes that back."""
        self._called(self._memory(episode).teach, list(texts))

    teach = learn

    def search(self, episode: str, question: str) -> list[Recalled]:
        """See `System`."""
        memory = self._memory(episode)
        texts = self._called(memory.recall, question, self._k)
        listed = isinstance(texts, (list, tuple)) and len(texts) <= self._k
        if not listed or not all(isinstance(text, str) for text in texts):
            raise DataError(
                f"{self._name}: recall did not return a list of at most {self._k} texts."
            )
        return [Recalled(str(text)) for text in texts]

    def stored(self) -> int:
        """Return how many files it has written: without any, another process finds nothing."""
        self.close()
        return sum(path.is_file() for path in self._folder.rglob("*"))

    def telemetry(self) -> dict[str, float]:
        """See `System`; ``stats`` of all episodes are added up."""
        # What it tells of its bytes counts, where they stand elsewhere.
        files, paths = self.stored(), self._folder.rglob("*")
        size = sum(path.stat().st_size for path in paths if path.is_file())
        return {"files": files, "bytes": size, **self._told, **self.counts}

    def close(self) -> None:
        """See `System`."""
        if self._open is None:
            return
        (_, memory), self._open = self._open, None
        if hasattr(memory, "stats"):
            told = dict(self._called(memory.stats))
            self._told.update({key: value for key, value in told.items() if is_number(value)})
        if hasattr(memory, "close"):
            self._called(memory.close)
