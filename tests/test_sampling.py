"""Sampling: token frequencies, and seeds that do not depend on the batch."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from rulerlib import models  # noqa: E402
from rulerlib.models import Request, drawing_seed  # noqa: E402
from rulerlib.models.transformers import sampling  # noqa: E402
from rulerlib.prompts import Decoding  # noqa: E402

LIKELY = [0.05, 0.5, 0.0, 0.15, 0.3]


def asked(prompt="Hvad?", **decoding):
    return Request(prompt, False, 16, decoding=Decoding(**decoding))


def drawn(requests, rows, count):
    """Sample repeatedly from the same scores and return the tokens."""
    processor = sampling(requests, [random.Random(drawing_seed(one)) for one in requests])
    scores = torch.tensor(rows).log()
    return [processor(None, scores).argmax(-1).tolist() for _ in range(count)]


def shares(tokens):
    return [tokens.count(token) / len(tokens) for token in range(len(LIKELY))]


def test_each_repeat_of_a_question_has_a_seed_of_its_own():
    first = asked(temperature=1.0, seed=1, samples=50)
    seeds = [drawing_seed(replace(first, repeat=repeat)) for repeat in range(50)]
    assert len(set(seeds)) == 50
    # The first repeat equals a single answer.
    assert seeds[0] == drawing_seed(asked(temperature=1.0, seed=1))
    assert seeds == [drawing_seed(replace(first, repeat=repeat)) for repeat in range(50)]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("top_p", "kept"), [(1.0, {0, 1, 3, 4}), (0.75, {1, 4}), (0.3, {1})])
def test_tokens_are_sampled_with_their_probabilities(temperature, top_p, kept):
    flat = [chance ** (1 / temperature) for chance in LIKELY]
    flat = [chance / sum(flat) for chance in flat]
    if temperature == 2.0 and top_p == 0.75:
        kept = {1, 3, 4}
    tokens = [row[0] for row in drawn(
        [asked(temperature=temperature, top_p=top_p, seed=3)], [LIKELY], 4000
    )]  # fmt: skip
    whole = sum(flat[token] for token in kept)
    wanted = [flat[token] / whole if token in kept else 0 for token in range(len(flat))]
    assert shares(tokens) == pytest.approx(wanted, abs=0.03)
    assert set(tokens) == kept


@pytest.fixture(scope="module")
def lille():
    pytest.importorskip("transformers")
    engine = models.load("lille", dtype="float32", device="cpu")
    # Batches round differently; in float32 this changes one token in many thousands.
    engine._model.double()
    return engine


PROMPTS = ["Hvad er det særlige magiske tal for grøn-lampe?", "What is", "Himlen er blå. " * 9]

DECODINGS = st.builds(
    Decoding,
    temperature=st.floats(0.3, 3).map(lambda heat: round(heat, 2)),
    top_p=st.sampled_from([1.0, 0.9, 0.5]),
    seed=st.integers(0, 2**31 - 1),
)


@settings(max_examples=4)
@given(decoding=DECODINGS, order=st.permutations(range(len(PROMPTS))), repeat=st.integers(0, 3))
def test_a_seed_gives_the_same_answer_in_any_batch(lille, decoding, order, repeat):
    decoding = replace(decoding, samples=4)
    # Answers of different lengths.
    asked = [
        models.Request(PROMPTS[at], True, 2 + 3 * at, decoding=decoding, repeat=repeat)
        for at in order
    ]
    together = models.in_order(lille, asked)
    alone = [models.in_order(lille, [request])[0] for request in asked]
    assert [one.text for one in together] == [one.text for one in alone]
    # The same with a shared prompt.
    repeats = [replace(asked[0], repeat=number, group=1) for number in range(4)]
    assert models.in_order(lille, repeats)[repeat].text == alone[0].text
