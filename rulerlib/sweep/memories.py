"""The memories of a plan: presets that are taught suites of episodes and asked about them.

>>> from rulerlib.sweep.models import PlannedModel
>>> memories = Memories(presets=["rag", "oracle"], suites=["episodic"], sizes=[2])
>>> entry = PlannedModel("lille")
>>> for work in memories.works(entry, ["da"], [1024], [7]):
...     print(work.preset.name, work.recipe.language, work.budget, work.cell.label)
rag da 1024 episodic+size=2+seed=7
oracle da 1024 episodic+size=2+seed=7

What a cell of them is, and how it is taught, rehearsed and asked, `rulerlib.memory` knows, which
runs the same from a terminal and from a notebook.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulerlib.memory import presets
from rulerlib.memory.suites import PROFILES, SUITES
from rulerlib.memory.work import Work, expand, values_of
from rulerlib.sweep.models import PlannedModel

FOLDER = "memory"
"""Where the runs of memories stand, below the folder of all runs."""


@dataclass(frozen=True)
class Memories:
    """What a plan asks of memories, each with each: in its languages, at its lengths, by its seeds.

    A preset says by itself how a question is put and how its answer is decoded, so the plan's
    ``format`` and ``decoding`` are not meant for them; nor is ``num_samples``.

    Attributes
    ----------
    presets, suites
        Names, a text with commas between them, or ``"all"``; see `rulerlib.memory.presets` and
        `rulerlib.memory.suites`. A preset of your own is a file in .yaml.
    sizes
        How many episodes a set has.
    profiles
        Of the suites: ``easy``, ``default``, ``hard``.
    probes
        How many questions each episode is asked.
    knobs, changes
        Of suites and of presets, set in those that have them.

    Raises
    ------
    ParameterError
        If a name is unknown, or a value cannot work.
    """

    presets: Sequence[str] | str
    suites: Sequence[str] | str = "all"
    sizes: Sequence[int] = (50,)
    profiles: Sequence[str] = ("default",)
    probes: int = 1
    knobs: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # As plain data has them, so that a plan is the same when it was written; the rest is
        # checked with the work that it makes.
        choices = {"presets": presets.NAMES, "suites": SUITES, "sizes": (), "profiles": PROFILES}
        lists = {name: values_of(name, getattr(self, name), choices[name]) for name in choices}
        # A preset of one's own is known by its whole path.
        lists["presets"] = [
            str(Path(name).expanduser().resolve()) if str(name).endswith(".yaml") else name
            for name in lists["presets"]
        ]
        vars(self).update(lists)

    def works(
        self, entry: PlannedModel, languages: Sequence[str], lengths: Sequence[int],
        seeds: Sequence[int], root: Path | None = None, address: str | None = None,
    ) -> list[Work]:  # fmt: skip
        """Return the work of one model, by language and by length.

        Parameters
        ----------
        root
            The folder of all runs; None: that does not matter.
        address
            Of the model's server, where a command has started it.

        Raises
        ------
        ParameterError, DataError
            As `rulerlib.memory.work.expand`.
        """
        same: dict[str, Any] = {
            "model": entry.model, "engine": entry.engine, "engine_options": entry.options(address),
            "probes": self.probes, **({} if root is None else {"root": str(root / FOLDER)}),
        }  # fmt: skip
        # A suite that has a budget of its own is asked once, at whatever lengths the others are.
        works = {
            work.answers_path: work
            for length in lengths
            for profile in self.profiles
            for work in expand(
                self.presets, self.suites, self.sizes, seeds, languages, self.knobs, self.changes,
                length=length, profile=profile, **same,
            )
        }  # fmt: skip
        return sorted(works.values(), key=lambda work: (work.recipe.language, work.budget))
