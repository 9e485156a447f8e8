"""The systems `rag` and `random`: both keep every text.

`rag` finds texts by their words and by vectors. `random` recalls texts at random, whatever the
question is; its score is the floor for all memories.

>>> import tempfile
>>> from rulerlib.languages import load
>>> from rulerlib.memory.system import Text
>>> rag = Rag(tempfile.mkdtemp(), Settings(k=1), load("en"))
>>> rag.teach([Text("Birmund sold a boat."), Text("Ulrun lent an axe.", number=1)])
>>> rag.recall("What did Ulrun lend?")
[Recalled(text='Ulrun lent an axe.', facts=(1,))]
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

from rulerlib.errors import ParameterError
from rulerlib.memory.search import VectorSearch, WordSearch, fuse
from rulerlib.memory.system import Recalled, System, SystemSettings, recalled

# How many texts of each ranking are fused, at least.
DEPTH = 100


@dataclass(frozen=True)
class Settings(SystemSettings):
    """The settings of `Rag`.

    Attributes
    ----------
    k
        How many texts are recalled at most.
    words, vectors
        How texts are found; if both are True, the two rankings are fused.
    """

    k: int = 5
    words: bool = True
    vectors: bool = True

    limits: ClassVar = {"k": (1, 1000)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.words or self.vectors):
            raise ParameterError("vectors", False, "True if words is False")


class Rag(System):
    """Finds texts by words and by vectors, fused by `rulerlib.memory.search.fuse`."""

    settings: Settings

    def build(self) -> list[WordSearch | VectorSearch]:
        """See `System`."""
        kinds = ((WordSearch, self.settings.words), (VectorSearch, self.settings.vectors))
        return [kind(self.texts) for kind, used in kinds if used]

    def search(self, index: list[WordSearch | VectorSearch], question: str) -> list[Recalled]:
        """See `System`."""
        depth = max(DEPTH, self.settings.k)
        best = fuse([each.search(question, depth) for each in index], self.settings.k)
        return recalled([self.texts[place] for place in best])


@dataclass(frozen=True)
class RandomSettings(SystemSettings):
    """The settings of `Random`: how many texts are recalled."""

    k: int = 5

    limits: ClassVar = {"k": (1, 1000)}


class Random(System):
    """Recalls texts at random; the same ones for the same question."""

    settings: RandomSettings

    def build(self) -> Any:
        """See `System`."""
        return ()

    def search(self, index: Any, question: str) -> list[Recalled]:
        """See `System`."""
        k = min(self.settings.k, len(self.texts))
        return recalled(random.Random(question).sample(self.texts, k))
