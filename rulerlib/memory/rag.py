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
from typing import Any

from rulerlib.errors import ParameterError, validated
from rulerlib.memory import system
from rulerlib.memory.search import VectorSearch, WordSearch, fuse
from rulerlib.memory.system import Recalled, System, recalled

# How many texts of each ranking are fused, at least.
DEPTH = 100


@validated
class Settings(system.Settings):
    """The settings of `Rag`: ``k``, and how texts are found.

    With both ``words`` and ``vectors``, the two rankings are fused.
    """

    words: bool = True
    vectors: bool = True

    def __post_init__(self) -> None:
        if not (self.words or self.vectors):
            raise ParameterError("vectors", False, "True if words is False")


class Rag(System):
    """Finds texts by words and by vectors, fused by `rulerlib.memory.search.fuse`."""

    settings_class = Settings
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


class Random(System):
    """Recalls texts at random; the same ones for the same question."""

    def build(self) -> Any:
        """See `System`."""
        return ()

    def search(self, index: Any, question: str) -> list[Recalled]:
        """See `System`."""
        k = min(self.settings.k, len(self.texts))
        return recalled(random.Random(question).sample(self.texts, k))
