"""Builds the site, serves it, and opens it in a browser that reaches only this machine."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conftest import ROOT

# In milliseconds; a busy machine may take minutes.
PATIENCE = 300_000

# The page that is executed; all others are shown without results.
EXECUTED = "notebooks/trace"


def run(command, **environment):
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, timeout=1800,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


def whole_book(place):
    """Build the book, with every warning an error, and return the folder of its pages."""
    from book import execute, vendor

    if not shutil.which("npm") and not (vendor.FOLDER / vendor.STAMP).exists():
        pytest.skip("needs npm, which fetches the site's scripts")
    # nbmake may have executed it already.
    executed = run(["-m", "book.execute", Path(EXECUTED).name])
    assert executed.returncode == 0, executed.stderr[-3000:]
    there = place / "executed" / f"{EXECUTED}.ipynb"
    there.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(execute.executed_path(EXECUTED), there)
    command = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
    options = ["build", str(ROOT), "-W", "-n", "--keep-going", "--path-output", str(place)]
    built = run(["-c", command, *options], **{execute.HOME: str(place / "executed")})
    said = built.stdout + built.stderr
    assert built.returncode == 0, (
        "\n".join(line for line in said.splitlines() if re.search("WARN|ERR|Err", line))
        or said[-3000:]
    )
    return place / "_build" / "html"


@contextlib.contextmanager
def served(folder):
    """Serve a folder, and yield its address."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


@contextlib.contextmanager
def chromium():
    """Yield a Chromium that reaches only this machine; skip the test if there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect.set_options(timeout=PATIENCE)
    names = [os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "chrome"]
    path = next(filter(None, map(shutil.which, filter(None, names))), None)
    if path is None:
        pytest.skip("needs Chromium (apt install chromium, or CHROMIUM=path)")
    # Chromium's sandbox does not work for root or in containers.
    options = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


def opened(browser, address, path, width=1280, scheme="light"):
    """Open a page in a new browser context; return it and a list of its errors."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    wrong = []
    # Leaving a page aborts its requests.
    page.on(
        "requestfailed",
        lambda request: request.failure == "net::ERR_ABORTED" or wrong.append(request.url),
    )
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
