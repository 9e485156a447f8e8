"""Parameters, wherever they are written down: every name is one that the notebook accepts.

Commands stand in the README, in the book's pages, in the notebooks' own texts and at the head of
the files in ``params``; the names that are accepted are those that a notebook's own error lists.
"""

from __future__ import annotations

import re
import shlex
from functools import cache

import pytest
from helpers_commands import accepted, checked, defaults

from conftest import ROOT
from rulerlib.runs import Run

nbformat = pytest.importorskip("nbformat")
yaml = pytest.importorskip("yaml")

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Plans of sweeps are read by workflow/expand.py, see test_sweep.py.
SWEEPS = ROOT / "params" / "sweeps"
FILES = sorted(path for path in (ROOT / "params").rglob("*.yaml") if SWEEPS not in path.parents)
PAGES = [ROOT / "README.md", *sorted((ROOT / "book").rglob("*.md")), *NOTEBOOKS, *FILES]

COMMAND = re.compile(r"papermill (notebooks/\w+\.ipynb [^`\n]*)")
"""A command and what it hands over; in running text it ends with its backtick."""

names = cache(accepted)


def texts(page):
    """What a reader of a page sees: of a notebook its words, of settings the comments."""
    if page.suffix == ".ipynb":
        cells = nbformat.read(page, as_version=4).cells
        return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return page.read_text("utf-8")


def options(command):
    """Return the notebook of a command and all that the command sets, files included."""
    notebook, _, *words = shlex.split(command)
    values = {}
    while words:
        option, value, *words = words
        if option == "-p":
            text, *words = words
            values[value] = yaml.safe_load(text)
        elif option == "-y":
            values |= yaml.safe_load(value)
        else:
            assert option == "-f"
            values |= yaml.safe_load((ROOT / value).read_text("utf-8"))
    return ROOT / notebook, values


COMMANDS = [
    pytest.param(command, id=f"{page.relative_to(ROOT)}: {command}")
    for page in PAGES
    for command in COMMAND.findall(texts(page))
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_sets_what_its_notebook_accepts(command):
    notebook, values = options(command)
    assert notebook.is_file()
    assert set(values) <= names(notebook)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder in which ``owner/name`` looks like a model; nobody opens its files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "name").mkdir(parents=True)
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / "owner" / "name" / name).write_text("{}", "utf-8")
    return tmp_path


@pytest.fixture
def unopened(place, monkeypatch):
    """The same, and runs do not look at their model: every value is checked by itself."""
    monkeypatch.setattr(Run, "check", lambda run: None)
    return place


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT / "params")))
def test_a_file_says_who_takes_it(file, unopened):
    """A file's first command names the file; the notebook takes all values and checks them."""
    said = file.read_text("utf-8")
    if file.name.startswith("results"):
        assert "make results" in said.splitlines()[0]
        return
    command, *_ = COMMAND.findall(said)
    assert f"-f {file.relative_to(ROOT)}" in command
    notebook, values = options(command)
    # The notebook lists them: papermill would warn of others.
    assert set(values) <= set(defaults(notebook))
    checked(notebook, {**defaults(notebook), **values})
