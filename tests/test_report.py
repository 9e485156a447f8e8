"""A report of runs on disk: everything the notebook shows, with one model and with several."""

from __future__ import annotations

import json
import shutil

import pytest
from helpers_store import write_records

from rulerlib import analysis
from rulerlib.errors import DataError, ParameterError
from rulerlib.files import HOME
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Prediction
from rulerlib.store import Cell, settings_path

pd = pytest.importorskip("pandas")

NUMBER = "1234567"


def write(path, right, **settings):
    """A file of predictions with its settings."""
    records = [
        Prediction(
            index, f"a {NUMBER} b {index}", [NUMBER], NUMBER if hit else "7654321",
            {"depths": [round(100 * index / len(right))]},
        )
        for index, hit in enumerate(right)
    ]  # fmt: skip
    write_records(path, records)
    if settings:
        settings_path(path).write_text(json.dumps(settings), encoding="utf-8")
    return path


def lay(folder, model, right, task="niah_single_2", length=1024, language="da", **more):
    """A cell of predictions as `rulerlib.predict` lays it."""
    cell = Cell(model, task, language, length, **more)
    return write(cell.answers(folder), right, model=f"models/{model}", cell=cell.settings())


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Two models, two languages, three lengths, two tasks, a knob."""
    root = tmp_path_factory.mktemp("written") / "runs"
    for model, steps in (("a", (20, 18, 9)), ("b", (19, 12, 2))):
        for language in ("da", "en"):
            for length, hits in zip((512, 1024, 2048), steps, strict=True):
                for task in ("niah_single_2", "niah_multikey_1"):
                    lay(root, model, [i < hits for i in range(20)], task, length, language)
    lay(root, "a", [i < 5 for i in range(20)], length=1024, knobs={"num_needle_k": 8})
    return root


@pytest.fixture
def folder(written, tmp_path):
    """A copy of these runs, to which a test may add."""
    return shutil.copytree(written, tmp_path / "runs")


def scores(*arguments, **options):
    """One row for each prediction below some folders."""
    return analysis.of_measure(
        analysis.scores(analysis.read_predictions(*arguments, **options))
    ).reset_index(drop=True)


def test_every_file_below_a_folder_is_read(folder):
    found = scores(folder)
    assert len(found) == 20 * (2 * 2 * 3 * 2 + 1)
    assert found["model"].unique().tolist() == ["a", "b"]
    assert set(found["language"]) == {"da", "en"}
    assert found["category"].unique().tolist() == ["retrieval"]
    only = scores(folder, "b", ["en"], "niah_single_2")
    assert only[["model", "language", "task"]].drop_duplicates().values.tolist() == [
        ["b", "en", "niah_single_2"]
    ]


def test_what_a_kill_left_does_not_count(folder):
    path = folder / "a" / "da" / "512" / "pred" / "niah_single_2.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    found = scores(folder, "a", "da", "niah_single_2")
    assert len(found[found["length"] == 512]) == 19
    path.write_bytes(data.replace(b'"pred"', b'"said"', 1))
    with pytest.raises(DataError, match=r"niah_single_2\.jsonl, line 1: .*'pred' is missing"):
        list(analysis.read_predictions(folder))
    # Killed in the first of all records.
    path.write_bytes(data[:30])
    assert scores(folder, "a", "da", "niah_single_2")["length"].min() == 1024
    path.write_bytes(b"")
    assert len(scores(folder)) == 20 * 24


def test_runs_are_told_apart_by_the_settings_in_which_they_differ(tmp_path):
    """And only by those: two seeds of one model, two formats of another, one run of a third."""
    lay(tmp_path, "a", [1, 1])
    lay(tmp_path, "a", [1, 0], seed=7)
    plain = PromptFormat(chat=False)
    for task in ("niah_single_2", "vt"):
        lay(tmp_path, "b", [1], task)
        lay(tmp_path, "b", [0], task, format=plain)
    lay(tmp_path, "c", [1], engine="vllm", options={"dtype": "float32"})
    table = analysis.scores(analysis.read_predictions(tmp_path))
    assert table["model"].unique().tolist() == ["a", "a, seed 7", "b", "b, no chat", "c"]
    assert analysis.accuracy(table, by=("model",))["mean"].tolist() == [1, 0.5, 1, 0, 1]
    differences = analysis.two_by_two(table, ["b", "b, no chat"], by=("language",))
    assert differences["difference"].tolist() == [1]
    only = scores(tmp_path, "b+chat=false")
    assert set(only["model"]) == {"b"}, "alone it differs from nothing"
    assert len(only) == 2
    by_seed = analysis.accuracy(table, by=("seed",))
    assert by_seed[["seed", "n"]].to_numpy().tolist() == [[7, 2], [42, 7]]


def test_nvidias_files_are_read(tmp_path):
    """Their scripts write <model>/synthetic/<length>/pred/<task>.jsonl, without our extras."""
    path = tmp_path / "llama" / "synthetic" / "4096" / "pred" / "vt.jsonl"
    path.parent.mkdir(parents=True)
    record = {"index": 0, "pred": "AAAAA BBBBB", "input": "VAR AAAAA = 12345", "length": 4000,
              "outputs": ["AAAAA", "BBBBB"], "others": {}, "truncation": -1,
              "time": 2.5}  # fmt: skip
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    found = analysis.scores(analysis.read_predictions(tmp_path)).iloc[0]
    assert (found["model"], found["language"], found["length"]) == ("llama", "synthetic", 4096)
    assert (found["measure"], found["value"]) == ("all_match", 1)
    assert found["category"] == "multi-hop tracing"


BAD = [
    ({"folders": "nowhere"}, "a folder that exists"),
    ({"task_names": "niah_singel_2"}, "did you mean 'niah_single_2'"),
    ({"languages": "sv"}, "one of da, en"),
    ({"models": 3}, "models is 3"),
    ({"lengths": 600}, "among those that were run: 512, 1024, 2048"),
]


@pytest.mark.parametrize(("given", "said"), BAD, ids=lambda value: str(value)[:20])
def test_bad_parameters_are_one_sentence(folder, given, said):
    with pytest.raises(ParameterError, match=said) as error:
        list(analysis.read_predictions(**{"folders": folder, **given}))
    assert "\n" not in str(error.value)


def test_a_folder_without_predictions_says_how_they_lie(tmp_path):
    with pytest.raises(ParameterError, match="<model>/<language>/<length>/pred"):
        list(analysis.read_predictions(tmp_path))
    (tmp_path / "m" / "da" / "long" / "pred").mkdir(parents=True)
    (tmp_path / "m" / "da" / "long" / "pred" / "vt.jsonl").write_text("")
    with pytest.raises(DataError, match="'long' should be a length"):
        list(analysis.read_predictions(tmp_path))


def test_a_notebooks_parameters(folder, monkeypatch):
    """papermill hands over text, and a folder is where runs are written."""
    monkeypatch.setenv(HOME, str(folder.parent))
    found = scores("runs", models="a, b", lengths=512)
    assert len(found) == 160
    with pytest.raises(ParameterError, match="second is 'c'"):
        analysis.two_by_two(found, "a, c")
    with pytest.raises(ParameterError, match="did you mean 'recall'"):
        analysis.scores(analysis.read_predictions("runs"), "recal")
