"""The drawings and the episodes of the chapter on memory."""

from __future__ import annotations

import re

import pytest
from helpers_model import ROOT

from rulerlib.memory import presets
from rulerlib.memory.suites import SUITES, Recipe

pytest.importorskip("sphinx")

from book import drawings, episodes

CHAPTER = (ROOT / "book" / "memory.md").read_text("utf-8")


def test_the_chapter_shows_each_drawing_once_and_names_each_suite_and_preset():
    shown = re.findall(r"\{ruler-drawing\} (\w+)", CHAPTER)
    assert sorted(shown) == sorted(drawings.DRAWINGS)
    assert {*re.findall(r"\{ruler-episode\} (\w+)", CHAPTER)} <= {*SUITES}
    assert all(f"`{suite}`" in CHAPTER for suite in SUITES)
    assert all(f"| `{name}` |" in CHAPTER for name in presets.NAMES)


@pytest.mark.parametrize("language", ["da", "en"])
@pytest.mark.parametrize("suite", SUITES)
def test_an_example_has_what_its_answer_needs(suite, language):
    episode = Recipe(suite, 1, language=language, profile="easy").episodes.episode(0)
    (probe,) = episode.probes
    lines = list(episodes.shown(episode, probe))
    assert all(fact.text in lines for fact in episode.needed(probe))
    assert lines[: episodes.SHOWN] == [fact.text for fact in episode.facts[: episodes.SHOWN]]
    taught = [line for line in lines if line != "[...]"]
    assert taught == [fact.text for fact in episode.facts if fact.text in taught]
    assert (len(taught) < len(episode.facts)) == ("[...]" in lines)
