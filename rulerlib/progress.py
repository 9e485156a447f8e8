"""A progress bar: tqdm in a terminal, one line of text in a notebook.

An executed notebook shows tqdm's widget at 0% and its text bar as hundreds of lines, so here it
has one line that is updated in place. The terminal that papermill runs in shows the same bar.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from tqdm.std import tqdm

_AT_THE_END = "{desc}: {percentage:3.0f}%|{bar:24}| {elapsed}"
_FORMAT = _AT_THE_END + "<{remaining}"


class Progress(tqdm):  # type: ignore[misc]
    """A tqdm bar with the elapsed and the remaining time.

    Parameters
    ----------
    total
        The sum of all work, in any unit.
    label
        What is being done.
    quiet
        Whether to show no bar.
    """

    # tqdm's monitor thread is not needed.
    monitor_interval = 0

    def __init__(self, total: float, label: str, quiet: bool = False) -> None:
        self._line = None if quiet else _notebook_line()
        self._terminal = None if quiet else _terminal()
        super().__init__(
            total=total, desc=label, disable=self._line is None and self._terminal is None,
            file=self._terminal or io.StringIO(), ascii=False, bar_format=_FORMAT,
            mininterval=0.5, miniters=0, smoothing=0,
        )  # fmt: skip

    def skip(self, weight: float) -> None:
        """Count work that was done before and took no time."""
        if not self.disable:
            self.initial += weight
            self.n += weight
            self.refresh()

    def close(self) -> None:
        """Draw the bar a last time, without the remaining time."""
        self.bar_format = _AT_THE_END
        super().close()

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw the bar in the notebook and in the terminal."""
        if self._line is not None:
            self._line.update({"text/plain": msg or str(self)}, raw=True)
        if self._terminal is not None:
            # \x1b[K clears what papermill's bar left on the line.
            self._terminal.write("\r\x1b[K")
            super().display(msg, pos)


def _notebook_line() -> Any:
    """Return a line of the notebook that can be updated, or None outside of a notebook."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        return None
    return display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]


def _terminal() -> Any:
    """Return the terminal of this process, or that in which its kernel was started, or None."""
    # ipykernel keeps the file descriptor of the stderr that it replaced.
    inherited = getattr(sys.stderr, "_original_stdstream_copy", None)
    if inherited is None:
        return sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
    if not os.isatty(inherited):
        return None
    return os.fdopen(os.dup(inherited), "w", encoding="utf-8", errors="replace")
