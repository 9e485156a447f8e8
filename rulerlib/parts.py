"""The parts of a prompt: the positions of needles, values, documents and the question.

>>> text = "The code for a-b is: 1234567."
>>> parts = [Part("needle", 0, 29, key="a-b", depth=0), Part("value", 21, 28)]
>>> [text[part.start : part.end] for part in of_role(parts, "value")]
['1234567']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pydantic

from rulerlib.errors import DataError, shortened


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
        `rulerlib.haystack.Context.depths`.
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


# --- In a file ------------------------------------------------------------------------------------


class _Columns(pydantic.BaseModel):
    """Parts of one role as they are written: a list for each field that is known."""

    model_config = pydantic.ConfigDict(strict=True, allow_inf_nan=False)

    role: str
    start: list[int]
    end: list[int]
    key: list[str | None] | None = None
    value: list[str | None] | None = None
    depth: list[float | None] | None = None
    token_position: list[int | None] | None = None


_OPTIONAL = ("key", "value", "depth", "token_position")


def parts_to_data(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return parts as plain data: for each role, and the fields known of it, an object of lists.

    >>> parts_to_data([Part("context", 0, 30), Part("needle", 4, 20, key="a-b", depth=50)])[1]
    {'role': 'needle', 'start': [4], 'end': [20], 'key': ['a-b'], 'depth': [50]}
    """
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for part in parts:
        names = ["start", "end", *(name for name in _OPTIONAL if getattr(part, name) is not None)]
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
    if not isinstance(values, list):
        raise DataError(f"the parts {shortened(values)} are not a list")
    parts = [part for group in values for part in _of_group(group)]
    for part in parts:
        if not 0 <= part.start <= part.end <= size:
            role = shortened(part.role)
            raise DataError(f"a part {role} does not lie within the {size} characters")
    return in_order(parts)


def _of_group(group: Any) -> list[Part]:
    """Return the parts of one object of `parts_to_data`."""
    try:
        columns = _Columns.model_validate(group)
        none = [None] * len(columns.start)
        optional = [getattr(columns, name) for name in _OPTIONAL]
        rows = zip(
            columns.start,
            columns.end,
            *(none if values is None else values for values in optional),
            strict=True,
        )
        return [Part(columns.role, *row) for row in rows]
    except ValueError as error:
        raise DataError(
            f"the parts {shortened(group)} are not an object of lists of equal length"
        ) from error
