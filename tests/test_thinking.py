"""Thinking is told from the answer, whoever opened it and whether or not it ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerlib.prompts import TAGS, ends_thinking, split_thinking


@pytest.mark.parametrize(
    ("begun", "text", "expected"),
    [
        (False, "It is 8.", ("", "It is 8.", False)),
        (False, " 8 < 9.", ("", " 8 < 9.", False)),
        (False, "<think>7? 8!</think>\n\n It is 8.", ("7? 8!", "It is 8.", False)),
        (False, "<think>\n\n</think>\n\n8", ("", "8", False)),
        (False, "<think>7? 8", ("7? 8", "", True)),
        (False, "<think>", ("", "", True)),
        (False, "7? 8!</think>8", ("7? 8!", "8", False)),
        (False, "<think>a</think>8<think>b</think> 9", ("ab", "8 9", False)),
        (False, "<think>a</think>8<think>b", ("ab", "8", True)),
        (True, "7? 8!</think> 8", ("7? 8!", "8", False)),
        (True, "<think>7? 8!</think> 8", ("7? 8!", "8", False)),
        (True, "7? 8", ("7? 8", "", True)),
        (True, "", ("", "", True)),
        (False, "", ("", "", False)),
    ],
)
@pytest.mark.parametrize("tags", [TAGS, ("[THINK]", "[/THINK]")])
def test_thinking_is_told_from_the_answer(begun, text, expected, tags):
    dressed = text.replace("<think>", tags[0]).replace("</think>", tags[1])
    assert split_thinking(dressed, tags, begun) == expected


@given(text=st.text(max_size=60), begun=st.booleans())
def test_a_text_without_tags_is_all_thinking_or_all_answer(text, begun):
    expected = (text.strip(), "", True) if begun else ("", text, False)
    assert split_thinking(text, begun=begun) == expected


@given(pieces=st.lists(st.sampled_from(["<think>", "</think>", "a", " ", "\n"]), max_size=12))
def test_no_tag_is_left_and_no_letter_lost(pieces):
    thoughts, answer, _ = split_thinking("".join(pieces))
    assert "<think>" not in thoughts + answer
    assert (thoughts + answer).count("a") == pieces.count("a")


@given(
    pieces=st.lists(st.sampled_from(["<think>", "</think>", "a", " ", "\n"]), max_size=12),
    begun=st.booleans(),
)
def test_it_is_known_whether_thinking_goes_on(pieces, begun):
    text = "".join(pieces)
    assert ends_thinking(text, begun=begun) == split_thinking(text, begun=begun)[2]
    assert not ends_thinking(text, (), begun)
