"""Truncating prompts in their middle, and answers at their first stop string.

A prompt that is too long is rejected, or loses its middle if that is allowed: its instruction
is at the beginning and its question at the end. Stop strings within thinking do not count.

>>> cut_tokens([1, 2, 3, 4, 5, 6], 4)
[1, 2, 5, 6]
>>> request = Request("...", False, 16, tags=("<think>", "</think>"), stop=(".",))
>>> find_stop("<think>No.</think>It is 8. Or 9.", request, begins_thinking(request))
(25, 26)
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

from rulerlib.errors import ParameterError
from rulerlib.models import Request
from rulerlib.prompts import ends_thinking
from rulerlib.tokens import Tokenizer

Decode = Callable[[Sequence[int], Sequence[str]], str]
"""A function that returns the text of tokens, given the thinking tags that are kept in it."""


def kept_tokens(request: Request, count: int, limit: int | None, name: str) -> int:
    """Return how many tokens of a prompt can be kept, or -1 if it need not be truncated.

    Parameters
    ----------
    count
        The number of tokens of the prompt.
    limit
        The longest sequence that the model takes, in tokens; None if unknown.
    name
        The model's name, for the error.

    Raises
    ------
    ParameterError
        If the prompt is too long for the model and must not be truncated, or the answer alone is.
    """
    length = count + request.max_new_tokens
    if limit is None or length <= limit:
        return -1
    if not request.truncate or limit <= request.max_new_tokens:
        raise ParameterError("length", length, f"at most {limit}, what '{name}' can take")
    return limit - request.max_new_tokens


def cut_tokens(ids: Sequence[int], count: int) -> list[int]:
    """Return the first and the last of some tokens, ``count`` together."""
    return [*ids[: count // 2], *ids[len(ids) - (count - count // 2) :]]


def cut_text(text: str, surplus: int, tokenizer: Tokenizer) -> str:
    """Return a text without its middle, shorter by ``surplus`` tokens or a few more."""
    spans = tokenizer.spans([text])[0]
    wanted = len(spans) - surplus
    while True:
        left = max(0, len(spans) - surplus)
        head, tail = left // 2, left - left // 2
        short = text[: spans[head - 1][1] if head else 0]
        short += text[spans[len(spans) - tail][0] :] if tail else ""
        # At the cut, characters may form other tokens than before.
        over = tokenizer.count(short) - wanted
        if over <= 0 or not left:
            return short
        surplus += over


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
