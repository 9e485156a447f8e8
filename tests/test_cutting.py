"""Stop strings: found outside of thinking, counted in tokens, seen as soon as they are complete."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerlib.errors import ParameterError
from rulerlib.models import Request
from rulerlib.models.cutting import cut_text, find_stop, kept_tokens

TAGS = ("<t>", "</t>")


def asked(*stop, tags=(), prompt="Hvad?"):
    return Request(prompt, False, 16, tags=tags, stop=stop)


@pytest.mark.parametrize(("text", "thinks", "place"), [
    ("<t>7. 8.</t>8. 9.", False, (13, 14)), ("7. 8.</t>8. 9.", True, (10, 11)),
    ("7. <t>8.</t>9.", False, (1, 2)), ("7<t>8.</t>9<t>1.</t>2.", False, (21, 22)),
    ("7<t>8.", False, None), ("7. 8.", True, None), ("<t>7</t>8", False, None),
])  # fmt: skip
def test_thinking_is_left_out(text, thinks, place):
    assert find_stop(text, asked(".", tags=TAGS), thinks) == place
    # Other tags, or none: all of it is the answer.
    at = text.find(".")
    assert find_stop(text, asked("."), False) == (None if at < 0 else (at, at + 1))


def test_an_answer_that_leaves_no_room_for_a_prompt_is_refused():
    with pytest.raises(ParameterError, match="length is 110, but must be at most 100"):
        kept_tokens(Request("x", True, 100, truncate=True), 10, 100, "parrot")


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_cut_text_fits(bytelevel, text, surplus):
    short = cut_text(text, surplus, bytelevel)
    assert bytelevel.count(short) <= max(0, bytelevel.count(text) - surplus)
