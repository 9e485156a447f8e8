"""Every documented papermill command sets parameters that its notebook accepts.

Commands are in the README, in the book's pages, in the text of the notebooks and at the head of
the files in ``params``.
"""

from __future__ import annotations

import re
import shlex
from functools import cache

import pytest
from helpers_commands import accepted, checked, defaults, options

from conftest import ROOT
from rulerlib.runs import Run

nbformat = pytest.importorskip("nbformat")

# Plans of sweeps are read by workflow/expand.py, see test_sweep.py.
SWEEPS = ROOT / "params" / "sweeps"
FILES = sorted(path for path in (ROOT / "params").rglob("*.yaml") if SWEEPS not in path.parents)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "book").rglob("*.md")), *NOTEBOOKS, *FILES]

COMMAND = re.compile(r"papermill (notebooks/\w+\.ipynb [^`\n]*)")

names = cache(accepted)


def text_of(page):
    """Return the text of a page; of a notebook, its Markdown."""
    if page.suffix == ".ipynb":
        cells = nbformat.read(page, as_version=4).cells
        return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return page.read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_set_parameters_of_their_notebooks(page):
    for command in COMMAND.findall(text_of(page)):
        notebook, values = options(shlex.split(command))
        assert notebook.is_file(), command
        assert set(values) <= names(notebook), command


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT / "params")))
def test_a_file_of_parameters_begins_with_its_command(file, tmp_path, monkeypatch):
    """The notebook accepts all values of the file; the model itself is not opened."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Run, "check", lambda run: None)
    (tmp_path / "owner" / "name").mkdir(parents=True)
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / "owner" / "name" / name).write_text("{}", "utf-8")
    text = file.read_text("utf-8")
    if file.name.startswith("results"):
        assert "make results" in text.splitlines()[0]
        return
    command, *_ = COMMAND.findall(text)
    assert f"-f {file.relative_to(ROOT)}" in command
    notebook, values = options(shlex.split(command))
    # papermill warns of parameters that the notebook does not list.
    assert set(values) <= set(defaults(notebook))
    checked(notebook, {**defaults(notebook), **values})
