"""Reading: what the suites tell and ask is read back as they meant it, by the pack's wording alone.

The text of a fact is compared with its values.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from rulerlib import languages
from rulerlib.memory.episodes import Episode, Fact
from rulerlib.memory.reading import Reader
from rulerlib.memory.suites import Recipe

CODES = ("da", "en")
DATED = {"facts": 60, "hop_depth": 4, "contradictions": "date"}


@functools.cache
def reader(code: str) -> Reader:
    return Reader(languages.load(code))


@functools.cache
def made(suite: str, code: str, size: int, probes: int, knobs: tuple) -> tuple[Episode, ...]:
    recipe = Recipe(suite, size, language=code, probes=probes, changes=dict(knobs))
    return tuple(recipe)


def episodes(
    suite: str, code: str, size: int = 40, probes: int = 1, **knobs: Any
) -> tuple[Episode, ...]:
    return made(suite, code, size, probes, tuple(knobs.items()))


def said(fact: Fact) -> dict[str, str]:
    """Return what a fact says by its values."""
    return {name: fact.value(name) for name in fact.values}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("suite", "knobs", "kinds"),
    [
        ("semantic", {}, {"relation"}),
        ("semantic", DATED, {"relation"}),
        ("episodic", {"facts": 100}, {"event"}),
        ("spatial", {}, {"step", "opening"}),
        ("spatial", {"grid_size": 8}, {"step", "opening"}),
    ],
)
def test_facts_are_read_back(code: str, suite: str, knobs: dict, kinds: set[str]) -> None:
    """Every value of every fact, thousands of them, and nothing else."""
    size = 5 if knobs.get("grid_size") else 30
    found, deeds = set(), languages.load(code).section("episodic")["events"]["deeds"].values()
    for episode in episodes(suite, code, size, **knobs):
        for fact in episode.facts:
            read = reader(code).fact(fact.text)
            assert read, fact.text
            values = dict(read.values)
            if read.kind == "event":
                deed = values.pop("did")
                assert deed in {each["did"] for each in deeds}
                assert f" {deed} " in fact.text
            assert values == said(fact)
            found.add(read.kind)
    assert found == kinds


def test_genitives() -> None:
    danish, english = reader("da"), reader("en")
    assert danish.question("Hvor bor Ulruns lærer?").values == {"start": "Ulrun"}
    assert danish.question("Hvor bor Boas' lærer?").values == {"start": "Boas"}
    # After an s no other one is written.
    assert danish.question("Hvor bor Boass lærer?") is None
    asked = english.question("Where does Boas's doctor's teacher live?")
    assert (asked.values["start"], asked.path) == ("Boas", ("doctor", "teacher", "home"))
