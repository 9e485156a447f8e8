"""Which needed facts the recalled texts of an outside memory state, read from the texts alone.

The systems of this package keep the number of each fact beside its text, so there is nothing to
read. A text of an outside memory states a fact if it contains it word for word, if the grammar of
the suites reads the same in a sentence, or if one sentence has all values of the fact that the
question needs. A sentence with the names in the question and its answer, such as a planned route,
states all needed facts.

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

import itertools
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from rulerlib.languages import Language
from rulerlib.memory import spatial
from rulerlib.memory.episodes import Episode, Fact, Probe
from rulerlib.memory.prompting import leak
from rulerlib.memory.reading import facts_in
from rulerlib.memory.sentences import ReadFact, Turn, reader

# The end of a sentence. A day such as "3. maj" continues in lower case.
_END = re.compile(r"\n|(?<=[.!?])\s+(?=[^\W\d_a-zæøå])")

# The longest sentence that is read, and how many values of one kind it may have: more are a list.
_MAX_CHARACTERS, _MAX_VALUES = 300, 3

# Values that no question needs: who speaks, and what held before.
_IGNORED = ("speaker", "old")


class Needs:
    """The facts that a question needs, and how a text can state them.

    Attributes
    ----------
    facts
        The needed facts.
    taught
        All texts of the episode.
    """

    def __init__(self, episode: Episode, probe: Probe, language: Language) -> None:
        self.facts, self.taught = episode.needed(probe), {fact.text for fact in episode.facts}
        self._episode, self._probe, self._language = episode, probe, language
        self._reader = reader(language)
        talk = self._reader.talk(probe.text)
        self._owner = [talk.topic[0]] if talk and talk.topic else []
        self._meanings = {fact.number: self._meaning(fact.text) for fact in self.facts}
        self._answers = answers_of(episode, probe, language)
        values = [item for fact in self.facts for item in _values(fact).items()]
        # The names in the question. A plan does not name the town.
        self._names = self._owner or sorted(
            {value for name, value in values if name != "town" and value in probe.text}
        )
        # All values of a kind in the episode, such as all homes.
        self._values = defaultdict[tuple[str, str], set[str]](set)
        for fact in episode.facts:
            for name, value in _values(fact).items():
                self._values[self._kind(fact), name].add(value)

    def stated(self, texts: Sequence[str]) -> list[set[int]]:
        """Return for each text the numbers of the needed facts that it states."""
        whole = [self._word_for_word(text) for text in texts]
        reworded = [self._reworded(text) for text in texts]
        made = [sentence for sentences in reworded for sentence in sentences]
        concluded = not any(self._answers_otherwise(sentence) for sentence in made)
        for numbers, sentences in zip(whole, reworded, strict=True):
            for sentence, fact in itertools.product(sentences, self.facts):
                # One value alone, such as the name of a town, says too little.
                values = self._needed(fact).values()
                says_all = len(values) > 1 and self._holds(sentence, values)
                if says_all or (concluded and self._concludes(sentence)):
                    numbers.add(fact.number)
        # A planned route names places as a step does, but it is no step.
        claims = [sentence for sentence in made if not self._concludes(sentence)]
        contradicted = {
            fact.number
            for fact in self.facts
            if any(self._contradicts(fact, sentence) for sentence in claims)
        }
        return [numbers - contradicted for numbers in whole]

    def is_bare_answer(self, text: str) -> bool:
        """Return whether a text that was not taught holds an answer and no other taught value."""
        golds = self._probe.golds
        if text in self.taught or not self.facts or not self._holds_any(text, golds):
            return False
        values = {value for fact in self._episode.facts for value in _values(fact).values()}
        return not self._holds_any(text, values - {*golds})

    def _word_for_word(self, text: str) -> set[int]:
        """Return the needed facts that a text contains, or that the grammar reads in it."""
        meanings = facts_in(text, self._meaning)
        return {
            fact.number
            for fact in self.facts
            if leak(text, [fact.text])
            or (self._meanings[fact.number] and self._meanings[fact.number] in meanings)
        }

    def _reworded(self, text: str) -> list[str]:
        """Return the sentences of a text that were not taught in these words."""
        if text in self.taught:
            return []
        lines = [line for line in _END.split(text) if len(line) <= _MAX_CHARACTERS]
        taught = [self._meaning(fact.text) for fact in self._episode.facts]
        return [
            line
            for line in lines
            if not any(line in text for text in self.taught)
            and (self._meaning(line) or line) not in taught
        ]

    def _needed(self, fact: Fact) -> dict[str, str]:
        """Return the values of a fact that link it to the question, its answer or another fact."""
        others = [self._probe.text, *self._probe.golds]
        others += [other.text for other in self.facts if other is not fact]
        values = _values(fact)
        if values and self._owner:
            values["owner"] = self._owner[0]
        linked = {
            name: value for name, value in values.items() if any(value in text for text in others)
        }
        # A step without its direction says too little.
        return linked if len(linked) > 1 and "direction" not in values else values

    def _concludes(self, sentence: str) -> bool:
        """Return whether a sentence has the names in the question, its answer, and no other one."""
        if not self._names or not self._holds(sentence, self._names):
            return False
        return self._holds_any(sentence, self._probe.golds) and not self._others(sentence)

    def _answers_otherwise(self, sentence: str) -> bool:
        """Return whether a sentence gives another answer to the question, which was not taught."""
        others = self._others(sentence)
        return self._holds(sentence, self._names) and not self._explained(sentence, others)

    def _others(self, sentence: str) -> list[str]:
        """Return the values of the kind of the answer in a sentence that are no right answer."""
        golds, values = {gold.casefold() for gold in self._probe.golds}, self._answers
        if self._probe.kind == "route":
            letters = "".join(spatial.letters(self._language).values())
            values = re.findall(rf"\b[{letters}]+\b", sentence)
        # A place in the question is not its answer.
        values = [v for v in values if v.casefold() not in golds and v not in self._probe.text]
        return [value for value in values if self._holds(sentence, [value])]

    def _contradicts(self, fact: Fact, sentence: str) -> bool:
        """Return whether a sentence has all needed values of a fact but one, and another for it."""
        needed = self._needed(fact)
        if self._reads_otherwise(fact, needed, sentence):
            return True
        for name, value in needed.items():
            key = [other for each, other in needed.items() if each != name]
            if not key or not self._holds(sentence, key):
                continue
            others = self._values[self._kind(fact), name] - {value}
            if not self._explained(sentence, [v for v in others if self._holds(sentence, [v])]):
                return True
        return False

    def _reads_otherwise(self, fact: Fact, needed: Iterable[str], sentence: str) -> bool:
        """Return whether the grammar reads the fact with one other value, even an untaught one."""
        meant, read = self._meanings[fact.number], self._meaning(sentence)
        if not isinstance(meant, ReadFact) or not isinstance(read, ReadFact):
            return False
        if (meant.kind, meant.relation) != (read.kind, read.relation):
            return False
        names = [name for name in needed if name in meant.values and name in read.values]
        different = [name for name in names if meant.values[name] != read.values[name]]
        return len(names) > 1 and len(different) == 1

    def _explained(self, sentence: str, values: Collection[str]) -> bool:
        """Return whether the values in a sentence are few, and each is part of a taught fact."""
        if len(values) >= _MAX_VALUES:
            return False
        stated = {value for fact in self.facts for value in _values(fact).values()}
        for fact in self._episode.facts:
            own = _values(fact).values()
            if len(own) > 1 and self._holds(sentence, own):
                stated.update(own)
        return stated.issuperset(values)

    def _kind(self, fact: Fact) -> str:
        """Return what a fact is about: its relation, or nothing for other facts."""
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

    def _meaning(self, text: str) -> ReadFact | Turn | None:
        """Return what the grammar reads in a text; it does not matter who walked a step."""
        read = self._reader.fact(text)
        if read is None:
            return self._reader.turn(text)
        values = {**read.values, "who": ""} if read.kind == "step" else read.values
        return read._replace(values=values)


def _values(fact: Fact) -> dict[str, str]:
    """Return the values of a fact that a question may need, by name."""
    ignored = (*_IGNORED, "who") if "direction" in fact.values else _IGNORED
    return {name: fact.value(name) for name in fact.values if name not in ignored}


def answers_of(episode: Episode, probe: Probe, language: Language) -> list[str]:
    """Return the values of an episode that are of the kind that a question asks for.

    For the length of a route these are the numbers up to 20, for a route nothing.
    """
    facts = episode.facts
    if probe.kind == "length" and "optimum" in probe.facts:
        return [*map(str, range(1, 21)), *language.section("spatial")["words"]["numbers"]]
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
