"""The records Sample and Prediction, the parts of a prompt, and how they are read from JSONL.

A file is JSONL: one record a line, with RULER's own field names, so that
NVIDIA's ``validation.jsonl`` is read as it is and NVIDIA's ``evaluate.py``
scores our predictions unchanged. `rulerlib.store` writes such files.

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
import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeVar

from pydantic import (
    ConfigDict,
    Field,
    GetPydanticSchema,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    with_config,
)
from typing_extensions import TypedDict

from rulerlib.errors import LARGEST, DataError, shortened
from rulerlib.files import read_file

Int = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
"""A whole number of 64 bits, as tables hold it."""

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)


# --- Parts ----------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A labelled stretch of a prompt.

    A part may lie within another one, as a value lies within its needle.

    Attributes
    ----------
    role
        One of:

        - ``system``: an instruction that harnesses send as a system message;
        - ``context``: everything between the instruction and the question;
        - ``example``: a worked example, with its answer;
        - ``question``: the text after the context;
        - ``needle``: a sentence with the answer;
        - ``distractor``: a sentence, chain or document of the same form without the answer;
        - ``hop``: an assignment of the chain that leads to the answer;
        - ``document``: a document that the answer needs;
        - ``value``: a value in a needle, a hop, a distractor or a document;
        - ``operand``: a number, date or name from which the answer is computed.
    start, end
        Characters [start, end) of ``Sample.input``.
    key, value
        The key and the value of a needle, a hop or a distractor, or None.
    depth
        Its depth in the context, from 0 (start) to 100 (end), see
        `rulerlib.haystack.Filling.depths`.
    token_position
        The index of its first token in the tokens of ``Sample.input``.
    """

    role: str
    start: int
    end: int
    key: str | None = None
    value: str | None = None
    depth: float | None = None
    token_position: int | None = None


def in_order(parts: Iterable[Part]) -> list[Part]:
    """Return parts by rising start; outer parts come before those within them."""
    return sorted(parts, key=lambda part: (part.start, -part.end))


def of_role(parts: Iterable[Part], *roles: str) -> list[Part]:
    """Return the parts that have one of these roles."""
    return [part for part in parts if part.role in roles]


_COLUMNS = Part._fields[1:]


def parts_to_data(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return parts as plain data: for each role, and the fields known of it, an object of lists.

    >>> parts_to_data([Part("context", 0, 30), Part("needle", 4, 20, key="a-b", depth=50)])[1]
    {'role': 'needle', 'start': [4], 'end': [20], 'key': ['a-b'], 'depth': [50]}
    """
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for part in parts:
        names = [name for name in _COLUMNS if getattr(part, name) is not None]
        group = groups.setdefault((part.role, *names), {"role": part.role})
        for name in names:
            group.setdefault(name, []).append(getattr(part, name))
    return list(groups.values())


def parts_from_data(values: Any, size: int) -> list[Part]:
    """Return the parts of plain data, as `parts_to_data` makes it.

    Parameters
    ----------
    values
        The value of the field ``parts`` in a file.
    size
        The number of characters of the prompt.

    Raises
    ------
    DataError
        If it is no such data, or a part does not lie within the prompt.
    """
    parts = []
    try:
        for group in values:
            none = [None] * len(group["start"])
            columns = [group.get(name, none) for name in _COLUMNS]
            parts += [Part(group["role"], *row) for row in zip(*columns, strict=True)]
        outside = [part for part in parts if not 0 <= part.start <= part.end <= size]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"the parts {shortened(values)} are not objects of equal lists") from error
    if outside:
        role = shortened(outside[0].role)
        raise DataError(f"a part {role} does not lie within the {size} characters")
    return in_order(parts)


# --- Records --------------------------------------------------------------------------------------


@with_config(ConfigDict(strict=True, allow_inf_nan=False, extra="allow"))
class _Others(TypedDict, total=False):
    """The types of what is read of `Prediction.others`; other tools may add fields."""

    language: str
    answer_prefix: str
    depths: list[float]
    context_id: Int | None
    prompt_tokens: Int
    tokens_generated: Int
    finished: bool
    cut_off: str | None
    thinking: str
    repeat: Annotated[int, Field(ge=0, le=LARGEST)]
    golds: list[list[str]]
    cluster: str
    facts: dict[str, Any]
    flags: list[str]


_CHECKED = GetPydanticSchema(lambda _, schema_of: schema_of(_Others))

OPTIONAL = ("golds", "id", "cluster", "facts")
"""The fields that are written only if they are not empty."""


@dataclass(slots=True)
class Record:
    """A record: one line of a JSONL file as a Python object."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def to_json(self) -> str:
        """Return one line of JSON, without the newline; letters stay as they are (æ)."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def parts_of(self, *roles: str) -> list[Part]:
        """Return the parts that have one of these roles, by rising start."""
        return of_role(self.parts, *roles)  # type: ignore[attr-defined]

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Return the record of one line of JSON, without the fields of other tools.

        Raises
        ------
        DataError
            If it is not JSON, a field is missing, or a field has another type.
        """
        try:
            record: Self = _adapter(cls).validate_json(line)  # type: ignore[arg-type]
        except ValidationError as error:
            raise DataError(_problem(error)) from error
        return record


# Building it takes milliseconds, and every line of a file needs it.
@functools.cache
def _adapter(kind: type[Record]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _problem(error: ValidationError) -> str:
    """Return the first problem that pydantic found."""
    problem = error.errors()[0]
    where = ".".join(map(str, problem["loc"]))
    message = problem["msg"].replace("Input should be", "must be").removeprefix("Value error, ")
    if problem["type"] == "missing":
        return f"the field '{where}' is missing"
    if not where or problem["type"] == "value_error":
        return message
    return f"the field '{where}' is {shortened(problem['input'])}, but {message}"


def _read_parts(values: Any, info: ValidationInfo) -> list[Part]:
    return parts_from_data(values, len(info.data.get("input", "")))


@with_config(_STRICT)
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
        `rulerlib.haystack.Filling.depths`: first those of ``outputs``, in that order, then the
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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        values = {**Record.to_dict(self), "parts": parts_to_data(self.parts)}
        return {name: value for name, value in values.items() if value or name not in OPTIONAL}


@with_config(_STRICT)
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
        ``parts`` (see `rulerlib.samples`), ``depths``, ``token_positions``, and where it has them
        ``golds``, ``id``, ``cluster``, ``facts`` and ``context_id``. Of the answer:
        ``prompt_tokens`` and ``tokens_generated``; ``finished``, whether the model ended it;
        ``cut_off``, the part that reached the limit (``"thinking"``, ``"answer"`` or None);
        ``thinking``, the model's thinking before the answer; ``split``, see
        `rulerlib.models.Generation`; and ``repeat``, the number of this answer among several to
        the sample, from 0.
    truncation
        -1 if the whole prompt was read (RULER's convention), else the number of
        tokens that were kept.
    """

    index: Int
    input: str
    outputs: list[str]
    pred: str
    others: Annotated[dict[str, Any], _CHECKED] = field(default_factory=dict)
    truncation: Int = -1
    length: Int = -1

    @property
    def parts(self) -> list[Part]:
        """The parts of the prompt; there are none in records of other tools.

        Raises
        ------
        DataError
            If they are damaged.
        """
        try:
            return parts_from_data(self.others.get("parts") or [], len(self.input))
        except DataError as error:
            raise DataError(f"Answer {self.index}: {error}.") from error

    @property
    def golds(self) -> list[list[str]]:
        """Every accepted answer as a list of its spans; empty if answers have no spans."""
        return self.others.get("golds") or []

    @property
    def repeat(self) -> int:
        """The number of this answer among several answers to the same sample, from 0."""
        return int(self.others.get("repeat", 0))


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
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                if unfinished and not line.endswith(b"\n"):
                    return
                # Other tools may leave lines empty.
                if not line.strip() and not unfinished:
                    continue
                try:
                    yield kind.from_json(line.removeprefix(codecs.BOM_UTF8))
                except DataError as error:
                    where = f"{path}, line {number}"
                    raise DataError(f"{where}: {str(error).rstrip('.')}.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error


def read_object(path: str | Path) -> dict[str, Any]:
    """Return the JSON object that a file holds.

    Raises
    ------
    DataError
        If the file cannot be read or holds something else: names the file.
    """
    text = read_file(Path(path))
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: damaged ({error}).") from error
    if not isinstance(values, dict):
        raise DataError(f"{path}: damaged (not a JSON object).")
    return values


def writable(text: str) -> str:
    """Return what a model said as text that a file can hold.

    A server may cut an answer in the middle of an emoji, whose first half is then no character
    and cannot be written in UTF-8. Halves that belong together become one; others become U+FFFD.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
