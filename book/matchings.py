"""Two ways of matching, side by side: references anywhere in an answer, and whole items.

RULER looks for the references anywhere in an answer; `rulerlib.metrics.matches` also reads it as
the items that it says.
"""

from __future__ import annotations

import pandas as pd

from rulerlib.analysis import accuracy, nothing, of_measure
from rulerlib.analysis.accuracy import BY, rows_of
from rulerlib.scoring import LIST

DISAGREE = {
    "not_whole": "every reference stands in the answer, but not each of them as a whole item",
    "others_too": "every reference is said as a whole item, and other items of their kind as well",
    "recall_differs": "the share of references that appear is not that of whole items",
}
"""The answers about which the two ways of matching disagree, see `matchings`.

The first two are right by the strict rule and not by that of whole items.
"""


def matchings(table: pd.DataFrame) -> pd.DataFrame:
    """Return the means by both ways of matching, and how many answers they disagree about.

    RULER looks for the references anywhere in an answer; `rulerlib.metrics.matches` also reads it
    as the items that it says. Where the two disagree, the answer says more than was asked for.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.

    Returns
    -------
    DataFrame
        `rulerlib.analysis.BY`, ``n``, and each measure of `rulerlib.scoring.LIST` from 0 to
        1 with its 95 % interval, such as ``recall``, ``recall low`` and ``recall high``; and the
        numbers of answers in ``DISAGREE``. An empty table says that no task has both.
    """
    rows = table[table["measure"].isin(LIST.measures)]
    both = rows.loc[rows["measure"] == "exact_items", "task"].unique()
    rows = rows[rows["task"].isin(both)]
    if rows.empty:
        return nothing("No task here asks for values or a list.", [*BY, "n", *LIST.measures])
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
