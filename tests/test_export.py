"""Exports to Parquet and CSV, checked with other readers."""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from helpers_model import Knowing, Parrot, some_samples, write_dataset

import rulerlib
from rulerlib.errors import DataError
from rulerlib.export import parquet, scores
from rulerlib.parts import Part
from rulerlib.runs import Run
from rulerlib.samples import Sample


@pytest.fixture
def run(tmp_path):
    """Return a function that makes a finished run, with an engine that needs no weights."""

    def made(names="niah_single_2,niah_multivalue", **options):
        options = {"num_samples": 7, "length": 1000, "num_lengths": 2, **options}
        run = Run(names, output=str(tmp_path), loaded=Parrot(), **options)
        run = replace(run, loaded=Knowing([run.dataset(cell) for cell in run.cells]))
        run.predict()
        return run

    return made


def recall(path: Path) -> float:
    """Return the score of a file of predictions by the rule of NVIDIA's evaluate.py."""
    shares = []
    for line in path.read_text("utf-8").splitlines():
        pred, outputs = json.loads(line)["pred"].lower(), json.loads(line)["outputs"]
        shares.append(sum(wanted.lower() in pred for wanted in outputs) / len(outputs))
    return round(100 * sum(shares) / len(shares), 2)


def test_scores_have_a_row_for_each_cell(run, tmp_path):
    made = run(seed=7)
    path = scores.write(made, tmp_path / "scores.csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(made.cells) == 4
    for row, cell in zip(rows, made.cells, strict=True):
        assert (row["task"], int(row["length"])) == (cell.label, cell.length)
        assert int(row["n"]) == 7
        assert round(100 * float(row["recall"]), 2) == recall(made.answers(cell))
        assert float(row["mean"]) == float(row[row["measure"]])
        assert float(row["low"]) <= float(row["mean"]) <= float(row["high"])
        assert (row["seed"], row["language"], row["engine"]) == ("7", "da", "parrot")
        assert (row["answer_prefix"], row["thinking_tokens"]) == ("assistant", "0")
        for name, file_of in (("data", made.questions), ("pred", made.answers)):
            data = file_of(cell).read_bytes()
            assert row[f"{name}_sha256"] == hashlib.sha256(data).hexdigest()
        versions = json.loads(row["versions"])
        assert versions["rulerlib"] == rulerlib.__version__
        assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
        # Every second answer was cut off by the limit; right ones do not count.
        assert 0 < int(row["cut_off"]) <= 3
    assert scores.write(made, path).read_bytes() == path.read_bytes()


def test_each_task_has_its_own_measures(run):
    first, second = scores.rows(run("niah_single_2,qa_1", num_lengths=1))
    assert (first["measure"], second["measure"]) == ("all_match", "part_match")
    assert (first["part_match"], second["recall"]) == (None, None)
    other = scores.rows(run("niah_single_2,qa_1", num_lengths=1, primary="recall"))
    assert [row["measure"] for row in other] == ["recall", "part_match"]
    assert other[0]["mean"] == first["recall"]


def test_scores_need_a_finished_run(tmp_path):
    made = Run("niah_single_2", length=1400, output=str(tmp_path), loaded=Parrot())
    with pytest.raises(DataError, match=r"niah_single_2\.jsonl: cannot be read"):
        scores.write(made, tmp_path / "scores.csv")
    assert not (tmp_path / "scores.csv").exists()


def read(rows):
    """Return samples from rows, in which parts and facts are JSON."""
    return [
        Sample.from_dict(
            {**row, "parts": json.loads(row["parts"]), "facts": json.loads(row["facts"])}
        )
        for row in rows
    ]


def test_parquet_has_every_field_and_the_metadata(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (rulerlib[hub])")
    datasets = pytest.importorskip("datasets", reason="needs datasets (rulerlib[hub])")
    made = some_samples(9)
    made[3].context_id, made[4].token_position_answer, made[5].depths = 2, None, []
    made[7].golds = [["Ribe", "Skive"], ["5"]]
    made[6].parts = [Part("needle", 0, 9, key="ø", depth=50), Part("value", 2, 4)]
    dataset = write_dataset(tmp_path / "data", made)
    path = parquet.write(dataset, tmp_path / "out" / "niah.parquet")
    file = pq.ParquetFile(path)
    rows = file.read().to_pylist()
    assert read(rows) == made
    assert set(rows[0]) == {field.name for field in fields(Sample)}
    about = json.loads(file.schema_arrow.metadata[b"rulerlib"])
    assert about == json.loads((tmp_path / "data" / "metadata.json").read_text())
    loaded = datasets.load_dataset(
        "parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert read(loaded) == made


def test_a_damaged_dataset_leaves_no_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow (rulerlib[hub])")
    dataset = write_dataset(tmp_path / "data", some_samples(3))
    dataset.write_bytes(dataset.read_bytes()[:-20])
    with pytest.raises(DataError, match="line 3"):
        parquet.write(dataset, tmp_path / "x.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
