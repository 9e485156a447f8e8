"""Reading with arithmetic, analysed: means by a fact, the baselines, and marked operands."""

from __future__ import annotations

import random
import re

import pytest
from helpers_model import Parrot

from rulerlib import show
from rulerlib.dataset import Dataset
from rulerlib.runs import Run
from rulerlib.samples import Part, Prediction, parts_to_data
from rulerlib.tasks.mistakes import tells_operands

pd = pytest.importorskip("pandas")

from rulerlib import analysis, baselines  # noqa: E402

PLAIN = {"fewshot": 0, "reasoning": False}


def test_means_by_a_fact_are_what_a_groupby_gives():
    """Danish answers are read as such and compared with all golds."""
    rng, rows = random.Random(1), []
    about = {"model": "m", "language": "da", "task": "drop_1", "length": 2048}
    for index in range(120):
        said = rng.choice(["Svar: tolv", "Svar: 14", "Svar: 13"])
        facts = {"operation": rng.choice(["sum", "count", "sort"])}
        others = {"golds": [["12"], ["14"]], "language": "da", "facts": facts}
        rows.append((about, Prediction(index, "", ["14"], said, others)))
    table = analysis.by_fact(analysis.scores(rows), "operation", ("model", "language"))
    plain = pd.DataFrame([
        {"operation": record.others["facts"]["operation"], "mean": "13" not in record.pred,
         "em_raw": record.pred == "Svar: 14"} for _, record in rows
    ])  # fmt: skip
    by_hand = plain.groupby("operation").agg(["mean", "size"])
    assert len(table) == 3
    for row in table.to_dict("records"):
        wanted = by_hand.loc[row["operation"]]
        assert (row["n"], row["measure"]) == (wanted["mean", "size"], "drop_f1")
        for name in ("mean", "em_raw"):
            assert row[name] == pytest.approx(wanted[name, "mean"])


@pytest.mark.parametrize(
    ("thought", "told"),
    [
        ("2,040 - 1,900 is 140.", True),
        ("2040-1900=140", True),
        ("(2,040−1,900)", True),
        ("It was two thousand in April and 1900 in May.", False),
        ("12,040 and 1,900.5", False),
    ],
)
def test_operands_count_however_they_are_written(thought, told):
    text = "Brill drew 2,040 people in April, eight in June, and 1,900 on 5 May."
    spans = [(text.index(one), text.index(one) + len(one)) for one in ("2,040", "1,900")]
    parts = parts_to_data([Part("operand", *span) for span in spans])
    others = {"parts": parts, "golds": [["140"]], "language": "en"}
    assert tells_operands(Prediction(0, text, ["140"], "", others), thought) == told


def test_the_baselines_answer_the_same_questions(tmp_path):
    own = Run(
        tasks="drop_1,drop_3", length=2000, num_lengths=2, num_samples=3, language="en",
        family="drop", loaded=Parrot(), knobs={**PLAIN, "operation": "count"},
        output=str(tmp_path), study=[{"fewshot": 0}],
    )  # fmt: skip
    own.predict()
    blind = baselines.without_passages(own)
    blind.predict_study()
    with_ = {(one["task"], record.index): record for one, record in own.predictions()}
    without = list(blind.study_predictions())
    assert len(without) == 2 * 3
    for settings, record in without:
        same = with_[settings["task"], record.index]
        assert (record.golds, record.others["id"]) == (same.golds, same.others["id"])
        (question,) = record.parts_of("question")
        asked_of = re.search(r"Question: (.*)", record.input[question.start :])[1]
        assert f"\nQuestion: {asked_of}\n" in same.input + "\n"
        assert "Passage" not in record.input
    folders = {blind.answers(cell).parents[4].name for cell in blind.study_cells}
    assert folders == {"no-passage"}, "a study of its own, which a plain analysis leaves out"
    predictions = list(baselines.answers(own, blind))
    table = analysis.accuracy(analysis.scores(predictions), by=("task", "model"))
    assert (table["n"] == 3).all()
    names = ["lille", baselines.NO_PASSAGE, baselines.FREQUENT]
    assert [part["model"].tolist() for _, part in table.groupby("task")] == [names] * 2
    for settings, record in predictions:
        if settings["model"] == baselines.FREQUENT:
            assert record.pred in [each.golds[0][0] for _, each in own.predictions()]


def test_operands_are_marked():
    data = Dataset("drop_3", 2500, "en", "words", knobs={**PLAIN, "operation": "sum"})
    sample = data[1]
    operands = [sample.input[part.start : part.end] for part in sample.parts_of("operand")]
    assert len(operands) > 1
    style = re.escape(show.MARKS["operand"])
    shown = show.sample(sample).markup
    assert re.findall(rf"<mark style='{style}'>([^<]*)</mark>", shown) == operands
