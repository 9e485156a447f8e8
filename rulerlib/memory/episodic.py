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

>>> from rulerlib.languages import load
>>> episode = make(Knobs(facts=3), load("da"), "1").episode(0, probes=2)
>>> probe = episode.probes[1]
>>> probe.kind, probe.golds
('what', ('en spade', 'spade', 'spaden'))
>>> episode.needed(probe)[0].text
'Den 21. august lånte Ulrun en spade i Kvultehavn.'
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rulerlib.errors import require
from rulerlib.languages import Language
from rulerlib.memory.episodes import Episode, Episodes, Fact, Probe, Spans, told
from rulerlib.memory.episodic_events import Episodic, Events, Knobs

CHANGES = ("plain", "corrected", "retracted")
"""What can happen to a value: nothing, corrections, or corrections that are taken back."""

# They alternate so that neither the first nor the last value is right in two thirds of the cases.
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


@dataclass
class _Utterance:
    """A turn: its text, where its values are, and whether the final value depends on it."""

    text: str
    spans: Spans
    counts: bool = True


@dataclass
class _Thread:
    """All turns about one thing of one person.

    Attributes
    ----------
    kind, aside
        From `CHANGES` and `ASIDES`.
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

    def add(self, turn: _Utterance, follows: bool) -> None:
        """Add a turn, directly after the one before it or later."""
        if follows:
            self.runs[-1].append(turn)
        else:
            self.runs.append([turn])


class Conversations(Episodic):
    """Generates conversations of two people in which values are corrected.

    Each turn is a fact. It tells the value of a thing of the speaker or of somebody else (a locker
    number, a meeting place, the colour of a jacket), corrects it, or takes corrections back. A
    correction follows the turn that it is about, or names its topic. Values that were never valid
    are mentioned too, so that neither the first nor the last value is usually right.

    Each question names the two who talk. The same two talk again only after some 40,000 episodes.

    Raises
    ------
    ParameterError
        If the language has too few names for the number of facts.
    """

    def __init__(self, knobs: Knobs, language: Language, seed: str) -> None:
        super().__init__(knobs, language, seed)
        self._table = self.wording["conversation"]
        self._things: dict[str, dict[str, str]] = self._table["things"]
        # Half of all things, so that a free one is found quickly.
        half = len(self.names.people) * len(self._things) // 2
        room = half - self.most_probes * knobs.distractors
        allowed = f"at most {max(0, room)} in a conversation in this language"
        require(knobs.facts <= room, "facts", knobs.facts, allowed)

    def _episode(self, index: int, probes: int) -> Episode:
        rng = random.Random(f"{self.seed} conversation {index}")
        pair = self._pair(index)
        threads = self._threads(index, pair, rng)
        texts: set[str] = set()
        for thread in threads:
            self._talk(thread, texts, rng)
        turns = _mixed(threads, rng)
        numbers = {id(turn): number for number, turn in enumerate(turns)}
        needs = [
            tuple(numbers[id(turn)] for run in thread.runs for turn in run if turn.counts)
            for thread in threads[: self.most_probes]
        ]
        wants = [(index + k) % 2 == 1 for k in range(len(needs))]
        rewarded, pinned = self.marked(len(turns), [*zip(needs, wants, strict=True)], rng)
        facts = []
        for number, turn in enumerate(turns):
            marks = number in rewarded, number in pinned
            facts.append(Fact(number, turn.text, number // _TURNS, turn.spans, 0, *marks))
        ways = [rng.choice(self._table["ask"]) for _ in needs]
        questions = [
            self._probe(thread, pair, way, need, not (rewarded | pinned).isdisjoint(need))
            for thread, way, need in zip(threads, ways, needs[:probes], strict=False)
        ]
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

        def tell(kind: str, aside: str, owner: str = "", thing: str = "") -> None:
            item = self._item(threads, pair, rng, owner, thing)
            speaker = item[0] if item[0] in pair else rng.choice(pair)
            threads[item] = _Thread(*item, speaker, kind, aside)

        for k in range(self.most_probes):
            tell(*self._turn(index + k))
        questions = [*threads]
        for owner, thing in questions:
            for number in range(self.knobs.distractors):
                one = {"thing": thing} if number % 2 == 0 else {"owner": owner}
                tell(*self._change(rng), **one)
        for _ in range(self.knobs.facts - self.most_probes):
            tell(*self._change(rng))
        return [*threads.values()]

    def _item(
        self,
        taken: Mapping[tuple[str, str], _Thread],
        pair: tuple[str, str],
        rng: random.Random,
        owner: str,
        thing: str,
    ) -> tuple[str, str]:
        """Return a free person and thing: with the given ones, if such a pair is left."""
        things = [*self._things]
        for _ in range(_TRIES):
            people = pair if rng.random() < _OWN else self.names.people
            item = owner or rng.choice(people), thing or rng.choice(things)
            if item not in taken:
                return item
        while item in taken:
            item = rng.choice(self.names.people), rng.choice(things)
        return item

    def _turn(self, turn: int) -> tuple[str, str]:
        """Return what happens to the value that a question is about."""
        if not self.knobs.corrections:
            return CHANGES[0], ASIDES[0]
        return _ORDER[turn % len(_ORDER)], ASIDES[turn // len(_ORDER) % len(ASIDES)]

    def _change(self, rng: random.Random) -> tuple[str, str]:
        """Return what happens to a value that no question is about."""
        if rng.random() < _CHANGED:
            return self._turn(rng.randrange(len(_ORDER) * len(ASIDES)))
        return CHANGES[0], ASIDES[0]

    def _talk(self, thread: _Thread, texts: set[str], rng: random.Random) -> None:
        """Write the turns of a thread; only the first may repeat one of ``texts``."""
        count = 0 if thread.kind == "plain" else rng.randint(1, self.knobs.corrections)
        *values, aside = self._values(self._things[thread.thing]["values"], count + 2, rng)
        words = {"value": values[0][0], "aside": aside[0]}
        key = "say_aside" if thread.aside == "before" else "say"
        thread.runs.append([self._utter(thread, key, words, rng)])

        def follow(key: str, words: dict[str, str]) -> None:
            follows = rng.random() < _NEXT
            turn = self._utter(thread, f"{key}_next" if follows else key, words, rng)
            if turn.text in texts:
                # The same words were used for another topic: name the topic.
                turn = self._utter(thread, key, words, rng)
            texts.add(turn.text)
            thread.add(turn, follows)

        for old, new in itertools.pairwise(values):
            follow("correct", {"value": new[0], "old": old[0]})
        thread.corrections, thread.golds = count, values[-1]
        if thread.kind == "retracted":
            key = rng.choice(("first", "last"))
            thread.golds = values[0 if key == "first" else -2]
            follow(key, {})
        if thread.aside == "after":
            turn = self._utter(thread, "aside", {"aside": aside[0]}, rng)
            thread.add(dataclasses.replace(turn, counts=False), follows=False)

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
            words = {"hour": str(rng.randint(6, 22)), "minute": f"{rng.randrange(60):02}"}
            return tuple(told(way, words)[0] for way in self._table["times"])
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
        if mine:
            return table["mine"]
        form = forms["after_s" if thread.owner.endswith("s") else "usual"]
        return told(table["whose"], {"whose": told(form, {"name": thread.owner})[0]})[0]

    def _utter(
        self, thread: _Thread, key: str, values: dict[str, str], rng: random.Random
    ) -> _Utterance:
        """Return a turn in a random wording of a key."""
        topic = self._topic(thread, thread.owner == thread.speaker)
        words = {"it": self._things[thread.thing]["it"], "topic": topic, **values}
        words |= {"It": _capital(words["it"]), "Topic": _capital(topic)}
        speech, inside = told(rng.choice(self._table[key]), words)
        text, spans = told(self._table["turn"], {"speaker": thread.speaker, "said": speech})
        start, _ = spans.pop("said")
        places = {name: (start + a, start + b) for name, (a, b) in inside.items() if name in values}
        return _Utterance(text, spans | places)

    def _probe(
        self,
        thread: _Thread,
        pair: tuple[str, str],
        template: str,
        needs: tuple[int, ...],
        marked: bool,
    ) -> Probe:
        words = {"a": pair[0], "b": pair[1], "topic": self._topic(thread, mine=False)}
        facts = {
            "thing": thread.thing,
            "corrections": thread.corrections,
            "aside": thread.aside,
            "marked": marked,
        }
        return Probe(told(template, words)[0], thread.golds, needs, thread.kind, facts)


def _mixed(threads: Sequence[_Thread], rng: random.Random) -> list[_Utterance]:
    """Return all turns of a conversation; those of a thread keep their order."""
    timed: list[tuple[float, list[_Utterance]]] = []
    for thread in threads:
        times = sorted(rng.random() for _ in thread.runs)
        timed += zip(times, thread.runs, strict=True)
    timed.sort(key=lambda pair: pair[0])
    return [turn for _, run in timed for turn in run]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


SUITES = {
    "episodic": Knobs(),
    "episodic_cross": Knobs(sessions=3, unanswerable=0.08),
    "episodic_capacity": Knobs(facts=100, context_budget=256),
    "episodic_multi": Knobs(facts=4, distractors=8, conversation=True, corrections=2),
}
"""The knobs of the suites by name."""


def make(knobs: Knobs, language: Language, seed: str) -> Episodes:
    """Return a generator of episodes with some settings."""
    return (Conversations if knobs.conversation else Events)(knobs, language, seed)
