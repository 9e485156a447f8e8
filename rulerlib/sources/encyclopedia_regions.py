"""The truth of a fictional world: the names, dates, numbers and relations of its entries.

A world is cut into regions of twenty entries that know each other. Every name is put together
from parts (onset, rime, ending), and each combination is used once at most, so no name occurs
twice, and none stands inside another.
"""

from __future__ import annotations

import datetime
import itertools
import math
import random
from dataclasses import dataclass
from typing import Any

from rulerlib.sources.encyclopedia_facts import FACTS, MEMBERS, POOLS, REGION, Fact, draw_years


@dataclass(frozen=True)
class Value:
    """The value of a fact: its spellings, and the index of the entry that it names, if any."""

    answers: tuple[str, ...]
    target: int | None = None


@dataclass(frozen=True)
class Record:
    """An entry before it is written: its name, the words that belong to it, its facts."""

    kind: str
    title: str
    words: dict[str, Any]
    values: dict[str, Value]


class Regions:
    """The regions of a world, each made when it is first asked for.

    Parameters
    ----------
    wording
        The words of a language, see `rulerlib.sources.encyclopedia_wording.read_wording`.
    seed
        Another seed makes other names, dates and numbers.
    """

    def __init__(self, wording: dict[str, Any], seed: int) -> None:
        self._wording, self._seed = wording, seed
        self._regions: dict[int, list[Record]] = {}
        self._orders: dict[str, tuple[int, int]] = {}

    @property
    def limit(self) -> int:
        """The most entries that the names of this language suffice for."""
        return REGION * min(self.num_words(pool) // used for pool, used in POOLS.items())

    def record(self, index: int) -> Record:
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

    def _region(self, region: int) -> list[Record]:
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
                if fact.what == "entry":
                    to = fact.to.replace("*", member[-1])
                    answers = _spellings(named[to])
                    target = region * REGION + list(MEMBERS).index(to)
                elif fact.what == "date":
                    answers = self._date(rng, years[member, name])
                elif fact.what == "name":
                    gender = words.get("spouse") or rng.choice(("he", "she"))
                    answers = (self.full_name(rng, gender, word(fact.pool)),)
                elif fact.what == "place":
                    answers = self._answers(kind, name, place=word(fact.pool))
                else:
                    answers = self._quantity(rng, kind, name, fact)
                values[name] = Value(answers, target)
            records.append(Record(kind, words["name"], words, values))
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

    def _quantity(self, rng: random.Random, kind: str, name: str, fact: Fact) -> tuple[str, ...]:
        form = self._wording["format"]
        whole = rng.randrange(fact.low, fact.high)
        tail = ""
        if fact.decimals:
            # The last digit is never 0: nobody writes 47.0 metres.
            digits = "".join(str(rng.randrange(10)) for _ in range(fact.decimals - 1))
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
