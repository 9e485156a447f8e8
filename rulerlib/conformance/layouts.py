"""The files that ports of RULER write, read as questions with what came of them.

Five layouts are told apart by the fields of their records: NVIDIA's scripts, this project's own
runs, lm-eval (``--log_samples``), NeMo-Skills, and the details of lighteval.

>>> import pathlib, tempfile
>>> folder = pathlib.Path(tempfile.mkdtemp()) / "4096" / "pred"
>>> folder.mkdir(parents=True)
>>> line = '{"index": 0, "input": "Who? Answer:", "outputs": ["Ada"], "pred": " Ada."}'
>>> _ = (folder / "qa_1.jsonl").write_text(line)
>>> layout, paths = find(folder)
>>> group, = read(layout, paths)
>>> layout, group.task.name, group.length, group.entries[0].pred
('NVIDIA', 'qa_1', 4096, ' Ada.')
"""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from rulerlib import packages, tasks
from rulerlib.conformance.records import Entry, Group
from rulerlib.errors import DataError, shortened
from rulerlib.paths import named
from rulerlib.samples import Prediction, Record, Sample, read_object
from rulerlib.samples import read as read_records
from rulerlib.store import answers
from rulerlib.texts import read_file

NVIDIA, OWN, LM_EVAL, NEMO, LIGHTEVAL = (
    "NVIDIA", "rulerlib", "lm-eval", "NeMo-Skills", "lighteval",
)  # fmt: skip
"""The layouts by name."""

PATTERNS = ("*.jsonl", "details_*.json", "details_*.parquet")
"""The files that are read, in a folder and those below it."""

# What lm-eval calls RULER's two tasks of questions.
_ALIASES = {"qa_squad": "qa_1", "qa_hotpot": "qa_2"}
_NAMES = {name: name for name in tasks.RULER} | _ALIASES
# Longest first, so that a task of ours that is named after one of RULER's is not taken for it.
_LONGEST_FIRST = sorted({*tasks.TASKS, *_ALIASES}, key=len, reverse=True)
_TASK = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(_LONGEST_FIRST)})(?![a-z0-9])")
# The field that lm-eval and lighteval write beside a question or its parts.
_PREFIXES = ("answer_prefix", "gen_prefix")


T = TypeVar("T")


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
    files = sorted({path for pattern in PATTERNS for path in top.rglob(pattern)})
    found: dict[str, Path] = {}
    for path in files:
        found.setdefault(_layout(path), path)
    if not found:
        raise DataError(f"{top}: no files of prompts or answers ({', '.join(PATTERNS)}) in it.")
    if len(found) > 1:
        both = " and ".join(f"{name} ({path.relative_to(top)})" for name, path in found.items())
        raise DataError(f"{top}: holds files of different layouts, {both}; name one's folder.")
    return next(iter(found)), files


def _layout(path: Path) -> str:
    """Return the layout of a file, told by its first record."""
    where, row = next(iter(_first(path)), (str(path), {}))
    keys = row.keys()
    if keys >= {"doc", "arguments"}:
        return LM_EVAL
    if keys >= {"doc", "model_response"}:
        return LIGHTEVAL
    if keys >= {"question", "expected_answer"}:
        return NEMO
    if keys >= {"input", "outputs"}:
        beside = path.with_name("metadata.json"), answers.settings_path(path)
        return OWN if any(each.exists() for each in beside) else NVIDIA
    raise DataError(f"{where}: no record of a known layout, but one of {shortened(sorted(keys))}.")


def task_of(path: Path) -> tasks.Task | None:
    """Return RULER's task that a file's name or the nearest of its folders names; else None."""
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


def read(layout: str, files: Sequence[Path]) -> Iterator[Group]:
    """Yield the questions of files of one layout, those of RULER's tasks, group by group.

    Raises
    ------
    DataError
        If a file cannot be read, or a record lacks a field or has another type in it.
    MissingExtraError
        If a file is Parquet and `pyarrow` is not installed.
    """
    known = [path for path in files if task_of(path)]
    if layout in (NVIDIA, OWN):
        yield from _ruler(known)
    elif layout == NEMO:
        yield from _nemo(known)
    else:
        for path in known:
            yield from _harness(path, _lm_eval if layout == LM_EVAL else _lighteval)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the records of a file, each after what to call its place."""
    rows = _parquet(path) if path.suffix == ".parquet" else (
        record.values for record in read_records(path, Row)
    )  # fmt: skip
    yield from ((f"{path}, record {number}", row) for number, row in enumerate(rows, 1))


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    parquet = packages.load("pyarrow.parquet", "hub", "Reading Parquet")
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(64):
                yield from batch.to_pylist()
    except (OSError, ValueError) as error:
        # What the package raises is one of the two as well.
        raise DataError(f"{path}: cannot be read as Parquet ({error}).") from error


def _made(path: Path, entry: Callable[[str, dict[str, Any]], T]) -> Iterator[T]:
    """Yield what a function makes of the records of a file.

    Raises
    ------
    DataError
        If a record is not as it should be: names its place.
    """
    for where, row in _rows(path):
        try:
            yield entry(where, row)
        except DataError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(f"{where}: a field is not of the layout's type ({reason}).") from error


def _first(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the first record of a file and its place; empty where there is none."""
    return list(itertools.islice(_rows(path), 1))


def _field(where: str, row: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """Return a field of a record.

    Raises
    ------
    DataError
        If it is missing or of another type.
    """
    if not isinstance(row.get(name), kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise DataError(f"{where}: the field '{name}' is {shortened(row.get(name))}, not {wanted}.")
    return row[name]


def _references(where: str, row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = _field(where, row, name, list, str)
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


def _known(path: Path) -> tasks.Task:
    task = task_of(path)
    assert task is not None, "the other files were left out"
    return task


def _group(path: Path, entries: list[Entry], length: int | None = None, **more: Any) -> Group:
    return Group(path, _known(path), length or length_of(path), entries, **more)


# --- NVIDIA's scripts, and the runs of this project, which are laid out alike -------------------


def _ruler(files: Sequence[Path]) -> Iterator[Group]:
    """Yield the answers of each file ``pred/<task>.jsonl``, and the questions that have none."""
    predicted = [path for path in files if path.stem not in ("validation", "test")]
    asked = [path for path in files if path not in predicted]
    for path in predicted:
        folder = path.parent.parent / "data" / path.stem
        own = [each for each in asked if each.parent == folder]
        asked = [each for each in asked if each not in own]
        prefixes = {
            tuple(sample.outputs): sample.answer_prefix
            for each in own
            for sample in read_records(each, Sample)
        }
        yield _group(path, list(_answered(path, prefixes)), mean=_summary(path))
    for path in asked:
        samples = enumerate(read_records(path, Sample), 1)
        entries = [
            Entry(
                f"{path}, record {number}", sample.input + sample.answer_prefix,
                tuple(sample.outputs), sample.answer_prefix or None, length=_whole(sample.length),
            )
            for number, sample in samples
        ]  # fmt: skip
        yield _group(path, entries)


def _answered(path: Path, prefixes: Mapping[tuple[str, ...], str]) -> Iterator[Entry]:
    settings = answers.read_settings(path)
    # Ours have the prompt without what stands around it; NVIDIA's have it as it was sent.
    fed = bool(settings) and settings.get("answer_prefix") != "none"
    predictions = read_records(path, Prediction, unfinished=bool(settings))
    for number, each in enumerate(predictions, 1):
        if each.repeat:
            continue
        outputs = tuple(each.outputs)
        prefix = each.others.get("answer_prefix") or prefixes.get(outputs)
        yield Entry(
            f"{path}, record {number}", each.input + (prefix or "" if fed else ""), outputs,
            prefix or None, length=_whole(each.length), pred=each.pred,
            room=_whole(settings.get("tokens_to_generate")),
            generated=_whole(each.others.get("tokens_generated")),
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


# --- NeMo-Skills --------------------------------------------------------------------------------


def _nemo(files: Sequence[Path]) -> Iterator[Group]:
    """Yield the answers of each ``output*.jsonl``, and the questions that have none.

    A question's answer prefix stands in the field in which the answer comes to stand, so that
    records of answers do not have it; it is taken from the questions, where they are there.
    """
    done = {"num_generated_tokens", "is_correct", "predicted_answer"}
    asked = [path for path in files if not any(done & row.keys() for _, row in _first(path))]
    # Hashes, because the questions of all files together are long.
    prefixes: dict[int, str] = {}
    answered: set[int] = set()

    def prefix(where: str, row: dict[str, Any]) -> None:
        prefixes[hash(_field(where, row, "question", str))] = row.get("generation") or ""

    def asked_for(where: str, row: dict[str, Any]) -> Entry:
        question = _field(where, row, "question", str)
        stated = prefixes.get(hash(question))
        return Entry(
            where, f"{question} {stated}" if stated else question,
            _references(where, row, "expected_answer"), stated or None, whole=stated is not None,
            length=_whole(row.get("length")),
        )  # fmt: skip

    def answer(where: str, row: dict[str, Any]) -> Entry:
        answered.add(hash(row["question"]))
        return replace(
            asked_for(where, row), pred=_field(where, row, "generation", str),
            score=_number(row.get("is_correct")), generated=_whole(row.get("num_generated_tokens")),
        )  # fmt: skip

    for path in asked:
        for _ in _made(path, prefix):
            pass
    for path in files:
        if path not in asked:
            yield _group(path, list(_made(path, answer)))
    for path in asked:
        open_ = [
            asked_for(where, row)
            for where, row in _rows(path)
            if hash(row["question"]) not in answered
        ]
        if open_:
            yield _group(path, open_)


# --- lm-eval and lighteval: a file for each task, of records that hold everything ---------------

Reader = Callable[[str, dict[str, Any], str], tuple[int | None, Entry]]
"""Returns the length and the entry of a record, given the name of RULER's measure."""


def _harness(path: Path, reader: Reader) -> Iterator[Group]:
    """Yield the records of a file for each of their lengths."""
    lengths: dict[int | None, list[Entry]] = defaultdict(list)
    measure = _known(path).scoring.ruler
    for length, entry in _made(path, lambda where, row: reader(where, row, measure)):
        lengths[length].append(entry)
    for length, entries in lengths.items():
        yield _group(path, entries, length, mean=_result(path, measure, str(length)))


def _lm_eval(where: str, row: dict[str, Any], measure: str) -> tuple[int | None, Entry]:
    doc = _field(where, row, "doc", dict)
    arguments = _field(where, _field(where, row, "arguments", dict), "gen_args_0", dict)
    length = _whole(doc.get("max_length"))
    # Ours by their measure's name; lm-eval's own by the length.
    scores = [_number(row.get(name)) for name in (measure, str(length))]
    return length, Entry(
        where, _text(arguments["arg_0"]), _references(where, doc, "outputs"), _prefix(doc),
        length=_whole(doc.get("length")), pred=_text(_field(where, row, "filtered_resps", list)),
        score=next((score for score in scores if score is not None), None),
        room=_whole(arguments["arg_1"].get("max_gen_toks")),
    )  # fmt: skip


def _lighteval(where: str, row: dict[str, Any], measure: str) -> tuple[int | None, Entry]:
    doc, said = (_field(where, row, name, dict) for name in ("doc", "model_response"))
    numbers = {name: _number(value) for name, value in (row.get("metric") or {}).items()}
    scores = {name: number for name, number in numbers.items() if number is not None}
    # Where there are several, the one for tasks of this kind.
    kind = "any" if measure == "part_match" else "all"
    wanted = [score for name, score in scores.items() if len(scores) == 1 or name.endswith(kind)]
    choices, gold = _references(where, doc, "choices"), doc["gold_index"]
    texts = said.get("text_post_processed") or said.get("text") or [""]
    tokens, ids = said.get("output_tokens") or [[]], said.get("input_tokens") or []
    return None, Entry(
        where, _text(said.get("input")) or _field(where, doc, "query", str),
        tuple(choices[at] for at in (gold if isinstance(gold, list) else [gold])),
        _prefix(doc.get("specific") or {}), pred=_text(texts[0]),
        score=wanted[0] if wanted else None, room=_whole(doc.get("generation_size")),
        generated=_whole(len(tokens[0])), ids=tuple(ids[:2]),
    )  # fmt: skip


def _prefix(row: Mapping[str, Any]) -> str | None:
    return next((row[name] for name in _PREFIXES if isinstance(row.get(name), str)), None) or None


def _result(path: Path, *measures: str) -> float | None:
    """Return the mean score that lm-eval wrote beside its records, of the first measure there."""
    stated = re.fullmatch(r"samples_(.+)_(\d{4}-\d\d-\d\dT.+)\.jsonl", path.name)
    if stated is None or not (table := path.with_name(f"results_{stated[2]}.json")).exists():
        return None
    results = read_object(table).get("results")
    row = results.get(stated[1]) if isinstance(results, dict) else None
    means = [_number(row.get(f"{name},none")) for name in measures] if isinstance(row, dict) else []
    return next((mean for mean in means if mean is not None), None)
