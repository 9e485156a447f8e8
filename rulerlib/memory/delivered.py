"""What was delivered: which facts a recalled text tells, read off the text alone.

A system may claim that a text comes from any fact. Here only the text counts: a fact is delivered
where it stands in it as it was taught, where the grammar of the suites reads the same in it, or
where a sentence of other words has the values of the fact that the question needs. A sentence that
has the names of the question and the answer, such as a planned way, delivers all that is needed.

>>> from rulerlib import languages
>>> from rulerlib.memory.suites import Recipe
>>> episode = Recipe("episodic", 1, 7, "en").first
>>> needs = Needs(episode, episode.probes[0], languages.load("en"))
>>> [(fact.number, fact.text) for fact in needs.facts]
[(18, 'In Trermingwick, Mermund built a tower on 15 November.')]
>>> needs.told_by("Mermund was seen in Trermingwick (15 November).")
{18}
>>> needs.told_by("Mermund built a tower."), needs.told_by("Mermund"), needs.bare("It was Mermund.")
(set(), set(), True)
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rulerlib.languages import Language
from rulerlib.memory.episodes import Episode, Fact, Probe
from rulerlib.memory.prompting import leak
from rulerlib.memory.reading import facts_in
from rulerlib.memory.sentences import ReadFact, Turn, reader

# Where a sentence ends; a day such as "3. maj" goes on in small letters.
_END = re.compile(r"\n|(?<=[.!?])\s+(?=[^\W\d_a-zæøå])")

# What is longer lists more than one fact.
_LONGEST = 300

# Values that tell who speaks or walks, which a question does not need, and what held before.
_ASIDE = ("speaker", "old")


class Needs:
    """The facts that a question needs, as they can be told in a text.

    Attributes
    ----------
    facts
        The facts.
    taught
        All texts of the episode.
    """

    def __init__(self, episode: Episode, probe: Probe, language: Language) -> None:
        self.facts, self.taught = episode.needed(probe), {fact.text for fact in episode.facts}
        self._episode, self._golds, self._language = episode, probe.golds, language
        self._reader = reader(language)
        talk = self._reader.talk(probe.text)
        owner = [talk.topic[0]] if talk and talk.topic else []
        # Which town it is about, a plan does not say.
        self._names = owner or sorted({
            value for fact in self.facts for name, value in _values(fact).items()
            if name != "town" and value in probe.text
        })  # fmt: skip
        around = [probe.text, *probe.golds]
        self._words = dict[int, list[str]]()
        for fact in self.facts:
            others = [*around, *(other.text for other in self.facts if other is not fact)]
            values = [*_values(fact).values()]
            values += owner if values else []
            needed = [value for value in values if any(value in text for text in others)]
            # Of what says no value only the text itself will do.
            self._words[fact.number] = (needed if len(needed) > 1 else values) or [fact.text]

    def told_by(self, text: str) -> set[int]:
        """Return the numbers of the needed facts that a text tells."""
        whole = text in self.taught
        meanings = facts_in(text, self._meaning) if not whole else [self._meaning(text) or text]
        numbers = {
            fact.number for fact in self.facts
            if leak(text, [fact.text]) or self._meaning(fact.text) in meanings
        }  # fmt: skip
        for line in () if whole else _END.split(text):
            if len(line) > _LONGEST or line in self.taught or self._meaning(line) is not None:
                continue
            if self._names and self._holds(line, self._names) and self._answers(line):
                return {fact.number for fact in self.facts}
            numbers |= {number for number in self._words if self._holds(line, self._words[number])}
        return numbers

    def bare(self, text: str) -> bool:
        """Return whether a text that was not taught has an answer, and no other taught value."""
        if text in self.taught or not self.facts or not self._answers(text):
            return False
        values = {value for fact in self._episode.facts for value in _values(fact).values()}
        return not any(self._holds(text, [value]) for value in values - {*self._golds})

    def _answers(self, text: str) -> bool:
        return any(self._holds(text, [gold]) for gold in self._golds)

    def _holds(self, text: str, words: Iterable[str]) -> bool:
        """Return whether a text has some words, whatever their articles and their genitive."""
        articles = "|".join(map(re.escape, self._language.articles))
        for word in words:
            core = re.escape(re.sub(rf"^(?:{articles})\s+", "", word.casefold()))
            if not re.search(rf"(?<!\w){core}(?:['’]?s|['’])?(?!\w)", text.casefold()):
                return False
        return True

    def _meaning(self, text: str) -> ReadFact | Turn | None:
        """Return what the grammar reads in a text; who walked a step does not matter."""
        read = self._reader.fact(text)
        if read is None:
            return self._reader.turn(text)
        values = {**read.values, "who": ""} if read.kind == "step" else read.values
        return read._replace(values=values)


def _values(fact: Fact) -> dict[str, str]:
    """Return what a fact says that a question may need, by name."""
    left_out = (*_ASIDE, "who") if "direction" in fact.values else _ASIDE
    return {name: fact.value(name) for name in fact.values if name not in left_out}
