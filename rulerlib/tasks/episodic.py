"""Episodic memory: what somebody did when and where, and what somebody said in the end.

An example (Danish)::

    I Stegnehavn lånte Laurik en økse den 19. marts.
    Det var i Kvultehavn, at Ulrun lånte en spade den 21. august.
    Det var i Tvarneby, at Eirik solgte en seng den 22. september.

    Hvad var det, Ulrun lånte i Kvultehavn?        golds: ["en spade", "spade", "spaden"]

====================  =============================================================================
suite                 what it adds
====================  =============================================================================
episodic              events: who, what, where and when are asked for in turn
episodic_cross        sessions: what was told before the last one is asked for, and some was never
episodic_capacity     more facts than a prompt has room for
episodic_multi        a conversation: what two people tell each other is corrected and taken back
====================  =============================================================================

Some facts are marked: that it paid to know such a thing (``rewarded``), or that somebody asked for
it to be kept (``pinned``). Half of the questions are about marked facts, as long as an episode has
marked ones that were not asked about, though fewer facts than that are marked.

>>> from rulerlib.languages import load
>>> episode = make(Knobs(facts=3), load("da"), "1").episode(0, probes=2)
>>> probe = episode.probes[1]
>>> probe.kind, probe.golds
('what', ('en spade', 'spade', 'spaden'))
>>> episode.needed(probe)[0].text
'Den 21. august lånte Ulrun en spade i Kvultehavn.'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rulerlib.errors import flag, is_number, require, whole_number
from rulerlib.languages import Language
from rulerlib.tasks.episodes import Episodes
from rulerlib.tasks.episodic_conversations import Conversations
from rulerlib.tasks.episodic_events import Events

MOST_FACTS = 100_000


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
    def asked_about(self) -> int:
        """How many facts may be asked about: all, or those of the sessions before the last."""
        if self.sessions == 1:
            return self.facts
        # The first fact of the last session.
        return -(-self.facts * (self.sessions - 1) // self.sessions)


def _share(name: str, value: Any, most: float) -> None:
    require(is_number(value) and 0 <= value <= most, name, value, f"a number from 0 to {most}")


SUITES = {
    "episodic": Knobs(),
    "episodic_cross": Knobs(sessions=3, unanswerable=0.08),
    "episodic_capacity": Knobs(facts=100, context_budget=256),
    "episodic_multi": Knobs(facts=4, distractors=8, conversation=True, corrections=2),
}
"""The knobs of the suites by name."""


def make(knobs: Knobs, language: Language, seed: str) -> Episodes:
    """Return what makes the episodes of a setting of the knobs.

    Raises
    ------
    ParameterError
        If the language has too few names for the number of facts: says how many it has for.
    DataError
        If it has no wording, or a damaged one.
    """
    maker = Conversations if knobs.conversation else Events
    return maker(knobs, language, seed)
