"""Tables of memories: scores, what was delivered, where answers were lost, and comparisons.

`read` returns one row for each question of all runs in a folder. All tables take these rows and
average what is equal in `BY`. An answer can be wrong because the memory did not deliver the facts,
or because the model misread them: `table` has the scores, `store_table` what the store delivered
and what the model made of it, `fates` where each question was lost, and `compared` the differences
between presets.

>>> rows = pd.DataFrame({"em": [1.0, 0.0, 0.0, 0.0], "in_prompt": [1.0, 1.0, 0.0, 0.0],
...                      "recall": [1.0, 1.0, 1.0, 0.5]})
>>> [fate(row) for row in rows.to_dict("records")]
['right', 'read wrongly', 'no room in the prompt', 'not recalled']

Shares run from 0 to 1. Intervals are at 95% and clustered by episode, because several questions may
be about one episode; see `rulerlib.intervals.clustered`. An empty table says why it is empty.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rulerlib import analysis, samples
from rulerlib.analysis import RESAMPLES, groups_of, rows_of
from rulerlib.errors import DataError, ParameterError
from rulerlib.intervals import clustered, holm
from rulerlib.memory.measures import COLUMNS
from rulerlib.memory.presets import NAMES
from rulerlib.memory.suites import SUITES
from rulerlib.memory.work import CAPACITY, METRICS, TABLE, Work
from rulerlib.scores import model_label, nothing

SCORES = ["em", "em_raw", "f1_norm"]
"""The primary exact match, exact match to the letter, and the F1 of normalized words."""

ENDINGS = ["too_long", "cut_off", "format_violation", "refused"]
"""Shares of answers: no gold fits into the limit; it was cut off; it is not a bare answer; it is a
refusal."""

CONTROLS = ["constant", "chance"]
"""What the most frequent answer gets right, and a taught value drawn at random."""

RECALLS = ["recall_at_1", "recall_at_5"]
"""The shares of the needed facts among the first recalled texts in the prompt."""

PERCENT = [*SCORES, *ENDINGS, *CONTROLS, *RECALLS, "in_prompt", "reader", "leaked", "baseline",
           "difference"]  # fmt: skip
"""The columns of these tables that are shares, for `rulerlib.show.table`."""

FATES = [
    "right", "right without the facts", "read wrongly", "no room in the prompt", "not recalled",
]  # fmt: skip
"""What can happen to a question, see `fate`."""

NOT_ASKED = "No such question was asked."
"""Why a table is empty, unless the rows say more."""

BASELINE = "span_short"
"""The preset that others are compared with: the same decoding and no memory."""

BY = ["model", "language", "suite", "size", "preset"]
"""What is averaged separately."""

QUESTION = ["suite", "language", "profile", "knobs", "seed", "episode", "probe"]
"""What identifies a question."""

# Settings that must be equal if two presets are compared.
_ASKED = ["format", "decoding", "tokens_to_generate"]


# --- Rows -------------------------------------------------------------------------------------


def read(root: str | Path) -> pd.DataFrame:
    """Return one row for each question of all runs below a folder.

    Returns
    -------
    DataFrame
        The columns of ``metrics.csv``, with the whole name of the preset and its changes; of the
        run its ``knobs`` and ``asked`` (prompt format and decoding) as texts. ``unit`` identifies
        the episode. The table is empty without runs.

    Raises
    ------
    ParameterError
        If there is no such folder.
    DataError
        If a file is damaged.
    """
    if not Path(root).is_dir():
        raise ParameterError("root", str(root), "a folder that exists")
    return _rows(path.parent for path in Path(root).rglob(METRICS))


def of_runs(works: Iterable[Work]) -> pd.DataFrame:
    """Return the rows of `read` for some work; work that is not finished is skipped.

    Raises
    ------
    DataError
        If a file is damaged.
    """
    return _rows(job.folder for job in works)


def _rows(folders: Iterable[Path]) -> pd.DataFrame:
    """Return the rows of the runs in some folders.

    Raises
    ------
    DataError
        If a file is damaged.
    """
    runs = [_run(folder) for folder in sorted({*folders}) if (folder / METRICS).exists()]
    if not runs:
        return nothing("No run here has metrics.", [*COLUMNS, "knobs", "asked", "unit"])
    # Suites and presets are in the order of their tables; other presets follow.
    order = {name: place for place, name in enumerate([*SUITES, *NAMES])}
    runs.sort(
        key=lambda run: [order.get(run[name][0].split(",")[0], 99) for name in ("suite", "preset")]
    )
    rows = pd.concat(runs, ignore_index=True)
    rows["unit"] = rows[QUESTION[:-1]].astype(str).agg("/".join, axis=1)
    return rows


def _run(folder: Path) -> pd.DataFrame:
    """Return the questions of the run in a folder."""
    settings, path = samples.read_object(folder / METRICS)["settings"], folder / TABLE
    work, cell = settings["work"], settings["cell"]
    # Only numbers have missing values; a text may be "NA".
    missing = {name: [""] for name, kind in COLUMNS.items() if kind != "str"}
    try:
        rows = pd.read_csv(path, dtype=COLUMNS, keep_default_na=False, na_values=missing)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: damaged ({' '.join(str(error).split())}).") from error
    return rows.assign(
        preset=", ".join([work["preset"], *_texts(work["changes"])]),
        model=model_label(str(rows["model"].iloc[0]), cell["engine"]),
        knobs=", ".join(_texts(work["knobs"])),
        asked=json.dumps([cell[name] for name in _ASKED], sort_keys=True),
    )


def _texts(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(values.items())]


def means(part: pd.DataFrame, *columns: str) -> dict[str, float]:
    """Return the means of columns and their 95% intervals, clustered by episode.

    The ends of an interval are called ``"em low"`` and ``"em high"``. Missing values are left out;
    without any value all three numbers are NaN.
    """
    row: dict[str, float] = {}
    for column in columns:
        measured = part[part[column].notna()]
        mean = clustered(measured[column].tolist(), measured["unit"].tolist())
        low, high = (mean.low, mean.high) if mean.n else (math.nan, math.nan)
        row |= {column: mean.mean, f"{column} low": low, f"{column} high": high}
    return row


def _averaged(
    rows: pd.DataFrame,
    average: Callable[[pd.DataFrame], Mapping[Any, Any]],
    by: Sequence[str] = BY,
) -> pd.DataFrame:
    """Return a row for each group, or an empty table that says why."""
    if rows.empty:
        return nothing(rows.attrs.get("why", NOT_ASKED), [*by, "n"])
    return rows_of(rows, by, lambda part: {"n": len(part), **average(part)})


# --- Scores and what was delivered --------------------------------------------------------------


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the scores: ``n``, the means and intervals of `SCORES`, and the shares `ENDINGS`."""
    return _averaged(rows, lambda part: {**means(part, *SCORES), **part[ENDINGS].mean()})


def store_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what the memory delivered for questions with an answer, and what was made of it.

    Returns
    -------
    DataFrame
        ``n``; `RECALLS`, NaN if a preset recalls nothing; ``mrr``, the mean of 1 / the rank of the
        first text in the prompt with a needed fact; ``in_prompt``, the share of prompts with all
        needed facts; ``reader``, the share of right answers (em) among these; ``leaked``;
        ``latency_ms``, the median time of recall; ``prompt_tokens``, the mean.
    """

    def average(part: pd.DataFrame) -> Mapping[Any, Any]:
        held = part[part["in_prompt"] == 1].rename(columns={"em": "reader"})
        return {
            **part[RECALLS].mean(),
            "mrr": part["rr"].mean(),
            **means(part, "in_prompt"),
            **means(held, "reader"),
            "leaked": part["leaked"].mean(),
            "latency_ms": part["latency_ms"].median(),
            "prompt_tokens": part["prompt_tokens"].mean(),
        }

    return _averaged(rows[rows["answerable"] == 1], average)


def fate(row: Mapping[Any, Any]) -> str:
    """Return what happened to a question with an answer: one of `FATES`."""
    if row["em"] == 1:
        return "right" if row["in_prompt"] == 1 else "right without the facts"
    if row["in_prompt"] == 1:
        return "read wrongly"
    return "no room in the prompt" if row["recall"] == 1 else "not recalled"


def fates(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what happened to the questions with an answer: ``fate``, ``count`` and ``share``."""
    counts = []
    for names, part in groups_of(rows[rows["answerable"] == 1], BY):
        happened, n = [fate(row) for row in part.to_dict("records")], len(part)
        for name in FATES:
            count = happened.count(name)
            counts.append({**names, "n": n, "fate": name, "count": count, "share": count / n})
    return pd.DataFrame(counts) if counts else nothing(rows.attrs.get("why", NOT_ASKED))


def capacity(rows: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy and recall by ``facts``, the number of facts that an episode taught.

    ``em`` and ``recall_at_5`` have intervals.
    """
    asked = rows[(rows["suite"] == CAPACITY) & (rows["answerable"] == 1)]
    # A larger set begins with the smaller ones.
    asked = asked.drop_duplicates([*QUESTION, "model", "preset"], keep="last")
    asked = asked.assign(facts=asked["taught"].astype(int))
    by = ["model", "language", "preset", "facts"]
    return _averaged(asked, lambda part: means(part, "em", "recall_at_5"), by)


# --- Floors and comparisons -------------------------------------------------------------------


def floors(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the scores that need no memory: `CONTROLS`, NaN if unknown."""
    asked = rows.drop_duplicates([*QUESTION, "model", "size"])
    return _averaged(asked, lambda part: dict(part[CONTROLS].mean()), BY[:-1])


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the difference in exact match between each preset and `BASELINE`.

    Presets are compared on the same questions, which takes far fewer of them than two separate
    means. Presets with another format or decoding, such as ``core``, get only a note.

    Returns
    -------
    DataFrame
        ``n`` (questions that both were asked), the ``mean`` of the preset and of the ``baseline``;
        ``difference``, its interval ``low`` and ``high``, ``p``, and ``p_holm``, corrected for all
        rows; ``needed``, the number of questions that would show the difference with a power of
        80%; ``note``, why there is no difference. See `rulerlib.analysis.paired`.

    Raises
    ------
    MissingExtraError
        If `scipy` is not installed.
    """
    rng, comparisons = np.random.default_rng(0), []
    same = [*QUESTION, "model", "size", "gold"]
    # With changed settings, such as the chat template, it is "span_short, ...".
    is_baseline = rows["preset"].astype(str).str.split(",").str[0] == BASELINE
    baseline, others = rows[is_baseline].drop_duplicates(same), rows[~is_baseline]
    if baseline.empty or others.empty:
        return nothing(rows.attrs.get("why", f"A comparison needs {BASELINE} and others."))
    for names, part in groups_of(others, BY):
        both = part.merge(baseline[[*same, "em", "asked"]], on=same, suffixes=("", "_other"))
        row, note = dict[str, Any](), ""
        if both.empty:
            note = "the baseline was not asked"
        elif (both["asked"] != both["asked_other"]).any():
            note = "asked in another way"
        else:
            columns = {"em": "value", "em_other": "value_other", "suite": "task"}
            row = analysis.compared(both.rename(columns=columns), RESAMPLES, rng)
            row |= {"mean": row["first"], "baseline": row["second"]}
        comparisons.append({**names, **row, "note": note})
    measured = ["n", "mean", "baseline", "difference", "low", "high", "p", "p_holm", "needed"]
    family = pd.DataFrame(comparisons, columns=[*BY, *measured, "note"])
    family["p_holm"] = holm(family["p"].tolist())
    # A count that may be missing.
    return family.astype({"n": "Int64"})
