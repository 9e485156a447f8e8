"""The notebook as it lies in the repository, and as papermill executes it on a bare machine."""

from __future__ import annotations

import ast
import json

import pytest
from helpers_model import ROOT, run_niah, tiny_model, tree

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
def test_one_cell_of_parameters(path):
    tagged = [cell for cell in cells(path) if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    names = [
        node.targets[0].id for node in ast.parse(tagged[0].source).body
        if isinstance(node, ast.Assign)
    ]  # fmt: skip
    assert len(names) == len(set(names)) == len(ast.parse(tagged[0].source).body)
    # It comes before all other code, so that papermill's values follow it and win.
    assert cells(path, "code")[0] == tagged[0]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_tells_and_the_library_works(path):
    """A cell with a loop that has an ``if`` in it belongs in rulerlib; each cell has its words."""
    for cell in cells(path, "code"):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, (ast.For, ast.While)):
                assert not any(isinstance(inner, ast.If) for inner in ast.walk(node))
    kinds = [cell.cell_type for cell in cells(path)]
    assert kinds[0] == "markdown"
    assert cells(path)[0].source.startswith("# ")


RUNS = [path for path in NOTEBOOKS if "Run.from_notebook" in cells(path, "code")[1].source]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_the_default_parameters_can_be_asked(path, tmp_path, monkeypatch):
    """Without the small settings of the tests: the last of the longest questions, no answers."""
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
def test_what_nbmake_executed_has_no_warnings_and_words_for_every_figure(page):
    """Each notebook, with the settings of the tests; the same process has just executed it."""
    if execute.executed(page) is None:
        pytest.skip("needs the executions of pytest --nbmake")
    path = execute.executed_path(page)
    found = outputs(path)
    assert found
    assert not [output for output in found if output.output_type == "error"]
    assert not [output for output in found if output.get("name") == "stderr"], "no warnings"
    pictures = [each.data for each in found if "image/png" in each.get("data", {})]
    assert pictures or page in ("notebooks/playground", "notebooks/inference")
    assert all(len(each["text/plain"]) > 40 for each in pictures)
    given = [cell for cell in cells(path) if "injected-parameters" in cell.metadata.get("tags", [])]
    settings = execute.settings_path(page)
    names = {node.targets[0].id for node in ast.parse(given[0].source).body}
    assert settings.parent == ROOT / "tests" / "settings"
    assert names == set(yaml.safe_load(settings.read_text("utf-8")))


SMALL = {
    "model": "tiny", "output": "results", "num_samples": 4, "length": 2048, "num_lengths": 2,
    "study_samples": 1, "tasks": "niah_single_2,niah_multivalue",
}  # fmt: skip
STUDY = [{"num_needle_k": 2}, {"haystack": "needle"}]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with a tiny model, and a run that papermill has finished in it."""
    folder = tmp_path_factory.mktemp("work")
    tiny_model(folder / "tiny")
    given = [part for name, value in SMALL.items() for part in ("-p", name, str(value))]
    study = ("-y", f"study: {json.dumps(STUDY)}", "--no-progress-bar")
    done = run_niah(folder / "home", folder, *given, *study)
    return folder, done


def outputs(path):
    return [output for cell in cells(path, "code") for output in cell.outputs]


def test_papermill_runs_it_without_an_activated_environment(workplace):
    folder, done = workplace
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr, "a newcomer takes it for a fault"
    for length in (1024, 2048):
        for task in ("niah_single_2", "niah_multivalue"):
            (path,) = (folder / "results").glob(f"tiny+*/da/{length}/pred/{task}.jsonl")
            records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            assert [record["index"] for record in records] == list(range(4))


def test_the_executed_notebook_shows_everything(workplace):
    folder, _ = workplace
    # Where it stands if nothing is said.
    found = outputs(folder / "runs" / "niah.ipynb")
    assert not [output for output in found if output.output_type == "error"]
    assert not [output for output in found if output.get("name") == "stderr"], "no warnings"
    data = [output.data for output in found if "data" in output]
    assert sum("image/png" in each for each in data) >= 2, "the curve and the heatmap"
    markup = "".join(each.get("text/html", "") for each in data)
    assert "<mark" in markup, "the needle of the example"
    assert "95 % interval" in markup
    assert "wanted:" in markup, "a random model is wrong"
    bars = [each["text/plain"] for each in data if "100%|" in each.get("text/plain", "")]
    assert bars, "the bar stays readable in the page"
    widgets = [each for each in data if "application/vnd.jupyter.widget-view+json" in each]
    assert not widgets, "a widget is blank in a static page"


def test_a_bad_parameter_stops_it_with_one_sentence(workplace):
    folder, _ = workplace
    before = tree(folder / "results")
    given = {"model": "tiny", "length": "1024", "output": "results", "lenght": "5"}
    arguments = [part for key, text in given.items() for part in ("-p", key, text)]
    done = run_niah(folder / "home", folder, "bad.ipynb", "--no-progress-bar", *arguments)
    assert done.returncode != 0
    assert tree(folder / "results") == before
    (error,) = (each for each in outputs(folder / "bad.ipynb") if each.output_type == "error")
    assert "did you mean 'length'" in error.evalue
    assert "\n" not in error.evalue
    assert len(error.traceback) == 1, "a sentence, no pages of code"
    # The terminal ends with the sentence, too.
    last = [line for line in done.stderr.splitlines() if line.strip()][-1]
    assert last == f"ParameterError: {error.evalue}"
