"""The notebook as it lies in the repository, and as papermill executes it on a bare machine."""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys

import pytest
from helpers_kernel import forked
from helpers_model import ROOT, bare_environment, papermill, tiny_model, tree
from helpers_store import write_records

from book import execute
from book.tables import NONE_YET
from rulerlib.fields import HOME
from rulerlib.samples import Prediction

pytest.importorskip("papermill")
pytest.importorskip("ipykernel")
nbformat = pytest.importorskip("nbformat")
yaml = pytest.importorskip("yaml")
pytest.importorskip("torch")

NOTEBOOKS = sorted([*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "book").glob("*.ipynb")])
NIAH = ROOT / "notebooks" / "niah.ipynb"


def cells(path, kind=None):
    return [cell for cell in nbformat.read(path, as_version=4).cells
            if kind in (None, cell.cell_type)]  # fmt: skip


# --- As it lies there ------------------------------------------------------------------------


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
def test_nothing_but_source_is_stored(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    for cell in cells(path, "code"):
        assert cell.outputs == []
        assert cell.execution_count is None
        assert set(cell.metadata) <= {"tags"}


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


# --- Executed --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page",
    [page for page in execute.pages() if page.startswith("notebooks/")],
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
    done = papermill(
        folder / "home", folder, str(folder / "out.ipynb"), "--no-progress-bar", *given,
        *("-y", f"study: {json.dumps(STUDY)}"),
    )  # fmt: skip
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
    found = outputs(folder / "out.ipynb")
    assert not [output for output in found if output.output_type == "error"]
    assert not [output for output in found if output.get("name") == "stderr"], "no warnings"
    data = [output.data for output in found if "data" in output]
    assert sum("image/png" in each for each in data) >= 2, "the curve and the heatmap"
    markup = "".join(each.get("text/html", "") for each in data)
    assert "<mark" in markup, "the needle of the example"
    assert "95 % interval" in markup
    assert "wanted:" in markup, "a random model is wrong"
    bars = [each["text/plain"] for each in data if "100% |" in each.get("text/plain", "")]
    assert bars, "the bar stays readable in the page"
    widgets = [each for each in data if "application/vnd.jupyter.widget-view+json" in each]
    assert not widgets, "a widget is blank in a static page"


def test_a_bad_parameter_stops_it_with_one_sentence(workplace):
    folder, _ = workplace
    before = tree(folder / "results")
    given = {"model": "tiny", "length": "1024", "output": "results", "lenght": "5"}
    arguments = [part for key, text in given.items() for part in ("-p", key, text)]
    done = papermill(
        folder / "home", folder, str(folder / "bad.ipynb"), "--no-progress-bar", *arguments
    )
    assert done.returncode != 0
    assert tree(folder / "results") == before
    (error,) = (each for each in outputs(folder / "bad.ipynb") if each.output_type == "error")
    assert "did you mean 'length'" in error.evalue
    assert "\n" not in error.evalue
    assert len(error.traceback) == 1, "a sentence, no pages of code"
    # The terminal ends with the sentence, too.
    last = [line for line in done.stderr.splitlines() if line.strip()][-1]
    assert last == f"ParameterError: {error.evalue}"


def test_other_settings_stand_beside_what_is_there(workplace, monkeypatch):
    folder, _ = workplace
    monkeypatch.delenv(HOME, raising=False)
    before = tree(folder / "results")
    (folder / "own.txt").write_text("Min egen tekst er her. " * 50, encoding="utf-8")
    executed(
        NIAH, folder / "other.ipynb", folder, model="tiny", output="results", length=1024,
        num_lengths=1, num_samples=4, seed=43, texts="own.txt", study=None,
    )  # fmt: skip
    after = tree(folder / "results")
    assert {path: after[path] for path in before} == before
    added = [path for path in after if path not in before]
    assert added
    assert all("niah_single_2+seed=43+texts=own.txt-" in path for path in added)


def test_a_second_run_gives_the_same_bytes(workplace, monkeypatch):
    """Nothing is asked again, and what stands in the folder stays as it is."""
    folder, _ = workplace
    monkeypatch.delenv(HOME, raising=False)
    before = tree(folder / "results")
    stamps = {path: path.stat().st_mtime_ns for path in (folder / "results").rglob("pred/*")}
    executed(NIAH, folder / "again.ipynb", folder, **SMALL, study=STUDY)
    assert tree(folder / "results") == before
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


# --- Notebooks that ask no model ---------------------------------------------------------------


def runs_of(folder, models):
    """Predictions of several models that never saw a prompt: they know the depth, or guess."""
    for model, skill in models.items():
        for length in (512, 1024, 2048):
            for task in ("niah_single_2", "niah_multikey_1", "vt", "qa_1"):
                path = folder / model / "da" / str(length) / "pred" / f"{task}.jsonl"
                rng = random.Random(f"{model} {length} {task}")
                records = []
                for index in range(12):
                    said = rng.choices(
                        ["1234567", "7654321", "", "I cannot find it."],
                        [skill, length / 1024, 0.1, 0.1],
                    )[0]
                    records.append(
                        Prediction(index, "a 1234567 b 7654321 <b>c</b>", ["1234567"],
                                   f"<script>{said}", {"depths": [8 * index]})
                    )  # fmt: skip
                write_records(path, records)


def executed(path, shown, cwd=ROOT, **parameters):
    """What a notebook shows after papermill, run from the repository as the book runs it."""
    import papermill as library

    with forked():
        done = library.execute_notebook(path, shown, parameters, cwd=cwd, progress_bar=False)
    cells = [cell for cell in done.cells if cell.cell_type == "code"]
    found = [output for cell in cells for output in cell.outputs]
    assert not [output for output in found if output.get("name") == "stderr"], "no warnings"
    data = [output.data for output in found if "data" in output]
    return data, [each.get("text/plain", "") for each in data]


ANALYSIS = ROOT / "notebooks" / "analysis.ipynb"


def test_the_analysis_of_three_models(tmp_path):
    runs_of(tmp_path / "runs", {"small": 1, "middle": 3, "large": 9})
    data, _ = executed(
        ANALYSIS, tmp_path / "shown.ipynb", runs=str(tmp_path / "runs"), threshold=60,
        claimed={"large": "4K"}, resamples=200,
    )  # fmt: skip
    pictures = [each for each in data if "image/png" in each]
    # Averages, effective lengths; and for each model curves, depths, errors twice.
    assert len(pictures) == 2 + 3 * 4
    assert all(len(each["text/plain"]) > 40 for each in pictures), "words for every figure"
    whole = " ".join(each.get("text/html", "") for each in data)
    assert "large − middle" in whole or "middle − large" in whole
    assert "&lt;script&gt;" in whole
    assert "<script>1234567" not in whole, "what a model wrote is text"
    assert "95 % interval" in whole


def test_the_analysis_of_one_model_says_what_it_cannot_tell(tmp_path):
    runs_of(tmp_path / "runs", {"alone": 50})
    shown = tmp_path / "shown.ipynb"
    _, texts = executed(ANALYSIS, shown, runs=str(tmp_path / "runs"), resamples=200)
    said = " ".join(texts)
    assert said.count("There is one model here, alone, and a comparison needs two.") == 3
    assert "differ in no knob" in said


def test_the_analysis_stops_with_one_sentence(tmp_path):
    library = pytest.importorskip("papermill")
    with pytest.raises(library.PapermillExecutionError, match="a folder that exists"):
        executed(ANALYSIS, tmp_path / "shown.ipynb", runs=str(tmp_path / "nowhere"))


def test_the_page_of_results_without_results(tmp_path):
    page = ROOT / "book" / "results.ipynb"
    _, texts = executed(page, tmp_path / "shown.ipynb", tables=str(tmp_path / "none"))
    assert texts
    assert set(texts) == {NONE_YET}


# --- What a notebook may rely on -------------------------------------------------------------


def test_rulerlib_alone_needs_nothing(tmp_path):
    """`import rulerlib` loads none of the heavy packages."""
    code = (
        "import sys\nimport rulerlib\n"
        "heavy = {'torch', 'transformers', 'numpy', 'pandas', 'matplotlib', 'IPython'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
        env=bare_environment(tmp_path, PYTHONPATH=str(ROOT)),
    )  # fmt: skip
    assert done.stdout.split("\n")[0] == "[]", done.stderr
