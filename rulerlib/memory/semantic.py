"""Facts that link into chains, asked about over several hops.

An example of ``semantic`` (English, shortened)::

    Halwen's teacher is Corwin.
    Merdan lives in Slurbebridge.
    Osric is Perbert's teacher.
    Corwin's home is in Knondebury.
    ...

    In which town does Halwen's teacher live?

    golds: ["Knondebury", "in Knondebury"]

A relation leads from one thing to one other thing, so that the start and the relations of a
question lead to one answer. Distractors follow the same relations from another start to another
answer; the remaining facts are about names that occur already. No relation occurs twice in a
question.

With ``contradictions`` every fact is a note with a date, and one link of each chain appears twice:
the two facts contradict each other, the later one counts, as the question says, and the other one
leads to a wrong answer. The fact that counts comes first in every other episode. The ``day`` of a
fact is when it is told, one a day, whatever the date of its note.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from pydantic import Field

from rulerlib.errors import ParameterError, settings_file, validated
from rulerlib.memory.episodes import Episode, Episodes, Fact, Names, Probe, told

RELATIONS: dict[str, tuple[str, str]] = settings_file(
    Path(__file__).with_name("relations.yaml"), "the kinds of names of relations"
)
"""The kinds of names that each relation leads from and to."""

KINDS = ("person", "town", "ship", "river")
"""The kinds of names."""

STARTS = KINDS[:3]
"""The kinds of names with which questions begin, which alternate."""

# The maximum number of questions about an episode, and of chains for them: there are 288 people,
# each has one teacher, and enough must be left to draw from.
PROBES, CHAINS = 8, 240


@validated
class Knobs:
    """The settings of facts that link into chains.

    Attributes
    ----------
    facts
        The number of facts in an episode, contradictions included.
    hop_depth
        The number of facts that an answer needs, 2 to 4.
    contradictions
        ``"date"``: facts contradict each other, and the later note counts. None: no two facts do.
    distractors
        The minimum number of other answers to which the same relation leads. Each is the end of a
        chain as long as that of the question, or shorter if ``facts`` are few.
    """

    facts: int = Field(20, ge=1, le=5_000)
    hop_depth: int = Field(2, ge=2, le=4)
    contradictions: Literal["date"] | None = None
    distractors: int = Field(4, ge=0, le=64)

    def __post_init__(self) -> None:
        least = self.hop_depth + self.contradicted + sum(self.shortest)
        if self.facts < least:
            allowed = f"at least {least} for these chains and distractors"
            raise ParameterError("facts", self.facts, allowed)

    @property
    def contradicted(self) -> int:
        """The number of links of a chain that appear twice: 0 or 1."""
        return int(self.contradictions is not None)

    @property
    def most_probes(self) -> int:
        """The maximum number of questions about an episode, 8 at most."""
        cost = self.hop_depth * (1 + max(self.distractors, self.contradicted)) + self.contradicted
        # At most three of four facts are for questions and distractors.
        most = min(PROBES, CHAINS // (2 + self.distractors), self.facts * 3 // 4 // cost)
        # The kinds of starts alternate even if only the first question is asked.
        return max(1, most - (most % len(STARTS) == 0))

    @property
    def shortest(self) -> list[int]:
        """The minimum number of facts for each distractor of a question."""
        if not self.contradicted:
            return [1] * self.distractors
        # The fact that does not count leads into the first distractor.
        return [self.hop_depth - 1] + [1] * (self.distractors - 1)

    @property
    def lengths(self) -> list[int]:
        """The number of facts for each distractor of a question; the first one has the most."""
        lengths = self.shortest
        spare = self.facts // self.most_probes
        spare -= self.hop_depth + self.contradicted + sum(lengths)
        for longer in range(2, self.hop_depth + 1):
            for at, length in enumerate(lengths):
                if length < longer and spare > 0:
                    lengths[at], spare = longer, spare - 1
        return lengths


class Link(NamedTuple):
    subject: str
    relation: str
    object: str


@dataclass
class Chain:
    """The start, relations and links of a question.

    ``twice`` are the number of a link that counts and of the one that contradicts it, which leads
    to ``wrong``.
    """

    start: str
    path: tuple[str, ...]
    links: list[int] = field(default_factory=list)
    twice: tuple[int, int] | None = None
    wrong: str = ""


class Web:
    """The links of an episode while they are drawn: at most one for each name and relation."""

    def __init__(self, names: Names, rng: Random) -> None:
        self._names, self._rng = names, rng
        self.links: list[Link] = []
        self.used = set[tuple[str, str]]()
        self._present: dict[str, list[str]] = {kind: [] for kind in KINDS}
        # The names and relations without a link.
        self._open: list[tuple[str, str]] = []

    def free(self, kind: str, relation: str, without: Container[str]) -> str:
        """Reserve and return a random name that does not have a relation yet."""
        name = self.other(kind, without)
        while (name, relation) in self.used:
            name = self.other(kind, without)
        self.used.add((name, relation))
        return name

    def other(self, kind: str, without: Container[str]) -> str:
        """Return a random name that is not in ``without``."""
        name = self._names.draw(kind, self._rng)
        while name in without:
            name = self._names.draw(kind, self._rng)
        return name

    def add(self, subject: str, relation: str, target: str) -> int:
        """Add a link, and return its number."""
        self.used.add((subject, relation))
        for name, kind in zip((subject, target), RELATIONS[relation], strict=True):
            if name not in self._present[kind]:
                self._present[kind].append(name)
                self._open += [(name, key) for key, (of, _) in RELATIONS.items() if of == kind]
        self.links.append(Link(subject, relation, target))
        return len(self.links) - 1

    def chain(
        self, start: str, path: tuple[str, ...], ends: set[str], without: set[str]
    ) -> list[int]:
        """Add the links of a path that avoids ``without`` and ends at a name not in ``ends``."""
        numbers, name, passed = [], start, without | {start}
        for place, relation in enumerate(path):
            kind = RELATIONS[relation][1]
            if place + 1 < len(path):
                target = self.free(kind, path[place + 1], passed)
            else:
                target = self.other(kind, passed | ends)
            numbers.append(self.add(name, relation, target))
            passed.add(target)
            name = target
        ends.add(name)
        return numbers

    def tempt(self, chain: Chain, facts: int) -> None:
        """Add a direct link from a chain's start by its last relation, to a wrong answer."""
        kind, last = RELATIONS[chain.path[0]][0], chain.path[-1]
        of, to = RELATIONS[last]
        if of == kind and (chain.start, last) not in self.used and len(self.links) < facts:
            answer = self.links[chain.links[-1]].object
            self.add(chain.start, last, self.other(to, (chain.start, answer)))

    def fill(self, facts: int) -> None:
        """Add links about names that occur already, until there are ``facts``."""
        rng = self._rng
        while len(self.links) < facts:
            # Remove a random one without moving the others.
            at = rng.randrange(len(self._open))
            self._open[at], self._open[-1] = self._open[-1], self._open[at]
            subject, relation = self._open.pop()
            if (subject, relation) in self.used:
                continue
            kind = RELATIONS[relation][1]
            target = rng.choice(self._present[kind]) if self._present[kind] else subject
            if target == subject or rng.random() < 0.5:
                target = self.other(kind, (subject,))
            self.add(subject, relation, target)


def paths(kind: str, depth: int) -> list[tuple[str, ...]]:
    """Return all sequences of ``depth`` different relations that begin at a kind of name."""
    ways: list[tuple[str, ...]] = [()]
    for _ in range(depth):
        ways = [
            (*way, relation)
            for way in ways
            for relation, (of, _) in RELATIONS.items()
            if of == (RELATIONS[way[-1]][1] if way else kind) and relation not in way
        ]
    return ways


class Semantic(Episodes):
    """Generates episodes with the same settings."""

    knobs: Knobs
    section = "semantic"

    @functools.cached_property
    def _paths(self) -> dict[str, list[tuple[str, ...]]]:
        """The paths from each kind of start in random order; half of the answers are people."""
        orders = {}
        for kind in STARTS:
            ways = paths(kind, self.knobs.hop_depth)
            rng = Random(f"{self.seed} semantic paths {kind}")
            rng.shuffle(ways)
            people = [way for way in ways if RELATIONS[way[-1]][1] == "person"]
            others = [way for way in ways if RELATIONS[way[-1]][1] != "person"]
            orders[kind] = people[: len(others)] + others
            rng.shuffle(orders[kind])
        return orders

    def _start(self, number: int) -> Chain:
        """Return a new start and path; those of one episode have different starts."""
        turn, kind = divmod(number, len(STARTS))
        ways = self._paths[STARTS[kind]]
        again, at = divmod(turn, self.names.count(STARTS[kind]))
        return Chain(self.names.name(STARTS[kind], at), ways[(at + again) % len(ways)])

    def episode(self, index: int, probes: int = 1) -> Episode:
        rng = Random(f"{self.seed} semantic {index}")
        web, most = Web(self.names, rng), self.knobs.most_probes
        chains = [self._start(index * most + place) for place in range(most)]
        for chain in chains:
            web.used.add((chain.start, chain.path[0]))
        for chain in chains:
            self._link(chain, web, rng)
        for chain in chains:
            web.tempt(chain, self.knobs.facts)
        web.fill(self.knobs.facts)
        order = list(range(len(web.links)))
        rng.shuffle(order)
        # The number of the fact of each link.
        numbers = sorted(range(len(order)), key=order.__getitem__)
        days = self._days(len(order), chains, rng)
        for place, chain in enumerate(chains):
            if chain.twice:
                held, overruled = chain.twice
                if (numbers[held] < numbers[overruled]) == bool((index + place) % 2):
                    numbers[held], numbers[overruled] = numbers[overruled], numbers[held]
        told_facts = [self._tell(*each, rng) for each in zip(web.links, numbers, days, strict=True)]
        facts = tuple(sorted(told_facts, key=lambda fact: fact.number))
        questions = [
            self._ask(chain, web.links, numbers, Random(f"{self.seed} semantic {index} {place}"))
            for place, chain in enumerate(chains[:probes])
        ]
        return Episode(f"semantic-{index}", facts, tuple(questions))

    def _link(self, chain: Chain, web: Web, rng: Random) -> None:
        """Add the links of a chain, its distractors, and its contradiction."""
        hops, path, ends = self.knobs.hop_depth, chain.path, set[str]()
        chain.links = web.chain(chain.start, path, ends, set())
        nodes = {chain.start, *(web.links[number].object for number in chain.links)}
        others: list[list[str]] = []
        for length in self.knobs.lengths:
            tail = path[-length:]
            start = web.free(RELATIONS[tail[0]][0], tail[0], nodes)
            numbers = web.chain(start, tail, ends, nodes)
            others.append([start, *(web.links[number].object for number in numbers)])
        if self.knobs.contradicted:
            at = rng.randrange(hops)
            subject, relation, _ = web.links[chain.links[at]]
            chain.twice = chain.links[at], web.add(subject, relation, others[0][at - hops])
            chain.wrong = others[0][-1]

    def _days(self, total: int, chains: list[Chain], rng: Random) -> Sequence[int | None]:
        """Return the day in the year of each link's note; None without notes."""
        if not self.knobs.contradicted:
            return [None] * total
        days = rng.choices(range(365), k=total)
        for chain in chains:
            if chain.twice:
                held, overruled = chain.twice
                days[overruled], days[held] = sorted(rng.sample(range(365), 2))
        return days

    def _tell(self, link: Link, number: int, day: int | None, rng: Random) -> Fact:
        """Return the fact of a link, as a note if there is a day."""
        say = rng.choice(self.wording["relations"][link.relation]["say"])
        text, spans = told(say, {"a": link.subject, "b": link.object})
        values = {"subject": spans["a"], "object": spans["b"]}
        if day is not None:
            notes = self.wording["notes"]
            # A year that is not a leap year; the note does not name it.
            date = datetime.date(2001, 1, 1) + datetime.timedelta(days=day)
            words = {"day": str(date.day), "month": self.names.months[date.month - 1]}
            note = {"fact": text, "date": notes["day"].format(**words)}
            text, spans = told(rng.choice(notes["date"]), note)
            shift, _ = spans.pop("fact")
            values = {name: (start + shift, end + shift) for name, (start, end) in values.items()}
            values |= spans
        return Fact(number, text, number, values)

    def _ask(self, chain: Chain, links: list[Link], numbers: list[int], rng: Random) -> Probe:
        """Return the question about a chain."""
        relations, last = self.wording["relations"], chain.path[-1]
        text = rng.choice(relations[last]["ask"]).format(x=self._called(chain))
        # A clause needs no comma at the end of a question or before another comma.
        text = re.sub(r",+(?=\?)", "", re.sub(",{2,}", ",", text))
        kind, answer = RELATIONS[last][1], links[chain.links[-1]].object
        facts: dict[str, Any] = {"start": chain.start, "path": list(chain.path)}
        if chain.twice:
            text = f"{self.wording['notes']['date_rule']} {text}"
            facts |= {"overruled": numbers[chain.twice[1]], "wrong": chain.wrong}
        golds = (form.format(name=answer) for form in self.wording["kinds"][kind]["golds"])
        needs = tuple(numbers[link] for link in chain.links)
        return Probe(text, tuple(golds), needs, kind, facts)

    def _called(self, chain: Chain) -> str:
        """Return a phrase for the subject of the last relation of a chain."""
        kind, genitive = RELATIONS[chain.path[0]][0], self.wording["genitive"]
        text: str = self.wording["kinds"][kind]["name"].format(name=chain.start)
        # Only a name, or what follows one in the genitive, can be in the genitive.
        short = kind == "person"
        for relation in chain.path[:-1]:
            table = self.wording["relations"][relation]
            short = short and "own" in table
            if short:
                text += genitive["after" if text[-1] in genitive["letters"] else "ending"]
            text = table["own" if short else "called"].format(x=text)
        return text


make = Semantic
