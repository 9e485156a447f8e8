"""A map of places: what it plans is right by other means, and what it holds follows from the texts.

Plans are held against the map that the tests draw of what the facts say, which a memory is not
shown.
"""

from __future__ import annotations

import functools

import pytest

from rulerlib.memory import spatial
from rulerlib.memory.episodes import Episode
from rulerlib.memory.place_map import PlaceGraph, PlaceMap
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import Text

CODES = ["da", "en"]
OPENING = (
    "In Slurbebridge people go for walks. Every path there can be walked in both directions, and"
    " there are no paths other than those mentioned."
)
LENGTH = "How many steps is the shortest path from {} to {} in Slurbebridge?"
STAND = "In Slurbebridge someone stands at {} and goes {}, one step each time. Where are they now?"


@functools.cache
def episodes(code: str, profile: str = "default", size: int = 6) -> tuple[Episode, ...]:
    recipe = Recipe("spatial", size, language=code, profile=profile, probes=12)
    return tuple(item.episode for item in recipe)


def facts(*texts: str) -> list[Text]:
    return [Text(text, number) for number, text in enumerate(texts)]


def step(here: str, direction: str, there: str) -> str:
    return f"From {here} one step {direction} is {there}."


def recalled(system: PlaceMap, episode: Episode) -> list:
    return [system.recall(episode.id, probe.text) for probe in episode.probes]


def map_of(system: PlaceMap, episode: str = "a") -> PlaceGraph:
    return PlaceGraph(system.store.noted(episode))


@pytest.fixture
def make(memory_of):
    return functools.partial(memory_of, "smpd", k=10)


@pytest.fixture
def told(make):
    """Makes a system that was told some sentences."""

    def made_of(*texts: str) -> PlaceMap:
        system = make()
        system.teach("a", facts(*texts))
        return system

    return made_of


@pytest.mark.parametrize("profile", ["easy", "default", "hard"])
@pytest.mark.parametrize("code", CODES)
def test_plans_answer_the_questions_of_real_episodes(code, profile, make):
    taught = episodes(code, profile)
    system = make(taught, code)
    for episode in taught:
        steps = spatial.observed(episode.facts, system.language)
        for probe, (plan, *rest) in zip(episode.probes, recalled(system, episode), strict=True):
            asked = probe.facts
            assert any(f" {gold}" in plan.text for gold in probe.golds)
            # What it goes over is needed, and the rest are these facts as they were taught.
            assert set(plan.numbers) <= set(probe.needs)
            assert 0 in plan.numbers
            assert [each.numbers for each in rest] == [(number,) for number in plan.numbers]
            assert [each.text for each in rest] == [episode.facts[n].text for n in plan.numbers]
            assert asked["start"] in plan.text
            assert asked["goal"] in plan.text
            if probe.kind == "stand":
                assert set(plan.numbers) == set(probe.needs)
                continue
            (route,) = (word for word in plan.text.replace(",", " ").split()
                        if set(word) <= set("NØESVW"))  # fmt: skip
            assert spatial.walk(steps, asked["start"], asked["goal"], route).excess == 0
        assert len(map_of(system, episode.id).told) == len(episode.facts) - 1


def test_ways_lead_back_only_where_it_was_said(told):
    texts = [step("the mill", "north", "the well"), step("the well", "north", "the inn")]
    back = LENGTH.format("the inn", "the mill")
    forth, both = told(*texts), told(*texts, OPENING)
    assert "NN, 2" in forth.recall("a", LENGTH.format("the mill", "the inn"))[0].text
    # What names the places is left: both tell of one of them.
    assert {each.text for each in forth.recall("a", back)} == {*texts}
    plan, *rest = both.recall("a", back)
    assert "SS, 2" in plan.text
    assert [each.text for each in rest] == [*texts[::-1], OPENING]


def test_what_was_told_more_often_or_later_holds(told):
    one, two = step("a", "north", "b"), step("a", "north", "c")
    walk = STAND.format("a", "north")
    for texts, end in (((one, two), "c"), ((two, one), "b"), ((one, one, two), "b")):
        system = told(*texts)
        assert system.recall("a", walk)[0].text.endswith(f"come to {end}.")
        assert len(map_of(system).told) == 2


def test_what_is_taught_later_joins_the_map(make):
    system = make()
    system.teach("a", facts(OPENING, step("a", "north", "b"), step("b", "east", "c"),
                            step("c", "south", "d")))  # fmt: skip
    question = LENGTH.format("a", "d")
    assert "NES, 3 steps" in system.recall("a", question)[0].text
    # A shorter way is known now.
    system.teach("a", [Text(step("a", "east", "d"), 4), Text(step("d", "east", "e"), 5)])
    assert "E, 1 step" in system.recall("a", question)[0].text
    assert "EE, 2 steps" in system.recall("a", LENGTH.format("a", "e"))[0].text
