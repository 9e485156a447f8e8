"""The relation graph: chains are followed to their end; what is no edge is found by its words."""

from __future__ import annotations

import itertools

import pytest
from helpers_work import counted

from rulerlib import languages
from rulerlib.memory.relation_graph import Graph, RelationGraph
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import Text

CODES = ("da", "en")
DATED = {"facts": 30, "hop_depth": 4, "contradictions": "date"}
SOURCED = {"facts": 30, "hop_depth": 3, "contradictions": "source"}


def teach(graph: RelationGraph, *texts: str, episode: str = "a") -> None:
    """Teach further facts of an episode."""
    first = len(graph.store.texts(episode))
    graph.teach(episode, [Text(text, at) for at, text in enumerate(texts, first)])


def texts(graph: RelationGraph, question: str, episode: str = "a") -> list[str]:
    return [recalled.text for recalled in graph.recall(episode, question)]


def held(graph: RelationGraph, episode: str = "a") -> Graph:
    return Graph(graph.store.noted(episode))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("knobs", [{}, DATED, SOURCED])
def test_chains_are_followed(memory_of, code: str, knobs: dict) -> None:
    """Exactly the needed facts in the order of reasoning, as the facts told them."""
    episodes = [item.episode for item in Recipe("semantic", 15, language=code, changes=knobs)]
    graph = memory_of("sgc_rss", episodes, code)
    for episode in episodes:
        (probe,) = episode.probes
        found = graph.recall(episode.id, probe.text)
        assert [each.numbers for each in found] == [(number,) for number in probe.needs]
        assert [each.text for each in found] == [fact.text for fact in episode.needed(probe)]
        assert [each.score for each in found] == sorted((e.score for e in found), reverse=True)
    assert graph.counts == {"requests": 15, "hits": 15}


def test_ways_without_number(memory_of) -> None:
    """Where everybody teaches everybody, a chain has millions of ways; a few are gone."""
    graph, names = memory_of("sgc_rss"), [f"{one}{two}" for one in "BDFGHKLM" for two in "aeiou"]
    teach(graph, *(f"{one} teaches {two}." for one, two in itertools.permutations(names, 2)))
    phrase = "the teacher of " * 3 + names[0]
    with counted() as work:
        assert len(texts(graph, f"Who teaches {phrase}?")) == 5
    assert work.calls < 100_000


def test_what_cannot_be_read_is_a_text(memory_of) -> None:
    """Its words find it, and it is no edge."""
    graph, odd = memory_of("sgc_rss"), "York, they say, was taught by Ely."
    teach(graph, "Ada teaches Bo.", odd)
    assert len(held(graph).edges) == 1
    assert odd in texts(graph, "Who teaches York?")


def test_told_again(memory_of) -> None:
    """One edge with the numbers of all that tell it, and the text of the best note."""
    graph = memory_of("sgc_rss")
    notes = [f"Note from {day} May: Corwin lives in Ely." for day in (3, 9, 5)]
    teach(graph, *notes, "Note from 7 May: Corwin lives in Ware.")
    assert [len(edge.told) for edge in held(graph).edges] == [3, 1]
    rule = languages.load("en").section("semantic")["notes"]["date_rule"]
    (found,) = graph.recall("a", f"{rule} Where does Corwin live?")
    assert (found.text, found.numbers) == (notes[1], (0, 1, 2))
