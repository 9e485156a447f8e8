"""The records Sample and Prediction, and how they are read from JSONL.

A file is JSONL: one record a line, with RULER's own field names, so that
NVIDIA's ``validation.jsonl`` is read as it is and NVIDIA's ``evaluate.py``
scores our predictions unchanged. `rulerlib.store` writes such files.

>>> from rulerlib.parts import Part
>>> sample = Sample(
...     index=0, input="The code for a-b is: 1234567.", outputs=["1234567"], length=42,
...     parts=Parts.of([Part("needle", 0, 29, key="a-b", depth=0), Part("value", 21, 28)]),
... )
>>> Sample.from_json(sample.to_json()) == sample
True
>>> [sample.input[part.start : part.end] for part in sample.parts if part.role == "value"]
['1234567']
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from rulerlib.errors import DataError, shortened
from rulerlib.parts import Parts

# What a field may hold in a file, by its annotation, and how that is said.
_KINDS: dict[str, tuple[Any, str]] = {
    "int": (int, "a whole number"),
    "int | None": (int | None, "a whole number or null"),
    "str": (str, "a text"),
    "list[str]": (list, "a list"),
    "list[int]": (list, "a list"),
    "list[float]": (list, "a list"),
    "Parts": (list, "a list"),
    "dict[str, Any]": (dict, "an object"),
}


@dataclass(slots=True)
class Record:
    """What a line of a file and a Python object have in common."""

    needed: ClassVar[frozenset[str]] = frozenset()
    """The fields that every such record has in a file."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def to_json(self) -> str:
        """Return one line of JSON, without the newline; letters stay as they are (æ)."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Make a record; fields of other tools that we do not know are left out.

        Raises
        ------
        DataError
            If a field that every such record has is missing, or a field is of another type.
        """
        known: dict[str, Any] = {}
        for item in fields(cls):
            name, annotation = item.name, str(item.type)
            if name in values:
                value, (kind, words) = values[name], _KINDS[annotation]
                # To Python, True is a whole number.
                if not isinstance(value, kind) or isinstance(value, bool):
                    raise DataError(f"the field '{name}' is {shortened(value)}, not {words}")
                if annotation == "list[str]" and not all(isinstance(text, str) for text in value):
                    raise DataError(
                        f"the field '{name}' is {shortened(value)}, not a list of texts"
                    )
                if annotation == "Parts":
                    value = Parts.from_data(value, len(known["input"]))
                known[name] = value
            elif name in cls.needed:
                raise DataError(f"the field '{name}' is missing")
        return cls(**known)

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Read one line.

        Raises
        ------
        DataError
            If it is not JSON, not an object, or not such a record.
        """
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            # Numbers of thousands of digits and brackets within brackets are no JSON to Python.
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
    parts
        Where every needle, value, distractor, document, hop, listed word, worked example and
        question stands, by rising start. Empty in records of other tools.
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
    parts: Parts = field(default_factory=Parts)
    depths: list[float] = field(default_factory=list)
    token_positions: list[int] = field(default_factory=list)
    context_id: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return {**Record.to_dict(self), "parts": self.parts.to_data()}


@dataclass(slots=True)
class Prediction(Record):
    """What a model said to one sample.

    Attributes
    ----------
    pred
        The text that the model generated, without the prompt.
    others
        A dictionary with what else is known: the sample's ``task``, ``language``, ``parts`` (see
        `Parts.to_data`), ``depths``, ``token_positions``, ``context_id`` where it shares
        its context, the number of tokens generated, what the model thought before it answered
        (``thinking``), and whether the limit struck while it was thinking or answering
        (``cut_off``: ``"thinking"``, ``"answer"`` or None).
    truncation
        -1 if the whole prompt was read (RULER's convention), else the number of
        tokens that were kept.
    """

    needed: ClassVar[frozenset[str]] = frozenset({"index", "outputs", "pred"})

    index: int
    input: str = ""
    outputs: list[str] = field(default_factory=list)
    pred: str = ""
    others: dict[str, Any] = field(default_factory=dict)
    truncation: int = -1
    length: int = -1

    @property
    def parts(self) -> Parts:
        """The parts of the prompt; empty in records of other tools.

        Raises
        ------
        DataError
            If they are damaged.
        """
        return Parts.from_data(self.others.get("parts") or [], len(self.input))


R = TypeVar("R", bound=Record)


def read(path: str | Path, kind: type[R], unfinished: bool = False) -> Iterator[R]:
    """Read the records of a JSONL file, one at a time.

    Parameters
    ----------
    unfinished
        Whether a killed process may have left the file in the middle of its last line, which
        then does not count.

    Raises
    ------
    DataError
        If the file cannot be read or a line is damaged: names file and line.
    """
    return (record for record, _ in read_placed(path, kind, unfinished))


def read_placed(
    path: str | Path, kind: type[R], unfinished: bool = False
) -> Iterator[tuple[R, tuple[int, int]]]:
    """Read the same, each record with the bytes [start, end) of its line in the file."""
    path, end = Path(path), 0
    with _readable(path), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            start, end, where = end, end + len(line), f"{path}, line {number}"
            if unfinished and not line.endswith(b"\n"):
                return
            try:
                # Other tools may leave lines empty.
                if unfinished or line.strip():
                    yield kind.from_json(line.decode("utf-8")), (start, end)
            except UnicodeDecodeError as error:
                reason = f"{error.reason} at byte {error.start}"
                raise DataError(f"{where}: not UTF-8 ({reason}).") from error
            except DataError as error:
                raise DataError(f"{where}: {str(error).rstrip('.')}.") from error


def read_object(path: str | Path) -> dict[str, Any]:
    """Return the JSON object that a file holds.

    Raises
    ------
    DataError
        If the file cannot be read or holds something else: names the file.
    """
    path = Path(path)
    with _readable(path):
        data = path.read_bytes()
    try:
        values = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: damaged ({error}).") from error
    if not isinstance(values, dict):
        raise DataError(f"{path}: damaged (not a JSON object).")
    return values


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say in one sentence that a file cannot be read."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error
