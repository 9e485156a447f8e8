"""What is collected of a sweep, against what the analysis makes of the same answers."""

from __future__ import annotations

import csv
import functools
import json
import sys

import helpers_sweep
import nbformat
import pytest
from helpers_sweep import settings, write

from rulerlib import analysis, models
from rulerlib.errors import DataError
from rulerlib.metering import PHASES
from rulerlib.sweep import collect as collecting
from rulerlib.sweep.__main__ import main
from rulerlib.sweep.collect import collect, reports
from rulerlib.sweep.sweep import Sweep

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module", autouse=True)
def instant():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "ENGINES", models.ENGINES)
        helpers_sweep.install()
        yield


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A sweep of two models that is done: one draws several answers, and contexts are shared."""
    folder = tmp_path_factory.mktemp("sweep")
    drawn = {"temperature": 1, "seed": 1, "samples": 2}
    gpus = {"gpus": 4}
    two = {
        "one": {"model": "our/one", "engine": "instant", "resources": gpus},
        "two": {"model": "our/two", "engine": "instant", "decoding": drawn},
    }
    plan = settings(
        folder, models=two, tasks="niah_multikey_2,qa_1", lengths=[1500, 2000],
        queries_per_context=2, num_samples=4, seeds=[42],
    )  # fmt: skip
    path = write(folder / "plan.yaml", plan)
    assert main(["plan", str(path)]) == main(["run", str(path)]) == 0
    loaded = Sweep.load(folder)
    # Some answers are right.
    for cell in loaded.cells:
        answers = loaded.answers(cell)
        lines = [json.loads(line) for line in answers.read_text("utf-8").splitlines()]
        for number, line in enumerate(lines):
            # As another tool would write it, without the checksum of what stood there.
            del line["crc32"]
            if number % 3:
                line["pred"] = line["outputs"][0]
        answers.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        cost = loaded.cost_path(cell)
        about = json.loads(cost.read_text("utf-8"))
        cost.write_text(json.dumps({**about, "bytes": answers.stat().st_size}), "utf-8")
    return loaded


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_cells_are_what_the_analysis_says(sweep):
    done, missing = collect(sweep)
    rows = table(sweep.folder / "cells.csv")
    assert (len(rows), len(done), missing) == (8, 8, [])
    scores = analysis.scores(analysis.read_predictions(sweep.root))
    for row in rows:
        model = sweep.plan.models[row["model"]].model
        own = scores[scores["model"].str.startswith(model) & (scores["task"] == row["task"])]
        own = own[own["length"] == int(row["length"])]
        (wanted,) = analysis.accuracy(own, by=("language", "task", "length")).to_dict("records")
        assert int(row["n"]) == wanted["n"] == (8 if row["model"] == "two" else 4)
        for name in ("mean", "low", "high"):
            assert float(row[name]) == pytest.approx(wanted[name])
        assert 0 < float(row["mean"]) < 1
        phases = [float(row[f"{phase}_seconds"]) for phase in PHASES]
        assert sum(phases) > 0
        assert int(row["computed_tokens"]) < int(row["prompt_tokens"])
        assert row["asked"] == row["n"]
    long = table(sweep.folder / "scores.csv")
    assert len(long) == len(scores)
    assert sum(float(row["value"]) for row in long) == pytest.approx(scores["value"].sum())


# --- Reports -------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A notebook in the place of the analysis, which says what it was given, without a kernel."""
    papermill = pytest.importorskip("papermill")
    from helpers_commands import Here

    cells = [
        nbformat.v4.new_code_cell("runs = models = lengths = 0", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("models, lengths"),
    ]
    path = tmp_path / "notebooks" / "analysis.ipynb"
    path.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    monkeypatch.setattr(collecting, "NOTEBOOKS", path.parent)
    papermill.engines.papermill_engines.register("here", Here)
    # IPython takes its place, and processes that a later test starts ask for it.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    kernel = {"engine_name": "here", "kernel_name": "none", "language": "python"}
    execute = functools.partial(papermill.execute_notebook, **kernel)
    monkeypatch.setattr(papermill, "execute_notebook", execute)
    return path


def test_each_model_and_length_has_its_report(sweep, small, monkeypatch, capsys):
    import papermill

    cells = [cell for cell in sweep.cells if (cell.model, cell.length) == ("one", 1500)]
    made, failed = reports(sweep, cells)
    assert not failed
    names = [path.relative_to(sweep.folder).as_posix() for path in made]
    assert names == ["reports/one/1500.ipynb", "reports/all.ipynb"]
    shown = [nbformat.read(path, as_version=4).cells[-1].outputs[0].data for path in made]
    assert shown[0]["text/plain"] == "(['our--one+engine=instant'], [1500])"
    assert shown[1]["text/plain"] == "(['our--one+engine=instant'], 0)"
    before = [path.read_bytes() for path in made]

    def broken(*_, **__):
        raise papermill.PapermillExecutionError(2, 1, "", "DataError", "a file is damaged.", [])

    # The same answers: nothing is executed. One that cannot be executed leaves the old one.
    monkeypatch.setattr(papermill, "execute_notebook", broken)
    assert reports(sweep, cells) == (made, [])
    sweep.cost_path(cells[0]).touch()
    kept, failed = reports(sweep, cells)
    assert kept == []
    assert failed[0] == f"{made[0]}: DataError: a file is damaged."
    assert [path.read_bytes() for path in made] == before
    small.unlink()
    with pytest.raises(DataError, match="is missing: run this in the project's folder"):
        reports(sweep, cells)
    assert main(["collect", "--no-reports", str(sweep.folder)]) == 0
    assert f"{sweep.folder}: scores.csv, cells.csv\n" in capsys.readouterr().out
