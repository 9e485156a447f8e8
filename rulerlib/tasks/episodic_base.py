"""What the episodic suites share: knobs, names, their wording, and which facts are marked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rulerlib.errors import DataError, flag, is_number, require, whole_number
from rulerlib.languages import Language
from rulerlib.tasks.episodes import Episodes
from rulerlib.tasks.telling import Names, checked

MOST_FACTS = 100_000

# An episode is asked this many questions at most: from there on another one is cheaper.
MOST_PROBES = 20

_WANTED = {
    "events.say": "when who did what where",
    "events.unless": "question unknown",
    "events.unknown": "",
    "events.ask.who": "where when",
    "events.ask.what": "who where did/do",
    "events.ask.where": "who when",
    "events.ask.when": "who where",
    "events.places": "where",
    "events.days": "month day/nth",
    "conversation.turn": "speaker said",
    "conversation.genitive.usual": "name",
    "conversation.genitive.after_s": "name",
    "conversation.times": "hour minute",
    "conversation.ask": "a b topic",
    "conversation.say": "topic/Topic value",
    "conversation.say_aside": "topic/Topic value aside",
    "conversation.aside": "topic/Topic aside",
    "conversation.correct_next": "value it/It/-",
    "conversation.first_next": "",
    "conversation.last_next": "",
    "conversation.correct": "topic/Topic value it/It/- old/-",
    "conversation.first": "topic/Topic",
    "conversation.last": "topic/Topic",
}


@dataclass(frozen=True)
class Knobs:
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

    Raises
    ------
    ParameterError
        If a value cannot work, alone or with the others: says what is allowed.
    """

    facts: int = 20
    distractors: int = 0
    reward_share: float = 0.3
    pin_share: float = 0.1
    conversation: bool = False
    corrections: int = 0
    sessions: int = 1
    unanswerable: float = 0.0
    context_budget: int | None = None

    def __post_init__(self) -> None:
        whole_number("facts", self.facts, 1, MOST_FACTS)
        whole_number("distractors", self.distractors, 0, 40)
        _share("reward_share", self.reward_share, 1)
        _share("pin_share", self.pin_share, 1)
        _share("unanswerable", self.unanswerable, 0.5)
        flag("conversation", self.conversation)
        whole_number("corrections", self.corrections, 0, 5)
        whole_number("sessions", self.sessions, 1, 12)
        if self.context_budget is not None:
            whole_number("context_budget", self.context_budget, 64)
        if self.conversation:
            allowed = "1, for a conversation is held in one session"
            require(self.sessions == 1, "sessions", self.sessions, allowed)
            allowed = "0, for a conversation is asked about what was said"
            require(not self.unanswerable, "unanswerable", self.unanswerable, allowed)
        else:
            allowed = "0, for only what is said in a conversation is corrected"
            require(not self.corrections, "corrections", self.corrections, allowed)
        allowed = f"at most the number of facts ({self.facts})"
        require(self.sessions <= self.facts, "sessions", self.sessions, allowed)
        allowed = "0, for only one fact can be asked about"
        known = self.asked_about > 1 or not self.unanswerable
        require(known, "unanswerable", self.unanswerable, allowed)

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


def _share(name: str, value: Any, most: float) -> None:
    require(is_number(value) and 0 <= value <= most, name, value, f"a number from 0 to {most}")


class Episodic(Episodes):
    """Episodes about people and towns with invented names, in which some facts are marked.

    Raises
    ------
    DataError
        If the language has no ``episodic.toml`` or ``encyclopedia.toml``, or a damaged one.

    Attributes
    ----------
    names
        The names of people and towns.
    wording
        The tables of ``episodic.toml``.
    """

    knobs: Knobs

    def __init__(self, knobs: Knobs, language: Language, seed: str) -> None:
        super().__init__(knobs, language, seed)
        self.names = Names(language, seed)
        self.wording = checked(language, "episodic", _WANTED)
        try:
            deeds = self.wording["events"]["deeds"].values()
            whole = all(deed["did"] and deed["do"] and len(deed["things"]) > 1 for deed in deeds)
            things = self.wording["conversation"]["things"].values()
            whole &= all(each["it"] and each["mine"] and each["values"] for each in things)
            whole &= all("{whose}" in each["whose"] for each in things)
        except (AttributeError, KeyError, TypeError):
            whole = False
        if not whole:
            file = language.folder / "episodic.toml"
            raise DataError(f"{file}: a deed of [events] or a thing of [conversation] lacks words.")

    def marked(
        self, total: int, asked: Sequence[tuple[Sequence[int], bool]], rng: random.Random
    ) -> tuple[set[int], set[int]]:
        """Return the numbers of the facts that are rewarded, and of those that are pinned.

        Both are the share of all facts that the knobs set, exact to rounding, and no fact is both
        unless the shares are more than all. Beside what is asked about they fall at random.

        Parameters
        ----------
        total
            How many facts there are.
        asked
            For each question, in their order, the facts that it needs, and whether one of these
            should be marked: that holds as long as there are enough marks, and enough other facts.
        """
        front = [rng.choice(facts) for facts, mark in asked if mark and facts]
        back = [fact for facts, mark in reversed(asked) if not mark for fact in facts]
        settled = {*front, *back}
        rest = [number for number in range(total) if number not in settled]
        rng.shuffle(rest)
        rewarded, pinned = (
            round(share * total) for share in (self.knobs.reward_share, self.knobs.pin_share)
        )
        chosen = [*front, *rest, *back][: rewarded + pinned]
        rng.shuffle(chosen)
        return {*chosen[:rewarded]}, {*chosen[len(chosen) - pinned :]}
