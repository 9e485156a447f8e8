"""Needle in a haystack: sentences with a key and a value, hidden at known depths.

An example of ``niah_single_1`` (Danish, shortened)::

    Et særligt magisk tal er gemt i den følgende tekst. Læg godt mærke til det. ...
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    Et af de særlige magiske tal for stille-hylde er: 4821093.
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    Hvad er det særlige magiske tal for stille-hylde, som er nævnt i teksten?

    outputs: ["4821093"]

Eight variants are settings of six knobs (Hsieh et al. 2024, "RULER: What's the
Real Context Size of Your Long-Context Language Models?", appendix B). Of the 18
settings from which RULER's thirteen tasks were chosen, three more are needles:
the labels of figure 5 in appendix C name two values, two queries, and words as
values. That there are two keys where two are asked for is ours to say. The two
tests that came before RULER are `rulerlib.tasks.classics`.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from operator import add, itemgetter
from typing import Any

from rulerlib.errors import DataError, is_number, one_of, require, whole_number
from rulerlib.filling import Take
from rulerlib.haystack import (
    DEPTHS,
    Draft,
    Haystack,
    Needle,
    Pool,
    depth_of,
    depths_of,
    one_depth,
    prose,
)
from rulerlib.languages import VALUE_TYPES
from rulerlib.parts import Column
from rulerlib.scoring import ABSENCE, LIST
from rulerlib.tasks import absence, classics
from rulerlib.tasks.distractors import TRIES, distractors, last_place, value_of
from rulerlib.tasks.family import RETRIEVAL, Family, Maker, later

HAYSTACKS = ("noise", "essay", "needle")

NEEDLES = ("magic", "passkey", "sentence")

# A pool holds this many times the distractors of one prompt, so that two prompts differ.
POOL_FACTOR = 2


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
        Number of keys, of values of each key, and of keys asked for. As in RULER's script, the
        first is raised to the last where it is smaller.
    depth
        None: depths as in RULER. A number from 0 (start) to 100 (end) puts the needle that is
        asked for there. Where several are asked for, it puts one of the first key's there; the
        others stay where they would be without it.
    needle
        ``"magic"``: RULER's sentence with a key and a value; ``"passkey"`` and ``"sentence"``:
        one needle of the tests before RULER, in noise or essays, see `rulerlib.tasks.classics`.
    paraphrase
        The wording of the question: 0, the language's own, or 1 to 3, one of the paraphrases that
        its pack has.
    present
        The share of questions, 0 to 1, whose keys stand in the text. Below 1 the question allows
        the answer that there is none, and the keys of a context differ in one part alone; those of
        the other questions do not stand there, neither one nor all of them. See
        `rulerlib.tasks.absence`.

    Raises
    ------
    ParameterError
        If a value cannot work, alone or with the others: says what is allowed.
    """

    haystack: str = "essay"
    type_needle_k: str = "words"
    type_needle_v: str = "numbers"
    num_needle_k: int = 1
    num_needle_v: int = 1
    num_needle_q: int = 1
    depth: float | None = None
    needle: str = later("magic")
    paraphrase: int = later(0)
    present: float = later(1.0)

    def __post_init__(self) -> None:
        one_of("haystack", self.haystack, HAYSTACKS)
        one_of("type_needle_k", self.type_needle_k, VALUE_TYPES)
        one_of("type_needle_v", self.type_needle_v, VALUE_TYPES)
        for name in ("num_needle_k", "num_needle_v", "num_needle_q"):
            whole_number(name, getattr(self, name), 1, len(DEPTHS))
        if self.num_needle_q > self.num_needle_k:
            object.__setattr__(self, "num_needle_k", self.num_needle_q)
        count = self.num_needles
        allowed = f"at most {len(DEPTHS)}, the number of depths"
        require(count <= len(DEPTHS), "num_needle_k * num_needle_v", count, allowed)
        if self.depth is not None:
            one_depth(self.depth)
        whole_number("paraphrase", self.paraphrase, 0)
        share = is_number(self.present) and 0 <= self.present <= 1
        require(share, "present", self.present, "a share of the questions, from 0 to 1")
        if one_of("needle", self.needle, NEEDLES) != "magic":
            self._check_classic()

    def _check_classic(self) -> None:
        """Check that nothing is set of which a needle from before RULER knows nothing."""
        usual = {item.name: item.default for item in fields(self)}
        only = dict.fromkeys(("haystack", "depth", "needle"))
        for name in [name for name in usual if name not in only]:
            allowed = f"{usual[name]!r} where needle is {self.needle!r}"
            require(getattr(self, name) == usual[name], name, getattr(self, name), allowed)
        allowed = f"'noise' or 'essay' where needle is {self.needle!r}"
        require(self.haystack != "needle", "haystack", self.haystack, allowed)

    @property
    def num_needles(self) -> int:
        """Needles in the text that are not distractors of the haystack."""
        return self.num_needle_k * self.num_needle_v

    @property
    def num_values(self) -> int:
        """Values in the answer."""
        return self.num_needle_q * self.num_needle_v


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """Return how many questions one context can be asked (None: any number), and what decides it.

    One more needle changes nothing in a haystack of needles, where it stands among distractors of
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


class Needles(Maker):
    """Makes the samples of one setting of the knobs.

    ``texts`` are prose for the essay haystack; from ``seed`` the pool of distractors is drawn.
    """

    knobs: Knobs

    @cached_property
    def haystack(self) -> Haystack:
        """The line of noise, the sentences of the texts, or distractors, counted once.

        Raises
        ------
        ParameterError
            If there are too few different keys for distractors of the length.
        """
        tokenizer = self.budget.tokenizer
        if self.knobs.haystack == "noise":
            return Haystack([self.language.noise], "\n", tokenizer)
        if self.knobs.haystack == "essay":
            return prose(self._texts, tokenizer)
        return Pool([*self._hidden], "\n", tokenizer)

    @property
    def alike(self) -> bool:
        """See `Maker`; not where some questions ask for what is not there."""
        return self.knobs.present == 1

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return ``queries`` drafts about the keys of one context, and a function that fills it.

        No key is asked for twice. In a haystack of needles each question brings its keys.

        Raises
        ------
        DataError
            If no keys and values were found that do not stand in the haystack already.
        """
        knobs = self.knobs
        asked_for = queries * knobs.num_needle_q
        draw: Callable[[], str] = partial(value_of, knobs.type_needle_k, self.language, rng)
        draw = draw if knobs.present == 1 else absence.alike(draw, rng)
        drawn = self._draw(rng, max(knobs.num_needle_k, asked_for), draw)
        asked = rng.sample(range(len(drawn)), asked_for)
        keys = [[*drawn][number] for number in asked]
        pairs = [(key, value) for key, values in drawn.items() for value in values]
        if len(pairs) == 1:
            depths = [depth_of(index) if knobs.depth is None else knobs.depth]
        elif knobs.num_needles == 1:
            # Each needle where it would be if it were alone, in the order of the text.
            placed = sorted((depth_of(index * queries + at), key) for at, key in enumerate(asked))
            pairs, depths = [pairs[key] for _, key in placed], [depth for depth, _ in placed]
        else:
            rng.shuffle(pairs)
            depths = depths_of(len(pairs), rng)
            if knobs.depth is not None:
                number = next(at for at, (key, _) in enumerate(pairs) if key == keys[0])
                moved = pairs.pop(number)
                del depths[number]
                number = bisect.bisect_left(depths, knobs.depth)
                pairs.insert(number, moved)
                depths.insert(number, knobs.depth)
        needles = []
        for (key, value), depth in zip(pairs, depths, strict=True):
            text = self._needle(key, value)
            needles.append(Needle(text, depth, last_place(value, text), key))
        firsts = range(0, asked_for, knobs.num_needle_q)
        queried = [keys[first : first + knobs.num_needle_q] for first in firsts]
        if knobs.present == 1:
            drafts = [self._ask(some, pairs, needles) for some in queried]
        else:
            drafts = self._ask_some(queried, pairs, needles, draw, index * queries, rng)
        return drafts, partial(self.haystack.draw, rng=rng)

    def _ask_some(
        self,
        queried: list[list[str]],
        pairs: list[tuple[str, str]],
        needles: list[Needle],
        draw: Callable[[], str],
        first: int,
        rng: random.Random,
    ) -> list[Draft]:
        """Return the questions about a context, of which some ask for keys that it does not have.

        ``draw`` draws their keys, and ``first`` is the place of the first question among all.
        """
        taken = [*itertools.chain(*pairs)]
        drafts = []
        for number, keys in enumerate(queried, first):
            there = absence.is_there(number, self.knobs.present, self._seed)
            if not there:
                known = len(taken)
                for _ in keys:
                    taken += self._draw_some(rng, 1, taken, draw)
                keys = taken[known:]
            draft = self._ask(keys, pairs, needles)
            absence.allow_none(draft, there, self.wording, self._form, self._names(keys))
            drafts.append(draft)
        return drafts

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

    def mark(self, units: Iterable[str], starts: Iterable[int]) -> list[Column]:
        """Return the parts of a needle haystack: each needle is a distractor, and has a value."""
        if self.knobs.haystack != "needle":
            return []
        first, texts = [*starts], [*units]
        hidden = [*map(self._hidden.__getitem__, texts)]
        ends = [*map(add, first, map(len, texts))]
        keys = {"key": [*map(itemgetter(0), hidden)]}
        begin, end = ([*map(add, first, map(itemgetter(at), hidden))] for at in (1, 2))
        return [Column("distractor", first, ends, keys), Column("value", begin, end)]

    def _needle(self, key: str, value: str) -> str:
        return self._sentence.replace("{key}", key).replace("{value}", value)

    @cached_property
    def _sentence(self) -> str:
        """The sentence of a needle, in which its key and its value are left open."""
        return self.language.fill(
            "niah", "needle", self.language.label(self.knobs.type_needle_v, 2)
        )

    @cached_property
    def _wording(self) -> str:
        """The words of every needle."""
        return self._needle("", "").casefold()

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
        wording = self._wording
        for _ in range(TRIES):
            keys = [draw() for _ in range(count)]
            size = count * knobs.num_needle_v
            values = [value_of(knobs.type_needle_v, language, rng) for _ in range(size)]
            names = [*keys, *values]
            alone = all(
                name not in other
                for at, name in enumerate(names)
                for other in (*names[:at], *names[at + 1 :], *taken, wording)
            ) and not any(old in name for old in taken for name in names)
            if alone and not any(self.haystack.contains(name) for name in names):
                each = iter(values)
                return {key: [*itertools.islice(each, knobs.num_needle_v)] for key in keys}
        raise DataError(
            f"No {knobs.type_needle_k} and {knobs.type_needle_v} were found in {TRIES} tries that"
            " do not stand in the haystack's text already."
        )

    @cached_property
    def _hidden(self) -> dict[str, tuple[str, int, int]]:
        """Distractors by text, twice those of a prompt: key, and start and end of the value."""
        knobs = self.knobs
        kinds = knobs.type_needle_k, knobs.type_needle_v
        pool = distractors(f"{self._seed} pool", *kinds, self.language, self._sentence)
        cheapest = Pool([*pool.first(64)], "\n", self.budget.tokenizer).cheapest
        count = max(64, POOL_FACTOR * self.budget.length // cheapest)
        units = pool.first(count)
        allowed = (
            f"shorter: only {len(units)} different {knobs.type_needle_k} were found for"
            " the keys of a needle haystack"
        )
        require(len(units) >= count, "length", self.budget.length, allowed)
        return units


def _maker(knobs: Knobs, *rest: Any) -> Maker:
    """Return what makes the samples of a kind of needle, given the arguments of `Maker`."""
    return (Needles if knobs.needle == "magic" else classics.Classic)(knobs, *rest)


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
    reads_texts=lambda knobs: knobs.haystack == "essay",
    judged=lambda knobs: ABSENCE if knobs.present < 1 else None,
)
"""RULER's eight settings; three that it left out; and the two tests that came before it."""
