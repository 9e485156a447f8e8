"""The reference reader answers from the text of a prompt, with a window and forgetting.

The tasks that it can read are in test_languages.py.
"""

from __future__ import annotations

from statistics import fmean

import pytest

from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.models import Request, in_order, load
from rulerlib.models.reference import answer
from rulerlib.runs import Run


@pytest.mark.parametrize("task", ["niah_multikey_1", "niah_multiquery"])
def test_the_reader_recognizes_missing_keys(task):
    data = Dataset(task, 3000, "da", "words", num_samples=6, knobs={"present": 0.5})
    for sample in data:
        scores = data.row.scoring.score(answer(sample.input + sample.answer_prefix), sample.outputs)
        assert scores[data.row.scoring.primary] == 1


def run(tmp_path, **options):
    """Return for 40 needles: found or not, distance from the end in words, and depth."""
    made = Run("niah_single_2", model="r", engine="reference", engine_options=options,
               language="en", length=2000, num_samples=40, output=str(tmp_path))  # fmt: skip
    made.predict()
    return [
        (answer.pred == answer.outputs[0],
         len(answer.input.partition(answer.outputs[0])[2].split()), answer.others["depths"][0])
        for _, answer in made.predictions()
    ]  # fmt: skip


def test_text_before_the_window_is_not_read(tmp_path):
    """The question, about a hundred words at the end, is always read."""
    rows = run(tmp_path, window=900)
    assert all(right for right, words, _ in rows if words < 900)
    assert not any(right for right, words, _ in rows if words > 1020)
    assert {right for right, _, _ in rows} == {True, False}


def test_forgetting_follows_a_curve_over_depth(tmp_path):
    rows = run(tmp_path, forgets=[0, 1, 0])
    assert fmean(right for right, _, depth in rows if 40 <= depth <= 60) < 0.3
    assert fmean(right for right, _, depth in rows if not 10 < depth < 90) > 0.8
    # Half of the needles, within three standard errors for n = 40.
    assert abs(fmean(right for right, *_ in run(tmp_path, forgets=0.5)) - 0.5) < 0.24


def test_an_answer_is_cut_at_max_new_tokens():
    sample = Dataset("niah_multivalue", 1000, "en", "words", num_samples=1)[0]
    engine = load("r", "reference")
    request = Request(sample.input + sample.answer_prefix, True, 3)
    (generation,) = in_order(engine, [request])
    assert (generation.tokens, generation.finished) == (3, False)
    assert generation.text == ", ".join(sample.outputs[:2])
    assert in_order(engine, [Request("What is the time?", True, 9)])[0].text == ""


@pytest.mark.parametrize(("name", "value"), [
    ("window", -1), ("forgets", 1.5), ("forgets", [0.1, float("nan")]), ("seed", -1),
])  # fmt: skip
def test_bad_options_are_rejected_in_one_line(name, value):
    with pytest.raises(ParameterError, match=name) as raised:
        load("r", "reference", **{name: value})
    assert "\n" not in str(raised.value)
