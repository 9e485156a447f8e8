"""What pages load and say of themselves, and what the first page opens with."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

pytest.importorskip("sphinx_book_theme", reason="the site needs rulerlib[book]")
bs4 = pytest.importorskip("bs4")

from helpers_book import ROOT, opened  # noqa: E402

from book import front, styles, theme  # noqa: E402

# A page without figures, with all that it loads, uncompressed.
LIGHT = 400_000


def test_the_claim_of_the_first_page_follows_from_the_published_table():
    """Counted again from the averages, with the standard library alone."""
    units = {"K": 2**10, "M": 2**20}
    lengths = [2**power for power in range(12, 18)]
    whole, less, quarter, beyond, said = 0, 0, 0, 0, {}
    with front.TABLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        claimed = int(row["claimed_length"][:-1]) * units[row["claimed_length"][-1].upper()]
        measured = [length for length in lengths if row[str(length)] not in ("", "-")]
        used = max((each for each in measured if float(row[str(each)]) > 85.6), default=0)
        open_end = used == measured[-1]
        whole += used >= claimed
        less += used < claimed and not open_end
        beyond += used < claimed and open_end
        quarter += used < claimed and not open_end and used * 4 <= claimed
        for name in (row["model"], f"{row['model']} ({row['size']})"):
            said[name] = f"uses {'≥' * open_end}{used // 1024}K"
    found = front.reaches()
    assert re.findall(r"\d+", front.claim(found)) == [
        str(count) for count in (len(rows), whole, less, quarter, beyond)
    ]
    shown = front.chosen(found)
    assert len(shown) == len(front.SHOWN) == 12
    picture = front.PICTURE.read_text("utf-8")
    assert picture == "\n".join(front.drawing(shown, front.STYLE)) + "\n", "python -m book.front"
    svg = bs4.BeautifulSoup(picture, "html.parser")
    titles = [title.get_text() for title in svg.find_all("title")]
    assert [title.partition(": ")[0] for title in titles] == [reach.model for reach in shown]
    assert all(title.endswith(said[title.partition(": ")[0]]) for title in titles)
    readme = (ROOT / "README.md").read_text("utf-8")
    for text in (front.claim(found), front.in_danish(), svg.svg["aria-label"]):
        assert text in readme


def test_rules_for_what_no_page_has_are_left_out_and_others_stay():
    sheet = """
        :root { --a: 1px } body, .row { margin: 0 } .card .title, .row > a { color: red }
        @media (min-width: 5em) { .card { x: y } .row { z: 1 } }
        @media print { .card { x: y } } @font-face { font-family: F }
        .a\\:b { c: d } .bs-tooltip-top { e: f } :is(.card, .row) { g: h }
    """
    lean = re.sub(r"\s+", " ", styles.kept(sheet, {"row"}))
    assert "body,.row { margin: 0 }" in lean
    assert ".row > a { color: red }" in lean
    assert "title" not in lean
    assert "@media (min-width: 5em) { .row { z: 1 } }" in lean
    assert "print" not in lean
    assert all(part in lean for part in ("--a", "@font-face", ".a\\:b", ".bs-tooltip-top"))


def test_a_theme_that_loads_its_files_in_another_way_is_refused():
    with pytest.raises(ValueError, match=r"book/theme\.py must follow"):
        theme.lighter("<link href='other.css'>")


def test_a_page_says_what_it_is_about_and_previews_need_an_address():
    page = bs4.BeautifulSoup("\n".join(theme.described('A "b"', "c & d", "", "x")), "html.parser")
    assert page.find("meta", {"name": "description"})["content"] == "c & d"
    assert page.find("meta", {"property": "og:title"})["content"] == 'A "b"'
    assert not page.find("meta", {"property": "og:image"})
    there = "\n".join(theme.described("A", "", "https://example.org/book/", "x"))
    assert '"https://example.org/book/_static/preview.png"' in there
    assert (ROOT / "book" / "_static" / "preview.png").exists()


def loaded(browser, address, path):
    """What a page loads, by file name: bytes, uncompressed; and the page."""
    page, wrong = opened(browser, address, path)
    page.wait_for_load_state("networkidle")
    sizes = page.evaluate(
        "performance.getEntries().filter(e => e.decodedBodySize !== undefined)"
        ".map(e => [new URL(e.name).pathname, e.decodedBodySize])"
    )
    assert not wrong
    return {Path(name).name: size for name, size in sizes}, page


@pytest.mark.slow
def test_the_first_page_is_light_and_shows_a_claim_a_figure_and_a_way_to_try_it(browser, address):
    sizes, page = loaded(browser, address, "book/index")
    assert sum(sizes.values()) < LIGHT, sizes
    assert "tex-chtml.js" not in sizes
    for width, height in ((1300, 850), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        for part in (".claim", "svg.ruler-front", "a.sd-btn-primary", "a.sd-btn-outline-primary"):
            box = page.locator(f".ruler-opening {part}").bounding_box()
            assert box["y"] + box["height"] <= height, f"{part} lies below the fold at {width}"
    page.locator(".ruler-opening a.sd-btn-outline-primary").click()
    page.wait_for_url("**/book/needle.html")
    page.context.close()


@pytest.mark.slow
def test_icons_are_drawn_and_formulas_load_where_there_are_some(browser, address):
    sizes, page = loaded(browser, address, "book/methods")
    assert "tex-chtml.js" in sizes
    (icons,) = (size for name, size in sizes.items() if re.fullmatch(r"icons-\w+\.woff", name))
    assert icons < 5_000
    drawn = page.evaluate(
        """() => [...document.querySelectorAll("i.fa-solid, i.fas")].map(icon => [
            icon.className, getComputedStyle(icon, "::before").content])"""
    )
    assert drawn
    assert not [name for name, content in drawn if content in ("none", "normal")]
    page.context.close()


@pytest.mark.slow
def test_the_explorer_leads_from_a_mean_to_its_answers(browser, address):
    page, wrong = opened(browser, address, "book/explore")
    page.get_by_role("link", name="Open the explorer").click()
    page.wait_for_url("**/explore/index.html")
    page.locator("select[name=model]").select_option(label="lille, dtype float32")
    row = page.locator("tbody tr", has_text="niah_multivalue").filter(has_text="512").first
    row.get_by_role("link").click()
    sample = page.locator("dialog")
    sample.get_by_text("Wanted").first.wait_for()
    assert "512 tokens" in sample.inner_text()
    assert not wrong
    page.context.close()
