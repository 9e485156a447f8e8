"""Walks through a grid: the map follows from the prose, and so do lengths, routes and places."""

from __future__ import annotations

import functools
from typing import Any

import networkx as nx
import pytest

from rulerlib import languages
from rulerlib.memory import spatial
from rulerlib.memory.episodes import Episode
from rulerlib.memory.reading import reader
from rulerlib.memory.spatial import DIRECTIONS, Knobs, Spatial

CODES = languages.available("spatial")
GRIDS = [
    {},
    {"grid_size": 3},
    {"grid_size": 4, "obstacle_density": 0.4},
    {"grid_size": 8, "obstacle_density": 0},
]


@functools.cache
def episodes(code: str, count: int, **knobs: Any) -> tuple[Episode, ...]:
    made = Spatial(Knobs(**knobs), languages.load(code), "seed")
    return tuple(made.episode(index, 12) for index in range(count))


def drawn(code: str, episode: Episode) -> nx.DiGraph:
    """Return the map that the facts tell, with the letter and the move of each step."""
    graph, pack = nx.DiGraph(), languages.load(code)
    moves = {word: name for name, (word, _) in pack.section("spatial")["directions"].items()}
    letters = spatial.letters(pack)
    for fact in episode.facts[1:]:
        said = reader(pack).fact(fact.text)
        word, ends = said.value("direction"), (said.value("from"), said.value("to"))
        assert {name: fact.value(name) for name in fact.values} == said.values
        assert not graph.has_edge(*ends), "told once"
        move = DIRECTIONS[moves[word]]
        back = next(w for w in moves if DIRECTIONS[moves[w]] == (-move[0], -move[1]))
        graph.add_edge(*ends, letter=letters[word], move=move)
        graph.add_edge(*ends[::-1], letter=letters[back], move=DIRECTIONS[moves[back]])
    return graph


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("knobs", GRIDS)
def test_answers_follow_from_the_prose(code: str, knobs: dict) -> None:
    pack = languages.load(code)
    for episode in episodes(code, 12, **knobs):
        graph = drawn(code, episode)
        asked = set()
        for probe in episode.probes:
            question = reader(pack).question(probe.text)
            start, town = question.values["start"], question.values["town"]
            assert town == reader(pack).fact(episode.facts[0].text).value("town")
            asked.add((probe.kind, start, question.values.get("goal"), question.moves))
            letters = [spatial.letters(pack)[word] for word in question.moves]
            if probe.kind == "stand":
                for letter in letters:
                    start = next(b for _, b, at in graph.out_edges(start, "letter") if at == letter)
                assert start == probe.golds[0]
                continue
            goal = question.values["goal"]
            routes = sorted(
                "".join(graph.edges[step]["letter"] for step in nx.utils.pairwise(way))
                for way in nx.all_shortest_paths(graph, start, goal)
            )
            assert probe.facts["optimum"] == len(routes[0]) <= 7
            if probe.kind == "route":
                assert [*probe.golds] == routes
                assert len(routes) <= 24
            else:
                assert probe.golds[0] == str(len(routes[0]))
        assert len(asked) == len(episode.probes) == 12
    assert len({episode.facts[0].value("town") for episode in episodes(code, 12, **knobs)}) == 12
