"""Tables from predictions, and what follows from them: one module for each question.

``scores``
    the long table, one row for each prediction and measure; ``labels``: how runs are told apart
    in it;
``accuracy``
    means by task, category, length or knob, each with n and interval;
``matchings``
    RULER's rule beside that of whole items;
``depths``
    where in the context needles are found;
``stopping``
    how many samples a sequential plan used, and what it found;
``averages``, ``effective_length``, ``summary``
    RULER's averages, how long a context is effective, and both as on RULER's leaderboard;
``contrast``
    simple retrieval beside the whole benchmark;
``fitted_curve``
    accuracy as a curve over length, and where it crosses 50 %;
``absence``
    needles that may not be there: accuracy where they are and where they are not, Youden's J;
``pairs``, ``equivalence``
    two models on the same samples, and whether they differ by less than a margin;
``repeats``
    how answers to the same questions vary, where decoding samples;
``paraphrases``
    how far the scores of different wordings of the same questions lie apart;
``model_facts``
    size, training length and architecture of models beside what they score;
``correlations``
    which tasks move together across models;
``error_tables``
    what kind of mistake a wrong answer is;
``word_counts``
    how often each word stands in a list or a coded text;
``reading``
    reading with arithmetic: by operation, the form of answers, and baselines;
``routes``
    routes on a map: whether they can be walked and arrive;
``memory_rows``, ``memory``, ``memory_pairs``
    memories: the questions they were asked, what they delivered and what was made of it, presets
    on the same questions;
``report``, ``memory_report``
    the parameters of `notebooks/analysis.ipynb` and of `notebooks/memory.ipynb`, checked;
``combined``, ``tables``
    what several of them use: the interval of a mean of several rates, and tables in groups.

The names that a notebook needs stand here: ``analysis.scores``, ``analysis.accuracy``, ...
"""

from rulerlib.analysis.absence import absence
from rulerlib.analysis.accuracy import accuracy, by_fact, by_knob, clusters, means, overview, shared
from rulerlib.analysis.averages import averaged, by_length, weighted
from rulerlib.analysis.contrast import contrast
from rulerlib.analysis.correlations import Correlation, correlation
from rulerlib.analysis.depths import by_depth, depth_bin, needles
from rulerlib.analysis.effective_length import Effective, effective, effective_lengths
from rulerlib.analysis.equivalence import equivalence, equivalences
from rulerlib.analysis.error_tables import (
    error_examples,
    errors,
    mistaken_places,
    over_tasks,
    wrong,
)
from rulerlib.analysis.fitted_curve import fitted_lengths
from rulerlib.analysis.matchings import agreement, matchings
from rulerlib.analysis.model_facts import read_facts, with_facts
from rulerlib.analysis.pairs import newcombe, paired, samples_needed, two_by_two
from rulerlib.analysis.paraphrases import paraphrases
from rulerlib.analysis.repeats import repeats
from rulerlib.analysis.scores import of_measure, read_predictions, scores, with_knobs
from rulerlib.analysis.stopping import samples_used
from rulerlib.analysis.summary import summary
from rulerlib.analysis.tables import BY, nothing, parts, thousands
from rulerlib.analysis.word_counts import word_counts
from rulerlib.tasks.mistakes import KINDS
