"""Episodes of events: who did what to which thing, in which town, on which day of a year.

In an episode a person is in at most one town on a day, a town has at most one visitor on a day, and
a person is in a town at most once. So any two of who, where and when determine the third, and each
question has one answer. The two that a question names come from a list that is shuffled by the
seed, so that questions do not repeat within 5,000 episodes.

Sessions are equal parts of the year, each with its share of the facts. If there are several,
questions are about sessions before the last.

The settings and marks are shared with the conversations of `rulerlib.memory.episodic`.
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

# The maximum number of questions about an episode; for more, another episode is cheaper.
MOST_PROBES = 20


@dataclass(frozen=True)
class Knobs(Checked):
    """The settings of the episodic suites.

    Attributes
    ----------
    facts
        The number of facts. In a conversation, the number of values that are told, each in one
        turn and in further turns if it is corrected.
    distractors
        The number of similar facts for each possible question: the same person in another town,
        the same town on another day, another person on the same day; in a conversation the same
        thing of others, or other things of the same person.
    reward_share, pin_share
        The shares of facts that are rewarded and pinned, exact up to rounding.
    conversation
        Whether two people talk with each other. Otherwise events are told.
    corrections
        The maximum number of corrections of a value in a conversation. All of them or the last one
        may be taken back, and other values are mentioned that were never valid.
    sessions
        The number of parts in which the facts are taught. If there are several, questions are about
        facts of parts before the last.
    unanswerable
        The share of questions about events that were never taught. Their answer is "unknown", and
        every question of the suite says so.
    context_budget
        The maximum number of tokens of a prompt, or None. It is only recorded here.
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
            one, none = "1 in a conversation", "0 in a conversation"
            require(self.sessions == 1, "sessions", self.sessions, one)
            require(not self.unanswerable, "unanswerable", self.unanswerable, none)
        else:
            require(not self.corrections, "corrections", self.corrections, "0 without conversation")
        most = f"at most the number of facts ({self.facts})"
        require(self.sessions <= self.facts, "sessions", self.sessions, most)
        several = self.asked_about > 1 or not self.unanswerable
        why = "0, because only one fact can be asked about"
        require(several, "unanswerable", self.unanswerable, why)

    @property
    def most_probes(self) -> int:
        """The maximum number of questions about an episode, 20 at most."""
        if self.conversation:
            return min(MOST_PROBES, self.facts)
        # A question without an answer takes two facts, one for each of the names in it.
        needed = 2 if self.unanswerable else 1
        return min(MOST_PROBES, self.asked_about // needed)

    @property
    def asked_about(self) -> int:
        """The number of facts in the sessions that questions are about."""
        if self.sessions == 1:
            return self.facts
        return -(-self.facts * (self.sessions - 1) // self.sessions)


class Episodic(Episodes):
    """Generates episodes about people and towns with invented names; some facts are marked."""

    knobs: Knobs
    section = "episodic"

    def marked(
        self, total: int, questions: Sequence[tuple[Sequence[int], bool]], rng: random.Random
    ) -> tuple[set[int], set[int]]:
        """Return the numbers of the rewarded facts, and of the pinned facts.

        Their shares are exact up to rounding, and no fact is both unless the shares exceed 1.

        Parameters
        ----------
        total
            The number of facts.
        questions
            For each question the facts that it needs, and whether one of them should be marked if
            there are enough marks and enough other facts. The other marks are random.
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
"""What questions ask for, and the two values that each names; a day is named first."""

KINDS = tuple(NAMED)

# There are no events on 29 February.
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

DAYS = sum(_MONTHS)

# A person, a town and a day, one of which is None.
_Pair = tuple[int | None, int | None, int | None]


class Event(NamedTuple):
    """The numbers of a day, a person, a town, a deed, and the thing it was done to."""

    when: int
    who: int
    where: int
    deed: int
    thing: int


@dataclass
class _Planned:
    """A question before it is worded; ``event`` is its answer, if there is one."""

    kind: str
    wording: int
    named: dict[str, int]
    deed: int
    session: int
    event: Event | None = None


class _Diary:
    """Draws events so that no pair of a person, a town and a day repeats."""

    def __init__(self, people: int, towns: int, things: Sequence[int], rng: random.Random) -> None:
        self._people, self._towns, self._things, self._rng = people, towns, things, rng
        self._taken: set[_Pair] = set()
        self.events: list[Event] = []

    def keep(
        self, who: int | None = None, where: int | None = None, when: int | None = None
    ) -> bool:
        """Reserve a pair, and return whether it was free."""
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
        """Return a new event with the values in ``named``; its other pairs were free.

        Two values in ``named`` are a pair that was reserved for it. Without a day, it is on one of
        ``days``. It has the given ``deed``, and not the thing ``besides``.
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
    """Generates episodes of events, as many as the language has names for."""

    def __init__(self, knobs: Knobs, language: Language, seed: str) -> None:
        super().__init__(knobs, language, seed)
        self._table = self.wording["events"]
        self._people, self._towns = self.names.people, self.names.count("town")
        self._deeds = [*self._table["deeds"].values()]
        self._spelled = [*self._calendar()]
        starts = [-(-part * DAYS // knobs.sessions) for part in range(knobs.sessions + 1)]
        self._days = [*map(range, starts, starts[1:])]
        # A person has one event a day, and all facts for questions may be in one session.
        brought = self.most_probes * (knobs.distractors + 2)
        least = len(self._people) * min(map(len, self._days)) - brought
        most = max(0, least * knobs.sessions)
        allowed = f"at most {most}, because this language has no more names"
        require(knobs.facts <= most, "facts", knobs.facts, allowed)

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
        """Return all questions of an episode, and its events in order."""
        knobs = self.knobs
        diary = _Diary(
            len(self._people), self._towns, [len(deed["things"]) for deed in self._deeds], rng
        )
        places = [number * knobs.sessions // knobs.facts for number in range(knobs.facts)]
        others = places[knobs.asked_about :]
        places = places[: knobs.asked_about]
        rng.shuffle(places)
        plans = [self._plan(index, k, places.pop(), rng) for k in range(self.most_probes)]
        # Reserve the pairs of all questions first.
        for plan in plans:
            diary.keep(**plan.named)
        for k, plan in enumerate(plans):
            if self._answerable(index + k):
                plan.event = diary.put(self._days[plan.session], plan.named, plan.deed)
                continue
            # Both names in the question occur, but not in the same event.
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
        """Return question ``k`` of an episode, which differs from all others of its kind."""
        kind = KINDS[(index + k) % len(KINDS)]
        # The number of the question among all of its kind.
        number = index * math.ceil(self.most_probes / len(KINDS)) + k // len(KINDS)
        people, days = len(self._people), self._days[session]
        ways = len(self._table["ask"][kind])
        wording, deed = rng.randrange(ways), rng.randrange(len(self._deeds))
        if kind == "where":
            # There are few pairs of a person and a day, so each is asked in every wording.
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
        """Return whether a question has an answer; the share is the same for each kind."""
        share = self.knobs.unanswerable
        number, kind = divmod(turn, len(KINDS))
        shift = kind / len(KINDS)
        return math.floor((number + 1) * share + shift) == math.floor(number * share + shift)

    def _near_misses(self, plan: _Planned, diary: _Diary) -> None:
        """Draw events that share one of who, where and when with a question."""
        event, shared = plan.event, plan.named
        if event:
            shared = {"who": event.who, "where": event.where, "when": event.when}
        names = [*shared]
        for number in range(self.knobs.distractors):
            name = names[number % len(names)]
            diary.put(range(DAYS), {name: shared[name]}, plan.deed, event.thing if event else None)

    def _others(self, count: int, days: range, diary: _Diary, rng: random.Random) -> None:
        """Draw events that no question is about."""
        total = len(self._people) * len(days)
        # Without repetition, because of many facts most people have events on most days.
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
        """Return the accepted answers, the one in the fact first."""
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
    """Return whether a question is about a marked fact, which is every other one of a kind."""
    return (turn + turn // len(KINDS)) % 2 == 1
