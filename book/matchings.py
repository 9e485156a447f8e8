"""Compare two matching rules: references anywhere in an answer, and whole items."""

from __future__ import annotations

import pandas as pd

from rulerlib.analysis import accuracy, nothing, of_measure
from rulerlib.analysis.accuracy import BY, rows_of
from rulerlib.scoring import LIST

DISAGREE = {
    "not_whole": "every reference is in the answer, but not each as a whole item",
    "others_too": "every reference is a whole item, and there are other items of their kind",
    "recall_differs": "the share of references differs from the share of whole items",
}
"""Kinds of disagreement between the two rules."""


def matchings(table: pd.DataFrame) -> pd.DataFrame:
    """Return the means by both rules, and the numbers of answers on which they disagree.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.

    Returns
    -------
    DataFrame
        `rulerlib.analysis.BY`, ``n``, and each measure of `rulerlib.scoring.LIST` from 0 to
        1 with its 95% interval, such as ``recall``, ``recall low`` and ``recall high``; and the
        numbers of answers in ``DISAGREE``. Empty if no task has both.
    """
    rows = table[table["measure"].isin(LIST.measures)]
    both = rows.loc[rows["measure"] == "exact_items", "task"].unique()
    rows = rows[rows["task"].isin(both)]
    if rows.empty:
        return nothing("No task asks for values or a list.", [*BY, "n", *LIST.measures])
    # One row for each answer, in the order of every single measure.
    answers = of_measure(rows, "all_match")[[*BY]]
    values = {name: of_measure(rows, name)["value"].to_numpy() for name in LIST.measures}
    anywhere, whole, alone = (
        values[name] == 1 for name in ("all_match", "item_recall", "exact_items")
    )
    answers = answers.assign(
        not_whole=anywhere & ~whole,
        others_too=whole & ~alone,
        recall_differs=values["recall"] != values["item_recall"],
    )
    compared = rows_of(answers, BY, lambda part: {"n": len(part)})
    for measure in LIST.measures:
        ends = {"mean": measure, "low": f"{measure} low", "high": f"{measure} high"}
        averaged = accuracy(rows, measure)[[*BY, *ends]].rename(columns=ends)
        compared = compared.merge(averaged, on=list(BY))
    counts = rows_of(answers, BY, lambda part: {name: int(part[name].sum()) for name in DISAGREE})
    return compared.merge(counts, on=list(BY))
