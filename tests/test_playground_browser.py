"""The playground as a reader has it: in Voila, in a real browser, by keyboard alone."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import time

import pytest
from helpers_model import ROOT, bare_environment

playwright = pytest.importorskip("playwright.sync_api")
papermill = pytest.importorskip("papermill")
pytest.importorskip("voila")
pytest.importorskip("torch")
nbformat = pytest.importorskip("nbformat")

NOTEBOOK = ROOT / "notebooks" / "playground.ipynb"
PARAMETERS = {"language": "en", "length": 1024, "num_lengths": 2}

# On a busy machine a kernel with torch takes minutes to start.
PATIENCE = 500


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Voila with the notebook and the model inside; its address."""
    folder = tmp_path_factory.mktemp("voila")
    papermill.execute_notebook(
        NOTEBOOK, folder / "playground.ipynb", PARAMETERS, prepare_only=True, progress_bar=False
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "voila", str(folder / "playground.ipynb"), "--no-browser",
         f"--port={port}", "--Voila.ip=127.0.0.1"],
        env=bare_environment(folder / "home", PYTHONPATH=str(ROOT)),
        stdout=log, stderr=subprocess.STDOUT, cwd=folder,
    )  # fmt: skip
    try:
        begun = time.monotonic()
        while time.monotonic() < begun + PATIENCE:
            assert process.poll() is None, (folder / "log").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def page(server, browser):
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.set_default_timeout(PATIENCE * 1000)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(server)
    page.get_by_role("slider", name="Depth (%)").wait_for()
    return page


def needle_at(page):
    """Where in the text of the prompt the needle begins, and where in the strip it is drawn."""
    prompt = page.get_by_role("region", name="The prompt")
    mark = prompt.locator("mark").first.inner_text()
    left = page.evaluate(
        """() => {
          const spans = [...document.querySelectorAll('[aria-hidden=true] > span')];
          const needle = spans.find((span) => span.style.minWidth == '5px');
          return needle.getBoundingClientRect().left;
        }"""
    )
    return prompt.inner_text().index(mark), left


def settle(page, button, key):
    """Press a key that moves a control, and wait until the page stands where the control does.

    The prompt at 99 % may be the one at 100 %, but while it is made the button is disabled.
    """
    button.evaluate(
        """(button) => {
          const count = () => { button.settled = (button.settled || 0) + !button.disabled; };
          new MutationObserver(count).observe(button, { attributeFilter: ['disabled'] });
        }"""
    )
    page.keyboard.press(key)
    page.wait_for_function("(button) => button.settled", arg=button.element_handle())


def tab_to(page, start, button):
    """Press Tab from one control until another has the focus.

    Tab passes a disabled button by: then it starts again.
    """
    begun = time.monotonic()
    while time.monotonic() < begun + PATIENCE:
        playwright.expect(button).to_be_enabled()
        start.focus()
        for _ in range(10):
            page.keyboard.press("Tab")
            if button.evaluate("(button) => button == document.activeElement"):
                return
    raise AssertionError("The button cannot be reached by the keyboard.")


def test_the_live_page_is_as_wide_as_the_window_and_does_not_call_itself_a_picture(page):
    assert page.locator(".ruler-still").count() == 1
    playwright.expect(page.locator(".ruler-still")).to_be_hidden()
    assert page.locator(".ruler-play").bounding_box()["width"] > 1000
    prompt = page.get_by_role("region", name="The prompt").bounding_box()
    slider = page.get_by_role("slider", name="Depth (%)").bounding_box()
    assert prompt["x"] > slider["x"] + slider["width"]


def test_the_slider_moves_the_needle_by_keyboard_and_the_model_finds_it(page):
    slider = page.get_by_role("slider", name="Depth (%)")
    slider.focus()
    page.keyboard.press("Home")
    playwright.expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^0"))
    playwright.expect(page.get_by_role("region", name="The prompt")).to_contain_text(
        re.compile(r"afterwards\.\s*One of the special magic")
    )
    first, strip = needle_at(page), page.locator("[aria-hidden=true]").first.screenshot()
    page.keyboard.press("End")
    playwright.expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^100"))
    playwright.expect(page.get_by_role("region", name="The prompt")).to_contain_text(
        re.compile(r"is: \d{7}\.\s*What is the special magic")
    )
    last = needle_at(page)
    assert last[0] > first[0]
    assert last[1] > first[1] + 100
    assert page.locator("[aria-hidden=true]").first.screenshot() != strip
    # Those before it are made by then; a click must not overtake this move.
    ask = page.get_by_role("button", name="Ask the model")
    settle(page, ask, "ArrowLeft")
    playwright.expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^99"))
    # The notebook itself has asked at 0, 50 and 100 %.
    playwright.expect(page.get_by_role("button", name="100 %: 1 of 1")).to_be_visible()
    tab_to(page, slider, ask)
    page.keyboard.press("Enter")
    said = page.get_by_role("status").filter(has_text="at depth 99 %")
    playwright.expect(said.filter(has_text="Right.")).to_be_visible()
    wanted = re.search(r"is: (\d{7})\.", page.get_by_role("region", name="The prompt").inner_text())
    assert wanted[1] in said.inner_text()
    playwright.expect(page.get_by_role("button", name="100 %: 2 of 2")).to_be_visible()
    assert page.errors == []


def test_everything_that_can_be_moved_has_a_name(page):
    for role in ("slider", "combobox", "textbox", "spinbutton", "button"):
        for part in page.get_by_role(role).all():
            name = part.evaluate(
                """(part) => part.getAttribute('aria-label') || part.title ||
                   [...(part.labels || [])].map((label) => label.textContent).join('') ||
                   part.textContent"""
            )
            assert name.strip(), part.evaluate("(part) => part.outerHTML")


def test_a_mistake_is_said_on_the_page(page):
    needle = page.get_by_role("textbox", name="Needle")
    needle.fill("<img src=x onerror=alert(1)> nothing to find")
    needle.press("Enter")
    alert = page.get_by_role("alert")
    playwright.expect(alert).to_contain_text("<img src=x onerror=alert(1)> nothing to find")
    assert alert.locator("img").count() == 0
    playwright.expect(page.get_by_role("button", name="Ask the model")).to_be_disabled()
    needle.fill("")
    needle.press("Enter")
    playwright.expect(page.get_by_role("button", name="Ask the model")).to_be_enabled()
