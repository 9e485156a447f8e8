"""Tables computed from predictions.

``scores``
    the long table, one row for each prediction and measure;
``accuracy``
    means by task, category, length or depth, each with n and interval;
``error_tables``
    kinds of mistakes, and examples of wrong answers;
``averages``, ``effective_length``, ``summary``
    RULER's averages, the effective length, and a leaderboard like RULER's;
``pairs``
    two models on the same samples;
``repeats``
    the variance of sampled answers to the same questions;
``reading``
    reading comprehension with arithmetic: accuracy by operation, and baselines;
``report``
    the parameters of `notebooks/analysis.ipynb`.

Notebooks use the names imported here: ``analysis.scores``, ``analysis.accuracy``, ...
"""

from rulerlib.analysis.accuracy import (
    BY,
    accuracy,
    by_depth,
    by_fact,
    clusters,
    depth_bin,
    means,
    overview,
    parts,
)
from rulerlib.analysis.averages import by_length, weighted
from rulerlib.analysis.effective_length import effective, effective_lengths
from rulerlib.analysis.error_tables import error_examples, errors, over_tasks, wrong
from rulerlib.analysis.pairs import newcombe, paired, samples_needed, two_by_two
from rulerlib.analysis.repeats import repeats
from rulerlib.analysis.scores import nothing, of_measure, read_predictions, scores
from rulerlib.analysis.summary import summary
