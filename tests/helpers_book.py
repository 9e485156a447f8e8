"""What the tests of the built site share: how it is built, and a browser that reaches it alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    """Chromium that can reach this machine and no other."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if not path:
        pytest.skip("needs Chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        yield started
        started.close()


def opened(browser, address, path, width=1280, scheme="light"):
    """A page in the browser, and what went wrong on it."""
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
