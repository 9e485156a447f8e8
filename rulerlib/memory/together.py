"""The three memory systems in one (``together``): whoever can follow a question answers it.

A map that has planned a way, or a graph that was followed to the end of a question, brings what it
found. Where neither is so, the rankings of all three are made into one.

>>> import tempfile
>>> from rulerlib.languages import load
>>> memory = Together(tempfile.mkdtemp(), Settings(), load("en"))
>>> home, lessons = "Corwin lives in Ely.", "Halwen takes lessons from Corwin."
>>> memory.teach("a", [Text(home, 0), Text("Edton sold a harp.", 1), Text(lessons, 2)])
>>> [recalled.text for recalled in memory.recall("a", "Where does Halwen's teacher live?")]
['Halwen takes lessons from Corwin.', 'Corwin lives in Ely.']
>>> memory.recall("a", "What was for sale?")[0].text
'Edton sold a harp.'
>>> memory.close()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rulerlib.languages import Language
from rulerlib.memory import presets
from rulerlib.memory.search import Found, fuse
from rulerlib.memory.system import Recalled, System, SystemSettings, Text

# The map and the graph keep every text, so the gate of the index would only lose some.
_PARTS: dict[str, dict[str, bool]] = {"smpd": {}, "sgc_rss": {}, "hei_nw": {"gate": False}}


@dataclass(frozen=True)
class Settings(SystemSettings):
    """What can be set about `Together`.

    Attributes
    ----------
    k
        How many texts are recalled at most.
    """

    k: int = 5

    limits: ClassVar = {"k": (1, 1000)}


class Together(System):
    """Teaches a map, a graph and an index, each in a folder of its own, and asks all of them."""

    def __init__(self, folder: str | Path, settings: Settings, language: Language) -> None:
        self.settings, self.counts = settings, {"requests": 0, "hits": 0}
        self._parts = list[System]()
        for name, others in _PARTS.items():
            (place := Path(folder) / name).mkdir(exist_ok=True)
            self._parts.append(presets.opened(name, place, language, k=settings.k, **others))

    def learn(self, episode: str, texts: Sequence[Text]) -> None:
        """See `System`; what one has written before another one fails stays there."""
        for part in self._parts:
            part.teach(episode, texts)

    teach = learn

    def search(self, episode: str, question: str) -> list[Recalled]:
        """See `System`."""
        rankings = [part.recall(episode, question) for part in self._parts]
        for ranking in rankings:
            # It has followed the question to its end.
            if ranking and ranking[0].score >= 1:
                return ranking
        texts = {recalled.text: recalled for ranking in rankings for recalled in ranking}
        names = [*texts]
        places = ([Found(names.index(recalled.text), 0) for recalled in part] for part in rankings)
        best = fuse(places, self.settings.k)
        return [texts[names[hit.id]]._replace(score=hit.score) for hit in best]

    def stored(self) -> int:
        """See `System`: as many as the one that keeps most."""
        return max(part.stored() for part in self._parts)

    def telemetry(self) -> dict[str, float]:
        """See `System`."""
        size = sum(part.telemetry()["bytes"] for part in self._parts)
        return {**self.counts, "stored": self.stored(), "bytes": size}

    def close(self) -> None:
        """See `System`."""
        for part in self._parts:
            part.close()
