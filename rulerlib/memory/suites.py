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
from typing import Any, NamedTuple

from rulerlib import languages
from rulerlib.errors import ParameterError, dictionary, one_of, whole_number
from rulerlib.languages import Language
from rulerlib.memory import episodic, semantic, spatial
from rulerlib.memory.episodes import Episode, Episodes, fingerprint


class Suite(NamedTuple):
    """A row of the table of suites.

    Attributes
    ----------
    knobs
        The default settings: an instance of a frozen dataclass.
    make
        Returns a generator of episodes for settings, a language and a seed.
    """

    knobs: Any
    make: Callable[[Any, Language, str], Episodes]


SUITES: dict[str, Suite] = {
    **{name: Suite(knobs, episodic.make) for name, knobs in episodic.SUITES.items()},
    "semantic": Suite(semantic.Knobs(), semantic.Semantic),
    "spatial": Suite(spatial.Knobs(), spatial.Spatial),
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
"""The settings that differ from `SUITES`, by profile and suite."""


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
            one_of("knob", name, vars(SUITES[self.suite].knobs))
        object.__setattr__(self, "changes", changes)
        most = self.knobs.most_probes
        if self.probes > most:
            allowed = f"at most {most}, the maximum for an episode of {self.suite} with these knobs"
            raise ParameterError("probes", self.probes, allowed)

    @cached_property
    def knobs(self) -> Any:
        """The settings of the suite, with those of the profile and the changes."""
        preset = PROFILES[self.profile].get(self.suite, {})
        return dataclasses.replace(SUITES[self.suite].knobs, **{**preset, **self.changes})

    @cached_property
    def episodes(self) -> Episodes:
        """The generator of its episodes."""
        language = languages.load(self.language)
        return SUITES[self.suite].make(self.knobs, language, str(self.seed))

    @cached_property
    def first(self) -> Episode:
        """Its first episode."""
        return next(iter(self))

    def to_dict(self) -> dict[str, Any]:
        """Return everything that decides the bytes as plain data, with a hash of the wording."""
        return {
            "suite": self.suite,
            "language": self.language,
            "seed": self.seed,
            "size": self.size,
            "probes": self.probes,
            "knobs": dataclasses.asdict(self.knobs),
            "wording": fingerprint(self.episodes.language, self.episodes.section),
        }

    def __iter__(self) -> Iterator[Episode]:
        for index in range(self.size):
            yield self.episodes.episode(index, self.probes)
