"""The system `rag`: all that is taught is kept, and found again by its words and by vectors.

>>> import tempfile
>>> from rulerlib.languages import load
>>> rag = Rag(tempfile.mkdtemp(), Settings(k=1), load("en"))
>>> rag.teach("a-0", [Text("Birmund sold a boat."), Text("Ulrun lent an axe.", number=1)])
>>> [recalled.text for recalled in rag.recall("a-0", "What did Ulrun lend?")]
['Ulrun lent an axe.']
>>> rag.close()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rulerlib.errors import require
from rulerlib.languages import Language
from rulerlib.memory.search import VectorSearch, WordSearch, fuse
from rulerlib.memory.system import Recalled, System, SystemSettings, Text

# How deep each ranking is read, at least, before they are made into one.
DEPTH = 100


@dataclass(frozen=True)
class Settings(SystemSettings):
    """What can be set about `Rag`.

    Attributes
    ----------
    k
        How many facts are recalled at most.
    words, vectors
        By what facts are found; where both are True, by both rankings.
    """

    k: int = 5
    words: bool = True
    vectors: bool = True

    limits: ClassVar = {"k": (1, 1000)}

    def __post_init__(self) -> None:
        super().__post_init__()
        needed = "True where words is False, for facts are found by one of them"
        require(self.words or self.vectors, "vectors", self.vectors, needed)


class Rag(System):
    """Keeps every fact, and recalls those whose words and vectors fit a question best.

    Both rankings are fused by the reciprocals of their ranks, see `rulerlib.memory.search.fuse`.
    """

    tables = VectorSearch.tables

    settings: Settings

    def __init__(self, folder: str, settings: Settings, language: Language) -> None:
        super().__init__(folder, settings, language)
        self._words, self._vectors = WordSearch(self.store), VectorSearch(self.store)

    def learn(self, episode: str, texts: Sequence[Text]) -> None:
        """See `System`."""
        kept = [(self.store.add(episode, text), text) for text in texts]
        self._words.forget()
        if self.settings.vectors:
            self._vectors.add(episode, kept)

    def search(self, episode: str, question: str) -> list[Recalled]:
        """See `System`."""
        depth, rankings = max(DEPTH, self.settings.k), []
        if self.settings.words:
            rankings.append(self._words.search(episode, question, depth))
        if self.settings.vectors:
            rankings.append(self._vectors.search(episode, question, depth))
        best = fuse(rankings, self.settings.k)
        texts = self.store.of([hit.id for hit in best])
        return [
            Recalled(str(text), (text.number,), hit.score)
            for text, hit in zip(texts, best, strict=True)
        ]
