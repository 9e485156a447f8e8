"""The truth of a fictional world: the names, dates, numbers and relations of its entries.

A world is cut into regions of twenty entries that know each other. Every name is put together
from parts (onset, rime, ending), and each combination is used once at most, so no name occurs
twice, and none stands inside another. Which facts an entry has, and who is related to whom, stands
in ``regions.toml`` beside this file. Relations run one way only (people and rivers name nobody), so
that the second document of a two-hop question never gives the first one away. The words are those
of ``encyclopedia.toml`` in a language's folder; a new language needs no Python.

>>> FACTS["company"]["founder"]["to"], MEMBERS["founder"]
('founder', ['person', 'surname'])
>>> [label(path) for path in PATHS[2]][:2]
['town.river>river.length', 'town.river>river.source']
"""

from __future__ import annotations

import datetime
import functools
import itertools
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from rulerlib.errors import DataError
from rulerlib.languages import read_toml
from rulerlib.sources import slots

# The years in which companies were founded, ships launched, patents granted.
EVENTS = (1830, 1930)


_TABLES = read_toml(Path(__file__).with_suffix(".toml"), "the facts of the encyclopedia")

FACTS: dict[str, dict[str, dict[str, Any]]] = _TABLES["facts"]
"""The facts of an article, by its kind and their names: what each is, and what it is drawn from."""

# In which year a person must have been grown up and alive: the dated fact of which member.
DEEDS = {role: (of, what) for role, (of, what) in _TABLES["deeds"].items()}

# The members of a region: the kind of each, and the names that it takes.
MEMBERS: dict[str, list[str]] = _TABLES["members"]

REGION = len(MEMBERS)

# The pools of names, and how many of each one region uses.
POOLS = Counter(
    name
    for kind, pool in MEMBERS.values()
    for name in (pool, *(fact["pool"] for fact in FACTS[kind].values() if "pool" in fact))
)

FactPath = tuple[str, ...]


_ONE_HOP: list[FactPath] = [(kind, fact) for kind, facts in FACTS.items() for fact in facts]
_TWO_HOPS: list[FactPath] = [
    (*first, *second)
    for first in _ONE_HOP
    for second in _ONE_HOP
    if (to := FACTS[first[0]][first[1]].get("to"))
    and second[0] == MEMBERS[to.replace("*", "1")][0]
    and "to" not in FACTS[second[0]][second[1]]
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


class FactValue(NamedTuple):
    """The value of a fact: its spellings, and the index of the entry that it names, if any."""

    answers: tuple[str, ...]
    target: int | None = None


class Truth(NamedTuple):
    """An entry before it is written: its name, the words that belong to it, its facts."""

    kind: str
    title: str
    words: dict[str, Any]
    values: dict[str, FactValue]


class Regions:
    """The regions of a world, each made when it is first asked for.

    ``wording`` are the words of a language, see `read_wording`; another ``seed`` makes other names,
    dates and numbers.
    """

    def __init__(self, wording: dict[str, Any], seed: int) -> None:
        self._wording, self._seed = wording, seed
        self._regions: dict[int, list[Truth]] = {}
        self._orders: dict[str, tuple[int, int]] = {}

    @property
    def limit(self) -> int:
        """The most entries that the names of this language suffice for."""
        return REGION * min(self.num_words(pool) // used for pool, used in POOLS.items())

    def record(self, index: int) -> Truth:
        """Return what is true of an entry."""
        region, member = divmod(index, REGION)
        if region not in self._regions:
            self._regions[region] = self._region(region)
        return self._regions[region][member]

    def shuffled(self, key: str, number: int, total: int) -> int:
        """Return the item at ``number`` in an order of ``range(total)`` that the seed decides.

        Multiplying by a factor without a divisor in common with ``total`` is a
        permutation that needs no list, so the millionth name costs what the first does.
        """
        if key not in self._orders:
            rng = random.Random(f"{self._seed}:order:{key}")
            factor = rng.randrange(1, total + 1)
            while math.gcd(factor, total) != 1:
                factor += 1
            self._orders[key] = factor, rng.randrange(total)
        factor, start = self._orders[key]
        return (factor * number + start) % total

    def _region(self, region: int) -> list[Truth]:
        """Return twenty entries that know each other, and agree on who did what when."""
        rng = random.Random(f"{self._seed}:region:{region}")
        numbers = {pool: itertools.count(region * used) for pool, used in POOLS.items()}

        def word(pool: str) -> str:
            return self.word(pool, next(numbers[pool]))

        named = {
            member: self._words(rng, member, kind, word(pool))
            for member, (kind, pool) in MEMBERS.items()
        }
        years = draw_years(rng)
        records = []
        for member, (kind, _) in MEMBERS.items():
            words, values = named[member], {}
            for name, fact in FACTS[kind].items():
                target = None
                if fact["what"] == "entry":
                    to = fact["to"].replace("*", member[-1])
                    answers = _spellings(named[to])
                    target = region * REGION + list(MEMBERS).index(to)
                elif fact["what"] == "date":
                    answers = self._date(rng, years[member, name])
                elif fact["what"] == "name":
                    gender = words.get("spouse") or rng.choice(("he", "she"))
                    answers = (self.full_name(rng, gender, word(fact["pool"])),)
                elif fact["what"] == "place":
                    answers = self._answers(kind, name, place=word(fact["pool"]))
                else:
                    answers = self._quantity(rng, kind, name, fact)
                values[name] = FactValue(answers, target)
            records.append(Truth(kind, words["name"], words, values))
        return records

    def _words(self, rng: random.Random, member: str, kind: str, word: str) -> dict[str, Any]:
        """Return the words that the sentences of an entry may use, its name among them."""
        wording = self._wording["kinds"][kind]
        types = [one for one in wording.get("types", [{}]) if one.get("role", member) == member]
        words = dict(rng.choice(types))
        if kind == "person":
            gender = rng.choice(("he", "she"))
            words |= self._wording["pronouns"][gender]
            words["last"], words["spouse"] = word, "she" if gender == "he" else "he"
            name = self.full_name(rng, gender, word)
        else:
            name = wording.get("name", "{word}").format(word=word, **words)
        return {**words, "name": name, "word": word}

    def full_name(self, rng: random.Random, gender: str, surname: str) -> str:
        """Return a first name for ``"he"`` or ``"she"``, and a surname."""
        parts = self._wording["names"]["first"][gender]
        return f"{rng.choice(parts['starts'])}{rng.choice(parts['ends'])} {surname}"

    def num_words(self, pool: str) -> int:
        """Return how many different names a pool has."""
        names = self._wording["names"]
        return len(names["onsets"]) * len(names["rimes"]) * len(names["endings"][pool])

    def word(self, pool: str, number: int) -> str:
        """Return a name of a pool; two numbers below `num_words` have different names."""
        names = self._wording["names"]
        onsets, rimes, endings = names["onsets"], names["rimes"], names["endings"][pool]
        number = self.shuffled(pool, number, self.num_words(pool))
        rest, onset = divmod(number, len(onsets))
        ending, rime = divmod(rest, len(rimes))
        return f"{onsets[onset]}{rimes[rime]}{endings[ending]}"

    def _date(self, rng: random.Random, year: int) -> tuple[str, ...]:
        date = datetime.date(year, 1, 1) + datetime.timedelta(days=rng.randrange(365))
        form = self._wording["format"]
        month = form["months"][date.month - 1]
        words = {"day": date.day, "month": month, "number": date.month, "year": year}
        return tuple(way.format(**words) for way in form["date"])

    def _quantity(
        self, rng: random.Random, kind: str, name: str, fact: dict[str, Any]
    ) -> tuple[str, ...]:
        form = self._wording["format"]
        whole = rng.randrange(fact["low"], fact["high"])
        tail = ""
        if "decimals" in fact:
            # The last digit is never 0: nobody writes 47.0 metres.
            digits = "".join(str(rng.randrange(10)) for _ in range(fact["decimals"] - 1))
            tail = form["decimal"] + digits + str(rng.randint(1, 9))
        grouped = f"{whole:,}".replace(",", form["thousands"])
        written = dict.fromkeys((grouped + tail, f"{whole}{tail}"))
        return tuple(
            answer for number in written for answer in self._answers(kind, name, number=number)
        )

    def _answers(self, kind: str, fact: str, **words: str) -> tuple[str, ...]:
        ways = self._wording["kinds"][kind]["facts"][fact].get("answer", ["{place}"])
        return tuple(way.format(**words) for way in ways)


def _spellings(words: dict[str, Any]) -> tuple[str, ...]:
    """Return what counts as the name of an entry: also ``Bloskey`` for ``River Bloskey``.

    A bare surname does not count: it names the family, and the question is who.
    """
    parts = ("name",) if "last" in words else ("name", "word")
    return tuple(dict.fromkeys(words[part] for part in parts))


class WordLists(dict[str, Any]):
    """The words for the braces of a sentence: those of the entry, else one of a list.

    A list is gone through from a random place, so that a paragraph does not say
    the same word twice before the list is used up.
    """

    def __init__(
        self, words: dict[str, Any], lists: dict[str, list[str]], rng: random.Random
    ) -> None:
        super().__init__(words)
        self._lists, self._rng = lists, rng
        self._next: dict[str, int] = {}

    def __missing__(self, name: str) -> str:
        words = self._lists[name]
        if name not in self._next:
            self._next[name] = self._rng.randrange(len(words))
        self._next[name] += 1
        return words[self._next[name] % len(words)]


@functools.cache
def read_wording(path: Path) -> dict[str, Any]:
    """Return the checked wording of a language, the tables of its ``encyclopedia.toml``."""
    wording = slots.checked(path, "an encyclopedia", _wanted())
    roles = {row.get("role") for row in wording["kinds"]["person"]["types"]}
    for role in sorted(DEEDS.keys() - roles):
        raise DataError(f"{path}: kinds.person.types lacks the role '{role}'.")
    return wording


def _wanted() -> dict[str, str]:
    """Return what its texts must and may name, see `rulerlib.sources.slots`."""
    wanted = {
        "format.{months,date,thousands,decimal}": "*",
        "names.{onsets,rimes,first.he,first.she}": "*",
        f"names.endings.{{{','.join(POOLS)}}}": "",
        "kinds.person.types": "*",
    }
    for kind, facts in FACTS.items():
        words = "| name @lists @types" + " last @pronouns" * (kind == "person")
        wanted[f"kinds.{kind}.{{opening,filler,types?.*.filler?}}"] = words
        wanted[f"kinds.{kind}.subject"] = "| name"
        for name, fact in facts.items():
            place = f"kinds.{kind}.facts.{name}"
            wanted |= {f"{place}.say": f"{words} value", f"{place}.ask": "| subject"}
            if fact["what"] == "entry":
                wanted[f"{place}.hop"] = "| name"
            if fact["what"] == "number":
                wanted[f"{place}.answer"] = "| number"
    return wanted
