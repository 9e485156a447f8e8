"""Where a stop string ends an answer: outside of thinking, and counted in tokens.

>>> from rulerlib.models import Request
>>> request = Request("...", False, 16, tags=("<think>", "</think>"), stop=(".",))
>>> find("<think>No.</think>It is 8. Or 9.", request, begun(request))
(25, 26)
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Sequence
from typing import Any

from rulerlib.models import Request
from rulerlib.models.local import torch
from rulerlib.prompts import ends_thinking

# From tokens, and the tags of thinking that stay among them, to their text.
Decode = Callable[[Sequence[int], Sequence[str]], str]


def begun(request: Request) -> bool:
    """Return whether a prompt ends within thinking."""
    return ends_thinking(request.prompt, request.tags)


def find(text: str, request: Request, thinks: bool) -> tuple[int, int] | None:
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
        # Thinking and answer take turns; the tag is what ends this one.
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


def cut(ids: Sequence[int], request: Request, decode: Decode) -> tuple[str, int, bool]:
    """Return the text of generated tokens, how many of them it took, and whether it was stopped.

    A stop string counts as soon as it is complete, whatever was generated after it.

    Parameters
    ----------
    ids
        The generated tokens, up to the end of the text or further.
    decode
        From tokens and the tags of thinking to their text.
    """
    text, thinks = decode(ids, request.tags), begun(request)
    if not request.stop or find(text, request, thinks) is None:
        return text, len(ids), False

    def stopped(count: int) -> bool:
        return find(decode(ids[:count], request.tags), request, thinks) is not None

    # The fewest tokens that hold one; a text of more tokens holds it too.
    count = bisect.bisect_left(range(len(ids)), True, key=stopped)
    text = decode(ids[:count], request.tags)
    place = find(text, request, thinks)
    return text[: place[0]] if place else text, count, True


class Stopping:
    """A stopping criterion of transformers: which prompts of a batch have come to a stop string.

    Parameters
    ----------
    requests
        For each row of the batch its request.
    start
        The number of tokens before the generated ones, the same for all rows.
    decode
        From tokens and the tags of thinking to their text.
    """

    def __init__(self, requests: Sequence[Request], start: int, decode: Decode) -> None:
        self._start, self._decode = start, decode
        # A stop string of n bytes has n tokens at most. A few more are read: the token before them
        # decides about a space, and tags of thinking, which are special tokens, may stand between.
        self._rows = [
            (row, request, begun(request), max(len(stop.encode()) for stop in request.stop) + 4)
            for row, request in enumerate(requests)
            if request.stop
        ]

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Return for each row whether it is stopped: a tensor of truth values, (prompts,)."""
        stopped = [False] * len(input_ids)
        for row, request, thinks, window in self._rows:
            ids = input_ids[row, self._start :]
            tail = self._decode(ids[-window:].tolist(), request.tags)
            # All is read only where a stop string may stand: thinking can be long.
            if any(stop in tail for stop in request.stop):
                whole = self._decode(ids.tolist(), request.tags)
                stopped[row] = find(whole, request, thinks) is not None
        return input_ids.new_tensor(stopped, dtype=bool)


class Watch:
    """A stopping criterion that stops nothing, and notes when the first token was there.

    Parameters
    ----------
    device
        Where the model computes; a GPU is waited for, once.

    Attributes
    ----------
    seconds
        From the making of this value until the first token: the time of reading.
    """

    def __init__(self, device: str) -> None:
        self._device, self._begin, self.seconds = device, time.perf_counter(), 0.0

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Return that no row is stopped: a tensor of truth values, (prompts,)."""
        if not self.seconds:
            if self._device == "cuda":
                torch().cuda.synchronize()
            self.seconds = time.perf_counter() - self._begin
        return input_ids.new_zeros(len(input_ids), dtype=torch().bool)
