"""Two matchings side by side: references anywhere in an answer, and whole items.

RULER looks for the references anywhere in an answer; `rulerlib.metrics.items` reads the answer as
the items that it says. Where the two disagree, the answer says more than was asked for.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "lille", "language": "da", "task": "niah_multivalue", "length": 1024}
>>> said = ["12, 34", "112, 34", "12, 34, 56", "12"]
>>> rows = [(about, Prediction(i, "", ["12", "34"], pred)) for i, pred in enumerate(said)]
>>> table = matchings(scores(rows))
>>> table[["n", "all_match", "exact_items", *DISAGREE]].to_dict("split")["data"]
[[4, 0.75, 0.25, 1, 1, 1]]
>>> agreement(table)
'Of 4 answers, 2 are right by the strict rule and not by that of whole items; recall differs in 1.'
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rulerlib.analysis.accuracy import accuracy
from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import BY, groups_of, nothing
from rulerlib.scoring import LIST

DISAGREE = {
    "not_whole": "every reference stands in the answer, but not each of them as a whole item",
    "others_too": "every reference is said as a whole item, and other items of their kind as well",
    "recall_differs": "the share of references that appear is not that of whole items",
}
"""The answers about which the rules disagree.

The first two are right by the strict rule and not by that of whole items.
"""


def matchings(table: pd.DataFrame, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return the means of both kinds of measures, and how many answers they disagree about.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    by
        What is averaged separately.

    Returns
    -------
    DataFrame
        ``by``, ``n``, and each measure of `rulerlib.scoring.LIST` from 0 to 1 with its 95 %
        interval, such as ``recall``, ``recall low`` and ``recall high``; and the numbers of
        answers in ``DISAGREE``. An empty table says that no task has both.
    """
    rows = table[table["measure"].isin(LIST.measures)]
    both = rows.loc[rows["measure"] == "exact_items", "task"].unique()
    rows = rows[rows["task"].isin(both)]
    if rows.empty:
        return nothing("No task here asks for values or a list.", [*by, "n", *LIST.measures])
    compared = pd.DataFrame([names for names, _ in groups_of(rows, by)])
    for measure in LIST.measures:
        means = accuracy(rows, measure, by)[[*by, "n", "mean", "low", "high"]]
        ends = {"mean": measure, "low": f"{measure} low", "high": f"{measure} high"}
        means = means.rename(columns=ends)
        compared = compared.merge(means.drop(columns="n") if "n" in compared else means, on=[*by])
    return compared.merge(_disagreements(rows, by), on=[*by])


def agreement(table: pd.DataFrame) -> str:
    """Return in one sentence about how many answers of a table of `matchings` the rules disagree.

    Of an empty table it is the sentence that says why.
    """
    if table.empty:
        return str(table.attrs.get("why", "No answers were matched."))
    sums = table[["n", *DISAGREE]].sum()
    strict, recall = sums["not_whole"] + sums["others_too"], sums["recall_differs"]
    return (
        f"Of {sums['n']:,} answers, {strict:,} are right by the strict rule and not by that of"
        f" whole items; recall differs in {recall:,}."
    )


def _disagreements(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return how many answers of each group the two kinds of rules disagree about."""
    names = ("all_match", "item_recall", "exact_items", "recall")
    values = {name: of_measure(rows, name)["value"].to_numpy() for name in names}
    anywhere, whole, alone = (values[name] == 1 for name in names[:3])
    reasons = {
        "not_whole": anywhere & ~whole, "others_too": whole & ~alone,
        "recall_differs": values["recall"] != values["item_recall"],
    }  # fmt: skip
    # One row for each answer, in the order of every single measure.
    flagged = of_measure(rows, "all_match")[[*by]].assign(**reasons)
    counted = [
        {**group, **{reason: int(part[reason].sum()) for reason in DISAGREE}}
        for group, part in groups_of(flagged, by)
    ]
    return pd.DataFrame(counted)
