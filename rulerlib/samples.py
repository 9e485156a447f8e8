"""The records Sample and Prediction, and how they are read from JSONL.

A file is JSONL: one record a line, with RULER's own field names, so that
NVIDIA's ``validation.jsonl`` is read as it is and NVIDIA's ``evaluate.py``
scores our predictions unchanged. `rulerlib.store` writes such files.

>>> from rulerlib.parts import Part
>>> sample = Sample(
...     index=0, input="The code for a-b is: 1234567.", outputs=["1234567"], length=42,
...     parts=[Part("needle", 0, 29, key="a-b", depth=0), Part("value", 21, 28)],
... )
>>> Sample.from_json(sample.to_json()) == sample
True
>>> [sample.input[part.start : part.end] for part in sample.parts if part.role == "value"]
['1234567']
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    create_model,
)

from rulerlib.errors import LARGEST, DataError, shortened
from rulerlib.parts import Part, of_role, parts_from_data, parts_to_data

Int = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
"""A whole number of 64 bits, as tables hold it."""

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)


class _Others(BaseModel):
    """The types of what is read of `Prediction.others`; other tools may add fields."""

    model_config = _STRICT

    language: str = ""
    answer_prefix: str = ""
    depths: list[float] = []
    context_id: Int | None = None
    prompt_tokens: Int = 0
    tokens_generated: Int = 0
    finished: bool = True
    cut_off: str | None = None
    thinking: str = ""
    repeat: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    golds: list[list[str]] = []
    cluster: str = ""
    facts: dict[str, Any] = {}
    flags: list[str] = []


OPTIONAL = ("golds", "id", "cluster", "facts")
"""The fields that are written only if they are not empty."""


@dataclass(slots=True)
class Record:
    """A record: one line of a JSONL file as a Python object."""

    needed: ClassVar[frozenset[str]] = frozenset()
    """The fields that every such record has in a file."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def to_json(self) -> str:
        """Return one line of JSON, without the newline; letters stay as they are (æ)."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_line(self) -> bytes:
        """Return the bytes of `to_json` with the newline."""
        return (self.to_json() + "\n").encode()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the record of plain data, without the fields of other tools.

        Raises
        ------
        DataError
            If a field is missing or of another type.
        """
        with _one_line():
            return cls._from_model(_model(cls).model_validate(values))  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Return the record of one line of JSON.

        Raises
        ------
        DataError
            If it is not JSON, not an object, or not such a record.
        """
        with _one_line():
            return cls._from_model(_model(cls).model_validate_json(line))  # type: ignore[arg-type]

    @classmethod
    def _from_model(cls, model: BaseModel) -> Self:
        return cls(**{name: getattr(model, name) for name in model.model_fields_set})


# Building a model takes milliseconds, and every line of a file needs it.
@functools.cache
def _model(kind: Any) -> type[BaseModel]:
    """Return a pydantic model with the fields of a kind of record."""
    types = get_type_hints(kind, include_extras=True)
    fields_ = {
        item.name: (types[item.name], ... if item.name in kind.needed else None)
        for item in fields(kind)
    }
    return create_model(kind.__name__, __config__=_STRICT, **fields_)  # type: ignore[call-overload, no-any-return]


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Raise the first problem that pydantic finds as a DataError."""
    try:
        yield
    except ValidationError as error:
        problem = error.errors()[0]
        original = problem.get("ctx", {}).get("error")
        if isinstance(original, DataError):
            raise original from error
        where = ".".join(map(str, problem["loc"]))
        message = problem["msg"].replace("Input should be", "must be")
        if problem["type"] == "missing":
            message = f"the field '{where}' is missing"
        elif where:
            message = f"the field '{where}' is {shortened(problem['input'])}, but {message}"
        raise DataError(message) from error


def _read_parts(values: Any, info: ValidationInfo) -> list[Part]:
    return parts_from_data(values, len(info.data.get("input", "")))


def _check_others(values: Any, info: ValidationInfo) -> Any:
    with _one_line():
        _Others.model_validate(values)
    parts_from_data(values.get("parts", []), len(info.data.get("input", "")))
    return values


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
        Tokens that the model reads (beginning-of-text token, chat template) plus tokens to
        generate. The budget holds for this number.
    answer_prefix
        The beginning of the answer, which the model continues.
    token_position_answer
        Index, in the tokens of ``input``, of the token where the first reference begins.
    task, language
        ``"niah_single_2"``, ``"da"``.
    parts
        The positions of needles, values, distractors, documents, hops, worked examples and the
        question, by rising start. Empty in records of other tools.
    depths
        The depth of each needle, 0 (start) to 100 (end), see
        `rulerlib.haystack.Context.depths`: first those of ``outputs``, in that order, then the
        others.
    token_positions
        For every needle, in the order of ``depths``, the index in the tokens of
        ``input`` of its first token.
    context_id
        Samples with the same ``context_id`` share their context.
    golds
        Every accepted answer as a list of its spans. Empty, and not written, if answers have no
        spans.
    id, cluster
        The name of the question in its data set, and a name that all questions about the same
        text share, because their answers are dependent. Not written if empty.
    facts
        Further facts about the question by name: ``operation``, ``unit``. Not written if empty.
    """

    needed: ClassVar[frozenset[str]] = frozenset({"index", "input", "outputs"})

    index: Int
    input: str
    outputs: list[str]
    length: Int = 0
    length_w_model_temp: Int = 0
    answer_prefix: str = ""
    token_position_answer: Int | None = None
    task: str = ""
    language: str = ""
    parts: Annotated[list[Part], PlainValidator(_read_parts)] = field(default_factory=list)
    depths: list[float] = field(default_factory=list)
    token_positions: list[Int] = field(default_factory=list)
    context_id: Int | None = None
    golds: list[list[str]] = field(default_factory=list)
    id: str = ""
    cluster: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def parts_of(self, *roles: str) -> list[Part]:
        """Return the parts that have one of these roles, by rising start."""
        return of_role(self.parts, *roles)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        values = {**Record.to_dict(self), "parts": parts_to_data(self.parts)}
        return {name: value for name, value in values.items() if value or name not in OPTIONAL}


@dataclass(slots=True)
class Prediction(Record):
    """A model's answer to one sample.

    Attributes
    ----------
    index, input, outputs, length
        Those of the `Sample`.
    pred
        The text that the model generated, without the prompt; of a chat, without its thinking.
    others
        Further fields by name. Of the sample: ``task``, ``language``, ``answer_prefix``,
        ``parts`` (see `rulerlib.parts`), ``depths``, ``token_positions``, and where it has them
        ``golds``, ``id``, ``cluster``, ``facts`` and ``context_id``. Of the answer:
        ``prompt_tokens`` and ``tokens_generated``; ``finished``, whether the model ended it;
        ``cut_off``, the part that reached the limit (``"thinking"``, ``"answer"`` or None);
        ``thinking``, the model's thinking before the answer; ``split``, see
        `rulerlib.models.Generation`; ``flags``, irregularities, see `rulerlib.models.FLAGS`; and
        ``repeat``, the number of this answer among several to the sample, from 0.
    truncation
        -1 if the whole prompt was read (RULER's convention), else the number of
        tokens that were kept.
    """

    needed: ClassVar[frozenset[str]] = frozenset({"index", "outputs", "pred"})

    index: Int
    input: str = ""
    outputs: list[str] = field(default_factory=list)
    pred: str = ""
    others: Annotated[dict[str, Any], PlainValidator(_check_others)] = field(default_factory=dict)
    truncation: Int = -1
    length: Int = -1

    @property
    def parts(self) -> list[Part]:
        """All parts of the prompt, see `parts_of`."""
        return self.parts_of()

    def parts_of(self, *roles: str) -> list[Part]:
        """Return the parts of some roles, or all.

        There are none in records of other tools.

        Raises
        ------
        DataError
            If they are damaged.
        """
        columns = self.others.get("parts") or []
        if roles and isinstance(columns, list) and {*map(type, columns)} <= {dict}:
            columns = [column for column in columns if column.get("role") in roles]
        return parts_from_data(columns, len(self.input))

    @property
    def golds(self) -> list[list[str]]:
        """Every accepted answer as a list of its spans; empty if answers have no spans.

        Raises
        ------
        DataError
            If they are damaged.
        """
        with _one_line():
            return _Others.model_validate({"golds": self.others.get("golds") or []}).golds

    @property
    def repeat(self) -> int:
        """The number of this answer among several answers to the same sample, from 0.

        Raises
        ------
        DataError
            If the record says something else.
        """
        with _one_line():
            return _Others.model_validate({"repeat": self.others.get("repeat", 0)}).repeat


R = TypeVar("R", bound=Record)


def read(path: str | Path, kind: type[R], unfinished: bool = False) -> Iterator[R]:
    """Yield the records of a JSONL file, one at a time.

    Parameters
    ----------
    kind
        `Sample` or `Prediction`.
    unfinished
        Whether to ignore a last line without its newline, which a killed process may leave.

    Raises
    ------
    DataError
        If the file cannot be read or a line is damaged: names file and line.
    """
    path = Path(path)
    with _readable(path), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if unfinished and not line.endswith(b"\n"):
                return
            # Other tools may leave lines empty.
            if not unfinished and not line.strip():
                continue
            try:
                record = kind.from_json(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                reason = f"not UTF-8 ({error.reason} at byte {error.start})"
                raise DataError(f"{path}, line {number}: {reason}.") from error
            except DataError as error:
                raise DataError(f"{path}, line {number}: {str(error).rstrip('.')}.") from error
            yield record


def read_object(path: str | Path) -> dict[str, Any]:
    """Return the JSON object that a file holds.

    Raises
    ------
    DataError
        If the file cannot be read or holds something else: names the file.
    """
    path = Path(path)
    with _readable(path), path.open("rb") as file:
        data = file.read()
    try:
        values = json.loads(data.decode("utf-8-sig"))
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


def writable(text: str) -> str:
    """Return what a model said as text that a file can hold.

    A server may cut an answer in the middle of an emoji, whose first half is then no character
    and cannot be written in UTF-8. Halves that belong together become one; others become U+FFFD.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
