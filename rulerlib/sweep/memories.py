"""The memories of a plan: presets that are taught suites of episodes and asked about them.

>>> from rulerlib.sweep.models import PlannedModel
>>> memories = Memories(presets=["rag", "oracle"], suites=["episodic"], sizes=[2])
>>> entry = PlannedModel("lille")
>>> for work in memories.works(entry, ["da"], [1024], [7]):
...     print(work.preset, work.language, work.budget, work.cell.label)
rag da 1024 episodic+size=2+seed=7
oracle da 1024 episodic+size=2+seed=7

What a cell of them is, and how it is taught, rehearsed and asked, `rulerlib.memory` knows, which
runs the same from a terminal and from a notebook.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulerlib import samples
from rulerlib.errors import RulerError
from rulerlib.fields import listed
from rulerlib.memory import presets
from rulerlib.memory.suites import SUITES
from rulerlib.memory.work import COST, METRICS, STOPPED, Work, expand
from rulerlib.progress import Progress
from rulerlib.sweep.models import PlannedModel, several

FOLDER = "memory"
"""Where the runs of memories stand, below the folder of all runs."""

# Seconds between two tries where another process teaches the same.
PAUSE = 5.0


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
        for name, values in (
            ("presets", _names(self.presets, presets.NAMES)),
            ("suites", _names(self.suites, SUITES)),
            ("sizes", self.sizes), ("profiles", self.profiles),
        ):  # fmt: skip
            object.__setattr__(self, name, several(name, values))

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
        same = {
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
        return sorted(works.values(), key=lambda work: (work.language, work.budget))


def answer(works: Sequence[Work], finished: Callable[[Work], object]) -> dict[Path, str]:
    """Teach, rehearse and ask some work; what is done is not done again.

    Parameters
    ----------
    finished
        Called for each piece of work as soon as it is done.

    Returns
    -------
    dict
        What stopped a piece of work, as a sentence, by the place of its answers.

    Raises
    ------
    RulerError
        If a process of it ended in a way that nobody foresaw.
    """
    # With numpy, which nobody needs who asks no memory.
    from rulerlib.memory import running

    for work in works:
        # Measured anew: its answers may have been deleted or cut, and are then asked for again.
        work.file(METRICS).unlink(missing_ok=True)
    left = list(works)
    stopped: dict[Path, str] = {}
    while True:
        running.run(left, progress=_Watch(running.weight(left), left, finished))
        notes = [(work, running.stopped(work)) for work in left]
        # One that is above its oracle is done all the same.
        notes = [(work, note) for work, note in notes if note.get("step") != "compare"]
        stopped |= {work.answers_path: note["sentence"] for work, note in notes if note}
        left = [work for work, note in notes if note.get("busy")]
        if not left:
            return stopped
        # Jobs of other lengths share what a model finds surprising: whoever comes second waits.
        sentences = dict.fromkeys(stopped.pop(work.answers_path) for work in left)
        print(f"Waiting: {' '.join(sentences)}", file=sys.stderr, flush=True)
        time.sleep(PAUSE)


class _Watch(Progress):
    """A bar that draws nothing, and tells each piece of work that is done."""

    def __init__(
        self, total: float, works: Sequence[Work], finished: Callable[[Work], object]
    ) -> None:
        super().__init__(total, "", quiet=True)
        self._left, self._finished = [*works], finished

    def advance(self, weight: float, measured: bool = True) -> None:
        """See `Progress`."""
        super().advance(weight, measured)
        # They are asked one after the other.
        while self._left and any(self._left[0].file(name).exists() for name in (METRICS, STOPPED)):
            work = self._left.pop(0)
            if work.file(METRICS).exists():
                self._finished(work)

    def close(self) -> None:
        """See `Progress`."""
        self.advance(0)


def cost(work: Work) -> dict[str, Any]:
    """Return what a piece of work has cost; empty where that is not known."""
    with contextlib.suppress(RulerError):
        return samples.read_object(work.file(COST)) if work.file(COST).exists() else {}
    return {}


def _names(given: Any, choices: Iterable[str]) -> Any:
    """Return names as a list, all that are known for ``"all"``; a file by its whole path."""
    if isinstance(given, str):
        given = [*choices] if given == "all" else listed(given)
    return [
        str(Path(name).expanduser().resolve()) if str(name).endswith(".yaml") else name
        for name in (given if isinstance(given, (list, tuple)) else [given])
    ]
