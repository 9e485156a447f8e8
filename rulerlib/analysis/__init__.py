"""Tables from predictions, and what follows from them.

``tables``
    accuracy by task, category, length, depth or knob, each with n and interval;
``averages``
    RULER's averages, ranks and effective length, with their intervals;
``pairs``
    two models on the same samples;
``correlations``
    which tasks move together across models;
``error_analysis``
    what kind of mistake a wrong answer is;
``leaderboard``
    RULER's published table, recomputed;
``report``
    all of it for a set of runs, as `notebooks/analysis.ipynb` shows it.

The names that a notebook needs stand here: ``analysis.scores``, ``analysis.accuracy``, ...
"""

from rulerlib.analysis.averages import (
    READINGS,
    THRESHOLD,
    Effective,
    by_length,
    effective,
    effective_lengths,
    summary,
    weighted,
)
from rulerlib.analysis.correlations import Correlation, correlation
from rulerlib.analysis.error_analysis import KINDS, classify
from rulerlib.analysis.pairs import newcombe, paired, samples_needed
from rulerlib.analysis.tables import (
    BY,
    CATEGORIES,
    accuracy,
    base,
    by_depth,
    changed_knobs,
    clusters,
    copied,
    error_examples,
    errors,
    mistaken_places,
    needles,
    nothing,
    read,
    scores,
    shared,
    with_knobs,
    wrong,
)

__all__ = [
    "BY",
    "CATEGORIES",
    "KINDS",
    "READINGS",
    "THRESHOLD",
    "Correlation",
    "Effective",
    "accuracy",
    "base",
    "by_depth",
    "by_length",
    "changed_knobs",
    "classify",
    "clusters",
    "copied",
    "correlation",
    "effective",
    "effective_lengths",
    "error_examples",
    "errors",
    "mistaken_places",
    "needles",
    "newcombe",
    "nothing",
    "paired",
    "read",
    "samples_needed",
    "scores",
    "shared",
    "summary",
    "weighted",
    "with_knobs",
    "wrong",
]
