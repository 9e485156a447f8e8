"""Answers to the same questions, drawn again: the two variances, against analysis of variance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rulerlib import analysis
from rulerlib.samples import Prediction


def scores_of(values, task="niah_single_1"):
    """A table of right and wrong answers, questions x repeats; NaN: not asked."""
    about = {"model": "m", "language": "da", "task": task, "length": 1024}
    return analysis.scores([
        (about, Prediction(index, "", ["7"], "7" if hit else "", {"repeat": repeat}))
        for index, row in enumerate(values)
        for repeat, hit in enumerate(row)
        if not math.isnan(hit)
    ])  # fmt: skip


def test_the_variances_are_those_of_a_random_effects_model():
    """With as many answers to each question: mean squares within and between questions."""
    rng = np.random.default_rng(3)
    rates = rng.beta(2, 1, 80)
    values = (rng.random((80, 5)) < rates[:, None]).astype(float)
    (row,) = analysis.repeats(scores_of(values)).to_dict("records")
    own = values.mean(axis=1)
    within = ((values - own[:, None]) ** 2).sum() / (80 * 4)
    between = 5 * ((own - values.mean()) ** 2).sum() / 79
    assert row["within"] == pytest.approx(within)
    assert row["between"] == pytest.approx((between - within) / 5)
    assert (row["questions"], row["repeats"]) == (80, 5)
    runs = values.mean(axis=0)
    assert (row["lowest run"], row["highest run"]) == pytest.approx((runs.min(), runs.max()))
    assert row["low"] < row["mean"] < row["high"]


def test_questions_with_fewer_answers_count_as_what_they_are():
    values = np.array([[1.0, 0, math.nan], [1, 1, 0], [0, 0, 1], [1, math.nan, math.nan]])
    (row,) = analysis.repeats(scores_of(values)).to_dict("records")
    assert row["within"] == pytest.approx(np.mean([1 / 2, 1 / 3, 1 / 3]))
    assert (row["questions"], row["repeats"]) == (3, 2), "the last was answered once"
