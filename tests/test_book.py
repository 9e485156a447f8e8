"""The book: its parts agree, and the built site works without any other host.

The site is built once, with every warning an error, and then read by an HTML parser and by a
browser that can reach no other host.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import io
import re
import tarfile
import tomllib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import rulerlib
from rulerlib.errors import DataError

yaml = pytest.importorskip("yaml")
pytest.importorskip("sphinx_book_theme", reason="the site needs rulerlib[book]")
nbformat = pytest.importorskip("nbformat")
bs4 = pytest.importorskip("bs4")

from helpers_book import EXECUTED, ROOT, opened  # noqa: E402

from book import execute, explorer, extension, leaderboard, vendor  # noqa: E402
from rulerlib.explore.cells import tokens  # noqa: E402


def test_the_reference_has_every_module_once():
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "rulerlib").rglob("*.py")
        if not path.name.startswith("_") or path.name == "__init__.py"
    }
    pages = (ROOT / "book" / "reference").glob("*.rst")
    found = [
        name
        for page in pages
        for name in re.findall(r"automodule:: (\S+)", page.read_text("utf-8"))
    ]
    assert len(found) == len(set(found))
    assert set(found) == modules - {"rulerlib"}


def test_versions_and_licences_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    version, released = re.search(r"^## (\S+), (\S+)$", changes, re.MULTILINE).groups()
    assert citation["version"] == rulerlib.__version__ == version
    assert f"version = {{{version}}}" in (ROOT / "book" / "ruler.md").read_text("utf-8")
    assert str(citation.get("date-released", "unreleased")) == released
    assert citation["license"] == project["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")[:200]
    for field in ("cff-version", "message", "title", "authors"):
        assert citation[field]


def test_the_claim_of_the_first_page_follows_from_the_published_table():
    again = leaderboard.recomputed(leaderboard.read_table(explorer.PUBLISHED))
    claimed = again["claimed"].map(tokens)
    used = again["longest"].str.lstrip("≥").map(tokens).fillna(0)
    whole = used >= claimed
    less = ~whole & ~again["longest"].str.startswith("≥")
    quarter = less & (4 * used <= claimed)
    counts = [len(again), whole.sum(), less.sum(), quarter.sum(), (~whole & ~less).sum()]
    for name in ("README.md", "book/index.md"):
        text = (ROOT / name).read_text("utf-8")
        sentences = re.search(r"Of \d+ entries.+?measured that far", text, re.DOTALL)[0]
        assert [int(number) for number in re.findall(r"\d+", sentences)] == counts, name
    picture = (ROOT / "book" / "images" / "front.svg").read_text("utf-8")
    shown = re.findall(r"<title>(.+?): claims (\w+), uses (.+?)</title>", picture)
    known = again.set_index("model")
    assert len(shown) == 12
    for model, length, longest in shown:
        assert (tokens(length), longest) == (
            tokens(known["claimed"][model]),
            known["longest"][model],
        )


def test_a_package_is_checked_against_its_pinned_hash(tmp_path):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for name in ("package/a.js", "package/dist/b.js", "package/dist/c.css"):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
    data = held.getvalue()
    digest = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    package = vendor.Package("x", "1", digest, "x", ("package/dist/", "package/a.js"))
    vendor.unpack(package, data, tmp_path)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"a.js", "dist/b.js", "dist/c.css"}
    with pytest.raises(DataError, match="has the wrong hash"):
        vendor.unpack(package, data[:-1], tmp_path)


def test_an_execution_is_shown_until_something_changes(tmp_path, monkeypatch):
    path = tmp_path / "notebooks" / "page.ipynb"
    path.parent.mkdir()
    cells = [nbformat.v4.new_markdown_cell("# A page"), nbformat.v4.new_code_cell("1 + 1")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    (tmp_path / "_toc.yml").write_text("parts: [{chapters: [{file: notebooks/page}]}]\n")
    monkeypatch.setattr(execute, "ROOT", tmp_path)
    monkeypatch.delenv(execute.HOME, raising=False)
    monkeypatch.delenv(execute.SETTINGS, raising=False)
    monkeypatch.setattr(execute, "library", execute.library.__wrapped__)
    (page,) = execute.pages()
    for name in ("notebooks/page.ipynb", "rulerlib/room.py", "params/book/page.yaml",
                 "book/results/t.csv"):  # fmt: skip
        trial = execute.executed_path(page).with_suffix(".trial")
        trial.parent.mkdir(parents=True, exist_ok=True)
        trial.write_text(path.read_text())
        execute.finished(page, trial)
        found = execute.executed(page)
        extension.tidy(found, execute.settings_path(page))
        assert execute.KEY not in found.metadata
        changed = tmp_path / name
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(path.read_text().replace("1 + 1", "1 + 2") if changed == path else "x")
        assert execute.executed(page) is None, name


@functools.cache
def parsed(path):
    return bs4.BeautifulSoup(path.read_text("utf-8"), "html.parser")


@functools.cache
def names_of(path):
    names = re.findall(r'\s(?:id|name)="([^"]+)"', path.read_text("utf-8"))
    return {html.unescape(name) for name in names}


def pages_of(site):
    """Return all pages but those of the source code."""
    others = {"_static", "_modules"}
    return sorted(path for path in site.rglob("*.html") if not others & set(path.parts))


@pytest.mark.slow
def test_no_link_is_dead(site):
    dead = []
    for path in pages_of(site):
        for link in parsed(path).find_all(href=True):
            parts = urlsplit(link["href"])
            if parts.scheme or parts.netloc:
                assert parts.scheme in ("http", "https", "mailto", "data"), link["href"]
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if not target.exists():
                dead.append((path.name, link["href"]))
            # A fragment with "=" is a setting of "Move the needle".
            elif parts.fragment and "=" not in parts.fragment and target.suffix == ".html":
                known = unquote(parts.fragment) in names_of(target)
                dead += [] if known else [(path.name, link["href"])]
    assert not dead


@pytest.mark.slow
def test_every_image_has_an_alt_text(site):
    for path in pages_of(site):
        if path.parent == site and path.name == "index.html":
            # It redirects to the first page.
            continue
        page = parsed(path)
        assert page.html["lang"] == "en"
        assert page.title.get_text().strip()
        assert len(page.select("article.bd-article h1")) <= 1
        said = page.select_one("article.bd-article")
        if said:
            assert not re.search(r"```|:::|\{raw\}", said.get_text()), f"{path.name}: bare markup"
        for image in page.find_all("img"):
            assert image.get("alt", "").strip(), f"{path.name}: {image.get('src')}"


@pytest.mark.slow
def test_only_the_executed_page_shows_results(site):
    page = parsed(site / f"{EXECUTED}.html")
    figures = page.select("article .cell_output img")
    assert len(figures) >= 3
    assert all(". " in figure["alt"] for figure in figures), "more than a title"
    assert "built without running" not in page.get_text()
    assert f"settings/{Path(EXECUTED).name}.yaml" in page.get_text()
    assert "built without running" in parsed(site / "notebooks" / "qa.html").get_text()


@pytest.mark.slow
def test_pages_fit_a_phone_and_load_nothing_from_other_hosts(browser, address, site):
    paths = [path.relative_to(site).with_suffix("") for path in pages_of(site)]
    paths = [path for path in paths if path.parts[0] in ("book", "notebooks")]
    phones = [
        opened(browser, address, paths[0], width=390, scheme=scheme) for scheme in ("light", "dark")
    ]
    for number, path in enumerate(paths):
        page, wrong = phones[number % 2]
        page.goto(f"{address}/{path}.html")
        wide = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        assert not wide, f"{path} is wider than a phone"
        assert not wrong, path
    for page, _ in phones:
        page.context.close()
