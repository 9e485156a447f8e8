"""Walks through a grid: the map follows from the prose, and so do lengths, routes and places.

The answers are derived again by the reader of `helpers_spatial`, which knows nothing of the
generator.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
from helpers_semantic import HERE
from helpers_spatial import distances, reader

from rulerlib import languages
from rulerlib.memory import spatial
from rulerlib.memory.episodes import Episode
from rulerlib.memory.spatial import Knobs, Spatial, walk

CODES = sorted(path.parent.name for path in HERE.glob("*/spatial.toml"))
GRIDS = [
    {},
    {"grid_size": 3},
    {"grid_size": 3, "obstacle_density": 0.4},
    {"grid_size": 4, "obstacle_density": 0.4},
    {"obstacle_density": 0},
    {"grid_size": 8, "obstacle_density": 0},
]


@functools.cache
def episodes(code: str, count: int, probes: int = 12, **knobs: Any) -> tuple[Episode, ...]:
    made = Spatial(Knobs(**knobs), languages.load(code), "seed")
    return tuple(made.episode(index, probes) for index in range(count))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("count", "knobs"), [(100, {}), *((15, each) for each in GRIDS[1:-1]), (5, GRIDS[-1])]
)
def test_golds_follow_from_the_prose(code: str, count: int, knobs: dict) -> None:
    read = reader(code)
    for episode in episodes(code, count, **knobs):
        graph = read.graph(episode)
        away = distances(graph)
        town = read.read(read.opening, episode.facts[0].text)["town"]
        for probe in episode.probes:
            golds = read.golds(probe, graph, away)
            if probe.kind == "route":
                assert sorted(golds) == list(probe.golds)
                assert len(golds) <= 24
                assert len(probe.golds[0]) <= 7
            else:
                assert golds == {probe.golds[0]}
            assert read.read(read.asks[probe.kind], probe.text)["town"] == town
            assert probe.facts["optimum"] == away[probe.facts["start"]][probe.facts["goal"]]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("knobs", GRIDS)
def test_walks_tell_the_whole_grid(code: str, knobs: dict) -> None:
    """Free cells are joined, and each passage between two of them is walked once."""
    read, size = reader(code), knobs.get("grid_size", 5)
    blocked = round(knobs.get("obstacle_density", 0.2) * size * size)
    for episode in episodes(code, 3, **knobs):
        graph = read.graph(episode)
        start = next(iter(graph))
        cells = {start: (0, 0)}
        edge = [start]
        for here in edge:
            for there, (right, up) in graph[here].items():
                cell = cells[here][0] + right, cells[here][1] + up
                # However one comes there, it is the same cell.
                assert cells.setdefault(there, cell) == cell
                edge += [there] * (there not in edge)
        assert len(cells) == len(set(cells.values())) == size * size - blocked
        for axis in zip(*cells.values(), strict=True):
            assert max(axis) - min(axis) < size
        beside = {(a, b) for a in cells for b in cells
                  if math.dist(cells[a], cells[b]) == 1}  # fmt: skip
        assert beside == {(a, b) for a in graph for b in graph[a]}


def test_routes_that_cannot_be_walked() -> None:
    steps = {"a": {"N": "b"}, "b": {"S": "a", "E": "c"}, "c": {"W": "b"}}
    for route in ("E", "NN", "NXE", "north"):
        assert walk(steps, "a", route) is None
    assert walk(steps, "a", ["N", "E"]) == "c"
    assert walk(steps, "a", "") == "a"
    assert walk(steps, "nowhere", "N") is None
    # The goal lies apart from all that is known.
    assert spatial.routes(steps, "a", "x") == []


@pytest.mark.parametrize("code", CODES)
def test_questions_do_not_repeat(code: str) -> None:
    """Each names the town, no two episodes are in the same, and in one no question comes twice."""
    towns = {episode.facts[0].value("town") for episode in episodes(code, 100)}
    assert len(towns) == 100
    for knobs in GRIDS[:-1]:
        for episode in episodes(code, 12, **knobs):
            asked = [(probe.kind, probe.facts["start"], probe.facts["goal"],
                      probe.facts.get("moves")) for probe in episode.probes]  # fmt: skip
            assert len(set(asked)) == len(asked) == 12
            assert all(episode.facts[0].value("town") in probe.text for probe in episode.probes)
