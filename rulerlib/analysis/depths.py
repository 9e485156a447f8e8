"""By depth: whether a needle is found depends on where it stands in the context.

>>> depth_bin(0), depth_bin(50), depth_bin(100), depth_bin(90, bins=4)
(5.0, 55.0, 95.0, 87.5)
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rulerlib.analysis.accuracy import means
from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import BY, nothing


def depth_bin(depth: float, bins: int = 10) -> float:
    """Return the middle of the part that a depth belongs to, if 0 to 100 is cut into equal parts.

    A depth on a seam belongs to the part towards the middle, so that each of 10 parts holds four
    of RULER's 40 depths.
    """
    part = depth * bins // 100 if depth <= 50 else bins - 1 - (100 - depth) * bins // 100
    return (part + 0.5) * 100 / bins


def needles(table: pd.DataFrame, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return one row for each needle that was asked for: its depth, and whether it was found.

    Where any one reference suffices (question answering), the needle is the document with the
    answer.
    """
    # One row a prediction, whatever it was measured by.
    rows = of_measure(table)[[*by, "index", "context_id", "needles"]].explode("needles")
    rows = rows[rows["needles"].notna()].reset_index(drop=True)
    pairs = pd.DataFrame(rows.pop("needles").tolist(), rows.index, ["depth", "found"], dtype=float)
    return rows.join(pairs)


def by_depth(table: pd.DataFrame, bins: int = 10, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return the share of needles that were found, by depth.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    bins
        Into how many equal parts 0 to 100 is cut, see `depth_bin`.

    Returns
    -------
    DataFrame
        ``by``, ``depth`` (the middle of its part), ``n``, ``found``, ``low``, ``high``.
    """
    asked = needles(table, by).assign(context_id=None)
    if asked.empty:
        why = "None of these tasks hides its answer at a depth, so there is no heatmap."
        return nothing(why, [*by, "depth", "n", "found", "low", "high"])
    asked["depth"] = asked["depth"].map(lambda depth: depth_bin(depth, bins))
    return means(asked, "found", [*by, "depth"])
