"""Two models on the same samples: intervals, tests and sample sizes against second versions."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerlib import analysis, intervals
from rulerlib.errors import ParameterError
from rulerlib.samples import Prediction

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
stats = pytest.importorskip("scipy.stats")


def answers(model, right, task="niah_single_1", length=1024, groups=None, wanted="1234567"):
    rows = []
    for index, hit in enumerate(right):
        about = {"model": model, "language": "da", "task": task, "length": length}
        others = {"context_id": groups[index]} if groups else {}
        rows.append((about, Prediction(index, "", [wanted], wanted if hit else "no", others)))
    return rows


def table(*parts):
    return analysis.scores([row for part in parts for row in part])


def test_the_interval_has_its_published_limits():
    """Airway hyper-responsiveness before and after stem cell transplantation (Bentur et al. 2009).

    In Fagerland, Lydersen and Laake 2014, Statistics in Medicine 33: both, first only, second
    only, neither, and the limits.
    """
    assert intervals.newcombe(1, 1, 7, 12) == pytest.approx((-0.507, -0.026), abs=5e-4)


def test_the_test_is_mcnemars():
    """The chance of a split as uneven as the one seen, were each side as likely."""
    rng = random.Random(4)
    for _ in range(10):
        ours, theirs = ([rng.random() < rate for _ in range(60)] for rate in (0.8, 0.6))
        row = analysis.paired(table(answers("a", ours), answers("b", theirs)), "a", "b").iloc[0]
        few, n = (
            sorted((row["only_first"], row["only_second"]))[0],
            row[["only_first", "only_second"]].sum(),
        )
        tail = sum(math.comb(n, count) for count in range(few + 1)) / 2**n
        assert row["p"] == pytest.approx(min(1, 2 * tail))


def test_it_pairs_sample_by_sample():
    found = analysis.paired(
        table(answers("a", [1, 1, 1, 0, 1]), answers("b", [1, 0, 0, 0, 1, 1])), "a", "b"
    ).iloc[0]
    assert (found["n"], found["only_first"], found["only_second"]) == (5, 2, 0)
    assert (found["a"], found["b"], found["difference"]) == pytest.approx((0.8, 0.4, 0.4))
    assert found["left_out"] == 1, "the sixth was asked of one of them"
    assert (found["low"], found["high"]) == intervals.newcombe(2, 2, 0, 1)
    assert found["method"] == "newcombe"


@pytest.mark.parametrize("changed", [{"texts": "essays--1234"}, {"seed": 7}])
def test_the_same_needle_in_another_text_is_another_sample(changed):
    """A run on one's own texts draws the same keys and values as the plain one."""

    def run(model, right, **settings):
        return [({**about, **settings}, one) for about, one in answers(model, right)]

    scores = table(run("a", [1, 0, 1]), run("a", [0, 0, 1], **changed))
    why = analysis.two_by_two(scores).attrs["why"]
    assert why == "No two models have a sample in common."
    # Two that were both made in this way are compared, whatever else they differ in.
    others = run("b", [1, 1, 1], **changed, engine="vllm", format={"chat": False})
    row = analysis.paired(table(run("c", [0, 0, 1], **changed), others), "c", "b").iloc[0]
    assert (row["n"], row["difference"], row["left_out"]) == (3, pytest.approx(-2 / 3), 0)


def test_shared_contexts_count_as_one():
    """Ten copies of each answer: as sure as one copy, and ten times the samples are needed."""
    rng = random.Random(9)
    ours, theirs = ([rng.random() < p for _ in range(40)] for p in (0.8, 0.5))
    alone = analysis.paired(table(answers("a", ours), answers("b", theirs)), "a", "b").iloc[0]
    groups = [index // 10 for index in range(400)]
    copied = analysis.paired(
        table(
            answers("a", [hit for hit in ours for _ in range(10)], groups=groups),
            answers("b", [hit for hit in theirs for _ in range(10)], groups=groups),
        ),
        "a", "b",
    ).iloc[0]  # fmt: skip
    assert copied["method"] == "recovered"
    assert copied["difference"] == pytest.approx(alone["difference"])
    width = [row["high"] - row["low"] for row in (alone, copied)]
    assert width[1] == pytest.approx(width[0], rel=0.15)
    assert copied["needed"] / alone["needed"] == pytest.approx(10, rel=0.05)


def test_mistakes_are_one_line():
    both = table(answers("a", [1, 0]), answers("b", [0, 0]))
    for compare in ("a", ["a", "b", "c"]):
        with pytest.raises(ParameterError, match=r"compare is .* two models"):
            analysis.two_by_two(both, compare)
    with pytest.raises(ParameterError, match="seed is -1"):
        analysis.paired(both, "a", "b", seed=-1)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferronis(chances):
    """The largest p of all families that hold a comparison, each corrected for its size."""
    places = range(len(chances))
    families = [family for size in places for family in itertools.combinations(places, size + 1)]
    wanted = [
        max(min(1, len(family) * min(chances[at] for at in family))
            for family in families if place in family)
        for place in places
    ]  # fmt: skip
    assert intervals.holm(chances) == pytest.approx(wanted)
    with_gap = intervals.holm([*chances, math.nan])
    assert with_gap[:-1] == pytest.approx(wanted)
    assert math.isnan(with_gap[-1])
