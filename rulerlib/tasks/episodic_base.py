"""What the episodic suites share: names, their wording, and which facts are marked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulerlib.errors import DataError
from rulerlib.languages import Language
from rulerlib.tasks.episodes import Episodes
from rulerlib.tasks.telling import Names, checked

if TYPE_CHECKING:
    from rulerlib.tasks.episodic import Knobs

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
