"""The page "Move the needle" as a reader sees it: what stands on one screen, and what it says."""

from __future__ import annotations

import base64
import io
import itertools
import re

import pytest

pytest.importorskip("sphinx_book_theme", reason="the site needs rulerlib[book]")
playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("torch")

from helpers_needle import Reader  # noqa: E402

from book.needle_tasks import TASKS  # noqa: E402
from book.needle_words import DANISH, translated  # noqa: E402
from rulerlib.errors import DataError  # noqa: E402
from rulerlib.playground.page import LABELS  # noqa: E402

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


def test_the_setting_lives_in_the_address(reader, browser, address):
    page = reader.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_label(LABELS["language"]).select_option("en")
    expect(reader.prompt).to_have_attribute("lang", "en")
    page.wait_for_url("**#language=en")
    reader.depth.focus()
    # One key, because two keys with a pause between them are two steps of the back button.
    page.keyboard.press("Home")
    page.wait_for_url("**#language=en&depth=0")
    reader.press("Another needle")
    page.get_by_text(LABELS["own"]).click()
    page.get_by_role("textbox", name=LABELS["needle"]).fill("Æble & {key} #1: {value}.")
    expect(reader.prompt.locator("mark.needle")).to_contain_text("Æble &")
    reader.press("Copy link")
    expect(page.get_by_text("The link is copied.").first).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    page.wait_for_url(link)
    shown = reader.prompt.inner_text()

    # The link opens the same prompt; the back button goes back by what was settled on.
    other = Reader(browser, address)
    other.page.goto("about:blank")
    other.page.goto(link)
    expect(other.prompt.locator("mark.needle")).to_contain_text("Æble &")
    assert other.prompt.inner_text() == shown
    other.close()
    for known in ("#language=en&depth=0&index=1", "#language=en&depth=0", "#language=en", ""):
        page.go_back()
        page.wait_for_url(
            lambda url, known=known: url.endswith(f"needle.html{known}"), timeout=60_000
        )
    expect(reader.prompt).to_have_attribute("lang", "da")
    expect(reader.depth).to_have_attribute("aria-valuetext", "50 %")


def test_a_link_that_is_wrong_does_no_harm(reader):
    reader.page.evaluate("location.hash = 'language=xx&depth=999&length=abc&index=-1&task='")
    expect(reader.depth).to_have_attribute("aria-valuetext", "100 %")
    expect(reader.prompt.locator("mark.needle")).to_be_visible()
    assert reader.page.get_by_label(LABELS["language"]).input_value() == "da"
    assert reader.page.get_by_label("Task").input_value() == "one"


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


@pytest.mark.parametrize("task", [task for task in TASKS if task != "one"])
def test_other_tasks_are_asked_and_judged_by_all_that_is_wanted(reader, task):
    reader.page.get_by_label("Task").select_option(task)
    reader.page.wait_for_url(f"**#task={task}")
    own = reader.page.locator("[data-part=own]")
    expect(own).to_be_visible(visible=TASKS[task].own)
    reader.press("Ask the model")
    said = reader.answer.locator(".said")
    expect(said).to_be_visible()
    wanted = reader.answer.get_by_text("Wanted:").inner_text().removeprefix("Wanted: ").split(", ")
    assert len(wanted) == {"keys": 1, "queries": 4, "values": 4, "needles": 1, "chains": 5}[task]
    shown = reader.prompt.inner_text()
    assert all(value in shown for value in wanted)
    found = sum(value in said.inner_text() for value in wanted)
    verdict = reader.answer.locator("b").inner_text()
    if found == len(wanted):
        assert verdict.startswith("Right")
        assert reader.answer.get_attribute("class") in ("say good", "say fair")
    else:
        assert verdict.startswith("Partly right" if found else "Wrong")
        assert reader.answer.get_attribute("class") == "say bad"
    cells = [cell for (row,) in [reader.cells().values()] for cell in row if cell != "not asked"]
    assert cells == [f"{found} of {len(wanted)}"]
    # The needle that is moved is in sight, wherever it stands.
    for key, share in (("Home", "0 %"), ("End", "100 %")):
        reader.depth.focus()
        reader.page.keyboard.press(key)
        expect(reader.depth).to_have_attribute("aria-valuetext", share)
        reader.page.wait_for_function(
            """prompt => { const marks = prompt.querySelectorAll("mark.moved"),
            top = marks[0]?.getBoundingClientRect().top - prompt.getBoundingClientRect().top;
            return marks.length === 1 && -1 <= top && top <= prompt.offsetHeight; }""",
            arg=reader.prompt.element_handle(),
        )


def test_it_finds_where_the_model_breaks(reader):
    """One needle is found at every length, so that four values are asked for."""
    reader.press("Ask the model")
    expect(reader.answer.locator(".said")).to_be_visible()
    reader.press("Where it breaks")
    first = reader.answer.locator("b").first
    expect(first).to_contain_text("It breaks at")
    assert reader.page.get_by_label("Task").input_value() == "values"
    broken = re.search(r"breaks at ([\d,]+) tokens", first.inner_text())[1]
    assert reader.length.get_attribute("aria-valuetext") == broken
    cells = {length: row for length, row in reader.cells().items() if "of" in str(row)}
    assert ["4 of 4" in row for row in cells.values()] == [True] * (len(cells) - 1) + [False]


def test_a_needle_is_lost_from_a_cache_and_found_in_the_whole_one(reader):
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("Right. (at depth 50 %")
    dropped = reader.page.get_by_label("Dropped from the cache")
    dropped.select_option("oldest-75")
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("Dropped from the cache: the oldest 75 %")
    expect(reader.answer).to_contain_text("Wrong")
    expect(reader.answer).to_contain_text("Of the needle, 0 % is left in the cache.")
    reader.page.wait_for_url(lambda url: "drop=oldest-75" in url)
    dropped.select_option("")
    assert reader.cells()["1,000"].count("1 of 1") == 1


def test_an_answer_is_kept_to_compare_with(reader):
    expect(reader.button("Compare")).to_have_attribute("aria-disabled", "true")
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("at depth 50 %")
    reader.press("Compare")
    kept = reader.page.locator("[data-part=kept]")
    expect(kept).to_contain_text("at depth 50 %, 1,000 tokens")
    expect(kept.get_by_role("img")).to_be_visible()
    reader.depth.focus()
    reader.page.keyboard.press("Home")
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("at depth 0 %")
    expect(kept).to_contain_text("at depth 50 %")
    reader.press("Compare")
    expect(kept).to_be_hidden()


def test_a_picture_of_it_is_copied(reader):
    image = pytest.importorskip("PIL.Image")
    reader.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("Right")
    reader.press("Copy picture")
    expect(reader.page.get_by_text("The picture is copied.").first).to_be_visible()
    copied = reader.page.evaluate(
        """async () => {
            const [item] = await navigator.clipboard.read();
            const bytes = new Uint8Array(await (await item.getType("image/png")).arrayBuffer());
            return btoa(String.fromCharCode(...bytes));
        }"""
    )
    drawn = image.open(io.BytesIO(base64.b64decode(copied))).convert("RGB")
    assert drawn.width == 1200
    assert 400 < drawn.height < 900
    colours = {colour for _, colour in drawn.getcolors(1 << 20)}
    # The needle, where it looked, and that it was right.
    assert {(0xF5, 0x9E, 0x0B), (0x7C, 0x3A, 0xED), (0x16, 0xA3, 0x4A)} <= colours


def test_the_controls_speak_danish_and_the_page_remembers(reader):
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("Right")
    reader.page.get_by_label("Controls speak").select_option("da")
    expect(reader.answer).to_contain_text("Rigtigt. (ved dybde 50 %, 1.000 tokens")
    root = reader.page.locator(".ruler-needle")
    expect(root).to_have_attribute("lang", "da")
    said = root.inner_text()
    for english in ("Ask the model", "Where it breaks", "haystack", "Copy", "Found", "Task"):
        assert english not in said, english
    reader.page.get_by_text("Dine egne ord").click()
    reader.page.get_by_role("textbox", name="Nål").fill("intet")
    expect(reader.alert).to_contain_text("Nål er “intet”, men skal være en sætning")
    reader.page.reload()
    expect(reader.button("Spørg modellen (henter")).to_be_visible()
    reader.page.get_by_label("Knapperne taler").select_option("en")
    expect(reader.button("Ask the model (loads")).to_be_visible()
    expect(reader.page.get_by_label("Controls speak")).to_be_visible()


def test_a_text_without_danish_stops_the_build():
    page = {"labels": {"ask": "Ask the model"}, "rows": [0, 100]}
    made = translated(page, ['<b title="Stop">1</b>'], "1.0 MB")
    assert made["labels"] == {"ask": DANISH["Ask the model"]}
    assert made["rows"] == [0, 100]
    assert made["controls"] == {"Stop": "Stop", "1": "1"}
    with pytest.raises(DataError, match="no Danish for: Something new"):
        translated(page, ["<b>Something new</b>"], "1.0 MB")
