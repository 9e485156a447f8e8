"""What figures over many models show: which tasks move together, and what goes with a score."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rulerlib.analysis.correlations import Correlation
from rulerlib.findings.wording import said_count

# So many cells or models at least, that a correlation may be read.
ENOUGH = 10


def correlation(correlated: Correlation) -> str:
    """Return which tasks move together most and least, and of how much that was seen."""
    matrix = correlated.matrix.to_numpy()
    pairs: dict[str, list[str]] = {}
    for (one, first), (two, second) in itertools.combinations(enumerate(correlated.matrix), 2):
        # As the figure writes it; no pair is above another that it shows alike.
        shown = f"{round(matrix[one, two], 2) + 0.0:.2f}"
        pairs.setdefault(shown, []).append(f"{first} and {second}")
    most, least = max(pairs, key=float), min(pairs, key=float)
    cells = said_count(correlated.observations, "cell")
    models = said_count(correlated.models, "model")
    if most == least:
        every = pairs[most]
        alike = every[0] if len(every) == 1 else f"All {len(every)} pairs of tasks"
        text = f"{alike} have a correlation of {most}"
    else:
        text = f"{_pairs(pairs[most])} move together most ({most}), {_pairs(pairs[least])} least"
        text += f" ({least})"
    few = ", too few to rely on" if correlated.observations < ENOUGH else ""
    text += f", in {cells} of {models}{few}."
    if correlated.left_out:
        text += f" Left out: {', '.join(correlated.left_out)}, whose score never varies."
    return text


def _pairs(names: Sequence[str]) -> str:
    """Return pairs of tasks as a part of a sentence; further ones are counted."""
    more = [f"{said_count(len(names) - 2, 'more pair')}"] if len(names) > 2 else []
    return "; ".join([*names[:2], *more])


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
        return "Too few models differ here to say what goes with a higher score."
    said = [
        f"'{value}' with {names[fact]} {rank:.2f} over {said_count(n, 'model')}"
        + (", too few to rely on" if n < ENOUGH else "")
        for (value, fact), (rank, n) in found.items()
    ]
    return f"Rank correlations (1: rise together; 0: not related): {'; '.join(said)}."
