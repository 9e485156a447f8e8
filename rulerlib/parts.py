"""The parts of a prompt: where each needle, value, document and the question stand.

>>> text = "The code for a-b is: 1234567."
>>> parts = [Part("needle", 0, 29, key="a-b", depth=0), Part("value", 21, 28)]
>>> [text[part.start : part.end] for part in of_role(parts, "value")]
['1234567']
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rulerlib.errors import DataError, shortened


class Part(NamedTuple):
    """A labelled stretch of a prompt.

    A part may lie within another one: a value stands in its needle. The characters of a value
    part are the value.

    Attributes
    ----------
    role
        What it is:

        - ``system``: an instruction that harnesses send as a message of its own, before
          the user's;
        - ``context``: everything between the instruction and the question;
        - ``example``: a worked example, with its answer;
        - ``question``: what follows the context;
        - ``needle``: a sentence that is asked for;
        - ``distractor``: a sentence, chain or document like the ones asked for, that is
          not;
        - ``hop``: an assignment of the chain that is asked for;
        - ``document``: a document that the answer needs;
        - ``value``: a value: in a needle, a hop, a distractor or a document;
        - ``operand``: a number, date or name in a document that the answer is computed
          from.
    start, end
        Characters [start, end) of ``Sample.input``.
    key, value
        The key and the value of a needle, a hop or a distractor, if known.
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


_TYPES: dict[str, type | tuple[type, ...]] = {
    "key": str, "value": str, "depth": (int, float), "token_position": int,
}  # fmt: skip
"""The optional fields, and the types of their values."""


def in_order(parts: Iterable[Part]) -> list[Part]:
    """Return parts by rising start; outer parts come before those within them."""
    return sorted(parts, key=lambda part: (part.start, -part.end))


def of_role(parts: Iterable[Part], *roles: str) -> list[Part]:
    """Return the parts that have one of these roles."""
    return [part for part in parts if part.role in roles]


def parts_to_data(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return parts as plain data: for each role, and the fields known of it, an object of lists.

    >>> parts_to_data([Part("context", 0, 30), Part("needle", 4, 20, key="a-b", depth=50)])[1]
    {'role': 'needle', 'start': [4], 'end': [20], 'key': ['a-b'], 'depth': [50]}
    """
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for part in parts:
        known = [name for name in _TYPES if getattr(part, name) is not None]
        new: dict[str, list[Any]] = {name: [] for name in ("start", "end", *known)}
        group = groups.setdefault((part.role, *known), {"role": part.role, **new})
        for name in new:
            group[name].append(getattr(part, name))
    return [*groups.values()]


def parts_from_data(values: Any, size: int) -> list[Part]:
    """Return the parts of plain data, as `parts_to_data` makes it.

    Parameters
    ----------
    values
        What was read from a file.
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
    problem = DataError(f"the parts {shortened(group)} are not objects of lists of equal length")
    if not isinstance(group, dict) or not isinstance(group.get("role"), str):
        raise problem
    fields: dict[str, Sequence[Any]] = {}
    for name in ("start", "end", *_TYPES):
        if name in group or name in ("start", "end"):
            fields[name] = _column(group, name, problem)
    if len({len(values) for values in fields.values()}) != 1:
        raise problem
    rows = zip(*fields.values(), strict=True)
    return [Part(group["role"], **dict(zip(fields, row, strict=True))) for row in rows]


def _column(group: dict[str, Any], name: str, problem: DataError) -> list[Any]:
    """Return the values of one field, checked."""
    values, kind = group.get(name), _TYPES.get(name, int)
    if not isinstance(values, list):
        raise problem
    for value in values:
        missing = value is None and name in _TYPES
        if isinstance(value, bool) or not (missing or isinstance(value, kind)):
            raise DataError(f"a part {shortened(group['role'])} has the {name} {shortened(value)}")
    return values
