"""How much a score depends on how the question is worded.

A task that was asked in several wordings (``-p paraphrase 1``) has a score for each. They differ by
chance, too, even on the same samples; `paraphrases` says how far that alone would spread them.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "m", "language": "da", "task": "vt", "length": 1024}
>>> table = paraphrases(scores([
...     ({**about, "knobs": {"paraphrase": number}}, Prediction(index, "", ["7"], said))
...     for number, answers in enumerate(["77", "7.", "7."])
...     for index, said in enumerate(answers)
... ]))
>>> table[["wordings", "n", "mean", "lowest", "highest"]].round(3).to_dict("records")
[{'wordings': 3, 'n': 2, 'mean': 0.667, 'lowest': 0.5, 'highest': 1.0}]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from rulerlib.analysis.accuracy import means
from rulerlib.analysis.scores import of_measure, with_knobs
from rulerlib.analysis.tables import BY, groups_of, nothing, scipy

ONE_WORDING = "Each task was asked in one wording alone (-p paraphrase 1 asks in another one)."


def paraphrases(
    table: pd.DataFrame, measure: str = "primary", by: Sequence[str] = BY
) -> pd.DataFrame:
    """Return how far the scores of different wordings of the same questions lie apart.

    With the same samples in k wordings, the test is Cochran's (1950, "The Comparison of
    Percentages in Matched Samples"), in the form that any score from 0 to 1 may take: if the
    wording made no difference, each sample's answers could stand in any order.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    measure
        See `rulerlib.analysis.of_measure`.
    by
        What is looked at separately; a task is named without its paraphrase.

    Returns
    -------
    DataFrame
        ``by``; ``wordings``, how many; ``n``, the samples that were asked in all of them;
        ``mean`` over them and all wordings, with ``low`` and ``high``; ``lowest`` and
        ``highest``, the least and the largest score of a wording; ``deviation``, the standard
        deviation of the wordings' scores; ``chance``, what it would be on average if the wording
        made no difference; and ``p``, how often it would be as large as it is then. Tasks with
        one wording are left out; an empty table says that there are no others.

    Raises
    ------
    ParameterError
        If no row has this measure.
    """
    if table.empty:
        return table
    has = [("paraphrase" in knobs) for knobs in table["knobs"]]
    rows = of_measure(table[has] if any(has) else table, measure)
    if any(has):
        rows = with_knobs(rows, "paraphrase")
        rows = rows.assign(task=rows["task"].map(_worded))
    found = []
    for names, part in groups_of(rows, by) if any(has) else ():
        sample = ["setting", "questions", "index"] if "setting" in part else ["questions", "index"]
        # Answers that were drawn several times count as their mean.
        grid = part.pivot_table("value", sample, "paraphrase", "mean").dropna()
        if len(grid.columns) > 1 and len(grid):
            found.append({**names, **_spread(part, grid, sample)})
    columns = [*by, "wordings", "n", "mean"]
    return pd.DataFrame(found) if found else nothing(ONE_WORDING, columns)


def _worded(label: str) -> str:
    """Return a task's label without its paraphrase.

    >>> _worded("vt+num_hops=8+paraphrase=2")
    'vt+num_hops=8'
    """
    return "+".join(part for part in label.split("+") if not part.startswith("paraphrase="))


def _spread(part: pd.DataFrame, grid: pd.DataFrame, sample: list[str]) -> dict[str, Any]:
    """Return the spread of one group, given the scores of its samples by wording."""
    own = part.set_index(sample)
    own = own[own.index.isin(grid.index)].reset_index()
    # All answers to a sample depend on each other, whatever the wording.
    alone = own["context_id"].isna()
    own["context_id"] = own["context_id"].where(~alone, "sample " + own["index"].astype(str))
    own = own.rename(columns={"value": "mean"}).assign(whole="")
    mean = means(own, "mean", by=("whole",)).iloc[0]
    scores, wordings = grid.mean(), len(grid.columns)
    within = float(grid.var(axis=1, ddof=1).sum())
    deviation = float(scores.std(ddof=1))
    chance = math.sqrt(within) / len(grid)
    # The scores of wordings are alike where no sample's are not.
    ratio = (deviation / chance) ** 2 if chance else 0.0
    p = float(scipy("stats").chi2.sf((wordings - 1) * ratio, wordings - 1))
    return {
        "wordings": wordings, "n": len(grid),
        "mean": float(mean["mean"]), "low": float(mean["low"]), "high": float(mean["high"]),
        "lowest": float(scores.min()), "highest": float(scores.max()),
        "deviation": deviation, "chance": chance, "p": p,
    }  # fmt: skip
