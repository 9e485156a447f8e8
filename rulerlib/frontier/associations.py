"""Associations: persons are hidden in prose, and asked for in words that stand nowhere near them.

An example of ``associations`` (English, shortened)::

    ... The path went down to the water. In those days Saskia lived right beside the Brandenburg
    Gate. On the other side a mill had stood ...

    Question: Which person has been to Berlin? Answer with the name alone.

    outputs: ["Saskia"]

After NoLiMa (Modarressi et al. 2025, "NoLiMa: Long-Context Evaluation Beyond Literal Matching",
arXiv 2502.05167): question and needle have no word in common, so a search for the words of the
question finds nothing; what connects them is common knowledge, in one step or, in
``associations_2``, in two ("Which person has been to Germany?"). NoLiMa's data may not be used
for this, so all pairs are our own, in every language. A pair is left out if its words occur in
the haystack, so nothing else in the text leads to the question; NoLiMa's haystack was filtered
with a model's help.

Every text mentions `OTHERS` other people, `MENTIONS` times per 1,000 tokens, in sentences of the
same form about things that do not lead to the question. They take turns with the person who is
asked for, so "any name in the text" is right in one of nine cases at every length. NoLiMa's
effective length, by 85% of the score at short lengths, is
`rulerlib.analysis.effective_length.effective_lengths` with ``threshold=85, of_shortest=True``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from rulerlib.errors import whole_number
from rulerlib.filling import Take
from rulerlib.haystack import DEPTHS, Draft, Needle, depth_of, depths_of
from rulerlib.languages import Language
from rulerlib.metrics.matches import clean, normalize
from rulerlib.samples import Prediction
from rulerlib.scoring import ANY, Scoring
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Checked, Task, fresh, knob

SECTION, STEPS = "associations", ("one", "two")

# Other people in every text, and how often people are mentioned per 1,000 tokens.
OTHERS, MENTIONS = 8, 4

# A question has fewer characters; a word of an answer that begins none of its sentences but the
# first, which the answer prefix begins.
QUESTION, _WORD = 300, re.compile(r"(?:^|(?<=[\w,] ))[^\W\d_]\w+")


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about associations.

    Attributes
    ----------
    num_hops
        Steps of common knowledge from the needle to the question: 1 or 2.
    num_distractors
        Further people in the text who can be asked for as well.
    """

    num_hops: int = knob(1, whole_number, 1, 2)
    num_distractors: int = knob(0, whole_number, 0, 9)


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """Return how many questions one context can be asked, and what decides it."""
    return 1 + knobs.num_distractors, "each person is asked for once; num_distractors adds others"


class Pair(NamedTuple):
    """Something in a needle and what is asked for, of a kind that a language pack has.

    ``hops`` are what it leads to in one step and, where it does, in two.
    """

    kind: str
    thing: str
    hops: tuple[str, ...]


def pairs(language: Language) -> Iterator[Pair]:
    """Yield all pairs that a language has, kind by kind."""
    for kind, table in language.section(SECTION).items():
        if isinstance(table, dict):
            for thing, *hops in table["rows"]:
                yield Pair(kind, thing, tuple(hops))


@dataclass(frozen=True)
class Persons(Knobs, Task):
    """Makes the samples of one setting of the knobs, in essays or in the user's own texts."""

    family = "associations"
    category = FRONTIER
    answer_tokens = 32
    reads_texts = True
    one_language = "question and needle are chosen together, so that they share no word"
    in_words: ClassVar = {
        "associations": "a person, by association",
        "associations_2": "a person, two associations",
    }

    @property
    def scoring(self) -> Scoring:
        """How answers are judged."""
        return ANY

    @property
    def most_queries(self) -> tuple[int | None, str]:
        """The largest number of questions about one context, and the reason."""
        return most_queries(self)

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        return explain(prediction, cut_off)

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the answer that follows from a prompt's text."""
        return read(prompt, language)

    section = SECTION

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return a draft for each of the first ``queries`` persons, and a function that fills up.

        No two of them can be the answer to one question.
        """
        count = 1 + self.num_distractors
        drawn, names = list[Pair](), list[str]()
        for _ in range(count):
            drawn.append(fresh("pair of associations", partial(self._pair, drawn, rng)))
            names.append(fresh("name", partial(self._name, names, rng)))
        turns = rng.sample(range(count), count)
        depths = [depth_of(index)] if count == 1 else depths_of(count, rng)
        needles, drafts = list[Needle](), list[Draft]()
        for at, depth in zip(turns, depths, strict=True):
            pair, name = drawn[at], names[at]
            text = self.language.fill(SECTION, pair.kind, "needle", name=name, thing=pair.thing)
            needles.append(Needle.holding(name, text, depth, pair.thing))
        needles, turns = self._with_others(needles, turns, drawn, names, rng.getrandbits(64))
        for pair, name in zip(drawn[:queries], names, strict=False):
            query = pair.hops[self.num_hops - 1]
            question = self.language.fill(SECTION, pair.kind, STEPS[self.num_hops - 1], query=query)
            order = [turns.index(at) for at in [names.index(name), *range(len(needles))]]
            order = [*dict.fromkeys(order)]
            parts = self.language.question(SECTION, question=question)
            facts = {"kind": pair.kind, "thing": pair.thing, "query": query}
            drafts.append(Draft(*parts, [name], needles, order, asked=1, facts=facts))
        return drafts, partial(self.filler.draw, rng=rng)

    def _with_others(
        self,
        needles: list[Needle],
        turns: list[int],
        drawn: list[Pair],
        names: list[str],
        seed: int,
    ) -> tuple[list[Needle], list[int]]:
        """Add the other people; return all needles by depth, and the number of each.

        The numbers of the people who are asked for come first. A longer text has the mentions of a
        shorter one and more.
        """
        rng = random.Random(seed)
        people = [*names]
        for _ in range(OTHERS):
            people.append(fresh("name", partial(self._name, people, rng)))
        led_to = {word for pair in drawn for word in pair.hops}
        things = [
            pair
            for pair in pairs(self.language)
            if led_to.isdisjoint(pair.hops) and not any(word in pair.thing for word in led_to)
        ]
        # Of the people who are asked for, something else is said only after all others had a turn.
        people = people[len(names) :] + names
        placed = [*zip(needles, turns, strict=True)]
        for number in range(max(OTHERS, MENTIONS * self.budget.length // 1000)):
            name, pair = people[number % len(people)], rng.choice(things)
            text = self.language.fill(SECTION, pair.kind, "needle", name=name, thing=pair.thing)
            other = Needle.holding(name, text, rng.choice(DEPTHS), pair.thing)
            placed.append((other, len(names) + number))
        placed.sort(key=lambda item: item[0].depth)
        return [needle for needle, _ in placed], [number for _, number in placed]

    def _pair(self, drawn: list[Pair], rng: random.Random) -> Pair | None:
        """Return a pair that leads nowhere where another one does; None where a draw is not."""
        pair = rng.choice([*pairs(self.language)])
        wanted = len(pair.hops) >= self.num_hops
        taken = {word for other in drawn for word in other.hops}
        words = pair.thing, *pair.hops[: self.num_hops]
        alone = taken.isdisjoint(pair.hops) and not any(map(self.filler.contains, words))
        return pair if wanted and alone else None

    def _name(self, names: list[str], rng: random.Random) -> str | None:
        name: str = rng.choice(self.language.section(SECTION)["names"])
        return None if name in names or self.filler.contains(name) else name


def read(prompt: str, language: Language) -> str | None:
    """Return the name that is asked for, by the pairs of the language; ``""`` where none fits."""
    if (names := language.unfill(prompt, SECTION, "template")) is None:
        return None
    for pair in pairs(language):
        for step, query in zip(STEPS, pair.hops, strict=False):
            if names["question"] == language.fill(SECTION, pair.kind, step, query=query):
                needle = language.fill(SECTION, pair.kind, "needle", name="\0", thing=pair.thing)
                pattern = re.escape(needle).replace(re.escape("\0"), r"(\w+)")
                if person := re.search(pattern, names["context"]):
                    return person[1]
    return ""


def explain(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the mistake of an answer that should be the name of a person."""
    text = normalize(clean(prediction.pred))
    values = {prediction.input[part.start : part.end] for part in prediction.parts_of("value")}
    taken = [name for name in values if name not in prediction.outputs and normalize(name) in text]
    # Words with a capital letter that begin no sentence, and do not repeat the question.
    words, question = _WORD.findall(clean(prediction.pred)), prediction.input[-QUESTION:]
    others = [word for word in words if word[0].isupper() and word not in question]
    return mistakes.opening(text, cut_off, not taken and mistakes.refused(text)) or mistakes.choose(
        (taken, "distractor"), (others, "other name"), (True, "other")
    )


FAMILY = {"associations": Persons(), "associations_2": Persons(num_hops=2)}
"""One step of common knowledge, and two."""
