"""Figures of tables from `rulerlib.analysis`.

`heatmap` shows the share of needles found by depth and length, `curves` the accuracy against length
with its interval, `models` several models' averages, `errors` the kinds of mistakes, and `study`
the settings of a study, as curves if they were asked at several lengths. Figures of memories are in
`rulerlib.memory.plots`. If matplotlib is not installed, all raise
`rulerlib.errors.MissingExtraError`.

Each takes a ``title`` and has an alt text for screen readers, made from the title, the axes, the
panels and the legend. Colour is never the only mark: lines have markers, bars have hatches, cells
have numbers, and lightness rises with the value.
"""

from rulerlib.plots.cells import CMAPS, RED_GREEN, UNMEASURED, errors, heatmap, shade
from rulerlib.plots.curves import curves, models, study
