"""The correlation of tasks: a matrix, ordered by the tree at its left."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from rulerlib.analysis.correlations import Correlation
from rulerlib.analysis.tables import scipy
from rulerlib.errors import ParameterError
from rulerlib.plots import base
from rulerlib.plots.pictures import INK_ON_COLOUR, WHITE_ON_COLOUR
from rulerlib.wording import said_count

# Fewer cells than these are too few to rely on.
_ENOUGH = 10


def correlation(correlated: Correlation | str, title: str | None = None) -> base.Figure:
    """Return a figure of the correlation of each task with each other across models.

    Parameters
    ----------
    correlated
        From `rulerlib.analysis.correlation`.

    Raises
    ------
    ParameterError
        If it is the sentence that says why there is none.

    Notes
    -----
    Each cell is how two tasks move together over models and lengths: 1 always together, 0 not
    at all, -1 always against each other. The tree joins first what is most alike.
    """
    if isinstance(correlated, str):
        raise ParameterError("correlated", correlated, "a correlation")
    matrix = correlated.matrix.to_numpy()
    names = correlated.matrix.index.tolist()
    size = 1.6 + 0.42 * len(names)
    ratios = {"width_ratios": [1, 3]}
    figure, ((left, right),) = base.subplots(1, 2, (size + 2.6, size), gridspec_kw=ratios)
    scipy("cluster.hierarchy").dendrogram(
        correlated.tree, orientation="left", ax=left, no_labels=True, color_threshold=0,
        above_threshold_color="#333333",
    )  # fmt: skip
    # The tree counts its leaves from below, ten units each.
    left.set_ylim(10 * len(names), 0)
    left.set_xlabel("1 − correlation", fontsize=8)
    left.spines[["left", "top", "right"]].set_visible(False)
    # As high as the tree beside it, so that each row is level with its leaf.
    image = right.imshow(
        matrix, cmap="PuOr_r", vmin=-1, vmax=1, aspect="auto", interpolation="none"
    )
    for (row, column), value in np.ndenumerate(matrix):
        right.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7,
                   color=INK_ON_COLOUR if abs(value) < 0.75 else WHITE_ON_COLOUR)  # fmt: skip
    right.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
    right.set_yticks(range(len(names)), names, fontsize=8)
    bar = figure.colorbar(image, ax=right, shrink=0.8, label="correlation")
    bar.solids.set_rasterized(True)
    cells = said_count(correlated.observations, "cell")
    about = f"{correlated.models} models, {cells} of model and length"
    right.set_title(title or about, fontsize=10)
    return base.done(figure, correlation, correlation_in_words(correlated))


def correlation_in_words(correlated: Correlation) -> str:
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
    few = ", too few to rely on" if correlated.observations < _ENOUGH else ""
    text += f", in {cells} of {models}{few}."
    if correlated.left_out:
        text += f" Left out: {', '.join(correlated.left_out)}, whose score never varies."
    return text


def _pairs(names: Sequence[str]) -> str:
    """Return pairs of tasks as a part of a sentence; further ones are counted."""
    more = [f"{said_count(len(names) - 2, 'more pair')}"] if len(names) > 2 else []
    return "; ".join([*names[:2], *more])
