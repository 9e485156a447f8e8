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
    """Return what to draw the answer to a request with: 31 bits, new ones where no seed is set.

    It depends on the prompt, so that two questions are not answered with the same luck.
    """
    if request.decoding.seed is None:
        return random.SystemRandom().getrandbits(31)
    digest = hashlib.sha256(f"{request.decoding.seed} {request.prompt}".encode())
    return int.from_bytes(digest.digest()[:4], "big") >> 1


class Sampling:
    """Chooses the next token of each prompt that is not to be decoded greedily.

    For transformers, as a processor of logits before greedy decoding: of the scores of a prompt
    it leaves that of the drawn token alone.

    Parameters
    ----------
    requests
        One for each row of the batch.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self._rows = [
            (row, request.decoding, random.Random(seed(request)))
            for row, request in enumerate(requests)
            if not request.decoding.greedy
        ]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores, of shape (prompts, vocabulary), with the choices made."""
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
