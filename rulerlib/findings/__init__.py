"""Findings: what a figure shows of the run at hand, in sentences.

Each function has the name of the figure in `rulerlib.plots` that it reads, takes the same table,
and returns sentences that hold for any model and any run, a line for each task, group or suite.
What can be counted is counted; that something falls, rises or differs is said only where intervals
do not overlap, and otherwise that nobody can tell. `rulerlib.findings.guides` says how each figure
is read.

>>> import pandas as pd
>>> rows = [("vt", 512, 40, 1.0, 0.91, 1.0), ("vt", 1024, 40, 0.25, 0.14, 0.4)]
>>> table = pd.DataFrame(rows, columns=["task", "length", "n", "mean", "low", "high"])
>>> curves(table)
'vt falls clearly, from 100 % at 512 to 25 % at 1K (n = 40).'
"""

from rulerlib.findings.curves import curves, models
from rulerlib.findings.depths import depths, heatmap
from rulerlib.findings.drawings import links, places
from rulerlib.findings.guides import GUIDES
from rulerlib.findings.lengths import effective
from rulerlib.findings.memories import capacity, matrix, stores
from rulerlib.findings.mistakes import errors
from rulerlib.findings.relations import correlation, facts
from rulerlib.findings.settings import study
from rulerlib.findings.words import frequencies
