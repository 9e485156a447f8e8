"""Episodes: facts that are taught one after another, and questions about them.

The facts of an episode reach a model in a long context, or through a memory that was taught them.
`rulerlib.memory.suites` generates episodes.

>>> fact = Fact(0, "On 3 May Birmund repaired a boat in Smalktorp.", day=2, values={"who": (9, 16)})
>>> fact.value("who")
'Birmund'
>>> probe = Probe("Who repaired a boat?", ("Birmund",), needs=(0,), kind="who")
>>> Episode("a-0", (fact,), (probe,)).needed(probe) == (fact,)
True
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rulerlib.languages import Language, names, pieces_of


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that is taught.

    Attributes
    ----------
    number
        Its position in the episode, from 0.
    text
        The sentence, or the turn of a conversation, that tells it.
    day
        When it happened, in days from the beginning of the episode.
    values
        Where its values are, as characters [start, end) of ``text``, by name: ``"who"``.
    session
        The session in which it is taught, from 0.
    rewarded, pinned
        Whether knowing it was rewarded, and whether the user asked for it to be kept.
    """

    number: int
    text: str
    day: int
    values: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    session: int = 0
    rewarded: bool = False
    pinned: bool = False

    def value(self, name: str) -> str:
        """Return a value of the fact by its name.

        Raises
        ------
        KeyError
            If it has no such value.
        """
        return self.text[slice(*self.values[name])]


@dataclass(frozen=True, slots=True)
class Probe:
    """A question that is asked after all facts were taught.

    Attributes
    ----------
    text
        The question, which can be answered with the facts in ``needs``.
    golds
        The accepted answers; the first one is spelled as in the facts.
    needs
        The numbers of the facts that the answer follows from, in the order of reasoning; empty if
        the right answer is "unknown".
    kind
        What it asks for: ``"who"``.
    facts
        Other properties of the question as plain data by name.
    """

    text: str
    golds: tuple[str, ...]
    needs: tuple[int, ...]
    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Episode:
    """The facts in their order, and the questions.

    Attributes
    ----------
    id
        Its name, unique among the episodes with the same language, seed and settings.
    facts
        The facts, by rising number and session.
    probes
        The questions, which do not depend on each other.
    """

    id: str
    facts: tuple[Fact, ...]
    probes: tuple[Probe, ...]

    def needed(self, probe: Probe) -> tuple[Fact, ...]:
        """Return the facts that the answer to a question follows from."""
        return tuple(self.facts[number] for number in probe.needs)


class Episodes(ABC):
    """Generates episodes with the same settings, each from its index alone.

    Parameters
    ----------
    knobs
        The settings of the suite, with ``most_probes``, the maximum number of questions about an
        episode.
    language
        The language of the episodes.
    seed
        A text; another seed gives other episodes.

    Attributes
    ----------
    section
        The section of a language pack with the wording of the episodes.
    names, wording
        The names in the episodes, and the section of the language pack.
    """

    section: str

    def __init__(self, knobs: Any, language: Language, seed: str) -> None:
        self.knobs, self.language, self.seed = knobs, language, seed
        self.names, self.wording = Names(language, seed), language.section(self.section)

    @abstractmethod
    def episode(self, index: int, probes: int = 1) -> Episode:
        """Return the episode of an index, with its first ``probes`` questions.

        The facts do not depend on the number of questions. No two questions have the same text and
        different answers.
        """


Spans = dict[str, tuple[int, int]]


def told(template: str, words: Mapping[str, str]) -> tuple[str, Spans]:
    """Return a sentence, and the characters [start, end) of each word that was inserted.

    >>> told("{b} teaches {a}.", {"a": "Halwen", "b": "Corwin"})
    ('Corwin teaches Halwen.', {'b': (0, 6), 'a': (15, 21)})
    """
    text, *pieces = pieces_of(template)
    spans = Spans()
    for name, rest in zip(pieces[::2], pieces[1::2], strict=True):
        spans[name] = len(text), len(text) + len(words[name])
        text += words[name] + rest
    return text, spans


class Names(names.Names):
    """The names of people, towns, ships and rivers in a language, in an order set by the seed."""

    def __init__(self, language: Language, seed: str) -> None:
        super().__init__(
            language, int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
        )
        whole = (
            start + end
            for table in self.parts["first"].values()
            for start in table["starts"]
            for end in table["ends"]
        )
        # All first names except those within another, as Alton in Halton.
        people = {name: name.casefold() for name in whole}
        together = " ".join(people.values())
        self.people: list[str] = [
            name for name, folded in people.items() if together.count(folded) == 1
        ]

    def count(self, kind: str) -> int:
        """Return the number of names of a kind."""
        return len(self.people) if kind == "person" else self.num_words(kind)

    def name(self, kind: str, number: int) -> str:
        """Return the name with a number below `count`; different numbers have different names."""
        if kind == "person":
            return self.people[self.shuffled(kind, number, len(self.people))]
        return self.word(kind, number)

    def draw(self, kind: str, rng: Random) -> str:
        """Return a random name."""
        return self.name(kind, rng.randrange(self.count(kind)))
