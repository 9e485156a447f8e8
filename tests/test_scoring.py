"""Scoring: which measures a task has, which one is primary, and where the answer is found."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, replace

import pytest

from rulerlib import metrics
from rulerlib.errors import ParameterError
from rulerlib.scoring import ANY, LIST, Scoring

OUTPUTS = ["12", "34", "56"]


def test_every_measure_by_its_name():
    assert LIST.score("56 and 12", OUTPUTS) == {"all_match": 0, "recall": pytest.approx(2 / 3)}
    assert ANY.score("56 and 12", OUTPUTS) == {"part_match": 1}


@pytest.mark.parametrize("scoring", [LIST, ANY])
def test_rulers_own_measure_is_one_of_them(scoring):
    assert {scoring.primary, scoring.ruler} <= set(scoring.measures) <= set(metrics.MEASURES)


def test_the_answer_is_extracted_first():
    boxed = replace(LIST, extract=lambda pred: re.findall(r"<(.*?)>", pred)[-1])
    assert boxed.score("12? 34? <56>", OUTPUTS)["recall"] == pytest.approx(1 / 3)


def test_another_primary_measure():
    assert replace(LIST, primary="recall").ruler == LIST.ruler
    with pytest.raises(ParameterError, match=r"primary is 'part_match'.*all_match, recall"):
        replace(LIST, primary="part_match")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((("recal",), "recal", "recal"), "did you mean 'recall'"),
        ((("recall",), "all_match", "recall"), "primary is 'all_match'"),
        ((("recall",), "recall", "all_match"), "ruler is 'all_match'"),
    ],
)
def test_unknown_measures_are_named(given, said):
    with pytest.raises(ParameterError, match=said):
        Scoring(*given)


def test_it_is_frozen():
    with pytest.raises(FrozenInstanceError):
        LIST.primary = "recall"
