"""Dialogues: what a circle of people told each other over many days, judged without a judge.

An example (English, shortened)::

    5 March 2014, Halwen: All this fog is getting on my nerves.
    5 March 2014, Corwin: They say it will be better by the weekend.
    5 March 2014, Halwen: By the way. The dog I walk every morning answers to Rex.
    ...
    9 March 2014, Corwin: You all know Halwen, my neighbour.

    In the group chat of the Slurbebridge choir: What is the name of Corwin's neighbour's dog? ...

    golds: ["Rex"]

Everybody writes of themselves, in one of at least five wordings for each thing, and in front of
each turn stand its day and who writes it. Between what can be asked for stand small talk and what
nobody asks for. A question is of one of eleven kinds in turn, after the abilities of LongMemEval
(Wu et al. 2024, arXiv 2410.10813) and BEAM (Tavakoli et al. 2025, arXiv 2510.27246):

===============  ==================================================================================
kind             what the answer follows from
===============  ==================================================================================
``once``         what was said once
``across``       who somebody's neighbour is, and what that one told in another session
``update``       what changed up to three times: how it is now, or was before the last change
``order``        three deeds, told with "yesterday" or "a week ago": whose was the first, or last
``duration``     two such deeds: how many days lie between them
``date``         one such deed: the day, reckoned back from the day of the turn
``count``        two to five purchases of the same thing: how many there are in all
``both``         two values of which neither was taken back: both were said
``preference``   what somebody never takes: the one of three things that can be offered
``instruction``  what is to be said to whoever asks, and not what holds
``unknown``      two things at once, one of which was never told
===============  ==================================================================================

One sentence says under questions of the kinds once, across, update, both and unknown that both are
named where two were, and that there is an answer for what was never told; so a question does not
give away of which kind it is. With 25 sessions of 160 turns a dialogue has some 100,000 tokens,
with 5,000 of 100 some 10 million. It is never held whole: a session is made when it is wanted, from
its number alone and what questions need of it.

>>> from rulerlib.languages import load
>>> episode = Dialogues(Knobs(), load("en"), "1").episode(0, probes=11)
>>> [probe.kind for probe in episode.probes] == [*KINDS]
True
>>> episode.probes[0].golds, [fact.text for fact in episode.needed(episode.probes[0])]
(('baked cod',), ['16 July 2009, Tamwyn: There is nothing I would rather eat than baked cod.'])
"""

from __future__ import annotations

import datetime
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from rulerlib.errors import whole_number
from rulerlib.languages import Language
from rulerlib.tasks.episodes import Episode, Episodes, Fact, Probe, told
from rulerlib.tasks.family import Checked, knob

KINDS = (
    "once", "across", "update", "order", "duration", "date", "count", "both", "preference",
    "instruction", "unknown",
)  # fmt: skip

# Questions of each kind about one dialogue, at most; people, and the sessions for one more of them.
_ROUNDS, _PEOPLE, _MORE = 2, 12, 20

# How many turns of a session have one statement at most, and how many people make small talk in it.
_APART, _AROUND = 4, 5

# How often a sentence stands before a statement, or after it, and how often what nobody asks about
# is told as a change.
_BESIDE, _CHANGED = 0.3, 0.25

# How many sessions of a dialogue are held, and its latest first day, in days from that of 2001.
_HELD, _DAYS = 128, 20 * 365
# Few sessions are further apart, so that a dialogue takes some weeks and no duration is frequent.
_WEEKS = 40


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about a dialogue.

    Attributes
    ----------
    sessions
        In how many sessions it is told, some days apart.
    turns
        How many turns a session has; 160 are about 4,000 tokens.
    facts
        How many statements of a session nobody asks about, as far as there is room for them.
    """

    sessions: int = knob(25, whole_number, 8, 5000)
    turns: int = knob(160, whole_number, 40, 400)
    facts: int = knob(8, whole_number, 0, 50)

    most_probes = _ROUNDS * len(KINDS)


SUITES = {"dialogue": Knobs()}


class Statement(NamedTuple):
    """What somebody says of themselves, in one of some wordings with these words."""

    who: str
    wordings: Sequence[str]
    words: dict[str, str]


Place = tuple[int, Statement]
Question = tuple[str, Sequence[str], list[Place]]
"""What is asked, the golds, and what is needed for it: statements, after their sessions."""


def whose(table: Mapping[str, Any], name: str) -> str:
    """Return a name in the genitive, by the wording of a language."""
    return str(table["genitive"]["after_s" if name[-1] == "s" else "usual"].format(name=name))


def spelled(table: Mapping[str, Any], months: Sequence[str], day: int) -> list[str]:
    """Return a day in all spellings that count as an answer."""
    date = datetime.date.fromordinal(day)
    words = {"day": date.day, "month": months[date.month - 1], "year": date.year}
    return [form.format(**words) for form in table["dates"]]


def both(table: Mapping[str, Any], *pairs: Sequence[str]) -> list[str]:
    """Return two things at once in all spellings."""
    return [form.format(a=a, b=b) for a, b in pairs for form in table["both"]]


class Dialogues(Episodes):
    """Makes dialogues, each of a circle of its own."""

    section = "dialogue"

    def __init__(self, knobs: Knobs, language: Language, seed: str) -> None:
        super().__init__(knobs, language, seed)
        table = self.wording
        # What can be said of a person, by its form.
        self.topics: dict[str, Sequence[Any]] = {
            "relations": [*table["relations"]], "instruct": [*table["relations"]],
            "bond": table["bond"]["bonds"], "did": range(len(table["did"]["deeds"])),
            "got": table["got"]["things"], "refuse": table["refuse"]["options"],
        }  # fmt: skip
        self.all_topics = [(form, name) for form, among in self.topics.items() for name in among]
        # Exchanges of small talk.
        self.talk = [
            [turn.replace("{x}", word) for turn in row["turns"]]
            for row in table["talk"] for word in table["lists"][row["of"]]
        ]  # fmt: skip

    @property
    def limit(self) -> int:
        """How many dialogues there are: as many as have a name for their circle."""
        return len(self.wording["chats"]) * self.names.count("town")

    def _episode(self, index: int, probes: int) -> Episode:
        turns = _Turns(self, index)
        return Episode(f"dialogue-{index}", turns, tuple(map(turns.probe, range(probes))))


class _Turns(Sequence[Fact]):
    """The turns of a dialogue, a session of which is made when it is wanted.

    What is said in which session is held as far as questions need it.
    """

    def __init__(self, maker: Dialogues, index: int) -> None:
        self._knobs: Knobs = maker.knobs
        self._maker, self._table = maker, maker.wording
        self._session = functools.lru_cache(_HELD)(self._made)
        self._name = f"{maker.seed} dialogue {index}"
        self._rng = rng = Random(self._name)
        people, clubs = maker.names.people, self._table["chats"]
        self._people = rng.sample(people, min(len(people), _PEOPLE + self._knobs.sessions // _MORE))
        first = datetime.date(2001, 1, 1).toordinal() + rng.randrange(_DAYS)
        apart = rng.randint(1, 3) + _WEEKS // self._knobs.sessions
        self._days = range(first, first + apart * self._knobs.sessions, apart)
        self._told = defaultdict[int, list[Statement]](list)
        # What is asked about, or must not be told.
        self._taken = set[tuple[str, str, Any]]()
        town = maker.names.name("town", index // len(clubs))
        self._chat = clubs[index % len(clubs)].format(town=town)
        kinds = [KINDS[(index + number) % len(KINDS)] for number in range(maker.most_probes)]
        self._asked = [(kind, *getattr(self, f"_{kind}")()) for kind in kinds]

    def __len__(self) -> int:
        return self._knobs.sessions * self._knobs.turns

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        session, place = divmod(range(len(self))[at], self._knobs.turns)
        return self._session(session)[place][0]

    def __iter__(self) -> Iterator[Fact]:
        for session in range(self._knobs.sessions):
            yield from (fact for fact, _ in self._session(session))

    # ------------------------------------------------------------ what is told

    def _free(
        self, form: str, count: int = 1, people: Sequence[str] = (), only: Any = None
    ) -> tuple[Any, ...]:
        """Return somebody, and topics of which nothing else is told, and take them."""
        topics = self._maker.topics[form] if only is None else [only]
        while True:
            who = self._rng.choice(people or self._people)
            left = [topic for topic in topics if (who, form, topic) not in self._taken]
            if len(left) >= count:
                chosen = self._rng.sample(left, count)
                self._taken.update((who, form, topic) for topic in chosen)
                return who, *chosen

    def _others(self, who: str) -> list[str]:
        return [name for name in self._people if name != who]

    def _values(self, topic: str, count: int, rng: Random) -> list[str]:
        """Return different values of a relation at random."""
        values, form = dict[str, None](), self._table["relations"][topic]["values"]
        while len(values) < count:
            if form == "town":
                values[self._maker.names.draw("town", rng)] = None
            elif form in self._table["lists"]:
                values[rng.choice(self._table["lists"][form])] = None
            else:
                values[str(rng.randint(*map(int, form.split("-"))))] = None
        return [*values]

    def _say(
        self, who: str, form: str, topic: Any, rng: Random, way: str = "say", **given: str
    ) -> Statement:
        """Return a statement about a topic, with words at random where none are given."""
        table = self._table[form]
        if form == "bond":
            words = {"bond": topic, "value": rng.choice(self._others(who))}
        elif form == "did":
            words = dict(zip(("did", "what"), table["deeds"][topic], strict=True))
            words["when"], _ = rng.choice(table["times"])
        elif form in ("got", "refuse"):
            words = {"n": str(rng.randint(2, 15)), "thing": topic, "option": topic}
        else:
            (value,) = self._values(topic, 1, rng)
            words = {"topic": self._table["relations"][topic]["topic"], "value": value}
        wordings = table[topic][way] if form == "relations" else table["say"]
        return Statement(who, wordings, words | given)

    def _tell(self, *statements: Statement) -> list[Place]:
        """Make statements in sessions of their own, in their order; return where each is made."""
        # First those sessions that have least to tell.
        sessions = range(self._knobs.sessions)
        order = sorted(sessions, key=lambda at: (len(self._told[at]), self._rng.random()))
        places = [*zip(sorted(order[: len(statements)]), statements, strict=True)]
        for session, statement in places:
            self._told[session].append(statement)
        return places

    def _relate(self, who: str, topic: str, *values: str, way: str = "say") -> list[Place]:
        """Tell the values of a relation, all but the first in some way."""
        ways = ["say", *[way] * (len(values) - 1)]
        return self._tell(*(
            self._say(who, "relations", topic, self._rng, way, value=value)
            for way, value in zip(ways, values, strict=True)
        ))  # fmt: skip

    def _deeds(self, count: int) -> tuple[list[Place], list[int], list[str]]:
        """Tell of deeds of different people on different days; return the days, and what to ask."""
        rng, table, days = self._rng, self._table["did"], list[int]()
        free = (self._free("did", people=[who]) for who in rng.sample(self._people, count))
        places = self._tell(*(self._say(who, "did", topic, rng) for who, topic in free))
        while len({*days}) < count:
            days = []
            for session, (_, _, words) in places:
                words["when"], ago = rng.choice(table["times"])
                days.append(self._days[session] - ago)
        events = [table["event"].format(who=who, **words) for _, (who, _, words) in places]
        return places, days, events

    # ------------------------------------------------------------ what is asked

    def _ask(self, form: str, key: str, **words: Any) -> str:
        """Return one of the wordings of a question, filled in."""
        table = self._table[form] if form in self._table else self._table["relations"][form]
        owner = whose(self._table, words["who"]) if "who" in words else ""
        return str(self._rng.choice(table[key]).format(whose=owner, **words))

    def _ruled(self, question: str) -> str:
        return str(self._table["rule"].format(question=question))

    def _once(self, count: int = 1) -> Question:
        who, topic = self._free("relations")
        values = self._values(topic, count, self._rng)
        golds = values if count == 1 else both(self._table, values, values[::-1])
        question = self._ask(topic, "ask", who=who)
        return self._ruled(question), golds, self._relate(who, topic, *values)

    def _both(self) -> Question:
        return self._once(2)

    def _across(self) -> Question:
        who, topic = self._free("relations")
        without, gold = self._values(topic, 2, self._rng)
        other, _ = self._free("relations", people=self._others(who), only=topic)
        _, bond = self._free("bond", people=[who])
        first = self._say(who, "bond", bond, self._rng, value=other)
        then = self._say(other, "relations", topic, self._rng, value=gold)
        # Either is told first, and what would be the answer without the first.
        places = self._tell(*self._rng.sample((first, then), 2))
        self._relate(who, topic, without)
        called = self._table["bond"]["called"].format(whose=whose(self._table, who), bond=bond)
        places.sort(key=lambda place: place[1] is then)
        return self._ruled(self._ask(topic, "ask", who=called)), [gold], places

    def _update(self) -> Question:
        who, topic = self._free("relations")
        values = self._values(topic, self._rng.randint(2, 4), self._rng)
        question, gold = self._ask(topic, "ask", who=who), values[-1]
        if self._rng.random() < 0.5:
            question, gold = self._table["before"].format(question=question), values[-2]
        return self._ruled(question), [gold], self._relate(who, topic, *values, way="change")

    def _order(self) -> Question:
        places, days, events = self._deeds(3)
        key, best = self._rng.choice((("first", min), ("last", max)))
        gold = places[days.index(best(days))][1].who
        return self._ask("did", key, **self._mixed(events)), [gold], places

    def _mixed(self, texts: Sequence[str]) -> dict[str, str]:
        return dict(zip("abc", self._rng.sample(texts, len(texts)), strict=False))

    def _duration(self) -> Question:
        places, (one, other), events = self._deeds(2)
        golds = [form.format(n=abs(one - other)) for form in self._table["did"]["days"]]
        return self._ask("did", "duration", **self._mixed(events)), golds, places

    def _date(self) -> Question:
        places, (day,), (event,) = self._deeds(1)
        golds = spelled(self._table, self._maker.names.months, day)
        return self._ask("did", "date", a=event), golds, places

    def _count(self) -> Question:
        who, thing = self._free("got")
        bought = [self._say(who, "got", thing, self._rng) for _ in range(self._rng.randint(2, 5))]
        golds = [str(sum(int(statement.words["n"]) for statement in bought))]
        return self._ask("got", "ask", who=who, thing=thing), golds, self._tell(*bought)

    def _preference(self) -> Question:
        who, gold, *refused = self._free("refuse", 3)
        places = self._tell(*(self._say(who, "refuse", one, self._rng) for one in refused))
        # Somebody else does not take what can be offered.
        other, _ = self._free("refuse", people=self._others(who), only=gold)
        self._tell(self._say(other, "refuse", gold, self._rng))
        question = self._ask("refuse", "ask", who=who, **self._mixed([gold, *refused]))
        return question, [gold], places

    def _instruction(self) -> Question:
        who, topic = self._free("relations")
        gold, holds = self._values(topic, 2, self._rng)
        self._taken.add((who, "instruct", topic))
        self._relate(who, topic, holds)
        about = self._table["relations"][topic]["about"]
        about = about.format(who=who, whose=whose(self._table, who))
        places = self._tell(self._say(who, "instruct", topic, self._rng, value=gold))
        return self._ask("instruct", "ask", about=about, who=who), [gold], places

    def _unknown(self) -> Question:
        who, topic, other = self._free("relations", 2)
        (value,) = self._values(topic, 1, self._rng)
        asks = [self._ask(relation, "ask", who=who) for relation in (topic, other)]
        pairs = [*zip(asks, (value, self._table["unknown"]), strict=True)]
        (one, then), answers = zip(*self._rng.sample(pairs, 2), strict=True)
        question = self._table["two"].format(one=one, other=then)
        return self._ruled(question), both(self._table, answers), self._relate(who, topic, value)

    def probe(self, number: int) -> Probe:
        """Return a question, by its place."""
        kind, question, golds, places = self._asked[number]
        needs = [
            next(fact.number for fact, statement in self._session(session) if statement is needed)
            for session, needed in places
        ]
        text = self._table["within"].format(chat=self._chat, question=question)
        return Probe(text, tuple(golds), tuple(needs), kind)

    # ------------------------------------------------------------ the turns

    def _made(self, number: int) -> list[tuple[Fact, Statement | None]]:
        """Return the turns of a session, and the statement in each that has one."""
        rng, turns = Random(f"{self._name} {number}"), self._knobs.turns
        items: list[Any] = [*self._told.get(number, ())]
        replies = self._table["beside"]["reply"]
        room = min(self._knobs.facts, turns // _APART - len(items))
        items += [self._other(rng) for _ in range(room)]
        free = turns - 2 * len(items)
        for exchange in rng.sample(self._maker.talk, free // 2 + 1):
            items += [exchange[:free]] if free > 0 else []
            free -= len(exchange)
        rng.shuffle(items)
        day, around = self._days[number], rng.sample(self._people, _AROUND)
        date, facts = datetime.date.fromordinal(day), list[tuple[Fact, Statement | None]]()
        stamp = {"day": str(date.day), "year": str(date.year)}
        stamp["month"] = self._maker.names.months[date.month - 1]
        for item in items:
            first, second = rng.sample(around, 2)
            statement = item if isinstance(item, Statement) else None
            lines: list[tuple[str, dict[str, str]]] = [(text, {}) for text in item]
            if statement is not None:
                first, second = statement.who, second if second != statement.who else first
                lines = [self._stated(statement, rng), (rng.choice(replies), {})]
            for speaker, (line, words) in zip((first, second, first), lines, strict=False):
                turn = self._table["turn"].replace("{said}", line)
                text, spans = told(turn, {**stamp, **words, "speaker": speaker})
                values = {name: spans[name] for name in words if name in spans}
                values["who"], place = spans["speaker"], number * turns + len(facts)
                fact = Fact(place, text, day - self._days[0], values, number)
                facts.append((fact, statement if words else None))
        return facts

    def _stated(self, statement: Statement, rng: Random) -> tuple[str, dict[str, str]]:
        """Return a wording of a statement, perhaps with sentences beside it, and its words."""
        line, words = rng.choice(statement.wordings), statement.words
        for key, form in (("lead", "{0} {1}"), ("tail", "{1} {0}")):
            if rng.random() < _BESIDE:
                line = form.format(rng.choice(self._table["beside"][key]), line)
        if when := words.get("when"):
            words = words | {"When": when[0].upper() + when[1:]}
        return line, words

    def _other(self, rng: Random) -> Statement:
        """Return a statement that no question needs; what holds of somebody is always the same."""
        while True:
            who, (form, topic) = rng.choice(self._people), rng.choice(self._maker.all_topics)
            if (who, form, topic) not in self._taken:
                steady = form in ("relations", "bond", "instruct")
                words = Random(f"{self._name} {who} {form} {topic}") if steady else rng
                way = "change" if rng.random() < _CHANGED else "say"
                return self._say(who, form, topic, words, way)
