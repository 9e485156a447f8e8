"""Episodes: what is taught, one fact after another, and what is asked about it later.

An episode does not say how it reaches a model: as a long context that holds all of its facts, or
through a memory that was taught them before. `rulerlib.memory.suites` writes sets of them.

>>> fact = Fact(0, "On 3 May Birmund repaired a boat in Smalktorp.", day=2, values={"who": (9, 16)})
>>> fact.value("who")
'Birmund'
>>> probe = Probe("Who repaired a boat?", ("Birmund",), needs=(0,), kind="who")
>>> Episode("a-0", (fact,), (probe,)).needed(probe) == (fact,)
True
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rulerlib.languages import Language


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is taught.

    Attributes
    ----------
    number
        Its place in the episode, from 0.
    text
        The sentence, or the turn of a conversation, that tells it.
    day
        When it took place or was told, in days from the beginning of the episode.
    values
        Characters [start, end) of ``text`` that hold what it says, by name: ``"who"``.
    session
        In which session it is taught, from 0.
    rewarded, pinned
        What is signalled beside the text: that it paid to know such a thing, and that somebody
        asked for it to be kept.
    follows
        Whether it speaks of the fact before it without naming it ("No, it is 12."), so that
        nothing may stand between the two. A set on disk does not say so.
    """

    number: int
    text: str
    day: int
    values: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    session: int = 0
    rewarded: bool = False
    pinned: bool = False
    follows: bool = field(default=False, compare=False)

    def value(self, name: str) -> str:
        """Return what the fact says under a name of ``values``.

        Raises
        ------
        KeyError
            If it has no such value.
        """
        return self.text[slice(*self.values[name])]


@dataclass(frozen=True, slots=True)
class Probe:
    """One question that is asked when all was taught.

    Attributes
    ----------
    text
        The question. Whoever knows the facts of ``needs`` can answer it.
    golds
        The accepted answers, the first one as the facts write it.
    needs
        The numbers of the facts that the answer follows from, in the order of reasoning; none
        where the right answer is that it cannot be known.
    kind
        What is asked: ``"who"``.
    facts
        What else is known of the question, as plain data by name.
    """

    text: str
    golds: tuple[str, ...]
    needs: tuple[int, ...]
    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Episode:
    """What is taught, in order, and what is asked.

    Attributes
    ----------
    id
        Its name, unique among all episodes of a language, a seed and a setting of knobs.
    facts
        What is taught, by rising number and session.
    probes
        The questions, each of which can be asked alone.
    """

    id: str
    facts: tuple[Fact, ...]
    probes: tuple[Probe, ...]

    def needed(self, probe: Probe) -> tuple[Fact, ...]:
        """Return the facts that the answer to a question follows from."""
        return tuple(self.facts[number] for number in probe.needs)


class Episodes(ABC):
    """Makes the episodes of one setting of a suite's knobs, each from its index alone.

    Parameters
    ----------
    knobs
        An instance of the suite's frozen dataclass of settings, which says as ``most_probes`` how
        many questions an episode can be asked.
    language
        In which language the episodes are told.
    seed
        A text; another seed makes other episodes.
    """

    def __init__(self, knobs: Any, language: Language, seed: str) -> None:
        self.knobs, self.language, self.seed = knobs, language, seed

    @property
    def most_probes(self) -> int:
        """How many questions one episode can be asked."""
        most: int = self.knobs.most_probes
        return most

    @property
    def limit(self) -> int | None:
        """How many episodes there are; None: as many as are asked for."""
        return None

    @abstractmethod
    def episode(self, index: int, probes: int = 1) -> Episode:
        """Return the episode of an index, with its first ``probes`` questions.

        The facts do not depend on the number of questions, and no question of another index or
        place has the same text and another answer.

        Raises
        ------
        DataError
            If the language has no wording for it.
        """
