"""Needle in a haystack: sentences with a key and a value, hidden at known depths.

An example of ``niah_single_1`` (Danish, shortened)::

    Et særligt magisk tal er gemt i den følgende tekst. Læg godt mærke til det. ...
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    Et af de særlige magiske tal for stille-hylde er: 4821093.
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    Hvad er det særlige magiske tal for stille-hylde, som er nævnt i teksten?

    outputs: ["4821093"]

Eight variants are settings of six knobs (Hsieh et al. 2024, "RULER: What's the Real Context Size
of Your Long-Context Language Models?", appendix B). Of the 18 settings from which RULER's thirteen
tasks were chosen, three more are needles (figure 5 in appendix C): two values, two queries, and
words as values. `Classic` makes the two tests that came before RULER.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any

from rulerlib.errors import one_of, require, whole_number
from rulerlib.filling import Take
from rulerlib.haystack import DEPTHS, Draft, Haystack, Needle, Pool, depth_of, depths_of, one_depth
from rulerlib.languages import VALUE_TYPES, Language
from rulerlib.parts import Part
from rulerlib.scoring import ABSENCE, LIST
from rulerlib.tasks import absence, readers
from rulerlib.tasks.family import RETRIEVAL, TRIES, Checked, Family, Maker, fresh, knob, share
from rulerlib.texts import digest

HAYSTACKS = ("noise", "essay", "needle")

NEEDLES = ("magic", "passkey", "sentence")

# A pool holds this many times the distractors of one prompt, so that two prompts differ.
POOL_FACTOR = 2


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about a needle-in-a-haystack task.

    Attributes
    ----------
    haystack
        ``"noise"``: one line again and again; ``"essay"``: prose; ``"needle"``:
        distractors of the same form as the needle.
    type_needle_k, type_needle_v
        What keys and values are: ``"words"``, ``"numbers"`` (7 digits) or ``"uuids"``.
    num_needle_k, num_needle_v, num_needle_q
        Number of keys, of values of each key, and of keys asked for. As in RULER's script, the
        first is raised to the last where it is smaller.
    depth
        None: depths as in RULER. A number from 0 (start) to 100 (end) puts the needle that is
        asked for there. Where several are asked for, it puts one of the first key's there; the
        others stay where they would be without it.
    needle
        ``"magic"``: RULER's sentence with a key and a value; ``"passkey"`` and ``"sentence"``:
        one needle of the tests before RULER, in noise or essays, see `Classic`.
    present
        The share of questions, 0 to 1, whose keys stand in the text. Below 1 the question allows
        the answer that there is none, and the keys of a context differ in one part alone; those of
        the other questions do not stand there, neither one nor all of them. See
        `rulerlib.tasks.absence`.
    """

    haystack: str = knob("essay", one_of, HAYSTACKS)
    type_needle_k: str = knob("words", one_of, VALUE_TYPES)
    type_needle_v: str = knob("numbers", one_of, VALUE_TYPES)
    num_needle_k: int = knob(1, whole_number, 1, len(DEPTHS))
    num_needle_v: int = knob(1, whole_number, 1, len(DEPTHS))
    num_needle_q: int = knob(1, whole_number, 1, len(DEPTHS))
    depth: float | None = knob(None, one_depth)
    needle: str = knob("magic", one_of, NEEDLES, later=True)
    present: float = knob(1.0, share, later=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_needle_q > self.num_needle_k:
            object.__setattr__(self, "num_needle_k", self.num_needle_q)
        count, most = self.num_needles, f"at most {len(DEPTHS)}, the number of depths"
        require(count <= len(DEPTHS), "num_needle_k * num_needle_v", count, most)
        if self.needle == "magic":
            return
        # A needle from before RULER knows nothing of the other knobs.
        allowed_values = f"'noise' or 'essay' where needle is {self.needle!r}"
        require(self.haystack != "needle", "haystack", self.haystack, allowed_values)
        for item in fields(self):
            value, usual = getattr(self, item.name), item.default
            allowed_values = f"{usual!r} where needle is {self.needle!r}"
            free = item.name in ("haystack", "depth", "needle")
            require(free or value == usual, item.name, value, allowed_values)

    @property
    def num_needles(self) -> int:
        """Needles in the text that are not distractors of the haystack."""
        return self.num_needle_k * self.num_needle_v

    @property
    def num_values(self) -> int:
        """Values in the answer."""
        return self.num_needle_q * self.num_needle_v


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """Return how many questions one context can be asked (None: any number), and why."""
    if knobs.depth is not None:
        return 1, "a depth that is set holds for one needle alone"
    if knobs.haystack == "needle" and knobs.num_needle_v == 1:
        # One more needle stands among distractors of its own form, and changes nothing.
        return None, ""
    if knobs.num_needles == 1:
        return 1, (
            "a second needle in the text would make another task (niah_multikey_1 has several,"
            " and num_needle_k sets how many)"
        )
    most = knobs.num_needle_k // knobs.num_needle_q
    return most, "each key is asked for once, and num_needle_k sets how many there are"


class Needles(Maker):
    """Makes the samples of one setting; from ``seed`` the pool of distractors is drawn."""

    knobs: Knobs

    @cached_property
    def haystack(self) -> Haystack:
        """The line of noise, the sentences of the texts, or distractors, counted once."""
        if self.knobs.haystack == "needle":
            return Pool([*self._hidden], "\n", self.budget.tokenizer)
        return super().haystack

    @property
    def alike(self) -> bool:
        return self.knobs.present == 1

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return ``queries`` drafts about the keys of one context, and a function that fills it.

        No key is asked for twice. In a haystack of needles each question brings its keys.
        """
        knobs = self.knobs
        count = queries * knobs.num_needle_q
        draw: Callable[[], str] = partial(value_of, knobs.type_needle_k, self.language, rng)
        draw = draw if knobs.present == 1 else absence.alike(draw, rng)
        drawn = self._draw(rng, max(knobs.num_needle_k, count), draw)
        numbers = rng.sample(range(len(drawn)), count)
        keys = [[*drawn][number] for number in numbers]
        pairs = [(key, value) for key, values in drawn.items() for value in values]
        if knobs.num_needles == 1 and len(pairs) > 1:
            # Each needle where it would be if it were alone, in the order of the text.
            placed = sorted((depth_of(index * queries + at), key) for at, key in enumerate(numbers))
            pairs = [pairs[key] for _, key in placed]
            depths: list[float] = [depth for depth, _ in placed]
        else:
            depths = self._depths(pairs, keys[0], index, rng)
        needles = []
        for (key, value), depth in zip(pairs, depths, strict=True):
            text = self._needle(key, value)
            needles.append(Needle.holding(value, text, depth, key))
        taken, drafts = [*itertools.chain(*pairs)], []
        for number in range(queries):
            wanted = keys[number * knobs.num_needle_q : (number + 1) * knobs.num_needle_q]
            place = index * queries + number
            there = knobs.present == 1 or absence.is_there(place, knobs.present, self._seed)
            if not there:
                for _ in wanted:
                    taken += self._draw_some(rng, 1, taken, draw)
                wanted = taken[-len(wanted) :]
            draft = self._ask(wanted, pairs, needles)
            if knobs.present < 1:
                absence.allow_none(draft, there, self.wording, self._form, self._names(wanted))
            drafts.append(draft)
        return drafts, partial(self.haystack.draw, rng=rng)

    def _depths(
        self, pairs: list[tuple[str, str]], first: str, index: int, rng: random.Random
    ) -> list[float]:
        """Bring the needles of a context into any order, and return their depths.

        Where a depth is set, one needle of the key ``first`` moves there.
        """
        depth = self.knobs.depth
        if len(pairs) == 1:
            return [depth_of(index) if depth is None else depth]
        rng.shuffle(pairs)
        depths = depths_of(len(pairs), rng)
        if depth is not None:
            number = next(at for at, (key, _) in enumerate(pairs) if key == first)
            moved = pairs.pop(number)
            del depths[number]
            number = bisect.bisect_left(depths, depth)
            pairs.insert(number, moved)
            depths.insert(number, depth)
        return depths

    @property
    def _form(self) -> str:
        """The form of the question, for one value or for many."""
        return "one" if self.knobs.num_values == 1 else "many"

    def _names(self, queries: list[str]) -> dict[str, str]:
        """Return what the template of a question names."""
        label = self.wording.label(self.knobs.type_needle_v, self.knobs.num_values)
        return {**label, "query": self.wording.join(queries)}

    def _ask(
        self, queries: list[str], pairs: list[tuple[str, str]], needles: list[Needle]
    ) -> Draft:
        """Return the question about some keys of a context."""
        # Answers: key by key as asked, the values of one key as they stand in the text.
        order = [at for query in queries for at, (key, _) in enumerate(pairs) if key == query]
        outputs = [pairs[at][1] for at in order]
        order += [at for at in range(len(pairs)) if at not in order]
        head, tail, prefix = self.wording.question("niah", self._form, **self._names(queries))
        return Draft(head, tail, prefix, outputs, needles, order, asked=len(outputs))

    @property
    def digest(self) -> str | None:
        """A short hash of how a language says that there is none; None where no question does."""
        return absence.wording(self.wording) if self.knobs.present < 1 else None

    def mark(self, units: Iterable[tuple[str, int]]) -> list[Part]:
        """Return the parts of a needle haystack: each needle is a distractor and has a value."""
        if self.knobs.haystack != "needle":
            return []
        parts = []
        for text, start in units:
            key, first, last = self._hidden[text]
            parts.append(Part("distractor", start, start + len(text), key))
            parts.append(Part("value", start + first, start + last))
        return parts

    def _needle(self, key: str, value: str) -> str:
        return self._sentence.replace("{key}", key).replace("{value}", value)

    @cached_property
    def _sentence(self) -> str:
        """The sentence of a needle, in which its key and its value are left open."""
        label = self.language.label(self.knobs.type_needle_v, 2)
        return self.language.fill("niah", "needle", label)

    def _draw(
        self, rng: random.Random, count: int, draw: Callable[[], str]
    ) -> dict[str, list[str]]:
        """Return values by key, as ``draw`` draws keys.

        No key or value stands in another or in the haystack.
        """
        drawn = self._draw_some(rng, self.knobs.num_needle_k, (), draw)
        while len(drawn) < count:
            # One by one: of many at once, one or another would always stand in a long haystack.
            taken = [*drawn, *itertools.chain(*drawn.values())]
            drawn |= self._draw_some(rng, 1, taken, draw)
        return drawn

    def _draw_some(
        self, rng: random.Random, count: int, taken: Sequence[str], draw: Callable[[], str]
    ) -> dict[str, list[str]]:
        """Return values by key; none of them stands in any of ``taken`` or holds one of these."""
        knobs, language = self.knobs, self.language
        wording = self._needle("", "").casefold()

        def pairs() -> dict[str, list[str]] | None:
            keys = [draw() for _ in range(count)]
            size = count * knobs.num_needle_v
            values = [value_of(knobs.type_needle_v, language, rng) for _ in range(size)]
            names = [*keys, *values]
            alone = all(
                name not in other
                for at, name in enumerate(names)
                for other in (*names[:at], *names[at + 1 :], *taken, wording)
            ) and not any(old in name for old in taken for name in names)
            if not alone or any(self.haystack.contains(name) for name in names):
                return None
            rest = iter(values)
            return {key: [*itertools.islice(rest, knobs.num_needle_v)] for key in keys}

        return fresh(f"key of {knobs.type_needle_k} with {knobs.type_needle_v}", pairs)

    @cached_property
    def _hidden(self) -> dict[str, tuple[str, int, int]]:
        """Distractors by text, twice those of a prompt: key, and start and end of the value."""
        knobs = self.knobs
        kinds = knobs.type_needle_k, knobs.type_needle_v
        pool = distractors(f"{self._seed} pool", kinds, self.language, self._sentence)
        cheapest = Pool([*pool.first(64)], "\n", self.budget.tokenizer).cheapest
        count = max(64, POOL_FACTOR * self.budget.length // cheapest)
        units = pool.first(count)
        allowed_values = (
            f"shorter: only {len(units)} different {knobs.type_needle_k} were found for"
            " the keys of a needle haystack"
        )
        require(len(units) >= count, "length", self.budget.length, allowed_values)
        return units


class Classic(Maker):
    """Makes the samples of one needle as it was before RULER: a pass key, or a sentence.

    ``passkey`` is the test of Mohtashami and Jaggi (2023, "Landmark Attention"), a number said
    twice; ``niah_vanilla`` that of Kamradt (2023, "Needle In A Haystack"), what is best to do in a
    town. The sentences are our own, in every language.
    """

    @property
    def digest(self) -> str:
        """A short hash of the section of the language pack that these tests are made of."""
        section = self.language.section("classics")
        return digest([json.dumps(section[self.knobs.needle], sort_keys=True)])

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return the draft of one needle, and a function that fills a token budget."""
        knobs, path = self.knobs, ("classics", self.knobs.needle)
        key, value = fresh(knobs.needle, partial(self._draw, rng))
        text = self.language.fill(*path, "needle", key=key, value=value)
        depth = depth_of(index) if knobs.depth is None else knobs.depth
        start = text.index(value)
        needle = Needle(text, depth, (start, start + len(value)), key or None)
        question = self.wording.question(*path, query=key)
        draft = Draft(*question, [value], [needle], [0], asked=1)
        return [draft], partial(self.haystack.draw, rng=rng)

    def _draw(self, rng: random.Random) -> tuple[str, str] | None:
        """Return no key and a number of 7 digits, or a town and what can be done there.

        None where the haystack has that value already.
        """
        if self.knobs.needle == "passkey":
            key, value = "", value_of("numbers", self.language, rng)
        else:
            lists = self.language.section("classics")["sentence"]["lists"]
            drawn = {name: rng.choice(words) for name, words in lists.items()}
            key = drawn["town"]
            value = self.language.fill("classics", "sentence", "value", **drawn)
        return None if self.haystack.contains(value) else (key, value)


def value_of(kind: str, language: Language, rng: random.Random) -> str:
    """Return a random key or value: a word pair, a 7-digit number or a version 4 UUID."""
    if kind == "numbers":
        return str(rng.randrange(1_000_000, 10_000_000))
    if kind == "uuids":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return f"{rng.choice(language.adjectives)}-{rng.choice(language.nouns)}"


class Distractors:
    """Needles that nobody asks for, all different, drawn as far as they were needed.

    ``kinds`` are what their keys and values are; ``sentence`` has ``{key}`` and ``{value}``.
    """

    def __init__(
        self, seed: str, kinds: tuple[str, str], language: Language, sentence: str
    ) -> None:
        self._rng, self._kinds, self._language = random.Random(seed), kinds, language
        self._sentence, self._names = sentence, set[str]()
        self._units: dict[str, tuple[str, int, int]] = {}

    def first(self, count: int) -> dict[str, tuple[str, int, int]]:
        """Return the first ``count``, or all there are, by text: key, and the value's place."""
        misses = 0
        while len(self._units) < count and misses < TRIES:
            key, value = (value_of(kind, self._language, self._rng) for kind in self._kinds)
            if key == value or key in self._names or value in self._names:
                misses += 1
                continue
            misses = 0
            self._names.update((key, value))
            text = self._sentence.replace("{key}", key).replace("{value}", value)
            start = text.rindex(value)
            self._units[text] = key, start, start + len(value)
        return dict(itertools.islice(self._units.items(), count))


# The next length has the same ones, and more.
distractors = functools.lru_cache(4)(Distractors)


def _maker(knobs: Knobs, *rest: Any) -> Maker:
    """Return what makes the samples of a kind of needle, given the arguments of `Maker`."""
    return (Needles if knobs.needle == "magic" else Classic)(knobs, *rest)


FAMILY = Family(
    name="niah",
    knobs=Knobs,
    variants={
        "niah_single_1": Knobs(haystack="noise"),
        "niah_single_2": Knobs(haystack="essay"),
        "niah_single_3": Knobs(haystack="essay", type_needle_v="uuids"),
        "niah_multikey_1": Knobs(haystack="essay", num_needle_k=4),
        "niah_multikey_2": Knobs(haystack="needle"),
        "niah_multikey_3": Knobs(haystack="needle", type_needle_k="uuids", type_needle_v="uuids"),
        "niah_multivalue": Knobs(haystack="essay", num_needle_v=4),
        "niah_multiquery": Knobs(haystack="essay", num_needle_k=4, num_needle_q=4),
    },
    category=RETRIEVAL,
    scoring=LIST,
    tokens_to_generate=128,
    maker=_maker,
    most_queries=most_queries,
    beside={
        "niah_single_4": Knobs(haystack="essay", type_needle_v="words"),
        "niah_multivalue_2": Knobs(haystack="essay", num_needle_v=2),
        "niah_multiquery_2": Knobs(haystack="essay", num_needle_k=2, num_needle_q=2),
        "passkey": Knobs(haystack="noise", needle="passkey"),
        "niah_vanilla": Knobs(haystack="essay", needle="sentence"),
    },
    explain=absence.explain,
    reader=readers.needles,
    judged=lambda knobs: ABSENCE if knobs.present < 1 else None,
)
"""RULER's eight settings; three that it left out; and the two tests that came before it."""
