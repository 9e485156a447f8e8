"""Figures as a notebook shows them: drawn in lines of any size, for light and for dark pages.

A notebook shows a PNG of twice the resolution, for Jupyter has no words for an SVG. Beside it,
under a type of its own that Jupyter passes over, it keeps an SVG for the pages of the book, whose
lines and letters stay sharp at any size. It follows the scheme of the page that it stands on: in
the dark, paper is dark and ink is light, and colours that carry a meaning stay.
"""

from __future__ import annotations

import functools
import html
import io
import re
from pathlib import Path
from typing import Any

from rulerlib.show import Html

SVG = "application/vnd.rulerlib.svg"
"""Under which type a notebook keeps the SVG of a figure."""

INK_ON_COLOUR, WHITE_ON_COLOUR = "#010101", "#fefefe"
"""Black and white on a colour of their own, which stay as they are on a dark page."""

_DARK = Path(__file__).with_name("dark.css").read_text("utf-8")

# Pixels of the PNG for each pixel of the page.
_DENSITY = 2


@functools.cache
def picture() -> Any:
    """Return the class of the figures; matplotlib is loaded only where one is drawn."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that says in words what it is, what it shows, and how it is read."""

        alt = ""
        says: Html | None = None

        def _ipython_display_(self) -> None:
            from IPython.display import display, publish_display_data

            publish_display_data(*self._repr_mimebundle_())  # type: ignore[no-untyped-call]
            if self.says is not None:
                display(self.says)  # type: ignore[no-untyped-call]

        def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
            # A notebook stores the words beside the picture, and shows them where it cannot.
            # What stands where is worked out once for both.
            self.draw_without_rendering()
            self.set_layout_engine("none")
            width, height = (round(self.dpi * side) for side in self.get_size_inches())
            bundle = {"image/png": _png(self), SVG: svg(self), "text/plain": self.alt}
            return bundle, {"image/png": {"alt": self.alt, "width": width, "height": height}}

    return Picture


def svg(figure: Any) -> str:
    """Return a figure as SVG that can stand in a page or in a file, the same bytes each time."""
    import matplotlib

    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": "rulerlib"}):
        figure.savefig(file, format="svg", metadata=nothing)
    _, _, drawn = file.getvalue().partition("<svg ")
    drawn = re.sub(r"\s*<metadata>.*?</metadata>", "", drawn, count=1, flags=re.DOTALL)
    head, _, body = drawn.partition(">")
    words = html.escape(getattr(figure, "alt", ""))
    named = f'<svg class="ruler-figure" role="img" aria-label="{words}" {head}>'
    return f"{named}\n <style>{_DARK}</style>{body}"


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DENSITY * figure.dpi)
    return file.getvalue()
