"""Memory presets on the same questions: differences, and what can be had for nothing.

All presets are asked the same questions, so they are compared question by question, as models are
in `rulerlib.analysis.pairs`. That needs far fewer questions: at n = 200 the standard error of one
mean is up to 3.5 points, and of the difference of two separate means up to 5.

All tables take what `rulerlib.memory.results.read` returns, and as ``by`` what is compared
separately, see `rulerlib.memory.tables`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis import pairs
from rulerlib.analysis.accuracy import RESAMPLES
from rulerlib.analysis.scores import nothing
from rulerlib.memory.results import QUESTION, by_of, groups

BASELINE = "span_short"
"""The preset that others are compared with: the same decoding and no memory."""

_ROW = ["measure", "n", "mean", "baseline", "difference", "low", "high", "method", "p", "p_holm",
        "needed", "left_out", "note"]  # fmt: skip


def floors(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return what can be had for nothing, whatever the preset.

    Returns
    -------
    DataFrame
        ``by``, without the preset; ``n``, the questions; ``constant``, how many of them the answer
        that is right most often in its set gets right; ``chance``, how many a value does that is
        drawn among those of its kind that were taught; NaN where neither can be said. An empty
        table says why.
    """
    if rows.empty:
        return rows
    floor_rows = []
    for names, part in groups(rows, _without_preset(by_of(rows, by))):
        part = part[~part.duplicated([*QUESTION, "size"])]
        floor_rows.append({**names, "n": len(part), "constant": part["constant"].mean(),
                      "chance": part["chance"].mean()})  # fmt: skip
    return pd.DataFrame(floor_rows)


def no_better(rows: pd.DataFrame) -> str:
    """Return in a sentence which presets with facts are right no more often than one answer.

    That is the answer that is right most often in a set, given to each of its questions.
    """
    told = []
    for names, part in groups(rows, by_of(rows)) if len(rows) else ():
        right, constant = (int(part[name].sum()) for name in ("em_norm", "constant"))
        if names["preset"] not in (BASELINE, "core") and right <= constant:
            who = "{preset} in {suite} ({language}, {model}".format(**names)
            told.append(f"{who}: {right} of {len(part)}, and {constant})")
    few = f"No more often right than the same answer to all questions: {'; '.join(told)}."
    every = "Every preset with facts is right more often than the same answer to all questions."
    return few if told else every


def _without_preset(by: Sequence[str]) -> list[str]:
    return [name for name in by if name not in ("preset", "changes")]


def compared(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the difference in em_norm between each preset and `BASELINE`.

    It is taken on the questions both were asked. Presets that were asked with another format or
    decoding, as `core` is, are not compared: their row has only a note.

    Returns
    -------
    DataFrame
        ``by``, ``measure``, ``n`` (questions both were asked), the ``mean`` of the preset and that
        of the ``baseline``; ``difference``, its interval ``low`` and ``high``, ``method``,
        ``p``, and ``p_holm``, the same corrected for all rows of the table; ``needed``, the
        questions that would tell the two apart four times in five; ``left_out``, answers to
        questions that only one was asked; ``note``, why there is no difference. See
        `rulerlib.analysis.pairs.paired`. An empty table says why.

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
    # As its file says; where all were asked in another way (as plain text, say), in that one.
    is_baseline &= rows["changes"] == rows.loc[is_baseline, "changes"].min()
    first = {tuple(names.values()): part for names, part in groups(rows[is_baseline], others)}
    if not first:
        return nothing(f"{BASELINE} was not asked, so there is nothing to compare with.")
    for names, part in groups(rows, by):
        if not is_baseline[part.index].all():
            other = first.get(tuple(names[name] for name in others))
            comparisons.append({**names, "measure": "em_norm", **_difference(part, other, rng)})
    if not comparisons:
        return nothing(f"There is no preset here but {BASELINE}, and a comparison needs two.")
    family = pd.DataFrame(comparisons, columns=[*by, *_ROW])
    family["p_holm"] = pairs.holm(family["p"].tolist())
    # Whole numbers that may be missing.
    return family.astype({"n": "Int64", "left_out": "Int64"})


def _difference(
    part: pd.DataFrame, other: pd.DataFrame | None, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the comparison of a preset with the baseline, or a note why there is none."""
    if other is None:
        return {"note": "the baseline was not asked"}
    if differs := _differing(part, other):
        return {"note": f"asked with another {', '.join(differs)}"}
    columns = [*QUESTION, "gold", "em_norm"]
    both = part[[*columns, "unit"]].merge(other[columns], on=columns[:-1], suffixes=("", "_other"))
    if both.empty:
        return {"note": "no question in common"}
    names = {"em_norm": "value", "em_norm_other": "value_other", "suite": "task"}
    row = pairs.compared(both.rename(columns=names), RESAMPLES, rng)
    return {
        **{name: value for name, value in row.items() if name in _ROW},
        "mean": row["first"], "baseline": row["second"],
        "left_out": len(part) + len(other) - 2 * len(both), "note": "",
    }  # fmt: skip


def _differing(part: pd.DataFrame, other: pd.DataFrame) -> list[str]:
    """Return in what the questions were put otherwise: the names of settings, in words."""
    ours, theirs = ([json.loads(text) for text in {*rows["asked"]}] for rows in (part, other))
    return list(dict.fromkeys(name for one in ours for two in theirs for name in _names(one, two)))


def _names(one: dict[str, Any], two: dict[str, Any]) -> Iterator[str]:
    for name in {**one, **two}:
        first, second = one.get(name), two.get(name)
        if isinstance(first, dict) and isinstance(second, dict):
            yield from _names(first, second)
        elif first != second:
            yield name.replace("_", " ")
