"""What happens to a prompt that is too long: it is refused, or loses its middle where it may.

The beginning and the end stay, because the instruction and the question stand there.

>>> tokens([1, 2, 3, 4, 5, 6], 4)
[1, 2, 5, 6]
"""

from __future__ import annotations

from collections.abc import Sequence

from rulerlib.errors import require
from rulerlib.models import Request
from rulerlib.tokens import Tokenizer


def kept(request: Request, count: int, limit: int | None, name: str) -> int:
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


def tokens(ids: Sequence[int], count: int) -> list[int]:
    """Return the first and the last of some tokens, ``count`` in sum."""
    return [*ids[: count // 2], *ids[len(ids) - (count - count // 2) :]]


def text(whole: str, surplus: int, tokenizer: Tokenizer) -> str:
    """Return a text without its middle, shorter by ``surplus`` tokens or a few more."""
    spans = tokenizer.spans([whole])[0]
    wanted = len(spans) - surplus
    while True:
        # What stood apart may merge into fewer tokens, or a letter be cut into more.
        left = max(0, len(spans) - surplus)
        head, tail = left // 2, left - left // 2
        short = whole[: spans[head - 1][1] if head else 0]
        short += whole[spans[len(spans) - tail][0] :] if tail else ""
        over = tokenizer.count(short) - wanted
        if over <= 0 or not left:
            return short
        surplus += over
