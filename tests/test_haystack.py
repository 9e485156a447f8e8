"""The haystack: units fill a room, needles take their places."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import make_tokenizer
from rulerlib import haystack, tokens
from rulerlib.errors import DataError, ParameterError
from rulerlib.haystack import DEPTHS, Filling, Haystack, Pool, Sized
from rulerlib.languages import load
from rulerlib.tokens import Tokenizer, Words, costs_of


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


@pytest.mark.parametrize("value", [-0.1, 100.1, math.nan, True, "50", None, [50]])
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


class Pairs(Tokenizer):
    """Two characters are a token, so that tokens cross every seam of an odd unit."""

    name = "pairs"

    def spans(self, texts):
        return [[(at, min(at + 2, len(text))) for at in range(0, len(text), 2)] for text in texts]


@pytest.mark.parametrize(
    ("units", "costs", "additive"),
    [
        (["abc", "defgh"], [2, 3], True),
        (["abcd", "abc"], [3, 2], False),
        # Unit and seam end within the anchor's last token, and still nothing is free.
        (["", "abc"], [1, 2], False),
    ],
)
def test_a_haystack_knows_whether_its_sums_are_exact(units, costs, additive):
    hay = Haystack(units, " ", Pairs())
    assert hay.costs == costs
    assert hay.additive is additive
    assert (hay.total, hay.cheapest, hay.longest) == (sum(costs), min(costs), max(costs))


@pytest.mark.parametrize("kind", ["words", "bytelevel", "llama2"])
@pytest.mark.parametrize("seam", [" ", "\n", "\n\n"])
def test_long_texts_cost_what_their_words_do(monkeypatch, kind, seam):
    """Nouns, numbers, empty lines and indentation, each unit counted whole as well."""
    rng, tokenizer, nouns = random.Random(seam), make_tokenizer(kind), load("da").nouns
    texts = [
        " ".join(rng.choice([rng.choice(nouns), str(rng.randrange(999)), "a\n    b:", "x  = 1"])
                 for _ in range(9))
        for _ in range(300)
    ]  # fmt: skip
    whole = costs_of(texts, seam, tokenizer)
    tokens._counted.cache_clear()
    monkeypatch.setattr(tokens, "LONG", 1000)
    counted = []
    monkeypatch.setattr(tokenizer, "counts", lambda texts: counted.extend(texts) or [
        len(spans) for spans in tokenizer.spans(texts)])  # fmt: skip
    assert costs_of(texts, seam, tokenizer) == whole
    assert sum(map(len, counted)) < 0.8 * sum(map(len, texts))
    # Where words do not add up, each unit is counted.
    assert costs_of(texts, seam, Pairs()) == [(len(seam + text) + 1) // 2 for text in texts]


def test_a_pool_that_is_just_used_up():
    """Three tokens each: there may be less left than the longest unit needs, and no more."""
    pool = Pool(["a.", "b."], "\n", Words())
    for room in (6, 7, 8):
        assert sorted(pool.draw(room, random.Random(1)).units) == ["a.", "b."]
    with pytest.raises(DataError, match="A pool of 2 units is too small for 9 tokens"):
        pool.draw(9, random.Random(1))


def test_a_haystack_needs_text():
    with pytest.raises(DataError, match=r"^A haystack needs at least one unit of text\.$"):
        Haystack([], " ", Words())


def test_a_filling_of_another_size_is_made_anew():
    def make(size):
        return [f"{number} of {size}" for number in range(size + 1)], 4 * (size + 1)

    whole = Sized(make, 3, "\n")
    assert (len(whole), whole.units[0], len(whole.units)) == (3, "0 of 3", 4)
    smaller = whole.first(2).first(1)
    assert len(smaller) == 1
    context = smaller.insert([], [], [])
    assert (context.text, context.total, context.depths()) == ("0 of 1\n1 of 1", 8, [])


@pytest.mark.parametrize(("depth", "before"), [(25, ""), (26, "a"), (75, "a"), (76, "ab")])
def test_of_two_seams_as_near_the_first_is_taken(depth, before):
    context = Filling(["a", "b"], [2, 2], "").insert(["NEEDLE"], [depth], [1])
    assert context.text.split("NEEDLE")[0] == before


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


def test_contains_ignores_case():
    hay = Haystack(["Et ÆBLE og en Grøn-Bil.", "Slut."], " ", Words())
    assert hay.contains("grøn-bil")
    assert hay.contains("æble")
    assert not hay.contains("grøn-båd")
