"""RULER's averages, and how long a context is effective.

The unit here is RULER's: percent, 0 to 100. A model's number at a length is the
mean over its tasks; over lengths there are the plain average (Avg.) and two
weighted ones, whose weights rise (inc) or fall (dec) linearly from length to
length, 1 to k (Hsieh et al. 2024, "RULER: What's the Real Context Size of Your
Long-Context Language Models?", section 4). The effective length is the longest
whose average exceeds a threshold, there 85.6: Llama-2-7B (chat) at 4K.

>>> str(effective({4096: 95.1, 8192: 93.8, 16384: 83.6}))
'8K'
>>> round(weighted([90.0, 80.0, 70.0], "inc"), 1), round(weighted([90.0, 80.0, 70.0], "dec"), 1)
(76.7, 83.3)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rulerlib.analysis.tables import clusters, groups_of, nothing
from rulerlib.errors import ParameterError, one_of, whole_number

THRESHOLD = 85.6

READINGS = ("longest", "unbroken")
"""``longest``: the longest length above the threshold; ``unbroken``: the longest with no failure
before it. They differ where a model falls below the threshold and comes back."""

WEIGHTS = ("even", "inc", "dec")

AVERAGES = ("Avg.", "wAvg. (inc)", "wAvg. (dec)")
"""RULER's names for the averages with these weights."""

BY = ("model", "language")

RESAMPLES = 2000


@dataclass(frozen=True)
class Effective:
    """An effective length, as far as it is known.

    Attributes
    ----------
    length
        The longest length above the threshold; None: not even the shortest that was measured.
    open
        Whether a longer one might be effective too, because nobody measured it.
    shortest
        The shortest length that was measured.
    """

    length: int | None
    open: bool
    shortest: int

    def __str__(self) -> str:
        if self.length is None:
            return f"<{thousands(self.shortest)}"
        return f"{'≥' if self.open else ''}{thousands(self.length)}"


def thousands(length: int) -> str:
    """A length as it is written: ``"128K"``, ``"1000"``."""
    return f"{length // 1024}K" if length % 1024 == 0 else str(length)


def effective(
    averages: Mapping[int, float | None], threshold: float = THRESHOLD, reading: str = "longest"
) -> Effective:
    """The effective length that follows from the averages.

    An unmeasured length is never guessed: it neither passes nor fails. So the
    longest measured length, if it passes, is only a lower bound, and the
    unbroken reading ends, open, at a gap. The other reading is closed by any
    longer length that was measured and failed.

    Parameters
    ----------
    averages
        For each length its average in percent; None or NaN where it was not measured.
    threshold
        What an average has to exceed, in percent.
    reading
        A name in ``READINGS``.

    Raises
    ------
    ParameterError
        If nothing was measured, or there is no such reading.
    """
    one_of("reading", reading, READINGS)
    known = {length: _number(averages[length]) for length in sorted(averages)}
    measured = [length for length, average in known.items() if not math.isnan(average)]
    if not measured:
        raise ParameterError("averages", dict(averages), "measured at one length at least")
    passed = [length for length in measured if known[length] > threshold]
    if reading == "unbroken":
        row = [length for length in known if length >= measured[0]]
        stop = next((length for length in row if not known[length] > threshold), None)
        passed = [length for length in row if stop is None or length < stop]
        longer = stop is None or math.isnan(known[stop])
    else:
        longer = bool(passed) and not any(
            length in measured for length in known if length > passed[-1]
        )
    if not passed:
        return Effective(None, False, measured[0])
    return Effective(passed[-1], longer, measured[0])


def weighted(averages: Sequence[float | None], weights: str = "even") -> float:
    """The mean over lengths, in their order; those that were not measured are left out.

    Parameters
    ----------
    weights
        ``"even"``: RULER's Avg.; ``"inc"``: weights 1 to k over the k lengths measured, so that
        long ones count more; ``"dec"``: k to 1.
    """
    one_of("weights", weights, WEIGHTS)
    known = [_number(average) for average in averages]
    known = [average for average in known if not math.isnan(average)]
    if not known:
        return math.nan
    shares = _weights(len(known), weights).tolist()
    total = math.fsum(w * average for w, average in zip(shares, known, strict=True))
    return float(total / sum(shares))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


@dataclass(frozen=True)
class _Measured:
    """One model in one language: its averages by length, and as many resampled ones."""

    names: dict[str, Any]
    lengths: tuple[int, ...]
    counts: tuple[int, ...]
    missing: tuple[str, ...]
    averages: np.ndarray[Any, Any]
    resampled: np.ndarray[Any, Any]
    tasks: int


def _measured(
    table: pd.DataFrame,
    metric: str,
    by: Sequence[str],
    tasks: Sequence[str] | None,
    resamples: int,
    seed: int,
) -> list[_Measured]:
    whole_number("resamples", resamples, 1)
    whole_number("seed", seed, 0)
    if table.empty:
        raise ParameterError("table", "empty", "a table with at least one answer")
    lengths = tuple(int(length) for length in sorted(table["length"].unique()))
    found = []
    for names, part in groups_of(table, by):
        wanted = list(tasks) if tasks is not None else list(dict.fromkeys(part["task"]))
        # Each group has random numbers of its own: another model in the table changes nothing.
        rng = np.random.default_rng([seed, *(ord(letter) for letter in repr(names))])
        total = np.zeros(len(lengths))
        drawn = np.zeros((resamples, len(lengths)))
        missing: list[list[str]] = [[] for _ in lengths]
        for task in wanted:
            own = part[part["task"] == task]
            sums, counts, paired = _units(own, metric, lengths)
            for place, count in enumerate(counts.sum(axis=0)):
                if not count:
                    missing[place].append(task)
            with np.errstate(invalid="ignore", divide="ignore"):
                total += sums.sum(axis=0) / counts.sum(axis=0)
                drawn += _bootstrap(sums, counts, paired, resamples, rng)
        sizes = part[part["task"].isin(wanted)].groupby("length").size()
        found.append(
            _Measured(
                dict(zip(by, names, strict=True)),
                lengths,
                tuple(int(sizes.get(length, 0)) for length in lengths),
                tuple(", ".join(left) for left in missing),
                100 * total / len(wanted),
                100 * drawn / len(wanted),
                len(wanted),
            )
        )
    return found


def _units(
    table: pd.DataFrame, metric: str, lengths: Sequence[int]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], bool]:
    """Sums and counts for each unit of resampling (rows) and length (columns).

    Also whether the units are the same at all lengths that were measured: the same sample has
    the same needles at every length, so that it is drawn, or not, at all of them together.
    """
    names = clusters(table) if len(table) else pd.Series(dtype=object)
    grouped = table.assign(unit=names).groupby(["unit", "length"])[metric]
    sums = grouped.sum().unstack("length").reindex(columns=list(lengths))
    counts = grouped.size().unstack("length").reindex(columns=list(lengths))
    measured = [length for length in lengths if counts[length].notna().any()]
    same = bool(counts[measured].notna().all(axis=None))
    return sums.fillna(0).to_numpy(dtype=float), counts.fillna(0).to_numpy(dtype=float), same


def _bootstrap(
    sums: np.ndarray[Any, Any],
    counts: np.ndarray[Any, Any],
    paired: bool,
    resamples: int,
    rng: np.random.Generator,
) -> np.ndarray[Any, Any]:
    """Means of resampled units, ``resamples`` x lengths; NaN where nothing was measured."""
    if paired and len(sums):
        drawn = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), resamples)
        return np.asarray((drawn @ sums) / (drawn @ counts))
    means = np.full((resamples, sums.shape[1]), np.nan)
    for place in range(sums.shape[1]):
        has = counts[:, place] > 0
        units = int(has.sum())
        if units:
            drawn = rng.multinomial(units, np.full(units, 1 / units), resamples)
            means[:, place] = (drawn @ sums[has, place]) / (drawn @ counts[has, place])
    return means


def _interval(resampled: np.ndarray[Any, Any]) -> tuple[float, float]:
    if np.isnan(resampled).any():
        return math.nan, math.nan
    low, high = np.quantile(resampled, [0.025, 0.975])
    return float(low), float(high)


def by_length(
    table: pd.DataFrame,
    metric: str = "score",
    by: Sequence[str] = BY,
    tasks: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """The mean over tasks at each length, in percent: RULER's columns.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.
    metric
        ``"score"``: RULER's own number (recall, and part-match for question answering);
        ``"strict"``: all or nothing.
    tasks
        The tasks that the mean is over; None: all that a model was asked at any length. Where
        one of them was not asked, the mean is left open: it could not be compared.
    resamples, seed
        Of the bootstrap (Efron 1979) over samples, or over contexts where samples share them,
        within each task; percentile interval. It has no width where all answers are alike.

    Returns
    -------
    DataFrame
        ``by``, ``length``, ``tasks``, ``n``, ``average``, ``low``, ``high``, ``missing`` (tasks
        that were not asked at this length).
    """
    rows = []
    for one in _measured(table, metric, by, tasks, resamples, seed):
        for place, length in enumerate(one.lengths):
            low, high = _interval(one.resampled[:, place])
            rows.append(
                {**one.names, "length": length, "tasks": one.tasks,
                 "n": one.counts[place], "average": float(one.averages[place]), "low": low,
                 "high": high, "missing": one.missing[place]}
            )  # fmt: skip
    return pd.DataFrame(rows)


def effective_lengths(
    table: pd.DataFrame,
    threshold: float = THRESHOLD,
    metric: str = "score",
    by: Sequence[str] = BY,
    tasks: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """The effective length of each model, in both readings, with its interval.

    The interval is that of the percentile bootstrap over the lengths that were measured: a
    model whose average lies near the threshold has no sharp effective length.

    Returns
    -------
    DataFrame
        ``by``, ``reading``, ``effective`` (as text: ``<4K``, ``16K``, ``≥32K``), ``length`` (NaN:
        none), ``open``, ``low`` and ``high`` (as text), ``threshold``, and ``shares``: for each
        outcome how often it came up among the resamples. One sentence in place of rows where no
        length was asked all tasks.

    Raises
    ------
    ParameterError
        If the threshold is not a percentage.
    """
    check_threshold(threshold)
    rows = []
    for one in _measured(table, metric, by, tasks, resamples, seed):
        known = ~np.isnan(one.averages)
        if not known.any():
            continue
        averages = dict(zip(one.lengths, one.averages.tolist(), strict=True))
        above = np.where(known, one.resampled > threshold, False)
        first = int(known.argmax())
        for reading in READINGS:
            found = effective(averages, threshold, reading)
            place = _places(above, first, reading)
            outcomes = [
                str(_outcome(one.lengths, known, int(at), reading, first)) for at in np.sort(place)
            ]
            shares = pd.Series(outcomes).value_counts(sort=False) / len(outcomes)
            low, high = np.quantile(place, [0.025, 0.975], method="inverted_cdf").astype(int)
            rows.append(
                {
                    **one.names,
                    "reading": reading,
                    "effective": str(found),
                    "length": math.nan if found.length is None else float(found.length),
                    "open": found.open,
                    "low": str(_outcome(one.lengths, known, int(low), reading, first)),
                    "high": str(_outcome(one.lengths, known, int(high), reading, first)),
                    "threshold": threshold,
                    "shares": {str(name): float(share) for name, share in shares.items()},
                }
            )
    if not rows:
        return nothing("At no length was every task asked, so no average can be held against it.")
    return pd.DataFrame(rows)


def check_threshold(value: Any) -> None:
    """Raise ParameterError if this is not a percentage that an average could exceed."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value < 100:
        raise ParameterError("threshold", value, "a number from 0 to below 100, in percent")


def _places(above: np.ndarray[Any, Any], first: int, reading: str) -> np.ndarray[Any, Any]:
    """For each resample the place of its effective length among the lengths; -1: none."""
    count = above.shape[1]
    if reading == "unbroken":
        stops = np.concatenate([~above[:, first:], np.ones((len(above), 1), bool)], axis=1)
        reached = first + stops.argmax(axis=1) - 1
        return np.where(reached < first, -1, reached)
    last = count - 1 - above[:, ::-1].argmax(axis=1)
    return np.where(above.any(axis=1), last, -1)


def _outcome(
    lengths: Sequence[int], known: np.ndarray[Any, Any], place: int, reading: str, first: int
) -> Effective:
    if place < 0:
        return Effective(None, False, lengths[first])
    after = known[place + 1 :]
    # What a reading would have met next decides whether it might have gone on.
    longer = not after[:1].any() if reading == "unbroken" else not after.any()
    return Effective(lengths[place], bool(longer), lengths[first])


def summary(
    table: pd.DataFrame,
    threshold: float = THRESHOLD,
    claimed: Mapping[str, int | str] | None = None,
    metric: str = "score",
    by: Sequence[str] = BY,
    tasks: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """One row for each model, as on RULER's leaderboard.

    Parameters
    ----------
    claimed
        For each model the length that it claims; shown beside the effective one.

    Returns
    -------
    DataFrame
        ``by``; ``claimed``, where given; ``effective`` and its interval, and ``unbroken`` where
        the readings differ for some model; one column for each length (percent);
        ``Avg.``, ``wAvg. (inc)``, ``wAvg. (dec)``, each with ``low``, ``high`` and ``rank``
        (among the models with the same language that were measured at all lengths).
    """
    rows = []
    for one in _measured(table, metric, by, tasks, resamples, seed):
        row = dict(one.names)
        if claimed:
            row["claimed"] = claimed.get(str(row.get("model")), "")
        known = ~np.isnan(one.averages)
        row["lengths"] = int(known.sum())
        row |= {
            thousands(length): average
            for length, average in zip(one.lengths, one.averages.tolist(), strict=True)
        }
        for weights, name in zip(WEIGHTS, AVERAGES, strict=True):
            row[name] = weighted(one.averages.tolist(), weights)
            row[f"{name} low"] = row[f"{name} high"] = math.nan
            if known.any():
                shares = _weights(int(known.sum()), weights)
                row[f"{name} low"], row[f"{name} high"] = _interval(
                    one.resampled[:, known] @ (shares / shares.sum())
                )
        rows.append(row)
    made = pd.DataFrame(rows)
    lengths = table["length"].nunique()
    for name in AVERAGES:
        made[f"{name} rank"] = ranks(
            made[name].where(made["lengths"] == lengths),
            made[[other for other in by if other != "model"]],
        )
    found = effective_lengths(table, threshold, metric, by, tasks, resamples, seed)
    if len(found):
        _add_effective(made, found, by)
    return made


def _add_effective(made: pd.DataFrame, found: pd.DataFrame, by: Sequence[str]) -> None:
    """Put the effective lengths beside the models; the second reading where it says otherwise."""
    keys: pd.Index[Any] = pd.MultiIndex.from_frame(made[list(by)])
    longest, unbroken = (
        found[found["reading"] == reading].set_index(list(by)) for reading in READINGS
    )
    at = 1 + len(by) if "claimed" in made else len(by)
    if len(by) == 1:
        keys = keys.get_level_values(0)
    made.insert(at, "effective", longest["effective"].reindex(keys).to_numpy())
    made.insert(at + 1, "effective low", longest["low"].reindex(keys).to_numpy())
    made.insert(at + 2, "effective high", longest["high"].reindex(keys).to_numpy())
    if longest["effective"].tolist() != unbroken["effective"].tolist():
        made.insert(at + 3, "unbroken", unbroken["effective"].reindex(keys).to_numpy())


def ranks(values: pd.Series, groups: pd.DataFrame | None = None) -> pd.Series:
    """1 is the highest; equal values share the better rank; no rank without a value."""
    # Sums of the same decimals may differ in their last binary digit.
    values = values.round(9)
    if groups is None or groups.shape[1] == 0:
        return values.rank(method="min", ascending=False).astype("Int64")
    keys = [groups[name] for name in groups]
    return values.groupby(keys, sort=False).rank(method="min", ascending=False).astype("Int64")


def _weights(count: int, weights: str) -> np.ndarray[Any, Any]:
    """1 for each length; 1 to k; or k to 1."""
    rising = np.arange(1, count + 1, dtype=float)
    return {"even": np.ones(count), "inc": rising, "dec": rising[::-1]}[weights]
