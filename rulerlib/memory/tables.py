"""Tables of memories: scores, what was delivered, where answers were lost, and comparisons.

An answer can be wrong because the memory did not deliver the facts, or because the model misread
them. `table` has the scores, `store_table` what the store delivered and what the model made of it,
`fates` where each question was lost, and `compared` the differences between presets.

>>> rows = pd.DataFrame({"em": [1.0, 0.0, 0.0, 0.0], "in_prompt": [1.0, 1.0, 0.0, 0.0],
...                      "recall": [1.0, 1.0, 1.0, 0.5]})
>>> [fate(row) for row in rows.to_dict("records")]
['right', 'read wrongly', 'no room in the prompt', 'not recalled']

All tables take what `rulerlib.memory.results.read` returns, and as ``by`` what is averaged
separately (default: `rulerlib.memory.results.by_of`). Shares run from 0 to 1. Intervals are at 95%
and clustered by episode, because several questions may be about one episode; see
`rulerlib.intervals.clustered`. An empty table says why it is empty.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis import pairs
from rulerlib.analysis.accuracy import RESAMPLES
from rulerlib.analysis.scores import nothing
from rulerlib.memory.measures import KS, MEASURES
from rulerlib.memory.results import QUESTION, by_of, groups, means

DIAGNOSTICS = "part_match", "too_long", "cut_off", "overlong", "format_violation", "refused"
"""Shares of answers shown beside the scores: the gold is part of it; no gold fits into it; it was
cut off; it is longer than the longest gold; it is not a bare answer; it is a refusal."""

RECALLS = tuple(f"recall_at_{k}" for k in KS)
"""The shares of the needed facts among the first recalled texts in the prompt."""

PERCENT = (
    *MEASURES, *DIAGNOSTICS, *RECALLS, "recall", "in_prompt", "kept", "applied", "stale", "reader",
    "oracle", "leaked", "constant", "chance", "baseline", "difference", "valid", "success",
)  # fmt: skip
"""The columns of these tables that are shares, for `rulerlib.show.table`."""

FATES = (
    "right", "right without the facts", "read wrongly", "no room in the prompt", "not recalled",
)  # fmt: skip
"""What can happen to a question, see `fate`."""

ORACLE = "oracle"
"""The preset that is given the needed facts: the ceiling of its model."""

BASELINE = "span_short"
"""The preset that others are compared with: the same decoding and no memory."""

CAPACITY = "episodic_capacity"
"""The suite whose episodes are far longer than a prompt."""

_COMPARED = [
    "measure", "n", "mean", "baseline", "difference", "low", "high", "method", "p", "p_holm",
    "needed", "left_out", "note",
]  # fmt: skip


def _empty(rows: pd.DataFrame, why: str) -> pd.DataFrame:
    """Return an empty table that says why: the reason of the rows, if they have one."""
    return nothing(rows.attrs.get("why", why))


def table(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the scores.

    Returns
    -------
    DataFrame
        ``by``; ``n`` and ``episodes``, as counts; the mean and the interval of each of
        `rulerlib.memory.measures.MEASURES`; the shares of `DIAGNOSTICS`.
    """
    if rows.empty:
        return rows
    return pd.DataFrame([
        {**names, "n": len(part), "episodes": part["unit"].nunique(), **means(part, *MEASURES),
         **{name: part[name].mean() for name in DIAGNOSTICS}}
        for names, part in groups(rows, by_of(rows, by))
    ])  # fmt: skip


def store_table(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return what the memory delivered for questions with an answer, and what was made of it.

    Returns
    -------
    DataFrame
        ``by``, ``n``; `RECALLS`, NaN if a preset recalls nothing; ``mrr``, the mean of 1 / the
        rank of the first text in the prompt with a needed fact; ``in_prompt``, the share of prompts
        with all needed facts, with its interval; ``reader``, the share of right answers (em) among
        these, with its interval and ``reader n``; ``oracle``, the same with the facts given, on the
        same questions; ``leaked``; ``latency_ms``, the median time of recall; ``prompt_tokens`` and
        ``cut``, their means.
    """
    able = _answerable(rows)
    if able.empty:
        return able
    by = by_of(rows, by)
    others = _without_preset(by)
    oracles = {
        tuple(names.values()): part["em"].mean()
        for names, part in groups(able[able["preset"] == ORACLE], others)
    }
    table_rows = []
    for names, part in groups(able, by):
        held = part[part["in_prompt"] == 1].rename(columns={"em": "reader"})
        table_rows.append({
            **names, "n": len(part),
            **{name: part[name].mean() for name in RECALLS}, "mrr": part["rr"].mean(),
            **means(part, "in_prompt"), "reader n": len(held), **means(held, "reader"),
            "oracle": oracles.get(tuple(names[name] for name in others), math.nan),
            "leaked": part["leaked"].mean(), "latency_ms": part["latency_ms"].median(),
            "prompt_tokens": part["prompt_tokens"].mean(), "cut": part["cut"].mean(),
        })  # fmt: skip
    return pd.DataFrame(table_rows)


def _answerable(rows: pd.DataFrame) -> pd.DataFrame:
    able = rows[rows["answerable"] == 1] if len(rows) else rows
    return able if len(able) else _empty(rows, "No question here has an answer.")


def _without_preset(by: Sequence[str]) -> list[str]:
    return [name for name in by if name not in ("preset", "changes")]


def fate(row: Mapping[Any, Any]) -> str:
    """Return what happened to a question with an answer: one of `FATES`."""
    if row["em"] == 1:
        return "right" if row["in_prompt"] == 1 else "right without the facts"
    if row["in_prompt"] == 1:
        return "read wrongly"
    return "no room in the prompt" if row["recall"] == 1 else "not recalled"


def fates(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return what happened to the questions with an answer.

    Returns
    -------
    DataFrame
        ``by``, ``n``, ``fate`` (all of `FATES`), ``count`` and ``share``.
    """
    able = _answerable(rows)
    if able.empty:
        return able
    columns = ["em", "in_prompt", "recall"]
    able = able.assign(fate=[fate(row) for row in able[columns].to_dict("records")])
    return pd.DataFrame([
        {**names, "n": len(part), "fate": name, "count": int((part["fate"] == name).sum()),
         "share": (part["fate"] == name).mean()}
        for names, part in groups(able, by_of(rows, by)) for name in FATES
    ])  # fmt: skip


def writes(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return what the stores kept of what they were taught.

    Returns
    -------
    DataFrame
        ``by``; ``facts``, the number that was taught; ``kept``, the share that is stored, NaN if a
        memory does not tell; ``bytes`` for each fact; ``worth``, the share of needed facts among
        the first ten texts divided by ``kept``; ``updates``, the questions about values that
        changed; ``applied``, the share of these with all needed turns in the prompt; ``stale``, the
        share with earlier values and without the last one.
    """
    stores = rows[rows["bytes"].notna()] if len(rows) else rows
    if stores.empty:
        return _empty(rows, "No preset here keeps what it is taught.")
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
        ``model``, ``language``, ``preset``, ``facts``, ``n``, and with intervals ``em``,
        ``recall_at_5`` and ``in_prompt``.
    """
    questions = rows[(rows["suite"] == CAPACITY) & (rows["answerable"] == 1)] if len(rows) else rows
    if questions.empty:
        return _empty(rows, f"The suite {CAPACITY} was not asked.")
    questions = questions.assign(facts=questions["taught"].astype(int))
    changes = ["changes"] * (questions["changes"].nunique() > 1)
    return pd.DataFrame([
        {**names, "n": len(part), **means(part, "em", "recall_at_5", "in_prompt")}
        for names, part in groups(questions, ["model", "language", "preset", *changes, "facts"])
    ])  # fmt: skip


def routes(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the quality of answers about a route or its length.

    Returns
    -------
    DataFrame
        ``by``, ``n``, with intervals ``valid`` (every step is free) and ``success`` (it leads to
        the goal), and ``steps_over``, the mean number of steps more than the shortest route.
    """
    ways = rows[rows["success"].notna()] if len(rows) else rows
    if ways.empty:
        return _empty(rows, "No question here asks for a route.")
    return pd.DataFrame([
        {**names, "n": len(part), **means(part, "valid", "success"),
         "steps_over": part["steps_over"].mean()}
        for names, part in groups(ways, by_of(rows, by))
    ])  # fmt: skip


# --- Floors and comparisons -------------------------------------------------------------------


def floors(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the scores that need no memory.

    Returns
    -------
    DataFrame
        ``by`` without the preset; ``n``; ``constant``, the share of questions that the most
        frequent answer gets right; ``chance``, the share that a taught value of the right kind,
        drawn at random, gets right, NaN if unknown.
    """
    if rows.empty:
        return rows
    columns = ["constant", "chance"]
    parts = (
        (names, part[~part.duplicated([*QUESTION, "size"])])
        for names, part in groups(rows, _without_preset(by_of(rows, by)))
    )
    return pd.DataFrame(
        [{**names, "n": len(part), **part[columns].mean()} for names, part in parts]
    )


def compared(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the difference in exact match between each preset and `BASELINE`.

    Presets are compared on the same questions, which takes far fewer of them than two separate
    means. Presets with another format or decoding, such as ``core``, get only a note.

    Returns
    -------
    DataFrame
        ``by``, ``measure``, ``n`` (questions that both were asked), the ``mean`` of the preset and
        of the ``baseline``; ``difference``, its interval ``low`` and ``high``, ``method``, ``p``,
        and ``p_holm``, corrected for all rows; ``needed``, the number of questions that would show
        the difference with a power of 80%; ``left_out``, answers to questions that only one was
        asked; ``note``, why there is no difference. See `rulerlib.analysis.pairs.paired`.

    Raises
    ------
    MissingExtraError
        If `scipy` is not installed.
    """
    if rows.empty:
        return rows
    rng, by, comparisons = np.random.default_rng(0), by_of(rows, by), []
    others = _without_preset(by)
    is_baseline = rows["preset"] == BASELINE
    # Unchanged, or, if all presets were changed in the same way, with the first change.
    is_baseline &= rows["changes"] == rows.loc[is_baseline, "changes"].min()
    first = {tuple(names.values()): part for names, part in groups(rows[is_baseline], others)}
    if not first:
        return nothing(f"{BASELINE} was not asked, so there is nothing to compare with.")
    for names, part in groups(rows, by):
        if not is_baseline[part.index].all():
            other = first.get(tuple(names[name] for name in others))
            comparisons.append({**names, "measure": "em", **_difference(part, other, rng)})
    if not comparisons:
        return nothing(f"There is no preset here except {BASELINE}; a comparison needs two.")
    family = pd.DataFrame(comparisons, columns=[*by, *_COMPARED])
    family["p_holm"] = pairs.holm(family["p"].tolist())
    # Counts that may be missing.
    return family.astype({"n": "Int64", "left_out": "Int64"})


def _difference(
    part: pd.DataFrame, other: pd.DataFrame | None, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the comparison of a preset with the baseline, or a note why there is none."""
    if other is None:
        return {"note": "the baseline was not asked"}
    if differs := _differing(part, other):
        return {"note": f"asked with another {', '.join(differs)}"}
    columns = [*QUESTION, "gold", "em"]
    both = part[[*columns, "unit"]].merge(other[columns], on=columns[:-1], suffixes=("", "_other"))
    if both.empty:
        return {"note": "no question in common"}
    names = {"em": "value", "em_other": "value_other", "suite": "task"}
    row = pairs.compared(both.rename(columns=names), RESAMPLES, rng)
    return {
        **{name: value for name, value in row.items() if name in _COMPARED},
        "mean": row["first"], "baseline": row["second"],
        "left_out": len(part) + len(other) - 2 * len(both), "note": "",
    }  # fmt: skip


def _differing(part: pd.DataFrame, other: pd.DataFrame) -> list[str]:
    """Return the names of the settings in which the questions were asked in another way."""
    asked = {*part["asked"], *other["asked"]}
    settings = pd.json_normalize([json.loads(each) for each in sorted(asked)]).map(str)
    differing = settings.columns[settings.nunique() > 1]
    return [name.rpartition(".")[2].replace("_", " ") for name in sorted(differing)]
