"""The episodic index: what passes its gate, what its keys find, what is rehearsed.

How well a fact fits a cue is reckoned again here, slowly and without tables.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from rulerlib import languages
from rulerlib.memory.episodic_index import (
    EpisodicIndex,
    Settings,
)
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import Text
from rulerlib.tasks.episodes import Episode

CODES = ("da", "en")

ALL = {"gate": False}


@functools.cache
def episodes(suite: str, code: str, size: int = 12, profile: str = "default") -> list[Episode]:
    made = Recipe(suite, size, seed=3, language=code, profile=profile)
    return [item.episode for item in made]


def texts_of(episode: Episode, surprise: float | None = None) -> list[Text]:
    return [Text.of(fact, surprise) for fact in episode.facts]


@pytest.fixture
def make(tmp_path):
    """Makes systems in folders of their own."""
    made: list[EpisodicIndex] = []

    def system(code: str = "en", taught: list[Episode] | None = None, **changes: Any):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(EpisodicIndex(folder, Settings(**changes), languages.load(code)))
        for each in taught or ():
            made[-1].teach(each.id, texts_of(each))
        return made[-1]

    yield system
    for each in made:
        each.close()
