"""Golden vectors: ours agree with them, and there are enough."""

from __future__ import annotations

import collections

import helpers_reading
import pytest

from rulerlib.commands import main
from rulerlib.conformance import vectors
from rulerlib.metrics import MEASURES
from rulerlib.tasks.graphwalks import EMPTY, set_f1

OURS = {
    "ruler-all": MEASURES["recall"], "ruler-part": MEASURES["part_match"],
    "drop-em": MEASURES["drop_em"], "drop-f1": MEASURES["drop_f1"],
    "nodes-f1": lambda answer, references: set_f1(answer, references or [EMPTY]),
}  # fmt: skip


def test_there_are_fifty_of_each_and_every_id_is_there_once():
    counts = collections.Counter(vector["scorer"] for vector in vectors.read())
    assert set(counts) == set(OURS)
    assert min(counts.values()) >= 50
    assert len({vector["id"] for vector in vectors.read()}) == counts.total()
    # Where all is 0 or 1, a scorer that does not divide would pass.
    assert {vector["scorer"] for vector in vectors.read() if 0 < vector["score"] < 1} == {
        "ruler-all", "drop-f1", "nodes-f1",
    }  # fmt: skip


def test_our_scorers_give_these_scores():
    for vector in vectors.read():
        score = OURS[vector["scorer"]](vector["answer"], vector["references"])
        assert score == pytest.approx(vector["score"], abs=1e-4), vector


def test_drop_s_scores_are_those_of_lm_eval():
    theirs = helpers_reading.lm_eval_drop() or pytest.skip("needs the files of lm_eval")
    for vector in vectors.read():
        measure = vector["scorer"].removeprefix("drop-")
        if measure in ("em", "f1"):
            values = theirs.process_results({"answers": vector["references"]}, [vector["answer"]])
            assert values[measure] == vector["score"], vector


def test_no_overlap_is_no_score():
    """As a published reader of GraphWalks' answers forgets."""
    apart = [
        vector
        for vector in vectors.read()
        if vector["scorer"] == "nodes-f1"
        and vector["references"]
        and not any(name in vector["answer"] for name in vector["references"])
    ]
    assert len(apart) >= 5
    assert {vector["score"] for vector in apart} == {0}


def test_the_command_prints_them(capsys):
    assert main(["check", "--vectors"]) == 0
    assert capsys.readouterr().out == vectors.FILE.read_text("utf-8")


def test_a_check_of_nothing_is_told_in_a_sentence(capsys):
    assert main(["check"]) == 2
    assert capsys.readouterr().err.startswith("folder is None, but must be a folder")
