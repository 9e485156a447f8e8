"""Which needed facts the recalled texts of an outside memory state, read from the texts alone.

The systems of this package keep the number of each fact beside its text, so there is nothing to
read. A text of an outside memory states a fact if it contains it word for word, if the grammar of
the suites reads the same in a sentence, or if one sentence has all values of the fact that the
question needs.

A fact does not count if a recalled sentence that was not taught contradicts it, by giving another
value for the same key. A list of all values states nothing.

>>> from rulerlib import languages
>>> from rulerlib.memory.suites import Recipe
>>> episode = Recipe("episodic", 1, 7, "en").first
>>> needs = Needs(episode, episode.probes[0], languages.load("en"))
>>> [(fact.number, fact.text) for fact in needs.facts]
[(18, 'In Trermingwick, Mermund built a tower on 15 November.')]
>>> seen = "Mermund was seen in Trermingwick (15 November)."
>>> needs.stated([seen]), needs.stated(["Mermund built a tower."])
([{18}], [set()])
>>> needs.stated([seen, "Corwin was seen in Trermingwick (15 November)."])
[set(), set()]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rulerlib.languages import Language
from rulerlib.memory import spatial
from rulerlib.memory.episodes import Episode, Fact, Probe
from rulerlib.memory.prompting import leak
from rulerlib.memory.sentences import reader

# The end of a sentence. A day such as "3. maj" continues in lower case.
_END = re.compile(r"\n|(?<=[.!?])\s+(?=[^\W\d_a-zæøå])")

# The longest sentence that is read.
_MAX_CHARACTERS = 300

# Values that no question needs: who speaks, and what held before.
_IGNORED = ("speaker", "old")


class Needs:
    """The facts that a question needs, and how a text can state them.

    Attributes
    ----------
    facts
        The needed facts.
    """

    def __init__(self, episode: Episode, probe: Probe, language: Language) -> None:
        self.facts = episode.needed(probe)
        self._episode, self._probe, self._language = episode, probe, language
        self._reader, self._taught = reader(language), [fact.text for fact in episode.facts]
        talk = self._reader.talk(probe.text)
        self._owner = talk.topic[0] if talk and talk.topic else ""
        self._directions = [*spatial.letters(language)]

    def stated(self, texts: Sequence[str]) -> list[set[int]]:
        """Return for each text the numbers of the needed facts that it states."""
        own = [self._own_sentences(text) for text in texts]
        numbers = [set[int]() for _ in texts]
        for fact in self.facts:
            said = [[self._says(sentence, fact) for sentence in sentences] for sentences in own]
            if any(False in each for each in said):
                continue
            for found, text, each in zip(numbers, texts, said, strict=True):
                if True in each or leak(text, [fact.text]):
                    found.add(fact.number)
        return numbers

    def is_bare_answer(self, text: str) -> bool:
        """Return whether a text that was not taught holds an answer and no other taught value."""
        golds = self._probe.golds
        if text in self._taught or not self.facts or not self._holds_any(text, golds):
            return False
        values = {value for fact in self._episode.facts for value in _values(fact).values()}
        return not self._holds_any(text, values - {*golds})

    def _own_sentences(self, text: str) -> list[str]:
        """Return the sentences of a text that were not taught in these words."""
        return [
            line
            for line in _END.split(text)
            if len(line) <= _MAX_CHARACTERS and not any(line in each for each in self._taught)
        ]

    def _says(self, sentence: str, fact: Fact) -> bool | None:
        """Return whether a sentence states a fact (True) or contradicts it (False)."""
        read, meant, needed = self._meaning(sentence), self._meaning(fact.text), self._needed(fact)
        if read and meant:
            if read == meant:
                return True
            if read[0] != meant[0] or read in map(self._meaning, self._taught):
                return None
            names = [name for name in needed if name in meant[1]]
            different = [name for name in names if read[1].get(name) != meant[1][name]]
            return False if len(different) == 1 and (len(names) > 1 or self._owner) else None
        steps = [word for word in self._directions if self._holds(sentence, [word])]
        # One value alone, such as the name of a town, says too little, and several steps say
        # nothing of one of them.
        if len(needed) < 2 or ("direction" in needed and len(steps) > 1):
            return None
        for name in needed:
            key = [value for other, value in needed.items() if other != name]
            others = self._alike(fact, name) - {needed[name]}
            if self._holds(sentence, key) and self._holds_any(sentence, others):
                return False
        return True if self._holds(sentence, needed.values()) else None

    def _needed(self, fact: Fact) -> dict[str, str]:
        """Return the values of a fact that link it to the question, its answer or another fact."""
        others = [self._probe.text, *self._probe.golds]
        others += [other.text for other in self.facts if other is not fact]
        values = _values(fact)
        if values and self._owner:
            values["owner"] = self._owner
        linked = {
            name: value for name, value in values.items() if any(value in text for text in others)
        }
        # A step without its direction says too little.
        return linked if len(linked) > 1 and "direction" not in values else values

    def _alike(self, fact: Fact, name: str) -> set[str]:
        """Return all values in the episode that facts such as this one have by a name."""
        facts = [each for each in self._episode.facts if name in each.values]
        relation = self._relation(fact)
        return {each.value(name) for each in facts if self._relation(each) == relation}

    def _relation(self, fact: Fact) -> str:
        read = self._reader.fact(fact.text) if "subject" in fact.values else None
        return read.relation if read else ""

    def _holds_any(self, text: str, values: Iterable[str]) -> bool:
        return any(self._holds(text, [value]) for value in values)

    def _holds(self, text: str, values: Iterable[str]) -> bool:
        """Return whether a text has all values, with or without articles and genitives."""
        articles = "|".join(map(re.escape, self._language.articles))
        for value in values:
            core = re.escape(re.sub(rf"^(?:{articles})\s+", "", value.casefold()))
            if not re.search(rf"(?<!\w){core}(?:['’]?s|['’])?(?!\w)", text.casefold()):
                return False
        return True

    def _meaning(self, text: str) -> tuple[object, Mapping[str, str]] | None:
        """Return what a text is about and the values in it, as far as the grammar reads it."""
        if fact := self._reader.fact(text):
            # It does not matter who walked a step.
            values = {**fact.values, "who": ""} if fact.kind == "step" else fact.values
            return (fact.kind, fact.relation), values
        if turn := self._reader.turn(text):
            return (turn.kind, turn.topic), {"value": turn.value}
        return None


def _values(fact: Fact) -> dict[str, str]:
    """Return the values of a fact that a question may need, by name."""
    ignored = (*_IGNORED, "who") if "direction" in fact.values else _IGNORED
    return {name: fact.value(name) for name in fact.values if name not in ignored}


def answers_of(episode: Episode, probe: Probe, language: Language) -> list[str]:
    """Return the values of an episode that are of the kind that a question asks for.

    None are for the lengths and letters of routes, which no fact states.
    """
    facts = episode.facts
    if "path" in probe.facts:
        # Only the wording tells the relation of a fact.
        read = [reader(language).fact(fact.text) for fact in facts]
        last = probe.facts["path"][-1]
        return [fact.values["object"] for fact in read if fact and fact.relation == last]
    if "thing" in probe.facts:
        digits = probe.golds[0].isdigit()
        values = [fact.value("value") for fact in facts if "value" in fact.values]
        return [value for value in values if value.isdigit() == digits]
    names = ("from", "to") if probe.kind == "stand" else (probe.kind,)
    return [fact.value(name) for fact in facts for name in names if name in fact.values]
