"""A run's scores for *Every Eval Ever*, and for a model's page on the hub."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers_model import Knowing, Parrot

from rulerlib.errors import DataError, ParameterError
from rulerlib.export import results, scores
from rulerlib.runs import Run

yaml = pytest.importorskip("yaml")

# Of its schema 0.3.0: what a record must have, by the object that has it. The package itself needs
# Python 3.12; where its schema stands here, it is asked: EVERY_EVAL_EVER=eval.schema.json.
REQUIRED = {
    "": "schema_version evaluation_id retrieved_timestamp source_metadata model_info eval_library"
        " evaluation_results",
    "source_metadata": "source_type source_organization_name evaluator_relationship",
    "eval_library": "name version",
    "model_info": "name id additional_details",
    "model_info/additional_details": "deployment_type model_availability",
    "evaluation_results/0": "evaluation_name source_data metric_config score_details",
    "evaluation_results/0/source_data": "dataset_name source_type",
    "evaluation_results/0/metric_config": "lower_is_better",
    "evaluation_results/0/score_details": "score",
}  # fmt: skip
UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.json"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = Run(
        "niah_single_2,niah_multivalue", output=str(tmp_path_factory.mktemp("run")),
        loaded=Parrot(), num_samples=5, length=1000, num_lengths=1, seed=3,
    )  # fmt: skip
    made = replace(made, loaded=Knowing([made.dataset(cell) for cell in made.cells]))
    made.predict()
    return made


def test_a_record_of_every_eval_ever_has_what_its_schema_demands(run, tmp_path):
    path = results.every_eval_ever(run, tmp_path / "data", "org/model-1.5", "A group")
    assert path.relative_to(tmp_path).parts[:-1] == ("data", "ruler", "org", "model-1.5")
    assert re.fullmatch(UUID4, path.name)
    record = json.loads(path.read_text("utf-8"))
    for place, names in REQUIRED.items():
        inner = record
        for step in filter(None, place.split("/")):
            inner = inner[int(step) if step.isdecimal() else step]
        assert set(names.split()) <= set(inner), place
    if schema := os.environ.get("EVERY_EVAL_EVER"):
        jsonschema = pytest.importorskip("jsonschema")
        jsonschema.validate(record, json.loads(Path(schema).read_text("utf-8")))
    rows = scores.rows(run)
    for row, result in zip(rows, record["evaluation_results"], strict=True):
        details, metric = result["score_details"], result["metric_config"]
        assert details["score"] == row["mean"]
        assert (metric["metric_id"], metric["min_score"], metric["max_score"]) == (
            row["measure"], 0, 1,
        )  # fmt: skip
        interval = details["uncertainty"]["confidence_interval"]
        assert (interval["lower"], interval["upper"]) == (row["low"], row["high"])
        assert details["uncertainty"]["num_samples"] == 5
        # What the schema does not know are texts.
        extra = result["source_data"]["additional_details"]
        assert extra["data_sha256"] == row["data_sha256"]
        assert {*map(type, extra.values())} == {str}
    # The same scores are the same file.
    assert results.every_eval_ever(run, tmp_path / "data", "org/model-1.5", "A group") == path


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model_id", "lille", "owner/name"), ("model_id", "a/../b", "owner/name"),
        ("organization", "", "a name"), ("relationship", "friend", "first_party"),
        ("availability", "open", "open_weights"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_work_is_told_before_anything_is_read(tmp_path, name, value, message):
    given = {"model_id": "org/m", "organization": "g", name: value}
    with pytest.raises(ParameterError, match=message):
        results.every_eval_ever(None, tmp_path / "data", **given)
    assert [*tmp_path.iterdir()] == []


def test_the_hub_gets_the_tasks_of_eval_yaml_in_its_own_form(run, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    path = results.eval_results(run, tmp_path / "ruler.yaml", "owner/data", "https://example.org")
    listed = yaml.safe_load(path.read_text("utf-8"))
    # A list of four values has more than one reference.
    (entry,) = hub.parse_eval_result_entries(listed)
    assert (entry.dataset_id, entry.task_id) == ("owner/data", "da_1000_niah_single_2")
    assert entry.value == round(100 * scores.rows(run)[0]["mean"], 2)
    assert entry.source_url == "https://example.org"
    assert listed == hub.eval_result_entries_to_yaml([entry])


def test_results_of_a_run_that_was_not_made(tmp_path):
    made = Run("niah_single_2", length=1000, num_lengths=1, output=str(tmp_path), loaded=Parrot())
    with pytest.raises(DataError, match="cannot be read"):
        results.eval_results(made, tmp_path / "x.yaml", "owner/data")
    with pytest.raises(DataError, match="cannot be read"):
        results.every_eval_ever(made, tmp_path / "data", "org/m", "g")
    assert not (tmp_path / "data").exists()
