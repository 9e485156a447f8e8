"""Tables computed from predictions.

``scores``
    the long table, one row for each prediction and measure;
``accuracy``
    means by task, category, length or depth, each with n and interval; kinds of mistakes;
``averages``
    RULER's averages, the effective length, and a leaderboard like RULER's;
``pairs``
    two models on the same samples;
``reading``
    baselines of reading comprehension with arithmetic;
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
    error_examples,
    errors,
    means,
    overview,
    parts,
)
from rulerlib.analysis.averages import (
    by_length,
    effective,
    effective_lengths,
    summary,
    weighted,
)
from rulerlib.analysis.pairs import newcombe, paired, samples_needed, two_by_two
from rulerlib.analysis.scores import nothing, of_measure, read_predictions, scores
