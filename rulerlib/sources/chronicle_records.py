"""What happened in the fictional chronicle: seasons, voyages, markets and censuses as rows.

A record is a table before it is told: who it is about, the year, and a row of values for each
match, port, market day or parish. Each subject (a club, a ship, a market, a district) has several
records, some years apart, in which the same actors come up with other numbers.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from rulerlib.sources.encyclopedia_regions import Regions

# Records about one subject: one is asked about, the others are its near distractors.
EDITIONS = 4

# Rows of a record.
ROWS = (6, 10)

# Towns that a subject uses: one for its own name, the others for rows. Two records of a subject
# share nine names in the end, if each has the most rows, and one if each has the fewest.
TOWNS = 12

# The years of the first records.
FIRST_YEARS = (1861, 1899)

# Parts of a whole that a record states in per cent, and the range of each.
SHARES, SHARE = 3, (6, 32)

Value = int | Decimal | datetime.date | str
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Measure:
    """A number that each row has.

    Attributes
    ----------
    low, high
        Its range, ``high`` excluded.
    distinct
        Whether no two rows of a record have the same, so that it can rank them.
    total
        Whether the sum over all rows is asked for: not for numbers of four digits.
    """

    low: int
    high: int
    distinct: bool = True
    total: bool = True


@dataclass(frozen=True)
class Kind:
    """A kind of record.

    Attributes
    ----------
    pool
        The names of the encyclopedia that the subject's name is taken from.
    measures
        The numbers of a row.
    month
        The month of the first row, after February, so that no leap day lies between two rows.
    gap
        The fewest and the most days from one row to the next.
    years
        The fewest and the most years from one record of a subject to the next. The year before a
        record, of which its passage may tell in passing, has no record of its own.
    label
        The field that a row is called by when it is measured: its name or its date.
    chronological
        Whether the rows are always told by date.
    lasting
        Whether rows of one name are the same thing in all years, so that "how many parishes in
        1880 and 1890" could mean two numbers.
    conditions
        For each name of a condition a field, the value that it must have, and the fields that a
        reader sees it from.
    """

    pool: str
    measures: dict[str, Measure]
    month: int
    gap: tuple[int, int]
    years: tuple[int, int] = (2, 5)
    label: str = "name"
    chronological: bool = False
    lasting: bool = False
    conditions: Mapping[str, tuple[str, str, tuple[str, ...]]] = field(default_factory=dict)


_SCORE = ("goals", "against")

KINDS: dict[str, Kind] = {
    "season": Kind(
        pool="town",
        measures={
            "spectators": Measure(210, 4_900, total=False),
            "goals": Measure(0, 6, distinct=False),
            "against": Measure(0, 5, distinct=False),
        },
        month=4,
        gap=(5, 19),
        conditions={
            "won": ("result", "won", _SCORE),
            "lost": ("result", "lost", _SCORE),
            "drawn": ("result", "drawn", _SCORE),
            "home": ("side", "home", ("place",)),
            "away": ("side", "away", ("place",)),
        },
    ),
    "voyage": Kind(
        pool="ship",
        measures={"landed": Measure(21, 190), "passengers": Measure(3, 64)},
        month=3,
        gap=(6, 26),
        chronological=True,
    ),
    "market": Kind(
        pool="town",
        measures={"visitors": Measure(410, 6_900, total=False), "carts": Measure(21, 190)},
        month=5,
        gap=(3, 16),
        label="date",
    ),
    "census": Kind(
        pool="town",
        measures={
            # A parish has always more inhabitants than children at school.
            "inhabitants": Measure(410, 3_900, total=False),
            "pupils": Measure(21, 190),
        },
        month=3,
        gap=(1, 9),
        years=(10, 10),
        lasting=True,
    ),
}
"""The kinds of records; what they tell is put into words by a language's ``chronicle.toml``."""


@dataclass(frozen=True)
class Record:
    """What is true of one season, voyage, market or census.

    Attributes
    ----------
    kind
        A key of `KINDS`.
    subject, person
        The club, ship, market or district, and who led it; the same in all records of a subject.
    year
        No other record of the subject has it.
    rows
        In the order in which they are told. Each has ``name``, ``date`` and the measures of its
        kind; a match also has ``place`` (in words), ``side`` and ``result``.
    shares
        Groups with the per cent that each makes up, of a whole that has others besides.
    """

    kind: str
    subject: str
    person: str
    year: int
    rows: tuple[Row, ...]
    shares: tuple[tuple[str, Decimal], ...]


class Records:
    """The records of a chronicle by index, each drawn when it is asked for.

    Parameters
    ----------
    wording
        The words of a language, see `rulerlib.sources.chronicle_wording.read_wording`.
    regions
        The names of the encyclopedia, in the same language.
    seed
        Another seed draws other records.
    """

    def __init__(self, wording: dict[str, Any], regions: Regions, seed: int) -> None:
        self._wording, self._regions, self._seed = wording, regions, seed

    @property
    def limit(self) -> int:
        """The number of records that the language has names for, as many of each kind."""
        towns, ships, people = map(self._regions.num_words, ("town", "ship", "surname"))
        subjects = min(towns // TOWNS, ships, people)
        return EDITIONS * len(KINDS) * (subjects // len(KINDS))

    def record(self, index: int) -> Record:
        """Return what is true of one record; it depends on the seed and the index alone."""
        subject, edition = divmod(index, EDITIONS)
        rng = random.Random(f"{self._seed}:chronicle:subject:{subject}")
        name = list(KINDS)[subject % len(KINDS)]
        kind, wording = KINDS[name], self._wording["kinds"][name]
        years = [rng.randint(*FIRST_YEARS)]
        years += [rng.randint(*kind.years) for _ in range(EDITIONS - 1)]
        towns = [self._regions.word("town", subject * TOWNS + at) for at in range(TOWNS)]
        own = towns[0] if kind.pool == "town" else self._regions.word(kind.pool, subject)
        title = rng.choice(wording["subject"]).format(word=own)
        surname = self._regions.word("surname", subject)
        person = self._regions.full_name(rng, rng.choice(("he", "she")), surname)

        rng = random.Random(f"{self._seed}:chronicle:record:{index}")
        year = sum(years[: edition + 1])
        names = rng.sample(wording.get("names", towns[1:]), rng.randint(*ROWS))
        rows = self._rows(rng, name, names, datetime.date(year, kind.month, 1))
        if not kind.chronological and rng.random() < 0.5:
            rng.shuffle(rows)
        groups = rng.sample(wording["shares"]["groups"], SHARES)
        shares = tuple(zip(groups, _shares(rng), strict=True))
        return Record(name, title, person, year, tuple(rows), shares)

    def _rows(
        self, rng: random.Random, kind: str, names: list[str], start: datetime.date
    ) -> list[Row]:
        """Return a row for each name, by date."""
        values = {
            measure: rng.sample(range(each.low, each.high), len(names))
            if each.distinct
            else rng.choices(range(each.low, each.high), k=len(names))
            for measure, each in KINDS[kind].measures.items()
        }
        rows, date = list[Row](), start + datetime.timedelta(days=rng.randrange(28))
        for number, name in enumerate(names):
            row: dict[str, Any] = {"name": name, "date": date, "result": "told"}
            row |= {measure: values[measure][number] for measure in values}
            if kind == "season":
                lead = row["goals"] - row["against"]
                row["result"] = "won" if lead > 0 else "lost" if lead < 0 else "drawn"
                row["side"] = rng.choice(("home", "away"))
                row["place"] = self._wording["kinds"][kind]["places"][row["side"]]
            rows.append(row)
            date += datetime.timedelta(days=rng.randint(*KINDS[kind].gap))
        return rows


def _shares(rng: random.Random) -> list[Decimal]:
    """Return different parts of a hundred, all whole or all with one decimal that is not 0."""
    parts = [Decimal(part) for part in rng.sample(range(*SHARE), SHARES)]
    if rng.random() < 0.5:
        return parts
    return [part + Decimal(rng.randint(1, 9)) / 10 for part in parts]
