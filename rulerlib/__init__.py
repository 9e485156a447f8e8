"""rulerlib: RULER in Danish and English, exact to the token.

The small library behind the notebooks. Data flows one way::

    parameters -> dataset -> predict -> scoring -> analysis -> plots

Nothing heavy is imported here: models, plots and widgets are imported where they
are used.
"""

__version__ = "0.3.0"
