"""Variable tracking: chains of variables, each given the value of the one before it.

An example of ``vt`` (Danish, shortened, without the worked example that precedes it)::

    Følg kæden eller kæderne af variable, der får tildelt en værdi i den følgende tekst.

    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    VAR QAGGI = 44223.
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    VAR AHNRW = VAR QAGGI.
    ...
    VAR WSQTA = VAR AHNRW.
    VAR KZVGX = VAR WSQTA.
    Græsset er grønt. Himlen er blå. Solen er gul. Nu går det løs. Ud og hjem igen.
    VAR NLZFN = VAR KZVGX.
    Spørgsmål: Find alle de variable, der har fået tildelt værdien 44223 i teksten ovenfor.

    outputs: ["QAGGI", "AHNRW", "WSQTA", "KZVGX", "NLZFN"]

RULER's test of coreference (Hsieh et al. 2024, "RULER: What's the Real Context
Size of Your Long-Context Language Models?", section 3.2): to find the names one
has to follow the chain, one assignment ("hop") after another.
"""

from __future__ import annotations

import itertools
import random
import string
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from rulerlib.errors import flag, one_of, require, whole_number
from rulerlib.filling import Take
from rulerlib.haystack import Draft, Filling, Needle, depths_of
from rulerlib.parts import Part
from rulerlib.scoring import LIST
from rulerlib.tasks import mistakes, readers
from rulerlib.tasks.family import TRACING, Checked, Family, Maker, fresh, knob

HAYSTACKS = ("noise", "essay")

# RULER's names have five letters. Shorter ones than three would be too few, or stand in any prose.
SHORTEST, LONGEST = 3, 40

# Many more assignments than any study has asked for.
MOST_ASSIGNMENTS = 1000

# The worked example is short: this many units of haystack, and at most these chains and hops.
EXAMPLE_UNITS = 4
EXAMPLE_CHAINS = 2
EXAMPLE_HOPS = 10


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about variable tracking.

    Attributes
    ----------
    haystack
        ``"noise"``: one line again and again; ``"essay"``: prose.
    num_chains
        Chains in the text; one of them is asked for.
    num_hops
        Assignments of one variable to the next in each chain, which has one variable more.
    few_shot
        Whether a short example with its answer comes first, as in RULER.
    name_length
        Letters of a variable's name, 3 to 40.
    """

    haystack: str = knob("noise", one_of, HAYSTACKS)
    num_chains: int = knob(1, whole_number, 1, MOST_ASSIGNMENTS)
    num_hops: int = knob(4, whole_number, 1, MOST_ASSIGNMENTS)
    few_shot: bool = knob(True, flag)
    name_length: int = knob(5, whole_number, SHORTEST, LONGEST, later=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        assignments = self.num_chains * (self.num_hops + 1)
        allowed_values = f"at most {MOST_ASSIGNMENTS}, the number of assignments"
        holds = assignments <= MOST_ASSIGNMENTS
        require(holds, "num_chains * (num_hops + 1)", assignments, allowed_values)


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """Return how many questions one context can be asked, and what decides it."""
    return knobs.num_chains, "each chain is asked for once, and num_chains sets how many there are"


class Variables(NamedTuple):
    """Variables that all have one value."""

    names: list[str]
    value: str


class Chains(Maker):
    """Makes the samples of one setting of the knobs; all that is drawn belongs to a sample."""

    knobs: Knobs

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return a draft for each of the first ``queries`` chains, and a function that fills up.

        The worked example comes before the context, and is one and the same for all of them.
        """
        knobs = self.knobs
        examples = min(knobs.num_chains, EXAMPLE_CHAINS) if knobs.few_shot else 0
        sizes = [knobs.num_hops + 1] * knobs.num_chains
        sizes += [min(knobs.num_hops, EXAMPLE_HOPS) + 1] * examples
        # Drawn together, so that nothing in the example stands in the question.
        chains = self._chains(sizes, rng)
        hidden, shown = chains[: knobs.num_chains], chains[knobs.num_chains :]
        needles, turns = self._scatter(hidden, rng)
        example, parts = self._example(shown, rng) if shown else ("", [])
        drafts = []
        for number, chain in enumerate(hidden[:queries]):
            # Its own assignments first; sorting keeps their order.
            order = sorted(range(len(turns)), key=lambda at: turns[at] != number)
            head, tail, prefix = self._question(chain)
            draft = Draft(example + head, tail, prefix, chain.names, needles, order)
            draft.asked, draft.role, draft.head_parts = len(chain.names), "hop", parts
            drafts.append(draft)
        return drafts, partial(self.haystack.draw, rng=rng)

    def _chains(self, sizes: list[int], rng: random.Random) -> list[Variables]:
        """Return a chain of each size, in variables; names and values stand nowhere else.

        Names are of one length, and so are values: none can stand in another.
        """
        templates = [
            pack.text("variable_tracking", "template") for pack in (self.language, self.wording)
        ]
        wording = " ".join([*templates, "VAR"]).casefold()
        taken: set[str] = set()

        def free(text: str) -> str | None:
            used = text in taken or text.casefold() in wording
            if used or self.haystack.contains(text):
                return None
            taken.add(text)
            return text

        def name() -> str | None:
            return free("".join(rng.choices(string.ascii_uppercase, k=self.knobs.name_length)))

        def value() -> str | None:
            return free(str(rng.randrange(10_000, 100_000)))

        return [
            Variables([fresh("name", name) for _ in range(size)], fresh("value", value))
            for size in sizes
        ]

    def _scatter(
        self, chains: list[Variables], rng: random.Random
    ) -> tuple[list[Needle], list[int]]:
        """Return assignments at random depths, and for each the number of its chain.

        The chains interleave at random; each keeps its own order.
        """
        turns = [number for number, chain in enumerate(chains) for _ in chain.names]
        rng.shuffle(turns)
        assignments = [self._assignments(chain) for chain in chains]
        needles = []
        for number, depth in zip(turns, depths_of(len(turns), rng), strict=True):
            name, text = next(assignments[number])
            start = text.index(name)
            needles.append(Needle(text, depth, (start, start + len(name))))
        return needles, turns

    def _assignments(self, chain: Variables) -> Iterator[tuple[str, str]]:
        """Yield each variable of a chain, with its assignment."""
        first, fill = chain.names[0], self.language.fill
        yield first, fill("variable_tracking", "assignment", name=first, value=chain.value)
        for other, name in itertools.pairwise(chain.names):
            yield name, fill("variable_tracking", "alias", name=name, other=other)

    def _question(self, chain: Variables) -> tuple[str, str, str]:
        """Return what stands before the context, after it, and before the answer."""
        return self.wording.question("variable_tracking", query=chain.value, count=len(chain.names))

    def _example(self, chains: list[Variables], rng: random.Random) -> tuple[str, list[Part]]:
        """Return a short prompt with its answer, built as the real one is, and its parts."""
        units = self.haystack.units
        start = rng.randrange(len(units))
        some = [units[(start + number) % len(units)] for number in range(EXAMPLE_UNITS)]
        needles, _ = self._scatter(chains, rng)
        context = Filling(some, [1] * len(some), self.haystack.seam).insert(
            [needle.text for needle in needles],
            [needle.depth for needle in needles],
            [0] * len(needles),
        )
        head, tail, prefix = self._question(chains[0])
        answer = self.wording.join(chains[0].names)
        text = f"{head}{context.text}{tail}{prefix} {answer}"
        parts = [Part("example", 0, len(text))]
        for start, needle in zip(context.needle_starts(), needles, strict=True):
            first = len(head) + start + needle.value_start
            parts.append(Part("value", first, first + self.knobs.name_length))
        return text + "\n\n", parts


FAMILY = Family(
    name="variable_tracking",
    knobs=Knobs,
    variants={"vt": Knobs()},
    category=TRACING,
    scoring=LIST,
    # RULER's 30 are for five names.
    tokens_to_generate=lambda knobs: max(30, 6 * (knobs.num_hops + 1)),
    maker=Chains,
    most_queries=most_queries,
    explain=mistakes.explain_values,
    reader=readers.variables,
    beside={"vt_2": Knobs(num_chains=2, num_hops=2)},
)
"""RULER's setting: noise, one chain, four hops; and one that it left out (figure 5 of its paper):
two chains of two hops."""
