"""Episodes of events: who did what to which thing, in which town, on which day of a year.

In an episode a person is in one town on one day, a town has one visitor on one day, and a person
is in a town once: of who, where and when any two tell the third, so each question has one answer.
Over all episodes of a seed the two that a question names come from a shuffled list, so that no
question comes again before the list is used up: after 5,000 episodes at least.

Sessions are equal parts of the year. Questions are about those before the last, if there are
several, and each part has its share of the facts.

Knobs and marks are those of all episodic suites, which `rulerlib.memory.episodic` lists.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rulerlib.errors import flag, require, whole_number
from rulerlib.languages import Language
from rulerlib.memory.episodes import Episode, Episodes, Fact, Probe, told
from rulerlib.tasks.family import Checked, knob, share

MOST_FACTS = 100_000

# An episode is asked this many questions at most: from there on another one is cheaper.
MOST_PROBES = 20


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about an episodic suite.

    Attributes
    ----------
    facts
        How many facts are taught. In a conversation: how many things are told of, each of which
        takes a turn, and further turns where it is corrected.
    distractors
        Near misses that are taught besides, for each question that an episode can be asked: the
        same person in another town, the same town on another day, another person on the same day;
        in a conversation the same thing of others, or other things of the same person.
    reward_share, pin_share
        The shares of all facts that are rewarded and that are pinned, exact to rounding.
    conversation
        Whether two people talk with each other. Otherwise events are told.
    corrections
        How often at most what was told in a conversation is corrected. All corrections, or the
        last one, may be taken back again, and other values are mentioned that never held.
    sessions
        In how many parts the facts are taught. Where there are several, questions are about facts
        of parts before the last.
    unanswerable
        The share of questions about what was never taught. Their answer is that it is unknown,
        and every question of the suite says so.
    context_budget
        How many tokens a prompt may have; None: as many as it takes. It is only recorded here.
    """

    facts: int = knob(20, whole_number, 1, MOST_FACTS)
    distractors: int = knob(0, whole_number, 0, 40)
    reward_share: float = knob(0.3, share)
    pin_share: float = knob(0.1, share)
    conversation: bool = knob(False, flag)
    corrections: int = knob(0, whole_number, 0, 5)
    sessions: int = knob(1, whole_number, 1, 12)
    unanswerable: float = knob(0.0, share, 0.5)
    context_budget: int | None = knob(None, whole_number, 64)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.conversation:
            allowed_values = "1, for a conversation is held in one session"
            require(self.sessions == 1, "sessions", self.sessions, allowed_values)
            allowed_values = "0, for a conversation is asked about what was said"
            require(not self.unanswerable, "unanswerable", self.unanswerable, allowed_values)
        else:
            allowed_values = "0, for only what is said in a conversation is corrected"
            require(not self.corrections, "corrections", self.corrections, allowed_values)
        allowed_values = f"at most the number of facts ({self.facts})"
        require(self.sessions <= self.facts, "sessions", self.sessions, allowed_values)
        allowed_values = "0, for only one fact can be asked about"
        several = self.asked_about > 1 or not self.unanswerable
        require(several, "unanswerable", self.unanswerable, allowed_values)

    @property
    def most_probes(self) -> int:
        """How many questions one episode can be asked: 20 at most."""
        if self.conversation:
            return min(MOST_PROBES, self.facts)
        # What is not known takes two facts, each of which names one of the two that are asked for.
        needed = 2 if self.unanswerable else 1
        return min(MOST_PROBES, self.asked_about // needed)

    @property
    def asked_about(self) -> int:
        """How many facts may be asked about: all, or those of the sessions before the last."""
        if self.sessions == 1:
            return self.facts
        # The first fact of the last session.
        return -(-self.facts * (self.sessions - 1) // self.sessions)


class Episodic(Episodes):
    """Episodes about people and towns with invented names, in which some facts are marked."""

    knobs: Knobs
    section = "episodic"

    def marked(
        self, total: int, questions: Sequence[tuple[Sequence[int], bool]], rng: random.Random
    ) -> tuple[set[int], set[int]]:
        """Return the numbers of the facts that are rewarded, and of those that are pinned.

        Both are the share of all facts that the knobs set, exact to rounding, and no fact is both
        unless the shares are more than all. For each question ``asked`` has the facts that it
        needs, and whether one of these should be marked, as long as there are enough marks and
        enough other facts. Beside what is asked about marks fall at random.
        """
        front = [rng.choice(facts) for facts, mark in questions if mark and facts]
        back = [fact for facts, mark in reversed(questions) if not mark for fact in facts]
        settled = {*front, *back}
        rest = [number for number in range(total) if number not in settled]
        rng.shuffle(rest)
        rewarded, pinned = (
            round(share * total) for share in (self.knobs.reward_share, self.knobs.pin_share)
        )
        chosen = [*front, *rest, *back][: rewarded + pinned]
        rng.shuffle(chosen)
        return {*chosen[:rewarded]}, {*chosen[len(chosen) - pinned :]}


NAMED = {
    "who": ("when", "where"),
    "what": ("who", "where"),
    "where": ("when", "who"),
    "when": ("who", "where"),
}
"""What questions ask for, in turn, and the two that each names; a day is named first."""

KINDS = tuple(NAMED)

# Nothing is told of the 29th of February.
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

DAYS = sum(_MONTHS)

# A person, a town and a day, one of which is None.
_Pair = tuple[int | None, int | None, int | None]


class Event(NamedTuple):
    """A day, a person, a town, a deed, and the thing it was done to, by their numbers."""

    when: int
    who: int
    where: int
    deed: int
    thing: int


@dataclass
class _Planned:
    """A question before it is written; ``event`` tells the answer, if one does."""

    kind: str
    wording: int
    named: dict[str, int]
    deed: int
    session: int
    event: Event | None = None


class _Diary:
    """Makes events, and keeps which pairs of a person, a town and a day are taken."""

    def __init__(self, people: int, towns: int, things: Sequence[int], rng: random.Random) -> None:
        self._people, self._towns, self._things, self._rng = people, towns, things, rng
        self._taken: set[_Pair] = set()
        self.events: list[Event] = []

    def keep(
        self, who: int | None = None, where: int | None = None, when: int | None = None
    ) -> bool:
        """Take a pair, and return whether it was free."""
        pair = who, where, when
        free = pair not in self._taken
        self._taken.add(pair)
        return free

    def put(
        self,
        days: Sequence[int],
        named: dict[str, int],
        deed: int | None = None,
        besides: int | None = None,
    ) -> Event:
        """Return a new event, of which no pair was taken but the one that is named.

        It is on one of ``days`` if no day is named. Two names are a pair that was kept for it.
        ``deed`` is done, if given, and not to the thing ``besides``.
        """
        rng = self._rng
        while True:
            who = named["who"] if "who" in named else rng.randrange(self._people)
            where = named["where"] if "where" in named else rng.randrange(self._towns)
            when = named["when"] if "when" in named else rng.choice(days)
            pairs: list[_Pair] = [(who, where, None), (who, None, when), (None, where, when)]
            if len(named) > 1:
                pairs.remove((named.get("who"), named.get("where"), named.get("when")))
            if self._taken.isdisjoint(pairs):
                break
        self._taken.update(pairs)
        if deed is None:
            deed = rng.randrange(len(self._things))
        count = self._things[deed]
        thing = rng.randrange(count)
        if besides is not None:
            thing = (besides + rng.randrange(1, count)) % count
        self.events.append(Event(when, who, where, deed, thing))
        return self.events[-1]


class Events(Episodic):
    """Makes episodes of events, as many as the language has names for."""

    def __init__(self, knobs: Knobs, language: Language, seed: str) -> None:
        super().__init__(knobs, language, seed)
        self._table = self.wording["events"]
        self._people, self._towns = self.names.people, self.names.count("town")
        self._deeds = [*self._table["deeds"].values()]
        self._spelled = [*self._calendar()]
        starts = [-(-part * DAYS // knobs.sessions) for part in range(knobs.sessions + 1)]
        self._days = [*map(range, starts, starts[1:])]
        # A person is told of once a day; what comes with the questions may fall into one session.
        brought = self.most_probes * (knobs.distractors + 2)
        least = len(self._people) * min(map(len, self._days)) - brought
        most = max(0, least * knobs.sessions)
        allowed_values = f"at most {most}, for which this language has names"
        require(knobs.facts <= most, "facts", knobs.facts, allowed_values)

    def _episode(self, index: int, probes: int) -> Episode:
        rng = random.Random(f"{self.seed} events {index}")
        plans, events = self._draw(index, rng)
        numbers = {event: number for number, event in enumerate(events)}
        needs = [(numbers[plan.event],) if plan.event else () for plan in plans]
        wants = [_marked(index + k) for k in range(len(plans))]
        rewarded, pinned = self.marked(len(events), [*zip(needs, wants, strict=True)], rng)
        facts = []
        for number, event in enumerate(events):
            text, spans = told(rng.choice(self._table["say"]), self._words(event))
            del spans["did"]
            session = event.when * self.knobs.sessions // DAYS
            marks = number in rewarded, number in pinned
            facts.append(Fact(number, text, event.when, spans, session, *marks))
        questions = [
            self._probe(plan, need, not (rewarded | pinned).isdisjoint(need))
            for plan, need in zip(plans[:probes], needs, strict=False)
        ]
        return Episode(f"events-{index}", tuple(facts), tuple(questions))

    def _draw(self, index: int, rng: random.Random) -> tuple[list[_Planned], list[Event]]:
        """Return all questions of an episode, and its events in their order."""
        knobs = self.knobs
        diary = _Diary(
            len(self._people), self._towns, [len(deed["things"]) for deed in self._deeds], rng
        )
        places = [number * knobs.sessions // knobs.facts for number in range(knobs.facts)]
        others = places[knobs.asked_about :]
        places = places[: knobs.asked_about]
        rng.shuffle(places)
        plans = [self._plan(index, k, places.pop(), rng) for k in range(self.most_probes)]
        # All that is asked about before any of it is told, so that nothing else takes it.
        for plan in plans:
            diary.keep(**plan.named)
        for k, plan in enumerate(plans):
            if self._answerable(index + k):
                plan.event = diary.put(self._days[plan.session], plan.named, plan.deed)
                continue
            # Both that the question names are told of, but not of the same event.
            for (name, value), session in zip(
                plan.named.items(), (plan.session, places.pop()), strict=True
            ):
                diary.put(self._days[session], {name: value}, plan.deed)
        for plan in plans:
            self._near_misses(plan, diary)
        for session, days in enumerate(self._days):
            self._others(places.count(session) + others.count(session), days, diary, rng)
        rng.shuffle(diary.events)
        return plans, sorted(diary.events, key=lambda event: event.when)

    def _plan(self, index: int, k: int, session: int, rng: random.Random) -> _Planned:
        """Return question ``k`` of an episode, which no other question of its kind repeats."""
        kind = KINDS[(index + k) % len(KINDS)]
        # No two questions of a kind have the same number.
        number = index * math.ceil(self.most_probes / len(KINDS)) + k // len(KINDS)
        people, days = len(self._people), self._days[session]
        ways = len(self._table["ask"][kind])
        wording, deed = rng.randrange(ways), rng.randrange(len(self._deeds))
        if kind == "where":
            # There are fewest pairs of a person and a day, so each is asked in every wording.
            total = people * len(days) * ways
            who, rest = divmod(
                self.names.shuffled(f"who {session}", number, total), len(days) * ways
            )
            at, wording = divmod(rest, ways)
            return _Planned(kind, wording, {"when": days[at], "who": who}, deed, session)
        if kind == "who":
            total = self._towns * len(days)
            where, at = divmod(self.names.shuffled(f"where {session}", number, total), len(days))
            return _Planned(kind, wording, {"when": days[at], "where": where}, deed, session)
        number = 2 * number + (kind == "when")
        who, where = divmod(
            self.names.shuffled("who where", number, people * self._towns), self._towns
        )
        return _Planned(kind, wording, {"who": who, "where": where}, deed, session)

    def _answerable(self, turn: int) -> bool:
        """Return whether the question of a turn has an answer; each kind lacks the same share."""
        share = self.knobs.unanswerable
        number, kind = divmod(turn, len(KINDS))
        shift = kind / len(KINDS)
        return math.floor((number + 1) * share + shift) == math.floor(number * share + shift)

    def _near_misses(self, plan: _Planned, diary: _Diary) -> None:
        """Put events into the diary that have one of who, where and when with what is asked."""
        event, shared = plan.event, plan.named
        if event:
            shared = {"who": event.who, "where": event.where, "when": event.when}
        names = [*shared]
        for number in range(self.knobs.distractors):
            name = names[number % len(names)]
            diary.put(range(DAYS), {name: shared[name]}, plan.deed, event.thing if event else None)

    def _others(self, count: int, days: range, diary: _Diary, rng: random.Random) -> None:
        """Put events into the diary that no question is about."""
        total = len(self._people) * len(days)
        # Drawn without repetition, for of many facts most people are told of on most days.
        enough = count + len(diary.events) + MOST_PROBES
        for drawn in rng.sample(range(total), min(total, enough)):
            if not count:
                break
            who, at = divmod(drawn, len(days))
            if diary.keep(who=who, when=days[at]):
                diary.put(days, {"who": who, "when": days[at]})
                count -= 1

    def _probe(self, plan: _Planned, needs: tuple[int, ...], marked: bool) -> Probe:
        table, event = self._table, plan.event
        numbers = {"when": 0, "who": 0, "where": 0, **plan.named}
        words = self._words(Event(**numbers, deed=plan.deed, thing=0))
        text, _ = told(table["ask"][plan.kind][plan.wording], words)
        if self.knobs.unanswerable:
            text, _ = told(table["unless"], {"question": text, "unknown": table["unknown"][0]})
        golds = self._golds(plan.kind, event) if event else tuple(table["unknown"])
        facts = {"answerable": event is not None, "marked": marked}
        return Probe(text, golds, needs, plan.kind, facts)

    def _golds(self, kind: str, event: Event) -> tuple[str, ...]:
        """Return the answers that count, first the one that stands in the fact."""
        if kind == "who":
            return (self._people[event.who],)
        if kind == "when":
            return self._spelled[event.when]
        if kind == "where":
            town = self.names.name("town", event.where)
            return tuple(told(form, {"where": town})[0] for form in self._table["places"])
        first, *others = self._deeds[event.deed]["things"][event.thing]
        # With and without its article.
        return first, first.split(" ", 1)[1], *others

    def _words(self, event: Event) -> dict[str, str]:
        deed = self._deeds[event.deed]
        return {
            "when": self._spelled[event.when][0],
            "who": self._people[event.who],
            "where": self.names.name("town", event.where),
            "did": deed["did"],
            "do": deed["do"],
            "what": deed["things"][event.thing][0],
        }

    def _calendar(self) -> Iterator[tuple[str, ...]]:
        """Yield the spellings of each day of a year, without the year."""
        forms, nths = self._table["days"], self._table["nths"]
        for month, length in zip(self.names.months, _MONTHS, strict=True):
            for day in range(1, length + 1):
                nth = nths[day - 1] if nths else ""
                words = {"day": str(day), "month": month, "nth": nth}
                yield tuple(told(form, words)[0] for form in forms)


def _marked(turn: int) -> bool:
    """Return whether the question of a turn is about a marked fact: every other one of a kind."""
    return (turn + turn // len(KINDS)) % 2 == 1
