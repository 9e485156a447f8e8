"""What is shown of episodes taught in the context: means by a fact, what is recalled."""

from __future__ import annotations

import functools

import pytest

from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.memory import trial
from rulerlib.samples import Prediction, Sample

pytest.importorskip("pandas")

from rulerlib import analysis


@functools.cache
def samples(task: str, code: str) -> list[Sample]:
    return list(Dataset(task, 2000, code, "words", num_samples=6))


def answered(sample: Sample, said: str) -> tuple[dict, Prediction]:
    others = {"parts": sample.to_dict()["parts"], "facts": sample.facts, "golds": sample.golds,
              "language": sample.language, "depths": sample.depths}  # fmt: skip
    about = {"model": "m", "language": sample.language, "task": sample.task, "length": 2000}
    return about, Prediction(sample.index, sample.input, sample.outputs, said, others)


def test_means_by_a_fact():
    said = [answered(each, each.outputs[0] if each.index % 3 else "?")
            for each in samples("spatial", "en")]  # fmt: skip
    scores = analysis.scores(said)
    table = analysis.by_fact(scores, "kind")
    assert dict(zip(table["kind"], table["mean"], strict=True)) == {
        "length": 0, "route": 1, "stand": 1,
    }  # fmt: skip
    known = {sample.facts["optimum"] for sample in samples("spatial", "en")}
    assert list(analysis.by_fact(scores, "optimum")["optimum"]) == sorted(known)
    empty = analysis.by_fact(scores, "operation")
    assert empty.empty
    assert empty.attrs["why"] == "Of no question 'operation' is known."


def test_settings_and_records_of_a_trial():
    sample = samples("episodic", "da")[1]
    rows = trial.recall("rag", sample, k=2)
    assert len(rows) == 2
    _, record = answered(sample, "")
    assert trial.recall("rag", record, k=2) == rows
    with pytest.raises(ParameterError, match="system is 'rak', but must be one of"):
        trial.recall("rak", sample)
    with pytest.raises(ParameterError, match="k is 0"):
        trial.recall("rag", sample, k=0)
    other = Dataset("niah_single_2", 700, "da", "words", num_samples=1)[0]
    with pytest.raises(ParameterError, match="a sample whose facts and question are known"):
        trial.recall("rag", other)
