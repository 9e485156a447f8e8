"""The playground in Voila and a real browser, used by keyboard."""

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
    """Start Voila with the notebook and the bundled model; yield its address."""
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


def test_slider_moves_the_needle_and_the_model_finds_it(page):
    slider = page.get_by_role("slider", name="Depth (%)")
    prompt = page.get_by_role("region", name="The prompt")
    slider.focus()
    page.keyboard.press("Home")
    playwright.expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^0"))
    playwright.expect(prompt).to_contain_text(
        re.compile(r"afterwards\.\s*One of the special magic")
    )
    page.keyboard.press("End")
    playwright.expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^100"))
    playwright.expect(prompt).to_contain_text(
        re.compile(r"is: \d{7}\.\s*What is the special magic")
    )
    another = page.get_by_role("button", name="Another needle")
    another.focus()
    page.keyboard.press("Enter")
    ask = page.get_by_role("button", name="Ask the model")
    playwright.expect(ask).to_be_enabled()
    ask.focus()
    page.keyboard.press("Enter")
    answer = page.get_by_role("status").filter(has_text="at depth 100%")
    playwright.expect(answer.filter(has_text="Right (")).to_be_visible()
    playwright.expect(page.get_by_role("img", name="depth (%)")).to_be_visible()
    assert re.search(r"is: (\d{7})\.", prompt.inner_text())[1] in answer.inner_text()
    assert page.errors == []
