"""RULER's rule beside that of whole items, counted again one by one."""

from __future__ import annotations

import random

import pytest

from rulerlib import analysis, metrics
from rulerlib.samples import Prediction

pytest.importorskip("pandas")


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
    table = analysis.matchings(analysis.scores(rows)).set_index("task")
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


def test_without_lists_there_is_nothing_to_compare():
    rows = [each for each in rows_of(3) if each[0]["task"] == "qa_1"]
    none = analysis.matchings(analysis.scores(rows))
    assert "values or a list" in none.attrs["why"] == analysis.agreement(none)
