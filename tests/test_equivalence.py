"""Whether two models differ by less than a margin: against SciPy and by drawing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_pairs import answers, table

from rulerlib import analysis
from rulerlib.analysis.equivalence import verdict
from rulerlib.analysis.pairs import samples_needed
from rulerlib.errors import ParameterError

stats = pytest.importorskip("scipy.stats")


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0.001, 0.5))
def test_every_interval_has_one_verdict(low, width, margin):
    found = verdict(low, low + width, margin)
    inside = -margin < low and low + width < margin
    outside = low > margin or low + width < -margin
    assert found == ("equivalent" if inside else "different" if outside else "undecided")
    assert not (inside and outside)
    mirrored = verdict(-low - width, -low, margin)
    assert mirrored == found


def test_the_verdict_is_that_of_two_one_sided_tests():
    """On large samples, where all intervals agree: paired t tests at 5 %."""
    rng = np.random.default_rng(4)
    verdicts = set()
    for share in np.linspace(0.02, 0.4, 20):
        ours = (rng.random(2000) < 0.9) * 1.0
        theirs = np.where(rng.random(2000) < share, rng.random(2000) < 0.75, ours) * 1.0
        both, first = int((ours * theirs).sum()), int((ours * (1 - theirs)).sum())
        second = int(((1 - ours) * theirs).sum())
        ends = analysis.newcombe(both, first, second, 2000 - both - first - second, 0.9)
        p = max(
            stats.ttest_1samp(ours - theirs, end, alternative=side).pvalue
            for end, side in ((-0.03, "greater"), (0.03, "less"))
        )
        if not 0.03 < p < 0.08:
            assert (verdict(*ends, 0.03) == "equivalent") == (p < 0.05), (share, p)
            verdicts.add(verdict(*ends, 0.03))
    assert {"equivalent", "undecided"} <= verdicts


def test_the_sample_size_gives_its_power():
    """Equal models that differ in a tenth of their answers are told to be so in 80 %."""
    rng = np.random.default_rng(1)
    n = int(samples_needed(0.03, 0.1, alike=True))
    drawn = rng.multinomial(n, [0.05, 0.05, 0.9], 4000)
    difference = (drawn[:, 0] - drawn[:, 1]) / n
    error = np.sqrt((drawn[:, 0] + drawn[:, 1]) / n - difference**2) / math.sqrt(n)
    shown = (np.abs(difference) + 1.645 * error < 0.03).mean()
    assert shown == pytest.approx(0.8, abs=0.025)


def test_ten_equal_answers_do_not_show_that_two_engines_are_alike():
    few, many, none = [1] * 10, [1] * 400, [0] * 400
    for ours, theirs, verdict_ in (
        (few, few, "undecided"), (many, many, "equivalent"), (many, none, "different")
    ):  # fmt: skip
        rows = table(answers("a", ours), answers("b", theirs))
        (row,) = analysis.equivalences(rows).to_dict("records")
        assert row["verdict"] == verdict_
        if ours is few:
            assert (row["difference"], row["lower"] < 0 < row["upper"]) == (0, True)
            assert row["needed"] == samples_needed(0.01, 1 / 11, alike=True)


@pytest.mark.parametrize("margin", [0, 1, -0.1, "0.01", True, math.nan])
def test_a_margin_is_a_share(margin):
    rows = table(answers("a", [1]), answers("b", [1]))
    with pytest.raises(ParameterError, match="margin is"):
        analysis.equivalences(rows, margin=margin)


def test_all_pairs_are_held_against_the_margin():
    rows = table(answers("a", [1] * 400), answers("b", [1] * 400), answers("c", [0] * 400))
    together = analysis.equivalences(rows, margin=0.02)
    assert together["models"].tolist() == ["a − b", "a − c", "b − c"]
    assert together["verdict"].tolist() == ["equivalent", "different", "different"]
    chosen = analysis.equivalences(rows, ["a", "c"], 0.02)
    assert chosen.to_dict("records") == together[1:2].to_dict("records")
    alone = analysis.equivalences(table(answers("a", [1])))
    assert "a comparison needs two" in alone.attrs["why"]
    apart = analysis.equivalences(table(answers("a", [1]), answers("b", [1], length=2048)))
    assert apart.attrs["why"] == "No two models here were asked the same samples."
