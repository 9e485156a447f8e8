"""Episodic memory: events, and conversations in which values change.

An example (Danish)::

    I Stegnehavn lånte Laurik en økse den 19. marts.
    Det var i Kvultehavn, at Ulrun lånte en spade den 21. august.
    Det var i Tvarneby, at Eirik solgte en seng den 22. september.

    Hvad var det, Ulrun lånte i Kvultehavn?        golds: ["en spade", "spade", "spaden"]

====================  =============================================================================
suite                 what it adds
====================  =============================================================================
episodic              events; questions ask for who, what, where or when
episodic_cross        several sessions; questions are about earlier ones, some have no answer
episodic_capacity     more facts than fit into a prompt
episodic_multi        a conversation with corrections that are sometimes taken back
====================  =============================================================================

Some facts are marked as ``rewarded`` (knowing them was rewarded) or ``pinned`` (the user asked for
them to be kept). Half of the questions are about marked facts if there are enough of them, although
fewer than half of the facts are marked.

**Events.** A person is in at most one town on a day, a town has at most one visitor on
a day, and a person is in a town at most once. So any two of who, where and when determine the
third, and each question has one answer. The two that a question names come from a list that is
shuffled by the seed, so that questions do not repeat within 5,000 episodes. Sessions are equal
parts of the year, each with its share of the facts.

>>> from rulerlib.languages import load
>>> episode = make(Knobs(facts=3), load("da"), "1").episode(0, probes=2)
>>> probe = episode.probes[1]
>>> probe.kind, probe.golds
('what', ('en spade', 'spade', 'spaden'))
>>> episode.needed(probe)[0].text
'Den 21. august lånte Ulrun en spade i Kvultehavn.'
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import Field

from rulerlib.errors import ParameterError, validated
from rulerlib.languages import Language
from rulerlib.memory.episodes import Episode, Episodes, Fact, Probe, Spans, told

# The maximum number of questions about an episode; for more, another episode is cheaper.
MOST_PROBES = 20


@validated
class Knobs:
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
        Whether two people talk with each other. Otherwise the facts are events.
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

    facts: int = Field(20, ge=1, le=100_000)
    distractors: int = Field(0, ge=0, le=40)
    reward_share: float = Field(0.3, ge=0, le=1)
    pin_share: float = Field(0.1, ge=0, le=1)
    conversation: bool = False
    corrections: int = Field(0, ge=0, le=5)
    sessions: int = Field(1, ge=1, le=12)
    unanswerable: float = Field(0.0, ge=0, le=0.5)
    context_budget: int | None = Field(None, ge=64)

    def __post_init__(self) -> None:
        # There are 288 people with a day each, and with about a dozen things each.
        most = 400 if self.conversation else 100_000 if self.sessions == 1 else 80_000
        if self.facts > most:
            allowed = f"at most {most} in a conversation or in several sessions"
            raise ParameterError("facts", self.facts, allowed)

    @property
    def most_probes(self) -> int:
        """The maximum number of questions about an episode, 20 at most."""
        # A question without an answer takes two facts, one for each of the names in it.
        return min(MOST_PROBES, self.asked_about // (2 if self.unanswerable else 1))

    @property
    def asked_about(self) -> int:
        """The number of facts in the sessions that questions are about."""
        if self.sessions == 1:
            return self.facts
        return -(-self.facts * (self.sessions - 1) // self.sessions)


def marked(
    knobs: Knobs, total: int, questions: Sequence[tuple[Sequence[int], bool]], rng: random.Random
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
    rest = [number for number in range(total) if number not in {*front, *back}]
    rng.shuffle(rest)
    rewarded, pinned = round(knobs.reward_share * total), round(knobs.pin_share * total)
    chosen = [*front, *rest, *back][: rewarded + pinned]
    rng.shuffle(chosen)
    return {*chosen[:rewarded]}, {*chosen[len(chosen) - pinned :]}


# --- Events ----------------------------------------------------------------------------------

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
        self._taken = set[frozenset[tuple[str, int]]]()
        self.events: list[Event] = []

    def keep(self, **pair: int) -> bool:
        """Reserve a pair, and return whether it was free."""
        key = frozenset(pair.items())
        free = key not in self._taken
        self._taken.add(key)
        return free

    def put(
        self, days: Sequence[int], deed: int | None = None, besides: int | None = None, **named: int
    ) -> Event:
        """Add and return an event with the values in ``named``; its other pairs were free.

        Two values in ``named`` are a pair that was reserved for it. Without a day, it is on one of
        ``days``. It has the given ``deed``, and not the thing ``besides``.
        """
        rng = self._rng
        while True:
            who = named["who"] if "who" in named else rng.randrange(self._people)
            where = named["where"] if "where" in named else rng.randrange(self._towns)
            when = named["when"] if "when" in named else rng.choice(days)
            values = {"who": who, "where": where, "when": when}
            pairs = {frozenset(pair) for pair in itertools.combinations(values.items(), 2)}
            pairs.discard(frozenset(named.items()))
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


class Events(Episodes):
    """Generates episodes of events, as many as the language has names for."""

    knobs: Knobs
    section = "episodic"

    def __init__(self, knobs: Knobs, language: Language, seed: str) -> None:
        super().__init__(knobs, language, seed)
        self._table = self.wording["events"]
        self._people, self._towns = self.names.people, self.names.count("town")
        self._deeds = [*self._table["deeds"].values()]
        # The spellings of each day of a year, without the year.
        nths = self._table["nths"] or [""] * 31
        self._calendar = [
            tuple(form.format(day=day, month=month, nth=nth) for form in self._table["days"])
            for month, length in zip(self.names.months, _MONTHS, strict=True)
            for day, nth in enumerate(nths[:length], 1)
        ]
        starts = [-(-part * DAYS // knobs.sessions) for part in range(knobs.sessions + 1)]
        self._days = [*map(range, starts, starts[1:])]

    def episode(self, index: int, probes: int = 1) -> Episode:
        rng = random.Random(f"{self.seed} events {index}")
        plans, events = self._draw(index, rng)
        numbers = {event: number for number, event in enumerate(events)}
        needs = [(numbers[plan.event],) if plan.event else () for plan in plans]
        # Every other question of a kind is about a marked fact.
        turns = range(index, index + len(plans))
        wants = [(turn + turn // len(KINDS)) % 2 == 1 for turn in turns]
        rewarded, pinned = marked(self.knobs, len(events), [*zip(needs, wants, strict=True)], rng)
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
        knobs, things = self.knobs, [len(deed["things"]) for deed in self._deeds]
        diary = _Diary(len(self._people), self._towns, things, rng)
        sessions = [number * knobs.sessions // knobs.facts for number in range(knobs.facts)]
        others, sessions = sessions[knobs.asked_about :], sessions[: knobs.asked_about]
        rng.shuffle(sessions)
        plans = [self._plan(index, k, sessions.pop(), rng) for k in range(self.knobs.most_probes)]
        # Reserve the pairs of all questions first.
        for plan in plans:
            diary.keep(**plan.named)
        for turn, plan in enumerate(plans, index):
            if self._answerable(turn):
                plan.event = diary.put(self._days[plan.session], plan.deed, **plan.named)
                continue
            # Both names in the question occur, but not in the same event.
            told_in = [plan.session, sessions.pop()]
            for (name, value), session in zip(plan.named.items(), told_in, strict=True):
                diary.put(self._days[session], plan.deed, **{name: value})
        # Near misses share one of who, where and when with a question.
        for plan in plans:
            shared, thing = plan.named, None
            if plan.event:
                shared = {name: getattr(plan.event, name) for name in ("who", "where", "when")}
                thing = plan.event.thing
            for name in itertools.islice(itertools.cycle(shared), knobs.distractors):
                diary.put(range(DAYS), plan.deed, thing, **{name: shared[name]})
        for session in range(knobs.sessions):
            self._fill((sessions + others).count(session), self._days[session], diary, rng)
        rng.shuffle(diary.events)
        return plans, sorted(diary.events, key=lambda event: event.when)

    def _plan(self, index: int, k: int, session: int, rng: random.Random) -> _Planned:
        """Return question ``k`` of an episode, which differs from all others of its kind."""
        kind = KINDS[(index + k) % len(KINDS)]
        # The number of the question among all of its kind.
        number = index * math.ceil(self.knobs.most_probes / len(KINDS)) + k // len(KINDS)
        people, days = len(self._people), self._days[session]
        ways = len(self._table["ask"][kind])
        wording, deed = rng.randrange(ways), rng.randrange(len(self._deeds))
        if kind == "where":
            # There are few pairs of a person and a day, so each is asked in every wording.
            total = people * len(days) * ways
            drawn = self.names.shuffled(f"who {session}", number, total)
            who, rest = divmod(drawn, len(days) * ways)
            at, wording = divmod(rest, ways)
            named = {"when": days[at], "who": who}
        elif kind == "who":
            total = self._towns * len(days)
            where, at = divmod(self.names.shuffled(f"where {session}", number, total), len(days))
            named = {"when": days[at], "where": where}
        else:
            number = 2 * number + (kind == "when")
            drawn = self.names.shuffled("who where", number, people * self._towns)
            who, where = divmod(drawn, self._towns)
            named = {"who": who, "where": where}
        return _Planned(kind, wording, named, deed, session)

    def _answerable(self, turn: int) -> bool:
        """Return whether a question has an answer; the share is the same for each kind."""
        share = self.knobs.unanswerable
        number, kind = divmod(turn, len(KINDS))
        shift = kind / len(KINDS)
        return math.floor((number + 1) * share + shift) == math.floor(number * share + shift)

    def _fill(self, count: int, days: range, diary: _Diary, rng: random.Random) -> None:
        """Draw events that no question is about."""
        total = len(self._people) * len(days)
        # Without repetition, because of many facts most people have events on most days.
        enough = count + len(diary.events) + MOST_PROBES
        for drawn in rng.sample(range(total), min(total, enough)):
            if not count:
                break
            who, at = divmod(drawn, len(days))
            pair = {"who": who, "when": days[at]}
            if diary.keep(**pair):
                diary.put(days, **pair)
                count -= 1

    def _probe(self, plan: _Planned, needs: tuple[int, ...], marked: bool) -> Probe:
        numbers = {"when": 0, "who": 0, "where": 0, **plan.named}
        words = self._words(Event(**numbers, deed=plan.deed, thing=0))
        text, _ = told(self._table["ask"][plan.kind][plan.wording], words)
        golds = tuple(self._table["unknown"])
        if self.knobs.unanswerable:
            text = self._table["unless"].format(question=text, unknown=golds[0])
        if plan.event:
            golds = self._spellings(plan.event)[plan.kind]
        facts = {"answerable": plan.event is not None, "marked": marked}
        return Probe(text, golds, needs, plan.kind, facts)

    def _words(self, event: Event) -> dict[str, str]:
        return {name: spelled[0] for name, spelled in self._spellings(event).items()}

    def _spellings(self, event: Event) -> dict[str, tuple[str, ...]]:
        """Return the spellings of everything about an event, the one in the fact first."""
        deed, town = self._deeds[event.deed], self.names.name("town", event.where)
        thing, *others = deed["things"][event.thing]
        return {
            "when": self._calendar[event.when],
            "who": (self._people[event.who],),
            "where": tuple(form.format(where=town) for form in self._table["places"]),
            # With and without its article.
            "what": (thing, thing.split(" ", 1)[1], *others),
            "did": (deed["did"],),
            "do": (deed["do"],),
        }


# --- Conversations ---------------------------------------------------------------------------

# What can happen to a value: nothing, corrections, or corrections that are taken back. They
# alternate so that neither the first nor the last value is right in two thirds of the cases.
_ORDER = ("plain", "corrected", "retracted", "corrected", "retracted")

ASIDES = ("", "before", "after")
"""Where a value that was never valid is mentioned: nowhere, in the first turn, or in a turn after
all others."""

# The share of values without a question that change.
_CHANGED = 0.25

# The chance that a correction directly follows the turn that it corrects.
_NEXT = 0.5

# The chance that a value belongs to one of the two who talk.
_OWN = 0.5

# After this many tries, any free person and thing are drawn.
_TRIES = 100

# Turns of a day.
_TURNS = 10

_ROWS, _SEATS = 40, "ABCDEF"


@dataclass(eq=False)
class _Utterance:
    """A turn: its text, where its values are, and whether the final value depends on it."""

    text: str
    spans: Spans
    counts: bool


@dataclass
class _Thread:
    """All turns about one thing of one person.

    Attributes
    ----------
    kind, aside
        ``"plain"``, ``"corrected"`` or ``"retracted"``; and one of `ASIDES`.
    runs
        The turns in their order; those in one list follow each other directly.
    golds
        The spellings of the final value.
    """

    owner: str
    thing: str
    speaker: str
    kind: str
    aside: str
    corrections: int = 0
    runs: list[list[_Utterance]] = field(default_factory=list)
    golds: tuple[str, ...] = ()


class Conversations(Episodes):
    """Generates conversations of two people in which values are corrected.

    Each turn is a fact. It tells the value of a thing of the speaker or of another person (a locker
    number, a meeting place, the colour of a jacket), corrects it, or takes corrections back. A
    correction follows the turn that it is about, or names its topic. Values that were never valid
    are mentioned too, so that neither the first nor the last value is usually right.

    Each question names the two who talk. The same two talk again only after some 40,000 episodes.

    Raises
    ------
    ParameterError
        If the language has too few names for the number of facts.
    """

    knobs: Knobs
    section = "episodic"

    def __init__(self, knobs: Knobs, language: Language, seed: str) -> None:
        super().__init__(knobs, language, seed)
        self._table = self.wording["conversation"]
        self._things: dict[str, dict[str, str]] = self._table["things"]

    def episode(self, index: int, probes: int = 1) -> Episode:
        rng = random.Random(f"{self.seed} conversation {index}")
        pair = self._pair(index)
        threads = self._threads(index, pair, rng)
        texts: set[str] = set()
        for thread in threads:
            self._talk(thread, texts, rng)
        # The threads are mixed; the turns of each keep their order.
        timed: list[tuple[float, list[_Utterance]]] = []
        for thread in threads:
            timed += zip(sorted(rng.random() for _ in thread.runs), thread.runs, strict=True)
        turns = [turn for _, run in sorted(timed, key=lambda pair: pair[0]) for turn in run]
        numbers = {turn: number for number, turn in enumerate(turns)}
        needs = [
            tuple(numbers[turn] for run in thread.runs for turn in run if turn.counts)
            for thread in threads[: self.knobs.most_probes]
        ]
        wants = [(index + k) % 2 == 1 for k in range(len(needs))]
        rewarded, pinned = marked(self.knobs, len(turns), [*zip(needs, wants, strict=True)], rng)
        facts = []
        for number, turn in enumerate(turns):
            marks = number in rewarded, number in pinned
            facts.append(Fact(number, turn.text, number // _TURNS, turn.spans, 0, *marks))
        ways = [rng.choice(self._table["ask"]) for _ in needs]
        questions = []
        for thread, way, need in zip(threads, ways, needs[:probes], strict=False):
            about = {name: getattr(thread, name) for name in ("thing", "corrections", "aside")}
            about["marked"] = not (rewarded | pinned).isdisjoint(need)
            text = way.format(a=pair[0], b=pair[1], topic=self._topic(thread, mine=False))
            questions.append(Probe(text, thread.golds, need, thread.kind, about))
        return Episode(f"conversation-{index}", tuple(facts), tuple(questions))

    def _pair(self, index: int) -> tuple[str, str]:
        """Return the two people who talk in an episode."""
        people = len(self.names.people)
        # Any two are less than half of the circle apart in one direction.
        far = (people - 1) // 2
        first, apart = divmod(self.names.shuffled("pair", index, people * far), far)
        return self.names.people[first], self.names.people[(first + apart + 1) % people]

    def _threads(self, index: int, pair: tuple[str, str], rng: random.Random) -> list[_Thread]:
        """Return the threads of an episode; those with a question come first."""
        threads: dict[tuple[str, str], _Thread] = {}
        things = [*self._things]

        def tell(kind: str, aside: str, owner: str = "", thing: str = "") -> None:
            for _ in range(_TRIES):
                people = pair if rng.random() < _OWN else self.names.people
                item = owner or rng.choice(people), thing or rng.choice(things)
                if item not in threads:
                    break
            while item in threads:
                item = rng.choice(self.names.people), rng.choice(things)
            speaker = item[0] if item[0] in pair else rng.choice(pair)
            threads[item] = _Thread(*item, speaker, kind, aside)

        def change() -> tuple[str, str]:
            if rng.random() < _CHANGED:
                return self._turn(rng.randrange(len(_ORDER) * len(ASIDES)))
            return "plain", ""

        for k in range(self.knobs.most_probes):
            tell(*self._turn(index + k))
        for owner, thing in [*threads]:
            for number in range(self.knobs.distractors):
                one = {"thing": thing} if number % 2 == 0 else {"owner": owner}
                tell(*change(), **one)
        for _ in range(self.knobs.facts - self.knobs.most_probes):
            tell(*change())
        return [*threads.values()]

    def _turn(self, turn: int) -> tuple[str, str]:
        """Return what happens to a value, and where another one is mentioned."""
        if not self.knobs.corrections:
            return "plain", ""
        return _ORDER[turn % len(_ORDER)], ASIDES[turn // len(_ORDER) % len(ASIDES)]

    def _talk(self, thread: _Thread, texts: set[str], rng: random.Random) -> None:
        """Write the turns of a thread; only the first may repeat one of ``texts``."""
        count = 0 if thread.kind == "plain" else rng.randint(1, self.knobs.corrections)
        *values, aside = self._values(self._things[thread.thing]["values"], count + 2, rng)
        words = {"value": values[0][0], "aside": aside[0]}
        key = "say_aside" if thread.aside == "before" else "say"
        thread.runs.append([self._utter(thread, key, words, rng)])
        for old, new in itertools.pairwise(values):
            words = {"value": new[0], "old": old[0]}
            self._follow(thread, "correct", words, texts, rng)
        thread.corrections, thread.golds = count, values[-1]
        if thread.kind == "retracted":
            key = rng.choice(("first", "last"))
            thread.golds = values[0 if key == "first" else -2]
            self._follow(thread, key, {}, texts, rng)
        if thread.aside == "after":
            thread.runs.append([self._utter(thread, "aside", {"aside": aside[0]}, rng)])

    def _follow(
        self, thread: _Thread, key: str, words: dict[str, str], texts: set[str], rng: random.Random
    ) -> None:
        """Add a turn that changes a value, directly after the last one or later."""
        follows = rng.random() < _NEXT
        turn = self._utter(thread, f"{key}_next" if follows else key, words, rng)
        if turn.text in texts:
            # The same words were used for another topic: name the topic.
            turn = self._utter(thread, key, words, rng)
        texts.add(turn.text)
        if not follows:
            thread.runs.append([])
        thread.runs[-1].append(turn)

    def _values(self, form: str, count: int, rng: random.Random) -> list[tuple[str, ...]]:
        """Return different values of a form, each with all its spellings."""
        values = [self._value(form, rng)]
        while len(values) < count:
            value = self._value(form, rng)
            if form[0].isdigit():
                # Numbers that differ in one digit other than the first.
                last = values[-1][0]
                at = rng.randrange(1, len(last))
                value = (f"{last[:at]}{rng.randrange(10)}{last[at + 1 :]}",)
            if value not in values:
                values.append(value)
        return values

    def _value(self, form: str, rng: random.Random) -> tuple[str, ...]:
        if form == "time":
            words = {"hour": rng.randint(6, 22), "minute": f"{rng.randrange(60):02}"}
            return tuple(way.format(**words) for way in self._table["times"])
        if form == "seat":
            return (f"{rng.randint(1, _ROWS)}{rng.choice(_SEATS)}",)
        if form == "town":
            return (self.names.draw("town", rng),)
        if form in self._table["lists"]:
            return tuple(rng.choice(self._table["lists"][form]))
        low, high = form.split("-")
        return (str(rng.randint(int(low), int(high))),)

    def _topic(self, thread: _Thread, mine: bool) -> str:
        """Return the topic of a thread in the words of its owner or of others."""
        table, forms = self._things[thread.thing], self._table["genitive"]
        form = forms["after_s" if thread.owner.endswith("s") else "usual"]
        whose = form.format(name=thread.owner)
        return table["mine"] if mine else table["whose"].format(whose=whose)

    def _utter(
        self, thread: _Thread, key: str, values: dict[str, str], rng: random.Random
    ) -> _Utterance:
        """Return a turn in a random wording of a key."""
        words = {
            "it": self._things[thread.thing]["it"],
            "topic": self._topic(thread, thread.owner == thread.speaker),
        }
        # The same at the beginning of a sentence.
        words |= {name.title(): word[:1].upper() + word[1:] for name, word in words.items()}
        speech, inside = told(rng.choice(self._table[key]), {**words, **values})
        text, spans = told(self._table["turn"], {"speaker": thread.speaker, "said": speech})
        start, _ = spans.pop("said")
        places = {name: (start + a, start + b) for name, (a, b) in inside.items() if name in values}
        return _Utterance(text, spans | places, counts=key != "aside")


def make(knobs: Knobs, language: Language, seed: str) -> Episodes:
    """Return a generator of episodes with some settings."""
    return (Conversations if knobs.conversation else Events)(knobs, language, seed)
