"""What goes wrong: kinds of mistakes, two ways of matching, and needles that may not be there.

`rulerlib.tasks.mistakes` says what kind of mistake an answer is.

>>> from rulerlib.analysis.scores import scores
>>> from rulerlib.samples import Prediction
>>> about = {"model": "lille", "language": "da", "task": "niah_single_1", "length": 1024}
>>> answers = ["1234567", "", "7654321", "7654321"]
>>> rows = [(about, Prediction(i, "", ["1234567"], pred)) for i, pred in enumerate(answers)]
>>> errors(scores(rows))[["error", "n", "count", "share"]].to_dict("split")["data"]
[['empty', 4, 1, 0.25], ['wrong value', 4, 2, 0.5]]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rulerlib.analysis.accuracy import accuracy, clusters, mean_of, shared
from rulerlib.analysis.scores import of_measure
from rulerlib.analysis.tables import BY, groups_of, nothing, rows_of, scipy, tasks_in, with_ends
from rulerlib.intervals import Clustered, clustered, recovered
from rulerlib.metrics.matches import says_none
from rulerlib.scoring import LIST
from rulerlib.tasks.mistakes import KINDS

_SHOWN = ["task", "length", "index", "depths", "outputs", "pred"]

DISAGREE = {
    "not_whole": "every reference stands in the answer, but not each of them as a whole item",
    "others_too": "every reference is said as a whole item, and other items of their kind as well",
    "recall_differs": "the share of references that appear is not that of whole items",
}
"""The answers about which the two ways of matching disagree, see `matchings`.

The first two are right by the strict rule and not by that of whole items.
"""

_ALL_THERE = "Every key that was asked for stands in its text: present=0.5 asks for others as well."


# --- Kinds of mistakes ------------------------------------------------------------------------


def errors(table: pd.DataFrame, by: Sequence[str] = BY) -> pd.DataFrame:
    """Return what kinds of mistakes there are, as shares of all answers.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    by
        What is counted separately.

    Returns
    -------
    DataFrame
        ``by``, ``error`` (a name in `rulerlib.tasks.mistakes.KINDS`, only those that occur),
        ``n`` (all answers, right ones too), ``count``, ``share`` and its 95 % interval ``low``,
        ``high``: Wilson's, or cluster-robust where contexts are shared. The shares of a group add
        up to its error rate. ``tasks`` and ``missing``, where a group has several, see
        `rulerlib.analysis.tables.tasks_in`. An empty table says that there are no mistakes.
    """
    table = of_measure(table)
    kinds = [kind for kind in KINDS if (table["error"] == kind).any()]
    sharing = shared(table)
    rows = []
    for names, part in groups_of(table, by):
        for kind in kinds:
            wrong_so = part["error"] == kind
            mean = mean_of(part, wrong_so, sharing)
            rows.append({**names, "error": kind, "n": mean.n, "count": int(wrong_so.sum()),
                         "share": mean.mean, "low": mean.low, "high": mean.high})  # fmt: skip
    if not rows:
        columns = [*by, "error", "n", "count", "share", "low", "high"]
        return nothing("Every answer is right: there are no errors to sort.", columns)
    return pd.DataFrame(rows).merge(tasks_in(table, by), on=list(by))


def over_tasks(table: pd.DataFrame) -> pd.DataFrame:
    """Return the kinds of mistakes of all tasks together.

    Where a task was not asked at every length, the shares of two lengths are not of the same tasks.

    Parameters
    ----------
    table
        From `errors`, by task and length.

    Returns
    -------
    DataFrame
        The model, the language and the length, as far as the table has them, ``task`` (the text
        ``"all tasks"``), ``error``, ``n``, ``count`` and ``share``. An empty table is returned as
        it is.
    """
    if table.empty:
        # It says why.
        return table
    by = [name for name in (*BY, "error") if name in table and name != "task"]
    sums = table.groupby(by, sort=False)[["n", "count"]].sum().reset_index()
    return sums.assign(task="all tasks", share=sums["count"] / sums["n"])


def mistaken_places(table: pd.DataFrame, by: Sequence[str] = ("task", "length")) -> pd.DataFrame:
    """Return how near the distractors that were taken stood to the right values.

    Returns
    -------
    DataFrame
        ``by``, ``n`` (answers with a distractor whose place is known), ``distance``: the mean,
        in percent of the prompt; ``low``, ``high``: its 95 % interval (Student's t; open where n
        is 1); ``expected``: the mean distance of a distractor taken at random. A distance below
        ``expected`` says that the model looked in about the right place. An empty table says why.

    Raises
    ------
    MissingExtraError
        If `scipy` is not installed.
    """
    table = of_measure(table)
    placed = table[table["distance"].notna()]
    if placed.empty:
        columns = [*by, "n", "distance", "low", "high", "expected"]
        return nothing("No wrong answer is the value of a distractor with a place.", columns)

    def row(part: pd.DataFrame) -> dict[str, float]:
        n, mean = len(part), part["distance"].mean()
        reach = part["distance"].sem() * scipy("stats").t.ppf(0.975, max(1, n - 1))
        low, high = np.clip([mean - reach, mean + reach], 0, 100)
        return {"n": n, "distance": mean, "low": low, "high": high,
                "expected": part["expected"].mean()}  # fmt: skip

    return rows_of(placed, by, row)


def error_examples(table: pd.DataFrame, count: int = 1) -> pd.DataFrame:
    """Return ``count`` real wrong answers of each kind, from different lengths where possible."""
    table = of_measure(table)
    columns = ["error", "task", "language", *_SHOWN[1:]]
    examples = pd.concat([_varied(table[table["error"] == kind], count) for kind in KINDS])
    return examples[columns] if len(examples) else nothing("Every answer is right.", columns)


def wrong(table: pd.DataFrame) -> pd.DataFrame:
    """Return the first three wrong answers, from different lengths where possible, in full.

    Where all are of one language, ``attrs["language"]`` is its code; where no answer is wrong,
    ``attrs["why"]`` says how many were right.
    """
    rows = of_measure(table)
    answers = _varied(rows[rows["value"] < 1], 3)
    codes, answers = set(answers["language"]), answers[_SHOWN]
    if len(codes) == 1:
        answers.attrs["language"] = codes.pop()
    if answers.empty and len(rows):
        all_of_them = "The one answer is" if len(rows) == 1 else f"All {len(rows):,} answers are"
        answers.attrs["why"] = f"{all_of_them} right."
    return answers


def _varied(table: pd.DataFrame, count: int) -> pd.DataFrame:
    """Return the first row of each length, and then the others; ``count`` of them."""
    first = table.groupby("length", sort=False).head(1)
    return pd.concat([first, table.drop(first.index)]).head(count)


# --- References anywhere in an answer, and whole items ----------------------------------------


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
        `rulerlib.analysis.tables.BY`, ``n``, and each measure of `rulerlib.scoring.LIST` from 0 to
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


# --- Needles that may not be there ------------------------------------------------------------


def absence(table: pd.DataFrame) -> pd.DataFrame:
    """Return how well a model knows what is there and what is not.

    Where half of the keys that are asked for stand in the text (`rulerlib.tasks.absence`), a model
    that always says "none" is right half of the time, and so is one that finds every needle and
    never says it. Youden's J (Youden 1950, "Index for Rating Diagnostic Tests") takes the first
    for what it is: the share of absent keys of which a model says that there is none, minus the
    share of present ones of which it says so. It is 1 for a model that always knows, and 0 for one
    whose answers do not depend on the text, whatever they are.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.

    Returns
    -------
    DataFrame
        `rulerlib.analysis.tables.BY`; ``n``, the answers to questions that allow "none";
        ``there``: the accuracy where the keys stand in the text; ``absent``: where they do not;
        ``youden``: see above, from -1 to 1; each with its 95 % interval in ``... low`` and
        ``... high``, cluster-robust where questions share contexts. NaN where there are no such
        questions. The interval of J is found from those of its two shares, as that of a difference
        of two models is, see `rulerlib.intervals.recovered`. An empty table says that no question
        allows "none".
    """
    rows = of_measure(table)
    there = [facts.get("present") for facts in rows["facts"]]
    rows = rows.assign(there=there, said=[float(says_none(pred)) for pred in rows["pred"]])
    rows = rows[rows["there"].notna()]
    if rows.empty:
        columns = [f"{name}{end}" for name in ("there", "absent", "youden")
                   for end in ("", " low", " high")]  # fmt: skip
        return nothing(table.attrs.get("why", _ALL_THERE), [*BY, "n", *columns])

    def row(part: pd.DataFrame) -> Mapping[str, float]:
        present = part["there"].astype(bool)
        halves = {"there": part[present], "absent": part[~present]}
        values: dict[str, float] = {"n": len(part)}
        for name, half in halves.items():
            values |= with_ends(name, _mean(half, "value"))
        names = ("youden", "youden low", "youden high")
        return values | dict(zip(names, youden(*halves.values()), strict=True))

    return rows_of(rows.assign(unit=clusters(rows)), BY, row)


def youden(there: pd.DataFrame, absent: pd.DataFrame) -> tuple[float, float, float]:
    """Return Youden's J and both ends of its 95 % interval; NaN where either has no rows.

    Parameters
    ----------
    there, absent
        A row for each answer about keys that stand in the text, and about others: ``said``, 1 if
        it says that there is none, else 0; and ``unit``, its context, or itself.
    """
    if there.empty or absent.empty:
        return math.nan, math.nan, math.nan
    first, second = (
        (mean.mean, mean.low, mean.high) for mean in (_mean(absent, "said"), _mean(there, "said"))
    )
    low, high = recovered(first, second, _correlation(absent, there))
    return first[0] - second[0], low, high


def _mean(rows: pd.DataFrame, column: str) -> Clustered:
    return clustered(rows[column].tolist(), rows["unit"].tolist())


def _correlation(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return how what is said of absent and of present keys goes together over contexts.

    0 where no context is asked about both. It is not estimated from a few: where it is positive,
    so that the interval would be narrower, 0 is taken.
    """
    away = [
        (rows["said"] - rows["said"].mean()).groupby(rows["unit"]).sum() / len(rows)
        for rows in (first, second)
    ]
    both = pd.concat(away, axis=1).fillna(0).to_numpy()
    spread = math.sqrt(float((both[:, 0] ** 2).sum() * (both[:, 1] ** 2).sum()))
    if spread < 1e-12:
        return 0.0
    return float(np.clip(both[:, 0] @ both[:, 1] / spread, -1.0, 0.0))
