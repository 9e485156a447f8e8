"""What is collected of a sweep, against what the analysis makes of the same answers."""

from __future__ import annotations

import csv
import json

import helpers_sweep
import pytest
from helpers_sweep import settings, write

from rulerlib import analysis, models
from rulerlib.progress import PHASES
from rulerlib.sweep.__main__ import main
from rulerlib.sweep.collect import collect
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
