"""The two records, Sample and Prediction, and how they stand on disk.

A file is JSONL: one record a line, with RULER's own field names, so that
NVIDIA's ``validation.jsonl`` is read as it is and NVIDIA's ``evaluate.py``
scores our predictions unchanged.

>>> sample = Sample(index=0, input="... is: 1234567.", outputs=["1234567"], length=42)
>>> Sample.from_json(sample.to_json()) == sample
True
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from rulerlib.errors import DataError, ParameterError


@dataclass(slots=True)
class Record:
    """What a line of a file and a Python object have in common."""

    needed: ClassVar[frozenset[str]] = frozenset()

    def to_json(self) -> str:
        """One line of JSON, without the newline; letters stay as they are (æ, not \\u00e6)."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Make a record; fields of other tools that we do not know are left out.

        Raises
        ------
        DataError
            If a field that every such record has is missing.
        """
        missing = sorted(cls.needed - values.keys())
        if missing:
            raise DataError(f"the field '{missing[0]}' is missing")
        known = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Read one line.

        Raises
        ------
        DataError
            If it is not JSON, not an object, or lacks a field.
        """
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"not valid JSON ({error})") from error
        if not isinstance(values, dict):
            raise DataError("not a JSON object")
        return cls.from_dict(values)


@dataclass(slots=True)
class Sample(Record):
    """One prompt and its gold answer.

    Attributes
    ----------
    index
        Position in the dataset, from 0.
    input
        The prompt without the answer prefix and without any chat template.
    outputs
        The references. All must appear (NIAH, vt, cwe, fwe) or any one (qa).
    length
        Tokens of ``input + answer_prefix`` plus tokens to generate, without
        special tokens, as RULER counts.
    length_w_model_temp
        Tokens that the model is really fed (beginning-of-text token, chat
        template) plus tokens to generate. The budget holds for this number.
    answer_prefix
        The beginning of the answer, which the model continues.
    token_position_answer
        Index, in the tokens of ``input``, of the token where the first reference begins.
    task, language
        ``"niah_single_2"``, ``"da"``.
    depths
        The depth of every needle, 0 (start) to 100 (end): first those of
        ``outputs``, in that order, then those nobody asks for.
    token_positions
        For every needle, in the order of ``depths``, the index in the tokens of
        ``input`` of its first token.
    context_id
        Samples with the same ``context_id`` share their context.
    """

    needed: ClassVar[frozenset[str]] = frozenset({"index", "input", "outputs"})

    index: int
    input: str
    outputs: list[str]
    length: int = 0
    length_w_model_temp: int = 0
    answer_prefix: str = ""
    token_position_answer: int | None = None
    task: str = ""
    language: str = ""
    depths: list[float] = field(default_factory=list)
    token_positions: list[int] = field(default_factory=list)
    context_id: int | None = None


@dataclass(slots=True)
class Prediction(Record):
    """What a model said to one sample.

    Attributes
    ----------
    pred
        The text that the model generated, without the prompt.
    others
        A dictionary with what else is known: the sample's ``task``, ``depths``,
        ``token_positions``, ``context_id`` where it shares its context, the number of tokens
        generated, what the model thought before it answered (``thinking``), and whether the
        limit struck while it was thinking or answering (``cut_off``: ``"thinking"``,
        ``"answer"`` or None).
    truncation
        -1 if the whole prompt was read (RULER's convention), else the number of
        tokens that were kept.
    """

    needed: ClassVar[frozenset[str]] = frozenset({"index", "outputs", "pred"})

    index: int
    input: str
    outputs: list[str]
    pred: str
    others: dict[str, Any] = field(default_factory=dict)
    truncation: int = -1
    length: int = -1


R = TypeVar("R", bound=Record)

# How the names of files end that `replacing` has not finished.
_UNFINISHED = ".unfinished"


def read(path: str | Path, kind: type[R]) -> Iterator[R]:
    """Read the records of a JSONL file, one at a time.

    Raises
    ------
    DataError
        If the file cannot be read or a line is damaged: names file and line.
    """
    path = Path(path)
    for number, line in _lines(path):
        try:
            yield kind.from_json(line)
        except DataError as error:
            raise DataError(f"{path}, line {number}: {error}.") from error


def read_unfinished(path: str | Path, kind: type[R]) -> Iterator[tuple[R, int]]:
    """Read a file that a killed process may have left in the middle of a line.

    Yields
    ------
    record, end
        One whole record at a time, and the size in bytes of the file up to its end. A last
        line without its newline was never finished and does not count.

    Raises
    ------
    DataError
        If a line *within* the file is damaged; that no kill can do.
    """
    path = Path(path)
    end = 0
    for number, line in _byte_lines(path) if path.exists() else ():
        if not line.endswith(b"\n"):
            return
        end += len(line)
        try:
            yield kind.from_json(line.decode("utf-8")), end
        except (DataError, UnicodeDecodeError) as error:
            raise DataError(f"{path}, line {number}: {str(error).rstrip('.')}.") from error


def write(path: str | Path, records: Iterable[Record]) -> int:
    """Write a JSONL file in one step: it is either whole or not there.

    Returns
    -------
    int
        The number of records.

    Raises
    ------
    ParameterError
        If the folder cannot be written or the disk is full; what was there stays.
    """
    count = 0
    with replacing(path) as file:
        for record in records:
            file.write(record.to_json() + "\n")
            count += 1
    return count


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Any]:
    """Open a text file that takes the place of ``path`` only when all is written.

    Raises
    ------
    ParameterError
        If the folder cannot be written or the disk is full.
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            newline="\n",
            dir=path.parent,
            prefix=f".{path.name}.",
            suffix=_UNFINISHED,
            delete=False,
        ) as file:
            temporary = file.name
            yield file
            file.flush()
            os.fsync(file.fileno())
        # NamedTemporaryFile makes private files; a result is for everyone that may read the folder.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
        temporary = None
        _sync(path.parent)
    except OSError as error:
        raise ParameterError(
            "output", str(path), f"a file that can be written ({error.strerror or error})"
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _sync(folder: Path) -> None:
    """See to it that the names in a folder outlive a power cut, where a system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(path: str | Path) -> None:
    """Remove what killed processes left of `replacing` a file; nobody may be writing it now."""
    path = Path(path)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{_UNFINISHED}"):
        with contextlib.suppress(OSError):
            left.unlink()


def offsets(path: Path) -> Iterator[tuple[int, bytes]]:
    """Where each line of a JSONL file begins, in bytes, and the line; empty ones are left out.

    Raises
    ------
    DataError
        If the file cannot be read.
    """
    start = 0
    for _, line in _byte_lines(path):
        if line.strip():
            yield start, line
        start += len(line)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    # Bytes, decoded line by line, so that a line that is no text is known by its number.
    for number, line in _byte_lines(path):
        try:
            if line.strip():
                yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start})."
            ) from error


def _byte_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            yield from enumerate(file, 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error
