"""Averages and effective lengths, held against RULER's table and slow second versions."""

from __future__ import annotations

import math
import random

import pytest

from rulerlib import analysis, tasks
from rulerlib.samples import Prediction

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")

LENGTHS = (4096, 8192, 16384, 32768)


def run(
    rates, model="m", count=40, lengths=LENGTHS, tasks=("niah_single_1", "vt"), seed=1, group=0
):
    """Answers that are right at about these rates, one rate for each length."""
    rng = random.Random(f"{seed} {model}")
    rows = []
    for task in tasks:
        for length, rate in zip(lengths, rates, strict=True):
            for index in range(count):
                refs = ["1234567"] if task != "vt" else ["ABCDE", "FGHIJ"]
                said = " ".join(ref for ref in refs if rng.random() < rate)
                others = {"context_id": index // group} if group else {}
                about = {"model": model, "language": "da", "task": task, "length": length}
                rows.append((about, Prediction(index, "", refs, said, others)))
    return rows


def test_the_strict_rule_stands_beside_rulers():
    """Three of four answers have half of a list: RULER's script gives points for it."""
    about = {"model": "m", "language": "da", "length": 4096}
    vt = [Prediction(i, "", ["ABCDE", "FGHIJ"], "ABCDE" if i else "ABCDE FGHIJ") for i in range(4)]
    qa = [Prediction(i, "", ["Aarhus", "Århus"], "Århus") for i in range(4)]
    rows = [({**about, "task": "vt"}, each) for each in vt]
    rows += [({**about, "task": "qa_1"}, each) for each in qa]
    for primary in (None, "exact_items"):
        scores = analysis.scores(rows, primary)
        (length,) = analysis.by_length(scores).to_dict("records")
        assert (length["average"], length["strict"]) == (81.25, 62.5)
        (one,) = analysis.averages(scores, "strict")
        low, high = one.interval({4096: 1})
        assert (length["strict low"], length["strict high"]) == (low, high)
        (row,) = analysis.summary(scores, 70).to_dict("records")
        assert (row["4K"], row["4K strict"], row["Avg. strict"]) == (81.25, 62.5, 62.5)
        assert (row["effective"], row["effective strict"]) == ("≥4K", "<4K")
        assert row["wAvg. (inc) strict low"] == pytest.approx(low)


READ = [
    # averages at 4K to 32K, longest, unbroken
    ([95, 90, 86, 85.6], "16K", "16K"),
    ([95, 80, 90, 70], "16K", "4K"),
    ([80, 90, 80, 70], "8K", "<4K"),
    ([95, None, 90, 70], "16K", "≥4K"),
    ([None, 80, None, 90], "≥32K", "<8K"),
    ([95, 90, None, 80], "8K", "≥8K"),
]


@pytest.mark.parametrize(("values", "longest", "unbroken"), READ)
def test_both_readings(values, longest, unbroken):
    given_ = dict(zip(LENGTHS, values, strict=True))
    assert str(analysis.effective(given_)) == longest
    assert str(analysis.effective(given_, reading="unbroken")) == unbroken


def test_a_model_at_the_threshold_has_no_sharp_effective_length():
    scores = analysis.scores(run([0.99, 0.86, 0.86, 0.3], count=60))
    found = analysis.effective_lengths(scores, threshold=85.6).set_index("reading").loc["longest"]
    assert found["low"] != found["high"]
    assert sum(found["shares"].values()) == pytest.approx(1)
    sure = analysis.effective_lengths(analysis.scores(run([1, 1, 0, 0]))).iloc[0]
    assert (sure["effective"], sure["low"], sure["high"]) == ("8K", "8K", "8K")
    assert sure["shares"] == {"8K": 1.0}


def test_one_row_for_each_model():
    rows = run([1, 1, 1, 1], "best") + run([1, 1, 0, 0], "worst") + run([1, 1, 1, 0], "middle")
    rows += run([1, 1], "short", lengths=LENGTHS[:2])
    table = analysis.summary(analysis.scores(rows)).set_index("model")
    assert table["effective"].to_dict() == {
        "best": "≥32K", "middle": "16K", "worst": "8K", "short": "≥8K"
    }  # fmt: skip
    assert table.loc["middle", "wAvg. (inc)"] == pytest.approx(60)
    assert table.loc["middle", "wAvg. (dec)"] == pytest.approx(90)
    assert table.loc["short", "lengths"] == 2
    assert math.isnan(table.loc["short", "16K"])
    assert "unbroken" not in table, "both readings agree"
    back = analysis.summary(analysis.scores(run([1, 0, 1, 0])))
    assert back["effective"].tolist() == ["16K"]
    assert back["unbroken"].tolist() == ["4K"]


def table(rights, model="m"):
    """Scores of answers to tasks at lengths, each with its number of right ones out of ten."""
    return analysis.scores(
        (
            {"model": model, "language": "da", "task": task, "length": length},
            Prediction(index, "", ["7654321"], "7654321" if index < right else ""),
        )
        for (task, length), right in rights.items()
        for index in range(10)
    )


def test_further_tasks_do_not_enter_rulers_averages():
    whole = {(task, 1024): 5 for task in tasks.RULER}
    beside = {(task, 1024): 10 for task in tasks.all_tasks() if task not in tasks.RULER}
    beside |= {("vt+num_hops=2", 1024): 0, ("qa_1+num_documents=2", 1024): 10}
    plain, more = (analysis.by_length(table(rights)) for rights in (whole, whole | beside))
    assert plain.to_dict("records") == more.to_dict("records")
    assert analysis.summary(table(whole | beside))["tasks"].item() == 13
    # Without RULER's tasks, the average is over all tasks.
    alone = analysis.by_length(table({("mrcr", 1024): 10, ("drop_1", 1024): 0}))
    assert (alone["tasks"].item(), alone["average"].item()) == (2, 50)
    own = {key: right for key, right in (whole | beside).items() if "+" not in key[0]}
    by_category = analysis.accuracy(table(own), by=("category", "length"))
    assert dict(zip(by_category["category"], by_category["tasks"], strict=True)) == {
        "retrieval": 8, "multi-hop tracing": 1, "aggregation": 2, "question answering": 2,
        "beside RULER": 5, "reading comprehension": 3,
        "frontier": sum(row.category == "frontier" for row in tasks.all_tasks().values()),
    }  # fmt: skip
