"""The explorer as a reader has it: in a real browser that reaches this machine alone."""

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
    """Where the explorer is served: below other folders, as on a file share."""
    place = tmp_path_factory.mktemp("served")
    explore.write(write_runs(place / "runs"), place / "some" / "where", prompts=True)
    shutil.rmtree(place / "runs")
    with served(place) as address:
        yield f"{address}/some/where/index.html"


class Reader:
    """A page, what went wrong on it, and what it fetched."""

    def __init__(self, browser, address, view="", **options):
        self.page = browser.new_context(accept_downloads=True, **options).new_page()
        self.page.set_default_timeout(60_000)
        self.wrong, self.fetched = [], []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.wrong.append(said.text))
        self.page.on("request", lambda request: self.fetched.append(request.url))
        self.page.goto(f"{address}#{view}")
        expect(self.page.locator("#said")).to_contain_text("70 answers in 10 cells")
        # What the view asks for may have to be fetched.
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


def test_it_sorts_and_filters_and_the_address_keeps_the_view(reader, tmp_path):
    own = reader(viewport={"width": 1280, "height": 900})
    page = own.page
    assert len(own.column(1)) == 10
    page.get_by_role("button", name="mean, %").click()
    header = page.locator("th", has_text="mean, %")
    expect(header).to_have_attribute("aria-sort", "descending")
    assert own.column(3) == ["71.4"] * 6 + ["28.6"] * 4
    # By keyboard, the focus stays on the column's name.
    page.keyboard.press("Enter")
    expect(header).to_have_attribute("aria-sort", "ascending")
    assert own.column(3) == ["28.6"] * 4 + ["71.4"] * 6
    own.choose("model", "poor")
    expect(page.locator("#table tbody tr")).to_have_count(4)
    own.choose("language", "da")
    expect(page.locator("#table tbody tr")).to_have_count(2)
    assert own.view() == "#sort=mean&model=poor&language=da"
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    download.value.save_as(tmp_path / "shown.csv")
    first, *rest = (tmp_path / "shown.csv").read_text("utf-8").splitlines()
    assert first == "task,length,mean,low,high,n,model,language,measure"
    assert [line.split(",")[1] for line in rest] == ["400", "800"]
    page.go_back()
    expect(page.locator("#table tbody tr")).to_have_count(4)
    expect(page.locator("select[name=language]")).to_have_value("")
    page.get_by_role("button", name="Show all").click()
    page.get_by_label("complete models only").check()
    expect(page.locator("#table tbody tr")).to_have_count(6)
    own.choose("measure", "recall")
    expect(page.locator("#table tbody tr td:nth-child(8)").first).to_have_text("recall")
    # Both charts are there, in words too.
    expect(page.locator("#curve svg")).to_have_attribute(
        "aria-label", re.compile("niah_multiquery")
    )
    assert page.locator("#heatmap svg a").count() == 3


def test_comparisons_stand_with_their_intervals_either_way_round(reader):
    own = reader("first=good&second=poor")
    assert own.column(9) == ["da", "da", "en", "en"]
    assert own.column(3) == ["+42.9"] * 4
    assert "on the samples that both were asked" in own.page.locator("#table-said").inner_text()
    own.choose("first", "poor")
    own.choose("second", "good")
    expect(own.page.locator("#table-said")).to_contain_text("poor minus good")
    assert own.column(3) == ["-42.9"] * 4
    own.choose("first", "da")
    own.choose("second", "en")
    expect(own.page.locator("#table-said")).to_contain_text("samples that are not the same")


def test_percents_are_rounded_as_in_python(reader):
    """Of two numbers that are as near the page takes the even one: 5 of 80 are 6.2 %."""
    shares = [right / n for n in (40, 80, 400) for right in range(1, n)]
    code = "async (shares) => shares.map((await import('./data.js')).percent)"
    assert reader().page.evaluate(code, shares) == [f"{100 * share:.1f}" for share in shares]


def test_answers_by_keyboard_alone(reader, address):
    own = reader()
    page = own.page
    link = page.get_by_role("link", name="28.6 %, 7 samples of poor, da, niah_single_2, 800")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#sample h3")).to_contain_text("Sample 0: ✗")
    for wanted in ("2", "3", "5"):
        page.keyboard.press("n")
        expect(page.locator("#sample h3")).to_contain_text(f"Sample {wanted}: ✗")
    page.keyboard.press("p")
    expect(page.locator("#sample h3")).to_contain_text("Sample 3: ✗")
    assert "cell=poor|da|800|niah_single_2" in own.view()
    assert own.view().endswith("sample=3")
    assert page.locator("#samples li").count() == 7
    page.get_by_label("wrong only").focus()
    page.keyboard.press("Space")
    expect(page.locator("#samples li")).to_have_count(5)
    # Of the wrong answers, those in which a text stands.
    wanted = page.get_by_role("group", name="Wanted").inner_text()
    page.get_by_label("Answer, wanted or mistake").fill(wanted.upper())
    expect(page.locator("#samples li")).to_have_count(1)
    expect(page.locator("#sample")).to_contain_text(wanted)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("#cell")).to_be_hidden()
    page.wait_for_function("location.hash === ''")
    page.go_back()
    expect(page.locator("#cell")).to_be_visible()
    # The place that stands in the address is the place that another reader gets.
    other = reader("cell=poor|da|800|niah_single_2&sample=4")
    expect(other.page.locator("#sample h3")).to_contain_text("Sample 4: ✓ right")


def test_arrow_keys_lead_through_the_heatmap(reader):
    page = reader("by=task&model=good&language=da").page
    page.locator("#heatmap a").first.focus()
    here = "document.activeElement.getAttribute('data-at')"
    assert page.evaluate(here) == "0 0"
    for key, place in (("ArrowRight", "0 1"), ("ArrowDown", "1 1"), ("ArrowRight", "1 1"),
                       ("ArrowUp", "0 1"), ("ArrowLeft", "0 0")):  # fmt: skip
        page.keyboard.press(key)
        assert page.evaluate(here) == place


def test_what_a_model_said_is_text_and_parts_are_marked(reader):
    page = reader("cell=good|da|800|niah_multiquery&sample=4").page
    answer = page.get_by_role("group", name="Answer")
    expect(answer).to_contain_text(SCRIPT)
    assert answer.get_attribute("lang") == "da"
    assert page.evaluate("window.harmed") is None
    assert answer.locator("script, img").count() == 0
    prompt = page.get_by_role("group", name="Prompt", exact=True)
    wanted = page.get_by_role("group", name="Wanted").inner_text().split("\n")
    expect(prompt.locator("mark.needle")).to_have_count(4)
    assert {*wanted} <= {*prompt.locator("mark.value").all_inner_texts()}
    assert "niah_multiquery" in page.locator("#sample code").inner_text()
    folded = prompt.inner_text()
    assert "characters …" in folded
    page.get_by_role("button", name="Whole prompt").click()
    expect(prompt.locator(".gap")).to_have_count(0)
    assert len(prompt.inner_text()) > len(folded)
    assert {*wanted} <= {*prompt.locator("mark.value").all_inner_texts()}


def test_it_fits_a_phone_in_the_dark(reader):
    page = reader(viewport={"width": 390, "height": 844}, color_scheme="dark").page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"
    assert page.locator("#table td:nth-child(3)").first.bounding_box()["x"] < 330, "the score"
    page.locator("#table tbody a").first.click()
    expect(page.locator("#sample h3")).to_contain_text("Sample 0")
    assert page.evaluate("document.querySelector('dialog').scrollWidth") <= 390


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


def test_the_leaderboard_sorts_filters_and_draws_claims(browser, board, tmp_path):
    address, published = board
    page = browser.new_context(accept_downloads=True).new_page()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
    page.goto(address)
    rows = page.locator("#table tbody tr")
    # Those of two models in two languages as well, of some tasks alone.
    expect(rows).to_have_count(len(published) + 4)
    page.locator("select[name=kind]").select_option("published")
    expect(rows).to_have_count(len(published))
    names = page.locator("#table tbody td:first-child")
    # The longest effective length first; of equal ones, the best average.
    order = {row["model"]: (row["reach"], row["avg"]) for row in published}
    shown = [name.split("\n")[0] for name in names.all_inner_texts()]
    assert [order[name] for name in shown] == sorted(order.values(), reverse=True)
    assert page.locator("#table-said").inner_text().count("no interval") == 1
    # At the first click the best is on top, and what was not measured is last, here and there.
    for order in ("descending", "ascending"):
        page.get_by_role("button", name="128K", exact=True).click()
        expect(page.locator("th", has_text="128K")).to_have_attribute("aria-sort", order)
        values = page.locator("#table tbody td:nth-child(9)").all_inner_texts()
        measured = [float(value) for value in values if value != "–"]
        assert measured == sorted(measured, reverse=order == "descending")
        assert 0 < len(measured) < len(values)
        assert values[len(measured) :] == ["–"] * (len(values) - len(measured))
    page.locator("select[name=claimed]").select_option(str(1024**2))
    claiming = [row for row in published if row.get("claimed", 0) >= 1024**2]
    expect(rows).to_have_count(len(claiming))
    # The picture says in words what it draws: which of them use what they claim.
    drawn = page.locator("#claims svg")
    expect(drawn.locator("circle.effective")).to_have_count(len(claiming) + 1)
    said = drawn.get_attribute("aria-label")
    for row in claiming:
        assert f"{row['model']}, en: claims 1M, effective {row['effective']}" in said
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    download.value.save_as(tmp_path / "shown.csv")
    assert len((tmp_path / "shown.csv").read_text("utf-8").splitlines()) == len(claiming) + 1
    page.go_back()
    expect(rows).to_have_count(len(published))
    page.get_by_label("Model has in its name").fill("gemini")
    expect(rows).to_have_count(sum("gemini" in row["model"].lower() for row in published))
    assert not wrong


def test_the_second_table_is_read_by_language_on_a_phone_by_keyboard(browser, board):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"{board[0]}#claimed={1024**2}")
    # The choice of a table is named by its label, and leaves behind what is in no row of it.
    page.get_by_label("Table").focus()
    page.keyboard.press("o")
    rows, said = page.locator("#table tbody tr"), page.locator("#table-said")
    expect(rows).to_have_count(6 * 26)
    assert said.inner_text().startswith("156 of 156 rows; accuracy in needle tasks")
    assert said.inner_text().count("give no n") == 1
    assert page.locator("#charts, [name=claimed], [name=kind]").filter(visible=True).count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    options = page.locator("select[name=language] option").all_inner_texts()
    assert options == ["all", "English", "Danish", *sorted(options[3:])]
    page.get_by_label("Language").select_option(label="Danish")
    expect(rows).to_have_count(6)
    column = page.locator("#table tbody td:nth-child(5)")
    assert column.all_inner_texts() == ["100", "96", "81", "72", "44", "22"]
    page.get_by_role("button", name="loss").click()
    expect(rows.first).to_contain_text("Llama 3.1 8B")
    page.get_by_role("button", name="Show all").click()
    expect(rows).to_have_count(6 * 26)
    page.get_by_label("Table").select_option("RULER")
    expect(rows).to_have_count(len(board[1]) + 4)
    page.close()


def test_a_page_from_a_disk_says_how_it_is_opened(browser, tmp_path):
    explore.write(write_runs(tmp_path / "runs"), tmp_path / "out")
    for name in ("index.html", "leaderboard.html"):
        page = browser.new_page()
        page.goto((tmp_path / "out" / name).as_uri())
        expect(page.locator("#unserved")).to_contain_text("python -m http.server")
        expect(page.locator("#unserved")).to_be_visible()
        page.close()
