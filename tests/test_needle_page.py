"""The page "Move the needle" as a reader sees it: what stands on one screen, and what it says."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("sphinx_book_theme", reason="the site needs rulerlib[book]")
playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("torch")

from helpers_needle import Reader  # noqa: E402

from rulerlib.playground.labels import LABELS  # noqa: E402

expect = playwright.expect


@pytest.fixture
def reader(browser, address):
    reader = Reader(browser, address)
    yield reader
    assert not reader.wrong
    reader.close()


@pytest.mark.parametrize(("width", "height"), [(1300, 850), (390, 844)])
def test_sliders_question_and_answer_stand_on_one_screen(reader, width, height):
    reader.page.set_viewport_size({"width": width, "height": height})
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("Right")
    reader.page.evaluate("scrollTo(0, 0)")
    parts = (reader.depth, reader.length, reader.button("Ask"), reader.answer)
    places = [part.bounding_box() for part in parts]
    for above, below in itertools.pairwise(places[1:]):
        assert above["y"] + above["height"] <= below["y"]
    for place in places:
        assert 0 <= place["y"] <= height - place["height"]
        assert 0 <= place["x"] <= width - place["width"]


def test_after_a_mistake_no_prompt_and_no_answer_of_before_stays(reader):
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("Right")
    reader.page.get_by_text(LABELS["own"]).click()
    needle = reader.page.get_by_role("textbox", name=LABELS["needle"])
    needle.fill("nothing to find")
    expect(reader.alert).to_be_visible()
    for name in ("prompt", "strip", "key", "note"):
        expect(reader.page.locator(f"[data-part={name}]")).to_be_empty()
    expect(reader.answer).to_have_text(LABELS["not asked"])
    needle.fill("")
    expect(reader.prompt.locator("mark.needle")).to_be_visible()
