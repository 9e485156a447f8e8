"""The page "Move the needle" as a reader sees it: what stands on one screen, and what it says."""

from __future__ import annotations

import itertools
import re

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
    parts = (reader.depth, reader.length, reader.button("Ask the model"), reader.answer)
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


def test_the_setting_lives_in_the_address(reader, browser, address):
    page = reader.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_label(LABELS["language"]).select_option("en")
    expect(reader.prompt).to_have_attribute("lang", "en")
    page.wait_for_url("**#language=en")
    reader.depth.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**#language=en&depth=1")
    reader.press("Another needle")
    page.get_by_text(LABELS["own"]).click()
    needle = page.get_by_role("textbox", name=LABELS["needle"])
    needle.fill("Æble & {key} #1: {value}.")
    expect(reader.prompt.locator("mark.needle")).to_contain_text("Æble &")
    reader.press("Copy link")
    expect(page.get_by_text("The link is copied.").first).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    shown = reader.prompt.inner_text()

    # The link opens the same prompt; the back button goes back by what was settled on.
    other = Reader(browser, address)
    other.page.goto("about:blank")
    other.page.goto(link)
    expect(other.prompt.locator("mark.needle")).to_contain_text("Æble &")
    assert other.prompt.inner_text() == shown
    other.close()
    for known in ("#language=en&depth=1&index=1", "#language=en&depth=1", "#language=en", ""):
        page.go_back()
        page.wait_for_url(
            lambda url, known=known: url.endswith(f"needle.html{known}"), timeout=60_000
        )
    expect(reader.prompt).to_have_attribute("lang", "da")
    expect(reader.depth).to_have_attribute("aria-valuetext", "50 %")


def test_a_link_that_is_wrong_does_no_harm(reader):
    reader.page.evaluate("location.hash = 'language=xx&depth=999&length=abc&index=-1&distractors='")
    expect(reader.depth).to_have_attribute("aria-valuetext", "100 %")
    expect(reader.prompt.locator("mark.needle")).to_be_visible()
    assert reader.page.get_by_label(LABELS["language"]).input_value() == "da"
    assert reader.page.get_by_label("Variant").input_value() == "0"


def test_it_shows_where_the_model_looked_while_the_prompt_is_the_one_that_was_asked(reader):
    looked = reader.page.locator("[data-part=looked]")
    expect(looked).to_be_hidden()
    shown = reader.prompt.inner_text()
    reader.press("Ask the model")
    expect(looked).to_be_visible()
    told = looked.get_by_role("img").get_attribute("aria-label")
    shares = [int(share) for share in re.findall(r"(\d+) %", told)]
    assert 10 < sum(shares) <= 102
    # The marks change no word of the prompt.
    assert reader.prompt.inner_text() == shown
    assert reader.prompt.locator(".took").count() > 0
    pieces = looked.get_by_role("button")
    assert pieces.first.get_attribute("aria-pressed") == "true"
    pieces.nth(1).focus()
    reader.page.keyboard.press("Enter")
    expect(pieces.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(pieces.nth(1)).to_be_focused()
    assert looked.get_by_role("img").get_attribute("aria-label") != told
    assert reader.prompt.inner_text() == shown
    # Another prompt was not asked.
    reader.depth.focus()
    reader.page.keyboard.press("Home")
    expect(looked).to_be_hidden()
    expect(reader.prompt.locator(".took")).to_have_count(0)


def test_a_cell_of_the_heatmap_leads_to_its_answer_or_asks(reader):
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("at depth 50 %")
    cells = reader.page.locator("[data-part=cells] button")
    expect(cells).to_have_count(10)
    cells.nth(0).click()
    expect(reader.answer).to_contain_text("at depth 0 %")
    expect(reader.depth).to_have_attribute("aria-valuetext", "0 %")
    reader.page.locator("[data-part=cells] button", has_text="1 of 1").nth(1).click()
    expect(reader.answer).to_contain_text("at depth 50 %")
    expect(reader.depth).to_have_attribute("aria-valuetext", "50 %")
