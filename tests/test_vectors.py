"""Our scorers reproduce the golden vectors: answers with references and the right score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulerlib.frontier.graphwalks import EMPTY, set_f1
from rulerlib.metrics import MEASURES

OURS = {
    "ruler-all": MEASURES["recall"], "ruler-part": MEASURES["part_match"],
    "drop-em": MEASURES["drop_em"], "drop-f1": MEASURES["drop_f1"],
    "nodes-f1": lambda answer, references: set_f1(answer, references or [EMPTY]),
}  # fmt: skip


TEXT = Path(__file__).with_name("vectors.jsonl").read_text("utf-8")
VECTORS = [json.loads(line) for line in TEXT.splitlines()]


def test_our_scorers_give_these_scores():
    for vector in VECTORS:
        score = OURS[vector["scorer"]](vector["answer"], vector["references"])
        assert score == pytest.approx(vector["score"], abs=1e-4), vector
