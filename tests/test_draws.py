"""Drawing from many: the numbers of the standard library, and its generator's state."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import draws

# Around powers of two a number needs one bit more, and few items are drawn one by one.
SIZES = st.one_of(
    st.integers(0, 300),
    st.integers(4, 14).flatmap(lambda bits: st.integers(2**bits - 3, 2**bits + 3)),
    st.integers(0, 20_000),
)


@settings(max_examples=60)
@given(size=SIZES, seed=st.integers(0, 2**40))
def test_a_shuffle_is_that_of_the_standard_library(size, seed):
    ours, theirs = random.Random(seed), random.Random(seed)
    mine, wanted = [*range(size)], [*range(size)]
    draws.shuffle(ours, mine)
    theirs.shuffle(wanted)
    assert mine == wanted
    assert ours.getstate() == theirs.getstate(), "what is drawn next is the same too"


@settings(max_examples=60)
@given(size=SIZES, seed=st.integers(0, 2**40), data=st.data())
def test_a_sample_is_that_of_the_standard_library(size, seed, data):
    count = data.draw(st.one_of(st.integers(0, size), st.just(size)))
    ours, theirs = random.Random(seed), random.Random(seed)
    assert draws.sample(ours, size, count) == theirs.sample(range(size), count)
    assert ours.getstate() == theirs.getstate()


@pytest.mark.parametrize("count", range(63, 1500, 7))
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_few_of_many_are_drawn_as_the_standard_library_draws_them(count, beside):
    """Its two ways give other numbers, and the size at which it changes must be its own."""
    border = next(size for size in (21 + 4**power for power in range(20)) if size - 21 >= 3 * count)
    ours, theirs = random.Random(count), random.Random(count)
    size = border + beside
    assert draws.sample(ours, size, count) == theirs.sample(range(size), count)
    assert ours.getstate() == theirs.getstate()


def test_more_than_there_are_is_refused_as_there():
    with pytest.raises(ValueError, match="larger than population"):
        draws.sample(random.Random(1), 10, 11)
