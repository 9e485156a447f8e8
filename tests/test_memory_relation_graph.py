"""The relation graph: chains are followed to their end, and what is no edge is found by its words.

networkx follows the same chains over what the facts say by their values, which no memory sees.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers_work import counted

from rulerlib import languages
from rulerlib.memory.relation_graph import RelationGraph, Settings
from rulerlib.memory.relations import Graph
from rulerlib.memory.suites import Item, Recipe
from rulerlib.memory.system import Text
from rulerlib.tasks.episodes import Episode

CODES = ("da", "en")
DATED = {"facts": 30, "hop_depth": 4, "contradictions": "date"}
SOURCED = {"facts": 30, "hop_depth": 3, "contradictions": "source"}


@functools.cache
def made(suite: str, code: str, size: int, knobs: tuple) -> tuple[Item, ...]:
    return tuple(Recipe(suite, size, language=code, changes=dict(knobs)))


def items(suite: str, code: str = "en", size: int = 15, **knobs: Any) -> tuple[Item, ...]:
    return made(suite, code, size, tuple(knobs.items()))


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Any]:
    """Return a function that makes new graphs, which are closed at the end."""
    graphs = []

    def make(code: str = "en", **chosen: Any) -> RelationGraph:
        folder = tmp_path / str(len(graphs))
        folder.mkdir()
        graphs.append(RelationGraph(folder, Settings(**chosen), languages.load(code)))
        return graphs[-1]

    yield make
    for graph in graphs:
        graph.close()


def teach(graph: RelationGraph, *texts: str, episode: str = "a") -> None:
    """Teach further facts of an episode."""
    first = len(graph.store.texts(episode))
    graph.teach(episode, [Text(text, at) for at, text in enumerate(texts, first)])


def texts_of(episode: Episode) -> list[Text]:
    return [Text.of(fact) for fact in episode.facts]


def texts(graph: RelationGraph, question: str, episode: str = "a") -> list[str]:
    return [recalled.text for recalled in graph.recall(episode, question)]


def held(graph: RelationGraph, episode: str = "a") -> Graph:
    return Graph(graph.store.noted(episode))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("knobs", [{}, DATED, SOURCED])
def test_chains_are_followed(fresh, code: str, knobs: dict) -> None:
    """Exactly the needed facts in the order of reasoning, as the facts told them."""
    graph = fresh(code)
    for item in items("semantic", code, **knobs):
        graph.teach(item.episode.id, texts_of(item.episode))
        (probe,) = item.episode.probes
        found = graph.recall(item.episode.id, probe.text)
        assert [each.numbers for each in found] == [(number,) for number in probe.needs]
        assert [each.text for each in found] == [fact.text for fact in item.episode.needed(probe)]
        assert [each.score for each in found] == sorted((e.score for e in found), reverse=True)
    assert graph.counts == {"requests": 15, "hits": 15}


def test_ways_without_number(fresh) -> None:
    """Where everybody teaches everybody, a chain has millions of ways; a few are gone."""
    graph, names = fresh(), [f"{one}{two}" for one in "BDFGHKLM" for two in "aeiou"]
    teach(graph, *(f"{one} teaches {two}." for one, two in itertools.permutations(names, 2)))
    phrase = "the teacher of " * 3 + names[0]
    with counted() as work:
        assert len(texts(graph, f"Who teaches {phrase}?")) == 5
    assert work.calls < 100_000


def test_what_cannot_be_read_is_a_text(fresh) -> None:
    """Its words find it, and it is no edge."""
    graph, odd = fresh(), "York, they say, was taught by Ely."
    teach(graph, "Ada teaches Bo.", odd)
    assert len(held(graph).edges) == 1
    assert odd in texts(graph, "Who teaches York?")


def test_told_again(fresh) -> None:
    """One edge with the numbers of all that tell it, and the text of the best note."""
    graph = fresh()
    notes = [f"Note of {day} May: Corwin lives in Ely." for day in (3, 9, 5)]
    teach(graph, *notes, "Note of 7 May: Corwin lives in Ware.")
    assert [len(edge.told) for edge in held(graph).edges] == [3, 1]
    rule = languages.load("en").section("semantic")["notes"]["date_rule"]
    (found,) = graph.recall("a", f"{rule} Where does Corwin live?")
    assert (found.text, found.numbers) == (notes[1], (0, 1, 2))
