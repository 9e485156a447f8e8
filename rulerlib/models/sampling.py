"""Tokens drawn at a temperature, each request with random numbers of its own.

transformers draws a whole batch with one generator, so that an answer depends on its neighbours.
Here each request has a generator that is seeded with the seed of its `Decoding` and its prompt.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Any

from rulerlib.models import Request


def seed(request: Request) -> int:
    """Return the seed with which an answer is drawn, 31 bits; a new one where none is set.

    It depends on the prompt, so that two questions are not answered with the same luck, and on
    which of several answers to one question is drawn.
    """
    if request.decoding.seed is None:
        return random.SystemRandom().getrandbits(31)
    repeat = f".{request.repeat}" if request.repeat else ""
    digest = hashlib.sha256(f"{request.decoding.seed}{repeat} {request.prompt}".encode())
    return int.from_bytes(digest.digest()[:4], "big") >> 1


class Sampling:
    """A processor of logits that draws the next token of each prompt that is not greedy.

    transformers calls it before greedy decoding: of the scores of a prompt it leaves only that of
    the drawn token above minus infinity.

    Parameters
    ----------
    requests
        For each row of the batch its request.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self._rows = [
            (row, request.decoding, random.Random(seed(request)))
            for row, request in enumerate(requests)
            if not request.decoding.greedy
        ]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores, of shape (prompts, vocabulary), after the drawing."""
        scores = scores.clone()
        for row, decoding, numbers in self._rows:
            chances = (scores[row].float() / decoding.temperature).softmax(-1)
            chances, order = chances.sort(descending=True, stable=True)
            sums = chances.cumsum(-1)
            # The fewest tokens that reach top_p together, one at least.
            sums = sums[sums - chances < decoding.top_p]
            drawn = int((sums <= numbers.random() * sums[-1]).sum())
            scores[row] = float("-inf")
            scores[row, order[min(drawn, len(sums) - 1)]] = 0
        return scores
