"""A memory system: it is taught facts, keeps what it will in a store, and recalls for a question.

A system never sees an answer: it is taught texts, with their times and marks, and asked questions.
What it recalls are texts, which `rulerlib.memory` puts into a prompt by one template for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from rulerlib.errors import DataError
from rulerlib.languages import Language
from rulerlib.memory.store import Store
from rulerlib.tasks.episodes import Fact

Surprise = Callable[[str], float]
"""A function that returns how unexpected a text is, 0 to 1."""


class Recalled(NamedTuple):
    """A text that a system recalls for a question.

    Attributes
    ----------
    text
        What is put into the prompt.
    numbers
        The facts of the episode that it comes from, by their numbers.
    score
        How well it fits; a system's own scale, on which more is better.
    """

    text: str
    numbers: tuple[int, ...]
    score: float


class System(ABC):
    """A memory system on one store.

    Parameters
    ----------
    store
        Its store; `create` and `open` make one.
    settings
        Its settings, a frozen dataclass of its own.
    language
        The language of what it is taught.
    """

    name: ClassVar[str]
    """``"rag"``."""

    tables: ClassVar[str] = ""
    """SQL that makes the tables it needs beside the facts."""

    def __init__(self, store: Store, settings: Any, language: Language) -> None:
        self.store, self.settings, self.language = store, settings, language
        # What happened since it was opened, by name.
        self.counts: dict[str, int] = {"requests": 0, "hits": 0}

    @classmethod
    @abstractmethod
    def about(cls, settings: Any, language: Language) -> dict[str, Any]:
        """Return what its store must have been made with, as plain data."""

    @classmethod
    def create(cls, path: str | Path, settings: Any, language: Language, suite: str) -> Self:
        """Return the system on a new, empty store.

        Raises
        ------
        ParameterError
            If the file is there already or cannot be made.
        """
        about = {"system": cls.name, "suite": suite, **cls.about(settings, language)}
        return cls(Store.create(path, about, cls.tables), settings, language)

    @classmethod
    def open(cls, path: str | Path, settings: Any, language: Language, suite: str) -> Self:
        """Return the system on a store that was taught.

        Raises
        ------
        DataError
            If there is no store, it is damaged or of another version, or holds nothing.
        RunMismatchError
            If it was made for another suite or with other settings: names the first difference.
        """
        about = {"system": cls.name, "suite": suite, **cls.about(settings, language)}
        store = Store.open(path, about)
        if not store.count():
            store.close()
            raise DataError(
                f"{path}: the store holds nothing: teach first, or see what its gate kept."
            )
        return cls(store, settings, language)

    @abstractmethod
    def teach(self, episode: str, facts: Iterable[Fact], surprise: Surprise | None = None) -> None:
        """Teach the facts of an episode, all of them or, where an error or a kill comes, none.

        Parameters
        ----------
        episode
            Its name.
        facts
            In their order.
        surprise
            How unexpected a text is to the reader; None: it is not known, and counts as 0.
        """

    @abstractmethod
    def recall(self, episode: str, question: str) -> list[Recalled]:
        """Return what is recalled for a question about an episode, the best first.

        Each call counts as a request, and as a hit where something is recalled.
        """

    def telemetry(self) -> dict[str, float]:
        """Return what happened since it was opened, and how much the store holds, by name."""
        return {
            **self.counts,
            "stored": self.store.count(),
            "bytes": self.store.path.stat().st_size,
        }

    def close(self) -> None:
        """Close the store."""
        self.store.close()
