"""The suites of episodes, their easy and hard settings, and the command that writes a set::

    python -m rulerlib.memory.suites --suite semantic --size 200 --seed 7 --out sets/hops.jsonl

The same command makes the same bytes everywhere, and a larger set begins with the smaller one.
Beside ``hops.jsonl`` stands ``hops.card.json``, which says what the set was made from and what is
in it; see `rulerlib.memory.sets`.

>>> recipe = Recipe("spatial", size=2, language="en", profile="easy")
>>> recipe.knobs.grid_size
3
>>> [len(item.episode.probes) for item in recipe]
[1, 1]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import rulerlib
from rulerlib import commands, fields, languages, paths, samples
from rulerlib.errors import (
    BusyError,
    ParameterError,
    RulerError,
    RunMismatchError,
    dictionary,
    one_of,
    require,
    whole_number,
)
from rulerlib.languages import Language
from rulerlib.memory.sets import Item, card_of, check, contents
from rulerlib.progress import Progress
from rulerlib.store import files
from rulerlib.store.lock import alone
from rulerlib.store.questions import compare
from rulerlib.tasks import episodic, semantic, spatial
from rulerlib.tasks.episodes import Episodes, fingerprint


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


@dataclass(frozen=True)
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
        known = [each.name for each in dataclasses.fields(SUITES[self.suite].knobs)]
        for name in changes:
            one_of("knob", name, known)
        object.__setattr__(self, "changes", changes)
        most = self.episodes.most_probes
        allowed = f"at most {most}, the questions that an episode of {self.suite} has with"
        allowed += " these knobs"
        require(self.probes <= most, "probes", self.probes, allowed)

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


def write(recipe: Recipe, path: str | Path, quiet: bool = False) -> Path:
    """Write a set and its card, or keep the one that stands there if it is the same.

    Parameters
    ----------
    path
        A file that ends in ``.jsonl``; its folder is made.
    quiet
        Draw no progress bar.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    RunMismatchError
        If another set stands there: names the first setting that differs.
    DataError
        If what stands there is damaged.
    BusyError
        If another process is writing it.
    ParameterError
        If the file cannot be written; nothing of it is left.
    """
    allowed = "a file whose name ends in .jsonl"
    path = paths.named("out", str(path) if isinstance(path, Path) else path, allowed)
    usable = path.suffix == ".jsonl" and (path.is_file() or not path.exists())
    require(usable, "out", str(path), allowed)
    if _stands(path, recipe):
        if files.leftovers(path, card_of(path)):
            # Of a killed writer, unless somebody is at it, or the folder may only be read.
            with contextlib.suppress(BusyError, ParameterError), alone(path):
                files.remove_leftovers(path, card_of(path))
        return path
    with alone(path):
        files.remove_leftovers(path, card_of(path))
        # Another process may have been writing it until just now.
        if not _stands(path, recipe):
            _check_room(recipe, path.parent)
            _write(recipe, path, quiet)
    return path


def _check_room(recipe: Recipe, folder: Path) -> None:
    """Check that a disk can hold about as many bytes as a set has, judged by its first line."""
    needed = recipe.size * len(next(iter(recipe)).to_json().encode())
    has = files.free(folder)
    allowed = f"smaller: it needs about {needed / 1e9:,.1f} GB, and {folder} has {has / 1e9:,.1f}"
    require(needed <= has, "size", recipe.size, f"{allowed} GB free")


def _write(recipe: Recipe, path: Path, quiet: bool) -> None:
    known = hashlib.sha256()
    with (
        Progress(recipe.size, recipe.suite, quiet) as progress,
        files.replacing(path) as file,
    ):
        found = contents(_writing(recipe, file, known.update, progress))
        made = {**recipe.to_dict(), "profile": recipe.profile, "rulerlib": rulerlib.__version__}
        # First the card: a set that is there has one, even if we are killed in between.
        files.write_object(card_of(path), {**made, **found, "sha256": known.hexdigest()})


def _writing(
    recipe: Recipe, file: TextIO, heard: Callable[[bytes], object], progress: Progress
) -> Iterator[Item]:
    """Yield the items of a recipe, each when its line was written and heard."""
    for item in recipe:
        line = item.to_json() + "\n"
        file.write(line)
        heard(line.encode())
        progress.advance(1)
        yield item


def _stands(path: Path, recipe: Recipe) -> bool:
    """Return whether the set of a recipe stands there already, whole.

    Raises
    ------
    RunMismatchError, DataError
        As `write`.
    """
    if not path.exists():
        return False
    about = card_of(path)
    if not about.exists():
        raise RunMismatchError(
            f"{path} stands there without its card {about.name}, so another tool made it: remove"
            " it or choose another name."
        )
    card, wanted = samples.read_object(about), json.loads(json.dumps(recipe.to_dict()))
    compare(path, card, wanted, remedy="remove it or choose another name")
    check(path)
    return True


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
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            path = write(
                Recipe(**names, **numbers, changes=fields.settings("knob", given.knob, "facts=50")),
                given.out,
            )
        except RulerError as error:
            print(error, file=sys.stderr)
            return 2
    for each in told:
        print(each.message, file=sys.stderr)
    print(f"{path}: {numbers['size']} episodes of {given.suite}, described in {card_of(path).name}")
    return 0


if __name__ == "__main__":
    sys.exit(commands.run(main))
