"""Kinds of mistakes as tables: shares, distances, and examples that are real."""

from __future__ import annotations

import random

import pytest

from book.matchings import matchings
from rulerlib import analysis, metrics
from rulerlib.dataset import Dataset
from rulerlib.samples import Prediction

pd = pytest.importorskip("pandas")


def rows():
    record = Dataset("niah_multikey_1", 1500, "da", "words", num_samples=4)[3]
    stated = [record.input[part.start : part.end] for part in record.parts_of("value")]
    other = next(value for value in stated if value != record.outputs[0])
    others = {"parts": record.to_dict()["parts"]}
    made = []
    for length, said in (
        (512, [record.outputs[0], other, "", "1000000"]),
        (1024, [other, other, other, record.outputs[0]]),
    ):
        about = {"model": "m", "language": "da", "task": "niah_multikey_1", "length": length}
        for index, text in enumerate(said):
            made.append((about, Prediction(index, record.input, record.outputs, text, others)))
    return made


def test_shares_by_length_add_up_to_the_error_rate():
    scores = analysis.scores(rows())
    table = analysis.errors(scores)
    assert table["error"].unique().tolist() == ["empty", "distractor", "wrong value"]
    for length, part in table.groupby("length"):
        right = analysis.of_measure(scores[scores["length"] == length])["value"]
        assert part["share"].sum() == pytest.approx(1 - right.mean())
        assert (part["n"] == 4).all()
        assert ((part["low"] <= part["share"]) & (part["share"] <= part["high"])).all()
    taken = table.set_index(["length", "error"])["count"]
    assert taken[1024, "distractor"] == 3
    assert taken[1024, "empty"] == 0, "a kind that occurs elsewhere is a zero here, not a gap"


def test_examples_of_every_kind_are_real():
    scores = analysis.scores(rows())
    shown = analysis.error_examples(scores, 2)
    assert shown["error"].tolist() == ["empty", "distractor", "distractor", "wrong value"]
    assert set(shown[shown["error"] == "distractor"]["length"]) == {512, 1024}
    for row in shown.to_dict("records"):
        same = scores[(scores["length"] == row["length"]) & (scores["index"] == row["index"])]
        assert set(same["pred"]) == {row["pred"]}


def test_no_errors_are_one_sentence():
    about = {"model": "m", "language": "da", "task": "niah_single_1", "length": 512}
    scores = analysis.scores([(about, Prediction(0, "", ["12"], "12"))])
    for table in (analysis.errors(scores), analysis.error_examples(scores)):
        assert table.empty
        assert table.attrs["why"].endswith(".")


def rows_of(count=40):
    rng = random.Random(3)
    rows = []
    for task in ("niah_multivalue", "vt", "qa_1"):
        about = {"model": "m", "language": "da", "task": task, "length": 1024}
        for index in range(count):
            refs = [str(rng.randrange(10**6, 10**7)) for _ in range(3)]
            said = [ref for ref in refs if rng.random() < 0.9]
            said += rng.choices([[], ["1234567"]], [3, 1])[0]
            text = ", ".join(ref + rng.choices(["", "77"], [5, 1])[0] for ref in said)
            rows.append((about, Prediction(index, "", refs, text)))
    return rows


def test_means_and_disagreements_are_those_of_the_measures():
    rows = rows_of()
    table = matchings(analysis.scores(rows)).set_index("task")
    assert list(table.index) == ["niah_multivalue", "vt"], "questions have one rule alone"
    for task, found in table.to_dict("index").items():
        own = [record for about, record in rows if about["task"] == task]
        values = {
            name: [metrics.MEASURES[name](each.pred, each.outputs) for each in own]
            for name in ("all_match", "recall", "item_recall", "item_precision", "exact_items",
                         "over_answering")
        }  # fmt: skip
        for name, each in values.items():
            assert found[name] == pytest.approx(sum(each) / len(own))
            assert found[f"{name} low"] <= found[name] <= found[f"{name} high"]
        judged = list(zip(*(values[name] for name in ("all_match", "item_recall", "exact_items")),
                          strict=True))  # fmt: skip
        assert found["not_whole"] == sum(one == 1 > two for one, two, _ in judged) > 0
        assert found["others_too"] == sum(two == 1 > three for _, two, three in judged) > 0
        pairs = zip(values["recall"], values["item_recall"], strict=True)
        assert found["recall_differs"] == sum(one != two for one, two in pairs)
        # Both reasons together are all that the strict rule and whole items differ by.
        differ = sum(one == 1 > three for one, _, three in judged)
        assert found["not_whole"] + found["others_too"] == differ
