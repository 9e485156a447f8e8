"""Associations: a question about a person in prose that shares no word with the text.

An example of ``associations`` (English, shortened)::

    ... The path went down to the water. In those days Saskia lived right beside the Brandenburg
    Gate. On the other side a mill had stood ...

    Question: Which person has been to Berlin? Answer with the name alone.

    outputs: ["Saskia"]

After NoLiMa (Modarressi et al. 2025, "NoLiMa: Long-Context Evaluation Beyond Literal Matching",
arXiv 2502.05167). Question and needle have no word in common, so searching for the words of the
question finds nothing. Common knowledge connects them, in one step or, in ``associations_2``, in
two ("Which person has been to Germany?"). NoLiMa's license does not allow its data here, so all
pairs are our own, in every language. A pair is used only if none of its words is in the haystack;
NoLiMa filtered its haystack with a model's help.

Every text mentions `OTHERS` other people, `MENTIONS` times per 1,000 tokens, in sentences of the
same form about things that do not lead to the question. They alternate with the right person, so
guessing any name in the text is right in one of nine cases at every length. NoLiMa's effective
length (85% of the score at short lengths) is
`rulerlib.analysis.effective_lengths` with ``threshold=85, of_shortest=True``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from rulerlib.errors import whole_number
from rulerlib.haystack import DEPTHS, Draft, Needle, Take, depth_of
from rulerlib.languages import Language
from rulerlib.metrics import ANY, clean, normalize
from rulerlib.samples import Prediction
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Task, fresh

SECTION, STEPS = "associations", ("one", "two")

# The number of other people in every text, and mentions of people per 1,000 tokens.
OTHERS, MENTIONS = 8, 4


class Pair(NamedTuple):
    """A thing in a needle, and the one or two things that it leads to (``hops``)."""

    kind: str
    thing: str
    hops: tuple[str, ...]


def pairs(language: Language) -> list[Pair]:
    """Return all pairs of a language, kind by kind."""
    return [
        Pair(kind, thing, tuple(hops))
        for kind, table in language.section(SECTION).items()
        if isinstance(table, dict)
        for thing, *hops in table["rows"]
    ]


@dataclass(frozen=True)
class Associations(Task):
    """A task of associations, in essays or in the user's own texts.

    Attributes
    ----------
    num_hops
        Steps of common knowledge from the needle to the question: 1 or 2.
    """

    num_hops: int = 1

    family = "associations"
    category = FRONTIER
    scoring = ANY
    answer_tokens = 32
    section = SECTION
    reads_texts = True
    one_language = "question and needle are chosen together, so that they share no word"
    in_words: ClassVar = {
        "associations": "a person, by association",
        "associations_2": "a person, two associations",
    }

    def __post_init__(self) -> None:
        whole_number("num_hops", self.num_hops, 1, 2)

    # --- The generator -----------------------------------------------------------------------

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return a question about a person, and a function that fills the text."""
        pair = fresh("pair of associations", partial(self._draw_pair, rng))
        name = fresh("name", partial(self._draw_name, [], rng))
        # Without a use today; it keeps the samples of earlier versions.
        rng.randrange(1)
        mentions = [self._mention(name, pair, depth_of(index))]
        mentions += self._mention_others(name, pair, random.Random(rng.getrandbits(64)))
        places = sorted(range(len(mentions)), key=lambda place: mentions[place].depth)
        # The sample records the right person first, then the others as they were drawn.
        order = [places.index(place) for place in range(len(mentions))]
        step, query = STEPS[self.num_hops - 1], pair.hops[self.num_hops - 1]
        question = self.language.fill(SECTION, pair.kind, step, query=query)
        draft = Draft(
            *self.language.question(SECTION, question=question),
            outputs=[name],
            needles=[mentions[place] for place in places],
            order=order,
            asked=1,
            facts={"kind": pair.kind, "thing": pair.thing, "query": query},
        )
        return [draft], partial(self.filler.draw, rng=rng)

    def _draw_pair(self, rng: random.Random) -> Pair | None:
        """Return a pair, or None if it has too few steps or a word of the text."""
        pair = rng.choice(pairs(self.language))
        words = [pair.thing, *pair.hops[: self.num_hops]]
        known = len(pair.hops) < self.num_hops or any(map(self.filler.contains, words))
        return None if known else pair

    def _draw_name(self, taken: Sequence[str], rng: random.Random) -> str | None:
        name: str = rng.choice(self.language.section(SECTION)["names"])
        return None if name in taken or self.filler.contains(name) else name

    def _mention_others(self, name: str, pair: Pair, rng: random.Random) -> list[Needle]:
        """Mention other people, and the right one, in connection with other things.

        A longer text has all mentions of a shorter one.
        """
        people = list[str]()
        for _ in range(OTHERS):
            people.append(fresh("name", partial(self._draw_name, [name, *people], rng)))
        people.append(name)
        others = [
            other
            for other in pairs(self.language)
            if not any(word in other.hops or word in other.thing for word in pair.hops)
        ]
        mentions = []
        for at in range(max(OTHERS, MENTIONS * self.budget.length // 1000)):
            other, depth = rng.choice(others), rng.choice(DEPTHS)
            mentions.append(self._mention(people[at % len(people)], other, depth))
        return mentions

    def _mention(self, name: str, pair: Pair, depth: float) -> Needle:
        text = self.language.fill(SECTION, pair.kind, "needle", name=name, thing=pair.thing)
        return Needle.holding(name, text, depth, pair.thing)

    # --- The answer --------------------------------------------------------------------------

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        text = normalize(clean(prediction.pred))
        values = prediction.parts_of("value")
        if any(normalize(prediction.input[part.start : part.end]) in text for part in values):
            return "distractor"
        return mistakes.opening(text, cut_off, mistakes.refused(text)) or "other"

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the name that a prompt asks for, or ``""`` if no pair of the language fits."""
        names = language.unfill(prompt, SECTION, "template")
        if names is None:
            return None
        for kind, thing, hops in pairs(language):
            needle = language.fill(SECTION, kind, "needle", name="NAME", thing=thing)
            person = re.search(re.escape(needle).replace("NAME", r"(\w+)"), names["context"])
            for step, query in zip(STEPS, hops, strict=False):
                question = language.fill(SECTION, kind, step, query=query)
                if person and names["question"] == question:
                    return person[1]
        return ""


FAMILY = {"associations": Associations(), "associations_2": Associations(num_hops=2)}
"""One step of common knowledge, and two."""
