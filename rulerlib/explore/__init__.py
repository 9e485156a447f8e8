"""The explorer: a folder of static files that shows every score of runs and every answer behind it.

    rulerlib explore runs explorer
    python -m http.server --directory explorer

``cells``
    what the tables, the charts and the comparisons of the pages show;
``answers``
    the samples of a cell, in files that the page loads when a cell is opened;
``site``
    the folder: `write` makes all of its files.

The page itself stands in ``static/``. It asks no other host, holds no data of its own, and takes
every text of a model as text. All of its addresses are relative, so that the folder may stand
anywhere on any web server.
"""

from rulerlib.explore.site import write

__all__ = ["write"]
