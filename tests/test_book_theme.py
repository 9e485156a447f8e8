"""What pages load and say of themselves, and what the first page opens with."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("sphinx_book_theme", reason="the site needs rulerlib[book]")
bs4 = pytest.importorskip("bs4")

from helpers_book import ROOT, opened  # noqa: E402

from book import front, styles, theme  # noqa: E402

# A page without figures, with all that it loads, uncompressed.
LIGHT = 400_000


# --- Without a site --------------------------------------------------------------------------


def test_the_claim_of_the_first_page_follows_from_the_results():
    with front.RESULTS.open(newline="", encoding="utf-8") as file:
        rows = [
            row for row in csv.DictReader(file)
            if row["model"] == "lille" and row["language"] == "da" and row["length"] == "8192"
        ]  # fmt: skip
    right = {row["task"]: Counter(row["right"])["1"] for row in rows}
    total = {row["task"]: len(row["right"]) for row in rows}
    said = re.findall(r"\((\d+) of (\d+)\)", front.claim(front.accuracies()))
    names = ("niah_multikey_1", "niah_multivalue")
    assert said == [(str(right[name]), str(total[name])) for name in names]
    picture = front.PICTURE.read_text("utf-8")
    assert picture == "\n".join(front.drawing(front.accuracies(), front.STYLE)) + "\n", (
        "python -m book.front"
    )
    shown = bs4.BeautifulSoup(picture, "html.parser")
    for row in rows:
        (title,) = [
            each for each in shown.find_all("title")
            if each.get_text().startswith(f"{row['task']}, 8,192 tokens")
        ]  # fmt: skip
        assert title.get_text().endswith(f"{float(row['mean']):.0%} of {row['n']}")
    readme = (ROOT / "README.md").read_text("utf-8")
    assert front.claim(front.accuracies()) in readme
    assert shown.svg["aria-label"] in readme


def contrast(one, other):
    """The contrast of two colours by WCAG 2.1, each as "#rrggbb"."""

    def luminance(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("single", "several", "said"),
    [
        ((0.0, 1), (0.0, 1), "does not find a number hidden in 4,096 (0 of 1). Asked for four"
         " numbers at once, it never finds them all (0 of 1)."),
        ((0.5, 40), (0.5, 40), "still finds a number hidden in 4,096 (20 of 40). Asked for four"
         " numbers at once, it finds them all as often (20 of 40)."),
        ((0.5, 40), (0.75, 40), "it finds them all more often (30 of 40)."),
        ((1.0, 40), (0.025, 40), "it finds them all less often (1 of 40)."),
    ],
)  # fmt: skip
def test_the_claim_holds_for_any_model(single, several, said):
    measured = {("niah_multikey_1", 4096): single, ("niah_multivalue", 4096): several}
    assert front.claim(measured).endswith(said)


def test_numbers_in_cells_can_be_read():
    inks = {"light": "#ffffff", "dark": "#000000"}
    for percent in range(101):
        fill, shade = front.colour(percent / 100)
        assert contrast(fill, inks[shade]) >= 4.5, percent


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


# --- The built site --------------------------------------------------------------------------


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
        for part in (".claim", "svg.ruler-front", "a.sd-btn"):
            box = page.locator(f".ruler-opening {part}").bounding_box()
            assert box["y"] + box["height"] <= height, f"{part} lies below the fold at {width}"
    page.locator(".ruler-opening a.sd-btn").click()
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
    mean = page.locator("tbody tr", has_text="niah_multivalue").get_by_role(
        "link", name="lille, da"
    )
    mean.click()
    sample = page.locator("dialog")
    sample.get_by_text("Wanted").first.wait_for()
    assert "512 tokens" in sample.inner_text()
    assert not wrong
    page.context.close()
