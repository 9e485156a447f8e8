"""What the tests of search share: hostile questions, drawn texts, and stores that were taught."""

from __future__ import annotations

import functools

from hypothesis import strategies as st

from rulerlib.memory.search import Words
from rulerlib.memory.store import Store
from rulerlib.memory.suites import Recipe
from rulerlib.memory.vectors import Hashed
from rulerlib.tasks.episodes import Episode, Fact

HOSTILE = [
    "", " ", "\0", "a\0b", '"', "'", '"bil', "bil OR", "NOT bil", "NEAR(bil, 2)", "bil*", "^bil",
    "text:bil", "- bil", "(bil", "{bil}", "🚗", "\ud800 bil", "bil\udfff", "\u0301", "%s", "?1;",
    "bil " * 300_000, "x" * 1_000_000, " ".join(map(str, range(5_000))), "ＢＩＬ", "ǅ", "İ", "ß",
]  # fmt: skip

WORDS = ["bil", "båd", "hus", "å", "a", "hvem", "var", "i", "en", "sø"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join), min_size=1,
                 max_size=12)  # fmt: skip


def memory(tables: str) -> Store:
    """A new store in memory."""
    return Store.create(":memory:", {}, tables)


def taught(kind, store: Store, **episodes: list[str]):
    """A search that was taught texts, by episode."""
    made = kind(store) if kind is Words else kind(store, Hashed())
    with store.writing():
        for name, texts in episodes.items():
            rows = [
                (store.add(name, Fact(number, text, 0)), text) for number, text in enumerate(texts)
            ]
            made.add(name, rows)
    return made


@functools.cache
def large() -> Episode:
    """An episode of 3,000 facts."""
    recipe = Recipe("episodic_capacity", 1, language="da", probes=20, changes={"facts": 3_000})
    return next(iter(recipe)).episode
