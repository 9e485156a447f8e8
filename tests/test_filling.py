"""Filling: sums give the same lengths and token positions as tokenizing the whole prompt."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import make_tokenizer
from rulerlib import tokens
from rulerlib.filling import Budget, TooLongError, fill
from rulerlib.haystack import DEPTHS, Draft, Haystack, Needle
from rulerlib.prompts import Frame
from rulerlib.tokens import Words

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
            filled = fill([draft], lambda room: haystack.take(room, 1), " ", budget)
        except TooLongError:
            return
        assert filled.lengths[0] == filled.tokenized(0)
        assert filled.longest <= length
        sample, spans = filled[0], tokenizer.spans([filled.text(0)])[0]
        for part in sample.parts_of("needle", "distractor"):
            start, end = spans[part.token_position]
            assert start <= part.start < end

    hold()


def test_a_prompt_takes_as_many_units_as_fit():
    haystack, rng = Haystack(UNITS, " ", Words()), random.Random(1)
    draft = Draft("Read. ", " What?", " It is", ["x"])
    for length in range(20, 120):
        start = rng.randrange(len(UNITS))
        budget = Budget(Words(), Frame(), length, 5)
        filled = fill([draft], lambda room, start=start: haystack.take(room, start), " ", budget)
        following = UNITS[(start + len(filled.context.pieces)) % len(UNITS)]
        assert filled.longest <= length < filled.longest + Words().count(" " + following)


def test_a_draft_that_does_not_fit_says_how_many_tokens_it_needs():
    budget = Budget(Words(), Frame(), 10, 8)
    with pytest.raises(TooLongError) as caught:
        fill([Draft("Read it. ", " What?", "", ["x"])], lambda room: None, " ", budget)
    assert caught.value.needed > 10
