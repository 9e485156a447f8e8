"""How far the work is, and what answers cost: a bar that tells the time left, time and tokens.

tqdm's widget bar is blank in a page that nobody runs, and papermill's own bar counts cells. So in a
notebook the bar is one line of text that stays readable when the notebook is published, and the
same bar goes to the terminal in which papermill was started.

>>> bar = Progress(4, "niah_single_2", quiet=True)
>>> bar.advance(1, measured=False)
>>> print(bar)
niah_single_2:  25% |██████░░░░░░░░░░░░░░░░░░| 0:00
>>> meter = Meter()
>>> with meter.phase("making"):
...     pass
>>> sorted(meter.measured()["seconds"])
['generating', 'loading', 'making']
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from rulerlib.models import Generation, Model, Request, load_weights
from rulerlib.samples import Prediction
from rulerlib.store.cell import Cell

PHASES = ("making", "loading", "generating")
"""Making the questions, loading the model, reading prompts and generating answers."""

# A notebook's line is drawn at most this often, in seconds.
_INTERVAL = 0.5


class Progress:
    """A bar that shows how much of the work is done, and how long the rest will take.

    Parameters
    ----------
    total
        The weight of all the work, in any unit.
    label
        What is being done.
    quiet
        Draw nothing.
    """

    def __init__(self, total: float, label: str, quiet: bool = False) -> None:
        self.total, self.label = total, label
        self.done = self._measured = 0.0
        self._begin = self._drawn = time.monotonic()
        self._notebook = None if quiet else _notebook()
        self._terminal = None if quiet else _terminal()
        self._draw()

    def advance(self, weight: float, measured: bool = True) -> None:
        """Move on by the weight of a piece of work that is done.

        Parameters
        ----------
        weight
            In the unit of ``total``.
        measured
            False if the piece was there already and took no time.
        """
        self.done += weight
        if measured:
            self._measured += weight
        if time.monotonic() - self._drawn >= _INTERVAL or self.done >= self.total:
            self._draw()

    def close(self) -> None:
        """Draw the last state and end the terminal's line."""
        self._draw()
        if self._terminal is not None:
            self._terminal.write("\n")
            self._terminal.flush()
            self._terminal = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        share = min(1.0, self.done / self.total) if self.total else 0.0
        elapsed = time.monotonic() - self._begin
        # Sums of fractions may be a little less than a whole.
        filled = int(share * 24 + 1e-6)
        line = f"{self.label}: {share:4.0%} |{'█' * filled}{'░' * (24 - filled)}| {_clock(elapsed)}"
        if share < 1 and self._measured:
            left = (self.total - self.done) * elapsed / self._measured
            line += f", about {_clock(left)} left"
        return line

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._notebook is not None:
            self._notebook.update({"text/plain": str(self)}, raw=True)
        if self._terminal is not None:
            # \x1b[K clears what papermill's bar left on the line.
            self._terminal.write(f"\r{self}\x1b[K")
            self._terminal.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _notebook() -> Any:
    """Return a line of the notebook that can be drawn again; None outside of a notebook."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        return None
    return display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]


def _terminal() -> TextIO | None:
    """Return the terminal, also in a kernel, whose own stderr goes into the notebook."""
    stream: Any = sys.stderr
    # ipykernel keeps the file descriptor that it took over; without it there is just no bar.
    inherited = getattr(stream, "_original_stdstream_copy", None)
    if inherited is not None:
        if not os.isatty(inherited):
            return None
        return os.fdopen(os.dup(inherited), "w", encoding="utf-8", errors="replace")
    return stream if stream is not None and stream.isatty() else None


# --- What answers cost ----------------------------------------------------------------------------


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
