"""Golden vectors: ours agree with them, they say what is wrong, and there are enough."""

from __future__ import annotations

import collections
import json

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


def scored(path, change=lambda vector, score: score, kinds=OURS):
    lines = (
        {"id": vector["id"], "score": change(vector, vector["score"])}
        for vector in vectors.read()
        if vector["scorer"] in kinds
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


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


def test_the_command_prints_them_and_says_what_differs(tmp_path, capsys):
    assert main(["check", "--vectors"]) == 0
    assert capsys.readouterr().out == vectors.FILE.read_text("utf-8")
    assert main(["check", "--vectors", scored(tmp_path / "right.jsonl")]) == 0
    assert capsys.readouterr().out == "All scores are right.\n"
    wrong = scored(tmp_path / "x.jsonl", lambda vector, score: float(score == 1), ("ruler-all",))
    assert main(["check", "--vectors", wrong]) == 1
    lines = capsys.readouterr().out.splitlines()
    half = [one for one in vectors.read() if one["scorer"] == "ruler-all" and 0 < one["score"] < 1]
    assert len(lines) == len(half)
    assert lines[0].startswith(f"{half[0]['id']}: 0.0, and not 0.5, for ")
    # What is left out is no right score.
    (tmp_path / "one.jsonl").write_text('{"id": "ruler-all-01", "score": 1}\n')
    assert main(["check", "--vectors", str(tmp_path / "one.jsonl")]) == 1
    assert "no score" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content", ["", "[]", '{"id": "x", "score": 1}', '{"id": "ruler-all-01"}', "\xff", "{",
                '{"id": "ruler-all-01", "score": "1"}', '{"id": [], "score": 1}'],
)  # fmt: skip
def test_what_is_no_file_of_scores_is_told_in_a_sentence(tmp_path, capsys, content):
    (tmp_path / "x").write_bytes(content.encode("latin-1"))
    assert main(["check", "--vectors", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_check_of_nothing_is_told_in_a_sentence(capsys):
    assert main(["check"]) == 2
    assert capsys.readouterr().err.startswith("folder is None, but must be a folder")
