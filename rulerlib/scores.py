"""Read predictions and build the long table of scores: a row per prediction and measure.

>>> about = {"model": "lille", "language": "da", "task": "vt", "length": 1024}
>>> prediction = Prediction(0, "...", ["ABCDE", "FGHIJ"], " ABCDE.", {"depths": [50, 60]})
>>> table = scores([(about, prediction)])
>>> table[["measure", "value", "primary", "ruler", "strict"]].to_dict("split")["data"][:2]
[['all_match', 0.0, True, False, True], ['recall', 0.5, False, True, False]]
"""

from __future__ import annotations

import contextlib
import itertools
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from rulerlib import files, store, tasks
from rulerlib.errors import DataError, ParameterError, listed, one_of
from rulerlib.metrics import LIST, Scoring, appear
from rulerlib.samples import Prediction
from rulerlib.tasks import mistakes

NameList = str | Sequence[str] | None
"""Names as a list or as papermill's text; None means all."""

MARKED = ("primary", "ruler", "strict")
"""Columns that mark one measure of each task; `of_measure` accepts their names."""

LAYOUT = "<model>/<language>/<length>/pred/<task>.jsonl"

_Run = tuple[Path, dict[str, Any]]


def read_predictions(
    folders: str | Path | Sequence[str | Path],
    models: NameList = None,
    languages: NameList = None,
    task_names: NameList = None,
    studies: bool = False,
    lengths: int | Sequence[int] | None = None,
) -> Iterator[tuple[dict[str, Any], Prediction]]:
    """Yield every prediction below one or more folders, with the settings of its run.

    The generator checks and reads the files when the first prediction is requested. Runs of
    NVIDIA's scripts have no file of settings; their model, language (``synthetic``), length and
    task come from the path, ``<model>/<language>/<length>/pred/<task>.jsonl``. Unfinished answers
    of a killed run are skipped.

    Parameters
    ----------
    folders
        One or more folders, as a list or separated by commas, relative to where runs are written.
    models, languages, task_names
        Names to include (default: all). A model may also be named by its folder.
    studies
        Whether to read the runs of studies as well.
    lengths
        One or more lengths to include, in tokens (default: all).

    Raises
    ------
    ParameterError
        If a folder does not exist or has no predictions, a name or length matches no run, or two
        files answer the same questions with the same settings.
    DataError
        If a file is damaged.
    """
    runs = _runs(folders, studies)
    chosen = {"models": models, "languages": languages, "tasks": task_names}
    for parameter, given in chosen.items():
        if (names := wanted(parameter, given)) is None:
            continue
        there = sorted({name for run in runs for name in _names(*run)[parameter]})
        for name in names:
            one_of(parameter, name, there)
        runs = [run for run in runs if _names(*run)[parameter] & {*names}]
    if lengths is not None:
        lengths = [lengths] if isinstance(lengths, int) else lengths
        measured = sorted({about["length"] for _, about in runs})
        if not {*lengths} <= {*measured}:
            among = f"among those that were run: {', '.join(map(str, measured))}"
            raise ParameterError("lengths", lengths, among)
        runs = [run for run in runs if run[1]["length"] in lengths]
    for path, about in runs:
        for prediction in store.evidence(path):
            yield about, prediction


def wanted(parameter: str, names: NameList) -> list[str] | None:
    """Return names as a list, also from papermill's ``-p x [a,b]``; None if there are none.

    >>> wanted("x", "[a, b]"), wanted("x", ["a"]), wanted("x", None)
    (['a', 'b'], ['a'], None)

    Raises
    ------
    ParameterError
        If they are neither names nor None.
    """
    if isinstance(names, str):
        names = listed(names)
    if names is None:
        return None
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ParameterError(parameter, names, "names, or None")
    return list(names) or None


def _names(path: Path, about: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the names by which a file of predictions can be chosen, by parameter."""
    return {
        "models": {about["model"], path.parts[-5]},
        "languages": {about["language"]},
        "tasks": {task_label(about), path.stem},
    }


def _runs(folders: str | Path | Sequence[str | Path], studies: bool) -> list[_Run]:
    """Return every file of predictions with its settings, by rising length and RULER's order."""
    runs: dict[str, _Run] = {}
    if isinstance(folders, str):
        folders = listed(folders)
    for folder in [folders] if isinstance(folders, Path) else folders:
        top = files.home() / files.named("runs", folder, "a folder that exists")
        if not top.is_dir():
            raise ParameterError("runs", str(folder), "a folder that exists")
        # Fixed depth, because a folder of runs may contain other folders of runs.
        paths = [*top.glob("*/*/*/pred/*.jsonl")]
        if studies:
            paths += top.glob("studies/*/*/*/*/pred/*.jsonl")
        paths = sorted(path for path in paths if path.stem[0] != ".")
        if not paths:
            raise ParameterError("runs", str(folder), f"a folder with {LAYOUT}")
        for path in paths:
            about = _about(path)
            other, _ = runs.setdefault(json.dumps(about, sort_keys=True), (path, about))
            if other != path:
                twice = f"{other} and {path} answer the same questions with the same settings"
                raise ParameterError("runs", str(folder), f"left out, because {twice}")
    return sorted(runs.values(), key=_position)


def _position(run: _Run) -> tuple[Any, ...]:
    """Return the sort key of a file of predictions."""
    path, about = run
    label, names = task_label(about), [*tasks.all_tasks()]
    # A task with changed knobs follows the task without.
    first = names.index(base_task(label)) if base_task(label) in names else len(names)
    # Default settings first: "task" before "task+seed=7".
    file = path.parent, path.stem
    return about["model"], about["language"], about["length"], first, label, file


def _about(path: Path) -> dict[str, Any]:
    """Return the model, language, task, length and settings of a file of predictions."""
    settings = store.read_settings(path)
    about: Any = settings.get("cell")
    if not about:
        # A run of NVIDIA's scripts.
        model, language, length = path.parts[-5:-2]
        if not length.isdecimal():
            raise DataError(f"{path}: the folder '{length}' should be a length in tokens.")
        about = {"model": model, "language": language, "task": path.stem, "length": int(length)}
    names = ("model", "language", "task")
    if not all(isinstance(about.get(name), str) for name in names) or not about.get("length"):
        reason = "it does not say which model, language, task and length these are"
        raise DataError(f"{store.settings_path(path)}: damaged ({reason}).")
    return dict(about)


def scores(
    predictions: Iterable[tuple[Mapping[str, Any], Prediction]], primary: str | None = None
) -> pd.DataFrame:
    """Return one row for each prediction and measure.

    Parameters
    ----------
    predictions
        The settings of its run (model, language, task, length, and more), and the prediction:
        from `read_predictions`, or from `rulerlib.runs.Run.predictions`.
    primary
        The primary measure of the tasks that have it (default: each task's own).

    Returns
    -------
    DataFrame
        - ``model``: its name, with the settings in which its runs differ; ``language``; ``task``:
          its name, with the knobs that differ from its row; ``length``; those settings in columns
          of their own; ``group`` and ``setting`` of a study, where there is one; ``knobs``;
          ``category``;
          ``questions``, see `_questions`;
        - ``measure``, its ``value`` from 0 to 1, whether it is the task's ``primary`` measure,
          whether it is the one that RULER's script computes (``ruler``), and whether it is the
          task's own, whatever ``primary`` is, which for lists demands all of them (``strict``);
        - ``index``, ``repeat`` (which of several answers to the sample, from 0), ``context_id``
          (the cluster of a question about a passage: other questions about it depend on it too),
          ``pred``, ``outputs``, ``depths``, ``finished``, ``cut_off``
          (``"thinking"``, ``"answer"`` or ``""``), ``truncation``, as `Prediction` has them;
        - ``facts``: what is known of the question, as its operation, and of a short answer, see
          `rulerlib.metrics.Scoring.diagnose`;
        - ``needles``: for each needle that was asked for its depth (0 to 100), and whether it was
          found (1 or 0);
        - ``error``: the kind of a wrong answer, see `rulerlib.tasks.mistakes.KINDS`; else empty.

        Without predictions, an empty table that says so and has these columns.

    Raises
    ------
    ParameterError
        If no task has the measure ``primary``.
    """
    runs: dict[str, _Judging] = {}
    answered: list[tuple[_Judging, dict[str, float], dict[str, Any]]] = []
    # The predictions of one file follow each other.
    for about, group in itertools.groupby(predictions, key=lambda pair: pair[0]):
        key = json.dumps(about, sort_keys=True, default=str)
        judging = runs.setdefault(key, _judging(about, len(runs), primary))
        answered += [(judging, *_answer(prediction, judging)) for _, prediction in group]
    if not answered:
        # Keep all columns, so that other tables can be computed from an empty one.
        any_run = {"model": "", "language": "en", "task": "", "length": 1}
        row = scores([(any_run, Prediction(0, "", [""], ""))])
        return nothing("There are no predictions.", list(row.columns))
    if primary is not None:
        offered = {name for run in runs.values() for name in run.scoring.scores}
        one_of("primary", primary, sorted(offered))
    columns = _columns([run.about for run in runs.values()])
    rows = []
    for run, values, answer in answered:
        for measure, value in values.items():
            marks = {name: measure == marked for name, marked in run.marked.items()}
            measured = {"measure": measure, "value": value, **marks}
            rows.append({**columns[run.number], **measured, **answer})
    return pd.DataFrame(rows)


class _Judging(NamedTuple):
    """How to score the predictions of a run; ``marked`` maps `MARKED` columns to measures."""

    about: Mapping[str, Any]
    number: int
    task: tasks.Task | None
    scoring: Scoring
    marked: dict[str, str]


def _judging(about: Mapping[str, Any], number: int, primary: str | None) -> _Judging:
    name = base_task(about["task"])
    task = tasks.find(name)
    if task and about.get("knobs"):
        # Knobs can change the scoring; ignore those of other projects.
        with contextlib.suppress(ParameterError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            task = tasks.resolve(name, **about["knobs"])
    scoring = task.scoring if task else LIST
    strict = scoring.primary
    if primary is not None and primary in scoring.scores:
        scoring = replace(scoring, primary=primary)
    marked = dict(zip(MARKED, (scoring.primary, scoring.ruler, strict), strict=True))
    return _Judging(about, number, task, scoring, marked)


def _columns(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the columns of each run that identify its predictions."""
    differ = dict.fromkeys(name for names in _differing(runs).values() for name in names)
    columns = []
    for about, model in zip(runs, model_labels(runs), strict=True):
        category, settings = tasks.category(base_task(about["task"])), settings_of(about)
        columns.append({
            "model": model, "language": about["language"], "task": task_label(about),
            "length": about["length"], "questions": _questions(about),
            **{name: settings.get(name) for name in differ},
            **{name: about[name] for name in ("group", "setting") if name in about},
            "knobs": knobs_of(about), "category": category,
        })  # fmt: skip
    return columns


def _answer(prediction: Prediction, judging: _Judging) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the measures of one prediction and the other columns of its rows."""
    pred, outputs, others = prediction.pred, prediction.outputs, prediction.others
    task, scoring, golds = judging.task, judging.scoring, prediction.golds
    language = others.get("language") or "en"
    values = scoring.score(pred, outputs, golds, language)
    facts = dict(others.get("facts", {}))
    if golds:
        facts |= scoring.diagnose(pred, golds, language)
    finished, depths = others.get("finished", True), others.get("depths", [])
    # Old records only have `finished`.
    cut_off = others.get("cut_off", None if finished else "answer") or ""
    right = values[scoring.primary] == 1
    appearing: Sequence[bool] = appear(pred, outputs)
    if "recall" not in scoring.measures:
        # If one reference suffices, the needle is the document with the answer. Count it as found
        # only if the answer is right: its number may occur in the reasoning or in another number.
        appearing = [right if golds else any(appearing)]
    explain = task.mistake if task else mistakes.explain_values
    return values, {
        "error": "" if right else explain(prediction, bool(cut_off)),
        "index": prediction.index, "repeat": prediction.repeat,
        "context_id": others.get("cluster") or others.get("context_id"),
        "pred": pred, "outputs": outputs, "facts": facts,
        "depths": depths, "finished": finished, "cut_off": cut_off,
        "needles": list(zip(depths, map(float, appearing), strict=False)),
        "truncation": prediction.truncation,
    }  # fmt: skip


def of_measure(table: pd.DataFrame, measure: str = "primary") -> pd.DataFrame:
    """Return the rows of one measure: one row for each prediction.

    Parameters
    ----------
    table
        From `scores`.
    measure
        ``"primary"`` (each task's own, or the one passed to `scores`), ``"ruler"`` (the one that
        RULER's script computes), ``"strict"`` (always each task's own), or a name in
        `rulerlib.metrics.MEASURES`.

    Raises
    ------
    ParameterError
        If no row has this measure.
    """
    one_of("measure", measure, [*MARKED, *dict.fromkeys(table["measure"])])
    if measure in MARKED:
        return table[table[measure].astype(bool)]
    return table[table["measure"] == measure]


def nothing(why: str, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Return an empty table with the reason in ``attrs``, which `rulerlib.show` shows."""
    table = pd.DataFrame(columns=list(columns))
    table.attrs["why"] = why
    return table


# --- Labels of runs -------------------------------------------------------------------------------
# The label of a run is its model and the settings in which the runs of that model differ; defaults
# are left out, as in the names of folders (`rulerlib.store.Cell`).

# Keys that identify a prediction and are not settings of a run.
_IDENTITY = (
    "model", "language", "task", "length", "knobs", "name", "label", "hash", "group", "setting",
    "scoring", "metadata",
)  # fmt: skip

# Settings that are mappings of settings.
_WITHIN = ("format", "options")

# Settings that select the questions, in addition to task, knobs, language and length.
_OF_QUESTIONS = ("seed", "texts", "queries_per_context")

# Settings that only some tasks of a run have; they are compared within each task.
_OF_TASKS = ("texts", "queries_per_context", "study", "family")

# Longer values are replaced by their hash.
_LONGEST = 32


def settings_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a run by name, including those of its format and engine."""
    values = {name: value for name, value in about.items() if name not in (*_IDENTITY, *_WITHIN)}
    return values | dict(item for name in _WITHIN for item in (about.get(name) or {}).items())


# The default settings.
_USUAL = settings_of(store.Cell("model", "task", "da", 1).settings())


def _questions(about: Mapping[str, Any]) -> str:
    """Return the settings that select a run's questions as one text to compare."""
    of_run = settings_of(about)
    values = [of_run.get(name, _USUAL.get(name)) for name in _OF_QUESTIONS]
    return _text([*values, of_run["family"]] if of_run.get("family") else values)


def _differing(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return for each model the settings in which its runs differ."""
    seen: dict[tuple[str, str, str], str] = {}
    differ: dict[str, list[str]] = {about["model"]: [] for about in runs}
    cells = [f"{task_label(about)} {about.get('language')} {about.get('length')}" for about in runs]
    rows = [*zip((about["model"] for about in runs), cells, map(settings_of, runs), strict=True)]
    names = dict.fromkeys(name for *_, values in rows for name in values)
    for name, (model, cell, values) in itertools.product(names, rows):
        value = _text(values.get(name, _USUAL.get(name)))
        first = seen.setdefault((model, name, cell if name in _OF_TASKS else ""), value)
        if first != value and name not in differ[model]:
            differ[model].append(name)
    return differ


def model_labels(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a label for the model of each run."""
    differ = _differing(runs)
    labels = []
    for about in runs:
        values = {name: settings_of(about).get(name) for name in differ[about["model"]]}
        unusual = {
            name: value for name, value in values.items() if _text(value) != _text(_USUAL.get(name))
        }
        name = model_label(about["model"], settings_of(about).get("engine"))
        labels.append(", ".join(filter(None, [name, _settings_in_words(unusual)])))
    return labels


def model_label(name: str, engine: str | None) -> str:
    """Return the name of a model; the reference reader is marked as not a model."""
    reads = "reads by the grammar of the texts; no model"
    return f"{name} ({reads})" if engine == "reference" else name


def task_label(about: Mapping[str, Any]) -> str:
    """Return a task's name with the knobs that differ from its row in the table of tasks."""
    name, given = about["task"], about.get("knobs") or {}
    if "+" in name:
        # A label from a file name already contains the knobs.
        return str(name)
    row = {knob: _text(value) for knob, value in _row_of(name).items()}
    changed = [knob for knob in sorted(given) if row.get(knob) != _text(given[knob])]
    return "+".join([name, *(f"{knob}={given[knob]}" for knob in changed)])


def base_task(label: str) -> str:
    """Return a task's name without the parameters that a run changed.

    >>> base_task("vt+num_hops=8")
    'vt'
    """
    return label.partition("+")[0]


def knobs_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return all known knobs of a prediction's task."""
    return {**_row_of(base_task(about["task"])), **(about.get("knobs") or {})}


def _row_of(name: str) -> dict[str, Any]:
    row = tasks.find(name)
    return row.settings() if row else {}


def _settings_in_words(settings: Mapping[str, Any]) -> str:
    """Return settings in a few words, without those that are None."""
    words = []
    for name, value in settings.items():
        spoken = name.replace("_", " ")
        if name == "decoding" and isinstance(value, Mapping):
            words.append(_settings_in_words(value))
        elif isinstance(value, bool):
            words.append(spoken if value else f"no {spoken}")
        elif value is not None:
            text = value if isinstance(value, str) else _text(value)
            short = text if len(text) <= _LONGEST else "#" + files.digest([text])[:4]
            words.append(f"{spoken} {short}")
    return ", ".join(words)


def _text(value: Any) -> str:
    """Return plain data as JSON for comparison, so that a list equals a tuple."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
