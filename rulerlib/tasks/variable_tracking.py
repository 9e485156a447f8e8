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

import random
import string
from dataclasses import dataclass
from functools import cached_property, partial

from rulerlib.errors import DataError, ParameterError, flag, one_of, whole_number
from rulerlib.haystack import DEPTHS, Filling, Haystack, sentences
from rulerlib.tasks.base import Draft, Maker, Needle, Take

HAYSTACKS = ("noise", "essay")

# Letters of a name: RULER's five for the question.
NAME_LENGTH = 5

# Many more assignments than any study has asked for.
MOST_ASSIGNMENTS = 1000

# The worked example is short: so many units of haystack, no more chains and hops than these.
EXAMPLE_UNITS = 4
EXAMPLE_CHAINS = 2
EXAMPLE_HOPS = 10

# How often names are drawn anew when they stand in the text by chance.
TRIES = 1000


@dataclass(frozen=True)
class Knobs:
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
    """

    haystack: str = "noise"
    num_chains: int = 1
    num_hops: int = 4
    few_shot: bool = True

    def __post_init__(self) -> None:
        one_of("haystack", self.haystack, HAYSTACKS)
        for name in ("num_chains", "num_hops"):
            whole_number(name, getattr(self, name), 1, MOST_ASSIGNMENTS)
        flag("few_shot", self.few_shot)
        assignments = self.num_chains * (self.num_hops + 1)
        if assignments > MOST_ASSIGNMENTS:
            raise ParameterError(
                "num_chains * (num_hops + 1)",
                assignments,
                f"at most {MOST_ASSIGNMENTS}, the number of assignments",
            )


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """How many questions one context can be asked, and what decides it."""
    return knobs.num_chains, "each chain is asked for once, and num_chains sets how many there are"


@dataclass
class Chain:
    """Variables that all have one value."""

    names: list[str]
    value: str


class Family(Maker):
    """Makes the samples of one setting of the knobs; parameters as in `rulerlib.tasks.base.Maker`.

    ``texts`` are prose for the essay haystack; ``seed`` is not used, as all that this family draws
    belongs to a sample.
    """

    knobs: Knobs

    @cached_property
    def haystack(self) -> Haystack:
        tokenizer = self.budget.tokenizer
        if self.knobs.haystack == "noise":
            return Haystack([self.language.noise], "\n", tokenizer)
        return Haystack(sentences(self._texts), " ", tokenizer)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Chains, their places, and a question about each of the first so many.

        The worked example comes before the context, and is one and the same for all of them.
        """
        knobs = self.knobs
        examples = min(knobs.num_chains, EXAMPLE_CHAINS) if knobs.few_shot else 0
        sizes = [knobs.num_hops + 1] * knobs.num_chains
        sizes += [min(knobs.num_hops, EXAMPLE_HOPS) + 1] * examples
        # Drawn together, so that nothing in the example stands in the question.
        chains = self._chains(sizes, rng)
        asked, shown = chains[: knobs.num_chains], chains[knobs.num_chains :]
        needles, turns = self._scatter(asked, rng)
        example = self._example(shown, rng) + "\n\n" if shown else ""
        made = []
        for number, chain in enumerate(asked[:queries]):
            own = [place for place, turn in enumerate(turns) if turn == number]
            order = own + [place for place, turn in enumerate(turns) if turn != number]
            head, tail, prefix = self._question(chain)
            made.append(Draft(example + head, tail, prefix, chain.names, needles, order))
        return made, partial(self.haystack.draw, rng=rng)

    def _chains(self, sizes: list[int], rng: random.Random) -> list[Chain]:
        """Chains of so many variables: names and values are all different and stand nowhere else.

        Names are of one length, and so are values: none can stand in another.
        """
        wording = (self.language.text("variable_tracking", "template") + "VAR").casefold()
        taken: set[str] = set()

        def fresh(draw: str) -> str:
            for _ in range(TRIES):
                if draw == "name":
                    found = "".join(rng.choices(string.ascii_uppercase, k=NAME_LENGTH))
                else:
                    found = str(rng.randrange(10_000, 100_000))
                known = found in taken or found.casefold() in wording
                if not known and not self.haystack.contains(found):
                    taken.add(found)
                    return found
            raise DataError(
                f"No {draw} was found in {TRIES} tries that does not stand in the haystack already."
            )

        return [Chain([fresh("name") for _ in range(size)], fresh("value")) for size in sizes]

    def _scatter(self, chains: list[Chain], rng: random.Random) -> tuple[list[Needle], list[int]]:
        """Assignments at random depths, and for each the number of its chain.

        The chains interleave at random; each keeps its own order.
        """
        turns = [number for number, chain in enumerate(chains) for _ in chain.names]
        rng.shuffle(turns)
        # Each depth once, or as evenly as can be where there are more assignments than depths.
        laps = -(-len(turns) // len(DEPTHS))
        depths = sorted(rng.sample(DEPTHS * laps, len(turns)))
        hops = [0] * len(chains)
        needles = []
        for number, depth in zip(turns, depths, strict=True):
            chain, hop = chains[number], hops[number]
            text = self._assignment(chain, hop)
            needles.append(Needle(text, depth, text.index(chain.names[hop])))
            hops[number] += 1
        return needles, turns

    def _assignment(self, chain: Chain, hop: int) -> str:
        name, fill = chain.names[hop], self.language.fill
        if hop == 0:
            return fill("variable_tracking", "assignment", name=name, value=chain.value)
        return fill("variable_tracking", "alias", name=name, other=chain.names[hop - 1])

    def _question(self, chain: Chain) -> tuple[str, str, str]:
        """What stands before the context, after it, and before the answer."""
        return self.language.question(
            "variable_tracking", query=chain.value, count=len(chain.names)
        )

    def _example(self, chains: list[Chain], rng: random.Random) -> str:
        """A short prompt with its answer, built as the real one is."""
        units = self.haystack.units
        start = rng.randrange(len(units))
        some = [units[(start + place) % len(units)] for place in range(EXAMPLE_UNITS)]
        needles, _ = self._scatter(chains, rng)
        context = Filling(some, [1] * len(some), self.haystack.seam).insert(
            [needle.text for needle in needles],
            [needle.depth for needle in needles],
            [0] * len(needles),
        )
        head, tail, prefix = self._question(chains[0])
        answer = self.language.join(chains[0].names)
        return f"{head}{context.text}{tail}{prefix} {answer}"


VARIANTS: dict[str, Knobs] = {"vt": Knobs()}
"""RULER's setting: noise, one chain, four hops."""

TOKENS_TO_GENERATE = 30
METRIC = "all_match"
