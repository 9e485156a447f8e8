"""The drawings and the episodes of the chapter on memory."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from helpers_model import ROOT

from rulerlib.memory import presets
from rulerlib.memory.suites import SUITES, Recipe

pytest.importorskip("sphinx")

from book import drawings, episodes

CHAPTER = (ROOT / "book" / "memory.md").read_text("utf-8")
STYLES = (ROOT / "book" / "_static" / "book.css").read_text("utf-8")
SVG = "{http://www.w3.org/2000/svg}"


def test_the_chapter_shows_each_drawing_once_and_names_each_suite_and_preset():
    shown = re.findall(r"\{ruler-drawing\} (\w+)", CHAPTER)
    assert sorted(shown) == sorted(drawings.DRAWINGS)
    assert {*re.findall(r"\{ruler-episode\} (\w+)", CHAPTER)} <= {*SUITES}
    assert all(f"`{suite}`" in CHAPTER for suite in SUITES)
    assert all(f"| `{name}` |" in CHAPTER for name in presets.NAMES)


@pytest.mark.parametrize("name", drawings.DRAWINGS)
def test_a_drawing_is_svg_that_stays_on_its_sheet_and_says_what_it_shows(name):
    drawing = drawings.DRAWINGS[name]()
    root = ElementTree.fromstring(drawing.svg())
    _, _, wide, high = map(float, root.get("viewBox").split())
    said = {each.get("id"): each.text for each in root if each.tag in (f"{SVG}title", f"{SVG}desc")}
    assert root.get("aria-labelledby").split() == list(said)
    assert all(len(text) > 10 for text in said.values())
    for each in root.iter(f"{SVG}rect"):
        x, y, width, height = (float(each.get(key)) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + width <= wide
        assert 0 <= y <= y + height <= high
    for each in root.iter(f"{SVG}circle"):
        x, y, radius = (float(each.get(key)) for key in ("cx", "cy", "r"))
        assert radius <= x <= wide - radius
        assert radius <= y <= high - radius
    for each in root.iter(f"{SVG}text"):
        # Letters of a plain font are on average about half as wide as high.
        x, y, half = float(each.get("x")), float(each.get("y")), 0.26 * float(each.get("font-size"))
        length = half * 2 * len(each.text)
        left = x - length * {"start": 0, "middle": 0.5, "end": 1}[each.get("text-anchor")]
        assert -2 <= left <= left + length <= wide + 2, each.text
        assert 0 <= y <= high
    # Lines take the colour of the page's text; accents come from its style sheet.
    assert not re.search(r"#[0-9a-f]{3}|rgb|(?:fill|stroke)=", drawing.svg())
    known = {"line", "head", *re.findall(r"\.(\w+)", STYLES)}
    assert {name for each in root.iter() for name in (each.get("class") or "").split()} - {
        "ruler-drawing"
    } <= known


def test_the_way_on_the_map_is_a_shortest_one():
    """Read off the drawing: the lines are the steps, and the way is drawn over them."""
    networkx = pytest.importorskip("networkx")
    root = ElementTree.fromstring(drawings.smpd().svg())
    graph, way = networkx.Graph(), networkx.Graph()
    places = {(each.get("cx"), each.get("cy")) for each in root.iter(f"{SVG}circle")}
    for each in root.iter(f"{SVG}path"):
        ends = re.findall(r"[ML]?([\d.]+) ([\d.]+)", each.get("d"))
        if len(ends) == 2 and {*ends} <= places:
            (way if "two" in each.get("class") else graph).add_edge(*ends)
    start, goal = (place for place, degree in way.degree if degree == 1)
    assert all(graph.has_edge(*edge) for edge in way.edges)
    assert way.number_of_edges() == networkx.shortest_path_length(graph, start, goal) == 4


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
