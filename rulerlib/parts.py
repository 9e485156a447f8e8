"""The parts of a prompt: where every needle, value, document, listed word and question stands.

>>> text = "The code for a-b is: 1234567."
>>> parts = Parts.of([Part("needle", 0, 29, key="a-b", depth=0), Part("value", 21, 28)])
>>> [text[part.start : part.end] for part in parts.of_role("value")]
['1234567']
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import le
from types import NoneType
from typing import Any, NamedTuple, Self

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
        - ``word``: a word of a list that is to be counted;
        - ``value``: a value: in a needle, a hop, a distractor or a document;
        - ``operand``: a number, date or name in a document that the answer is computed
          from.
    start, end
        Characters [start, end) of ``Sample.input``.
    key, value
        The key and the value of a needle, a hop or a distractor, where it is known beside the
        value part within it.
    depth
        How deep it stands in the context, from 0 (start) to 100 (end), see
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


# The further fields, in their order, and the types of their values in a file.
_MORE: dict[str, set[type]] = {
    "key": {str, NoneType},
    "value": {str, NoneType},
    "depth": {int, float, NoneType},
    "token_position": {int, NoneType},
}


@dataclass(frozen=True, slots=True)
class Column:
    """Parts of one role: a long list has tens of thousands of them, kept as plain numbers.

    Attributes
    ----------
    role
        See `Part`.
    start, end
        For each part its characters [start, end).
    more
        The further fields of `Part` that are known, each with one value a part.
    """

    role: str
    start: list[int]
    end: list[int]
    more: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Part]:
        more = (self.more.get(name, itertools.repeat(None)) for name in _MORE)
        return map(Part, itertools.repeat(self.role), self.start, self.end, *more)

    @classmethod
    def from_dict(cls, values: Any, size: int) -> Self:
        """Return the parts of one object of `Parts.to_data`, checked.

        Parameters
        ----------
        values
            What was read from a file.
        size
            The number of characters of the prompt.

        Raises
        ------
        DataError
            If it is no such object, or a part does not lie within the prompt.
        """
        try:
            role, start, end = values["role"], values["start"], values["end"]
        except (TypeError, LookupError) as error:
            reason = f"the parts {shortened(values)} are no object with role, start and end"
            raise DataError(reason) from error
        more = {name: values[name] for name in _MORE if name in values}
        columns = (start, end, *more.values())
        lists = isinstance(role, str) and {*map(type, columns)} <= {list}
        if not lists or len({*map(len, columns)}) > 1:
            raise DataError(f"the parts {shortened(values)} have fields of unequal length")
        for name, column in more.items():
            if not {*map(type, column)} <= _MORE[name]:
                raise DataError(f"the parts {shortened(role)} have a {name} that cannot be")
        if not {*map(type, start), *map(type, end)} <= {int}:
            raise DataError(
                f"the parts {shortened(role)} begin and end at other than whole numbers"
            )
        if start and not (min(start) >= 0 and max(end) <= size and all(map(le, start, end))):
            raise DataError(f"a part {shortened(role)} does not lie within {size} characters")
        return cls(role, start, end, more)


class Parts(Sequence[Part]):
    """The parts of one prompt, by rising start; outer parts come before those within them.

    >>> parts = Parts.of([Part("context", 0, 30), Part("needle", 4, 20, key="a-b", depth=50)])
    >>> [part.role for part in parts]
    ['context', 'needle']
    >>> parts.to_data()[1]
    {'role': 'needle', 'start': [4], 'end': [20], 'key': ['a-b'], 'depth': [50]}

    Parameters
    ----------
    columns
        The parts by role, in any order; `of` makes them of single parts.
    more
        Returns further ones. It is asked when somebody looks at the parts, and once.
    """

    def __init__(
        self, columns: Sequence[Column] = (), more: Callable[[], Sequence[Column]] = tuple
    ) -> None:
        self._known, self._more = columns, more

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All parts, by role."""
        return (*self._known, *self._more())

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Column, ...]]]:
        # What is copied or sent to another process is the parts, not who could work them out.
        return type(self), (self.columns,)

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Self:
        """Return the parts that are given one by one, in any order."""
        groups: dict[tuple[str, tuple[str, ...]], list[Part]] = {}
        for part in parts:
            names = tuple(name for name in _MORE if getattr(part, name) is not None)
            groups.setdefault((part.role, names), []).append(part)
        columns = []
        for (role, names), group in groups.items():
            more = {name: [getattr(part, name) for part in group] for name in names}
            starts, ends = [part.start for part in group], [part.end for part in group]
            columns.append(Column(role, starts, ends, more))
        return cls(columns)

    def of_role(self, *roles: str) -> list[Part]:
        """Return the parts of some roles, by rising start."""
        return _by_start(column for column in self.columns if column.role in roles)

    @cached_property
    def _all(self) -> list[Part]:
        return _by_start(self.columns)

    def __len__(self) -> int:
        return sum(len(column.start) for column in self.columns)

    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parts) and self._all == other._all

    def __repr__(self) -> str:
        return f"Parts.of({self._all!r})"

    def to_data(self) -> list[dict[str, Any]]:
        """Return the parts as plain data: an object of lists for each role and its known fields."""
        full = (column for column in self.columns if column.start)
        return [
            {"role": column.role, "start": column.start, "end": column.end, **column.more}
            for column in full
        ]

    @classmethod
    def from_data(cls, values: Any, size: int) -> Self:
        """Return the parts of plain data, as `to_data` makes it, checked.

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
            raise DataError(f"the parts {shortened(values)} are no list")
        return cls([Column.from_dict(value, size) for value in values])


def _by_start(columns: Iterable[Column]) -> list[Part]:
    parts = itertools.chain.from_iterable(columns)
    return sorted(parts, key=lambda part: (part.start, -part.end))
