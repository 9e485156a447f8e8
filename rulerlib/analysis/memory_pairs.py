"""Memory presets on the same questions: differences, what can be had for nothing, and two targets.

All presets are asked the same questions, so they are compared question by question, as models are
in `rulerlib.analysis.pairs`. That needs far fewer questions: at n = 200 the standard error of one
mean is up to 3.5 points, and of the difference of two separate means up to 5.

>>> verdict(0.02, 0.07, 0.08), verdict(0.09, 0.2, 0.08), verdict(0.02, 0.2, 0.08)
('not reached', 'reached', 'cannot be told yet')

All tables take what `rulerlib.analysis.memory_rows.read` returns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis import pairs
from rulerlib.analysis.memory import MEASURES
from rulerlib.analysis.memory_rows import QUESTION, by_of, groups, mean
from rulerlib.analysis.tables import RESAMPLES, groups_of, nothing
from rulerlib.errors import one_of, whole_number
from rulerlib.memory.presets import NAMES

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

REACHED, MISSED, OPEN = "reached", "not reached", "cannot be told yet"


def floors(rows: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return what can be had for nothing, whatever the preset.

    Parameters
    ----------
    by
        What is averaged separately; None: as the tables of `rulerlib.analysis.memory`, without the
        preset.

    Returns
    -------
    DataFrame
        ``by``; ``n``, the questions; ``constant``, how many of them the answer that is right most
        often in its set gets right; ``chance``, how many a value does that is drawn among those of
        its kind that were taught; NaN where neither can be said. An empty table says why.
    """
    if rows.empty:
        return rows
    by = [name for name in by_of(rows, by) if name not in ("preset", "changes")]
    found = []
    for names, part in groups(rows, by):
        part = part[~part.duplicated([*QUESTION, "size"]) & ~part["legacy"].astype(bool)]
        found.append({**names, "n": len(part), "constant": part["constant"].mean(),
                      "chance": part["chance"].mean()})  # fmt: skip
    return pd.DataFrame(found)


def compared(
    rows: pd.DataFrame,
    baseline: str = BASELINE,
    measure: str = "em_norm",
    by: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the difference between each preset and a baseline, on the questions both were asked.

    Presets that were asked with another format or decoding, as `core` is, are not compared: their
    row has only a note.

    Parameters
    ----------
    baseline
        A preset. A positive difference is in favour of the other one.
    measure
        One of `rulerlib.analysis.memory.MEASURES`.
    by
        What is compared separately; see `rulerlib.analysis.memory.table`.
    resamples, seed
        See `rulerlib.analysis.pairs.paired`.

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
    ParameterError
        If there is no such preset or measure, or a number cannot work.
    MissingExtraError
        If `scipy` is not installed.
    """
    if rows.empty:
        return rows
    one_of("measure", measure, MEASURES)
    one_of("baseline", baseline, dict.fromkeys((*rows["preset"], *NAMES)))
    if baseline not in {*rows["preset"]}:
        return nothing(f"{baseline} was not asked, so there is nothing to compare with.")
    whole_number("resamples", resamples, 1)
    whole_number("seed", seed, 0)
    rng = np.random.default_rng(seed)
    by, found = by_of(rows, by), []
    others = [name for name in by if name not in ("preset", "changes")]
    plain = rows[~rows["legacy"].astype(bool)]
    asked = plain[(plain["preset"] == baseline) & (plain["changes"] == "")]
    first = {tuple(names.values()): part for names, part in groups(asked, others)}
    for names, part in groups(plain, by):
        if names["preset"] == baseline and (part["changes"] == "").all():
            continue
        other = first.get(tuple(names[name] for name in others))
        found.append({**names, "measure": measure, **_row(part, other, measure, resamples, rng)})
    if not found:
        return nothing(f"There is no preset here but {baseline}, and a comparison needs two.")
    family = pd.DataFrame(found, columns=[*by, *_ROW])
    family["p_holm"] = pairs.holm(family["p"].tolist())
    # Whole numbers that may be missing.
    return family.astype({"n": "Int64", "left_out": "Int64"})


def _row(
    part: pd.DataFrame,
    other: pd.DataFrame | None,
    measure: str,
    resamples: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the comparison of one preset with the baseline, or a note why there is none."""
    if other is None:
        return {"note": "the baseline was not asked"}
    differs = _differing(part, other)
    if differs:
        return {"note": f"asked with another {', '.join(differs)}"}
    both = joined(part, other, measure)
    if both.empty:
        return {"note": "no question in common"}
    row = pairs.compared(both, resamples, rng)
    left_out = len(part) + len(other) - 2 * len(both)
    means = {"mean": row["first"], "baseline": row["second"]}
    return {**{name: row[name] for name in row if name in _ROW}, **means, "left_out": left_out,
            "note": ""}  # fmt: skip


def joined(part: pd.DataFrame, other: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the questions that two presets were both asked, with both values and their episode.

    Parameters
    ----------
    part, other
        The rows of one preset each, of the same model.
    measure
        The column of values.

    Returns
    -------
    DataFrame
        ``task`` (the suite), ``value``, ``value_other``, ``unit`` and ``difference``.
    """
    keys = [*QUESTION, "gold"]
    columns = [*keys, measure]
    both = part[[*columns, "unit"]].merge(other[columns], on=keys, suffixes=("", "_other"))
    both = both.rename(
        columns={measure: "value", f"{measure}_other": "value_other", "suite": "task"}
    )
    return both.assign(difference=both["value"] - both["value_other"])


def _differing(part: pd.DataFrame, other: pd.DataFrame) -> list[str]:
    """Return in what the questions were put otherwise: the names of settings, in words."""
    differs: dict[str, None] = {}
    ours, theirs = ([json.loads(each) for each in {*rows["asked"]}] for rows in (part, other))
    for one in ours:
        for two in theirs:
            differs |= dict.fromkeys(_names(one, two))
    return list(differs)


def _names(one: dict[str, Any], two: dict[str, Any]) -> Iterator[str]:
    for name in {**one, **two}:
        first, second = one.get(name), two.get(name)
        if isinstance(first, dict) and isinstance(second, dict):
            yield from _names(first, second)
        elif first != second:
            yield name.replace("_", " ")


# ------------------------------------------------------------- targets


def verdict(low: float, high: float, target: float) -> str:
    """Return whether a value lies above a target, as its interval says."""
    if low > target:
        return REACHED
    return MISSED if high <= target else OPEN


def targets(rows: pd.DataFrame, resamples: int = RESAMPLES, seed: int = 0) -> pd.DataFrame:
    """Return whether the two targets are reached: by each baseline, and by each memory.

    No baseline may answer more than `SATURATED` of `episodic` to the letter; else the suite is
    saturated, and its hard profile is to be run. And a memory is to be better than the baseline
    `BASELINE` on `episodic_multi` by `BETTER` at the size `AT`.

    Parameters
    ----------
    resamples, seed
        See `compared`.

    Returns
    -------
    DataFrame
        ``model``, ``language``, ``preset``, the ``goal`` in words, ``n``, the ``value`` with its
        interval ``low`` and ``high``, the ``target``, the ``verdict``; ``needed``, the questions
        that would tell value and target apart four times in five if the value is what was seen,
        NaN where nothing was; and a ``note``. An empty table says why.

    Raises
    ------
    ParameterError, MissingExtraError
        As `compared`.
    """
    if rows.empty:
        return rows
    plain = rows[(rows["changes"] == "") & ~rows["legacy"].astype(bool)]
    plain = plain[plain["profile"].isin(["default", ""])]
    found = []
    for names, part in groups_of(plain, ("model", "language")):
        for preset in _BASELINES:
            found.append({**names, "preset": preset, **_unsaturated(part, preset)})
        for preset in _MEMORIES:
            row = _better(part, preset, resamples, np.random.default_rng(seed))
            found.append({**names, "preset": preset, **row})
    if not found:
        return nothing("There are no answers of whole presets in the default profile.")
    columns = ["model", "language", "preset", "goal", "n", "value", "low", "high", "target",
               "verdict", "needed", "note"]  # fmt: skip
    return pd.DataFrame(found, columns=columns)


def _unsaturated(rows: pd.DataFrame, preset: str) -> dict[str, Any]:
    """Return whether a baseline stays below the line; sizes and seeds are put together."""
    goal = f"at most {100 * SATURATED:.0f} % raw on episodic"
    own = rows[(rows["suite"] == "episodic") & (rows["preset"] == preset)]
    row = {"goal": goal, "target": SATURATED}
    for _, part in groups(own, ("model",)):
        found = mean(part, "em_raw")
        low, high = found["em_raw low"], found["em_raw high"]
        above = verdict(low, high, SATURATED)
        told = {REACHED: MISSED, MISSED: REACHED}.get(above, above)
        spread = pairs.variance(part.assign(difference=part["em_raw"]))
        note = "saturated: run the profile hard" if told == MISSED else ""
        value = found["em_raw"]
        return {
            **row, "n": len(part), "value": value, "low": low, "high": high, "verdict": told,
            "needed": pairs.samples_needed(value - SATURATED, spread), "note": note,
        }  # fmt: skip
    return {**row, **_unknown(f"{preset} was not asked episodic")}


def _better(
    rows: pd.DataFrame, preset: str, resamples: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Return whether a memory is better than the baseline by as much as it should be."""
    goal = f"{100 * BETTER:.0f} points better than {BASELINE} on episodic_multi at n = {AT}"
    row = {"goal": goal, "target": BETTER}
    asked = rows[rows["suite"] == "episodic_multi"]
    there = asked[asked["size"] == AT]
    sized = there if {preset, BASELINE} <= {*there["preset"]} else asked
    own, other = (
        [part for _, part in groups(sized[sized["preset"] == name], ("model",))]
        for name in (preset, BASELINE)
    )
    if not own or not other:
        asked_for = ((preset, own), (BASELINE, other))
        missing = " and ".join(name for name, parts in asked_for if not parts)
        return {**row, **_unknown(f"not asked episodic_multi: {missing}")}
    found = _row(own[0], other[0], "em_norm", resamples, rng)
    if found["note"]:
        return {**row, **_unknown(found["note"])}
    both = joined(own[0], other[0], "em_norm")
    value, low, high = (found[name] for name in ("difference", "low", "high"))
    return {
        **row, "n": found["n"], "value": value, "low": low, "high": high,
        "verdict": verdict(low, high, BETTER) if sized is there else OPEN,
        "needed": pairs.samples_needed(value - BETTER, pairs.variance(both)),
        "note": "" if sized is there else f"not both were asked at n = {AT}",
    }  # fmt: skip


def _unknown(why: str) -> dict[str, Any]:
    return {"n": 0, "value": math.nan, "low": math.nan, "high": math.nan, "verdict": OPEN,
            "needed": math.nan, "note": why}  # fmt: skip
