"""Which facts the fictional encyclopedia has, who is related to whom, and what can be asked.

>>> FACTS["company"]["founder"].to, MEMBERS["founder"]
('founder', ('person', 'surname'))
>>> [label(path) for path in PATHS[2]][:2]
['town.river>river.length', 'town.river>river.source']
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

# The years in which companies were founded, ships launched, patents granted.
EVENTS = (1830, 1930)


@dataclass(frozen=True)
class Fact:
    """A fact that an entry has: the kind of its value, and what that is drawn from.

    Attributes
    ----------
    what
        ``"date"``, ``"number"``, ``"place"`` or ``"name"`` (both without an
        entry of their own), or ``"entry"``: another entry of the region.
    low, high, decimals
        The range of a number, ``high`` excluded, and its decimals. Ranges are wide
        and hold no year of the world, and numbers of one form have the same count
        of digits, so that an answer seldom stands in another document by chance
        (``43,7`` would stand in ``143,7``).
    pool
        The names that a place or a name is taken from.
    to
        The member of the region that an ``"entry"`` points to; ``*`` stands for
        the number of the member that points.
    """

    what: str
    low: int = 0
    high: int = 0
    decimals: int = 0
    pool: str = ""
    to: str = ""


_DATE = Fact("date")
_NAME = Fact("name", pool="surname")
_TOWN = Fact("place", pool="town")

# Relations run one way only (people and rivers name nobody), so that the second
# document of a two-hop question never gives the first one away.
FACTS: dict[str, dict[str, Fact]] = {
    "person": {
        "birth_date": _DATE,
        "birthplace": _TOWN,
        "spouse": _NAME,
        "death_date": _DATE,
    },
    "river": {
        "length": Fact("number", 101, 480, 1),
        "source": Fact("place", pool="lake"),
        "survey_date": _DATE,
    },
    "town": {
        "charter_date": _DATE,
        "population": Fact("number", 10_100, 48_000),
        "mayor": _NAME,
        "river": Fact("entry", to="river *"),
    },
    "ship": {
        "yard": _TOWN,
        "launch_date": _DATE,
        "length": Fact("number", 24, 80, 2),
        "captain": Fact("entry", to="captain"),
    },
    "expedition": {
        "leader": Fact("entry", to="leader"),
        "ship": Fact("entry", to="ship"),
        "departure_date": _DATE,
        "destination": Fact("place", pool="wild"),
        "distance": Fact("number", 10_100, 29_000),
    },
    "company": {
        "founder": Fact("entry", to="founder"),
        "founding_date": _DATE,
        "town": Fact("entry", to="town 1"),
        "staff": Fact("number", 2_100, 9_900),
    },
    "invention": {
        "inventor": Fact("entry", to="inventor"),
        "patent_date": _DATE,
        "patent_number": Fact("number", 10_100, 98_000),
    },
    "festival": {
        "founder": Fact("entry", to="organizer"),
        "first_date": _DATE,
        "town": Fact("entry", to="town 2"),
        "attendance": Fact("number", 10_100, 60_000),
    },
    "museum": {
        "architect": Fact("entry", to="architect"),
        "opening_date": _DATE,
        "town": Fact("entry", to="town 1"),
        "objects": Fact("number", 10_100, 98_000),
    },
    "school": {
        "head": Fact("entry", to="head"),
        "opening_date": _DATE,
        "town": Fact("entry", to="town 2"),
        "bell": Fact("number", 101, 900, 1),
    },
    "bridge": {
        "engineer": Fact("entry", to="engineer"),
        "opening_date": _DATE,
        "length": Fact("number", 101, 900, 1),
        "river": Fact("entry", to="river 1"),
    },
}

# In which year a person must have been grown up and alive: the dated fact of which member.
DEEDS = {
    "founder": ("company", "founding_date"),
    "captain": ("ship", "launch_date"),
    "leader": ("expedition", "departure_date"),
    "inventor": ("invention", "patent_date"),
    "organizer": ("festival", "first_date"),
    "architect": ("museum", "opening_date"),
    "head": ("school", "opening_date"),
    "engineer": ("bridge", "opening_date"),
}

# The members of a region: the kind of each, and the names that it takes.
MEMBERS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(DEEDS, ("person", "surname")),
    **dict.fromkeys(("river 1", "river 2"), ("river", "river")),
    **dict.fromkeys(("town 1", "town 2"), ("town", "town")),
    "ship": ("ship", "ship"),
    "expedition": ("expedition", "coined"),
    "company": ("company", "coined"),
    "invention": ("invention", "device"),
    "festival": ("festival", "coined"),
    "museum": ("museum", "coined"),
    "school": ("school", "coined"),
    "bridge": ("bridge", "bridge"),
}
REGION = len(MEMBERS)

# The pools of names, and how many of each one region uses.
POOLS = Counter(
    name
    for kind, pool in MEMBERS.values()
    for name in (pool, *(fact.pool for fact in FACTS[kind].values() if fact.pool))
)

FactPath = tuple[str, ...]


_ONE_HOP: list[FactPath] = [(kind, fact) for kind, facts in FACTS.items() for fact in facts]
_TWO_HOPS: list[FactPath] = [
    (*first, *second)
    for first in _ONE_HOP
    for second in _ONE_HOP
    if (to := FACTS[first[0]][first[1]].to)
    and second[0] == MEMBERS[to.replace("*", "1")][0]
    and not FACTS[second[0]][second[1]].to
]

# What can be asked with one hop, (kind, fact), and with two, (kind, relation, kind, fact).
PATHS = {1: _ONE_HOP, 2: _TWO_HOPS}


def label(path: FactPath) -> str:
    """Return the name of what is asked, ``"company.founder>person.birthplace"``."""
    return ">".join(".".join(path[start : start + 2]) for start in range(0, len(path), 2))


def members_of(kind: str) -> list[int]:
    """Return the numbers of all members of a kind in their region, from 0."""
    return [number for number, (other, _) in enumerate(MEMBERS.values()) if other == kind]


def draw_years(rng: random.Random) -> dict[tuple[str, str], int]:
    """Return the year of each dated fact of a region, by member and fact.

    Deeds first, lives around them: who founds a company is 26 to 50 years old
    and lives on for at least three years. Towns are older than everything that
    stands in them, and a ship is launched before it sails on an expedition.
    """
    years = {deed: rng.randint(*EVENTS) for deed in DEEDS.values()}
    years["expedition", "departure_date"] = years["ship", "launch_date"] + rng.randint(1, 8)
    for role, deed in DEEDS.items():
        born = years[deed] - rng.randint(26, 50)
        years[role, "birth_date"] = born
        died = years[deed] + rng.randint(3, 30), born + rng.randint(55, 90)
        years[role, "death_date"] = max(died)
    for number in "12":
        years[f"town {number}", "charter_date"] = rng.randint(1240, 1690)
        years[f"river {number}", "survey_date"] = rng.randint(1700, 1790)
    return years
