"""By depth: whether a needle is found depends on where it stands in the context.

>>> depth_bin(4), depth_bin(47.5, bins=5), depth_bin(100)
(0.0, 50.0, 100.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from rulerlib.analysis.accuracy import means
from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import BY, nothing


def depth_bin(depth: float, bins: int = 10) -> float:
    """Return the nearest of ``bins`` depths that lie evenly from 0 to 100; of two, the deeper.

    A needle stands at the seam nearest to its planned depth, which may be a few percent away. The
    first ten samples have their needles planned close to ten such depths
    (`rulerlib.haystack.depth_of`), so that each stays in its own row of a heatmap. Ten equal
    parts of 0 to 100 would not do: some planned depths lie on the border of two.

    Parameters
    ----------
    depth
        In percent, 0 (start) to 100 (end).
    bins
        The number of depths, from 1; a single one is 50.
    """
    depths = grid(bins)
    return depths[math.floor(depth * (bins - 1) / 100 + 0.5)]


def grid(bins: int) -> list[float]:
    """Return the depths at which `by_depth` counts needles, by rising depth.

    >>> grid(5), grid(1)
    ([0.0, 25.0, 50.0, 75.0, 100.0], [50.0])
    """
    return [at * 100 / (bins - 1) for at in range(bins)] if bins > 1 else [50.0]


def needles(table: pd.DataFrame, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return one row for each needle that was asked for: where it stood, and if it was found.

    Its ``depth`` (0 to 100) is the one that it reached, see `rulerlib.haystack.Context.depths`;
    ``found`` is 1 or 0. Where any one reference suffices (question answering), the needle is the
    document with the answer.
    """
    # One row a prediction, whatever it was measured by.
    rows = of_measure(table)[[*by, "index", "repeat", "context_id", "needles"]].explode("needles")
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
        The number of depths at which needles are counted, each at the nearest, see `depth_bin`.
    by
        What is counted separately.

    Returns
    -------
    DataFrame
        ``by``, ``depth`` (the nearest of those), ``n`` (needles), ``found`` (their share, 0 to 1)
        and its 95 % interval ``low``, ``high``, in which needles of one sample, or of one shared
        context, count as a cluster; an empty table says why. ``attrs["depths"]`` names all depths,
        those without a needle too.
    """
    asked = needles(table, by)
    if asked.empty:
        why = "None of these tasks hides its answer at a depth, so there is no heatmap."
        return nothing(why, [*by, "depth", "n", "found", "low", "high"])
    asked["depth"] = asked["depth"].map(lambda depth: depth_bin(depth, bins))
    # Needles of one sample, or of one context, are no independent values.
    alone = asked["context_id"].isna()
    asked["context_id"] = asked["context_id"].astype(object)
    asked.loc[alone, "context_id"] = "sample " + asked["index"].astype(str)
    found = means(asked, "found", [*by, "depth"])
    found = found.drop(columns=["contexts", "design_effect"], errors="ignore")
    found.attrs["depths"] = grid(bins)
    return found
