"""What the answers of a cell cost: time by phase, and tokens.

>>> meter = Meter()
>>> with meter.phase("making"):
...     pass
>>> sorted(meter.measured()["seconds"])
['generating', 'loading', 'making']
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rulerlib.models import Generation, Model, Request, load_weights
from rulerlib.samples import Prediction
from rulerlib.store.cell import Cell

PHASES = ("making", "loading", "generating")
"""Making the questions, loading the model, reading prompts and generating answers."""


class Meter:
    """Counts what is asked of a model, and the time that it takes."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self.tokens = {"prompt": 0, "computed": 0, "generated": 0}
        self.asked = 0

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of what is done within as that of a phase.

        What is counted as that of another one meanwhile is not part of it.
        """
        began = time.perf_counter() - sum(self._seconds.values())
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - sum(self._seconds.values()) - began

    def count(self, answer: Generation, seconds: float) -> None:
        """Count an answer, and the time until it came; of a batch the first one bears it all."""
        self._seconds["generating"] += seconds
        self.tokens["prompt"] += answer.prompt_tokens
        self.tokens["computed"] += answer.computed_tokens
        self.tokens["generated"] += answer.tokens
        self.asked += 1

    def measured(self) -> dict[str, Any]:
        """Return all that was counted, as plain data."""
        seconds = {name: round(value, 6) for name, value in self._seconds.items()}
        return {"asked": self.asked, "seconds": seconds, "tokens": dict(self.tokens)}


class Metered:
    """A model whose answers a meter counts; otherwise it is the model itself.

    Its weights are loaded when it is asked for the first time.

    Parameters
    ----------
    model
        The model.
    meter
        What counts; another one may take its place between two calls.
    """

    def __init__(self, model: Model, meter: Meter) -> None:
        self._model, self.meter = model, meter
        self._loaded = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """See `rulerlib.models.Model`."""
        if not self._loaded:
            with self.meter.phase("loading"):
                load_weights(self._model)
            self._loaded = True
        generations = self._model.generate(requests)
        began = time.perf_counter()
        try:
            for position, generation in generations:
                self.meter.count(generation, time.perf_counter() - began)
                yield position, generation
                began = time.perf_counter()
        finally:
            # At once: requests that nobody waits for cost money.
            if isinstance(generations, Generator):
                generations.close()


def added(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sums of what was measured before and now."""
    total = dict(now)
    for name in ("seconds", "tokens"):
        old, new = before.get(name) or {}, now.get(name) or {}
        if isinstance(old, Mapping):
            total[name] = {key: round(value + (old.get(key) or 0), 6) for key, value in new.items()}
    total["asked"] = now.get("asked", 0) + (before.get("asked") or 0)
    return total


def costs(answered: Iterable[tuple[Cell, Sequence[Prediction]]]) -> list[dict[str, Any]]:
    """Return a row for each cell with the tokens read and generated; the last has the sums.

    Parameters
    ----------
    answered
        Each cell with its answers.
    """
    rows = [
        {"task": cell.label, "length": f"{cell.length:,}", "n": len(records),
         "prompt tokens": sum(record.others.get("prompt_tokens", 0) for record in records),
         "generated tokens": sum(record.others["tokens_generated"] for record in records),
         "cut off": sum(not record.others["finished"] for record in records)}
        for cell, records in answered
    ]  # fmt: skip
    sums = {name: sum(row[name] for row in rows) for name in list(rows[0])[2:]}
    return [*rows, {"task": "together", "length": "", **sums}]
