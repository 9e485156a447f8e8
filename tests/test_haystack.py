"""The haystack: units fill a room, needles take their places, and sums are exact."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import make_tokenizer
from rulerlib import haystack, tokens
from rulerlib.errors import DataError
from rulerlib.haystack import (
    DEPTHS,
    Budget,
    Draft,
    Filling,
    Haystack,
    Needle,
    Pool,
    TooLongError,
    fill,
    make_sample,
    prompt_lengths,
)
from rulerlib.prompts import Frame
from rulerlib.tokens import Words


def test_the_depths_are_those_of_ruler():
    numpy = pytest.importorskip("numpy")
    # RULER's own line.
    assert list(DEPTHS) == list(numpy.round(numpy.linspace(0, 100, num=40)).astype(int))


@given(st.integers(0, 10**9))
def test_any_40_in_a_row_take_each_depth_once(first):
    assert sorted(haystack.depth_of(first + i) for i in range(40)) == list(DEPTHS)


@given(st.integers(1, 130), st.integers(0, 99))
def test_random_depths_rise_and_come_evenly(count, seed):
    depths = haystack.depths_of(count, random.Random(seed))
    assert depths == sorted(depths)
    assert len(depths) == count
    times = Counter(depths)
    assert times.keys() <= {*DEPTHS}
    assert max(times.values()) <= math.ceil(count / 40)
    assert count % 40 or min(times[depth] for depth in DEPTHS) == count // 40


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
    context = filling.insert(list(map(Needle, needles, depths)), [5] * len(depths))
    assert [p for p in context.units if p.startswith("u")] == filling.units
    assert [context.units[slot] for slot in context.slots] == needles
    starts = context.starts("")
    assert all(map(context.text.startswith, context.units, starts))
    sums = [sum(costs[:i]) for i in range(len(costs) + 1)]
    for number, (needle, depth) in enumerate(zip(needles, depths, strict=True)):
        before = context.firsts[number] - 5 * number
        best = min(abs(total - sums[-1] * depth / 100) for total in sums)
        assert abs(before - sums[-1] * depth / 100) == pytest.approx(best)
        assert context.text[starts[context.slots[number]] :].startswith(needle)
    # The same once more from the texts alone: u3 costs what the list says, a needle five.
    for needle, reached in zip(needles, context.depths, strict=True):
        tokens = [5 if piece[0] == "N" else costs[int(piece[1:])] for piece in context.units]
        at = context.units.index(needle)
        before, after = sum(tokens[:at]), sum(tokens[at + 1 :])
        assert reached == pytest.approx(100 * before / (before + after or 1), abs=0.0051)
        if before + after:
            assert (reached == 0, reached == 100) == (before == 0, after == 0)


UNITS = ["Himlen er blå.", "Solen er gul.", "Der er 12345 får på øen, og 1 ged.", "Nej!"]
TEXTS = st.lists(st.sampled_from(UNITS), min_size=1, max_size=4)


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", ["words", "bytelevel", "metaspace", "lille"])
def test_sums_are_what_the_finished_prompt_has(kind):
    tokenizer = tokens.load("lille") if kind == "lille" else make_tokenizer(kind)
    haystack = Haystack(UNITS, " ", tokenizer)

    @settings(max_examples=50)
    @given(TEXTS, st.integers(80, 400), st.lists(st.sampled_from(DEPTHS), max_size=4).map(sorted))
    def hold(texts, length, depths):
        needles = [
            Needle(f"Kode {at} er 77{at}.", depth, (10, 13)) for at, depth in enumerate(depths)
        ]
        draft = Draft(f"{texts[0]} Læs:\n", f"\n{texts[-1]}", " Svar:", ["77"], needles)
        draft.order = [*range(len(needles))]
        budget = Budget(tokenizer, Frame(before="Hej. "), length, 16)
        try:
            context = fill([draft], lambda room: haystack.take(room, 1), " ", budget)
        except TooLongError:
            return
        sums = prompt_lengths(draft, context, budget)
        assert sums == prompt_lengths(draft, context, budget, whole=True)
        sample = make_sample(draft, context, budget)
        assert sample.length_w_model_temp == sums[0] + 16 <= length
        spans = tokenizer.spans([sample.input])[0]
        for part in sample.parts_of("needle", "distractor"):
            start, end = spans[part.token_position]
            assert start <= part.start < end

    hold()
