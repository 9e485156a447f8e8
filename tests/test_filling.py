"""Seams: the cost of joining two texts is what counting the joined text says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import make_tokenizer
from rulerlib import filling, tokens
from rulerlib.tokens import Words

# Texts as prompts have them: words, numbers, marks, newlines, and a word longer than a seam sees.
PIECES = st.sampled_from(
    ["Græsset", " er", " grønt", ".", "\n", " ", "1234567", "-", "æøå", "e", "x" * 40, "  ", "d4e5"]
)
TEXTS = st.lists(PIECES, max_size=40).map("".join)


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", ["words", "bytelevel", "metaspace", "llama2", "lille"])
def test_a_seam_costs_what_the_joined_text_says(kind):
    tokenizer = tokens.load("lille") if kind == "lille" else make_tokenizer(kind)
    joins = filling.seams_of(tokenizer)
    assert filling.seams_of(tokenizer) is joins, "all who ask share what was counted"

    @settings(max_examples=150)
    @given(TEXTS, TEXTS)
    def hold(left, right):
        apart = tokenizer.count(left) + tokenizer.count(right)
        assert joins.cost(left, right) == tokenizer.count(left + right) - apart

    hold()


@given(TEXTS)
def test_what_decides_is_short_where_there_is_white_space(text):
    near, after = filling.beginning(text), filling.ending(text)
    assert text.startswith(near)
    assert text.endswith(after)
    assert len(near) >= min(len(text), filling.NEAR)
    assert len(after) >= min(len(text), filling.NEAR)


def test_a_long_text_is_looked_at_near_its_ends_alone():
    assert len(filling.beginning("ord " * 100)) <= filling.NEAR + 4
    assert len(filling.ending("ord " * 100)) <= filling.NEAR + 4


def test_long_texts_are_counted_once(monkeypatch):
    tokenizer, asked = Words(), []
    for name in ("spans", "counts"):
        ours = getattr(Words(), name)
        monkeypatch.setattr(
            tokenizer, name, lambda texts, ours=ours: asked.extend(texts) or ours(texts)
        )
    joins = filling.Seams(tokenizer)
    long = "Himlen er blå. " * 1000
    for tail in ("Hvad?", "Hvor?", "Hvem?"):
        assert joins.count(long) + joins.cost(long, tail) + 2 == Words().count(long + tail)
    assert [text for text in asked if len(text) > 200] == [long]
