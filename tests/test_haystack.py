"""The haystack: units fill a room, needles take their places."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import haystack
from rulerlib.errors import DataError
from rulerlib.haystack import DEPTHS, Filling, Haystack, Pool
from rulerlib.tokens import Words

# --- Depths ---------------------------------------------------------------------------------


def test_the_depths_are_those_of_ruler():
    numpy = pytest.importorskip("numpy")
    # RULER's own line.
    assert list(DEPTHS) == list(numpy.round(numpy.linspace(0, 100, num=40)).astype(int))


@given(st.integers(0, 10**9))
def test_any_40_in_a_row_take_each_depth_once(first):
    assert sorted(haystack.depth_of(first + i) for i in range(40)) == list(DEPTHS)


@given(st.integers(0, 10**6))
def test_any_ten_that_begin_at_a_round_number_are_even(tens):
    first = [haystack.depth_of(10 * tens + i) for i in range(10)]
    assert sorted(DEPTHS.index(depth) // 4 for depth in first) == list(range(10))


# --- Filling --------------------------------------------------------------------------------

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
def test_a_pool_gives_no_unit_twice(units, room, seed):
    numbered = [f"{i} {unit}" for i, unit in enumerate(units * 12)]
    pool = Pool(numbered, "\n", Words())
    filling = pool.draw(room, random.Random(seed))
    assert len(set(filling.units)) == len(filling.units)
    assert sum(filling.costs) <= room
    assert room - sum(filling.costs) < pool.longest


def test_a_pool_that_is_too_small_says_so():
    pool = Pool(["a.", "b."], "\n", Words())
    with pytest.raises(DataError, match="A pool of 2 units is too small for 100 tokens"):
        pool.draw(100, random.Random(1))


def test_a_haystack_needs_text():
    with pytest.raises(DataError, match="at least one unit"):
        Haystack([], " ", Words())


def test_the_filling_is_the_caller_s_own():
    hay = Haystack(["En.", "To.", "Tre."], " ", Words())
    hay.take(4, 0).units.pop()
    assert hay.units == ["En.", "To.", "Tre."]


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
    sums = [sum(costs[:i]) for i in range(len(costs) + 1)]
    for number, (needle, depth) in enumerate(zip(needles, depths, strict=True)):
        before = context.tokens_before()[number] - 5 * number
        best = min(abs(total - sums[-1] * depth / 100) for total in sums)
        assert abs(before - sums[-1] * depth / 100) == pytest.approx(best)
        assert context.text[context.starts()[context.slots[number]] :].startswith(needle)


def test_contains_ignores_case():
    hay = Haystack(["Et ÆBLE og en Grøn-Bil.", "Slut."], " ", Words())
    assert hay.contains("grøn-bil")
    assert hay.contains("æble")
    assert not hay.contains("grøn-båd")
