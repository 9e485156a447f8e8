"""Facts that link into chains: who and what belongs together, asked over several hops.

An example of ``semantic`` (English, shortened)::

    Corwin is the teacher of Halwen.
    Merdan lives in Slurbebridge.
    Perbert has Osric as a teacher.
    In Knondebury lives Corwin.
    ...

    In which town does Halwen's teacher live?

    golds: ["Knondebury", "in Knondebury"]

Relations lead one way, and of one thing to one thing alone, so that a start and the relations of a
question lead to one answer. Distractors go over the same relations from elsewhere to other answers;
what is left of the facts tells more about what was named already. No relation occurs twice in a
question.

With ``contradictions`` every fact is a note with a date, or is told by a source, and one link of
each chain is told twice: two facts disagree, the question says which of them holds, and the other
one leads to a wrong answer. The fact that holds comes first in every other episode. A fact's
``day`` is when it is told, one a day, whatever date stands in a note.
"""

from __future__ import annotations

import datetime
import functools
import re
from dataclasses import dataclass
from random import Random
from typing import Any

from rulerlib.errors import one_of, require, whole_number
from rulerlib.languages import Language
from rulerlib.tasks import taught
from rulerlib.tasks.episodes import Episode, Episodes, Fact, Probe
from rulerlib.tasks.semantic_web import KINDS, RELATIONS, Chain, Link, Web, paths
from rulerlib.tasks.telling import Names, Spans, checked, told

CONTRADICTIONS = ("date", "source")
"""By what it is decided which of two facts holds."""

STARTS = KINDS[:3]

# The most facts of an episode: about as many as the names suffice for.
FACTS = 100_000

DISTRACTORS = 64

# The most questions about one episode, and the most chains on the way to them: of 288 people, each
# has one teacher, and enough must be left to draw from.
PROBES, CHAINS = 8, 240

# Of four facts at most three are for questions and their distractors.
SHARE = (3, 4)

YEAR = 365


@dataclass(frozen=True)
class Knobs:
    """What can be set about facts that link into chains.

    Attributes
    ----------
    facts
        How many facts an episode has, contradictions among them.
    hop_depth
        How many facts an answer follows from, 2 to 4.
    contradictions
        None: no two facts disagree. By ``"date"`` the later note holds, by ``"source"`` the
        better source.
    distractors
        At least how many other things of the answer's kind the same relation leads to. They stand
        at the end of chains as long as the one that is asked for, or, where ``facts`` are few, of
        shorter ones.

    Raises
    ------
    ParameterError
        If a value cannot work, alone or with the others: says what is allowed.
    """

    facts: int = 20
    hop_depth: int = 2
    contradictions: str | None = None
    distractors: int = 4

    def __post_init__(self) -> None:
        whole_number("hop_depth", self.hop_depth, 2, 4)
        whole_number("distractors", self.distractors, 0, DISTRACTORS)
        if self.contradictions is not None:
            one_of("contradictions", self.contradictions, CONTRADICTIONS)
        whole_number("facts", self.facts, 1, FACTS)
        least = self.hop_depth + self.contradicted + sum(self.shortest)
        allowed = f"at least {least} for these chains and distractors"
        require(self.facts >= least, "facts", self.facts, allowed)

    @property
    def contradicted(self) -> int:
        """How many links of a chain are told twice: 0 or 1."""
        return int(self.contradictions is not None)

    @property
    def most_probes(self) -> int:
        """How many questions one episode can be asked, 8 at most."""
        cost = self.hop_depth * (1 + max(self.distractors, self.contradicted)) + self.contradicted
        room = self.facts * SHARE[0] // SHARE[1]
        most = min(PROBES, CHAINS // (2 + self.distractors), room // cost)
        # Kinds of starts take turns, also where only the first question is asked.
        return max(1, most - (most % len(STARTS) == 0))

    @property
    def shortest(self) -> list[int]:
        """How many facts each distractor of a question has at the least."""
        if not self.contradicted:
            return [1] * self.distractors
        # The fact that does not hold leads into the first one.
        return [self.hop_depth - 1] + [1] * (self.distractors - 1)


SUITES: dict[str, Knobs] = {"semantic": Knobs()}
"""The knobs of each suite, by its name."""


def _wanted() -> dict[str, str]:
    """Return what the wording must have, see `rulerlib.tasks.telling.checked`."""
    wanted = dict.fromkeys(("genitive.ending", "genitive.after"), "")
    wanted |= {"notes.day": "day month", "notes.sources": ""}
    for by in CONTRADICTIONS:
        wanted |= {f"notes.{by}": f"{by} fact", f"notes.{by}_rule": ""}
    for kind in KINDS:
        wanted |= {f"kinds.{kind}.name": "name", f"kinds.{kind}.golds": "name"}
    for name in RELATIONS:
        place = f"relations.{name}"
        wanted |= {f"{place}.say": "a b", f"{place}.ask": "x", f"{place}.called": "x"}
    return wanted


class Semantic(Episodes):
    """Makes the episodes of one setting of the knobs.

    Raises
    ------
    DataError
        If the language has no wording for them, or an incomplete one.
    """

    knobs: Knobs

    def __init__(self, knobs: Knobs, language: Language, seed: str) -> None:
        super().__init__(knobs, language, seed)
        self._names = Names(language, seed)
        self._wording = checked(language, "semantic", _wanted())

    @property
    def limit(self) -> int:
        """How many episodes there are: as many as have questions of their own."""
        numbers = (len(self._paths[kind]) * self._names.count(kind) for kind in STARTS)
        return min(numbers) * len(STARTS) // self.most_probes

    @functools.cached_property
    def _paths(self) -> dict[str, list[tuple[str, ...]]]:
        """What is asked from each kind of start, in random order; half of the answers are people.

        Many more relations lead to people than to anything else.
        """
        orders = {}
        for kind in STARTS:
            ways = list(paths(kind, self.knobs.hop_depth))
            rng = Random(f"{self.seed} semantic paths {kind}")
            rng.shuffle(ways)
            people = [way for way in ways if RELATIONS[way[-1]][1] == "person"]
            others = [way for way in ways if RELATIONS[way[-1]][1] != "person"]
            orders[kind] = people[: len(others)] + others
            rng.shuffle(orders[kind])
        return orders

    def _start(self, number: int) -> Chain:
        """Return a start and a path that no other number below all of them has.

        Those of one episode have different starts.
        """
        turn, kind = divmod(number, len(STARTS))
        ways = self._paths[STARTS[kind]]
        again, at = divmod(turn, self._names.count(STARTS[kind]))
        return Chain(self._names.name(STARTS[kind], at), ways[(at + again) % len(ways)])

    def episode(self, index: int, probes: int = 1) -> Episode:
        """See `Episodes`.

        Raises
        ------
        ParameterError
            If there is no such episode, or fewer questions about it.
        """
        whole_number("index", index, 0, self.limit - 1)
        whole_number("probes", probes, 0, self.most_probes)
        rng = Random(f"{self.seed} semantic {index}")
        web, most = Web(self._names, rng), self.most_probes
        chains = [self._start(index * most + place) for place in range(most)]
        for chain in chains:
            web.keep(chain.start, chain.path[0])
        for chain in chains:
            self._link(chain, web, rng)
        for chain in chains:
            web.tempt(chain, self.knobs.facts)
        web.fill(self.knobs.facts)
        facts, numbers = self._tell(web.links, chains, index, rng)
        asked = (
            self._ask(chain, web.links, numbers, Random(f"{self.seed} semantic {index} {place}"))
            for place, chain in enumerate(chains[:probes])
        )
        return Episode(f"semantic-{index}", facts, tuple(asked))

    def _link(self, chain: Chain, web: Web, rng: Random) -> None:
        """Add the links of a chain, its distractors, and what disagrees with one of its links."""
        hops, path, ends = self.knobs.hop_depth, chain.path, set[str]()
        chain.links = web.chain(chain.start, path, ends, set())
        nodes = {chain.start, *(web.links[number].object for number in chain.links)}
        others: list[list[str]] = []
        for length in self._lengths:
            tail = path[-length:]
            start = web.free(RELATIONS[tail[0]][0], tail[0], nodes)
            numbers = web.chain(start, tail, ends, nodes)
            others.append([start, *(web.links[number].object for number in numbers)])
        if self.knobs.contradicted:
            at = rng.randrange(hops)
            subject, relation, _ = web.links[chain.links[at]]
            chain.overruled = web.add(subject, relation, others[0][at - hops])
            chain.wrong = others[0][-1]

    @functools.cached_property
    def _lengths(self) -> list[int]:
        """How many links each distractor of a question has, the first one most."""
        knobs = self.knobs
        lengths = knobs.shortest
        spare = (
            knobs.facts // self.most_probes - knobs.hop_depth - knobs.contradicted - sum(lengths)
        )
        for longer in range(2, knobs.hop_depth + 1):
            for at, length in enumerate(lengths):
                if length < longer and spare > 0:
                    lengths[at], spare = longer, spare - 1
        return lengths

    def _tell(
        self, links: list[Link], chains: list[Chain], index: int, rng: Random
    ) -> tuple[tuple[Fact, ...], list[int]]:
        """Return the facts in random order, and for each link the number of its fact."""
        order = list(range(len(links)))
        rng.shuffle(order)
        numbers = [0] * len(links)
        for number, link in enumerate(order):
            numbers[link] = number
        marks = self._marks(links, chains, rng)
        for place, chain in enumerate(chains):
            if chain.overruled is not None:
                held = self._held(chain, links)
                if (numbers[held] < numbers[chain.overruled]) == bool((index + place) % 2):
                    pair = numbers[held], numbers[chain.overruled]
                    numbers[chain.overruled], numbers[held] = pair
        facts = [Fact(0, "", 0)] * len(links)
        for link, number in enumerate(numbers):
            text, values = self._sentence(links[link], marks[link] if marks else None, rng)
            facts[number] = Fact(number, text, number, values)
        return tuple(facts), numbers

    def _held(self, chain: Chain, links: list[Link]) -> int:
        """Return the number of the link that the overruled one disagrees with."""
        assert chain.overruled is not None
        slot = links[chain.overruled][:2]
        return next(number for number in chain.links if links[number][:2] == slot)

    def _marks(self, links: list[Link], chains: list[Chain], rng: Random) -> list[int]:
        """Return the day of each link's note, or the place of its source; nothing without them."""
        if self.knobs.contradictions is None:
            return []
        dated = self.knobs.contradictions == "date"
        marks = range(YEAR if dated else len(self._wording["notes"]["sources"]))
        drawn = rng.choices(marks, k=len(links))
        for chain in chains:
            if chain.overruled is not None:
                # The later day holds, and the source that stands first.
                pair = sorted(rng.sample(marks, 2), reverse=dated)
                drawn[self._held(chain, links)], drawn[chain.overruled] = pair
        return drawn

    def _sentence(self, link: Link, mark: int | None, rng: Random) -> tuple[str, Spans]:
        """Return how a link is told, with what a note says before it, and its values."""
        say = rng.choice(self._wording["relations"][link.relation]["say"])
        text, spans = told(say, {"a": link.subject, "b": link.object})
        values = {"subject": spans["a"], "object": spans["b"]}
        if mark is None:
            return text, values
        notes, by = self._wording["notes"], str(self.knobs.contradictions)
        words = {"fact": text, by: self._day(mark) if by == "date" else notes["sources"][mark]}
        text, spans = told(rng.choice(notes[by]), words)
        shift, _ = spans.pop("fact")
        moved = {name: (start + shift, end + shift) for name, (start, end) in values.items()}
        return text, moved | spans

    def _day(self, number: int) -> str:
        """Return a day of the year as notes write it, without the year."""
        day = datetime.date(2001, 1, 1) + datetime.timedelta(days=number)
        form: str = self._wording["notes"]["day"]
        return form.format(day=day.day, month=self._names.months[day.month - 1])

    def _ask(self, chain: Chain, links: list[Link], numbers: list[int], rng: Random) -> Probe:
        """Return the question about a chain."""
        relations, last = self._wording["relations"], chain.path[-1]
        text = rng.choice(relations[last]["ask"]).format(x=self._called(chain))
        # A clause that ends the question, or ends with another one, needs no comma of its own.
        text = re.sub(r",+(?=\?)", "", re.sub(",{2,}", ",", text))
        kind, answer = RELATIONS[last][1], links[chain.links[-1]].object
        facts: dict[str, Any] = {"start": chain.start, "path": list(chain.path)}
        if chain.overruled is not None:
            text = f"{self._wording['notes'][f'{self.knobs.contradictions}_rule']} {text}"
            facts |= {"overruled": numbers[chain.overruled], "wrong": chain.wrong}
        golds = (form.format(name=answer) for form in self._wording["kinds"][kind]["golds"])
        needs = tuple(numbers[link] for link in chain.links)
        return Probe(text, tuple(golds), needs, kind, facts)

    def _called(self, chain: Chain) -> str:
        """Return a phrase for what the last relation of a chain is asked about."""
        kind = RELATIONS[chain.path[0]][0]
        text: str = self._wording["kinds"][kind]["name"].format(name=chain.start)
        # Only a name, or what follows one in the genitive, can stand in the genitive.
        short = kind == "person"
        for relation in chain.path[:-1]:
            table = self._wording["relations"][relation]
            short = short and "own" in table
            form = table["own"] if short else table["called"]
            text = form.format(x=self._genitive(text) if short else text)
        return text

    def _genitive(self, text: str) -> str:
        forms: dict[str, str] = self._wording["genitive"]
        return text + forms["after" if text[-1] in forms["letters"] else "ending"]


@dataclass(frozen=True)
class InContext(taught.Among, Knobs):
    """What can be set where an episode is taught in the context: `Knobs`, and the haystack."""


FAMILY = taught.family("semantic", Semantic, {"semantic": InContext()})
"""One setting of our own."""
