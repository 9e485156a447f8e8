"""The haystack: units fill a room, needles take their places."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rulerlib import haystack
from rulerlib.errors import DataError, ParameterError
from rulerlib.haystack import DEPTHS, Filling, Haystack, Pool
from rulerlib.tokens import Words


def test_the_depths_are_those_of_ruler():
    numpy = pytest.importorskip("numpy")
    # RULER's own line.
    assert list(DEPTHS) == list(numpy.round(numpy.linspace(0, 100, num=40)).astype(int))


@given(st.integers(0, 10**9))
def test_any_40_in_a_row_take_each_depth_once(first):
    assert sorted(haystack.depth_of(first + i) for i in range(40)) == list(DEPTHS)


def test_the_depth_of_a_sample_stays_what_it_was():
    """Any other order would be as even, and would change all data that was made."""
    assert [haystack.depth_of(index) for index in range(41)] == [
        0, 33, 67, 100, 23, 56, 90, 10, 44, 77, 3, 36, 69, 92, 26, 59, 82, 13, 46, 79, 5,
        38, 62, 95, 28, 51, 85, 15, 49, 72, 8, 31, 64, 97, 21, 54, 87, 18, 41, 74, 0,
    ]  # fmt: skip


@given(st.integers(1, 130), st.integers(0, 99))
def test_random_depths_rise_and_come_evenly(count, seed):
    depths = haystack.depths_of(count, random.Random(seed))
    assert depths == sorted(depths)
    assert len(depths) == count
    times = Counter(depths)
    assert times.keys() <= {*DEPTHS}
    assert max(times.values()) <= math.ceil(count / 40)
    assert count % 40 or min(times[depth] for depth in DEPTHS) == count // 40


@pytest.mark.parametrize("value", [-0.1, 100.1, math.nan, True, "50"])
def test_a_depth_that_cannot_be_is_refused(value):
    with pytest.raises(ParameterError) as caught:
        haystack.one_depth("depth", value)
    wanted = f"depth is {value!r}, but must be a number from 0 (start) to 100 (end)."
    assert str(caught.value) == wanted


units_of_words = st.lists(
    st.integers(1, 12).map(lambda count: " ".join(["ord"] * count) + "."), min_size=1, max_size=8
)


@given(units=units_of_words, room=st.integers(0, 200), data=st.data())
def test_a_room_is_filled_until_the_next_unit_is_too_long(units, room, data):
    hay = Haystack(units, " ", Words())
    start = data.draw(st.integers(0, len(units) - 1))
    filling = hay.take(room, start)
    assert filling.units == [units[(start + i) % len(units)] for i in range(len(filling.units))]
    counted = Words().count(" ".join(["x.", *filling.units])) - Words().count("x.")
    assert sum(filling.costs) == counted <= room
    following = units[(start + len(filling.units)) % len(units)]
    assert counted + Words().count(" " + following) > room


@given(units=units_of_words, room=st.integers(0, 60), seed=st.integers(0, 100))
@example(units=["ord."], room=52, seed=0)
def test_a_pool_gives_no_unit_twice(units, room, seed):
    numbered = [f"{i} {unit}" for i, unit in enumerate(units * 12)]
    pool = Pool(numbered, "\n", Words())
    if room >= pool.total + pool.longest:
        with pytest.raises(DataError, match="is too small for"):
            pool.draw(room, random.Random(seed))
        return
    filling = pool.draw(room, random.Random(seed))
    assert len(set(filling.units)) == len(filling.units)
    assert sum(filling.costs) <= room
    assert room - sum(filling.costs) < pool.longest


@settings(max_examples=200)
@given(
    costs=st.lists(st.integers(1, 9), max_size=30),
    depths=st.lists(st.sampled_from(DEPTHS), unique=True, max_size=10).map(sorted),
)
def test_needles_stand_at_the_seam_nearest_to_their_depth(costs, depths):
    filling = Filling([f"u{i}" for i in range(len(costs))], costs, " ")
    needles = [f"NEEDLE{i}" for i in range(len(depths))]
    context = filling.insert(needles, depths, [5] * len(depths))
    assert [p for p in context.pieces if p.startswith("u")] == filling.units
    assert [context.pieces[slot] for slot in context.slots] == needles
    starts = [*context.starts()]
    assert [starts[slot] for slot in context.slots] == context.needle_starts()
    assert all(map(context.text.startswith, context.pieces, starts))
    sums = [sum(costs[:i]) for i in range(len(costs) + 1)]
    for number, (needle, depth) in enumerate(zip(needles, depths, strict=True)):
        before = context.firsts[number] - 5 * number
        best = min(abs(total - sums[-1] * depth / 100) for total in sums)
        assert abs(before - sums[-1] * depth / 100) == pytest.approx(best)
        assert context.text[context.needle_starts()[number] :].startswith(needle)
    # The same once more from the pieces alone: u3 costs what the list says, a needle five.
    for needle, reached in zip(needles, context.depths(), strict=True):
        tokens = [5 if piece[0] == "N" else costs[int(piece[1:])] for piece in context.pieces]
        at = context.pieces.index(needle)
        before, after = sum(tokens[:at]), sum(tokens[at + 1 :])
        assert reached == pytest.approx(100 * before / (before + after or 1), abs=0.0051)
        if before + after:
            assert (reached == 0, reached == 100) == (before == 0, after == 0)
