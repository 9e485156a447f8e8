"""The files of a run: the folder of each cell, its questions and its answers.

>>> Cell("lille", "niah_single_2", "da", 4096).answers("runs").as_posix()
'runs/lille/da/4096/pred/niah_single_2.jsonl'
>>> other = Cell("org/Model", "qa_1", "da", 4096, knobs={"source": "data/dev.json"}, seed=7,
...              format=PromptFormat(chat=False))
>>> other.questions("runs").as_posix()
'runs/org--Model+chat=false/da/4096/data/qa_1+source=dev.json--b9a3+seed=7/validation.jsonl'

The folder of a cell names the settings that differ from their defaults: those of the model in the
name of the folder, those of the task in that of the file. ``settings.json`` beside the answers has
all settings in full; it is compared field by field, and a run with other settings is refused.

Questions are ``validation.jsonl``, with RULER's field names, and ``metadata.json``, with all
settings that decide their bytes; both are written whole. Answers are appended, one JSON object per
line, as they arrive. An interrupted run resumes by index. A finished file is sorted by index, so it
has the same bytes whether or not the run was interrupted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from rulerlib import files
from rulerlib.errors import DataError, ParameterError, RunMismatchError, shortened
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.samples import Prediction, Sample, read, read_object

LONGEST = 100
"""The most characters of a name; a longer one ends in ``#`` and a hash."""

METADATA = "metadata.json"

DEFAULTS: dict[str, Any] = {
    "queries_per_context": 1,
    # A parameter of needle tasks that the first datasets did not have, and a former one of cwe.
    "present": 1.0,
    "words": "wordfreq",
    # Recorded by earlier versions, which could cut long prompts.
    "allow_truncation": False,
    **PromptFormat().settings(),
}
"""Settings that a file need not state; others that it does not state are None."""

# Settings that may differ between the calls that write one file of answers.
_MAY_DIFFER = ("model", "versions")

Given = dict[tuple[str, int], Path]
"""Files of questions by task and length, short lengths first."""


# --- Cells ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One task asked of one model in one way.

    Attributes
    ----------
    model
        The name of its folder, or its name on the hub.
    weights
        A hash of the weights of a folder, because many folders are called ``checkpoint-500``.
    task, language, length
        What is asked; ``length`` in tokens.
    knobs
        Those that differ from the defaults of the task.
    seed, queries_per_context
        Of the questions, see `rulerlib.dataset.Dataset`.
    texts
        The name of the user's own texts with a hash of them. If None, the language's own.
    engine, options
        The engine, and those of its options that change answers.
    format, decoding
        How a question becomes a prompt, and how the model chooses its tokens.
    memory
        The preset of a memory system.
    study
        The study that the cell belongs to.
    question_language
        The language of the questions, if it is not that of their contexts. It is part of the
        model's name, because the questions are the same in other words.
    family
        The family of a task from a plug-in, with a hash of its source.
    """

    model: str
    task: str
    language: str
    length: int
    knobs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 42
    queries_per_context: int = 1
    texts: str | None = None
    engine: str = "transformers"
    options: Mapping[str, Any] = field(default_factory=dict)
    weights: str | None = None
    format: PromptFormat = PromptFormat()
    decoding: Decoding = Decoding()
    memory: str | None = None
    study: str | None = None
    question_language: str | None = None
    family: str | None = None

    def __hash__(self) -> int:
        return hash(self.answers(""))

    @property
    def name(self) -> str:
        """The model, with settings that differ from their defaults: ``"lille+chat=false"``."""
        is_safe = re.fullmatch(r"\w[\w./-]*", self.model, re.ASCII)
        model = self.model.replace("/", "--") if is_safe else _hashed(self.model)
        names = ("options", "weights", "engine", "memory", "format", "decoding")
        return self._with_settings(model, (*names, "question_language"))

    @property
    def label(self) -> str:
        """The task, with settings that differ from their defaults: ``"niah_single_2+seed=7"``."""
        names = ("knobs", "queries_per_context", "seed", "texts", "family")
        return self._with_settings(self.task, names)

    def _with_settings(self, first: str, names: Iterable[str]) -> str:
        """Return a name with the values of some fields, if they differ from their defaults."""
        usual, words = Cell("", "", "", 0), [first]
        for name in names:
            value, default = getattr(self, name), getattr(usual, name)
            if name in ("knobs", "options"):
                changed = dict(sorted(value.items()))
            elif name in ("format", "decoding"):
                old = asdict(default)
                changed = {key: new for key, new in asdict(value).items() if new != old[key]}
            else:
                changed = {name: value} if value != default else {}
            if name == "decoding":
                renamed = {"seed": "decoding_seed"}
                changed = {renamed.get(key, key): new for key, new in changed.items()}
            words += [f"{safe_name(key)}={_value(new)}" for key, new in changed.items()]
        whole = "+".join(words)
        return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 9]}#{_digest(whole, 8)}"

    def settings(self) -> dict[str, Any]:
        """Return all fields as plain data, as they are recorded with the answers."""
        return {
            **{item.name: getattr(self, item.name) for item in fields(self)},
            "knobs": dict(self.knobs),
            "options": dict(self.options),
            "format": self.format.settings(),
            "decoding": self.decoding.settings(),
            "tokens_to_generate": self.decoding.tokens_to_generate,
        }

    def folder(self, root: str | Path) -> Path:
        """Return the folder of this model, language and length below the folder of all runs."""
        root = Path(root)
        if self.study is not None:
            root = root / "studies" / safe_name(self.study)
        return root / self.name / safe_name(self.language) / str(self.length)

    def questions(self, root: str | Path) -> Path:
        """Return the file of questions."""
        return self.folder(root) / "data" / self.label / "validation.jsonl"

    def answers(self, root: str | Path) -> Path:
        """Return the file of answers."""
        return self.folder(root) / "pred" / f"{self.label}.jsonl"


def _value(value: Any) -> str:
    """Return a value as part of a name."""
    if isinstance(value, str):
        return safe_name(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return _hashed(text, "json:") if isinstance(value, (list, tuple, dict)) else text


def safe_name(text: str) -> str:
    """Return a short plain text as it is, and another one with a hash."""
    plain = re.fullmatch(r"(?!.*--)[a-z0-9_](?:[a-z0-9._-]{,38}[a-z0-9_])?", text)
    return text if plain else _hashed(text)


def _hashed(text: str, kind: str = "") -> str:
    """Return the readable part of a text, of a path the last one, and a hash.

    >>> _hashed("https://example.org/Dev set.json")
    'dev_set.json--55e1'
    """
    last = re.split(r"[/\\]", text.rstrip("/\\"))[-1]
    stem = re.sub(r"[^a-z0-9.]+", "_", last.lower()).strip("._")[:32].rstrip("._")
    return f"{stem or '_'}--{_digest(kind + text, 4)}"


def _digest(text: str, digits: int) -> str:
    # A string may hold surrogates, which UTF-8 cannot encode.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


# --- Settings ------------------------------------------------------------------------------------


def compare(
    place: Path,
    was: Mapping[str, Any],
    now: Mapping[str, Any],
    ignore: Sequence[str] = (),
    remedy: str = "choose another output folder, or delete this one",
) -> None:
    """Check that files were made with the settings that are wanted now.

    Parameters
    ----------
    place
        The file or folder, which the error names.
    was, now
        The recorded settings and those of now, as plain data. Only those in ``now`` are compared.
    ignore
        Names of settings that may differ.
    remedy
        What the user can do, as the end of the error's sentence.

    Raises
    ------
    RunMismatchError
        If they differ; names the first setting that does, and both values.
    """
    found = _difference(was, now, [name for name in now if name not in ignore])
    if found is not None:
        name, old, new = found
        raise RunMismatchError(
            f"{place} was made with {name} = {shortened(old)}, not {shortened(new)}: {remedy}."
        )


def _difference(
    was: Mapping[str, Any], now: Mapping[str, Any], names: Iterable[str]
) -> tuple[str, Any, Any] | None:
    """Return name, old and new value of the first setting that differs, the innermost one."""
    for name in names:
        old, new = was.get(name, DEFAULTS.get(name)), now.get(name, DEFAULTS.get(name))
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = _difference(old, new, {**old, **new})
            if inner is not None:
                return f"{name}.{inner[0]}", inner[1], inner[2]
        # Not every file records its cell.
        elif old != new and (name != "cell" or None not in (old, new)):
            return name, old, new
    return None


# --- Questions -----------------------------------------------------------------------------------


def write_questions(dataset: Any, folder: str | Path) -> Path:
    """Write ``validation.jsonl`` and ``metadata.json``, or reuse existing ones.

    Parameters
    ----------
    dataset
        Samples with ``metadata``, such as a `rulerlib.dataset.Dataset`. A file with fewer samples
        is replaced by one that begins with the same bytes.

    Returns
    -------
    Path
        The file of samples, which may hold more than the dataset.

    Raises
    ------
    RunMismatchError
        If the folder holds a dataset with other settings; names the first that differs.
    DataError
        If the existing metadata are damaged.
    BusyError
        If another process is writing the file.
    ParameterError
        If the folder cannot be written.
    """
    path = Path(folder) / "validation.jsonl"
    if _stored(path, dataset.metadata) >= len(dataset):
        return path
    with files.lock(path):
        # Another process may have written the file until now.
        if _stored(path, dataset.metadata) < len(dataset):
            files.write_object(path.parent / METADATA, dataset.metadata)
            with files.replacing(path) as file:
                file.writelines(sample.to_json() + "\n" for sample in dataset)
    return path


def _stored(path: Path, metadata: Mapping[str, Any]) -> int:
    """Return the number of samples in a file, which must have been made with these settings."""
    if not path.exists():
        return 0
    compare(path.parent, read_metadata(path), metadata, ignore=("tokenizer", "rulerlib"))
    with path.open("rb") as file:
        return sum(line.endswith(b"\n") for line in file)


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a file of questions, or {} if it has none.

    Raises
    ------
    DataError
        If it is damaged.
    """
    about = path.parent / METADATA
    return read_object(about) if about.exists() else {}


def find_questions(data: Any, names: Sequence[str]) -> Given:
    """Return the files of questions of some tasks below a path.

    The task is the name of a file's folder, up to the first ``+``. The length, in tokens, is the
    name of the nearest folder above that is a number, as in RULER's own tree. Without such a
    folder, or if a sample is longer, it is the length of the longest sample.

    Parameters
    ----------
    data
        A file ``<task>/validation.jsonl``, or a folder with such files somewhere below it.
    names
        The tasks; other files are ignored.

    Raises
    ------
    ParameterError
        If there are no files, or two of one task and length.
    DataError
        If a file is damaged, or its length is unknown.
    """
    wanted = (
        "a file <task>/validation.jsonl, or a folder with such files, of at least one of the tasks"
        f" {', '.join(names)}"
    )
    top = files.named("data", data, wanted)
    found: Given = {}
    for path in [top] if top.is_file() else sorted(top.rglob("validation.jsonl")):
        task = path.resolve().parent.name.partition("+")[0]
        if task not in names:
            continue
        length = _length(path)
        if (task, length) in found:
            allowed = f"one file of {task} at length {length}, not also {path}"
            raise ParameterError("data", data, allowed)
        found[task, length] = path
    if not found:
        raise ParameterError("data", data, wanted)
    return dict(sorted(found.items(), key=lambda item: item[0][1]))


def _length(path: Path) -> int:
    """Return the length of a file of questions."""
    numbers = [int(part.name) for part in path.resolve().parents if part.name.isdecimal()]
    lengths = [sample.length for sample in read(path, Sample)]
    longest = max([*lengths, *numbers[:1]], default=0)
    if not lengths or longest < 1:
        raise DataError(
            f"{path}: no samples, or none with a 'length'; add it, or name a folder above after the"
            f" length: 4096/{path.parent.name}/{path.name}."
        )
    return longest


# --- Answers -------------------------------------------------------------------------------------


class Answers:
    """The stored answers to one file of questions.

    Attributes
    ----------
    done
        Index and repeat of each stored answer, in the order of the file, with its prompt's hash.

    Raises
    ------
    RunMismatchError
        If the stored answers were made with other settings; names the first that differs.
    DataError
        If the file is damaged or has two answers to one question.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path, self.settings = path, settings
        self.done: dict[tuple[int, int], int] = {}
        self._read()

    def _read(self) -> None:
        records = _records(self.path, unfinished=True) if self.path.exists() else ()
        self.done = {(record.index, record.repeat): hash(record.input) for record in records}
        if self.done:
            compare(self.path.parent, read_settings(self.path), self.settings, _MAY_DIFFER)

    def has(self, sample: Sample, repeat: int) -> bool:
        """Return whether an answer to a sample is stored.

        Raises
        ------
        DataError
            If the stored answer belongs to another prompt.
        """
        stored = self.done.get((sample.index, repeat))
        if stored not in (None, hash(sample.input)):
            raise DataError(
                f"{self.path}: the answer to sample {sample.index} belongs to another prompt."
            )
        return stored is not None

    @property
    def in_order(self) -> bool:
        """True if the answers are sorted by index and repeat."""
        return list(self.done) == sorted(self.done)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the file, prepare it for new answers, and sort it at the end.

        An incomplete last line, left by a killed process, is removed.

        Raises
        ------
        BusyError
            If another process holds the lock.
        RunMismatchError, DataError, ParameterError
            As the constructor, which read the file before the lock; or if it cannot be written.
        """
        with files.lock(self.path):
            self._read()
            if not self.done:
                files.write_object(settings_path(self.path), self.settings)
            if self.path.exists():
                with files.saving(self.path), self.path.open("rb+") as file:
                    file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))
            yield
            self._sort()

    def append(self, record: Prediction) -> None:
        """Append an answer.

        Raises
        ------
        ParameterError
            If the disk is full.
        """
        with files.saving(self.path), self.path.open("ab") as file:
            file.write((record.to_json() + "\n").encode())
        self.done[record.index, record.repeat] = hash(record.input)

    def _sort(self) -> None:
        if not self.in_order:
            with self.path.open("rb") as file:
                lines = dict(zip(self.done, file, strict=True))
            with files.replacing(self.path) as file:
                file.writelines(lines[key].decode("utf-8") for key in sorted(lines))


def settings_path(path: str | Path) -> Path:
    """Return the path of the settings of a file of answers."""
    return Path(path).with_suffix(".settings.json")


def read_settings(path: str | Path) -> dict[str, Any]:
    """Return the settings of a file of answers, or {} if it has none.

    Raises
    ------
    DataError
        If they are damaged.
    """
    beside = settings_path(path)
    settings = read_object(beside) if beside.exists() else {}
    cell = settings.get("cell")
    if isinstance(cell, dict) and cell.get("family"):
        # Load the plug-in family of these tasks, which judges their answers.
        from rulerlib import tasks

        tasks.recall(cell["family"])
    return settings


def _records(path: Path, unfinished: bool) -> Iterator[Prediction]:
    """Yield each answer; a second answer to one question raises a DataError."""
    seen = set()
    for number, record in enumerate(read(path, Prediction, unfinished), 1):
        # NVIDIA's scripts write the same index for several samples.
        key = record.index, record.repeat, hash(record.input)
        if key in seen:
            raise DataError(f"{path}, line {number}: duplicate answer to sample {record.index}.")
        seen.add(key)
        yield record


def read_predictions(path: str | Path, num_samples: int | None = None) -> list[Prediction]:
    """Return the answers of a file, sorted by index and repeat.

    Parameters
    ----------
    num_samples
        Return only the answers to the first samples. If None, all of them.

    Raises
    ------
    DataError
        If the file cannot be read, is damaged, or has two answers to one question.
    """
    path = Path(path)
    # Only our own files may have an incomplete last line.
    predictions = list(_records(path, unfinished=settings_path(path).exists()))
    predictions.sort(key=lambda record: (record.index, record.repeat))
    if num_samples is None:
        return predictions
    repeats = 1 + max((record.repeat for record in predictions), default=0)
    return predictions[: num_samples * repeats]


def evidence(path: str | Path, num_samples: int | None = None) -> list[Prediction]:
    """Return the answers of a file to different prompts.

    A source with fewer questions than samples repeats some of them. A repeated prompt is left out.
    A repeated question with other documents is kept, and its answers share a ``cluster``.

    Parameters
    ----------
    path, num_samples
        See `read_predictions`.

    Raises
    ------
    DataError
        As `read_predictions`.
    """
    predictions, settings = read_predictions(path, num_samples), read_settings(path)
    first: dict[str, int] = {}
    different = [
        record
        for record in predictions
        if not record.input or first.setdefault(record.input, record.index) == record.index
    ]
    if ((settings.get("dataset") or {}).get("knobs") or {}).get("source"):
        _cluster(different)
    return different


def _cluster(predictions: list[Prediction]) -> None:
    """Give answers to the same question the same ``cluster``."""
    groups: dict[tuple[str, ...], list[Prediction]] = {}
    for record in predictions:
        texts = [record.input[part.start : part.end] for part in record.parts_of("question")]
        groups.setdefault((*texts, *record.outputs), []).append(record)
    for same in groups.values():
        grouped = any("cluster" in one.others or "context_id" in one.others for one in same)
        if not grouped and len({one.index for one in same}) > 1:
            for one in same:
                one.others["cluster"] = f"the question of sample {same[0].index}"
