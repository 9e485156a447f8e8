"""The page "Move the needle": the model inside in a reader's browser, on the page as it is built.

The page is built by itself, which takes seconds, and read in Chromium, which can reach nothing
but it. That it also stands in the whole book is for tests/test_book.py to see.
"""

from __future__ import annotations

import json
import re
import shutil

import pytest

pytest.importorskip("sphinx_book_theme", reason="the site needs rulerlib[book]")
playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("torch")

from helpers_book import build, opened  # noqa: E402

from benchmarks.browser import answer_of, ask, on_the_page, prompt_of, settings  # noqa: E402
from book import browser as browsers  # noqa: E402
from rulerlib import models  # noqa: E402
from rulerlib.errors import DataError, ParameterError  # noqa: E402
from rulerlib.playground import ROWS, Playground, Setting, page  # noqa: E402

expect = playwright.expect

# On a busy machine much takes minutes that takes a second elsewhere.
PATIENCE = 300_000
PAGE = "book/needle"
MOST = 25_000_000


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("needs Node.js, whose npm fetches the site's scripts")
    place = tmp_path_factory.mktemp("site")
    toc = place / "toc.yml"
    toc.write_text(f"format: jb-book\nroot: {PAGE}\n")
    built = build(place, "--toc", str(toc))
    assert built.returncode == 0, (built.stdout + built.stderr)[-3000:]
    return place / "_build" / "html"


@pytest.fixture(scope="module")
def play():
    return Playground(models.load("lille", dtype="float32"), length=browsers.LENGTHS["most"])


class Reader:
    """The page in a browser, and what a reader does with it."""

    def __init__(self, browser, address, **options):
        self.page, self.wrong = opened(browser, address, PAGE, **options)
        self.page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        self.fetched = []
        self.page.on("request", lambda request: self.fetched.append(request.url))
        self.prompt = self.page.get_by_role("region", name=page.LABELS["prompt"])
        self.depth = self.page.get_by_role("slider", name=page.LABELS["depth"])
        self.length = self.page.get_by_role("slider", name=page.LABELS["length"])
        self.alert = self.page.get_by_role("alert")
        self.answer = self.page.locator("[data-part=answer]")
        expect(self.prompt.locator("mark.needle")).to_be_visible()

    def button(self, name):
        return self.page.get_by_role("button", name=name)

    def press(self, name):
        """A button, by keyboard."""
        button = self.button(name)
        expect(button).to_have_attribute("aria-disabled", "false")
        button.focus()
        self.page.keyboard.press("Enter")

    def cells(self):
        """What each row of the heatmap says, by its length."""
        rows = self.page.locator("[data-part=cells] tr").all()
        return {row.locator("th").inner_text(): row.locator("td .unseen").all_inner_texts()
                for row in rows}  # fmt: skip

    def close(self):
        self.page.context.close()


@pytest.fixture
def reader(browser, address):
    reader = Reader(browser, address)
    yield reader
    reader.close()


def place_of(reader):
    """How many characters stand before the needle."""
    mark = reader.prompt.locator("mark.needle").inner_text()
    return reader.prompt.inner_text().index(mark)


def test_the_needle_is_moved_by_keyboard_and_found_at_all_depths(reader):
    assert not [url for url in reader.fetched if "safetensors" in url or "wasm" in url]
    expect(reader.answer).to_have_text(page.LABELS["not asked"])
    reader.depth.focus()
    reader.page.keyboard.press("Home")
    expect(reader.depth).to_have_attribute("aria-valuetext", "0 %")
    expect(reader.prompt).to_contain_text(re.compile(r"bagefter\.\s*Et af de særlige magiske tal"))
    first = place_of(reader)
    reader.page.keyboard.press("End")
    expect(reader.prompt).to_contain_text(re.compile(r"er: \d{7}\.\s*Hvad er det særlige"))
    assert place_of(reader) > first
    reader.page.keyboard.press("ArrowLeft")
    expect(reader.depth).to_have_attribute("aria-valuetext", "99 %")

    size = (browsers.LILLE / "model.safetensors").stat().st_size
    assert f"{size / 1e6:.1f} MB" in reader.button("Ask the model").inner_text()
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("Right. (at depth 99 %, 1,000 tokens")
    value = reader.prompt.locator("mark .value").inner_text()
    expect(reader.answer.locator(".said")).to_contain_text(value)
    assert sum("model.safetensors" in url for url in reader.fetched) == 1
    assert reader.cells() == {"1,000": ["not asked"] * 9 + ["1 of 1"]}

    reader.press("Try all depths")
    expect(reader.answer).to_contain_text(re.compile(r"Found \d+ of 10\."))
    # Depth 99 % is in the last tenth, too.
    (cells,) = reader.cells().values()
    assert [cell.split(" of ")[1] for cell in cells] == ["1"] * 9 + ["2"]
    right = sum(int(cell.split(" of ")[0]) for cell in cells) - 1
    assert f"Found {right} of 10." in reader.answer.inner_text()
    assert not reader.wrong


def test_the_heatmap_grows_over_lengths_and_can_be_stopped(reader):
    reader.page.get_by_label(page.LABELS["language"]).select_option("en")
    reader.page.get_by_label("Variant").select_option("3")
    reader.length.focus()
    reader.page.keyboard.press("Home")
    expect(reader.prompt.locator("mark.distractor")).to_have_count(3)
    reader.press("Ask the model")
    expect(reader.answer).to_contain_text("at depth 50 %, 500 tokens")
    reader.press("All depths and lengths")
    row = reader.page.locator("[data-part=cells] tr").filter(has_text="1,000")
    expect(row.locator("td .unseen").get_by_text("1 of 1").first).to_be_attached()
    reader.press("Stop")
    expect(reader.answer).to_contain_text(re.compile(r"Found \d+ of \d+\."))
    cells = reader.cells()
    assert all(re.fullmatch(r"\d of \d", cell) for cell in cells["500"])
    assert "not asked" in cells[list(cells)[-1]]
    # Another kind of prompt begins another heatmap.
    reader.page.get_by_label("Variant").select_option("0")
    expect(reader.page.locator("[data-part=found]")).to_be_hidden()
    assert not reader.wrong


def test_what_the_reader_writes_is_text_and_mistakes_are_said(reader):
    reader.page.get_by_text(page.LABELS["own"]).click()
    needle = reader.page.get_by_role("textbox", name=page.LABELS["needle"])
    needle.fill("<img src=x onerror=alert(1)> for {key}: {value}.")
    expect(reader.prompt.locator("mark.needle")).to_contain_text("<img src=x onerror=alert(1)> for")
    assert reader.prompt.locator("img").count() == 0
    for text, wanted in [
        ("<b>nothing</b> to find", "<b>nothing</b> to find"),
        ("The code is {4711}.", "because your needle has no {key} to ask for"),
    ]:
        needle.fill(text)
        expect(reader.alert).to_contain_text(wanted)
        assert reader.alert.locator("b").count() == 0
        with pytest.raises(ParameterError) as said:
            Setting(needle=text)
        assert said.value.allowed in reader.alert.inner_text()
        expect(reader.button("Ask the model")).to_have_attribute("aria-disabled", "true")
    needle.fill("")
    expect(reader.alert).to_be_hidden()

    text = reader.page.get_by_role("textbox", name=page.LABELS["text"], exact=True)
    text.fill("Katten sover. Hunden løber. " * 3)
    expect(reader.prompt).to_contain_text("Katten sover. Hunden løber.")
    assert reader.page.get_by_label(page.LABELS["haystack"]).input_value() == "text"
    expect(reader.page.get_by_text("Your text is shorter")).to_be_visible()
    text.fill("Katten sover. Hunden løber. " * 300)
    expect(reader.page.get_by_text(re.compile(r"its first \d+ of 600 sentences"))).to_be_visible()
    text.fill("ord " * 20_000)
    expect(reader.alert).to_contain_text("at most 60,000 characters")
    text.fill(" ".join(["ordentlig"] * 60) + ".")
    reader.length.focus()
    reader.page.keyboard.press("Home")
    needle.fill("{key}: {value}. " + "Meget langt. " * 80)
    expect(reader.alert).to_contain_text(re.compile(r"“500”, but must be at least \d+"))
    assert not reader.wrong


def test_prompts_and_answers_are_those_of_rulerlib(browser, address, play):
    page, wrong = opened(browser, address, PAGE)
    page.set_default_timeout(PATIENCE)
    asked = settings()
    assert len(asked) >= 200
    made = ask(page, address, "prompt", asked)["replies"]
    for setting, prompt in zip(asked, made, strict=True):
        sample, fed = prompt_of(play, setting)
        assert prompt["fed"] == fed, setting
        assert prompt["length"] == sample.length_w_model_temp
        assert sum(count for _, count in prompt["spent"]) == setting.length
    # benchmarks/browser.py asks them all.
    few = [setting for setting in asked if setting.length == 500][::5]
    assert {setting.num_distractors for setting in few} == {0, 3}
    said = ask(page, address, "ask", few)["replies"]
    expected = [answer_of(play, prompt_of(play, setting)[0]) for setting in few]
    assert [reply["text"] for reply in said] == expected
    page.context.close()
    assert not wrong


def test_a_context_that_was_read_before_changes_no_answer(browser, address):
    page, _ = opened(browser, address, PAGE)
    page.set_default_timeout(PATIENCE)
    asked = [Setting(length=500, depth=depth) for depth in (67, 100)]
    together = ask(page, address, "ask", [*asked, *asked])["replies"]
    assert [reply["kept"] > 100 for reply in together] == [False, True, True, True]
    for setting, reply, again in zip(asked, together, together[2:], strict=False):
        (alone,) = ask(page, address, "ask", [setting])["replies"]
        assert alone["ids"] == reply["ids"] == again["ids"]
    page.context.close()


def test_without_javascript_the_page_says_what_it_would_do(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{PAGE}.html")
    said = page.locator(".ruler-needle noscript p")
    expect(said).to_be_visible()
    assert said.inner_text() == browsers.UNABLE
    assert not page.get_by_role("slider").all()
    expect(page.locator(".starting")).to_be_hidden()
    context.close()


def test_a_page_opened_as_a_file_says_what_it_needs(browser, site):
    context = browser.new_context()
    page = context.new_page()
    page.goto((site / f"{PAGE}.html").as_uri())
    said = page.locator(".ruler-needle .starting")
    expect(said).to_be_visible()
    expect(said).to_contain_text("a page that comes from a web server")
    assert not page.get_by_role("slider").all()
    context.close()


@pytest.mark.parametrize("answer", [{"status": 404}, {"body": b"\0asm\1\0\0\0\xff"}])
def test_where_it_cannot_run_it_says_so(browser, address, answer):
    reader = Reader(browser, address)
    reader.page.context.route("**/kernel.wasm*", lambda route: route.fulfill(**answer))
    reader.press("Ask the model")
    expect(reader.alert).to_contain_text("The model cannot run here")
    # It may be tried again.
    expect(reader.button("Ask the model")).to_have_attribute("aria-disabled", "false")
    assert not [url for url in reader.fetched if "safetensors" in url]
    reader.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_it_fits_the_screen_and_everything_has_a_name(browser, address, width, scheme):
    reader = Reader(browser, address, width=width, scheme=scheme)
    reader.page.get_by_text(page.LABELS["own"]).click()
    assert reader.page.evaluate("document.documentElement.scrollWidth") <= width
    for role in ("slider", "combobox", "textbox", "button"):
        parts = reader.page.locator(".ruler-needle").get_by_role(role).all()
        assert parts, role
        for part in parts:
            assert part.evaluate(
                """(part) => part.getAttribute('aria-label') || part.textContent.trim() ||
                   [...(part.labels || [])].map((label) => label.textContent).join('')"""
            ), part.evaluate("(part) => part.outerHTML")
    reader.close()


def test_it_is_light_and_shows_text_as_text(site):
    folder = site / "_static" / "needle"
    tokenizers = site / "_static" / "vendor" / "@huggingface" / "tokenizers"
    files = [path for place in (folder, tokenizers) for path in place.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST
    for name in browsers.SHIPPED:
        assert (folder / name).read_bytes() == (browsers.LILLE / name).read_bytes()
    for script in folder.glob("*.js"):
        assert not re.search(r"innerHTML|insertAdjacent|eval\(|https?:", script.read_text("utf-8"))


def test_a_model_of_another_form_stops_the_build():
    config = json.loads((browsers.LILLE / "config.json").read_text("utf-8"))
    browsers.check(config)
    for change in ({"hidden_act": "gelu"}, {"num_key_value_heads": 1}, {"head_dim": 32}):
        with pytest.raises(DataError, match=re.escape("config.json")):
            browsers.check({**config, **change})


def test_a_kernel_that_is_wrong_is_not_assembled(tmp_path):
    if not shutil.which("npm"):
        pytest.skip("needs npm")
    source = tmp_path / "kernel.wat"
    source.write_text("(module (func (i32.add (i32.const 1))))")
    with pytest.raises(DataError, match="cannot be assembled"):
        browsers.assemble(source, tmp_path / "kernel.wasm")
    assert not (tmp_path / "kernel.wasm").exists()


def test_settings_of_the_page_are_settings_of_the_playground():
    made = on_the_page(Setting(num_distractors=3, depth=ROWS[1]))
    assert made["distractors"] == 3
    assert made["depth"] == ROWS[1]
