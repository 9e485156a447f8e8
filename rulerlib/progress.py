"""A progress bar: tqdm, which in a notebook is one line of text that is updated in place.

An executed notebook shows tqdm's own widget at 0% and its text bar as hundreds of lines.
"""

from __future__ import annotations

import io
import sys
from typing import Any

from tqdm.std import tqdm

_FORMAT = "{desc}: {percentage:3.0f}%|{bar:24}| {elapsed}<{remaining}"


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

    def __init__(self, total: float, label: str, quiet: bool = False) -> None:
        self._line = None if quiet else _notebook_line()
        hidden = quiet or (self._line is None and not sys.stderr.isatty())
        file = sys.stderr if self._line is None else io.StringIO()
        super().__init__(
            total=total, desc=label, disable=hidden, file=file, bar_format=_FORMAT,
            mininterval=0.5, miniters=0, smoothing=0,
        )  # fmt: skip

    def skip(self, weight: float) -> None:
        """Count work that was done before and took no time."""
        if not self.disable:
            self.initial += weight
            self.update(weight)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw the bar."""
        if self._line is None:
            super().display(msg, pos)
        else:
            self._line.update({"text/plain": str(self)}, raw=True)


def _notebook_line() -> Any:
    """Return a line of the notebook that can be updated, or None outside of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
