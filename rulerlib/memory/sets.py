"""Sets of episodes on disk: one episode a line, and a card beside them that says what they are.

A set is JSONL. ``events.jsonl`` has its card in ``events.card.json``: from what it was made, a hash
of its bytes, and what is in it.

>>> from rulerlib.tasks.episodes import Fact, Probe
>>> fact = Fact(0, "On 3 May Birmund repaired a boat.", day=2, values={"who": (9, 16)})
>>> probe = Probe("Who repaired a boat?", ("Birmund",), needs=(0,), kind="who")
>>> item = Item("episodic", "en", {}, Episode("a-0", (fact,), (probe,)))
>>> Item.from_json(item.to_json()) == item
True
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import statistics
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import rulerlib
from rulerlib import paths, samples
from rulerlib.errors import DataError, shortened
from rulerlib.samples import Record
from rulerlib.tasks.episodes import Episode, Fact, Probe

CARD = ".card.json"
"""What the name of a card has in place of ``.jsonl``."""

# The bytes of a set that is held in memory.
_HELD = 64_000_000


@dataclass(slots=True)
class _Fact(Record):
    """A fact as it stands in a file, its types checked."""

    needed: ClassVar[frozenset[str]] = frozenset({"number", "text"})

    number: int
    text: str
    day: int = 0
    session: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    rewarded: bool = False
    pinned: bool = False


@dataclass(slots=True)
class _Probe(Record):
    """A question as it stands in a file, its types checked."""

    needed: ClassVar[frozenset[str]] = frozenset({"text", "golds", "needs"})

    text: str
    golds: list[str]
    needs: list[int]
    kind: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Line(Record):
    """A line of a set, its types checked."""

    needed: ClassVar[frozenset[str]] = frozenset({"id", "suite", "language", "facts", "probes"})

    id: str
    suite: str
    language: str
    facts: list[dict[str, Any]]
    probes: list[dict[str, Any]]
    knobs: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Item(Record):
    """One line of a set: an episode, and by which suite it was made.

    Attributes
    ----------
    suite, language
        ``"episodic"``, ``"da"``.
    knobs
        The settings of the suite, as plain data by name.
    episode
        What is taught and what is asked.
    """

    suite: str
    language: str
    knobs: dict[str, Any]
    episode: Episode

    def to_dict(self) -> dict[str, Any]:
        """Return the episode and where it is from as plain data."""
        episode = self.episode
        return {
            "id": episode.id,
            "suite": self.suite,
            "language": self.language,
            "knobs": self.knobs,
            "facts": [_fact_data(fact) for fact in episode.facts],
            "probes": [_probe_data(probe) for probe in episode.probes],
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the item of plain data; fields that we do not know are left out.

        Raises
        ------
        DataError
            If a field is missing or of another type, facts are not numbered in their order, a
            value lies outside of its fact, or a question has no gold or needs a fact that is not
            there.
        """
        line = _Line.from_dict(values)
        if not line.facts:
            raise DataError("there are no facts")
        facts = tuple(_fact(number, each) for number, each in enumerate(line.facts))
        for before, fact in itertools.pairwise(facts):
            if fact.session < before.session:
                raise DataError(f"fact {fact.number}: session {fact.session} after a later one")
        probes = tuple(_probe(*each, len(facts)) for each in enumerate(line.probes))
        return cls(line.suite, line.language, line.knobs, Episode(line.id, facts, probes))


def _fact_data(fact: Fact) -> dict[str, Any]:
    """Return a fact as plain data, its times before its values."""
    return {
        "number": fact.number,
        "text": fact.text,
        "day": fact.day,
        "session": fact.session,
        "values": {name: list(span) for name, span in fact.values.items()},
        "rewarded": fact.rewarded,
        "pinned": fact.pinned,
    }


def _probe_data(probe: Probe) -> dict[str, Any]:
    """Return a question as plain data."""
    return {
        "text": probe.text,
        "golds": list(probe.golds),
        "needs": list(probe.needs),
        "kind": probe.kind,
        "facts": dict(probe.facts),
    }


def _fact(number: int, data: dict[str, Any]) -> Fact:
    """Return a fact of plain data, which must be the one of this number."""
    try:
        line = _Fact.from_dict(data)
        if line.number != number:
            raise DataError(f"its number is {line.number}")
        if line.session < 0:
            raise DataError(f"its session is {line.session}")
        for name, span in line.values.items():
            if not _lies_within(span, len(line.text)):
                raise DataError(f"the value '{name}' is {shortened(span)}, outside of its text")
    except DataError as error:
        raise DataError(f"fact {number}: {error}") from error
    spans = {name: (span[0], span[1]) for name, span in line.values.items()}
    fields = {item.name: getattr(line, item.name) for item in dataclasses.fields(line)}
    return Fact(**{**fields, "values": spans})


def _lies_within(span: Any, size: int) -> bool:
    """Return whether ``span`` is a list of two characters [start, end) of a text of ``size``."""
    if not isinstance(span, list) or [*map(type, span)] != [int, int]:
        return False
    return bool(0 <= span[0] < span[1] <= size)


def _probe(number: int, data: dict[str, Any], facts: int) -> Probe:
    """Return a question of plain data, of an episode with ``facts`` facts."""
    try:
        line = _Probe.from_dict(data)
        if not line.golds or not all(line.golds):
            raise DataError(f"its golds are {shortened(line.golds)}")
        for needed in line.needs:
            if not 0 <= needed < facts:
                raise DataError(f"it needs fact {needed} of {facts}")
    except DataError as error:
        raise DataError(f"question {number}: {error}") from error
    return Probe(line.text, tuple(line.golds), tuple(line.needs), line.kind, line.facts)


def read(path: str | Path) -> Iterator[Episode]:
    """Yield the episodes of a set, one at a time; the card is not asked.

    Raises
    ------
    DataError
        If the file cannot be read or a line is damaged: names file and line.
    """
    return (item.episode for item in samples.read(path, Item))


def held(path: str | Path) -> Iterable[Episode]:
    """Return the same as `read`; a set of up to 64 MB is held in memory until another one is read.

    Raises
    ------
    DataError
        As `read`; where the set is larger, when it is gone through.
    """
    try:
        about = Path(path).stat()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error
    return _held(str(path), about.st_mtime_ns) if about.st_size <= _HELD else read(path)


@functools.lru_cache(maxsize=1)
def _held(path: str, _changed: int) -> tuple[Episode, ...]:
    """Return the episodes of a set as it was when it was changed last."""
    return tuple(read(path))


def card_of(path: str | Path) -> Path:
    """Return where the card of a set stands.

    >>> card_of("sets/events.jsonl").as_posix()
    'sets/events.card.json'
    """
    return Path(path).with_suffix(CARD)


def check(path: str | Path) -> dict[str, Any]:
    """Return the card of a set, when the set is what the card says.

    A card that another version of rulerlib wrote is right all the same; a warning names both.

    Raises
    ------
    DataError
        If one of the two cannot be read, or they do not go together: says in what.
    """
    path, about = Path(path), card_of(path)
    size, digest = _bytes(path)
    card = samples.read_object(about)
    if size != card.get("size"):
        said = shortened(card.get("size"))
        raise DataError(f"{path}: damaged ({size} whole lines, but {about.name} says {said}).")
    if digest != card.get("sha256"):
        raise DataError(f"{path}: damaged (its bytes are not those that {about.name} knows).")
    found = contents(samples.read(path, Item))
    for name, value in found.items():
        if name not in card or card[name] != value:
            told = f"{name} is {shortened(card.get(name))}, but {shortened(value)} in the set"
            raise DataError(f"{about}: damaged ({told}).")
    if card.get("rulerlib") != rulerlib.__version__:
        version, ours = shortened(card.get("rulerlib")), rulerlib.__version__
        warnings.warn(f"{path} was made by rulerlib {version}; this is '{ours}'.", stacklevel=2)
    return card


def _bytes(path: Path) -> tuple[int, str]:
    """Return how many whole lines a file has, and a hash of its bytes."""
    lines, digest = 0, hashlib.sha256()
    try:
        with paths.opened(path) as file:
            for line in file:
                lines += line.endswith(b"\n")
                digest.update(line)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error
    return lines, digest.hexdigest()


def contents(items: Iterable[Item]) -> dict[str, Any]:
    """Return what is in a set, as its card says it; the items are gone through once.

    ``most_frequent_gold`` is the answer that is right most often, and the share of questions that
    whoever always gives it gets right.
    """
    origin: dict[str, Any] = {}
    kinds, golds, sizes = Counter[str](), Counter[str](), Counter[int]()
    most = 0
    for item in items:
        origin = origin or {"suite": item.suite, "language": item.language, "knobs": item.knobs}
        probes = item.episode.probes
        kinds.update(probe.kind for probe in probes)
        for probe in probes:
            golds.update(set(probe.golds))
        sizes[len(item.episode.facts)] += 1
        most = max(most, len(probes))
    return {
        **origin,
        "size": sizes.total(),
        "probes": most,
        "kinds": dict(sorted(kinds.items())),
        "most_frequent_gold": _most_frequent(golds, kinds.total()),
        "facts": _spread(sizes),
    }


def _most_frequent(golds: Mapping[str, int], asked: int) -> dict[str, Any]:
    """Return the gold of most questions, of several the first by letter, and its share."""
    gold = min(golds, key=lambda each: (-golds[each], each), default="")
    return {"gold": gold, "share": round(golds.get(gold, 0) / max(1, asked), 4)}


def _spread(sizes: Counter[int]) -> dict[str, float]:
    """Return the smallest, the middle and the largest of numbers that were counted."""
    ordered = sorted(sizes.elements()) or [0]
    return {"min": ordered[0], "median": statistics.median(ordered), "max": ordered[-1]}
