"""Cutting answers at their first stop string. Stop strings within thinking do not count.

>>> request = Request("...", False, 16, tags=("<think>", "</think>"), stop=(".",))
>>> find_stop("<think>No.</think>It is 8. Or 9.", request, begins_thinking(request))
(25, 26)
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

from rulerlib.models import Request
from rulerlib.prompts import ends_thinking

Decode = Callable[[Sequence[int], Sequence[str]], str]
"""A function that returns the text of tokens, given the thinking tags that are kept in it."""


def begins_thinking(request: Request) -> bool:
    """Return whether the prompt ends within thinking, so that the answer continues it."""
    return ends_thinking(request.prompt, request.tags)


def find_stop(text: str, request: Request, thinks: bool) -> tuple[int, int] | None:
    """Return the characters [start, end) of the first stop string in a text, or None.

    Parameters
    ----------
    text
        The generated text.
    request
        Its stop strings and thinking tags.
    thinks
        Whether the text begins within thinking.
    """
    start = 0
    while True:
        # Thinking and answer alternate; this tag ends the current one.
        tag = request.tags[int(thinks)] if len(request.tags) == 2 else ""
        end = text.find(tag, start) if tag else -1
        if not thinks:
            until = end if end >= 0 else len(text)
            found = [(text.find(stop, start, until), len(stop)) for stop in request.stop]
            places = [(at, at + size) for at, size in found if at >= 0]
            if places:
                return min(places)
        if end < 0:
            return None
        start, thinks = end + len(tag), not thinks


def cut_answer(ids: Sequence[int], request: Request, decode: Decode) -> tuple[str, int, bool]:
    """Return the text of an answer, its number of tokens, and whether a stop string ended it.

    Parameters
    ----------
    ids
        The generated tokens.
    decode
        Returns their text.
    """
    thinks = begins_thinking(request)

    def stop_of(count: int) -> tuple[int, int] | None:
        return find_stop(decode(ids[:count], request.tags), request, thinks)

    if not request.stop or stop_of(len(ids)) is None:
        return decode(ids, request.tags), len(ids), False
    # The fewest tokens whose text holds a stop string.
    count = bisect.bisect_left(range(len(ids)), True, key=lambda size: stop_of(size) is not None)
    place = stop_of(count)
    text = decode(ids[:count], request.tags)
    return text[: place[0]] if place else text, count, True
