"""Where prompts and answers are cut: a prompt in its middle, an answer at its first stop string.

A prompt that is too long is refused, or loses its middle where it may: the instruction stands at
its beginning and the question at its end. A stop string counts outside of thinking.

>>> cut_tokens([1, 2, 3, 4, 5, 6], 4)
[1, 2, 5, 6]
>>> request = Request("...", False, 16, tags=("<think>", "</think>"), stop=(".",))
>>> find_stop("<think>No.</think>It is 8. Or 9.", request, begins_thinking(request))
(25, 26)
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

from rulerlib.errors import require
from rulerlib.models import Request
from rulerlib.prompts import ends_thinking
from rulerlib.tokens import Tokenizer

Decode = Callable[[Sequence[int], Sequence[str]], str]
"""A function from tokens, and the tags of thinking that stay among them, to their text."""


def kept_tokens(request: Request, count: int, limit: int | None, name: str) -> int:
    """Return how many tokens of a prompt can be kept; -1: all of them.

    Parameters
    ----------
    count
        The number of tokens of the prompt.
    limit
        The longest sequence that the model takes, in tokens; None where unknown.
    name
        The model's.

    Raises
    ------
    ParameterError
        If the prompt is too long for the model and may not be cut, or the answer alone is.
    """
    length = count + request.max_new_tokens
    if limit is None or length <= limit:
        return -1
    holds = request.truncate and limit > request.max_new_tokens
    require(holds, "length", length, f"at most {limit}, what '{name}' can take")
    return limit - request.max_new_tokens


def cut_tokens(ids: Sequence[int], count: int) -> list[int]:
    """Return the first and the last of some tokens, ``count`` in sum."""
    return [*ids[: count // 2], *ids[len(ids) - (count - count // 2) :]]


def cut_text(text: str, surplus: int, tokenizer: Tokenizer) -> str:
    """Return a text without its middle, shorter by ``surplus`` tokens or a few more."""
    spans = tokenizer.spans([text])[0]
    wanted = len(spans) - surplus
    while True:
        # Tokens that stood apart may merge into fewer, or a letter be cut into more.
        left = max(0, len(spans) - surplus)
        head, tail = left // 2, left - left // 2
        short = text[: spans[head - 1][1] if head else 0]
        short += text[spans[len(spans) - tail][0] :] if tail else ""
        over = tokenizer.count(short) - wanted
        if over <= 0 or not left:
            return short
        surplus += over


def begins_thinking(request: Request) -> bool:
    """Return whether an answer begins within thinking, because the prompt has begun it."""
    return ends_thinking(request.prompt, request.tags)


def find_stop(text: str, request: Request, thinks: bool) -> tuple[int, int] | None:
    """Return the characters [start, end) of the first stop string in a text; None without one.

    Parameters
    ----------
    text
        What the model generated.
    request
        Its stop strings and tags of thinking.
    thinks
        Whether the text begins within thinking.
    """
    start = 0
    while True:
        # Thinking and answer take turns, and this tag ends the turn.
        tag = request.tags[int(thinks)] if len(request.tags) == 2 else ""
        end = text.find(tag, start) if tag else -1
        if not thinks:
            until = end if end >= 0 else len(text)
            starts = [(text.find(stop, start, until), len(stop)) for stop in request.stop]
            if places := [(at, at + size) for at, size in starts if at >= 0]:
                return min(places)
        if end < 0:
            return None
        start, thinks = end + len(tag), not thinks


def cut_answer(ids: Sequence[int], request: Request, decode: Decode) -> tuple[str, int, bool]:
    """Return the text of generated tokens, how many of them it took, and whether it was stopped.

    A stop string counts as soon as it is complete, whatever was generated after it.

    Parameters
    ----------
    ids
        The generated tokens, up to the end of the text or further.
    decode
        Makes their text.
    """
    text, thinks = decode(ids, request.tags), begins_thinking(request)
    if not request.stop or find_stop(text, request, thinks) is None:
        return text, len(ids), False

    def stopped(count: int) -> bool:
        return find_stop(decode(ids[:count], request.tags), request, thinks) is not None

    # The fewest tokens that hold a stop string; a text of more tokens holds it too.
    count = bisect.bisect_left(range(len(ids)), True, key=stopped)
    text = decode(ids[:count], request.tags)
    place = find_stop(text, request, thinks)
    return text[: place[0]] if place else text, count, True
