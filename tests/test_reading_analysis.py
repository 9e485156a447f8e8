"""Reading with arithmetic, analysed: its tables and baselines against second ones."""

from __future__ import annotations

import random
import re

import pytest
from helpers_model import Parrot

from rulerlib import show
from rulerlib.dataset import Dataset
from rulerlib.runs import Run
from rulerlib.samples import Part, Prediction, parts_to_data
from rulerlib.tasks.drop import OPERATIONS
from rulerlib.tasks.mistakes import tells_operands

pd = pytest.importorskip("pandas")
np = pytest.importorskip("numpy")

from rulerlib import analysis, baselines  # noqa: E402

PLAIN = {"fewshot": 0, "reasoning": False}


def about(task="drop_1", length=4096, **knobs):
    return {"model": "m", "language": "en", "task": task, "length": length, "knobs": knobs}


def answered(count=120, clusters=40, seed=1, lengths=(2048, 4096)):
    """Predictions whose answers are drawn; those about one passage tend to be alike."""
    rng = random.Random(seed)
    skill = [rng.random() ** 2 for _ in range(clusters)]
    rows = []
    for length in lengths:
        for index in range(count):
            passage = rng.randrange(clusters)
            right = rng.random() < skill[passage]
            said = rng.choice(["Answer: 12", "Answer: The 12."]) if right else "Answer: 13"
            others = {
                "golds": [["12"]], "cluster": f"passage {passage}", "language": "en",
                "facts": {"operation": rng.choice(["sum", "count", "sort"])},
            }  # fmt: skip
            rows.append((about(length=length), Prediction(index, "", ["12"], said, others)))
    return rows


def test_means_by_a_fact_are_what_a_groupby_gives():
    rows = answered()
    table = analysis.by_fact(analysis.scores(rows), "operation", ("model", "language", "length"))
    golds = {"Answer: 12": (1, 1, 1), "Answer: The 12.": (1, 0, 1), "Answer: 13": (0, 0, 0)}
    plain = pd.DataFrame([
        {"length": own["length"], "operation": record.others["facts"]["operation"],
         **dict(zip(("mean", "em_raw", "em_norm"), golds[record.pred], strict=True))}
        for own, record in rows
    ])  # fmt: skip
    by_hand = plain.groupby(["length", "operation"]).agg(["mean", "size"])
    assert table["length"].tolist() == [2048] * 3 + [4096] * 3
    for row in table.to_dict("records"):
        wanted = by_hand.loc[row["length"], row["operation"]]
        assert row["n"] == wanted["mean", "size"]
        assert row["measure"] == "drop_f1"
        for name in ("mean", "em_raw", "em_norm"):
            assert row[name] == pytest.approx(wanted[name, "mean"])


TEXT = "Brill drew 2,040 people in April, eight in June, and 1,900 on 5 May."


def record(said="", language="en", text=TEXT, operands=("2,040", "1,900"), **more):
    """A prediction whose prompt has these operands."""
    spans = [(text.index(one), text.index(one) + len(one)) for one in operands]
    parts = [Part("operand", *span) for span in spans]
    others = {"parts": parts_to_data(parts), "golds": [["140"]], "language": language, **more}
    return Prediction(0, text, ["140"], said, others)


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
    assert tells_operands(record(), thought) == told


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run answered by a test engine, and the same one without passages."""
    own = Run(
        tasks="drop_1,drop_3", length=2000, num_lengths=2, num_samples=3, language="en",
        family="drop", loaded=Parrot(), knobs={**PLAIN, "operation": "count"},
        output=str(tmp_path_factory.mktemp("runs")), study=[{"fewshot": 0}],
    )  # fmt: skip
    own.predict()
    blind = baselines.without_passages(own)
    blind.predict_study()
    return own, blind


def test_without_passages_the_same_questions_are_asked(run):
    own, blind = run
    with_ = {(one["task"], record.index): record for one, record in own.predictions()}
    without = list(blind.study_predictions())
    assert len(without) == 2 * 3
    for settings, record in without:
        same = with_[settings["task"], record.index]
        assert record.golds == same.golds
        assert record.others["id"] == same.others["id"]
        (question,) = record.parts_of("question")
        asked_of = re.search(r"Question: (.*)", record.input[question.start :])[1]
        assert f"\nQuestion: {asked_of}\n" in same.input + "\n"
        assert "Passage" not in record.input
        assert "Passage" in same.input
    folders = {blind.answers(cell).parents[4].name for cell in blind.study_cells}
    assert folders == {"no-passage"}, "a study of its own, which a plain analysis leaves out"
    assert blind.loaded is own.loaded_engine, "the weights are not loaded twice"


def test_all_baselines_stand_beside_the_model(run):
    own, blind = run
    predictions = list(baselines.answers(own, blind))
    scores = analysis.scores(predictions)
    table = analysis.accuracy(scores, by=("task", "model"))
    for _, part in table.groupby("task"):
        assert part["model"].tolist() == ["lille", baselines.NO_PASSAGE, baselines.FREQUENT], (
            "all at the longest length, in one row each"
        )
        assert (part["n"] == 3).all()
    assert table["task"].nunique() == 2
    assert {"em_raw", "em_norm"} <= {*table.columns}
    # The baselines answer the questions on disk, and are judged by the same rule.
    for settings, record in predictions:
        if settings["model"] == baselines.FREQUENT:
            assert record.pred in [each.golds[0][0] for _, each in own.predictions()]
            assert record.others["facts"]["operation"] == "count"
    assert set(scores["length"]) == {2000}


@pytest.mark.parametrize("task", ["drop_1", "drop_3"])
def test_operands_are_marked_and_named(task):
    data = Dataset(task, 2500, "en", "words", knobs={**PLAIN, "operation": "sum"}, num_samples=2)
    sample = data[1]
    operands = [
        sample.input[part.start : part.end] for part in sample.parts_of("operand")
    ]  # fmt: skip
    assert len(operands) > 1
    shown = show.sample(sample)
    style = re.escape(show.MARKS["operand"])
    assert re.findall(rf"<mark style='{style}'>([^<]*)</mark>", shown.markup) == operands
    assert "operand of the answer" in re.sub("<[^>]*>", "", shown.markup)
    assert repr(shown).endswith(f"operand of the answer: {', '.join(operands)}")
    assert set(OPERATIONS) >= {sample.facts["operation"]}
