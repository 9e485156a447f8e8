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

RULER's test of coreference (Hsieh et al. 2024, "RULER: What's the Real Context Size of Your
Long-Context Language Models?", section 3.2): finding the names takes following the chain, one
assignment ("hop") after another.
"""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass
from functools import partial

from rulerlib.errors import ParameterError, flag, one_of, whole_number
from rulerlib.haystack import Draft, Filling, Needle, Take, depths_of
from rulerlib.languages import Language
from rulerlib.samples import Part
from rulerlib.tasks.family import TRACING, Task, fresh

HAYSTACKS = ("noise", "essay")

# The largest number of assignments; no study has asked for more.
MOST_ASSIGNMENTS = 1000

# Letters of a variable's name.
NAME_LENGTH = 5

# The worked example has this many units of haystack, and at most these chains and hops.
EXAMPLE_UNITS = 4
EXAMPLE_CHAINS = 2
EXAMPLE_HOPS = 10

Chain = tuple[list[str], str]
"""The variables of a chain, and the value that all of them have."""


@dataclass(frozen=True)
class VariableTracking(Task):
    """A task of variable tracking.

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

    family = "variable_tracking"
    category = TRACING

    def __post_init__(self) -> None:
        one_of("haystack", self.haystack, HAYSTACKS)
        whole_number("num_chains", self.num_chains, 1, MOST_ASSIGNMENTS)
        whole_number("num_hops", self.num_hops, 1, MOST_ASSIGNMENTS)
        flag("few_shot", self.few_shot)
        count = self.num_chains * (self.num_hops + 1)
        if count > MOST_ASSIGNMENTS:
            allowed = f"at most {MOST_ASSIGNMENTS}, the number of assignments"
            raise ParameterError("num_chains * (num_hops + 1)", count, allowed)

    @property
    def answer_tokens(self) -> int:
        """RULER's 30 tokens, which are for five names, or 6 for each name."""
        return max(30, 6 * (self.num_hops + 1))

    @property
    def most_queries(self) -> tuple[int | None, str]:
        """One question for each chain."""
        why = "each chain is asked for once, and num_chains sets how many there are"
        return self.num_chains, why

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return questions about the first ``queries`` chains, and a function that fills up."""
        examples = min(self.num_chains, EXAMPLE_CHAINS) if self.few_shot else 0
        sizes = [self.num_hops + 1] * self.num_chains
        sizes += [min(self.num_hops, EXAMPLE_HOPS) + 1] * examples
        # Drawn together, so that nothing in the example occurs in the question.
        chains = self._chains(sizes, rng)
        hidden, shown = chains[: self.num_chains], chains[self.num_chains :]
        needles, turns = self._scatter(hidden, rng)
        example, parts = self._example(shown, rng) if shown else ("", [])
        drafts = []
        for number, (names, value) in enumerate(hidden[:queries]):
            own = [at for at, turn in enumerate(turns) if turn == number]
            others = [at for at, turn in enumerate(turns) if turn != number]
            head, tail, prefix = self.prompt(names, value)
            draft = Draft(example + head, tail, prefix, names, needles, own + others)
            draft.asked, draft.role, draft.head_parts = len(names), "hop", parts
            drafts.append(draft)
        return drafts, partial(self.filler.draw, rng=rng)

    def prompt(self, names: list[str], value: str) -> tuple[str, str, str]:
        """Return the text before the context, the text after it, and the answer prefix."""
        return self.wording.question("variable_tracking", query=value, count=len(names))

    def _chains(self, sizes: list[int], rng: random.Random) -> list[Chain]:
        """Draw a chain of each size; its names and its value occur nowhere else.

        All names have one length, and so have all values, so that none contains another.
        """
        packs = (self.language, self.wording)
        texts = [pack.text("variable_tracking", "template") for pack in packs]
        wording = " ".join([*texts, "VAR"]).casefold()
        taken = set[str]()

        def free(text: str) -> str | None:
            if text in taken or text.casefold() in wording or self.filler.contains(text):
                return None
            taken.add(text)
            return text

        def name() -> str | None:
            return free("".join(rng.choices(string.ascii_uppercase, k=NAME_LENGTH)))

        def value() -> str | None:
            return free(str(rng.randrange(10_000, 100_000)))

        chains = []
        for size in sizes:
            names = [fresh("name", name) for _ in range(size)]
            chains.append((names, fresh("value", value)))
        return chains

    def _scatter(self, chains: list[Chain], rng: random.Random) -> tuple[list[Needle], list[int]]:
        """Return assignments at random depths, and the number of each one's chain.

        The chains interleave at random; each keeps its own order.
        """
        turns = [number for number, (names, _) in enumerate(chains) for _ in names]
        rng.shuffle(turns)
        needles = []
        placed = [0] * len(chains)
        for number, depth in zip(turns, depths_of(len(turns), rng), strict=True):
            names, value = chains[number]
            name = names[placed[number]]
            if placed[number] == 0:
                form, source = "assignment", {"value": value}
            else:
                form, source = "alias", {"other": names[placed[number] - 1]}
            text = self.language.fill("variable_tracking", form, name=name, **source)
            start = text.index(name)
            needles.append(Needle(text, depth, (start, start + len(name))))
            placed[number] += 1
        return needles, turns

    def _example(self, chains: list[Chain], rng: random.Random) -> tuple[str, list[Part]]:
        """Return a short prompt with its answer, built like the real one, and its parts."""
        units = self.filler.units
        start = rng.randrange(len(units))
        some = [units[(start + number) % len(units)] for number in range(EXAMPLE_UNITS)]
        needles, _ = self._scatter(chains, rng)
        filling = Filling(some, [1] * len(some), self.filler.seam)
        context = filling.insert(needles, [0] * len(needles))
        names, value = chains[0]
        head, tail, prefix = self.prompt(names, value)
        text = f"{head}{context.text}{tail}{prefix} {self.wording.join(names)}"
        parts = [Part("example", 0, len(text))]
        starts = context.starts(head)
        for slot, needle in zip(context.slots, needles, strict=True):
            first = starts[slot] + needle.value_start
            parts.append(Part("value", first, first + NAME_LENGTH))
        return text + "\n\n", parts

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the variables that have the value that a prompt asks for, in their order."""
        names = language.unfill(prompt, "variable_tracking", "template")
        if names is None:
            return None
        found = [names["query"]]
        for name, value in re.findall(r"VAR (\w+) = (?:VAR )?(\w+)\.", names["context"]):
            if value in found:
                found.append(name)
        return language.join(found[1:])


TASKS = {"vt": VariableTracking(), "vt_2": VariableTracking(num_chains=2, num_hops=2)}
"""RULER's task, and a setting that it left out (figure 5 of its paper): two chains of two hops."""
