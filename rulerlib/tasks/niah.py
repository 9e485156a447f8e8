"""Needle in a haystack: sentences with a key and a value, hidden at known depths.

An example of ``niah_single_1`` (Danish, shortened)::

    Et særligt magisk tal er gemt i den følgende tekst. Læg godt mærke til det. ...
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    Et af de særlige magiske tal for stille-hylde er: 4821093.
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    Hvad er det særlige magiske tal for stille-hylde, som er nævnt i teksten?

    outputs: ["4821093"]

RULER's eight needle tasks are settings of six parameters (Hsieh et al. 2024, "RULER: What's the
Real Context Size of Your Long-Context Language Models?", appendix B). Three more are among the 18
settings from which RULER's thirteen tasks were chosen (figure 5 in appendix C): two values, two
queries, and words as values.

If the parameter ``present`` is below 1, that share of the questions asks for keys in the text, and
the others for keys that are not there but differ in one part only. The question then allows the
answer "none". A model that always says "none" is right about half of the time:
`rulerlib.analysis.by_fact` with ``"present"`` shows both halves.
"""

from __future__ import annotations

import bisect
import math
import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

from rulerlib.errors import ParameterError, number, one_of, whole_number
from rulerlib.files import digest
from rulerlib.haystack import DEPTHS, Draft, Haystack, Needle, Pool, Take, depth_of, depths_of
from rulerlib.languages import VALUE_TYPES, Language
from rulerlib.metrics import ABSENCE, LIST, VALUE, Scoring, clean, normalize, says_none
from rulerlib.samples import Part, Prediction
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import RETRIEVAL, Task, fresh

HAYSTACKS = ("noise", "essay", "needle")

# A pool has this many times the distractors of one prompt, so that two prompts differ.
POOL_FACTOR = 2

# The smallest number of distractors in a pool.
FEWEST = 64

# Each block of questions has the exact share of present keys. A block has at most this many.
LARGEST_BLOCK = 20


@dataclass(frozen=True)
class Niah(Task):
    """A needle-in-a-haystack task.

    Attributes
    ----------
    haystack
        ``"noise"``: one line again and again; ``"essay"``: prose; ``"needle"``: distractors of the
        same form as the needle.
    type_needle_k, type_needle_v
        What keys and values are: ``"words"``, ``"numbers"`` (7 digits) or ``"uuids"``.
    num_needle_k, num_needle_v, num_needle_q
        Number of keys, of values of each key, and of keys asked for. As in RULER's script, the
        first is raised to the last if it is smaller.
    depth
        If None, depths as in RULER. A number from 0 (start) to 100 (end) sets the depth of the
        requested needle. If the question asks for several, it moves one needle of the first key;
        the others keep their places.
    present
        The share of questions, 0 to 1, whose keys are in the text. Below 1, the question allows
        the answer "none", and all keys of a context differ in one part only.
    """

    haystack: str = "essay"
    type_needle_k: str = "words"
    type_needle_v: str = "numbers"
    num_needle_k: int = 1
    num_needle_v: int = 1
    num_needle_q: int = 1
    depth: float | None = None
    present: float = 1.0

    family = "niah"
    category = RETRIEVAL
    answer_tokens = 128

    def __post_init__(self) -> None:
        one_of("haystack", self.haystack, HAYSTACKS)
        one_of("type_needle_k", self.type_needle_k, VALUE_TYPES)
        one_of("type_needle_v", self.type_needle_v, VALUE_TYPES)
        for name in ("num_needle_k", "num_needle_v", "num_needle_q"):
            whole_number(name, getattr(self, name), 1, len(DEPTHS))
        if self.depth is not None:
            number("depth", self.depth, 0, 100)
        number("present", self.present, 0, 1)
        if self.num_needle_k < self.num_needle_q:
            object.__setattr__(self, "num_needle_k", self.num_needle_q)
        if self.num_needles > len(DEPTHS):
            most = f"at most {len(DEPTHS)}, the number of depths"
            raise ParameterError("num_needle_k * num_needle_v", self.num_needles, most)

    def stated(self) -> dict[str, Any]:
        """Return the parameters as a dataset records them: ``present`` only if it is below 1."""
        return {k: v for k, v in self.settings().items() if k != "present" or v < 1}

    @property
    def num_needles(self) -> int:
        """Needles in the text, without the distractors of the haystack."""
        return self.num_needle_k * self.num_needle_v

    @property
    def num_values(self) -> int:
        """Values in the answer."""
        return self.num_needle_q * self.num_needle_v

    @property
    def scoring(self) -> Scoring:
        """RULER's rule, or one that accepts the answer "none" if keys may be absent."""
        return ABSENCE if self.present < 1 else LIST

    @property
    def most_queries(self) -> tuple[int | None, str]:
        """The number of keys in the text, unless one more needle changes nothing."""
        if self.depth is not None:
            return 1, "a depth that is set holds for one needle alone"
        if self.haystack == "needle" and self.num_needle_v == 1:
            # One more needle among distractors of the same form changes nothing.
            return None, ""
        most = self.num_needle_k // self.num_needle_q
        return most, "each key is asked for once, and num_needle_k sets how many there are"

    # --- The haystack ------------------------------------------------------------------------

    @cached_property
    def filler(self) -> Haystack:
        """The line of noise, the sentences of the texts, or distractors."""
        if self.haystack == "needle":
            return Pool([*self._distractors], "\n", self.budget.tokenizer)
        return super().filler

    @cached_property
    def _distractors(self) -> dict[str, tuple[str, str]]:
        """Key and value of each distractor by its sentence."""
        rng = random.Random(f"{self.seed} pool")
        drawn: dict[str, tuple[str, str]] = {}
        used = set[str]()

        def draw() -> tuple[str, str] | None:
            key = value_of(self.type_needle_k, self.language, rng)
            value = value_of(self.type_needle_v, self.language, rng)
            return None if key == value or key in used or value in used else (key, value)

        def add(count: int) -> None:
            while len(drawn) < count:
                key, value = fresh(f"key of {self.type_needle_k}", draw)
                used.update((key, value))
                drawn[self._sentence(key, value)] = key, value

        add(FEWEST)
        cheapest = Pool([*drawn], "\n", self.budget.tokenizer).cheapest
        add(POOL_FACTOR * self.budget.length // cheapest)
        return drawn

    def mark(self, units: Iterable[tuple[str, int]]) -> list[Part]:
        """Return the parts of distractors: each is one part, and its value another."""
        if self.haystack != "needle":
            return []
        parts = []
        for text, start in units:
            key, value = self._distractors[text]
            first = start + text.rindex(value)
            parts.append(Part("distractor", start, start + len(text), key))
            parts.append(Part("value", first, first + len(value)))
        return parts

    def _sentence(self, key: str, value: str) -> str:
        return self._template.replace("{key}", key).replace("{value}", value)

    @cached_property
    def _template(self) -> str:
        """The sentence of a needle, with ``{key}`` and ``{value}``."""
        return self.language.fill("niah", "needle", **self.language.label(self.type_needle_v, 2))

    # --- The questions -----------------------------------------------------------------------

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return ``queries`` questions about one context, and a function that fills it.

        All requested keys differ. In a haystack of needles each question brings its own keys.
        """
        draw_key: Callable[[], str] = partial(value_of, self.type_needle_k, self.language, rng)
        if self.present < 1:
            draw_key = alike(draw_key, rng)
        count = queries * self.num_needle_q
        values = self._draw(rng, self.num_needle_k, [], draw_key)
        while len(values) < count:
            # One by one: of many at once, some key would always occur in a long haystack.
            used = [*values, *(value for each in values.values() for value in each)]
            values |= self._draw(rng, 1, used, draw_key)
        numbers = rng.sample(range(len(values)), count)
        keys = [[*values][at] for at in numbers]
        pairs = [(key, value) for key in values for value in values[key]]
        if self.num_needles == 1 and len(pairs) > 1:
            # Each needle at the place that it would have alone.
            placed = sorted((depth_of(index * queries + at), key) for at, key in enumerate(numbers))
            pairs = [pairs[key] for _, key in placed]
            depths: list[float] = [depth for depth, _ in placed]
        else:
            depths = self._place(pairs, keys[0], index, rng)
        needles = [
            Needle.holding(value, self._sentence(key, value), depth, key)
            for (key, value), depth in zip(pairs, depths, strict=True)
        ]
        used = [text for pair in pairs for text in pair]
        drafts = []
        for at in range(queries):
            present = is_there(index * queries + at, self.present, self.seed)
            if present:
                asked = keys[at * self.num_needle_q : (at + 1) * self.num_needle_q]
                draft = self._ask(asked, pairs, needles)
            else:
                missing = list[str]()
                for _ in range(self.num_needle_q):
                    missing += self._draw(rng, 1, [*used, *missing], draw_key)
                used += missing
                draft = Draft(*self.prompt(missing), [self._none], needles)
            if self.present < 1:
                draft.facts = {"present": present}
            drafts.append(draft)
        return drafts, partial(self.filler.draw, rng=rng)

    def _ask(
        self, keys: Sequence[str], pairs: Sequence[tuple[str, str]], needles: list[Needle]
    ) -> Draft:
        """Return the question about keys that are in the text."""
        # Key by key, the values of each in the order of the text.
        order = [at for key in keys for at, pair in enumerate(pairs) if pair[0] == key]
        others = [at for at in range(len(pairs)) if at not in order]
        outputs = [pairs[at][1] for at in order]
        return Draft(*self.prompt(keys), outputs, needles, order + others, asked=len(order))

    def prompt(self, keys: Sequence[str]) -> tuple[str, str, str]:
        """Return the text before the context, the text after it, and the answer prefix."""
        wording, form = self.wording, "one" if self.num_values == 1 else "many"
        label = wording.label(self.type_needle_v, self.num_values)
        names = {**label, "query": wording.join(keys)}
        head, tail, prefix = wording.question("niah", form, **names)
        if self.present < 1:
            allowed = {**names, "question": tail, "none": self._none}
            tail = wording.fill("absent", form, "unless", **allowed)
            prefix = wording.fill("absent", form, "answer_prefix", **names)
        return head, tail, prefix

    @property
    def _none(self) -> str:
        """The right answer if the keys are absent: "none"."""
        return str(self.wording.section("absent")["none"][0])

    def _draw(
        self, rng: random.Random, count: int, used: Sequence[str], draw_key: Callable[[], str]
    ) -> dict[str, list[str]]:
        """Draw keys and values that occur nowhere else in the prompt, nor within each other."""
        size = self.num_needle_v
        wording = self._sentence("", "").casefold()

        def draw() -> dict[str, list[str]] | None:
            keys = [draw_key() for _ in range(count)]
            values = [value_of(self.type_needle_v, self.language, rng) for _ in range(count * size)]
            text = "\n".join([*keys, *values, *dict.fromkeys(used), wording])
            if any(text.count(name) > 1 for name in [*keys, *values, *used]):
                return None
            if any(self.filler.contains(name) for name in [*keys, *values]):
                return None
            return {key: values[at * size : (at + 1) * size] for at, key in enumerate(keys)}

        return fresh(f"key of {self.type_needle_k} with {self.type_needle_v}", draw)

    def _place(
        self, pairs: list[tuple[str, str]], first: str, index: int, rng: random.Random
    ) -> list[float]:
        """Shuffle needles in place, and return their depths.

        If the parameter ``depth`` is set, one needle of the key ``first`` moves there.
        """
        if len(pairs) == 1:
            return [depth_of(index) if self.depth is None else self.depth]
        rng.shuffle(pairs)
        depths = depths_of(len(pairs), rng)
        if self.depth is not None:
            old = [key for key, _ in pairs].index(first)
            moved = pairs.pop(old)
            del depths[old]
            new = bisect.bisect_left(depths, self.depth)
            pairs.insert(new, moved)
            depths.insert(new, self.depth)
        return depths

    @property
    def digest(self) -> str | None:
        """A short hash of the wording of questions about absent keys, or None."""
        return digest([repr(self.wording.section("absent"))]) if self.present < 1 else None

    # --- Answers -----------------------------------------------------------------------------

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        present = prediction.others.get("facts", {}).get("present")
        if present is None or (present and not says_none(prediction.pred)):
            return mistakes.explain_values(prediction, cut_off)
        if present:
            return "said none though present"
        text = clean(prediction.pred)
        parts = prediction.parts_of("question")
        asked = normalize("".join(prediction.input[part.start :] for part in parts))
        # An answer may repeat the key.
        if any(value not in asked for value in VALUE.findall(normalize(text))):
            return "answered though absent"
        kind = mistakes.opening(text, cut_off, mistakes.refused(text))
        return kind or ("cut off" if cut_off else "other")

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the values of the keys that a prompt asks for, key by key."""
        for form in ("one", "many"):
            names = language.unfill(prompt, "niah", form, "template")
            if names is None:
                continue
            needles = [*language.pattern("niah", "needle").finditer(names["context"])]
            keys = language.split(names["query"])
            values = [hit["value"] for key in keys for hit in needles if hit["key"] == key]
            none = language.templates.get("absent", {}).get("none", [""])[0]
            question = prompt[len(names["context"]) :]
            return language.join(values) or (none if none in question else "")
        return None


def value_of(kind: str, language: Language, rng: random.Random) -> str:
    """Return a random key or value: a word pair, a 7-digit number or a version 4 UUID."""
    if kind == "numbers":
        return str(rng.randrange(1_000_000, 10_000_000))
    if kind == "uuids":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return f"{rng.choice(language.adjectives)}-{rng.choice(language.nouns)}"


def is_there(index: int, share: float, seed: str) -> bool:
    """Return whether the text has what question ``index`` asks for; ``share`` is how often.

    Questions form blocks: of two for a half, of ten for seven tenths. Each block has the exact
    share, and the seed decides its order, so that presence is independent of depth.

    >>> [is_there(index, 0.5, "42") for index in range(8)].count(True)
    4
    """
    size = Fraction(share).limit_denominator(LARGEST_BLOCK).denominator
    block, place = divmod(index, size)
    # If no block of this size can have the exact share, several of them together have it.
    before = math.floor(block * size * share + 0.5)
    after = math.floor((block + 1) * size * share + 0.5)
    order = random.Random(f"{seed} present {block}").sample(range(size), size)
    return place in order[: after - before]


def alike(draw: Callable[[], str], rng: random.Random) -> Callable[[], str]:
    """Return a function that draws keys which differ from each other in one part only.

    Of two words one stays the same; of a UUID all groups but the first, or all but the last; of a
    number the first three digits, or the rest.

    >>> near = alike(iter(["grøn-lampe", "rød-dør", "blå-sko"]).__next__, random.Random(1))
    >>> near(), near()
    ('rød-lampe', 'blå-lampe')
    """

    def parts_of(key: str) -> list[str]:
        return key.split("-") if "-" in key else [key[:3], key[3:]]

    first = parts_of(draw())
    changed = rng.choice((0, len(first) - 1))

    def near() -> str:
        key = draw()
        parts = [*first]
        parts[changed] = parts_of(key)[changed]
        return ("-" if "-" in key else "").join(parts)

    return near


TASKS = {
    "niah_single_1": Niah(haystack="noise"),
    "niah_single_2": Niah(haystack="essay"),
    "niah_single_3": Niah(haystack="essay", type_needle_v="uuids"),
    "niah_multikey_1": Niah(haystack="essay", num_needle_k=4),
    "niah_multikey_2": Niah(haystack="needle"),
    "niah_multikey_3": Niah(haystack="needle", type_needle_k="uuids", type_needle_v="uuids"),
    "niah_multivalue": Niah(haystack="essay", num_needle_v=4),
    "niah_multiquery": Niah(haystack="essay", num_needle_k=4, num_needle_q=4),
    "niah_single_4": Niah(haystack="essay", type_needle_v="words"),
    "niah_multivalue_2": Niah(haystack="essay", num_needle_v=2),
    "niah_multiquery_2": Niah(haystack="essay", num_needle_k=2, num_needle_q=2),
}
"""RULER's eight tasks, and three settings that it left out."""
