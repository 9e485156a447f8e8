"""A prompt that is too long: refused in one sentence, or cut in its middle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerlib.errors import ParameterError
from rulerlib.models import Request, truncation


@pytest.mark.parametrize(
    ("count", "limit", "truncate", "kept"),
    [(90, 100, False, -1), (500, None, False, -1), (91, 100, True, 90), (500, 100, True, 90)],
)
def test_what_is_kept(count, limit, truncate, kept):
    request = Request("x", True, 10, truncate=truncate)
    assert truncation.kept(request, count, limit, "parrot") == kept


def test_it_is_refused_in_one_sentence():
    with pytest.raises(ParameterError) as error:
        truncation.kept(Request("x", True, 10), 91, 100, "parrot")
    assert str(error.value) == "length is 101, but must be at most 100, what 'parrot' can take."


def test_an_answer_that_leaves_no_room_for_a_prompt_is_refused():
    with pytest.raises(ParameterError, match="length is 110, but must be at most 100"):
        truncation.kept(Request("x", True, 100, truncate=True), 10, 100, "parrot")


@given(st.lists(st.integers()), st.data())
def test_the_middle_of_the_tokens_goes(ids, data):
    count = data.draw(st.integers(0, len(ids)))
    kept = truncation.tokens(ids, count)
    assert len(kept) == count
    assert kept[: count // 2] == ids[: count // 2]
    assert kept[count // 2 :] == ids[len(ids) - (count - count // 2) :]


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_cut_text_fits(bytelevel, text, surplus):
    short = truncation.text(text, surplus, bytelevel)
    assert bytelevel.count(short) <= max(0, bytelevel.count(text) - surplus)


def test_a_cut_text_begins_and_ends_as_it_did(words):
    text = truncation.text("Først. " + "græs " * 60 + "Til sidst?", 40, words)
    assert text.startswith("Først. græs")
    assert text.endswith("græs Til sidst?")
