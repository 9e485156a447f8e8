"""Scoring: the measures of a task, the primary one, and the extraction of the answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rulerlib.errors import ParameterError
from rulerlib.metrics import LIST, READING, Scoring


def test_golds_go_to_the_measures_of_reading_and_to_no_other():
    outputs, golds = ["Denver, Ribe"], [["Denver", "Ribe"]]
    values = READING.score("Ribe and Denver", outputs, golds)
    assert values == {
        "drop_f1": 1, "drop_em": 1, "em_raw": 0, "em_norm": 0,
        "f1_words": pytest.approx(0.8), "part_match": 0,
    }  # fmt: skip
    # Without golds, each reference is one span.
    assert READING.score("Ribe and Denver", outputs)["drop_em"] == 0


def test_a_language_reads_its_numbers():
    wanted = {"da": ("tolv", "12.500"), "en": ("twelve", "12,500")}
    for language, (word, digits) in wanted.items():
        for other in wanted:
            assert READING.score(word, ["12"], [], other)["drop_em"] == (other == language)
            assert READING.score(digits, ["12500"], [], other)["drop_em"] == (other == language)
    with pytest.raises(ParameterError, match=r"language is 'dk'.*did you mean 'da'"):
        READING.score("tolv", ["12"], [], "dk")
    # Without parsing, no language is needed.
    assert LIST.score("tolv", ["tolv"], [], "synthetic")["all_match"] == 1


def test_measures_are_known_and_a_fault_is_no_score():
    with pytest.raises(ParameterError, match=r"^measure is 'recal', but must be one of all_match"):
        Scoring(("recal",), "recal", "recal")
    with pytest.raises(ParameterError, match=r"primary is 'over_answering'"):
        replace(LIST, primary="over_answering")
