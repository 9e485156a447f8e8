"""The explorer: a folder of static files that shows every score of runs and every answer behind it.

    rulerlib explore runs explorer
    python -m http.server --directory explorer

``cells``
    what the tables, the charts and the comparisons of the pages show;
``answers``
    the samples of a cell, in files that the page loads when a cell is opened;
``site``
    the folder: `write` makes all of its files.

The page itself is in ``static/``. It loads nothing from other hosts and shows all text from models
as plain text. All addresses are relative, so any web server can serve the folder from any place.
"""

from rulerlib.explore.site import write

__all__ = ["write"]
