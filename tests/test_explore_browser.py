"""The explorer in a real browser that reaches only this machine."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from helpers_book import served
from helpers_explore import SCRIPT, write_runs

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("pandas")

from book import by_language, explorer, leaderboard  # noqa: E402
from rulerlib import explore  # noqa: E402

expect = playwright.expect


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of the explorer, served from a subfolder as on a file share."""
    place = tmp_path_factory.mktemp("served")
    explore.write(write_runs(place / "runs"), place / "some" / "where")
    shutil.rmtree(place / "runs")
    with served(place) as address:
        yield f"{address}/some/where/index.html"


class Reader:
    """A page with its errors and its requests."""

    def __init__(self, browser, address, view="", **options):
        self.page = browser.new_context(accept_downloads=True, **options).new_page()
        self.page.set_default_timeout(60_000)
        self.wrong, self.fetched = [], []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.wrong.append(said.text))
        self.page.on("request", lambda request: self.fetched.append(request.url))
        self.page.goto(f"{address}#{view}")
        expect(self.page.locator("#said")).to_contain_text("70 answers in 10 cells")
        # The view may have to be fetched.
        expect(self.page.locator("#table-said")).not_to_be_empty()

    def column(self, number):
        return self.page.locator(f"#table tbody td:nth-child({number})").all_inner_texts()

    def choose(self, name, value):
        self.page.locator(f"select[name={name}]").select_option(value)

    def view(self):
        return self.page.evaluate("decodeURIComponent(location.hash)")


@pytest.fixture
def reader(browser, address):
    readers = []

    def opened(view="", **options):
        readers.append(Reader(browser, address, view, **options))
        return readers[-1]

    yield opened
    for each in readers:
        each.page.context.close()
        assert not each.wrong
        assert all(url.startswith((address.rsplit("/", 1)[0], "blob:")) for url in each.fetched)


def test_the_table_sorts_and_filters_and_the_address_keeps_the_view(reader):
    own = reader(viewport={"width": 1280, "height": 900})
    page = own.page
    assert len(own.column(1)) == 10
    page.get_by_role("button", name="mean, %").click()
    header = page.locator("th", has_text="mean, %")
    expect(header).to_have_attribute("aria-sort", "descending")
    assert own.column(3) == ["71.4"] * 6 + ["28.6"] * 4
    own.choose("model", "poor")
    expect(page.locator("#table tbody tr")).to_have_count(4)
    own.choose("language", "da")
    expect(page.locator("#table tbody tr")).to_have_count(2)
    assert own.view() == "#sort=-mean&model=poor&language=da"
    page.go_back()
    expect(page.locator("#table tbody tr")).to_have_count(4)
    page.get_by_role("button", name="Show all").click()
    page.get_by_label("complete models only").check()
    expect(page.locator("#table tbody tr")).to_have_count(6)
    curve = page.locator("#curve svg")
    expect(curve).to_have_attribute("aria-label", re.compile("niah_multiquery"))
    assert page.locator("#heatmap svg a").count() == 3


def test_answers_can_be_read_with_the_keyboard_alone(reader, address):
    own = reader()
    page = own.page
    link = page.get_by_role("link", name="28.6%, 7 samples of poor, da, niah_single_2, 800")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#sample h3")).to_contain_text("Sample 0: ✗")
    for wanted in ("2", "3"):
        page.keyboard.press("n")
        expect(page.locator("#sample h3")).to_contain_text(f"Sample {wanted}: ✗")
    assert own.view().endswith("sample=3")
    assert page.locator("#samples li").count() == 7
    page.get_by_label("wrong only").focus()
    page.keyboard.press("Space")
    expect(page.locator("#samples li")).to_have_count(5)
    # The address can be shared.
    other = reader("cell=poor|da|800|niah_single_2&sample=4")
    expect(other.page.locator("#sample h3")).to_contain_text("Sample 4: ✓ right")


def test_answers_are_shown_as_text_and_parts_are_marked(reader):
    page = reader("cell=good|da|800|niah_multiquery&sample=4").page
    answer = page.get_by_role("group", name="Answer")
    expect(answer).to_contain_text(SCRIPT)
    assert answer.get_attribute("lang") == "da"
    assert page.evaluate("window.harmed") is None
    assert answer.locator("script, img").count() == 0
    prompt = page.get_by_role("group", name="Prompt", exact=True)
    wanted = page.get_by_role("group", name="Reference").inner_text().split("\n")
    expect(prompt.locator("mark.needle")).to_have_count(4)
    assert {*wanted} <= {*prompt.locator("mark.value").all_inner_texts()}
    assert "niah_multiquery" in page.locator("#sample code").inner_text()
    assert "characters …" in prompt.inner_text()


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The address of a leaderboard with the published tables."""
    place = tmp_path_factory.mktemp("board")
    published = leaderboard.rows(leaderboard.read_table(explorer.PUBLISHED), explorer.FACTS)
    explore.write(write_runs(place / "runs"), place / "out")
    listed = place / "out" / "leaderboard.json"
    rows = json.loads(listed.read_text("utf-8"))["rows"]
    second = by_language.rows(by_language.read_table(explorer.BY_LANGUAGE))
    listed.write_text(json.dumps({"rows": [*rows, *published, *second]}))
    with served(place / "out") as address:
        yield f"{address}/leaderboard.html", published


def test_the_leaderboard_sorts_filters_and_draws_claims(browser, board):
    address, published = board
    page = browser.new_context().new_page()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
    page.goto(address)
    rows = page.locator("#table tbody tr")
    expect(rows).to_have_count(len(published) + 4)
    page.locator("select[name=kind]").select_option("published")
    expect(rows).to_have_count(len(published))
    names = page.locator("#table tbody td:first-child")
    # Sorted by effective length, then by average.
    order = {row["model"]: (row["reach"], row["avg"]) for row in published}
    shown = [name.split("\n")[0] for name in names.all_inner_texts()]
    assert [order[name] for name in shown] == sorted(order.values(), reverse=True)
    page.locator("select[name=claimed]").select_option(str(1024**2))
    claiming = [row for row in published if row.get("claimed", 0) >= 1024**2]
    expect(rows).to_have_count(len(claiming))
    drawn = page.locator("#claims svg")
    expect(drawn.locator("circle.effective")).to_have_count(len(claiming) + 1)
    said = drawn.get_attribute("aria-label")
    for row in claiming:
        assert f"{row['model']}, en: claims 1M, effective {row['effective']}" in said
    assert not wrong
