"""Tables: checked against counts by hand and against a groupby of dictionaries."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from rulerlib import analysis, intervals, metrics
from rulerlib.dataset import Dataset
from rulerlib.samples import Prediction

pd = pytest.importorskip("pandas")


def about(length=1024, task="niah_single_2", **more):
    return {"model": "m", "language": "da", "task": task, "length": length, **more}


def answer(index, wanted, said, depths=(50,), **others):
    return Prediction(index, "", list(wanted), said, {"depths": list(depths), **others})


def test_answers_that_were_cut_off_are_counted_where_they_are_wrong():
    rows = [
        (about(), answer(0, ["12"], "12", cut_off="answer")),
        (about(), answer(1, ["12"], "1", cut_off="answer")),
        (about(), answer(2, ["12"], "", cut_off="thinking")),
        (about(), answer(3, ["12"], "no", cut_off=None)),
        (about(2048), answer(0, ["12"], "no")),
    ]
    table = analysis.scores(rows)
    once = analysis.of_measure(table)
    assert once["cut_off"].tolist() == ["answer", "answer", "thinking", "", ""]
    assert analysis.accuracy(table)["cut_off"].tolist() == [0.5, 0]
    assert "cut_off" not in analysis.accuracy(table[table["length"] == 2048])


def test_a_table_without_answers_says_so():
    table = analysis.scores([])
    assert table.attrs["why"] == "There are no predictions."
    assert analysis.accuracy(table).empty
    assert "no answers" in analysis.two_by_two(table).attrs["why"]


def random_run(seed, count=300):
    rng = random.Random(seed)
    rows = []
    for index in range(count):
        refs = [str(rng.randrange(10**6, 10**7)) for _ in range(rng.choice((1, 1, 4)))]
        said = " and ".join(ref for ref in refs if rng.random() < 0.7)
        depths = [rng.randrange(101) for _ in range(len(refs) + rng.randrange(2))]
        where = about(rng.choice((512, 1024, 4096)), f"niah_{len(refs)}")
        rows.append((where, answer(index, refs, said, depths)))
    return rows


def test_one_row_for_each_prediction_and_measure():
    rows = [
        (about(), answer(0, ["12", "34"], "12.", (0, 100), finished=False)),
        (about(2048, "qa_1"), Prediction(1, "", ["56", "78"], "56", truncation=77)),
    ]
    table = analysis.scores(rows)
    columns = ["task", "index", "measure", "value", "primary", "ruler"]
    assert table[columns].to_numpy().tolist() == [
        ["niah_single_2", 0, "all_match", 0, True, False],
        ["niah_single_2", 0, "recall", 0.5, False, True],
        ["niah_single_2", 0, "exact_items", 0, False, False],
        ["niah_single_2", 0, "item_recall", 0.5, False, False],
        ["niah_single_2", 0, "item_precision", 1, False, False],
        ["niah_single_2", 0, "over_answering", 0, False, False],
        ["qa_1", 1, "part_match", 1, True, True],
    ]
    once = analysis.of_measure(table).to_dict("records")
    assert [row["depths"] for row in once] == [[0, 100], []]
    assert [row["needles"] for row in once] == [[(0, 1), (100, 0)], []]
    assert [row["finished"] for row in once] == [False, True]
    assert [row["truncation"] for row in once] == [-1, 77]
    assert [row["length"] for row in once] == [1024, 2048]
    assert [row["category"] for row in once] == ["retrieval", "question answering"]
    assert table.index.is_unique


@pytest.mark.parametrize("measure", ["all_match", "recall"])
@pytest.mark.parametrize("by", [analysis.BY, ("length",)])
def test_accuracy_is_a_plain_grouping(measure, by):
    rows = random_run(5)
    groups = defaultdict(list)
    for where, record in rows:
        key = tuple(where[name] for name in by)
        groups[key].append(metrics.MEASURES[measure](record.pred, record.outputs))
    table = analysis.accuracy(analysis.scores(rows), measure, by)
    assert sorted(table[list(by)].itertuples(index=False, name=None)) == sorted(groups)
    for row in table.to_dict("records"):
        values = groups[tuple(row[name] for name in by)]
        assert row["n"] == len(values)
        assert row["mean"] == pytest.approx(sum(values) / len(values))
        wanted = intervals.clustered(values, range(len(values)))
        assert (row["low"], row["high"]) == pytest.approx((wanted.low, wanted.high))
        if measure == "all_match":
            wilson = intervals.wilson(sum(values), len(values))
            assert (row["low"], row["high"]) == pytest.approx(wilson)
    assert table["n"].sum() == len(rows)


def row_of(depth, bins):
    """The nearest depth of a heatmap's row; the deeper one if two are equally near."""
    rows = [100 * row / (bins - 1) for row in range(bins)] if bins > 1 else [50]
    return min(rows, key=lambda row: (round(abs(row - depth), 9), -row))


@pytest.mark.parametrize("bins", [1, 4, 10])
def test_by_depth_is_a_plain_grouping(bins):
    rows = random_run(8)
    groups = defaultdict(list)
    for where, record in rows:
        for depth, wanted in zip(record.others["depths"], record.outputs, strict=False):
            row = row_of(depth, bins)
            groups[where["task"], where["length"], row].append(wanted in record.pred)
    table = analysis.by_depth(analysis.scores(rows), bins)
    assert len(table) == len(groups)
    for row in table.to_dict("records"):
        values = groups[row["task"], row["length"], row["depth"]]
        assert (row["n"], row["found"]) == (len(values), pytest.approx(sum(values) / len(values)))


def test_needles_of_one_sample_are_a_cluster():
    """Four needles at one depth, all found or none of them, say as much as one."""
    said = [["12 34 56 78", ""][i % 3 == 0] for i in range(30)]
    both = [(about(), answer(i, ["12", "34", "56", "78"], said[i], (50,) * 4)) for i in range(30)]
    alone = [(about(), answer(i, ["12"], said[i], (50,))) for i in range(30)]
    found = [analysis.by_depth(analysis.scores(rows)).iloc[0] for rows in (both, alone)]
    assert [row["n"] for row in found] == [120, 30]
    widths = [row["high"] - row["low"] for row in found]
    assert widths[0] == pytest.approx(widths[1], rel=0.15)
    assert (found[1]["low"], found[1]["high"]) == pytest.approx(intervals.wilson(20, 30))


# --- Kinds of mistakes --------------------------------------------------------------------------


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
