"""The suites of episodes, and their easy and hard settings.

A recipe generates the same episodes everywhere. A larger one begins with those of a smaller one.

>>> recipe = Recipe("spatial", size=2, language="en", profile="easy")
>>> recipe.knobs.grid_size
3
>>> [len(episode.probes) for episode in recipe]
[1, 1]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerlib import languages
from rulerlib.errors import ParameterError, dictionary, one_of, settings_file, whole_number
from rulerlib.files import digest
from rulerlib.memory import episodic, semantic, spatial
from rulerlib.memory.episodes import Episode, Episodes

SUITES = settings_file(Path(__file__).with_name("suites.yaml"), "the settings of suites")
"""The generator of each suite, and the settings of its profiles, by name."""

PROFILES = ("default", "easy", "hard")

GENERATORS: dict[str, Any] = {"episodic": episodic, "semantic": semantic, "spatial": spatial}
"""The module of each generator: the class ``Knobs`` of its settings, and ``make``."""


def defaults(suite: str) -> dict[str, Any]:
    """Return the settings of a suite without a profile, by name."""
    knobs = GENERATORS[SUITES[suite]["generator"]].Knobs(**SUITES[suite].get("default", {}))
    return dataclasses.asdict(knobs)


@dataclass(frozen=True, eq=False)
class Recipe:
    """Everything that decides the bytes of a set of episodes. Iterating generates them.

    Attributes
    ----------
    suite
        A key of `SUITES`.
    size
        The number of episodes. A larger set begins with the episodes of a smaller one.
    seed
        Another seed gives other episodes.
    language
        The code of a language pack: ``"da"``.
    profile
        A key of `PROFILES`.
    probes
        The number of questions about each episode.
    changes
        Settings that differ from the profile, by name.

    Raises
    ------
    ParameterError
        If a value is not allowed.
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
            one_of("knob", name, defaults(self.suite))
        most = self.knobs.most_probes
        if self.probes > most:
            allowed = f"at most {most}, the maximum for an episode of {self.suite} with these knobs"
            raise ParameterError("probes", self.probes, allowed)

    @cached_property
    def knobs(self) -> Any:
        """The settings of the suite, with those of the profile and the changes."""
        profile = SUITES[self.suite].get(self.profile, {})
        return GENERATORS[SUITES[self.suite]["generator"]].Knobs(
            **{**defaults(self.suite), **profile, **self.changes}
        )

    @cached_property
    def episodes(self) -> Episodes:
        """The generator of its episodes."""
        make: Callable[..., Episodes] = GENERATORS[SUITES[self.suite]["generator"]].make
        return make(self.knobs, languages.load(self.language), str(self.seed))

    @cached_property
    def first(self) -> Episode:
        """Its first episode."""
        return next(iter(self))

    def to_dict(self) -> dict[str, Any]:
        """Return everything that decides the bytes as plain data, with a hash of the wording."""
        language, names = self.episodes.language, self.episodes.language.section("names")
        sentences = self.episodes.wording, language.articles
        return {
            "suite": self.suite,
            "language": self.language,
            "seed": self.seed,
            "size": self.size,
            "probes": self.probes,
            "knobs": dataclasses.asdict(self.knobs),
            "wording": digest([repr(sentences), repr(names["names"]), repr(names["format"])]),
        }

    def __iter__(self) -> Iterator[Episode]:
        for index in range(self.size):
            yield self.episodes.episode(index, self.probes)
