"""The suites of episodes, their easy and hard settings, and the command that writes a set::

    python -m rulerlib.memory.suites --suite semantic --size 200 --seed 7 --out sets/hops.jsonl

The same command makes the same bytes everywhere, and a larger set begins with the smaller one.
One line is one episode: its facts, with their times, marks and the characters where their values
stand, and its questions. Beside ``hops.jsonl`` stands ``hops.card.json``: from what the set was
made, a hash of its bytes, and what is in it.

>>> recipe = Recipe("spatial", size=2, language="en", profile="easy")
>>> recipe.knobs.grid_size
3
>>> [len(item.episode.probes) for item in recipe]
[1, 1]
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import rulerlib
from rulerlib import commands, fields, languages, paths
from rulerlib.errors import RulerError, dictionary, one_of, require, whole_number
from rulerlib.languages import Language
from rulerlib.samples import Record
from rulerlib.store import files
from rulerlib.store.lock import alone
from rulerlib.tasks import episodic, semantic, spatial
from rulerlib.tasks.episodes import Episode, Episodes, fingerprint


class Suite(NamedTuple):
    """A row of the table of suites.

    Attributes
    ----------
    knobs
        Its settings where nobody chose any: an instance of a frozen dataclass.
    make
        Makes episodes from knobs, a language and a seed.
    section
        The section of a language pack that its sentences stand in.
    """

    knobs: Any
    make: Callable[[Any, Language, str], Episodes]
    section: str


SUITES: dict[str, Suite] = {
    **{name: Suite(row, episodic.make, "episodic") for name, row in episodic.SUITES.items()},
    **{name: Suite(row, semantic.Semantic, "semantic") for name, row in semantic.SUITES.items()},
    **{name: Suite(row, spatial.Spatial, "spatial") for name, row in spatial.SUITES.items()},
}
"""All suites by name."""

PROFILES: dict[str, dict[str, dict[str, Any]]] = {
    "default": {},
    "easy": {
        "episodic": {"facts": 8},
        "episodic_cross": {"facts": 8, "sessions": 2},
        "episodic_capacity": {"facts": 20},
        "episodic_multi": {"distractors": 0, "corrections": 1},
        "semantic": {"facts": 10, "distractors": 0},
        "spatial": {"grid_size": 3},
    },
    "hard": {
        "episodic": {"facts": 100, "distractors": 4},
        "episodic_cross": {"facts": 60, "distractors": 4, "sessions": 6},
        "episodic_capacity": {"facts": 1000},
        "episodic_multi": {"distractors": 16},
        "semantic": {"facts": 60, "hop_depth": 4, "contradictions": "date", "distractors": 8},
        "spatial": {"grid_size": 8, "obstacle_density": 0.3},
    },
}
"""What is set otherwise than in `SUITES`, by profile and suite."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """All that decides the bytes of a set.

    Iterating yields its items, each made when it is asked for.

    Attributes
    ----------
    suite
        A key of `SUITES`.
    size
        How many episodes it has. Of two recipes that differ in nothing else, the items of the
        larger one begin with those of the smaller one.
    seed
        Another seed gives other episodes.
    language
        The code of a language pack: ``"da"``.
    profile
        A key of `PROFILES`.
    probes
        How many questions each episode is asked.
    changes
        Knobs that are set otherwise than the profile has them, by name.

    Raises
    ------
    ParameterError
        If a value cannot work: says what is allowed, and of names the nearest.
    DataError
        If the language has no wording for the suite.
    """

    suite: str
    size: int
    seed: int = 42
    language: str = "da"
    profile: str = "default"
    probes: int = 1
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("suite", self.suite, SUITES)
        one_of("language", self.language, languages.available())
        one_of("profile", self.profile, PROFILES)
        for name, least in (("size", 1), ("seed", 0), ("probes", 1)):
            whole_number(name, getattr(self, name), least)
        changes = dictionary("knobs", self.changes, '{"facts": 50}')
        for name in changes:
            one_of("knob", name, vars(SUITES[self.suite].knobs))
        object.__setattr__(self, "changes", changes)
        most, what = self.episodes.most_probes, f"the questions that an episode of {self.suite} has"
        require(
            self.probes <= most, "probes", self.probes, f"at most {most}, {what} with these knobs"
        )

    @cached_property
    def knobs(self) -> Any:
        """The settings of the suite, those of the profile and the changes included."""
        preset = PROFILES[self.profile].get(self.suite, {})
        return dataclasses.replace(SUITES[self.suite].knobs, **{**preset, **self.changes})

    @cached_property
    def episodes(self) -> Episodes:
        """What makes its episodes."""
        language = languages.load(self.language)
        return SUITES[self.suite].make(self.knobs, language, str(self.seed))

    @property
    def wording(self) -> str:
        """A short hash of the sentences and names that the episodes are told with."""
        return fingerprint(languages.load(self.language), SUITES[self.suite].section)

    def to_dict(self) -> dict[str, Any]:
        """Return what decides the bytes, as plain data."""
        return {
            "suite": self.suite,
            "language": self.language,
            "seed": self.seed,
            "size": self.size,
            "probes": self.probes,
            "knobs": dataclasses.asdict(self.knobs),
            "wording": self.wording,
        }

    def __iter__(self) -> Iterator[Item]:
        knobs = dataclasses.asdict(self.knobs)
        for index in range(self.size):
            episode = self.episodes.episode(index, self.probes)
            yield Item(self.suite, self.language, knobs, episode)


@dataclass(slots=True)
class Item(Record):
    """An episode, and by which suite it was made: one line of a set.

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
        """Return all of it as plain data."""
        return {
            "id": self.episode.id,
            "suite": self.suite,
            "language": self.language,
            "knobs": self.knobs,
            "facts": [
                {"number": fact.number, "text": fact.text, "day": fact.day,
                 "session": fact.session, "values": dict(fact.values), "rewarded": fact.rewarded,
                 "pinned": fact.pinned}
                for fact in self.episode.facts
            ],
            "probes": [dataclasses.asdict(probe) for probe in self.episode.probes],
        }  # fmt: skip


def contents(items: Iterable[Item]) -> dict[str, Any]:
    """Return what is in some episodes, as a card says it; the items are gone through once.

    ``most_frequent_gold`` is the answer that is right most often, of several the first by letter,
    and the share of questions that whoever always gives it gets right.
    """
    kinds, golds, sizes, most = Counter[str](), Counter[str](), list[int](), 0
    for item in items:
        probes = item.episode.probes
        kinds.update(probe.kind for probe in probes)
        for probe in probes:
            golds.update(set(probe.golds))
        sizes.append(len(item.episode.facts))
        most = max(most, len(probes))
    gold = min(golds, key=lambda text: (-golds[text], text), default="")
    share = round(golds[gold] / max(1, kinds.total()), 4)
    return {
        "size": len(sizes),
        "probes": most,
        "kinds": dict(sorted(kinds.items())),
        "most_frequent_gold": {"gold": gold, "share": share},
        "facts": {"min": min(sizes), "median": statistics.median(sizes), "max": max(sizes)},
    }


# ---------------------------------------------------------------- sets on disk


def write(recipe: Recipe, path: Path) -> Path:
    """Write a set, and return the path of its card, which is written too.

    Parameters
    ----------
    path
        A new file whose name ends in ``.jsonl``; its folder is made.

    Raises
    ------
    BusyError
        If another process is writing it.
    ParameterError
        If there is such a file already, or it cannot be written; nothing of it is left.
    """
    card, folder = path.with_suffix(".card.json"), path.parent
    needed, has = recipe.size * len(next(iter(recipe)).to_line()), files.free(folder)
    reason = f"smaller: it needs about {needed / 1e9:,.1f} GB, and {folder} has"
    require(needed <= has, "size", recipe.size, f"{reason} {has / 1e9:,.1f} GB free")
    with alone(path):
        new = path.suffix == ".jsonl" and not path.exists()
        require(new, "out", str(path), "a new file whose name ends in .jsonl")
        files.remove_leftovers(path, card)
        with files.replacing(path) as file:
            digest = files.add(file, recipe)
            about = {**recipe.to_dict(), "profile": recipe.profile, **contents(recipe)}
            about |= {"rulerlib": rulerlib.__version__, "sha256": digest}
            # First the card: a set that is there has one, even if we are killed in between.
            files.write_object(card, about)
    return card


def _parser() -> argparse.ArgumentParser:
    parser = commands.parser(
        "rulerlib.memory.suites",
        "--suite NAME --size N --out FILE [options]",
        "Write a set of episodes: facts to be taught, and questions about them.",
        "--suite semantic --size 20 --knob facts=50 --out sets/hops.jsonl",
    )
    # Numbers are read as texts, so that a wrong one is told as everywhere else.
    parser.add_argument("--suite", required=True, help=", ".join(SUITES))
    parser.add_argument("--size", required=True, help="how many episodes")
    parser.add_argument("--out", required=True, metavar="FILE", help="where: a name in .jsonl")
    parser.add_argument("--seed", default="42", help="another gives other episodes (42)")
    parser.add_argument("--language", default="da", help="the code of a language (da)")
    parser.add_argument("--profile", default="default", help="easy, default or hard")
    parser.add_argument("--probes", default="1", help="questions for each episode (1)")
    parser.add_argument(
        "--knob", action="append", default=[], metavar="NAME=VALUE", help="a knob of the suite"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the set that a command line asks for, and return the exit code: 2 for an error."""
    given = _parser().parse_args(arguments)
    numbers = {name: fields.value(getattr(given, name)) for name in ("size", "seed", "probes")}
    names = {name: getattr(given, name) for name in ("suite", "language", "profile")}
    try:
        knobs = fields.settings("knob", given.knob, "facts=50")
        path = paths.named("out", given.out, "a new file whose name ends in .jsonl")
        card = write(Recipe(**names, **numbers, changes=knobs), path)
    except RulerError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{path}: {numbers['size']} episodes of {given.suite}, described in {card.name}")
    return 0


if __name__ == "__main__":
    sys.exit(commands.run(main))
