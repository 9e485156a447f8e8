"""The correlation of tasks: a matrix, ordered by the tree at its left."""

from __future__ import annotations

import numpy as np

from rulerlib import findings
from rulerlib.analysis.correlations import Correlation
from rulerlib.analysis.tables import scipy
from rulerlib.errors import ParameterError
from rulerlib.plots import base
from rulerlib.plots.pictures import INK_ON_COLOUR, WHITE_ON_COLOUR


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
    """
    if isinstance(correlated, str):
        raise ParameterError("correlated", correlated, "a correlation")
    matrix = correlated.matrix
    names = matrix.index.tolist()
    size = 1.6 + 0.42 * len(names)
    ratios = {"width_ratios": [1, 3]}
    figure, grid = base.subplots(1, 2, (size + 2.6, size), gridspec_kw=ratios)
    left, right = grid[0]
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
        matrix.to_numpy(), cmap="PuOr_r", vmin=-1, vmax=1, aspect="auto", interpolation="none"
    )
    for (row, column), value in np.ndenumerate(matrix.to_numpy()):
        right.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7,
                   color=INK_ON_COLOUR if abs(value) < 0.75 else WHITE_ON_COLOUR)  # fmt: skip
    right.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
    right.set_yticks(range(len(names)), names, fontsize=8)
    bar = figure.colorbar(image, ax=right, shrink=0.8, label="correlation")
    bar.solids.set_rasterized(True)
    cells = base.said_count(correlated.observations, "cell")
    about = f"{correlated.models} models, {cells} of model and length"
    right.set_title(title or about, fontsize=10)
    what = (
        f"Correlation of {len(names)} tasks across {about}, ordered by hierarchical clustering:"
        f" {', '.join(names)}"
    )
    said = "correlation", findings.correlation(correlated)
    return base.done(figure, f"{title}. {what}" if title else what, said)
