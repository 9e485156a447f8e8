"""The two needle tests that came before RULER: a pass key in noise, and a sentence in essays.

An example of ``passkey`` (Danish, shortened)::

    I en lang og ligegyldig tekst er der gemt en vigtig oplysning. Find den, og husk den. ...
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    Adgangskoden er 4821093. Husk den. 4821093 er adgangskoden.
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    Hvad er adgangskoden?

    outputs: ["4821093"]

``passkey`` is the test of Mohtashami and Jaggi (2023, "Landmark Attention"): one number, said
twice, has no key. ``niah_vanilla`` is that of Kamradt (2023, "Needle In A Haystack"): a sentence
says what is best to do in a town, and the question wants to know what. The answer is right if
the activity stands in it word for word; upper and lower case are alike, as everywhere.

RULER's ``niah_single_1`` and ``niah_single_2`` stand for these two there, with a key and a
number in each (Hsieh et al. 2024, "RULER: What's the Real Context Size of Your Long-Context
Language Models?", appendix B). The sentences are our own, in every language.
"""

from __future__ import annotations

import json
import random
from functools import cached_property, partial
from typing import Any

from rulerlib.errors import DataError
from rulerlib.filling import Take
from rulerlib.haystack import Draft, Haystack, Needle, depth_of, prose
from rulerlib.languages import Language
from rulerlib.tasks.family import Maker
from rulerlib.texts import digest

# How often a needle is drawn anew when it stands in the text by chance.
TRIES = 1000


class Classic(Maker):
    """Makes the samples of a needle that is a pass key or a sentence.

    ``knobs`` are those of `rulerlib.tasks.niah`; ``texts`` are prose for the essay haystack;
    ``seed`` is not used, as all that is drawn belongs to a sample.
    """

    @property
    def digest(self) -> str:
        """A short hash of the section of the language pack that these tests are made of."""
        section = self.language.section("classics")
        return digest([json.dumps(section[self.knobs.needle], sort_keys=True)])

    @cached_property
    def haystack(self) -> Haystack:
        """The line of noise, or the sentences of the texts, counted once."""
        tokenizer = self.budget.tokenizer
        if self.knobs.haystack == "noise":
            return Haystack([self.language.noise], "\n", tokenizer)
        return prose(self._texts, tokenizer)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return the draft of one needle, and a function that fills a token budget.

        Raises
        ------
        DataError
            If the language pack lacks these tests, or if no value was found that does not stand
            in the haystack already.
        """
        knobs, path = self.knobs, ("classics", self.knobs.needle)
        key, value = self._draw(rng)
        text = self.language.fill(*path, "needle", key=key, value=value)
        start = text.index(value)
        depth = depth_of(index) if knobs.depth is None else knobs.depth
        needle = Needle(text, depth, (start, start + len(value)), key or None)
        question = self.wording.question(*path, query=key)
        draft = Draft(*question, [value], [needle], [0], asked=1)
        return [draft], partial(self.haystack.draw, rng=rng)

    def _draw(self, rng: random.Random) -> tuple[str, str]:
        """Return a key, empty where the needle has none, and a value that stands nowhere else."""
        drawn = _number if self.knobs.needle == "passkey" else _activity
        for _ in range(TRIES):
            key, value = drawn(self.language, rng)
            if not self.haystack.contains(value):
                return key, value
        raise DataError(
            f"No {self.knobs.needle} was found in {TRIES} tries that does not stand in the"
            " haystack already."
        )


def _number(language: Language, rng: random.Random) -> tuple[str, str]:
    """Return no key, and a number of 7 digits."""
    return "", str(rng.randrange(1_000_000, 10_000_000))


def _activity(language: Language, rng: random.Random) -> tuple[str, str]:
    """Return a town, and what can be done there."""
    section: dict[str, Any] = language.section("classics")["sentence"]
    drawn = {name: rng.choice(listed) for name, listed in section["lists"].items()}
    return drawn["town"], language.fill("classics", "sentence", "value", **drawn)
