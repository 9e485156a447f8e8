"""Many models: which tasks move together across them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import even, scipy

# Cells of model, language and length that a correlation needs.
_LEAST = 3


@dataclass(frozen=True)
class Correlation:
    """How tasks move together; they stand in the order of the tree's leaves.

    Attributes
    ----------
    matrix
        Correlations, tasks x tasks.
    tree
        The linkage matrix of `scipy.cluster.hierarchy.linkage` (average linkage over 1 minus
        the correlation); leaf i is the task ``leaves[i]``.
    leaves
        The tasks in the order in which the tree knows them.
    left_out
        Tasks without a correlation, each with the reason.
    observations
        The number of scores in each task's vector: cells of model, language and length.
    models
        The number of models in these cells.
    """

    matrix: pd.DataFrame
    tree: Any
    leaves: tuple[str, ...]
    left_out: dict[str, str]
    observations: int
    models: int


def correlation(table: pd.DataFrame, measure: str = "ruler") -> Correlation | str:
    """Return how the scores of tasks correlate over models, languages and lengths.

    RULER's authors chose 13 tasks out of 18 in this way (Hsieh et al. 2024, "RULER: What's the Real
    Context Size of Your Long-Context Language Models?", appendix on task correlation): each task
    is the vector of all models' scores at all lengths, and tasks are clustered by Pearson's
    correlation of their vectors. Tasks that always move together measure the same thing.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    measure
        See `rulerlib.analysis.of_measure`.

    Returns
    -------
    Correlation or str
        Where the table cannot tell, one sentence that says why: fewer than two models, or fewer
        than two tasks that vary, or fewer than three cells in which all tasks were asked.

    Raises
    ------
    ParameterError
        If there is no such measure.
    MissingExtraError
        If `scipy` is not installed.
    """
    table = of_measure(table, measure)
    models = int(table["model"].nunique()) if "model" in table else 0
    if models < 2:
        return (
            "The correlation of tasks is taken across models, and there is only one here: add"
            " runs of other models."
        )
    cells = table.pivot_table(
        index=["model", "language", "length"], columns="task", values="value", sort=False
    )
    whole = even(cells.dropna())
    if len(whole) < _LEAST:
        return (
            f"The correlation of tasks needs at least {_LEAST} cells of model, language and length"
            f" in which every task was asked, and there are {len(whole)}."
        )
    # Equal numbers may differ in their last digit, and would correlate with anything.
    flat = [name for name in whole if np.ptp(whole[name].to_numpy()) < 1e-12]
    left_out = {str(name): f"always {100 * whole[name].iloc[0]:.1f}" for name in flat}
    whole = whole.drop(columns=flat)
    if whole.shape[1] < 2:
        return "The correlation of tasks needs at least two tasks whose scores vary."
    matrix = whole.corr()
    distance = np.clip(1 - matrix.to_numpy(copy=True), 0, 2)
    np.fill_diagonal(distance, 0)
    hierarchy = scipy("cluster.hierarchy")
    flat_distance = scipy("spatial.distance").squareform(distance, checks=False)
    tree = hierarchy.linkage(flat_distance, "average", optimal_ordering=True)
    leaves = tuple(str(name) for name in whole)
    order = [leaves[leaf] for leaf in hierarchy.leaves_list(tree)]
    ordered = matrix.reindex(index=order, columns=order).rename_axis(index=None, columns=None)
    return Correlation(ordered, tree, leaves, left_out, len(whole), models)
