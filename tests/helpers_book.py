"""What the tests of the built site share: how it is built, and a browser that reaches it alone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import browser

ROOT = Path(__file__).resolve().parents[1]


def run(command, **environment):
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, timeout=1800,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


def build(place, *options, **environment):
    """Build the book, or what the options leave of it, into a folder."""
    command = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
    arguments = ["build", str(ROOT), *options, "--path-output", str(place)]
    return run(["-c", command, *arguments], **environment)


@contextlib.contextmanager
def chromium():
    """Yield the benchmark's Chromium; a test that needs it is skipped where there is none."""
    pytest.importorskip("playwright.sync_api")
    try:
        with browser.chromium() as started:
            yield started
    except FileNotFoundError as error:
        pytest.skip(str(error))


def opened(browser, address, path, width=1280, scheme="light"):
    """Return a page in the browser, and a list of what went wrong on it."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(120_000)
    wrong = []
    page.on("requestfailed", lambda request: wrong.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("response", lambda answer: answer.status < 400 or wrong.append(answer.url))
    page.on(
        "request",
        lambda request: (
            request.url.startswith((address, "data:", "blob:")) or wrong.append(request.url)
        ),
    )
    page.goto(f"{address}/{path}.html")
    return page, wrong
