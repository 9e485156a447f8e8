"""Episodes: what is taught, one fact after another, and what is asked about it later.

An episode does not say how it reaches a model: as a long context that holds all of its facts, or
through a memory that was taught them before. `rulerlib.memory.suites` makes them.

>>> fact = Fact(0, "On 3 May Birmund repaired a boat in Smalktorp.", day=2, values={"who": (9, 16)})
>>> fact.value("who")
'Birmund'
>>> probe = Probe("Who repaired a boat?", ("Birmund",), needs=(0,), kind="who")
>>> Episode("a-0", (fact,), (probe,)).needed(probe) == (fact,)
True
"""

from __future__ import annotations

import functools
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rulerlib.errors import LARGEST, whole_number
from rulerlib.languages import Language, names, slots
from rulerlib.texts import digest


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
    """

    number: int
    text: str
    day: int
    values: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    session: int = 0
    rewarded: bool = False
    pinned: bool = False

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

    Attributes
    ----------
    section
        The section of a pack in which the episodes are worded.
    names, wording
        The names that occur in them, and that section of the language.
    """

    section: str

    def __init__(self, knobs: Any, language: Language, seed: str) -> None:
        self.knobs, self.language, self.seed = knobs, language, seed
        self.names, self.wording = Names(language, seed), slots.section(language, self.section)

    @property
    def most_probes(self) -> int:
        """How many questions one episode can be asked."""
        most: int = self.knobs.most_probes
        return most

    @property
    def limit(self) -> int | None:
        """How many episodes there are; None: as many as are asked for."""
        return None

    def episode(self, index: int, probes: int = 1) -> Episode:
        """Return the episode of an index, with its first ``probes`` questions.

        The facts do not depend on the number of questions, and no question of another index or
        place has the same text and another answer.

        Raises
        ------
        ParameterError
            If there is no such episode, or fewer questions.
        """
        last = LARGEST if self.limit is None else self.limit - 1
        whole_number("index", index, 0, last)
        whole_number("probes", probes, 0, self.most_probes)
        return self._episode(index, probes)

    @abstractmethod
    def _episode(self, index: int, probes: int) -> Episode:
        """Return an episode of checked arguments."""


Spans = dict[str, tuple[int, int]]

_SLOT = re.compile(r"\{(\w+)\}")


def told(template: str, words: Mapping[str, str]) -> tuple[str, Spans]:
    """Return a sentence, and for each word in it the characters [start, end) where it stands.

    >>> told("{b} teaches {a}.", {"a": "Halwen", "b": "Corwin"})
    ('Corwin teaches Halwen.', {'b': (0, 6), 'a': (15, 21)})
    """
    text, *pieces = _SLOT.split(template)
    spans = Spans()
    for name, rest in zip(pieces[::2], pieces[1::2], strict=True):
        spans[name] = len(text), len(text) + len(words[name])
        text += words[name] + rest
    return text, spans


def fingerprint(language: Language, section: str) -> str:
    """Return a short hash of the sentences and names that a section's episodes are told with."""
    tables = language.section("names")
    sentences = language.section(section), language.articles
    return digest([repr(sentences), repr(tables["names"]), repr(tables["format"])])


class Names(names.Names):
    """The names of people, towns, ships and rivers in a language; no two are equal.

    ``seed`` decides their order.
    """

    def __init__(self, language: Language, seed: str) -> None:
        super().__init__(
            language, int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
        )
        self.people = _people(language)

    def count(self, kind: str) -> int:
        """Return how many names there are of a kind."""
        return len(self.people) if kind == "person" else self.num_words(kind)

    def name(self, kind: str, number: int) -> str:
        """Return a name; two numbers below `count` have different names."""
        if kind == "person":
            return self.people[self.shuffled(kind, number, len(self.people))]
        return self.word(kind, number)

    def draw(self, kind: str, rng: Random) -> str:
        """Return a name at random."""
        return self.name(kind, rng.randrange(self.count(kind)))


@functools.cache
def _people(language: Language) -> tuple[str, ...]:
    """Return all first names of a language but those that hide in another, as Alton in Halton."""
    first = language.section("names")["names"]["first"]
    people = {
        start + end: (start + end).casefold()
        for table in first.values()
        for start in table["starts"]
        for end in table["ends"]
    }
    together = " ".join(people.values())
    return tuple(name for name, folded in people.items() if together.count(folded) == 1)
