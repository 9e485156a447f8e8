"""The book: its parts agree with each other, and the site that they make needs no other host.

The site is built once, with every warning an error, and then read by an HTML parser and by a
real browser that can reach nothing but it.
"""

from __future__ import annotations

import ast
import functools
import html
import io
import re
import shutil
import subprocess
import tarfile
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import rulerlib
from rulerlib import languages
from rulerlib.errors import DataError
from rulerlib.submit.folder import FOLDER
from rulerlib.tasks import TASKS

yaml = pytest.importorskip("yaml")
pytest.importorskip("sphinx_book_theme", reason="the site needs rulerlib[book]")
nbformat = pytest.importorskip("nbformat")
bs4 = pytest.importorskip("bs4")

from helpers_book import EXECUTED, ROOT, WIDGET, opened  # noqa: E402

from book import execute, extension, vendor  # noqa: E402

LARGEST = 1_000_000

# Where other pages' scripts and fonts come from.
OTHERS = re.compile(r"cdnjs|jsdelivr|unpkg|googleapis|gstatic|mybinder|plausible", re.IGNORECASE)


def listed(value):
    """All pages of a table of contents, and nothing else of it."""
    if isinstance(value, dict):
        found = [value[name] for name in ("root", "file") if name in value]
        return found + [page for inner in value.values() for page in listed(inner)]
    return [page for inner in value for page in listed(inner)] if isinstance(value, list) else []


@pytest.fixture(scope="module")
def toc():
    return listed(yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8")))


def test_every_page_is_listed_once_and_is_there(toc):
    assert len(toc) == len(set(toc))
    pages = [
        path
        for folder in ("book", "notebooks")
        for kind in ("*.md", "*.rst", "*.ipynb")
        for path in (ROOT / folder).rglob(kind)
        if not {"_static", "data", "results", ".ipynb_checkpoints"} & set(path.parts)
    ]
    assert {str(path.relative_to(ROOT).with_suffix("")) for path in pages} == set(toc)


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
    assert str(citation.get("date-released", "unreleased")) == released
    assert citation["license"] == project["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")[:200]
    for field in ("cff-version", "message", "title", "authors"):
        assert citation[field]


def test_the_citation_is_bibtex_that_others_read():
    pybtex = pytest.importorskip("pybtex.database")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    entry = pybtex.parse_string(extension.bibtex(citation), "bibtex").entries["ruler_book"]
    assert entry.fields["title"].strip("{}") == citation["title"]
    assert "year" not in entry.fields
    released = extension.bibtex({**citation, "date-released": "2027-01-31"})
    entry = pybtex.parse_string(released, "bibtex").entries["ruler_book"]
    assert entry.fields["year"] == "2027"
    assert len(entry.persons["author"]) == len(citation["authors"])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "tests",
            ["make test", "make test-long", "make test-wheel", "make test-vllm", "make test-sweep"],
        ),
        ("book", ["make submitted", "make book"]),
        ("submissions", ["make submitted"]),
    ],
)
def test_workflows_do_what_the_makefile_does(name, wanted):
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8")
    workflow = yaml.safe_load(text)
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert commands == wanted
    assert all(command.removeprefix("make ") in targets for command in commands)
    assert all("uses" in step or "run" in step for step in steps)
    # YAML takes a bare `on` for a truth value.
    triggers = workflow[True]
    assert "push" in triggers or name == "submissions"
    if name == "submissions":
        # What strangers hand in is only read, and by no one who may write.
        assert triggers.keys() == {"pull_request"}
        assert workflow["permissions"] == {"contents": "read"}
        assert triggers["pull_request"]["paths"] == [f"{FOLDER}/**"]
    if name == "book":
        assert triggers["push"]["branches"] == ["main"]
        needed = {use.partition("@")[0] for step in steps if (use := step.get("uses"))}
        assert {"actions/upload-pages-artifact", "actions/deploy-pages"} <= needed


def test_settings_are_parameters_of_their_notebooks(toc):
    # The reference has pages of the same names.
    names = {Path(page).name: page for page in toc if (ROOT / f"{page}.ipynb").exists()}
    for path in (ROOT / "params" / "book").glob("*.yaml"):
        notebook = nbformat.read(ROOT / f"{names[path.stem]}.ipynb", as_version=4)
        cell = next(c for c in notebook.cells if "parameters" in c.metadata.get("tags", []))
        for name in yaml.safe_load(path.read_text("utf-8")):
            assert re.search(rf"^{name} = ", cell.source, re.MULTILINE), f"{path.name}: {name}"


def packed(files):
    """An archive as npm makes it, and its hash."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return held.getvalue()


def integrity(data):
    """What OpenSSL, not we, says the hash is."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("needs openssl")
    run = functools.partial(subprocess.run, capture_output=True, check=True)
    digest = run([openssl, "dgst", "-sha512", "-binary"], input=data).stdout
    return "sha512-" + run([openssl, "base64", "-A"], input=digest).stdout.decode().strip()


def test_only_what_is_wanted_is_taken_from_a_package(tmp_path):
    data = packed({"package/a.js": "a", "package/dist/b/c.js": "c", "package/dist/d.js": "d"})
    package = vendor.Package("x", "1", integrity(data), "x", ("package/dist/b/", "package/a.js"))
    vendor.unpack(package, data, tmp_path)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"a.js", "dist/b/c.js"}
    # Another archive, and one that lacks a file.
    with pytest.raises(DataError, match="not what was pinned"):
        vendor.unpack(package, data[:-1], tmp_path)
    with pytest.raises(DataError, match=r"has no package/b\.js"):
        vendor.unpack(replace(package, keep=("package/b.js",)), data, tmp_path)


@pytest.fixture
def little_book(tmp_path, monkeypatch):
    """A book of one notebook, with an execution of it."""
    cells = [nbformat.v4.new_markdown_cell("# A page"), nbformat.v4.new_code_cell("1 + 1")]
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "rulerlib").mkdir()
    (tmp_path / "rulerlib" / "room.py").write_text("x = 1\n")
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "notebooks" / "page.ipynb")
    (tmp_path / "_toc.yml").write_text("root: book/index\nchapters: [{file: notebooks/page}]\n")
    monkeypatch.setattr(execute, "ROOT", tmp_path)
    monkeypatch.delenv(execute.HOME, raising=False)
    monkeypatch.delenv(execute.SETTINGS, raising=False)
    execute.library.cache_clear()
    page = "notebooks/page"
    assert execute.pages() == [page]
    notebook = nbformat.read(tmp_path / f"{page}.ipynb", as_version=4)
    notebook.metadata[execute.KEY] = execute.fingerprint(page)
    path = execute.executed_path(page)
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    yield tmp_path
    execute.library.cache_clear()


def test_an_execution_is_shown_while_nothing_changed(little_book):
    """Words may change without a new execution."""
    path = little_book / "notebooks" / "page.ipynb"
    path.write_text(path.read_text().replace("# A page", "# Another heading"))
    found = execute.executed("notebooks/page")
    assert extension.tidy(found, execute.settings_path("notebooks/page")) == []
    assert [cell.source for cell in found.cells] == ["# Another heading", "1 + 1"]
    assert execute.KEY not in found.metadata


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("notebooks/page.ipynb", "1 + 1", "1 + 2"), ("rulerlib/room.py", "x = 1", "x = 2"),
     ("params/book/page.yaml", "", "length: 1\n"), ("book/results/t.csv", "", "n\n1\n")],
)  # fmt: skip
def test_an_execution_of_something_else_is_not_shown(little_book, name, old, new):
    path = little_book / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(path.read_text().replace(old, new) if path.exists() else new)
    execute.library.cache_clear()
    assert execute.executed("notebooks/page") is None


def test_what_changed_is_executed_again_with_its_settings(little_book, monkeypatch):
    pytest.importorskip("papermill")
    # Set by an execution; given back after this test.
    monkeypatch.setenv("RULERLIB_HOME", "")
    page, path = "notebooks/page", little_book / "notebooks" / "page.ipynb"
    settings = execute.settings_path(page)
    settings.parent.mkdir(parents=True)
    settings.write_text("length: 7\n")
    notebook = nbformat.read(path, as_version=4)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata.kernelspec = kernel
    notebook.cells[1] = nbformat.v4.new_code_cell("length = 1", metadata={"tags": ["parameters"]})
    notebook.cells.append(nbformat.v4.new_code_cell("import os\nlength, os.getcwd()"))
    nbformat.write(notebook, path)
    execute.main(["page"])
    shown = execute.executed(page).cells[-1].outputs[0].data["text/plain"]
    # IPython breaks a long line.
    assert ast.literal_eval(shown) == (7, str(little_book))
    # Nothing changed: nothing is executed.
    stamp = execute.executed_path(page).stat().st_mtime_ns
    assert execute.execute(page).stat().st_mtime_ns == stamp
    # What fails leaves what was there, outdated.
    path.write_text(path.read_text().replace("os.getcwd()", "1 / 0"))
    with pytest.raises(Exception, match="ZeroDivisionError"):
        execute.execute(page)
    assert execute.executed_path(page).stat().st_mtime_ns == stamp
    assert execute.executed(page) is None


def test_a_figure_keeps_its_words_and_one_without_gets_those_around_it():
    figures = [
        nbformat.v4.new_output("display_data", {"image/png": ""}, metadata={"image/png": about})
        for about in ({"alt": "A curve that falls."}, {})
    ]
    notebook = nbformat.v4.new_notebook(cells=[
        nbformat.v4.new_markdown_cell("# Page\n\n## By depth\n\nFrom *top* to bottom.\n\nMore."),
        *(nbformat.v4.new_code_cell("x", outputs=[figure]) for figure in figures),
    ])  # fmt: skip
    found = extension.tidy(notebook, Path("params/book/page.yaml"))
    assert found == ["A curve that falls.", "Figure of the section “By depth”. From top to bottom."]


def test_a_shortened_prompt_keeps_both_ends_and_the_values():
    text = "begin " + "hay " * 1000 + "the value is 1234567 here " + "hay " * 1000 + "end"
    at = text.index("1234567")
    short = extension.shortened(text, [(at, at + 7)])
    assert short.startswith("begin hay")
    assert short.endswith("hay end")
    assert "the value is 1234567 here" in short
    assert short.count("[...]") == 2
    assert all(piece.strip() in text for piece in short.split("[...]"))


@functools.cache
def parsed(path):
    return bs4.BeautifulSoup(path.read_text("utf-8"), "html.parser")


@functools.cache
def names_of(path):
    """Return the names that a link into a page may end in."""
    # In a text a quotation mark is escaped, so that this is an attribute.
    names = re.findall(r'\s(?:id|name)="([^"]+)"', path.read_text("utf-8"))
    return {html.unescape(name) for name in names}


def pages_of(site):
    """All pages of ours; those of source code, half of all, are written by Sphinx alone."""
    others = {"_static", "_modules"}
    return sorted(path for path in site.rglob("*.html") if not others & set(path.parts))


@pytest.mark.slow
def test_every_page_of_the_contents_is_built(site, toc):
    assert all((site / f"{page}.html").exists() for page in toc)
    # A directory of icons, as Windows has them.
    assert (site / "favicon.ico").read_bytes().startswith(b"\0\0\1\0")


@pytest.mark.slow
def test_no_link_is_dead(site):
    dead = []
    for path in pages_of(site):
        for link in parsed(path).find_all(href=True):
            parts = urlsplit(link["href"])
            if parts.scheme or parts.netloc:
                # What a data address holds stands in the address: the icon of the explorer, say.
                assert parts.scheme in ("http", "https", "mailto", "data"), link["href"]
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if not target.exists():
                dead.append((path.name, link["href"]))
            # One with "=" is a setting of "Move the needle", which the page itself reads.
            elif parts.fragment and "=" not in parts.fragment and target.suffix == ".html":
                known = unquote(parts.fragment) in names_of(target)
                dead += [] if known else [(path.name, link["href"])]
    assert not dead


@pytest.mark.slow
def test_no_page_asks_another_host(site):
    for path in pages_of(site):
        page = parsed(path)
        resources = [tag["src"] for tag in page.find_all(src=True)]
        resources += [
            tag["href"] for tag in page.find_all("link", href=True) if "canonical" not in tag["rel"]
        ]
        for address in resources:
            assert not urlsplit(address).netloc, f"{path.name}: {address}"
            if not address.startswith("data:"):
                local = (path.parent / unquote(urlsplit(address).path)).resolve()
                assert local.exists(), f"{path.name}: {address}"
        scripts = " ".join(tag.get_text() for tag in page.find_all(["script", "style"]))
        assert not OTHERS.search(scripts), path.name
    for path in site.rglob("*.css"):
        for address in re.findall(r"url\(['\"]?([^'\")]+)", path.read_text("utf-8")):
            assert address.startswith("data:") or not urlsplit(address).netloc, path.name


@pytest.mark.slow
def test_pages_are_light_and_can_be_read_without_seeing(site):
    for path in pages_of(site):
        assert path.stat().st_size < LARGEST, path.name
        if path.parent == site and path.name == "index.html":
            # Sends the reader on to the first page.
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
def test_the_executed_page_shows_results_and_the_others_say_they_have_none(site, pytestconfig):
    page = parsed(site / f"{EXECUTED}.html")
    # The same process has executed it, so that it is not done twice.
    plugins = pytestconfig.pluginmanager.get_plugins()
    assert [plugin.SHOWN for plugin in plugins if hasattr(plugin, "SHOWN")] == [EXECUTED]
    figures = page.select("article .cell_output img")
    assert len(figures) >= 3
    assert all(re.search(r"\d", figure["alt"]) for figure in figures), "they describe themselves"
    assert "built without running" not in page.get_text()
    assert f"settings/{Path(EXECUTED).name}.yaml" in page.get_text()
    assert "built without running" in parsed(site / "notebooks" / "qa.html").get_text()


@pytest.mark.slow
def test_every_prompt_of_every_language_stands_in_full(site):
    pages = [site / "book/prompts.html", *(site / "book/languages").glob("*.html")]
    assert len(pages) == len(languages.available()) - 1
    shown = {" ".join(pre.get_text().split()) for page in pages for pre in parsed(page)("pre")}

    def texts(value):
        for inner in value.values():
            yield from texts(inner) if isinstance(inner, dict) else [inner]

    for path in (ROOT / "rulerlib" / "languages").glob("*/language.toml"):
        pack = tomllib.loads(path.read_text("utf-8"))
        for section, values in pack.items():
            if isinstance(values, dict) and section not in ("list", "types"):
                for text in texts(values):
                    assert " ".join(str(text).split()) in shown, f"{path}: {text}"


@pytest.mark.slow
def test_there_is_an_example_of_every_task_in_every_language(site):
    page = parsed(site / "book" / "tasks.html")
    examples = Counter(label.get_text().strip() for label in page.select("article .sd-tab-label"))
    whole = {languages.load(code).name for code in languages.available("memory")}
    assert {name for name, count in examples.items() if count == len(TASKS)} == whole
    assert len(examples) == len(languages.available())
    assert min(examples.values()) >= 19


@pytest.mark.slow
def test_mathematics_is_set(browser, address):
    page, wrong = opened(browser, address, "book/methods")
    page.wait_for_selector("mjx-container[jax]", state="attached")
    assert page.locator("mjx-container mjx-assistive-mml").count() >= 3, "for screen readers"
    assert not wrong


@pytest.mark.slow
def test_the_leaderboard_stands_in_its_page(browser, address, site):
    page, wrong = opened(browser, address, "book/leaderboard")
    page.wait_for_selector("#table tbody tr:nth-child(52)")
    assert "≥128K" in page.locator("#table tbody tr").first.inner_text()
    assert page.locator("#claims svg circle").count() > 40
    # It counts what the first page counts.
    counts = page.locator("#claims-said").inner_text().partition("Of ")[2]
    claim = parsed(site / "book" / "index.html").select_one(".claim").get_text()
    assert sorted(re.findall(r"\d+", counts)) == sorted(re.findall(r"\d+", claim))
    assert page.locator("article section:has(> h2) > ul").first.locator("li").count() == 7
    assert not wrong


@pytest.mark.slow
def test_a_widget_is_drawn_from_its_stored_state(browser, address):
    page, wrong = opened(browser, address, WIDGET)
    page.wait_for_selector(".widget-slider")
    assert "7" in page.locator(".widget-slider").inner_text()
    page.wait_for_load_state("networkidle")
    page.evaluate("document.fonts.ready")
    assert not wrong


@pytest.mark.slow
def test_the_search_quotes_what_a_page_says(browser, address):
    page, _ = opened(browser, address, "search")
    page.goto(f"{address}/search.html?q=wabt")
    page.wait_for_selector("ul.search li p.context")
    page.wait_for_load_state("networkidle")
    quoted = " ".join(page.locator("ul.search li p.context").all_inner_texts())
    # Words of the toolbar, and two cells of a table without a space between them.
    assert not re.search("Show source|Contents|Print to PDF|watdot", quoted)
    assert re.search(r"kernel\.wat\s+dot products", quoted)


@pytest.mark.slow
def test_pages_fit_a_phone_and_ask_nobody_else(browser, address, toc):
    phones = [
        opened(browser, address, toc[0], width=390, scheme=scheme) for scheme in ("light", "dark")
    ]
    for number, path in enumerate(toc):
        page, wrong = phones[number % 2]
        page.goto(f"{address}/{path}.html")
        wide = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        assert not wide, f"{path} is wider than a phone"
        assert not wrong, path
    for page, _ in phones:
        page.context.close()


@pytest.mark.slow
def test_the_keyboard_reaches_the_text_first(browser, address):
    page, _ = opened(browser, address, "book/index")
    page.keyboard.press("Tab")
    said = page.evaluate("document.activeElement.textContent.trim()")
    assert "main content" in said.lower()
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main-content"
