"""The curve of accuracy over length, against a general optimizer, and its 50 % point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_averages import LENGTHS, run

from rulerlib import analysis
from rulerlib.analysis import effective_length

optimize = pytest.importorskip("scipy.optimize")

shares = st.lists(st.floats(0, 1), min_size=4, max_size=4)


@given(shares, st.integers(5, 500))
@settings(max_examples=40, deadline=None)
def test_the_curve_is_the_likeliest_one(values, size):
    """A binomial regression on the counts with half an answer more on both sides."""
    right, wrong = np.array(values) * size + 0.5, (1 - np.array(values)) * size + 0.5
    places = np.log2(LENGTHS) - np.log2(LENGTHS).mean()

    def unlikely(curve):
        odds = curve[0] + curve[1] * places
        return (right * np.logaddexp(0, -odds) + wrong * np.logaddexp(0, odds)).sum() / size

    ((level, slope),) = effective_length.fit(
        np.array(LENGTHS), np.array([values]), np.full(4, float(size))
    )
    ours = np.array([level + slope * np.log2(LENGTHS).mean(), slope])
    found = optimize.minimize(unlikely, np.zeros(2), tol=1e-12)
    assert unlikely(ours) <= found.fun + 1e-9
    assert ours == pytest.approx(found.x, abs=2e-2)


def test_the_crossing_is_where_the_curve_is_at_half():
    """And what does not fall crosses nowhere."""
    curves = np.array([[14.0, -1.0], [3.0, 0.0], [-3.0, 0.0], [-20.0, 2.0]])
    assert effective_length.crossing(curves).tolist() == [16384, math.inf, 0, math.inf]


def test_the_table_finds_the_point_that_was_drawn():
    middle = 12_000
    rates = 1 / (1 + (np.array(LENGTHS) / middle) ** 2.2)
    scores = analysis.scores(run(rates, count=80))
    (row,) = analysis.fitted_lengths(scores).to_dict("records")
    assert row["length"] == pytest.approx(middle, rel=0.15)
    low, high = (1024 * float(row[end][:-1]) for end in ("low", "high"))
    assert low < middle < high < 1.5 * low
    assert row["fitted"] == f"{row['length'] / 1024:.3g}K"
    assert row["misfit"] < 5
    assert row["per_doubling"] == pytest.approx(25 * 2.2 * math.log(2), rel=0.2)


def test_beyond_the_lengths_that_were_measured_nothing_is_guessed():
    always, never, plateau = [1] * 4, [0] * 4, [0.7, 0.7, 0.7, 0.7]
    for rates, text in ((always, ">32K"), (never, "<4K"), (plateau, ">32K")):
        (row,) = analysis.fitted_lengths(analysis.scores(run(rates))).to_dict("records")
        assert row["fitted"] == text
        assert math.isnan(row["length"])
    jumps = analysis.fitted_lengths(analysis.scores(run([1, 0.2, 1, 0.2]))).iloc[0]
    assert jumps["misfit"] > 20, "no curve of this form"


def test_two_lengths_make_no_curve():
    scores = analysis.scores(run([1, 0], lengths=LENGTHS[:2]))
    assert "3 lengths" in analysis.fitted_lengths(scores).attrs["why"]
