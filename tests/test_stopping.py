"""Stop strings: found outside of thinking, counted in tokens, seen as soon as they are complete."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerlib.models import Request
from rulerlib.models.stopping import Stopping, begun, cut, find

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
    assert find(text, asked(*stop), False) == place


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
    assert find(text, asked(".", tags=TAGS), thinks) == place
    # Other tags, or none: all of it is the answer.
    assert find(text, asked("."), False) == ((text.index("."), text.index(".") + 1) if "." in text
                                             else None)  # fmt: skip


def test_it_is_known_whether_thinking_goes_on():
    assert begun(asked(tags=TAGS, prompt="Hvad? <t>\n"))
    assert not begun(asked(tags=TAGS, prompt="Hvad? <t></t>"))
    assert not begun(asked(tags=TAGS))
    assert not begun(asked(prompt="<t>"))


def letters(ids, tags=()):
    return "".join(map(chr, ids))


TEXTS = st.text(alphabet="abæ<t>/", max_size=40)
# None of them is the beginning of a tag: what that is shows only with what comes later.
STOPS = st.text(alphabet="abæ", min_size=1, max_size=9)


@given(text=TEXTS, later=TEXTS, stop=st.lists(STOPS, min_size=1, max_size=3))
def test_what_comes_later_does_not_matter(text, later, stop):
    """A neighbour that goes on makes a row longer; the answer ends where it ended alone."""
    request = asked(*stop, tags=TAGS)
    answer, count, stopped = cut([ord(letter) for letter in text], request, letters)
    place = find(text, request, False)
    assert stopped == (place is not None)
    assert count == (len(text) if place is None else min(
        number for number in range(len(text) + 1) if find(text[:number], request, False)
    ))  # fmt: skip
    if stopped:
        assert text.startswith(answer)
        assert find(answer, request, False) is None
        longer = [ord(letter) for letter in text + later]
        assert cut(longer, request, letters) == (answer, count, True)


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
        assert seen == (find(text[:count], requests[1], begun(requests[1])) is not None)
