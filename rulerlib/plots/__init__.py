"""Figures, one module for each kind of figure.

`heatmap` shows the share of needles found by depth and length, `curves` the accuracy against
length with its interval, `models` several models' averages, `effective` how long a context is
effective, `errors` the kinds of mistakes, `correlation` which tasks move together, and `study`
the settings of a study, as curves where it has several lengths. `facts` sets scores beside the
size, the training length and the architecture of models, and `frequencies` shows how often the
words of a text stand there. Of memories, `matrix` shows all presets by suite, `capacity` how much
they hold, and `stores` where answers were lost. These take what `rulerlib.analysis` returns.
`places` and `links` draw what the prompt of one sample tells: a map, and a web of names. All make a
matplotlib figure whose ``alt`` says in words what it is: a notebook stores it beside the picture,
for readers who do not see it. Below the picture a notebook says what it shows of the run at hand
(`rulerlib.findings`) and how it is read. Where matplotlib is not installed, all raise
`rulerlib.errors.MissingExtraError`.

Nothing is told by colour alone: lines have markers, bars have hatches, cells have numbers, and
lightness rises with the value.
"""

from rulerlib.plots.correlation import correlation
from rulerlib.plots.curves import curves, models
from rulerlib.plots.effective import effective
from rulerlib.plots.errors import errors
from rulerlib.plots.facts import facts
from rulerlib.plots.frequencies import frequencies
from rulerlib.plots.heatmap import COLOURS, UNMEASURED, heatmap, shade
from rulerlib.plots.links import links
from rulerlib.plots.memory import capacity, matrix, stores
from rulerlib.plots.places import places
from rulerlib.plots.study import study
