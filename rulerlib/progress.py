"""A progress bar that tells the time left, in a terminal and in a notebook.

tqdm's widget bar is blank in a page that nobody runs, and papermill's own bar counts cells. So in a
notebook the bar is one line of text that stays readable when the notebook is published, and the
same bar goes to the terminal in which papermill was started.

>>> bar = Progress(4, "niah_single_2", quiet=True)
>>> bar.advance(1, measured=False)
>>> print(bar)
niah_single_2:  25% |██████░░░░░░░░░░░░░░░░░░| 0:00
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, TextIO

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
