"""Memory presets on the same questions: differences, what can be had for nothing, and two targets.

All presets are asked the same questions, so they are compared question by question, as models are
in `rulerlib.analysis.pairs`. That needs far fewer questions: at n = 200 the standard error of one
mean is up to 3.5 points, and of the difference of two separate means up to 5.

All tables take what `rulerlib.analysis.memory_rows.read` returns, and as ``by`` what is compared
separately, see `rulerlib.analysis.memory`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis import pairs
from rulerlib.analysis.memory_rows import QUESTION, by_of, groups, means
from rulerlib.analysis.tables import RESAMPLES, groups_of, nothing

BASELINE = "span_short"
"""The preset that others are compared with: the same decoding and no memory."""

SATURATED = 0.6
"""A baseline's em_raw on `episodic`, above which the suite is too easy to tell memories apart."""

BETTER, AT = 0.08, 200
"""By how much a memory is to be better than the baseline in em_norm, and at which size."""

# The presets that can answer only by guessing, and those that remember.
_BASELINES = ("core", "span_short")
_MEMORIES = ("memory/hei_nw", "memory/sgc_rss", "memory/smpd")

_ROW = ["measure", "n", "mean", "baseline", "difference", "low", "high", "method", "p", "p_holm",
        "needed", "left_out", "note"]  # fmt: skip

_REACHED, _MISSED, _OPEN = "reached", "not reached", "cannot be told yet"


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
    is_baseline = (rows["preset"] == BASELINE) & (rows["changes"] == "")
    first = {tuple(names.values()): part for names, part in groups(rows[is_baseline], others)}
    if not first:
        return nothing(f"{BASELINE} was not asked, so there is nothing to compare with.")
    for names, part in groups(rows, by):
        if names["preset"] != BASELINE or (part["changes"] != "").any():
            other = first.get(tuple(names[name] for name in others))
            comparisons.append({**names, "measure": "em_norm", **_difference(part, other, rng)[0]})
    if not comparisons:
        return nothing(f"There is no preset here but {BASELINE}, and a comparison needs two.")
    family = pd.DataFrame(comparisons, columns=[*by, *_ROW])
    family["p_holm"] = pairs.holm(family["p"].tolist())
    # Whole numbers that may be missing.
    return family.astype({"n": "Int64", "left_out": "Int64"})


def _difference(
    part: pd.DataFrame, other: pd.DataFrame | None, rng: np.random.Generator
) -> tuple[dict[str, Any], float]:
    """Return the comparison of a preset with the baseline, or a note why there is none.

    Beside it stands the variance of the differences, question by question.
    """
    if other is None:
        return {"note": "the baseline was not asked"}, math.nan
    if differs := _differing(part, other):
        return {"note": f"asked with another {', '.join(differs)}"}, math.nan
    columns = [*QUESTION, "gold", "em_norm"]
    both = part[[*columns, "unit"]].merge(other[columns], on=columns[:-1], suffixes=("", "_other"))
    if both.empty:
        return {"note": "no question in common"}, math.nan
    names = {"em_norm": "value", "em_norm_other": "value_other", "suite": "task"}
    row = pairs.compared(both.rename(columns=names), RESAMPLES, rng)
    return {
        **{name: value for name, value in row.items() if name in _ROW},
        "mean": row["first"], "baseline": row["second"],
        "left_out": len(part) + len(other) - 2 * len(both), "note": "",
    }, row["variance"]  # fmt: skip


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


# --- Targets ----------------------------------------------------------------------------------


def targets(rows: pd.DataFrame) -> pd.DataFrame:
    """Return whether the two targets are reached: by each baseline, and by each memory.

    No baseline may answer more than `SATURATED` of `episodic` to the letter; else the suite is
    saturated, and its hard profile is to be run. And a memory is to be better than the baseline
    `BASELINE` on `episodic_multi` by `BETTER` at the size `AT`.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``preset``, the ``goal`` in words, ``n``, the ``value`` with its
        interval ``low`` and ``high``, the ``target``, the ``verdict``; ``needed``, the questions
        that would tell value and target apart four times in five if the value is what was seen,
        NaN where nothing was; and a ``note``. An empty table says why.

    Raises
    ------
    MissingExtraError
        If `scipy` is not installed.
    """
    if rows.empty:
        return rows
    plain = rows[(rows["changes"] == "") & rows["profile"].isin(["default", ""])]
    verdicts = []
    for names, part in groups_of(plain, ("model", "language")):
        for preset in _BASELINES:
            verdicts.append({**names, "preset": preset, **_unsaturated(part, preset)})
        for preset in _MEMORIES:
            verdicts.append({**names, "preset": preset, **_better(part, preset)})
    if not verdicts:
        return nothing("There are no answers of whole presets in the default profile.")
    columns = ["model", "language", "preset", "goal", "n", "value", "low", "high", "target",
               "verdict", "needed", "note"]  # fmt: skip
    return pd.DataFrame(verdicts, columns=columns)


def _verdict(low: float, high: float, target: float) -> str:
    """Return whether a value lies above a target, as its interval says."""
    return _REACHED if low > target else _MISSED if high <= target else _OPEN


def _unsaturated(rows: pd.DataFrame, preset: str) -> dict[str, Any]:
    """Return whether a baseline stays below the line; sizes and seeds are put together."""
    goal = f"at most {100 * SATURATED:.0f} % raw on episodic"
    episodic = rows[(rows["suite"] == "episodic") & (rows["preset"] == preset)]
    if episodic.empty:
        return _unknown(goal, SATURATED, f"{preset} was not asked episodic")
    ((_, part),) = groups(episodic, ("model",))
    value, low, high = means(part, "em_raw").values()
    above = _verdict(low, high, SATURATED)
    verdict = {_REACHED: _MISSED, _MISSED: _REACHED}.get(above, above)
    spread = pairs.variance(part.assign(difference=part["em_raw"]))
    return {
        "goal": goal, "n": len(part), "value": value, "low": low, "high": high,
        "target": SATURATED, "verdict": verdict,
        "needed": pairs.samples_needed(value - SATURATED, spread),
        "note": "saturated: run the profile hard" if verdict == _MISSED else "",
    }  # fmt: skip


def _better(rows: pd.DataFrame, preset: str) -> dict[str, Any]:
    """Return whether a memory is better than the baseline by as much as it should be."""
    goal = f"{100 * BETTER:.0f} points better than {BASELINE} on episodic_multi at n = {AT}"
    multi = rows[rows["suite"] == "episodic_multi"]
    there = multi[multi["size"] == AT]
    whole = {preset, BASELINE} <= {*there["preset"]}
    sized = there if whole else multi
    parts = {
        name: part
        for name in (preset, BASELINE)
        for _, part in groups(sized[sized["preset"] == name], ("model",))
    }
    if len(parts) < 2:
        missing = " and ".join(name for name in (preset, BASELINE) if name not in parts)
        return _unknown(goal, BETTER, f"not asked episodic_multi: {missing}")
    row, spread = _difference(parts[preset], parts[BASELINE], np.random.default_rng(0))
    if row["note"]:
        return _unknown(goal, BETTER, row["note"])
    value, low, high = (row[name] for name in ("difference", "low", "high"))
    return {
        "goal": goal, "n": row["n"], "value": value, "low": low, "high": high, "target": BETTER,
        "verdict": _verdict(low, high, BETTER) if whole else _OPEN,
        "needed": pairs.samples_needed(value - BETTER, spread),
        "note": "" if whole else f"not both were asked at n = {AT}",
    }  # fmt: skip


def _unknown(goal: str, target: float, why: str) -> dict[str, Any]:
    unknown = dict.fromkeys(("value", "low", "high", "needed"), math.nan)
    return {"goal": goal, "n": 0, **unknown, "target": target, "verdict": _OPEN, "note": why}
