"""Thinking is separated from the answer, also if a tag is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerlib.models import Request, find_stop
from rulerlib.prompts import TAGS, ends_thinking, find_tag, split_thinking


@pytest.mark.parametrize(
    ("begun", "text", "expected"),
    [
        (False, "It is 8.", ("", "It is 8.", False)),
        (False, "<think>7? 8!</think>\n\n It is 8.", ("7? 8!", "It is 8.", False)),
        (False, "<think>7? 8", ("7? 8", "", True)),
        (False, "7? 8!</think>8", ("7? 8!", "8", False)),
        (True, "a</think>8?</think> 9", ("a8?", "9", False)),
        (False, "<think>a</think>8<think>b", ("ab", "8", True)),
        (True, "7? 8", ("7? 8", "", True)),
    ],
)
@pytest.mark.parametrize("tags", [TAGS, ("[THINK]", "[/THINK]")])
def test_thinking_is_separated_from_the_answer(begun, text, expected, tags):
    dressed = text.replace("<think>", tags[0]).replace("</think>", tags[1])
    assert split_thinking(dressed, tags, begun) == expected


@pytest.mark.parametrize(
    ("answer", "tag"),
    [
        ("<reflection>7?</reflection>8", "<reflection>"),
        ("<|channel|>8", "<|channel|>"),
        ("<think>7", "<think>"),
        ("I think 7 < 8 > [1] [reasonable] <b>8</b>", None),
    ],
)
def test_a_tag_left_in_an_answer_is_found(answer, tag):
    assert find_tag(answer) == tag


@given(
    pieces=st.lists(st.sampled_from(["<think>", "</think>", "a", " ", "\n"]), max_size=12),
    begun=st.booleans(),
)
def test_tags_are_removed_and_no_letter_is_lost(pieces, begun):
    text = "".join(pieces)
    thoughts, answer, unended = split_thinking(text, begun=begun)
    assert "<think>" not in thoughts + answer
    assert (thoughts + answer).count("a") == pieces.count("a")
    assert ends_thinking(text, begun=begun) == unended
    assert not ends_thinking(text, (), begun)


THOUGHTS = ("<t>", "</t>")


def asked(*stop, tags=(), prompt="Hvad?"):
    return Request(prompt, False, 16, tags=tags, stop=stop)


@pytest.mark.parametrize(("text", "thinks", "place"), [
    ("<t>7. 8.</t>8. 9.", False, (13, 14)), ("7. 8.</t>8. 9.", True, (10, 11)),
    ("7. <t>8.</t>9.", False, (1, 2)), ("7<t>8.</t>9<t>1.</t>2.", False, (21, 22)),
    ("7<t>8.", False, None), ("7. 8.", True, None), ("<t>7</t>8", False, None),
])  # fmt: skip
def test_thinking_is_left_out(text, thinks, place):
    assert find_stop(text, asked(".", tags=THOUGHTS), thinks) == place
    # Other tags, or none: all of it is the answer.
    at = text.find(".")
    assert find_stop(text, asked("."), False) == (None if at < 0 else (at, at + 1))
