"""Tables from predictions, and what follows from them: one module for each question.

``scores``
    the long table, one row for each prediction and measure, in which `rulerlib.labels` tells runs
    apart;
``accuracy``
    means by task, category, length or depth, each with n and interval, and tables in groups;
``error_tables``
    what goes wrong: kinds of mistakes, and answers of each kind;
``averages``, ``effective_length``, ``summary``
    RULER's averages, how long a context is effective, and both as on RULER's leaderboard;
``pairs``
    two models on the same samples;
``repeats``
    how answers to the same questions vary, where decoding samples;
``reading``
    reading with arithmetic: by operation, and beside baselines;
``report``
    the parameters of `notebooks/analysis.ipynb`, checked;

The names that a notebook needs stand here: ``analysis.scores``, ``analysis.accuracy``, ...
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
