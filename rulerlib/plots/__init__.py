"""Figures: what is drawn, what it shows of the run at hand in sentences, and how it is read.

`heatmap` shows the share of needles found by depth and length, `curves` the accuracy against length
with its interval, `models` several models' averages, `errors` the kinds of mistakes, and `study`
the settings of a study, as curves where it has several lengths. These take what `rulerlib.analysis`
returns; figures of memories are in `rulerlib.memory.plots`. Where matplotlib is not installed, all
raise `rulerlib.errors.MissingExtraError`.

Below the picture a notebook says what it shows and how it is read; the same sentences are its text
(``alt``) for readers who do not see it. They hold for any model and any run, a line for each task,
group or suite: what can be counted is counted; that something falls, rises or differs is said only
where intervals do not overlap, and otherwise that nobody can tell. Nothing is told by colour alone:
lines have markers, bars have hatches, cells have numbers, and lightness rises with the value.

>>> import pandas as pd
>>> rows = [("vt", 512, 40, 1.0, 0.91, 1.0), ("vt", 1024, 40, 0.25, 0.14, 0.4)]
>>> table = pd.DataFrame(rows, columns=["task", "length", "n", "mean", "low", "high"])
>>> curves_in_words(table)
'vt falls clearly, from 100 % at 512 to 25 % at 1K (n = 40).'
"""

from rulerlib.plots.cells import (
    CMAPS,
    RED_GREEN,
    UNMEASURED,
    errors,
    errors_in_words,
    heatmap,
    heatmap_in_words,
    shade,
)
from rulerlib.plots.curves import (
    curves,
    curves_in_words,
    models,
    models_in_words,
    study,
    study_in_words,
)
