"""The system `rag`: all that is taught is kept, and found again by its words and by vectors.

>>> import pathlib, tempfile
>>> from rulerlib.languages import load
>>> path = pathlib.Path(tempfile.mkdtemp()) / "rag.sqlite"
>>> rag = Rag.create(path, Settings(k=1), load("en"), "episodic")
>>> rag.teach("a-0", [Fact(0, "Birmund sold a boat.", 0), Fact(1, "Ulrun lent an axe.", 1)])
>>> [recalled.text for recalled in rag.recall("a-0", "What did Ulrun lend?")]
['Ulrun lent an axe.']
>>> rag.close()
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from rulerlib.errors import DataError, flag, require, whole_number
from rulerlib.languages import Language
from rulerlib.memory.search import Found, Words, fuse
from rulerlib.memory.store import Store
from rulerlib.memory.system import Recalled, Surprise, System
from rulerlib.memory.vectors import PART, Vectors, embedding
from rulerlib.tasks.episodes import Fact

# How deep each ranking is read, at least, before they are made into one.
DEPTH = 100

# Facts that are written at a time.
BATCH = 1_000


@dataclass(frozen=True)
class Settings:
    """What can be set about `Rag`.

    Attributes
    ----------
    k
        How many facts are recalled at most. A store does not depend on it.
    words, vectors
        By what facts are found; where both are True, by both rankings.
    embedding
        What makes the vectors: ``"hashed"``, or a model's folder or hub name.

    Raises
    ------
    ParameterError
        If a value cannot work, alone or with the others: says what is allowed.
    """

    k: int = 5
    words: bool = True
    vectors: bool = True
    embedding: str = "hashed"

    def __post_init__(self) -> None:
        whole_number("k", self.k, 1, 1_000)
        flag("words", self.words)
        flag("vectors", self.vectors)
        allowed = "True where words is False, for facts are found by one of them"
        require(self.words or self.vectors, "vectors", self.vectors, allowed)
        # Loads nothing, and says what is wrong before there is a store.
        embedding(self.embedding)


class Rag(System):
    """Keeps every fact, and recalls those whose words and vectors fit a question best.

    Both rankings become one by the reciprocals of their ranks, see `rulerlib.memory.search.fuse`.

    Parameters
    ----------
    store, settings, language
        As in `rulerlib.memory.system.System`; settings are `Settings`.
    """

    name: ClassVar[str] = "rag"

    tables: ClassVar[str] = Words.tables + Vectors.tables

    settings: Settings

    def __init__(self, store: Store, settings: Settings, language: Language) -> None:
        super().__init__(store, settings, language)
        self._words = Words(store) if settings.words else None
        self._vectors = Vectors(store, embedding(settings.embedding)) if settings.vectors else None
        # How many recalled facts each ranking had among its first ones.
        self.counts |= {"by_words": 0, "by_vectors": 0}

    @classmethod
    def about(cls, settings: Settings, language: Language) -> dict[str, Any]:
        """See `rulerlib.memory.system.System`; how many are recalled is no matter of the store."""
        return {
            "language": language.code,
            "words": settings.words,
            "vectors": settings.vectors,
            "embedding": settings.embedding if settings.vectors else None,
        }

    def teach(self, episode: str, facts: Iterable[Fact], surprise: Surprise | None = None) -> None:
        """See `rulerlib.memory.system.System`; what is surprising is kept as all else is."""
        given = iter(facts)
        # Vectors of many facts are kept together, so that a question reads them in one go.
        unread: list[tuple[int, str]] = []
        with self.store.writing():
            while batch := list(itertools.islice(given, BATCH)):
                texts = [(self.store.add(episode, fact), fact.text) for fact in batch]
                if self._words:
                    self._words.add(episode, texts)
                if self._vectors:
                    unread += texts
                    if len(unread) + BATCH > PART:
                        self._vectors.add(episode, unread)
                        unread = []
            if self._vectors and unread:
                self._vectors.add(episode, unread)

    def recall(self, episode: str, question: str) -> list[Recalled]:
        """See `rulerlib.memory.system.System`; any text can be asked.

        Raises
        ------
        DataError
            If the store is damaged.
        """
        self.counts["requests"] += 1
        depth = max(DEPTH, self.settings.k)
        try:
            words = self._words.search(episode, question, depth) if self._words else []
            vectors = self._vectors.search(episode, question, depth) if self._vectors else []
            best = fuse((words, vectors), self.settings.k)
            kept = self.store.of([found.id for found in best])
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.store.path}: damaged ({error}).") from error
        self.counts["hits"] += bool(kept)
        self._count("by_words", words, best)
        self._count("by_vectors", vectors, best)
        return [
            Recalled(fact.text, (fact.number,), found.score)
            for fact, found in zip(kept, best, strict=True)
        ]

    def _count(self, name: str, ranking: list[Found], best: list[Found]) -> None:
        first = {found.id for found in ranking[: self.settings.k]}
        self.counts[name] += sum(found.id in first for found in best)
