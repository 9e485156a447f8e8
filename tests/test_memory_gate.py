"""The parts of the episodic index: keys, the arithmetic of the gate, novelty, and replay."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from conftest import python
from rulerlib.memory import gate, replay, sparse_keys
from rulerlib.memory.gate import Gate, Novelty
from rulerlib.memory.replay import KINDS, MIX, draw, mixed, shared_out
from rulerlib.memory.sparse_keys import Keys, cosine

# ------------------------------------------------------------- keys


@given(st.text(max_size=60))
def test_a_key_is_the_most_excited_units(text: str) -> None:
    keys = Keys(256, 16)
    activity, key = keys.activity(text), keys.of(text).tolist()
    assert key == sorted(set(key))
    assert len(key) == min(16, np.count_nonzero(activity))
    loudest = sorted(range(256), key=lambda unit: (-activity[unit], unit))
    assert key == sorted(loudest[: len(key)])


def test_words_make_keys() -> None:
    keys = Keys()
    birmund, other = keys.of("Birmund repaired a boat."), keys.of("Ulrun sold an axe.")
    assert cosine(birmund, keys.of("a boat, repaired: BIRMUND")) > 0.9
    assert cosine(birmund, keys.of("Who saw Birmund's boat?")) > 0.35 > cosine(birmund, other)
    # A letter with a ring is no a, however it is written.
    assert np.array_equal(keys.of("å"), keys.of("a\u030a"))
    assert cosine(keys.of("gård"), keys.of("gard")) < 0.5
    assert cosine(keys.of(""), keys.of("a")) == 0


def test_keys_are_the_same_everywhere() -> None:
    code = (
        "from rulerlib.memory.sparse_keys import Keys\n"
        "print(Keys().of('Den 3. maj så Birmund en båd i Smålktorp.').tolist())"
    )
    outs = [python(code, hash_seed=seed).stdout for seed in ("1", "2")]
    assert outs[0] == outs[1] != ""
    # Other numbers here mean that every store must be taught anew.
    assert Keys(64, 4).of("Birmund").tolist() == [43, 48, 61, 62]


# ------------------------------------------------------------- the gate

SHARES = st.floats(0, 1)


@given(
    st.builds(Gate, *[st.sampled_from([0, 0.5, 1, 3])] * 5),
    SHARES, SHARES, st.booleans(), st.booleans(),
)  # fmt: skip
def test_the_gate_adds_up(
    gate: Gate, surprise: float, novelty: float, rewarded: bool, pinned: bool
) -> None:
    total = math.fsum([
        gate.w_surprise * surprise, gate.w_novelty * novelty, gate.w_reward * rewarded,
        gate.w_pin * pinned,
    ])  # fmt: skip
    salience = gate.salience(surprise, rewarded, pinned)
    if abs(total - gate.threshold) > 1e-9:
        assert gate.passes(salience, novelty) == (total > gate.threshold)
    certain = gate.certain(salience)
    assert certain in (None, gate.passes(salience, novelty))
    assert (certain is None) == (gate.passes(salience, 0) != gate.passes(salience, 1))


@given(st.lists(st.sets(st.integers(0, 99), max_size=8), max_size=20), st.sets(st.integers(0, 99)))
@profile(max_examples=40)
def test_novelty_is_the_distance_to_the_nearest(had: list[set[int]], asked: set[int]) -> None:
    known, units = Novelty(100, 8), np.array(sorted(asked)[:8], np.uint16)
    rows = [np.array(sorted(each), np.uint16) for each in had]
    for row in rows:
        known.add(row)
    wanted = 1 - max((cosine(row, units) for row in rows), default=0)
    assert known.of(units) == pytest.approx(wanted)


def test_copies_are_found_among_many() -> None:
    rng, known = np.random.default_rng(5), Novelty(2048, 64)
    rows = [np.sort(rng.choice(2048, 64, replace=False)) for _ in range(4000)]
    for row in rows:
        known.add(row)
    assert [known.of(row) for row in rows[::100]] == [0] * 40
    near = [np.sort(np.append(row[:-8], rng.choice(2048, 8))) for row in rows[::100]]
    assert max(known.of(row) for row in near) < 0.2
    strange = [np.sort(rng.choice(2048, 64, replace=False)) for _ in range(20)]
    for row in strange:
        exact = 1 - max(cosine(row, other) for other in rows[::10])
        assert 0.75 < known.of(row) <= exact + 0.06


# ------------------------------------------------------------- replay

MIXES = st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any).map(
    lambda parts: {kind: part / sum(parts) for kind, part in zip(KINDS, parts, strict=True)}
)  # fmt: skip


@given(st.integers(0, 500), MIXES)
def test_steps_are_shared_out(steps: int, mix: dict[str, float]) -> None:
    counts = shared_out(steps, mixed(mix))
    assert sum(counts.values()) == steps
    for kind, count in counts.items():
        assert abs(count - steps * mix[kind]) < 1


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=30), st.integers(1, 60), MIXES)
def test_important_facts_are_rehearsed(salience: list, steps: int, mix: dict) -> None:
    drawn = draw(salience, steps, mix, "x")
    assert drawn == draw(salience, steps, mix, "x")
    if not salience:
        assert not any(drawn.values())
        return
    assert sum(map(len, drawn.values())) == steps
    assert {at for each in drawn.values() for at in each} <= set(range(len(salience)))
    if any(salience):
        assert all(salience[at] for at in drawn["important"])


def test_recent_facts_are_rehearsed_more() -> None:
    drawn = draw([0.0] * 80, 3000, MIX, "x")
    late = {kind: sum(at >= 70 for at in places) / len(places) for kind, places in drawn.items()}
    assert 0.45 < late["recent"] < 0.55
    assert 0.08 < late["important"] < 0.17
    assert 0.08 < late["random"] < 0.17


@pytest.mark.parametrize("module", [gate, replay, sparse_keys])
def test_the_worked_example_is_real(module) -> None:
    done = doctest.testmod(module)
    assert done.attempted
    assert not done.failed
