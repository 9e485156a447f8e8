"""What questions about the chronicle are drawn from: passages on one subject, row by row.

A `Matter` holds the passages of one question and draws rows from them; an operation of
`rulerlib.sources.chronicle_questions` makes a `Asking` of these.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from rulerlib.sources.chronicle_passages import Operand, Passage
from rulerlib.sources.chronicle_records import KINDS, Row, Value
from rulerlib.sources.chronicle_wording import Writing


class Place(NamedTuple):
    """A row of a passage, by its number in the record."""

    passage: Passage
    number: int

    @property
    def row(self) -> Row:
        """The values of the row."""
        return self.passage.record.rows[self.number]

    @property
    def year(self) -> str:
        """The year of the passage, in digits."""
        return str(self.passage.record.year)


@dataclass
class Asking:
    """A question before it is worded.

    Attributes
    ----------
    wording
        The keys of its wordings among the questions of its kind.
    answer
        A number that was computed, or a list of values.
    operands
        The values that it comes from.
    slots
        The words and values that the wording names besides the subject and the years.
    unit
        What a number counts: a key of the kind's nouns, ``"days"`` or ``"percent"``.
    """

    wording: tuple[str, ...]
    answer: int | Decimal | list[Value]
    operands: list[Operand]
    slots: dict[str, Any] = field(default_factory=dict)
    unit: str = ""


class Matter:
    """The passages that are asked about, all on one subject, and what is drawn from them.

    Attributes
    ----------
    single
        Whether it is one passage.
    countable
        Whether its rows can be counted: over several years, not those that stay the same.
    rows
        The rows of all passages.
    """

    def __init__(self, passages: Sequence[Passage], writing: Writing, rng: random.Random) -> None:
        self.passages, self.writing, self.rng = passages, writing, rng
        self.single = len(passages) == 1
        self.kind = KINDS[passages[0].record.kind]
        self.countable = self.single or not self.kind.lasting
        self.rows = [
            Place(passage, number)
            for passage in passages
            for number in range(len(passage.record.rows))
        ]

    def measure(self) -> str:
        """Return at random one of the measures that can rank rows."""
        return self.rng.choice([name for name, each in self.kind.measures.items() if each.distinct])

    def same(self, measure: str) -> list[Place]:
        """Return the rows of one name, one in each passage, if they differ in a measure.

        Of several names one is drawn; the list is empty if there is none.
        """
        by_name: dict[str, list[Place]] = {}
        for place in self.rows:
            by_name.setdefault(place.row["name"], []).append(place)
        full = [
            places
            for places in by_name.values()
            if len({place.row[measure] for place in places}) == len(self.passages)
        ]
        return self.rng.choice(full) if full else []

    def compared(self, measure: str, count: int) -> tuple[str, list[Place], dict[str, Any]]:
        """Return rows to be compared, with the words to ask about them.

        Parameters
        ----------
        measure
            What is compared.
        count
            The number of rows of a single passage. Of several passages it is one row each.

        Returns
        -------
        str
            The beginning of a wording's key: ``"years_"`` for several passages, else ``""``.
        list of Place
            The rows, in falling order of the measure; of several passages, there may be none.
        dict
            The slots that name them.
        """
        places = self.rng.sample(self.rows, count) if self.single else self.same(measure)
        slots = {"names": [self.called(place) for place in places]}
        if places and not self.single:
            slots = {"name": places[0].row["name"]}
        places.sort(key=lambda place: place.row[measure], reverse=True)
        return "" if self.single else "years_", places, slots

    def called(self, place: Place) -> Value:
        """Return the name of a row in questions about measures: its name, its date, or its year."""
        value: Value = place.row[self.kind.label] if self.single else place.year
        return value

    def in_turn(self) -> list[Place]:
        """Return all rows by date."""
        return sorted(self.rows, key=lambda place: place.row["date"])
