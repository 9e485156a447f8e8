"""Needle in a haystack: sentences with a key and a value, hidden at known depths.

An example of ``niah_single_1`` (Danish, shortened)::

    Et særligt magisk tal er gemt i den følgende tekst. Læg godt mærke til det. ...
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    Et af de særlige magiske tal for stille-hylde er: 4821093.
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    Hvad er det særlige magiske tal for stille-hylde, som er nævnt i teksten?

    outputs: ["4821093"]

Eight variants are settings of six knobs (Hsieh et al. 2024, "RULER: What's the
Real Context Size of Your Long-Context Language Models?", appendix B).
"""

from __future__ import annotations

import bisect
import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from rulerlib.errors import DataError, ParameterError, one_of, whole_number
from rulerlib.haystack import DEPTHS, Haystack, Pool, depth_of, one_depth, sentences
from rulerlib.languages import VALUE_TYPES, Language
from rulerlib.tasks.base import Draft, Maker, Needle, Take

HAYSTACKS = ("noise", "essay", "needle")

# A pool holds this many times the distractors of one prompt, so that two prompts differ.
POOL_FACTOR = 2

# How often a needle is drawn anew when it stands in the text by chance or does not fit.
TRIES = 1000


@dataclass(frozen=True)
class Knobs:
    """What can be set about a needle-in-a-haystack task.

    Attributes
    ----------
    haystack
        ``"noise"``: one line again and again; ``"essay"``: prose; ``"needle"``:
        distractors of the same form as the needle.
    type_needle_k, type_needle_v
        What keys and values are: ``"words"``, ``"numbers"`` (7 digits) or ``"uuids"``.
    num_needle_k, num_needle_v, num_needle_q
        Number of keys, of values of each key, and of keys asked for.
    depth
        None: depths as in RULER. A number from 0 to 100 puts the needle that is asked for there;
        of several, one of the first key's, and the others stay where they would be without it.
    """

    haystack: str = "essay"
    type_needle_k: str = "words"
    type_needle_v: str = "numbers"
    num_needle_k: int = 1
    num_needle_v: int = 1
    num_needle_q: int = 1
    depth: float | None = None

    def __post_init__(self) -> None:
        one_of("haystack", self.haystack, HAYSTACKS)
        one_of("type_needle_k", self.type_needle_k, VALUE_TYPES)
        one_of("type_needle_v", self.type_needle_v, VALUE_TYPES)
        for name in ("num_needle_k", "num_needle_v", "num_needle_q"):
            whole_number(name, getattr(self, name), 1, len(DEPTHS))
        if self.num_needle_q > self.num_needle_k:
            raise ParameterError(
                "num_needle_q",
                self.num_needle_q,
                f"at most num_needle_k ({self.num_needle_k}), the number of keys there are",
            )
        if self.num_needles > len(DEPTHS):
            raise ParameterError(
                "num_needle_k * num_needle_v",
                self.num_needles,
                f"at most {len(DEPTHS)}, the number of depths",
            )
        if self.depth is not None:
            one_depth(self.depth)

    @property
    def num_needles(self) -> int:
        """Needles in the text that are not distractors of the haystack."""
        return self.num_needle_k * self.num_needle_v

    @property
    def num_values(self) -> int:
        """Values in the answer."""
        return self.num_needle_q * self.num_needle_v


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """How many questions one context can be asked (None: any number), and what decides it.

    A needle more changes nothing in a haystack of needles, where it stands among distractors of
    its own form. In prose or noise it makes another task.
    """
    if knobs.depth is not None:
        return 1, "a depth that is set holds for one needle alone"
    if knobs.haystack == "needle" and knobs.num_needle_v == 1:
        return None, ""
    if knobs.num_needles == 1:
        return 1, (
            "a second needle in the text would make another task (niah_multikey_1 has several,"
            " and num_needle_k sets how many)"
        )
    most = knobs.num_needle_k // knobs.num_needle_q
    return most, "each key is asked for once, and num_needle_k sets how many there are"


def value_of(kind: str, language: Language, rng: random.Random) -> str:
    """A key or a value: a word pair, a 7-digit number or a version 4 UUID."""
    if kind == "numbers":
        return str(rng.randrange(1_000_000, 10_000_000))
    if kind == "uuids":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return f"{rng.choice(language.adjectives)}-{rng.choice(language.nouns)}"


class Family(Maker):
    """Makes the samples of one setting of the knobs; parameters as in `rulerlib.tasks.base.Maker`.

    ``texts`` are prose for the essay haystack; from ``seed`` the pool of distractors is drawn.
    """

    knobs: Knobs

    @cached_property
    def haystack(self) -> Haystack:
        tokenizer = self.budget.tokenizer
        if self.knobs.haystack == "noise":
            return Haystack([self.language.noise], "\n", tokenizer)
        if self.knobs.haystack == "essay":
            return Haystack(sentences(self._texts), " ", tokenizer)
        return self._pool()

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Keys, values and depths of one context, and so many questions about them.

        No key is asked for twice. In a haystack of needles each question brings its keys.
        """
        knobs = self.knobs
        asked_for = queries * knobs.num_needle_q
        keys, values = self._draw(rng, max(knobs.num_needle_k, asked_for))
        asked = rng.sample(range(len(keys)), asked_for)
        pairs = [(key, value) for key, own in zip(keys, values, strict=True) for value in own]
        depths: list[float]
        if len(pairs) == 1:
            depths = [depth_of(index) if knobs.depth is None else knobs.depth]
        elif knobs.num_needles == 1:
            # Each needle where it would be if it were alone, in the order of the text.
            placed = sorted((depth_of(index * queries + at), key) for at, key in enumerate(asked))
            pairs, depths = [pairs[key] for _, key in placed], [depth for depth, _ in placed]
        else:
            rng.shuffle(pairs)
            # Each depth once, or as evenly as can be where there are more needles than depths.
            laps = -(-len(pairs) // len(DEPTHS))
            depths = sorted(rng.sample(DEPTHS * laps, len(pairs)))
            if knobs.depth is not None:
                place = next(at for at, (key, _) in enumerate(pairs) if key == keys[asked[0]])
                moved = pairs.pop(place)
                del depths[place]
                place = bisect.bisect_left(depths, knobs.depth)
                pairs.insert(place, moved)
                depths.insert(place, knobs.depth)
        needles = []
        for (key, value), depth in zip(pairs, depths, strict=True):
            text = self._needle(key, value)
            needles.append(Needle(text, depth, text.rindex(value)))
        each = range(0, asked_for, knobs.num_needle_q)
        drafts = [
            self._ask([keys[place] for place in asked[start : start + knobs.num_needle_q]],
                      pairs, needles)
            for start in each
        ]  # fmt: skip
        return drafts, partial(self.haystack.draw, rng=rng)

    def _ask(
        self, queries: list[str], pairs: list[tuple[str, str]], needles: list[Needle]
    ) -> Draft:
        """The question about some keys of a context."""
        knobs, language = self.knobs, self.language
        # Answers: key by key as asked, the values of one key as they stand in the text.
        order = [place for query in queries for place, (key, _) in enumerate(pairs) if key == query]
        outputs = [pairs[place][1] for place in order]
        order += [place for place in range(len(pairs)) if place not in order]
        form = "one" if knobs.num_values == 1 else "many"
        label = language.label(knobs.type_needle_v, knobs.num_values)
        names = {**label, "query": language.join(queries)}
        head, tail, prefix = language.question("niah", form, **names)
        return Draft(head, tail, prefix, outputs, needles, order)

    def _needle(self, key: str, value: str) -> str:
        label = self.language.label(self.knobs.type_needle_v, 2)
        return self.language.fill("niah", "needle", label, key=key, value=value)

    def _draw(self, rng: random.Random, count: int) -> tuple[list[str], list[list[str]]]:
        """Keys, and for each its values: none stands in another or in the haystack."""
        keys, values = self._draw_some(rng, self.knobs.num_needle_k, ())
        while len(keys) < count:
            # One by one: of many at once, one or another would always stand in a long haystack.
            taken = [*keys, *(value for own in values for value in own)]
            key, own = self._draw_some(rng, 1, taken)
            keys += key
            values += own
        return keys, values

    def _draw_some(
        self, rng: random.Random, count: int, taken: Sequence[str]
    ) -> tuple[list[str], list[list[str]]]:
        """Keys and their values, none of which stands in any of ``taken`` or holds one."""
        knobs = self.knobs
        wording = self._needle("", "").casefold()
        for _ in range(TRIES):
            keys = [value_of(knobs.type_needle_k, self.language, rng) for _ in range(count)]
            values = [
                [
                    value_of(knobs.type_needle_v, self.language, rng)
                    for _ in range(knobs.num_needle_v)
                ]
                for _ in keys
            ]
            names = [*keys, *(value for own in values for value in own)]
            alone = all(
                name not in other
                for place, name in enumerate(names)
                for other in (*names[:place], *names[place + 1 :], *taken, wording)
            ) and not any(old in name for old in taken for name in names)
            if alone and not any(self.haystack.contains(name) for name in names):
                return keys, values
        raise DataError(
            f"No {knobs.type_needle_k} and {knobs.type_needle_v} were found in {TRIES} tries that"
            " do not stand in the haystack's text already."
        )

    def _pool(self) -> Pool:
        """Distractors: as many as the longest prompt needs, twice over, all keys and values new."""
        rng = random.Random(f"{self._seed} pool")
        knobs, tokenizer = self.knobs, self.budget.tokenizer
        keys: set[str] = set()
        values: set[str] = set()
        units: list[str] = []

        def more(count: int) -> None:
            misses = 0
            while len(units) < count and misses < TRIES:
                key = value_of(knobs.type_needle_k, self.language, rng)
                value = value_of(knobs.type_needle_v, self.language, rng)
                if key == value or any(name in keys or name in values for name in (key, value)):
                    misses += 1
                    continue
                misses = 0
                keys.add(key)
                values.add(value)
                units.append(self._needle(key, value))
            if len(units) < count:
                raise ParameterError(
                    "length",
                    self.budget.length,
                    f"shorter: only {len(units)} different {knobs.type_needle_k} were found for"
                    " the keys of a needle haystack",
                )

        more(64)
        cheapest = min(Pool(units, "\n", tokenizer).costs)
        more(max(64, POOL_FACTOR * self.budget.length // cheapest))
        return Pool(units, "\n", tokenizer)


VARIANTS: dict[str, Knobs] = {
    "niah_single_1": Knobs(haystack="noise"),
    "niah_single_2": Knobs(haystack="essay"),
    "niah_single_3": Knobs(haystack="essay", type_needle_v="uuids"),
    "niah_multikey_1": Knobs(haystack="essay", num_needle_k=4),
    "niah_multikey_2": Knobs(haystack="needle"),
    "niah_multikey_3": Knobs(haystack="needle", type_needle_k="uuids", type_needle_v="uuids"),
    "niah_multivalue": Knobs(haystack="essay", num_needle_v=4),
    "niah_multiquery": Knobs(haystack="essay", num_needle_k=4, num_needle_q=4),
}
"""RULER's eight settings."""

TOKENS_TO_GENERATE = 128
METRIC = "all_match"
