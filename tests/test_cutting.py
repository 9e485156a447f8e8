"""Stop strings: found outside of thinking, counted in tokens, seen as soon as they are complete."""

from __future__ import annotations

import pytest

from rulerlib.models import Request, find_stop

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
