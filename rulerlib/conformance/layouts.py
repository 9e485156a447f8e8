"""The files that ports of RULER write, read as questions with what came of them.

Three layouts are told apart by the fields of their records: NVIDIA's scripts, this project's own
runs, and lm-eval (``--log_samples``).

>>> import pathlib, tempfile
>>> folder = pathlib.Path(tempfile.mkdtemp()) / "4096" / "pred"
>>> folder.mkdir(parents=True)
>>> line = '{"index": 0, "input": "Who? Answer:", "outputs": ["Ada"], "pred": " Ada."}'
>>> _ = (folder / "qa_1.jsonl").write_text(line)
>>> layout, paths = find(folder)
>>> file, = read(layout, paths)
>>> layout, file.task.name, file.length, file.answers[0].pred
('NVIDIA', 'qa_1', 4096, ' Ada.')
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rulerlib import tasks
from rulerlib.errors import DataError, shortened
from rulerlib.files import named
from rulerlib.samples import Prediction, Record, Sample, read_object
from rulerlib.samples import read as read_records
from rulerlib.store import answers
from rulerlib.texts import read_file

NVIDIA, OWN, LM_EVAL = "NVIDIA", "rulerlib", "lm-eval"
"""The layouts by name."""

# What lm-eval calls RULER's two tasks of questions.
_ALIASES = {"qa_squad": "qa_1", "qa_hotpot": "qa_2"}
_NAMES = {name: name for name in (*tasks.RULER, *tasks.FRONTIER)} | _ALIASES
# Longest first, so that a task of ours that is named after one of RULER's is not taken for it.
_LONGEST_FIRST = sorted({*tasks.TASKS, *_ALIASES}, key=len, reverse=True)
_TASK = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(_LONGEST_FIRST)})(?![a-z0-9])")


@dataclass(frozen=True)
class PortAnswer:
    """One question as a port asked it, and what came of it; None: the files do not say.

    Attributes
    ----------
    where
        The file and the number of the record in it.
    prompt
        What the model was fed, as far as the record has it.
    outputs
        The references.
    prefix
        The answer prefix that the record states.
    length
        Tokens of the prompt and of the room for an answer, as the record states them.
    pred, score
        What the model wrote, and how the port scored it, from 0 to 1.
    room
        The tokens that the model might generate.
    """

    where: str
    prompt: str
    outputs: tuple[str, ...]
    prefix: str | None = None
    length: int | None = None
    pred: str | None = None
    score: float | None = None
    room: int | None = None


@dataclass(frozen=True)
class PortFile:
    """The questions of one task at one length in one file.

    Attributes
    ----------
    path
        The file of the answers, or of the questions where there are no answers.
    task
        Which of RULER's tasks they are of, or of the frontier's; its knobs are those of the table.
    length
        The context length that the files' names or records say; None: they do not.
    answers
        The questions, with what came of them.
    mean
        The mean score, from 0 to 1, that the port reports; None: none.
    """

    path: Path
    task: tasks.Task
    length: int | None
    answers: list[PortAnswer]
    mean: float | None = None


@dataclass(slots=True)
class Row(Record):
    """A line of any JSONL file."""

    values: dict[str, Any]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the row with all its fields."""
        return cls(values)


def find(folder: str | Path) -> tuple[str, list[Path]]:
    """Return the layout of a folder and its files of questions and answers.

    Raises
    ------
    DataError
        If there is no such folder, no file in it that is read, one that is of no known layout, or
        two of different layouts.
    ParameterError
        If no folder can have such a name.
    """
    top = named("folder", folder, "a folder with prompts and answers")
    if not top.is_dir():
        raise DataError(f"{top}: no such folder.")
    files = sorted(top.rglob("*.jsonl"))
    layouts: dict[str, Path] = {}
    for path in files:
        layouts.setdefault(_layout(path), path)
    if not layouts:
        raise DataError(f"{top}: no files of prompts or answers (*.jsonl) in it.")
    if len(layouts) > 1:
        both = " and ".join(f"{name} ({path.relative_to(top)})" for name, path in layouts.items())
        raise DataError(f"{top}: holds files of different layouts, {both}; name one's folder.")
    return next(iter(layouts)), files


def _layout(path: Path) -> str:
    """Return the layout of a file, told by its first record."""
    where, row = next(_rows(path), (str(path), {}))
    keys = row.keys()
    if keys >= {"doc", "arguments"}:
        return LM_EVAL
    if keys >= {"input", "outputs"}:
        beside = path.with_name("metadata.json"), answers.settings_path(path)
        return OWN if any(file.exists() for file in beside) else NVIDIA
    raise DataError(f"{where}: no record of a known layout, but one of {shortened(sorted(keys))}.")


def task_of(path: Path) -> tasks.Task | None:
    """Return the task that a file's name or the nearest of its folders names; else None."""
    for name in (path.name, *(parent.name for parent in path.resolve().parents)):
        if matches := _TASK.findall(name):
            return tasks.TASKS.get(_NAMES.get(matches[-1], ""))
    return None


def length_of(path: Path) -> int | None:
    """Return the number in a name such as ``ruler_4096:``, or that is a folder's whole name."""
    if stated := re.search(r"ruler(?:lib_[a-z]+)?_(\d+)", path.name):
        return int(stated[1])
    numbers = [parent.name for parent in path.resolve().parents if parent.name.isdecimal()]
    return int(numbers[0]) if numbers else None


def read(layout: str, files: Sequence[Path]) -> Iterator[PortFile]:
    """Yield the questions of files of one layout, those of tasks that are known, for each length.

    Raises
    ------
    DataError
        If a file cannot be read, or a record lacks a field or has another type in it.
    """
    by_task = {path: task for path in files if (task := task_of(path))}
    reader: Reader = _lm_eval if layout == LM_EVAL else _ruler
    for path, length, questions, mean in reader(by_task):
        yield PortFile(path, by_task[path], length or length_of(path), questions, mean)


Reader = Callable[
    [Mapping[Path, tasks.Task]], Iterator[tuple[Path, int | None, list[PortAnswer], float | None]]
]
"""Yields of files with their tasks: the file, the length, the questions, and their mean score."""


# --- Records and their fields -------------------------------------------------------------------


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the records of a file, each after what to call its place."""
    for number, record in enumerate(read_records(path, Row), 1):
        yield f"{path}, record {number}", record.values


def _answers(
    path: Path, answer: Callable[[str, dict[str, Any]], PortAnswer]
) -> Iterator[tuple[dict[str, Any], PortAnswer]]:
    """Yield the records of a file, each with what a function makes of it."""
    for where, row in _rows(path):
        try:
            yield row, answer(where, row)
        except DataError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(f"{where}: a field is not of the layout's type ({reason}).") from error


def _field(where: str, row: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """Return a field of a record, which has to be of one of these types."""
    if not isinstance(row.get(name), kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise DataError(f"{where}: the field '{name}' is {shortened(row.get(name))}, not {wanted}.")
    return row[name]


def _references(where: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    values = _field(where, row, "outputs", list, str)
    return tuple(map(str, values)) if isinstance(values, list) else (values,)


def _number(value: Any) -> float | None:
    """Return a score; None where there is none, as where lm-eval has another length's (-1)."""
    return float(value) if isinstance(value, (bool, int, float)) and value >= 0 else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _text(value: Any) -> str:
    """Return a prompt as one text; a chat's messages are joined."""
    if isinstance(value, str) and value.startswith("[{"):
        try:
            return _text(json.loads(value))
        except ValueError:
            return value
    if isinstance(value, list):
        return "".join(map(_text, value))
    if isinstance(value, dict):
        return _text(value.get("content"))
    return value if isinstance(value, str) else ""


# --- NVIDIA's scripts, and the runs of this project, which are laid out alike -------------------


def _ruler(files: Mapping[Path, tasks.Task]) -> Iterator[Any]:
    """Yield the answers of each file ``pred/<task>.jsonl``, and the questions that have none."""
    open_ = [path for path in files if path.stem in ("validation", "test")]
    for path in [path for path in files if path not in open_]:
        folder = path.parent.parent / "data" / path.stem
        beside = [question for question in open_ if question.parent == folder]
        open_ = [question for question in open_ if question not in beside]
        prefixes = {
            tuple(sample.outputs): sample.answer_prefix
            for question in beside
            for sample in read_records(question, Sample)
        }
        yield path, None, [*_answered(path, prefixes)], _summary(path)
    for path in open_:
        questions = [
            PortAnswer(
                f"{path}, record {number}", sample.input + sample.answer_prefix,
                tuple(sample.outputs), sample.answer_prefix or None, length=_whole(sample.length),
            )
            for number, sample in enumerate(read_records(path, Sample), 1)
        ]  # fmt: skip
        yield path, None, questions, None


def _answered(path: Path, prefixes: Mapping[tuple[str, ...], str]) -> Iterator[PortAnswer]:
    settings = answers.read_settings(path)
    # Ours have the prompt without what stands around it; NVIDIA's have it as it was sent.
    fed = bool(settings) and settings.get("answer_prefix") != "none"
    predictions = read_records(path, Prediction, unfinished=bool(settings))
    for number, record in enumerate(predictions, 1):
        if record.repeat:
            continue
        outputs = tuple(record.outputs)
        prefix = record.others.get("answer_prefix") or prefixes.get(outputs)
        yield PortAnswer(
            f"{path}, record {number}", record.input + (prefix or "" if fed else ""), outputs,
            prefix or None, length=_whole(record.length), pred=record.pred,
            room=_whole(settings.get("tokens_to_generate")),
        )  # fmt: skip


def _summary(path: Path) -> float | None:
    """Return the score of a task, from 0 to 1, that NVIDIA's script wrote beside its answers."""
    for name in ("summary.csv", f"summary-{path.stem}.csv"):
        if (table := path.with_name(name)).exists():
            rows = {row[0]: row[1:] for row in csv.reader(read_file(table).splitlines()) if row}
            scores = dict(zip(rows.get("Tasks", []), rows.get("Score", []), strict=False))
            if path.stem in scores:
                try:
                    return float(scores[path.stem]) / 100
                except ValueError as error:
                    raise DataError(f"{table}: the score of {path.stem} is no number.") from error
    return None


# --- lm-eval: a file for each task, of records that hold everything -----------------------------


def _lm_eval(files: Mapping[Path, tasks.Task]) -> Iterator[Any]:
    for path, task in files.items():
        measure = task.scoring.ruler

        def answer(where: str, row: dict[str, Any], measure: str = measure) -> PortAnswer:
            doc = _field(where, row, "doc", dict)
            arguments = _field(where, _field(where, row, "arguments", dict), "gen_args_0", dict)
            # Ours by their measure's name; lm-eval's own by the length.
            scores = [_number(row.get(name)) for name in (measure, str(doc.get("max_length")))]
            return PortAnswer(
                where, _text(arguments["arg_0"]), _references(where, doc),
                doc.get("answer_prefix") or doc.get("gen_prefix") or None,
                length=_whole(doc.get("length")),
                pred=_text(_field(where, row, "filtered_resps", list)),
                score=next((score for score in scores if score is not None), None),
                room=_whole(arguments["arg_1"].get("max_gen_toks")),
            )  # fmt: skip

        lengths: dict[int | None, list[PortAnswer]] = defaultdict(list)
        for row, one in _answers(path, answer):
            lengths[_whole(row["doc"].get("max_length"))].append(one)
        for length, questions in lengths.items():
            yield path, length, questions, _result(path, measure, str(length))


def _result(path: Path, *measures: str) -> float | None:
    """Return the mean score that lm-eval wrote beside its records, of the first measure there."""
    stated = re.fullmatch(r"samples_(.+)_(\d{4}-\d\d-\d\dT.+)\.jsonl", path.name)
    if stated is None or not (table := path.with_name(f"results_{stated[2]}.json")).exists():
        return None
    results = read_object(table).get("results")
    row = results.get(stated[1]) if isinstance(results, dict) else None
    means = [_number(row.get(f"{name},none")) for name in measures] if isinstance(row, dict) else []
    return next((mean for mean in means if mean is not None), None)
