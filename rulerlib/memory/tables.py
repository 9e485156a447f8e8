"""Memory: how often a question was answered, what the store delivered, what was lost on the way.

An answer can be wrong because the memory did not deliver the facts, or because the model misread
what was delivered. `table` has the scores, `store_table` what the store delivered and what the
model made of it, `fates` where each question was lost.

>>> rows = pd.DataFrame({"em_norm": [1.0, 0.0, 0.0, 0.0], "in_prompt": [1.0, 1.0, 0.0, 0.0],
...                      "recall_at_10": [1.0, 1.0, 1.0, 0.5], "cut": [0.0, 0.0, 3.0, 0.0]})
>>> [fate(row) for row in rows.to_dict("records")]
['right', 'read wrongly', 'no room in the prompt', 'not recalled']

All tables take what `rulerlib.memory.results.read` returns, and as ``by`` what is averaged
separately (None: `rulerlib.memory.results.by_of`). Intervals are at 95 % and clustered by
episode, for several questions may be asked about one; see `rulerlib.intervals.clustered`. Shares
run from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from rulerlib.analysis.scores import nothing
from rulerlib.memory.results import by_of, groups, means

MEASURES = ("em_norm", "em_raw", "f1")
"""The scores of an answer: exact but for case, punctuation and articles; to the letter; by words.
"""

DIAGNOSTICS = "part_match", "too_long", "cut_off", "overlong", "format_violation", "refused"
"""What can be said of an answer beside its scores: the gold stands in it; no gold has room in it;
it was cut off where its room ends; it is longer than the gold, no bare answer, or a refusal."""

RECALLS = ("recall_at_1", "recall_at_5", "recall_at_10")
"""The share of the needed facts among the first texts that were recalled."""

PERCENT = (
    *MEASURES, *DIAGNOSTICS, *RECALLS, "in_prompt", "disagree", "kept", "applied", "stale",
    "reader", "oracle", "leaked", "constant", "chance", "baseline", "difference", "valid",
    "success",
)  # fmt: skip
"""Columns of these tables that are shares, for `rulerlib.show.table`."""

FATES = (
    "right", "right without the facts", "read wrongly", "no room in the prompt", "not recalled",
)  # fmt: skip
"""What became of a question, see `fate`."""

ORACLE = "oracle"
"""The preset that is given the facts that an answer needs: the ceiling of its model."""

CAPACITY = "episodic_capacity"
"""The suite whose episodes are far longer than the room in a prompt."""

# What decides what became of a question.
_OF_FATES = ("em_norm", "in_prompt", "recall_at_10", "cut")

# An oracle's mean below this is near zero.
_NEAR_ZERO = 0.1


def table(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return how often questions were answered, with the form of the answers.

    Returns
    -------
    DataFrame
        ``by``; ``n`` and ``episodes``, as counts; the mean and the interval of each of `MEASURES`,
        ``"em_norm low"`` and ``"em_norm high"``; the shares of `DIAGNOSTICS`. An empty table says
        why.
    """
    if rows.empty:
        return rows
    return pd.DataFrame([
        {**names, "n": len(part), "episodes": part["unit"].nunique(), **means(part, *MEASURES),
         **{name: part[name].mean() for name in DIAGNOSTICS}}
        for names, part in groups(rows, by_of(rows, by))
    ])  # fmt: skip


def store_table(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return what the memory delivered for questions that can be answered, and what was made of it.

    Returns
    -------
    DataFrame
        ``by``, ``n``; `RECALLS`, NaN where a preset recalls nothing; ``mrr``, the mean of 1 / the
        rank of the first text that holds a needed fact; ``in_prompt``, the share of prompts that
        really held all needed facts, as they are read in it, with its interval; ``disagree``, how
        often the system claims other needed facts than are read in what it recalled, NaN where it
        claims none; ``reader``, how often the answer was right
        (em_norm) where they did, with its interval and ``reader n``; ``oracle``, the same where the
        facts were simply given, on the same questions; ``leaked``; ``latency_ms``, the median time
        of recall; ``prompt_tokens`` and ``cut``, their means. An empty table says why.
    """
    able = _answerable(rows)
    if able.empty:
        return able
    by = by_of(rows, by)
    others = [name for name in by if name not in ("preset", "changes")]
    ceilings = {
        tuple(names.values()): means(part, "em_norm")["em_norm"]
        for names, part in groups(able[able["preset"] == ORACLE], others)
    }
    table_rows = []
    for names, part in groups(able, by):
        held = part[part["in_prompt"] == 1].rename(columns={"em_norm": "reader"})
        table_rows.append({
            **names, "n": len(part),
            **{name: part[name].mean() for name in RECALLS}, "mrr": part["rr"].mean(),
            **means(part, "in_prompt"), "disagree": part["disagree"].mean(),
            "reader n": len(held), **means(held, "reader"),
            "oracle": ceilings.get(tuple(names[name] for name in others), math.nan),
            "leaked": part["leaked"].mean(), "latency_ms": part["latency_ms"].median(),
            "prompt_tokens": part["prompt_tokens"].mean(), "cut": part["cut"].mean(),
        })  # fmt: skip
    return pd.DataFrame(table_rows)


def _answerable(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of questions that can be answered; an empty table says why."""
    able = rows[rows["answerable"] == 1] if len(rows) else rows
    return able if len(able) else nothing(
        rows.attrs.get("why", "No question here can be answered.")
    )  # fmt: skip


def fate(row: Mapping[Any, Any]) -> str:
    """Return what became of a question that can be answered: one of `FATES`.

    All needed facts were recalled if they are among the first ten texts. A preset that recalls
    nothing but puts what was taught into the prompt has lost to want of room what does not stand
    there.
    """
    if row["em_norm"] == 1:
        return "right" if row["in_prompt"] == 1 else "right without the facts"
    if row["in_prompt"] == 1:
        return "read wrongly"
    unranked = math.isnan(row["recall_at_10"])
    delivered = row["cut"] > 0 if unranked else row["recall_at_10"] == 1
    return "no room in the prompt" if delivered else "not recalled"


def fates(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return what became of the questions that can be answered.

    Returns
    -------
    DataFrame
        ``by``, ``n``, ``fate`` (all of `FATES`), ``count`` and ``share``. An empty table says why.
    """
    able = _answerable(rows)
    if able.empty:
        return able
    able = able.assign(fate=[fate(row) for row in able[[*_OF_FATES]].to_dict("records")])
    return pd.DataFrame([
        {**names, "n": len(part), "fate": name, "count": count, "share": count / len(part)}
        for names, part in groups(able, by_of(rows, by))
        for name in FATES
        for count in [int((part["fate"] == name).sum())]
    ])  # fmt: skip


def writes(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return what the stores kept of what they were taught, and what that was worth.

    Returns
    -------
    DataFrame
        ``by``; ``facts``, how many were taught; ``kept``, the share of them that is stored, NaN
        where a memory does not say; ``bytes`` for each fact that was taught; ``worth``, the share
        of needed facts among the first ten texts divided by ``kept``; ``updates``, the questions
        about what was corrected or taken back; ``applied``, the share of these with
        all needed turns in the prompt, and ``stale``, with what held before and not the last word.
        An empty table says that nothing was kept.
    """
    stores = rows[rows["bytes"].notna()] if len(rows) else rows
    if stores.empty:
        return nothing(rows.attrs.get("why", "No preset here keeps what it is taught."))
    table_rows = []
    for names, part in groups(stores, by_of(rows, by)):
        runs, facts = part.drop_duplicates(["seed", "size", "knobs"]), part.drop_duplicates("unit")
        taught, updates = int(facts["taught"].sum()), part[part["stale"].notna()]
        kept = runs["stored"].sum(min_count=1) / taught
        table_rows.append({
            **names, "facts": taught, "kept": kept, "bytes": runs["bytes"].sum() / taught,
            "worth": part["recall_at_10"].mean() / kept, "updates": len(updates),
            "applied": (updates["in_prompt"] == 1).mean(), "stale": updates["stale"].mean(),
        })  # fmt: skip
    return pd.DataFrame(table_rows)


def capacity(rows: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy and recall by the number of facts that an episode taught.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``preset``, ``facts``, ``n``, and with intervals ``em_norm``,
        ``recall_at_5`` and ``in_prompt``. An empty table says that the suite `CAPACITY` was not
        asked.
    """
    questions = rows[(rows["suite"] == CAPACITY) & (rows["answerable"] == 1)] if len(rows) else rows
    if questions.empty:
        return nothing(rows.attrs.get("why", f"The suite {CAPACITY} was not asked."))
    questions = questions.assign(facts=questions["taught"].astype(int))
    changes = ["changes"] * (questions["changes"].nunique() > 1)
    return pd.DataFrame([
        {**names, "n": len(part), **means(part, "em_norm", "recall_at_5", "in_prompt")}
        for names, part in groups(questions, ["model", "language", "preset", *changes, "facts"])
    ])  # fmt: skip


def routes(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return how well ways were found, for questions about a route or its length.

    Returns
    -------
    DataFrame
        ``by``, ``n``, with intervals ``valid`` (every step is free) and ``success`` (it leads to
        the goal), and ``steps_over``, by how many steps a way that leads there is longer than the
        shortest one, on average. An empty table says that no way was asked for.
    """
    ways = rows[rows["success"].notna()] if len(rows) else rows
    if ways.empty:
        return nothing(rows.attrs.get("why", "No way was asked for."))
    return pd.DataFrame([
        {**names, "n": len(part), **means(part, "valid", "success"),
         "steps_over": part["steps_over"].mean()}
        for names, part in groups(ways, by_of(rows, by))
    ])  # fmt: skip


def reader_ceiling(rows: pd.DataFrame) -> str:
    """Return in a few sentences where a model cannot answer even with the needed facts given."""
    oracle = rows[(rows["preset"] == ORACLE) & (rows["answerable"] == 1)] if len(rows) else rows
    if oracle.empty:
        return (
            "The preset oracle was not asked, so it is not known how much of what is lost is lost"
            " by the model."
        )
    suites = []
    for names, part in groups(oracle, by_of(rows)[:-1]):
        share = means(part, "em_norm")
        if share["em_norm"] < _NEAR_ZERO:
            right, high = int(part["em_norm"].sum()), 100 * share["em_norm high"]
            count = f"{right} of {len(part)} right, interval up to {high:.0f} %"
            who = f"{names['model']}, " if oracle["model"].nunique() > 1 else ""
            suites.append(f"{names['suite']} ({who}{names['language']}, {count})")
    if not suites:
        return (
            "With the needed facts given, the model answers at least one in ten questions of each"
            " suite, so scores can tell memories apart."
        )
    return (
        "Even with the needed facts given, the model answers less than one in ten questions of"
        f" {'; '.join(dict.fromkeys(suites))}. There, scores say nothing about a memory: look at"
        " what the store delivered."
    )
