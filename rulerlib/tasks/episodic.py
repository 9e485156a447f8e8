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

from rulerlib.languages import Language
from rulerlib.tasks import taught
from rulerlib.tasks.episodes import Episodes
from rulerlib.tasks.episodic_base import Knobs
from rulerlib.tasks.episodic_conversations import Conversations
from rulerlib.tasks.episodic_events import Events

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


@dataclass(frozen=True)
class InContext(taught.Among, Knobs):
    """What can be set where an episode is taught in the context: `Knobs`, and the haystack."""


FAMILY = taught.family(
    "episodic",
    make,
    {
        "episodic": InContext(),
        "episodic_cross": InContext(sessions=3, unanswerable=0.08),
        "episodic_multi": InContext(facts=4, distractors=8, conversation=True, corrections=2),
    },
)
"""Three of the suites; why not the fourth, `rulerlib.tasks.taught` says."""
