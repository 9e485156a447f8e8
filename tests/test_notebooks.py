"""The notebooks: their parameters, and what they show when nbmake or papermill executes them."""

from __future__ import annotations

import ast

import pytest
from helpers_model import ROOT, run_niah

from book import execute
from rulerlib.files import HOME

pytest.importorskip("papermill")
pytest.importorskip("ipykernel")
nbformat = pytest.importorskip("nbformat")
yaml = pytest.importorskip("yaml")
pytest.importorskip("torch")

NOTEBOOKS = sorted([*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "book").glob("*.ipynb")])


def cells(path, kind=None):
    return [cell for cell in nbformat.read(path, as_version=4).cells
            if kind in (None, cell.cell_type)]  # fmt: skip


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_title_and_one_cell_of_parameters(path):
    tagged = [cell for cell in cells(path) if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    names = [
        node.targets[0].id for node in ast.parse(tagged[0].source).body
        if isinstance(node, ast.Assign)
    ]  # fmt: skip
    assert len(names) == len(set(names)) == len(ast.parse(tagged[0].source).body)
    # papermill inserts its values after this cell, before all other code.
    assert cells(path, "code")[0] == tagged[0]
    assert cells(path, "markdown")[0].source.startswith("# ")


RUNS = [path for path in NOTEBOOKS if "Run.from_notebook" in cells(path, "code")[1].source]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_the_default_parameters_work(path, tmp_path, monkeypatch):
    """The last of the longest questions can be generated; no model is asked."""
    monkeypatch.setenv(HOME, str(tmp_path))
    given = {}
    for cell in cells(path, "code")[:2]:
        exec(cell.source, given)
    run = given["run"]
    longest = [cell for cell in run.cells if cell.length == given["length"]]
    assert len(longest) == len(run.tasks)
    assert bool(run.study_cells) == bool(given.get("study"))
    for cell in longest:
        data = run.dataset(cell)
        assert data[len(data) - 1].length_w_model_temp <= cell.length


@pytest.mark.parametrize(
    "page", [page for page in execute.pages() if page.startswith("notebooks/")]
)
def test_executed_notebooks_have_no_warnings_and_every_figure_has_a_text(page):
    """nbmake has executed each notebook with the settings of the tests."""
    if execute.executed(page) is None:
        pytest.skip("needs the executions of pytest --nbmake")
    path = execute.executed_path(page)
    found = outputs(path)
    assert found
    assert not [output for output in found if output.output_type == "error"]
    assert not [output for output in found if output.get("name") == "stderr"], "no warnings"
    pictures = [each.data for each in found if "image/png" in each.get("data", {})]
    assert pictures or page in ("notebooks/playground", "notebooks/inference")
    assert all(len(each["text/plain"]) > 10 for each in pictures)
    given = [cell for cell in cells(path) if "injected-parameters" in cell.metadata.get("tags", [])]
    settings = execute.settings_path(page)
    names = {node.targets[0].id for node in ast.parse(given[0].source).body}
    assert settings.parent == ROOT / "tests" / "settings"
    assert names == set(yaml.safe_load(settings.read_text("utf-8")))


def outputs(path):
    return [output for cell in cells(path, "code") for output in cell.outputs]


def test_papermill_stops_at_an_invalid_parameter_with_one_line(tmp_path):
    arguments = ["bad.ipynb", "--no-progress-bar", "-p", "lenght", "5", "-p", "output", "results"]
    done = run_niah(tmp_path / "home", tmp_path, *arguments)
    assert done.returncode != 0
    assert not (tmp_path / "results").exists()
    (error,) = (each for each in outputs(tmp_path / "bad.ipynb") if each.output_type == "error")
    assert "did you mean 'length'" in error.evalue
    assert "\n" not in error.evalue
    assert len(error.traceback) == 1
    # The terminal ends with the same line.
    last = [line for line in done.stderr.splitlines() if line.strip()][-1]
    assert last == f"ParameterError: {error.evalue}"
