"""The same prompts asked alone, behind a hit in a prefix cache, and in company.

A server keeps what it read, and an engine reads once what several prompts begin with. Both should
change no answer, and neither should the other prompts of a batch: ``rulerlib compare MODEL
--cache`` asks in the `WAYS` and compares the answers.

>>> from rulerlib.models import load
>>> load("lille").batch_size(4096), CacheProbe(load("lille"), "alone").batch_size(4096)
(16, 16)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from rulerlib.models import Generation, Model, Request, in_order

ALONE, HIT, COMPANY = "alone", "hit", "company"
WAYS = (ALONE, HIT, COMPANY)
"""One prompt after the other; each behind one that begins alike; and all together."""

ENDING = 200
"""Characters at the end of a prompt that the prompt before it lacks, where an engine reads once
what neighbours begin with: about a question."""


class CacheProbe:
    """A model that is asked in one of the `WAYS`; otherwise it is the model itself.

    Attributes
    ----------
    read, computed
        The tokens of all prompts so far, and how many of them were not found in a cache; the
        latter is 0 where a server does not say.
    """

    def __init__(self, model: Model, way: str) -> None:
        self._model, self._way = model, way
        self.read = self.computed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """See `rulerlib.models.Model`."""
        single = (replace(request, group=None) for request in requests)
        answered = (
            self._model.generate(single) if self._way == COMPANY else self._one_by_one(single)
        )
        for position, generation in answered:
            self.read += generation.prompt_tokens
            self.computed += generation.computed_tokens
            yield position, generation

    def told(self) -> str:
        """Return how many tokens of prompts were computed, as a sentence; empty: none was read."""
        if not self.read:
            return ""
        computed = f"{self.computed:,}" if self.computed else "an unknown number"
        return f"{self._way.capitalize()}: {computed} of {self.read:,} tokens of prompts computed."

    def _one_by_one(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        for position, request in enumerate(requests):
            together = [request]
            if self._way == HIT and self._model.batch_size(1) is None:
                # It keeps what it read, so the whole prompt is there the second time.
                in_order(self._model, [request])
            elif self._way == HIT:
                opening = replace(request, prompt=request.prompt[:-ENDING], max_new_tokens=1)
                together = [replace(opening, group=0), replace(request, group=0)]
            yield position, in_order(self._model, together)[-1]
