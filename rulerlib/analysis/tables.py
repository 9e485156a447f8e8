"""Tables from predictions: accuracy with its interval, by task, length, depth, knob.

Every table says n, and every mean has an interval.

>>> from rulerlib.samples import Prediction
>>> record = Prediction(0, "...", ["12"], " 12.", {"depths": [50]})
>>> about = {"model": "lille", "language": "da", "task": "niah_single_1", "length": 1024}
>>> table = scores([(about, record)])
>>> accuracy(table)[["task", "length", "n", "all_match"]].to_dict("records")
[{'task': 'niah_single_1', 'length': 1024, 'n': 1, 'all_match': 1.0}]
"""

from __future__ import annotations

import importlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib import metrics, tasks
from rulerlib.analysis import error_analysis
from rulerlib.errors import DataError, MissingExtraError, ParameterError, nearest
from rulerlib.samples import Prediction

BY = ("model", "language", "task", "length")

# RULER's four categories (Hsieh et al. 2024, section 3).
CATEGORIES = {
    "niah": "retrieval",
    "variable_tracking": "multi-hop tracing",
    "common_words": "aggregation",
    "frequent_words": "aggregation",
    "qa": "question answering",
}

# What a prediction belongs to, beside BY, where it is known.
_MORE = ("setting", "knobs")


def read(
    folders: str | Path | Sequence[str | Path],
    models: str | Sequence[str] | None = None,
    languages: str | Sequence[str] | None = None,
    task_names: str | Sequence[str] | None = None,
) -> Iterator[tuple[dict[str, Any], Prediction]]:
    """Every prediction below one or more folders, with what it belongs to, as a stream.

    Files lie as this project and NVIDIA's scripts lay them:
    ``<model>/<language>/<length>/pred/<task>.jsonl``. Theirs have ``synthetic``
    in the place of the language. A last line that a killed run left unfinished
    does not count.

    Parameters
    ----------
    folders
        A folder, or several.
    models, languages, task_names
        Only these, by the names of their folders and files; None: all.

    Raises
    ------
    ParameterError
        If a folder does not exist or holds no predictions, or a name stands in none of them.
    DataError
        If a file is damaged.
    """
    chosen = {
        "models": wanted(models),
        "languages": wanted(languages),
        "tasks": wanted(task_names),
    }
    files = _files(folders)
    known = [{str(file[place]) for file in files} for place in (1, 2, 4)]
    for (name, names), there in zip(chosen.items(), known, strict=True):
        for value in names or ():
            if value not in there:
                raise ParameterError(name, value, nearest(value, sorted(there)))
    for path, model, language, length, task in files:
        asked = zip((model, language, task), chosen.values(), strict=True)
        if any(names is not None and value not in names for value, names in asked):
            continue
        about = {"model": model, "language": language, "task": task, "length": length}
        knobs = _knobs(path)
        if knobs:
            about["knobs"] = knobs
        for record in _records(path):
            yield about, record


def wanted(names: str | Sequence[str] | None) -> list[str] | None:
    """Names as a list: papermill's ``-p x [a,b]`` arrives as text; None where there are none.

    >>> wanted("[a, b]"), wanted(["a"]), wanted(None)
    (['a', 'b'], ['a'], None)
    """
    if names is None:
        return None
    if isinstance(names, str):
        names = [name for name in tasks.listed(names) if name]
    return list(names) or None


def _files(
    folders: str | Path | Sequence[str | Path],
) -> list[tuple[Path, str, str, int, str]]:
    """Path, model, language, length and task of every file of predictions; lengths rising."""
    if isinstance(folders, (str, Path)):
        folders = [folders]
    found: dict[tuple[str, str, int, str], Path] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise ParameterError("runs", str(folder), "a folder that exists")
        # So deep and no deeper: a folder of runs may hold another one, of other runs.
        paths = [
            path for path in folder.resolve().glob("*/*/*/pred/*.jsonl") if path.stem[0] != "."
        ]
        if not paths:
            raise ParameterError(
                "runs", str(folder), "a folder with <model>/<language>/<length>/pred/<task>.jsonl"
            )
        for path in paths:
            *_, model, language, length, _, _ = path.parts
            if not length.isdecimal():
                raise DataError(f"{path}: the folder '{length}' should be a length in tokens.")
            cell = model, language, int(length), path.stem
            if found.setdefault(cell, path) != path:
                raise ParameterError(
                    "runs",
                    [str(folder) for folder in folders],
                    f"folders with one answer to each question, and {found[cell]} and {path} are"
                    " of the same model and task",
                )
    order = {name: place for place, name in enumerate(tasks.TASKS)}
    # Tasks in RULER's order, those with knobs after the task that they change.
    cells = sorted(
        found, key=lambda cell: (*cell[:3], order.get(base(cell[3]), len(order)), cell[3])
    )
    return [(found[cell], *cell) for cell in cells]


def _records(path: Path) -> Iterator[Prediction]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield Prediction.from_json(line.decode("utf-8"))
            except (DataError, UnicodeDecodeError) as error:
                raise DataError(f"{path}, line {number}: {str(error).rstrip('.')}.") from error


def _knobs(path: Path) -> dict[str, Any]:
    beside = path.with_suffix(".settings.json")
    if not beside.exists():
        return {}
    try:
        found = json.loads(beside.read_text(encoding="utf-8")).get("dataset", {}).get("knobs", {})
    except (OSError, ValueError, AttributeError) as error:
        raise DataError(f"{beside}: damaged ({error}).") from error
    return dict(found)


def base(label: str) -> str:
    """A task's name without the knobs that a run changed.

    >>> base("vt+num_hops=8")
    'vt'
    """
    return label.partition("+")[0]


def scores(predictions: Iterable[tuple[Mapping[str, Any], Prediction]]) -> pd.DataFrame:
    """One row for each prediction.

    Parameters
    ----------
    predictions
        What a prediction belongs to (model, language, task, length), and it: from `read`, or
        from `rulerlib.runs.Run.predictions`.

    Returns
    -------
    DataFrame
        Those columns, and

        - ``category``: RULER's; ``metric``: the task's strict rule;
        - ``all_match``, ``recall``, ``part_match``; ``strict``: the strict rule's value;
          ``score``: RULER's own number, recall, or part-match for question answering;
        - ``index``, ``context_id``, ``pred``, ``outputs``, ``depths``, ``finished``, ``cut_off``
          (``"thinking"``, ``"answer"`` or ``""``), ``truncation``, ``copied``;
        - ``error`` and what goes with it, see `rulerlib.analysis.error_analysis.classify`;
        - ``setting`` and ``knobs`` where they are known.
    """
    rows = []
    for about, record in predictions:
        row = {name: about[name] for name in (*BY, *_MORE) if name in about}
        task = tasks.TASKS.get(base(about["task"]))
        family = task.family if task else ""
        row["category"] = CATEGORIES.get(family, "other")
        row["index"] = record.index
        row["metric"] = about.get("metric", task.metric if task else "all_match")
        for name, metric in metrics.METRICS.items():
            row[name] = metric(record.pred, record.outputs)
        finished = record.others.get("finished", True)
        # Records that were written before it was known where the limit struck.
        cut_off = record.others.get("cut_off", None if finished else "answer") or ""
        row |= {
            "strict": row[row["metric"]],
            "score": row["part_match" if row["metric"] == "part_match" else "recall"],
            "context_id": record.others.get("context_id"),
            "pred": record.pred,
            "outputs": record.outputs,
            "depths": record.others.get("depths", []),
            "finished": finished,
            "cut_off": cut_off,
            "truncation": record.truncation,
            "copied": copied(record),
        }
        row |= error_analysis.classify(record, family, row["strict"] == 1, bool(cut_off))
        rows.append(row)
    return pd.DataFrame(rows)


def copied(record: Prediction) -> float:
    """The share of the words in the prompt's worked example that the answer repeats.

    Models copy from the example at long lengths (RULER, section 5). NaN where
    the prompt has no example with the same beginning of an answer.
    """
    prefix = record.others.get("answer_prefix", "")
    _, shown, rest = record.input.partition(prefix) if prefix else ("", "", "")
    words = set(re.findall(r"[^\W\d_]{3,}", metrics.normalize(rest.partition("\n\n")[0])))
    if not shown or not words:
        return math.nan
    said = set(re.findall(r"[^\W\d_]{3,}", metrics.normalize(record.pred)))
    return len(words & said) / len(words)


def with_knobs(table: pd.DataFrame, *names: str) -> pd.DataFrame:
    """The table with a column for each of these knobs, so that one can average by it.

    Rows whose family does not have a knob are left out.

    >>> from rulerlib.samples import Prediction
    >>> about = {"model": "m", "language": "da", "task": "vt", "length": 512}
    >>> made = scores([({**about, "knobs": {"num_hops": 4}}, Prediction(0, "", ["A"], "A"))])
    >>> accuracy(with_knobs(made, "num_hops"), by=("num_hops",))["n"].tolist()
    [1]

    Raises
    ------
    ParameterError
        If no row has such a knob.
    """
    knobs = table["knobs"] if "knobs" in table else pd.Series([{}] * len(table), table.index)
    knobs = knobs.map(lambda value: value if isinstance(value, Mapping) else {})
    known = dict.fromkeys(name for value in knobs for name in value)
    for name in names:
        if name not in known:
            raise ParameterError("knob", name, nearest(name, known))
    has = knobs.map(lambda value: all(name in value for name in names)).astype(bool)
    columns = {name: knobs[has].map(lambda value, name=name: value[name]) for name in names}
    return table[has].assign(**columns)


def changed_knobs(table: pd.DataFrame) -> list[str]:
    """The knobs in which the runs of one task differ."""
    seen: dict[tuple[str, str], set[str]] = {}
    # A knob's value may be a list, which has no hash.
    for task, values in zip(table["task"], table["knobs"], strict=True):
        for name, value in values.items() if isinstance(values, Mapping) else ():
            seen.setdefault((base(task), name), set()).add(repr(value))
    return list(dict.fromkeys(name for (_, name), values in seen.items() if len(values) > 1))


def accuracy(
    table: pd.DataFrame, metric: str = "all_match", by: Sequence[str] = BY
) -> pd.DataFrame:
    """Means with their 95 % interval.

    Wilson's for independent samples. Where samples share contexts, the interval is
    cluster-robust, and ``design_effect`` says by how much the sharing widened its variance.

    Parameters
    ----------
    table
        From `scores`.
    metric
        A column of ``table`` between 0 and 1.
    by
        What is averaged separately: any columns, such as ``("category", "length")``.

    Returns
    -------
    DataFrame
        ``by``, ``n``, the metric, ``low``, ``high``; mean ``recall`` beside all-match,
        because RULER's script reports it under the same name; where contexts are shared,
        ``contexts`` (how many) and ``design_effect``; and ``cut_off``, where there are any, the
        share of answers that are wrong and were cut off by the limit.
    """
    if "cut_off" in table:
        table = table.assign(cut_off=(table["cut_off"] != "") & (table[metric] < 1))
    grouped = groups_of(table, by)
    made = grouped.agg(n=(metric, "size"), **{metric: (metric, "mean")}).reset_index()
    made = _with_interval(made, metric)
    if shared(table):
        _with_clusters(made, grouped, metric)
    if metric == "all_match" and "recall" in table:
        made["recall"] = grouped["recall"].mean().to_numpy()
    if "cut_off" in table and table["cut_off"].any():
        made["cut_off"] = grouped["cut_off"].mean().to_numpy()
    return plain(made, by)


def shared(table: pd.DataFrame) -> bool:
    """Whether any two samples of one cell share their context."""
    if "context_id" not in table or not table["context_id"].notna().any():
        return False
    cells = [name for name in (*BY, "setting", "context_id") if name in table]
    return bool(table[table["context_id"].notna()].duplicated(cells).any())


def clusters(table: pd.DataFrame) -> pd.Series:
    """What may be resampled on its own: a shared context, or a sample that shares none.

    The same number in two tasks, lengths or languages is not the same context.
    """
    cells = [name for name in (*BY, "setting") if name in table and name != "length"]
    own = table["context_id"] if "context_id" in table else pd.Series(None, table.index)
    names = [
        ("alone", index) if pd.isna(context) else ("context", context)
        for index, context in zip(table["index"], own, strict=True)
    ]
    places = table[cells].astype(str).agg("/".join, axis=1) if cells else ""
    units = pd.Series([f"{kind} {number}" for kind, number in names], table.index, dtype=object)
    return places + "/" + units


def needles(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each needle that was asked for: its depth, and whether its value was found.

    Where any one reference suffices (question answering), the needle is the
    document with the answer.
    """
    rows = []
    for row in table.to_dict("records"):
        wanted = [[output] for output in row["outputs"]]
        if row["metric"] == "part_match":
            wanted = [row["outputs"]]
        for depth, references in zip(row["depths"], wanted, strict=False):
            found = metrics.part_match(row["pred"], references)
            rows.append({**{name: row[name] for name in BY}, "depth": depth, "found": found})
    return pd.DataFrame(rows, columns=[*BY, "depth", "found"])


def by_depth(table: pd.DataFrame, bins: int = 10, by: Sequence[str] = BY) -> pd.DataFrame:
    """Share of needles found, by depth.

    Parameters
    ----------
    bins
        Into how many equal parts 0 to 100 is cut. A depth on a seam belongs to the part
        towards the middle, so that each of 10 parts holds four of RULER's 40 depths.

    Returns
    -------
    DataFrame
        ``by``, ``depth`` (the middle of its part), ``n``, ``found``, ``low``, ``high``.
    """
    found = needles(table)
    part = (found["depth"] * bins // 100).where(
        found["depth"] <= 50, bins - 1 - (100 - found["depth"]) * bins // 100
    )
    found["depth"] = (part + 0.5) * 100 / bins
    grouped = groups_of(found, [*by, "depth"])
    made = grouped.agg(n=("found", "size"), found=("found", "mean")).reset_index()
    return plain(_with_interval(made, "found"), by)


def wrong(table: pd.DataFrame, metric: str = "all_match", count: int = 3) -> pd.DataFrame:
    """The first wrong answers, each from another length where possible, in full."""
    failed = table[table[metric] < 1]
    first = failed.groupby("length", sort=False).head(1)
    rest = failed.drop(first.index)
    chosen = pd.concat([first, rest]).head(count)
    return chosen[["task", "length", "index", "depths", "outputs", "pred"]]


def errors(table: pd.DataFrame, by: Sequence[str] = BY) -> pd.DataFrame:
    """What kinds of mistakes there are, as shares of all answers.

    Parameters
    ----------
    table
        From `scores`.
    by
        What is counted separately.

    Returns
    -------
    DataFrame
        ``by``, ``error`` (a name in `error_analysis.KINDS`, only those that occur), ``n`` (all
        answers, right ones too), ``count``, ``share`` and its Wilson interval ``low``, ``high``.
        The shares of a group add up to its error rate.
    """
    kinds = [kind for kind in error_analysis.KINDS if (table["error"] == kind).any()]
    rows = []
    for names, part in groups_of(table, by):
        counts = part["error"].value_counts()
        for kind in kinds:
            count, n = int(counts.get(kind, 0)), len(part)
            low, high = metrics.wilson(count, n)
            rows.append(
                {**dict(zip(by, names, strict=True)), "error": kind, "n": n, "count": count,
                 "share": count / n, "low": low, "high": high}
            )  # fmt: skip
    columns = [*by, "error", "n", "count", "share", "low", "high"]
    if not rows:
        return nothing("Every answer is right: there are no errors to sort.", columns)
    return pd.DataFrame(rows, columns=columns)


def mistaken_places(table: pd.DataFrame, by: Sequence[str] = ("task", "length")) -> pd.DataFrame:
    """How near the distractors that were taken stood to the right values.

    Returns
    -------
    DataFrame
        ``by``, ``n`` (answers with a distractor whose place is known), ``distance``: the mean,
        in percentage points of depth; ``low``, ``high``: its 95 % interval (Student's t; open
        where n is 1); ``expected``: what a distractor taken at random would give. A distance
        below ``expected`` says that the model looked in about the right place.
    """
    placed = table[table["distance"].notna()]
    columns = [*by, "n", "distance", "low", "high", "expected"]
    if placed.empty:
        return nothing("No wrong answer is the value of a distractor with a place.", columns)
    stats = scipy("stats")
    grouped = groups_of(placed, by)
    made = grouped.agg(
        n=("distance", "size"), distance=("distance", "mean"), expected=("expected", "mean"),
        error=("distance", "sem"),
    ).reset_index()  # fmt: skip
    reach = made.pop("error") * stats.t.ppf(0.975, (made["n"] - 1).clip(lower=1))
    made["low"] = (made["distance"] - reach).clip(lower=0)
    made["high"] = (made["distance"] + reach).clip(upper=100)
    return plain(made, by)[columns]


def error_examples(table: pd.DataFrame, count: int = 1) -> pd.DataFrame:
    """Real wrong answers, ``count`` of each kind, each from another length where possible."""
    columns = ["error", "task", "language", "length", "index", "depths", "outputs", "pred"]
    parts = []
    for kind in error_analysis.KINDS:
        failed = table[table["error"] == kind]
        first = failed.groupby("length", sort=False).head(1)
        parts.append(pd.concat([first, failed.drop(first.index)]).head(count))
    made = pd.concat(parts)[columns]
    return made if len(made) else nothing("Every answer is right.", columns)


def scipy(module: str) -> Any:
    """A part of `scipy`, which is loaded only where it is used.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    try:
        return importlib.import_module(f"scipy.{module}")
    except ImportError as error:
        raise MissingExtraError("scipy", "notebook", "This analysis") from error


def nothing(why: str, columns: Sequence[str] = ()) -> pd.DataFrame:
    """An empty table that says in one sentence why; `rulerlib.show` shows the sentence."""
    made = pd.DataFrame(columns=list(columns))
    made.attrs["why"] = why
    return made


def groups_of(table: pd.DataFrame, by: Sequence[str]) -> Any:
    """Groups in the order in which names first appear, and numbers rising."""
    names = [name for name in by if not pd.api.types.is_numeric_dtype(table[name])]
    ordered = {name: pd.Categorical(table[name], table[name].unique()) for name in names}
    return table.assign(**ordered).groupby(list(by), sort=True, observed=True)


def plain(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    names = [name for name in by if isinstance(table[name].dtype, pd.CategoricalDtype)]
    return table.astype(dict.fromkeys(names, object))


def _with_interval(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    intervals = [
        metrics.wilson(min(n, max(0.0, mean * n)), n)
        for n, mean in zip(table["n"].tolist(), table[metric].tolist(), strict=True)
    ]
    table["low"] = [low for low, _ in intervals]
    table["high"] = [high for _, high in intervals]
    return table


def _with_clusters(made: pd.DataFrame, grouped: Any, metric: str) -> None:
    """Replace Wilson's interval by the cluster-robust one in the groups that share contexts."""
    made["contexts"] = made["n"]
    made["design_effect"] = 1.0
    for row, (_, part) in zip(made.index, grouped, strict=True):
        names = clusters(part)
        made.loc[row, "contexts"] = names.nunique()
        if names.nunique() < len(part):
            found = metrics.clustered(part[metric].tolist(), names.tolist())
            made.loc[row, ["low", "high", "design_effect"]] = [
                found.low, found.high, found.design_effect
            ]  # fmt: skip
