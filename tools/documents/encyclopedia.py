"""A fictional encyclopedia: what is true of its entries, and the paragraphs that say it.

A world is cut into regions of twenty entries that know each other: a company has a founder, and the
founder has an entry too, so a question can need one document or two. Relations run one way only
(people and rivers name no other entry), so the second document of a two-hop question never gives
the first one away. Which facts an entry has is in ``encyclopedia.toml`` beside this file, the
wording in ``encyclopedia.toml`` of a language; a new language needs no Python.
"""

from __future__ import annotations

import datetime
import itertools
import random
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulerlib import languages
from rulerlib.languages.names import Names

HERE = Path(__file__).parent

_TABLES = tomllib.loads((HERE / "encyclopedia.toml").read_text("utf-8"))

FACTS: dict[str, dict[str, dict[str, Any]]] = _TABLES["facts"]
"""What can be asked about an entry, by its kind."""

# The dated fact at which a person must have been grown up and alive.
DEEDS = {role: (member, fact) for role, (member, fact) in _TABLES["deeds"].items()}

# The members of a region: their kinds, and the pools of names that they use.
MEMBERS: dict[str, list[str]] = _TABLES["members"]
REGION = len(MEMBERS)

# The years in which companies were founded, ships launched, patents granted.
EVENTS = (1830, 1930)

# A paragraph gets descriptive sentences until it has this many words (drawn for each).
WORDS = (90, 155)

FactPath = tuple[str, ...]

ONE_HOP: list[FactPath] = [
    (kind, fact) for kind, facts in FACTS.items() for fact in facts if "to" not in facts[fact]
]
"""What can be asked of one document, (kind, fact). Names of other entries are not asked for,
because they are also the titles of these entries."""

TWO_HOPS: list[FactPath] = [
    (kind, relation, *second)
    for kind, facts in FACTS.items()
    for relation, fact in facts.items()
    for second in ONE_HOP
    if "to" in fact and second[0] == MEMBERS[fact["to"].replace("*", "1")][0]
]
"""What can be asked of two documents, (kind, relation, kind, fact)."""


def read_wording(code: str, name: str) -> dict[str, Any]:
    """Return the wording of a language, ``encyclopedia`` or ``chronicle``."""
    return tomllib.loads((HERE / "languages" / code / f"{name}.toml").read_text("utf-8"))


def genitive(name: str) -> str:
    """Return a Swedish name as the first part of a proper noun: ``Blernesunds socken``."""
    return name if name[-1] in "saeiouyåäö" else f"{name}s"


def spell_date(form: str, date: datetime.date, months: list[str]) -> str:
    """Return a date in a form such as ``"{day} {month} {year}"``."""
    month = months[date.month - 1]
    return form.format(day=date.day, month=month, number=date.month, year=date.year)


class Words(dict[str, Any]):
    """The words for the slots of a sentence: those given, else the next one of a list.

    A list is used in turn from a random start, so a paragraph repeats no word early.
    """

    def __init__(
        self, words: dict[str, Any], lists: dict[str, list[str]], rng: random.Random
    ) -> None:
        super().__init__(words)
        self._lists = {
            name: itertools.cycle(rng.sample(lists[name], len(lists[name])))
            for name in sorted(lists)
        }

    def __missing__(self, name: str) -> str:
        return next(self._lists[name])


@dataclass(eq=False)
class Entry:
    """One document of the encyclopedia.

    Attributes
    ----------
    kind, title, words
        A key of `FACTS`, the name of what it is about, and the words for its sentences.
    answers, targets
        For each fact its spellings, the first as the text has it, and the entry that it names.
    sentences, stated
        The paragraph, and for each fact the number of the sentence that states it.
    """

    kind: str
    title: str
    words: dict[str, Any]
    answers: dict[str, list[str]] = field(default_factory=dict)
    targets: dict[str, Entry] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    stated: dict[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The paragraph as one text."""
        return " ".join(self.sentences)


class World:
    """The entries of a language and a seed, ``regions`` times `REGION` of them."""

    def __init__(self, code: str, seed: int, regions: int) -> None:
        language = languages.load(code)
        self.wording = read_wording(code, "encyclopedia")
        self.format = language.section("names")["format"]
        self._names = Names(language, seed)
        self.entries: list[Entry] = []
        for region in range(regions):
            self.entries += self._region(region, random.Random(f"{seed}:region:{region}"))

    def ask(self, path: FactPath, entry: Entry, rng: random.Random) -> str:
        """Return a question about an entry, of the kind that the path begins with."""
        kinds, (kind, fact) = self.wording["kinds"], path[-2:]
        subjects = kinds[path[0]]["subject"]
        if len(path) > 2:
            subjects = kinds[path[0]]["facts"][path[1]]["hop"]
        subject = rng.choice(subjects).format(name=entry.title)
        text: str = rng.choice(kinds[kind]["facts"][fact]["ask"]).format(subject=subject)
        return text.replace(",?", "?").replace(",,", ",")

    def _region(self, number: int, rng: random.Random) -> list[Entry]:
        """Return twenty entries that know each other and agree on who did what when."""
        # How many names of each pool a region uses.
        uses = Counter(pool for _, pool in MEMBERS.values())
        uses.update(
            fact["pool"]
            for kind, _ in MEMBERS.values()
            for fact in FACTS[kind].values()
            if "pool" in fact
        )
        numbers = {pool: itertools.count(number * used) for pool, used in uses.items()}

        def name(pool: str) -> str:
            return self._names.word(pool, next(numbers[pool]))

        region = {
            member: self._entry(rng, member, kind, name(pool))
            for member, (kind, pool) in MEMBERS.items()
        }
        years = draw_years(rng)
        for member, entry in region.items():
            for fact, about in FACTS[entry.kind].items():
                if about["what"] == "entry":
                    target = region[about["to"].replace("*", member[-1])]
                    entry.targets[fact] = target
                    entry.answers[fact] = [target.title]
                elif about["what"] == "date":
                    entry.answers[fact] = self._date(rng, years[member, fact])
                elif about["what"] == "name":
                    gender = entry.words.get("spouse") or rng.choice(("he", "she"))
                    entry.answers[fact] = [self._names.full_name(rng, gender, name(about["pool"]))]
                elif about["what"] == "place":
                    entry.answers[fact] = [name(about["pool"])]
                else:
                    forms = self.wording["kinds"][entry.kind]["facts"][fact]["answer"]
                    entry.answers[fact] = [
                        form.format(number=written)
                        for written in self._number(rng, about)
                        for form in forms
                    ]
        for entry in region.values():
            self._write(entry, rng)
        return list(region.values())

    def _entry(self, rng: random.Random, member: str, kind: str, word: str) -> Entry:
        """Return an entry that has a name and no facts yet."""
        wording = self.wording["kinds"][kind]
        types = [one for one in wording.get("types", [{}]) if one.get("role", member) == member]
        words = dict(rng.choice(types))
        if kind == "person":
            gender = rng.choice(("he", "she"))
            words |= self.wording["pronouns"][gender]
            words |= {"last": word, "spouse": "she" if gender == "he" else "he"}
            name = self._names.full_name(rng, gender, word)
        else:
            form = wording.get("name", "{word}")
            name = form.format(word=word, word_s=genitive(word), **words)
        return Entry(kind, name, {**words, "name": name})

    def _write(self, entry: Entry, rng: random.Random) -> None:
        """Write the paragraph of an entry."""
        wording = self.wording["kinds"][entry.kind]
        chronological = wording.get("chronological", False)
        words = Words(entry.words, self.wording["lists"], rng)
        facts = list(entry.answers)
        if not chronological:
            rng.shuffle(facts)
        opening = rng.choice(wording["opening"]).format_map(words)
        body: list[tuple[str, str]] = []
        for fact in facts:
            words["value"] = entry.answers[fact][0]
            body.append((fact, rng.choice(wording["facts"][fact]["say"]).format_map(words)))
        fillers = [*wording["filler"], *entry.words.get("filler", ())]
        rng.shuffle(fillers)
        length = sum(len(text.split()) for text in (opening, *(said for _, said in body)))
        target = rng.randint(*WORDS)
        for filler in fillers:
            if length >= target:
                break
            text = filler.format_map(words)
            length += len(text.split())
            # A life ends with the death: no filler after the last event.
            body.insert(rng.randint(0, len(body) - chronological), ("", text))
        entry.sentences = [opening, *(text for _, text in body)]
        entry.stated = {fact: number for number, (fact, _) in enumerate(body, 1) if fact}

    def _date(self, rng: random.Random, year: int) -> list[str]:
        date = datetime.date(year, 1, 1) + datetime.timedelta(days=rng.randrange(365))
        return [spell_date(form, date, self.format["months"]) for form in self.format["date"]]

    def _number(self, rng: random.Random, fact: dict[str, Any]) -> list[str]:
        """Return a number with and without a mark between its thousands."""
        whole, tail = rng.randrange(fact["low"], fact["high"]), ""
        if "decimals" in fact:
            digits = [str(rng.randrange(10)) for _ in range(fact["decimals"] - 1)]
            # The last digit is never 0: "47.0 metres" is not written.
            tail = self.format["decimal"] + "".join(digits) + str(rng.randint(1, 9))
        grouped = f"{whole:,}".replace(",", self.format["thousands"])
        return list(dict.fromkeys([grouped + tail, f"{whole}{tail}"]))


def draw_years(rng: random.Random) -> dict[tuple[str, str], int]:
    """Return the year of each dated fact of a region, by member and fact.

    Deeds come first and lives around them: the founder of a company is 26 to 50 years old then and
    lives for at least three more years. Towns are older than everything in them, and a ship is
    launched before it sails on an expedition.
    """
    years = {deed: rng.randint(*EVENTS) for deed in DEEDS.values()}
    years["expedition", "departure_date"] = years["ship", "launch_date"] + rng.randint(1, 8)
    for role, deed in DEEDS.items():
        born = years[deed] - rng.randint(26, 50)
        years[role, "birth_date"] = born
        years[role, "death_date"] = max(
            years[deed] + rng.randint(3, 30), born + rng.randint(55, 90)
        )
    for number in "12":
        years[f"town {number}", "charter_date"] = rng.randint(1240, 1690)
        years[f"river {number}", "survey_date"] = rng.randint(1700, 1790)
    return years
