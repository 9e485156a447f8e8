"""What figures over many models show: which tasks move together, and what goes with a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.correlations import Correlation
from rulerlib.findings.wording import said_count

# So many cells or models at least, that a correlation may be read.
ENOUGH = 10


def extremes(correlated: Correlation) -> dict[str, tuple[str, str, float]]:
    """Return the two tasks that correlate most and least, each with their correlation."""
    matrix = correlated.matrix
    pairs = matrix.where(~np.eye(len(matrix), dtype=bool)).stack()
    ends: dict[str, Any] = {"highest": pairs.idxmax(), "lowest": pairs.idxmin()}
    return {name: (*pair, float(pairs[pair])) for name, pair in ends.items()}


def correlation(correlated: Correlation) -> str:
    """Return which tasks move together most and least, and of how much that was seen."""
    said = extremes(correlated)
    (one, two, most), (three, four, least) = said["highest"], said["lowest"]
    cells = said_count(correlated.observations, "cell")
    models = said_count(correlated.models, "model")
    text = f"{one} and {two} move together most ({most:.2f})"
    text += f", {three} and {four} least ({least:.2f})" if len(correlated.matrix) > 2 else ""
    few = ", too few to rely on" if correlated.observations < ENOUGH else ""
    text += f", in {cells} of {models}{few}."
    if correlated.left_out:
        text += f" Left out: {', '.join(correlated.left_out)}, whose score never varies."
    return text


def ranked(
    table: pd.DataFrame, heights: Mapping[str, pd.Series], facts: Sequence[str]
) -> dict[tuple[str, str], tuple[float, int]]:
    """Return Spearman's rank correlation of each value with each fact, and the number of models.

    Parameters
    ----------
    table
        A row for each model, with the facts as numbers.
    heights
        The values by their names, a number for each model.
    facts
        The columns of the facts.
    """
    found = {}
    for value, height in heights.items():
        for fact in facts:
            place = table[fact].astype(float)
            shown = height.notna() & place.notna()
            if shown.sum() > 2:
                # Spearman's: the correlation of the ranks.
                rank = place[shown].rank().corr(height[shown].rank())
                if not np.isnan(rank):
                    found[value, fact] = float(rank), int(shown.sum())
    return found


def facts(found: Mapping[tuple[str, str], tuple[float, int]], names: Mapping[str, str]) -> str:
    """Return which facts go with higher scores.

    Parameters
    ----------
    found
        From `ranked`.
    names
        The facts in words.
    """
    if not found:
        return "There are too few models here to say what goes with a higher score."
    said = [
        f"'{value}' with {names[fact]} {rank:.2f} over {said_count(n, 'model')}"
        + (", too few to rely on" if n < ENOUGH else "")
        for (value, fact), (rank, n) in found.items()
    ]
    return f"Rank correlations (1: rise together; 0: not related): {'; '.join(said)}."
