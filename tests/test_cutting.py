"""Stop strings: found outside of thinking, counted in tokens, seen as soon as they are complete."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerlib.errors import ParameterError
from rulerlib.models import Request
from rulerlib.models.cutting import (
    begins_thinking,
    cut_answer,
    cut_text,
    cut_tokens,
    find_stop,
    kept_tokens,
)
from rulerlib.models.local import Stopping

TAGS = ("<t>", "</t>")


def asked(*stop, tags=(), prompt="Hvad?"):
    return Request(prompt, False, 16, tags=tags, stop=stop)


@pytest.mark.parametrize(
    ("text", "stop", "place"),
    [
        ("It is 8. Or 9.", (".",), (7, 8)),
        ("It is 8. Or 9.", ("9", " Or", "is 8"), (3, 7)),
        ("aab", ("ab", "aab", "aa"), (0, 2)),
        ("It is 8", (".",), None),
        ("", (".",), None),
        ("It is 8", (), None),
    ],
)
def test_the_first_one_counts(text, stop, place):
    assert find_stop(text, asked(*stop), False) == place


@pytest.mark.parametrize(
    ("text", "thinks", "place"),
    [
        ("<t>7. 8.</t>8. 9.", False, (13, 14)),
        ("7. 8.</t>8. 9.", True, (10, 11)),
        ("7. <t>8.</t>9.", False, (1, 2)),
        ("7<t>8.</t>9<t>1.</t>2.", False, (21, 22)),
        ("7<t>8.", False, None),
        ("7. 8.", True, None),
        ("<t>7</t>8", False, None),
    ],
)
def test_thinking_is_left_out(text, thinks, place):
    assert find_stop(text, asked(".", tags=TAGS), thinks) == place
    # Other tags, or none: all of it is the answer.
    at = text.find(".")
    assert find_stop(text, asked("."), False) == (None if at < 0 else (at, at + 1))


def test_it_is_known_whether_thinking_goes_on():
    assert begins_thinking(asked(tags=TAGS, prompt="Hvad? <t>\n"))
    assert not begins_thinking(asked(tags=TAGS, prompt="Hvad? <t></t>"))
    assert not begins_thinking(asked(tags=TAGS))
    assert not begins_thinking(asked(prompt="<t>"))


def letters(ids, tags=()):
    return "".join(map(chr, ids))


TEXTS = st.text(alphabet="abæ<t>/", max_size=40)
# None of them is the beginning of a tag: what that is shows only with what comes later.
STOPS = st.text(alphabet="abæ", min_size=1, max_size=9)


@given(text=TEXTS, later=TEXTS, stop=st.lists(STOPS, min_size=1, max_size=3))
def test_what_comes_later_does_not_matter(text, later, stop):
    """A neighbour that goes on makes a row longer; the answer ends where it ended alone."""
    request = asked(*stop, tags=TAGS)
    answer, count, stopped = cut_answer([ord(letter) for letter in text], request, letters)
    place = find_stop(text, request, False)
    assert stopped == (place is not None)
    assert count == (len(text) if place is None else min(
        number for number in range(len(text) + 1) if find_stop(text[:number], request, False)
    ))  # fmt: skip
    if stopped:
        assert text.startswith(answer)
        assert find_stop(answer, request, False) is None
        longer = [ord(letter) for letter in text + later]
        assert cut_answer(longer, request, letters) == (answer, count, True)


@given(
    text=TEXTS,
    stop=st.lists(STOPS, max_size=3),
    prompt=st.sampled_from(["Hvad?", "Hvad? <t>"]),
)
def test_a_batch_sees_it_as_soon_as_it_is_complete(text, stop, prompt):
    torch = pytest.importorskip("torch")
    requests = [asked(prompt=prompt), asked(*stop, tags=TAGS, prompt=prompt)]
    stopping = Stopping(requests, 3, letters)
    ids = torch.tensor([[1, 2, 3, *map(ord, text)]] * 2, dtype=torch.long)
    seen = False
    for count in range(1, len(text) + 1):
        step = stopping(ids[:, : 3 + count], None)
        assert step.dtype == torch.bool
        assert step.tolist()[0] is False
        seen = seen or step.tolist()[1]
        assert seen == (
            find_stop(text[:count], requests[1], begins_thinking(requests[1])) is not None
        )


# --- A prompt that is too long ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "limit", "truncate", "kept"),
    [(90, 100, False, -1), (500, None, False, -1), (91, 100, True, 90), (500, 100, True, 90)],
)
def test_what_is_kept(count, limit, truncate, kept):
    request = Request("x", True, 10, truncate=truncate)
    assert kept_tokens(request, count, limit, "parrot") == kept


def test_it_is_refused_in_one_sentence():
    with pytest.raises(ParameterError) as error:
        kept_tokens(Request("x", True, 10), 91, 100, "parrot")
    assert str(error.value) == "length is 101, but must be at most 100, what 'parrot' can take."


def test_an_answer_that_leaves_no_room_for_a_prompt_is_refused():
    with pytest.raises(ParameterError, match="length is 110, but must be at most 100"):
        kept_tokens(Request("x", True, 100, truncate=True), 10, 100, "parrot")


@given(st.lists(st.integers()), st.data())
def test_the_middle_of_the_tokens_goes(ids, data):
    count = data.draw(st.integers(0, len(ids)))
    kept = cut_tokens(ids, count)
    assert len(kept) == count
    assert kept[: count // 2] == ids[: count // 2]
    assert kept[count // 2 :] == ids[len(ids) - (count - count // 2) :]


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_cut_text_fits(bytelevel, text, surplus):
    short = cut_text(text, surplus, bytelevel)
    assert bytelevel.count(short) <= max(0, bytelevel.count(text) - surplus)


def test_a_cut_text_begins_and_ends_as_it_did(words):
    text = cut_text("Først. " + "græs " * 60 + "Til sidst?", 40, words)
    assert text.startswith("Først. græs")
    assert text.endswith("græs Til sidst?")
