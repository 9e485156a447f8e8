"""A fictional encyclopedia: documents and questions that nobody can know by heart.

>>> import textwrap
>>> world = World("da", seed=1)
>>> question = world.question(1, hops=2)
>>> question.text, question.answers
('Hvor blev grundlæggeren af Gnevnoris Væveri født?', ('Flalmehavn',))
>>> company, founder = (world.entry(index) for index in question.entries)
>>> print(textwrap.fill(company.text, 88))
Gnevnoris Væveri er et gammelt firma, der i flere slægtled har fremstillet duge og uldne
tæpper. Stiftelsesdokumentet bærer datoen den 2. marts 1877 og fem underskrifter. En
brand ødelagde lageret, men driften kom i gang igen efter syv uger. Man valgte at bygge
i Kreskingslev, fordi jorden var billig der. Grundlæggeren var Laukil Svalkemark, som
begyndte med seks ansatte i en lejet kælder. Arbejdsdagen begyndte klokken seks, når en
fløjte lød over tagene. Bygningerne er opført af kalksten og ligger omkring en gård med
lindetræer. Lønningslisten rummede 7.646 navne, da den var længst.
>>> founder.title, founder.sentences[founder.stated["birthplace"]]
('Laukil Svalkemark', 'Han blev født i Flalmehavn, hvor faderen drev et værksted.')

A world is a language, a seed and a size. It is cut into regions of twenty
entries that know each other: a company has a founder, the founder is an entry
of its own, and so a question can be asked that needs one document or two.
Regions are made when they are first asked for, and an entry depends on nothing
but the language, the seed and its index, so a world of 20,000 entries costs no
more than the entries that are used.

All words stand in ``languages/xx/encyclopedia.toml``; a new language needs no
Python. What is decided here is logic alone: which facts a kind of entry has,
who is related to whom, and in which order things happened. Every name is put
together from parts (onset, rime, ending), and each combination is used once at
most, so no name occurs twice, and none stands inside another.
"""

from __future__ import annotations

import datetime
import functools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerlib.errors import DataError, whole_number
from rulerlib.languages import Language, load, placeholders, read_toml

# A paragraph gets descriptive sentences until it has this many words (drawn per entry).
# The longest sentence has fewer than 40 words, so no paragraph exceeds 200.
WORDS = (90, 155)

# The years in which companies were founded, ships launched, patents granted.
EVENTS = (1830, 1930)

# Titles in `related`: the whole region, then this many entries of the same kind.
NEIGHBOURS = 8


@dataclass(frozen=True)
class _Fact:
    """What the answer to a question is, and whence it is drawn.

    Attributes
    ----------
    what
        ``"date"``, ``"number"``, ``"place"`` or ``"name"`` (both without an
        entry of their own), or ``"entry"``: another entry of the region.
    low, high, decimals
        The range of a number. Ranges are wide, lie above all years, and numbers of
        one form have the same count of digits, so that an answer seldom stands in
        another document by chance (``43,7`` would stand in ``143,7``).
    pool
        The names that a place is taken from.
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


_DATE = _Fact("date")
_NAME = _Fact("name")


def _number(low: int, high: int, decimals: int = 0) -> _Fact:
    return _Fact("number", low=low, high=high, decimals=decimals)


def _place(pool: str) -> _Fact:
    return _Fact("place", pool=pool)


def _entry(to: str) -> _Fact:
    return _Fact("entry", to=to)


# Relations run one way only (people and rivers name nobody), so that the second
# document of a two-hop question never gives the first one away.
FACTS: dict[str, dict[str, _Fact]] = {
    "person": {
        "birth_date": _DATE,
        "birthplace": _place("town"),
        "spouse": _NAME,
        "death_date": _DATE,
    },
    "river": {
        "length": _number(101, 480, 1),
        "source": _place("lake"),
        "survey_date": _DATE,
    },
    "town": {
        "charter_date": _DATE,
        "population": _number(10_100, 48_000),
        "mayor": _NAME,
        "river": _entry("river *"),
    },
    "ship": {
        "yard": _place("town"),
        "launch_date": _DATE,
        "length": _number(24, 80, 2),
        "captain": _entry("captain"),
    },
    "expedition": {
        "leader": _entry("leader"),
        "ship": _entry("ship"),
        "departure_date": _DATE,
        "destination": _place("wild"),
        "distance": _number(10_100, 29_000),
    },
    "company": {
        "founder": _entry("founder"),
        "founding_date": _DATE,
        "town": _entry("town 1"),
        "staff": _number(2_100, 9_900),
    },
    "invention": {
        "inventor": _entry("inventor"),
        "patent_date": _DATE,
        "patent_number": _number(10_100, 98_000),
    },
    "festival": {
        "founder": _entry("organizer"),
        "first_date": _DATE,
        "town": _entry("town 2"),
        "attendance": _number(10_100, 60_000),
    },
    "museum": {
        "architect": _entry("architect"),
        "opening_date": _DATE,
        "town": _entry("town 1"),
        "objects": _number(10_100, 98_000),
    },
    "school": {
        "head": _entry("head"),
        "opening_date": _DATE,
        "town": _entry("town 2"),
        "bell": _number(101, 900, 1),
    },
    "bridge": {
        "engineer": _entry("engineer"),
        "opening_date": _DATE,
        "length": _number(101, 900, 1),
        "river": _entry("river 1"),
    },
}

# The members of a region: what each is, and which names it takes.
_MEMBERS: dict[str, tuple[str, str]] = {
    "founder": ("person", "surname"),
    "captain": ("person", "surname"),
    "leader": ("person", "surname"),
    "inventor": ("person", "surname"),
    "organizer": ("person", "surname"),
    "architect": ("person", "surname"),
    "head": ("person", "surname"),
    "engineer": ("person", "surname"),
    "river 1": ("river", "river"),
    "river 2": ("river", "river"),
    "town 1": ("town", "town"),
    "town 2": ("town", "town"),
    "ship": ("ship", "ship"),
    "expedition": ("expedition", "coined"),
    "company": ("company", "coined"),
    "invention": ("invention", "device"),
    "festival": ("festival", "coined"),
    "museum": ("museum", "coined"),
    "school": ("school", "coined"),
    "bridge": ("bridge", "bridge"),
}
REGION = len(_MEMBERS)
_ORDER = {member: number for number, member in enumerate(_MEMBERS)}

# In which year a person must have been grown up and alive: the dated fact of which member.
_DEEDS = {
    "founder": ("company", "founding_date"),
    "captain": ("ship", "launch_date"),
    "leader": ("expedition", "departure_date"),
    "inventor": ("invention", "patent_date"),
    "organizer": ("festival", "first_date"),
    "architect": ("museum", "opening_date"),
    "head": ("school", "opening_date"),
    "engineer": ("bridge", "opening_date"),
}


def _draws() -> dict[str, int]:
    """How many names of each pool one region uses."""
    count: dict[str, int] = {}
    for kind, pool in _MEMBERS.values():
        facts = [
            fact.pool or "surname"
            for fact in FACTS[kind].values()
            if fact.what in ("place", "name")
        ]
        for name in [pool, *facts]:
            count[name] = count.get(name, 0) + 1
    return count


_DRAWS = _draws()


@dataclass(frozen=True)
class Entry:
    """One document of the encyclopedia.

    Attributes
    ----------
    title
        The name of what it is about; no other title contains it.
    kind
        A key of ``FACTS``.
    sentences
        The paragraph. The first one says what the thing is.
    stated
        For each fact the number of the sentence that states it.
    """

    index: int
    title: str
    kind: str
    sentences: tuple[str, ...]
    stated: dict[str, int]

    @functools.cached_property
    def text(self) -> str:
        return " ".join(self.sentences)

    @functools.cached_property
    def folded(self) -> str:
        """The text without regard to case. Kept, because every question asks for it."""
        return self.text.casefold()


@dataclass(frozen=True)
class Question:
    """A question and what is needed to answer it.

    Attributes
    ----------
    answers
        Any of them is right; the first one is how the document writes it.
    entries
        The documents that are needed, in the order of the hops.
    fact
        What is asked: ``"company.founder"``, or for two hops
        ``"company.founder>person.birthplace"``.
    """

    text: str
    answers: tuple[str, ...]
    entries: tuple[int, ...]
    fact: str

    @functools.cached_property
    def _folded(self) -> tuple[str, ...]:
        return tuple(answer.casefold() for answer in self.answers)

    def answered_by(self, entry: Entry) -> bool:
        """Whether any of the answers stands in the text of an entry, ignoring case.

        True for ``4. marts 1874`` where the text has ``14. marts 1874``: the
        metric compares substrings as well, so a distractor must not have that.
        """
        return any(answer in entry.folded for answer in self._folded)


@dataclass(frozen=True)
class _Value:
    """What a fact is: its spellings, and the index of the entry that it names, if any."""

    answers: tuple[str, ...]
    target: int = -1


@dataclass(frozen=True)
class _Record:
    """An entry before it is written: its name, the words that belong to it, its facts."""

    kind: str
    title: str
    words: dict[str, Any]
    values: dict[str, _Value]


class World:
    """A fictional world as an encyclopedia.

    Parameters
    ----------
    language
        A language pack or its code; its folder must have an ``encyclopedia.toml``.
    seed
        Another seed is another world, with other names.
    num_entries
        How many documents there are; at least one region (20), at most ``World.limit``.

    Raises
    ------
    ParameterError
        If the size is impossible; says what is allowed.
    DataError
        If the language has no encyclopedia, or a damaged one.
    """

    def __init__(self, language: Language | str, seed: int = 0, num_entries: int = 10_000) -> None:
        self.language = load(language) if isinstance(language, str) else language
        self._wording = _read(self.language.folder / "encyclopedia.toml")
        self.seed = whole_number("seed", seed, 0)
        self.num_entries = whole_number("num_entries", num_entries, REGION, self.limit)
        self._regions: dict[int, list[_Record]] = {}
        self._entries: dict[int, Entry] = {}
        self._orders: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return self.num_entries

    @property
    def limit(self) -> int:
        """The most entries that the names of this language suffice for."""
        names = self._wording["names"]
        roots = len(names["onsets"]) * len(names["rimes"])
        return REGION * min(
            roots * len(names["endings"][pool]) // draws for pool, draws in _DRAWS.items()
        )

    # ------------------------------------------------------------- documents

    def entry(self, index: int) -> Entry:
        """The document at an index; written when it is first asked for."""
        found = self._entries.get(index)
        if found is None:
            whole_number("index", index, 0, self.num_entries - 1)
            found = self._entries[index] = self._write(index)
        return found

    def facts(self, index: int) -> dict[str, tuple[str, ...]]:
        """The answers to everything that can be asked about an entry."""
        return {fact: value.answers for fact, value in self._record(index).values.items()}

    def mentions(self, question: Question) -> list[int]:
        """All entries in which an answer stands, targets included. Writes the whole world."""
        return [i for i in range(self.num_entries) if question.answered_by(self.entry(i))]

    def related(self, question: Question) -> list[int]:
        """Documents that look like the wanted ones, without an answer in them.

        The region first (what RULER calls the same article), then entries of
        the same kind from the regions that follow.
        """
        regions = self.num_entries // REGION
        region = question.entries[0] // REGION
        near = list(range(region * REGION, (region + 1) * REGION))
        for step in range(1, min(NEIGHBOURS + 1, regions)):
            other = (region + step) % regions * REGION
            near += sorted({other + index % REGION for index in question.entries})
        return [
            index
            for index in near
            if index not in question.entries and not question.answered_by(self.entry(index))
        ]

    def _write(self, index: int) -> Entry:
        record = self._record(index)
        wording = self._wording["kinds"][record.kind]
        rng = random.Random(f"{self.seed}:entry:{index}")
        words = _Words(record.words, self._wording["lists"], rng)
        target = rng.randint(*WORDS)

        facts = list(record.values)
        if not wording.get("chronological"):
            rng.shuffle(facts)
        opening = rng.choice(wording["opening"]).format_map(words)
        body: list[tuple[str, str]] = []
        for fact in facts:
            words["value"] = record.values[fact].answers[0]
            body.append((fact, rng.choice(wording["facts"][fact]["say"]).format_map(words)))

        fillers = [*wording["filler"], *record.words.get("filler", ())]
        rng.shuffle(fillers)
        length = len(opening.split()) + sum(len(sentence.split()) for _, sentence in body)
        for filler in fillers:
            if length >= target:
                break
            sentence = filler.format_map(words)
            length += len(sentence.split())
            # Never last where events are told in order: a life ends with the death.
            last = len(body) - 1 if wording.get("chronological") else len(body)
            body.insert(rng.randint(0, last), ("", sentence))

        return Entry(
            index=index,
            title=record.title,
            kind=record.kind,
            sentences=(opening, *(sentence for _, sentence in body)),
            stated={fact: number for number, (fact, _) in enumerate(body, 1) if fact},
        )

    # ------------------------------------------------------------- questions

    @staticmethod
    def kinds(hops: int) -> tuple[str, ...]:
        """All kinds of facts that are asked about with this many hops."""
        return tuple(_label(*path) for path in _PATHS[hops])

    def question(self, index: int, hops: int = 1) -> Question:
        """The question at an index, from an endless row of them.

        The row goes round the kinds of facts, in another order each time, and
        takes another entry each time, so that all kinds are asked equally
        often. Entries of a kind come up again only when all had their turn.
        It depends on the seed and the size of the world, not on other calls.

        Raises
        ------
        ParameterError
            If ``index`` is negative or ``hops`` is neither 1 nor 2.
        """
        whole_number("hops", hops, 1, 2)
        whole_number("index", index, 0)
        paths = list(_PATHS[hops])
        turn, place = divmod(index, len(paths))
        random.Random(f"{self.seed}:{hops}:order:{turn}").shuffle(paths)
        path = paths[place]
        members = _members_of(path[0])
        total = len(members) * (self.num_entries // REGION)
        for _ in range(total):
            region, member = divmod(self._shuffled(_label(*path), turn, total), len(members))
            question = self._ask(index, path, region * REGION + members[member])
            if question is not None:
                return question
            turn += 1
        raise DataError(f"No entry of this world can be asked about {_label(*path)}.")

    def _ask(self, index: int, path: tuple[str, ...], first: int) -> Question | None:
        """The question about an entry, or None if chance has put the answer twice into it."""
        rng = random.Random(f"{self.seed}:question:{len(path)}:{index}")
        kinds = self._wording["kinds"]
        kind, fact, *rest = path
        record = self._record(first)
        subject = kinds[kind]["subject"]
        entries: tuple[int, ...] = (first,)
        value = record.values[fact]
        asked = kinds[kind]["facts"][fact]["ask"]
        if rest:
            entries = (first, value.target)
            value = self._record(value.target).values[rest[1]]
            subject = kinds[kind]["facts"][fact]["hop"]
            asked = kinds[rest[0]]["facts"][rest[1]]["ask"]
        text = rng.choice(asked).format(subject=rng.choice(subject).format(name=record.title))
        question = Question(
            text=text.replace(",?", "?").replace(",,", ","),
            answers=value.answers,
            entries=entries,
            fact=_label(*path),
        )
        target = self.entry(entries[-1])
        if target.folded.count(value.answers[0].casefold()) != 1:
            return None
        if rest and question.answered_by(self.entry(first)):
            return None
        return question

    # ------------------------------------------------------------- what is the case

    def _record(self, index: int) -> _Record:
        region, member = divmod(index, REGION)
        if region not in self._regions:
            self._regions[region] = self._region(region)
        return self._regions[region][member]

    def _region(self, region: int) -> list[_Record]:
        """Twenty entries that know each other, and agree on who did what when."""
        rng = random.Random(f"{self.seed}:region:{region}")
        used = dict.fromkeys(_DRAWS, 0)

        def word(pool: str) -> str:
            number = region * _DRAWS[pool] + used[pool]
            used[pool] += 1
            return self._word(pool, number)

        named = {}
        for member, (kind, pool) in _MEMBERS.items():
            named[member] = self._name(rng, member, kind, word(pool))
        years = _years(rng)
        records = []
        for member, (kind, _) in _MEMBERS.items():
            title, words = named[member]
            values = {}
            for name, fact in FACTS[kind].items():
                if fact.what == "entry":
                    to = fact.to.replace("*", member[-1])
                    answers = _spellings(*named[to])
                    values[name] = _Value(answers, region * REGION + _ORDER[to])
                elif fact.what == "date":
                    values[name] = _Value(self._date(rng, years[member, name]))
                elif fact.what == "name":
                    gender = words.get("spouse") or rng.choice(("he", "she"))
                    values[name] = _Value((self._full_name(rng, gender, word("surname")),))
                elif fact.what == "place":
                    values[name] = _Value(self._answers(kind, name, place=word(fact.pool)))
                else:
                    values[name] = _Value(self._quantity(rng, kind, name, fact))
            records.append(_Record(kind, title, words, values))
        return records

    def _name(
        self, rng: random.Random, member: str, kind: str, word: str
    ) -> tuple[str, dict[str, Any]]:
        """A title, and the words that the sentences of this entry may use."""
        wording = self._wording["kinds"][kind]
        types = [
            one for one in wording.get("types", [{}]) if "role" not in one or one["role"] == member
        ]
        words = dict(rng.choice(types))
        if kind == "person":
            gender = rng.choice(("he", "she"))
            words |= self._wording["pronouns"][gender]
            words["last"], words["spouse"] = word, "she" if gender == "he" else "he"
            title = self._full_name(rng, gender, word)
        else:
            title = wording.get("name", "{word}").format(word=word, **words)
        words["name"], words["word"] = title, word
        return title, words

    def _full_name(self, rng: random.Random, gender: str, surname: str) -> str:
        parts = self._wording["names"]["first"][gender]
        return f"{rng.choice(parts['starts'])}{rng.choice(parts['ends'])} {surname}"

    def _word(self, pool: str, number: int) -> str:
        names = self._wording["names"]
        onsets, rimes, endings = names["onsets"], names["rimes"], names["endings"][pool]
        total = len(onsets) * len(rimes) * len(endings)
        rest, onset = divmod(self._shuffled(pool, number, total), len(onsets))
        ending, rime = divmod(rest, len(rimes))
        return f"{onsets[onset]}{rimes[rime]}{endings[ending]}"

    def _shuffled(self, key: str, number: int, total: int) -> int:
        """Where ``number`` comes in an order of ``range(total)`` that the seed decides.

        Multiplying by a factor without a divisor in common with ``total`` is a
        permutation that needs no list, so the millionth name costs what the first does.
        """
        if key not in self._orders:
            rng = random.Random(f"{self.seed}:order:{key}")
            factor = rng.randrange(1, total + 1)
            while math.gcd(factor, total) != 1:
                factor += 1
            self._orders[key] = factor, rng.randrange(total)
        factor, start = self._orders[key]
        return (factor * number + start) % total

    def _date(self, rng: random.Random, year: int) -> tuple[str, ...]:
        first = datetime.date(year, 1, 1).toordinal()
        date = datetime.date.fromordinal(first + rng.randrange(365))
        form = self._wording["format"]
        month = form["months"][date.month - 1]
        return tuple(
            way.format(day=date.day, month=month, number=date.month, year=year)
            for way in form["date"]
        )

    def _quantity(self, rng: random.Random, kind: str, name: str, fact: _Fact) -> tuple[str, ...]:
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


class _Words(dict[str, Any]):
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


def _years(rng: random.Random) -> dict[tuple[str, str], int]:
    """The year of each dated fact of a region.

    Deeds first, lives around them: who founds a company is 26 to 50 years old
    and lives on for at least three years. Towns are older than everything that
    stands in them, and a ship is launched before it sails on an expedition.
    """
    years = {deed: rng.randint(*EVENTS) for deed in _DEEDS.values()}
    years["expedition", "departure_date"] = years["ship", "launch_date"] + rng.randint(1, 8)
    for role, deed in _DEEDS.items():
        born = years[deed] - rng.randint(26, 50)
        years[role, "birth_date"] = born
        years[role, "death_date"] = max(
            years[deed] + rng.randint(3, 30), born + rng.randint(55, 90)
        )
    for number in "12":
        years[f"town {number}", "charter_date"] = rng.randint(1240, 1690)
        years[f"river {number}", "survey_date"] = rng.randint(1700, 1790)
    return years


def _spellings(title: str, words: dict[str, Any]) -> tuple[str, ...]:
    """What counts as the name of an entry: also ``Bloskey`` for ``River Bloskey``.

    A bare surname does not count: it names the family, and the question is who.
    """
    return (title,) if "last" in words else tuple(dict.fromkeys((title, words["word"])))


def _members_of(kind: str) -> list[int]:
    return [_ORDER[member] for member, (what, _) in _MEMBERS.items() if what == kind]


def _paths() -> dict[int, list[tuple[str, ...]]]:
    """What can be asked: (kind, fact), or (kind, relation, kind of the other, its fact)."""
    one: list[tuple[str, ...]] = [(kind, fact) for kind, facts in FACTS.items() for fact in facts]
    two: list[tuple[str, ...]] = []
    for kind, relation in one:
        fact = FACTS[kind][relation]
        if fact.what == "entry":
            other = _MEMBERS[fact.to.replace("*", "1")][0]
            two += [
                (kind, relation, other, name)
                for name, last in FACTS[other].items()
                if last.what != "entry"
            ]
    return {1: one, 2: two}


def _label(*path: str) -> str:
    return ">".join(".".join(path[start : start + 2]) for start in range(0, len(path), 2))


_PATHS = _paths()


# ----------------------------------------------------------------- the wording


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    """Read and check the wording of a language.

    Raises
    ------
    DataError
        If the file cannot be read, lacks a kind, a fact or a name, or has a
        template with a name in braces that nothing would fill.
    """
    wording = read_toml(path, "an encyclopedia")
    try:
        for part in ("months", "date", "thousands", "decimal"):
            wording["format"][part]
        for pool in _DRAWS:
            if not wording["names"]["endings"][pool]:
                raise DataError(f"{path}: [names.endings] {pool} is empty.")
        roles = {one["role"] for one in wording["kinds"]["person"]["types"]}
        for role in sorted(_DEEDS.keys() - roles):
            raise DataError(f"{path}: [[kinds.person.types]] has no role {role!r}.")
        for where, template, known in _templates(wording):
            unknown = placeholders(template) - known
            if unknown:
                raise DataError(f"{path}: {where} uses {{{min(unknown)}}}, which nothing fills.")
    except KeyError as missing:
        raise DataError(f"{path}: {missing.args[0]!r} is missing.") from missing
    return wording


def _templates(wording: dict[str, Any]) -> Iterator[tuple[str, str, set[str]]]:
    """Every template with the place where it stands and the names that it may use."""
    for kind, facts in FACTS.items():
        table = wording["kinds"][kind]
        types = table.get("types", [{}])
        known = {"name"} | set(wording["lists"]) | set.intersection(*(set(one) for one in types))
        if kind == "person":
            known |= {"last"} | set.intersection(*map(set, wording["pronouns"].values()))
        fillers = table["filler"] + [line for one in types for line in one.get("filler", ())]
        for where, templates in (("opening", table["opening"]), ("filler", fillers)):
            for template in templates:
                yield f"[kinds.{kind}] {where}", template, known
        for template in table["subject"]:
            yield f"[kinds.{kind}] subject", template, {"name"}
        for name, fact in facts.items():
            wanted = table["facts"][name]
            where = f"[kinds.{kind}.facts.{name}]"
            for template in wanted["say"]:
                yield f"{where} say", template, known | {"value"}
            for template in wanted["ask"]:
                yield f"{where} ask", template, {"subject"}
            for template in wanted["hop"] if fact.what == "entry" else ():
                yield f"{where} hop", template, {"name"}
            for template in wanted["answer"] if fact.what == "number" else ():
                yield f"{where} answer", template, {"number"}


# ----------------------------------------------------------------- known schemas


def squad(world: World, num_questions: int) -> dict[str, Any]:
    """Single-hop questions in the JSON schema of SQuAD 2.0 (Rajpurkar et al. 2018).

    A region is an article and its entries are the paragraphs, so a reader that
    takes distractors from the same article finds some.
    """
    asked: dict[int, list[tuple[int, Question]]] = {}
    for number in range(whole_number("num_questions", num_questions, 1)):
        question = world.question(number)
        asked.setdefault(question.entries[0], []).append((number, question))
    articles = []
    for region in sorted({index // REGION for index in asked}):
        entries = [world.entry(region * REGION + member) for member in range(REGION)]
        paragraphs = [
            {
                "context": entry.text,
                "qas": [
                    {
                        "id": f"{world.language.code}-{world.seed}-{number}",
                        "question": question.text,
                        "answers": [
                            {
                                "text": question.answers[0],
                                "answer_start": entry.text.index(question.answers[0]),
                            }
                        ],
                        "is_impossible": False,
                    }
                    for number, question in asked.get(entry.index, ())
                ],
            }
            for entry in entries
        ]
        title = world.entry(region * REGION + _ORDER["town 1"]).title
        articles.append({"title": title, "paragraphs": paragraphs})
    return {"version": "v2.0", "data": articles}


def hotpot(world: World, num_questions: int) -> list[dict[str, Any]]:
    """Two-hop questions in the JSON schema of HotpotQA (Yang et al. 2018, distractor setting).

    Ten paragraphs each: the two that are needed and eight related ones,
    shuffled. As there, every sentence but the first of a paragraph begins with
    its space, so that joining them without one gives the paragraph.
    """
    records = []
    for number in range(whole_number("num_questions", num_questions, 1)):
        question = world.question(number, hops=2)
        rng = random.Random(f"{world.seed}:hotpot:{number}")
        others = world.related(question)
        chosen = [*question.entries, *rng.sample(others, min(8, len(others)))]
        rng.shuffle(chosen)
        entries = [world.entry(index) for index in chosen]
        facts = [part.split(".")[1] for part in question.fact.split(">")]
        records.append(
            {
                "_id": f"{world.language.code}-{world.seed}-{number}",
                "type": "bridge",
                "level": "medium",
                "question": question.text,
                "answer": question.answers[0],
                "supporting_facts": [
                    [world.entry(index).title, world.entry(index).stated[fact]]
                    for index, fact in zip(question.entries, facts, strict=True)
                ],
                "context": [
                    [
                        entry.title,
                        [entry.sentences[0], *(f" {line}" for line in entry.sentences[1:])],
                    ]
                    for entry in entries
                ],
            }
        )
    return records
