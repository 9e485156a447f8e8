"""Simple retrieval beside the whole benchmark: the figures of both, and what lies between them."""

from __future__ import annotations

import math

import pytest

from rulerlib import analysis, tasks
from rulerlib.samples import Prediction


def table(rights, model="m"):
    """Scores of answers to tasks at lengths, each so many right out of ten."""
    return analysis.scores(
        (
            {"model": model, "language": "da", "task": task, "length": length},
            Prediction(index, "", ["7654321"], "7654321" if index < right else ""),
        )
        for (task, length), right in rights.items()
        for index in range(10)
    )


def test_each_simple_task_stands_beside_the_average_of_the_thirteen():
    whole = {(task, length): 8 if length == 1024 else 3 for task in tasks.RULER
             for length in (1024, 4096)}  # fmt: skip
    simple = {("passkey", 1024): 10, ("passkey", 4096): 9, ("niah_vanilla", 4096): 7}
    own = {("drop_1", 1024): 0, ("niah_multivalue_2", 1024): 0, ("vt_2", 4096): 0}
    scores = table(whole | simple | own)
    rows = {(row["simple"], row["length"]): row
            for row in analysis.contrast(scores).to_dict("records")}  # fmt: skip
    assert [*rows] == [
        ("passkey", 1024), ("passkey", 4096), ("niah_vanilla", 4096),
        ("niah_single_1", 1024), ("niah_single_1", 4096),
        ("niah_single_2", 1024), ("niah_single_2", 4096),
    ]  # fmt: skip
    averages = analysis.by_length(scores, tasks=tasks.RULER).set_index("length")
    for (simple_task, length), row in rows.items():
        right = (simple | whole)[simple_task, length]
        assert row["score"] == pytest.approx(10 * right)
        assert row["low"] < row["score"] or right == 0
        assert row["tasks"] == 13
        assert row["average"] == pytest.approx(averages.loc[length, "average"])
        assert row["average low"] == pytest.approx(averages.loc[length, "low"])
        assert row["difference"] == pytest.approx(row["score"] - row["average"])
        # Newcombe's square-and-add, term by term.
        down = (row["score"] - row["low"]) ** 2 + (row["average high"] - row["average"]) ** 2
        up = (row["high"] - row["score"]) ** 2 + (row["average"] - row["average low"]) ** 2
        assert row["difference low"] == pytest.approx(row["difference"] - math.sqrt(down))
        assert row["difference high"] == pytest.approx(row["difference"] + math.sqrt(up))


def test_further_tasks_do_not_enter_rulers_averages():
    whole = {(task, 1024): 5 for task in tasks.RULER}
    beside = {(task, 1024): 10 for task in tasks.TASKS if task not in tasks.RULER}
    beside |= {("vt+paraphrase=1", 1024): 0, ("qa_1+num_documents=2", 1024): 10}
    plain, more = (analysis.by_length(table(rights)) for rights in (whole, whole | beside))
    assert plain.to_dict("records") == more.to_dict("records")
    assert analysis.summary(table(whole | beside))["tasks"].item() == 13
    # Where none of RULER's was asked, the average is over what was.
    alone = analysis.by_length(table({("passkey", 1024): 10, ("drop_1", 1024): 0}))
    assert (alone["tasks"].item(), alone["average"].item()) == (2, 50)
    own = {key: right for key, right in (whole | beside).items() if "+" not in key[0]}
    by_category = analysis.accuracy(table(own), by=("category", "length"))
    assert dict(zip(by_category["category"], by_category["tasks"], strict=True)) == {
        "retrieval": 8, "multi-hop tracing": 1, "aggregation": 2, "question answering": 2,
        "beside RULER": 7, "reading comprehension": 3, "memory": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    "rights",
    [{("passkey", 512): 3}, {("vt", 512): 3}, {("niah_single_1", 512): 3}, {("drop_1", 512): 9}],
)
def test_without_both_there_is_a_sentence(rights):
    none = analysis.contrast(table(rights))
    assert none.empty
    assert "No model was asked both" in none.attrs["why"]
