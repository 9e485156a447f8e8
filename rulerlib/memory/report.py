"""The parameters of `notebooks/memory.ipynb`: what is taught to which memories, and who is asked.

>>> report = MemoryReport(suites="episodic", presets="rag,oracle", sizes=2, seeds="7,8")
>>> [f"{job.preset.name} {job.recipe.seed}" for job in report.works]
['rag 7', 'oracle 7', 'rag 8', 'oracle 8']
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

import pandas as pd

from rulerlib import labels, show
from rulerlib.errors import dictionary, one_of, require
from rulerlib.escaping import Html, markup
from rulerlib.fields import home, notebook_parameters, values_of
from rulerlib.memory import bench, results, work
from rulerlib.memory.episodes import Episode, Probe
from rulerlib.memory.suites import SUITES
from rulerlib.memory.tables import CAPACITY
from rulerlib.memory.work import Values, Work, expand
from rulerlib.samples import Prediction
from rulerlib.store import answers

# What all pieces of work have in common.
_OF_ALL = ("model", "engine", "engine_options", "length", "profile", "probes")

# The number of facts of an episode that are shown beside those that are needed.
_FIRST_FACTS = 12


@dataclass(frozen=True)
class MemoryReport:
    """A matrix of memories, checked before anything is taught.

    Parameters
    ----------
    suites, presets
        Names, or ``"all"``.
    sizes, seeds
        How many episodes each set has, and which sets.
    language
        The code of a language, or several with commas between them.
    model, engine, engine_options, length, profile, probes, knobs, changes
        See `rulerlib.memory.work.expand`; knobs and changes are set where there are such.
    facts, facts_size
        Numbers of facts for the capacity curve, each taught by ``facts_size`` episodes of
        ``episodic_capacity`` for each seed; none: no curve.
    reference
        Whether the reference reader (`rulerlib.models.reference`) is asked the same, with the
        model's tokenizer.
    output
        The folder of all runs of memories.

    Raises
    ------
    ParameterError
        If a value cannot work: says what is allowed.
    DataError
        If a language lacks its wording, or a preset cannot be read.
    """

    suites: Values = "all"
    presets: Values = "all"
    sizes: Values = 50
    seeds: Values = 1337
    language: Values = "da"
    model: str = "lille"
    engine: str = "transformers"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    length: int = 2048
    profile: str = "default"
    probes: int = 1
    knobs: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    facts: Values = ()
    facts_size: int = 50
    reference: bool = False
    output: str = "runs/memory"

    def __post_init__(self) -> None:
        require(isinstance(self.output, str) and self.output, "output", self.output, "a folder")
        _ = self.works, self.curve

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any]) -> Self:
        """Return a report with the parameters that stand in a notebook.

        Parameters
        ----------
        namespace
            ``globals()``, before anything but parameters was set.

        Raises
        ------
        ParameterError, DataError
            If a parameter is unknown or cannot work.
        """
        values = notebook_parameters(namespace, [item.name for item in fields(cls)])
        return cls(**{name: value for name, value in values.items() if value is not None})

    @cached_property
    def works(self) -> list[Work]:
        """All pieces of work but those of the curve, those on one set of episodes together."""
        return self._expanded(self.suites, self.sizes, self.knobs)

    @cached_property
    def curve(self) -> list[Work]:
        """The work of the capacity curve."""
        usual = vars(SUITES[CAPACITY].knobs)
        knobs = dictionary("knobs", self.knobs, "{}")
        knobs = {name: value for name, value in knobs.items() if name in usual}
        works = []
        for number in values_of("facts", self.facts) if self.facts not in ((), [], "") else ():
            # As many as the suite has anyway are no change of it, and no work of their own.
            changed = number != usual["facts"] or self.profile != "default"
            facts = {"facts": number} if changed else {}
            works += self._expanded(CAPACITY, self.facts_size, {**knobs, **facts})
        return works

    def _expanded(self, suites: Values, sizes: Values, knobs: Mapping[str, Any]) -> list[Work]:
        readers: list[dict[str, Any]] = [{}]
        if self.reference:
            options = {"tokenizer": self.engine_options.get("tokenizer", self.model)}
            named = dict.fromkeys(("model", "engine"), "reference")
            readers.append({**named, "engine_options": options})
        same = {name: getattr(self, name) for name in _OF_ALL}
        return [
            job for reader in readers for job in expand(
                self.presets, suites, sizes, self.seeds, self.language, knobs, self.changes,
                root=str(home() / self.output), **(same | reader),
            )
        ]  # fmt: skip

    def example(self, suite: str | None = None) -> Html:
        """Return the first episode of a suite, with its first question.

        Parameters
        ----------
        suite
            One of those that are asked; None: the first.
        """
        job = self._first(suite)
        episode = job.recipe.first
        return show_episode(episode, episode.probes[0], language=job.recipe.language)

    def run(self) -> tuple[str, ...]:
        """Teach and test, and return what stopped some of the work, in sentences.

        What is finished is not done again.

        Raises
        ------
        RulerError
            As `rulerlib.memory.bench.run`.
        """
        works = {job.folder: job for job in (*self.works, *self.curve)}
        by_engine = sorted(works.values(), key=lambda job: job.engine == "reference")
        parts = itertools.groupby(by_engine, key=lambda job: job.engine)
        return tuple(itertools.chain(*(bench.run([*part]) for _, part in parts)))

    def told(self, stopped: tuple[str, ...]) -> str:
        """Return in words what stopped some of the work."""
        return " ".join(stopped) or "Nothing stopped any of the runs."

    def plan(self) -> pd.DataFrame:
        """Return what is run: a row for each set of episodes, with how many presets are asked."""
        sets: dict[Any, list[Work]] = {}
        for job in (*self.works, *self.curve):
            sets.setdefault(job.episodes_name, []).append(job)
        return pd.DataFrame([
            {**{name: getattr(jobs[0].recipe, name)
                for name in ("suite", "language", "size", "seed")},
             "facts": len(jobs[0].recipe.first.facts),
             "questions": jobs[0].asked, "presets": len({job.preset.short for job in jobs})}
            for jobs in sets.values()
        ])  # fmt: skip

    @property
    def rows(self) -> pd.DataFrame:
        """One row for each question that was answered, see `rulerlib.memory.results`."""
        return results.of_runs({job.folder for job in self.works})

    @property
    def curve_rows(self) -> pd.DataFrame:
        """The same of the capacity curve."""
        return results.of_runs({job.folder for job in self.curve})

    def answers(self) -> Html:
        """Return the first question and what the model said to it, by preset."""
        first = self.works[0]
        jobs = [job for job in self.works if job.episodes_name == first.episodes_name]
        done = [job for job in jobs if job.file(work.METRICS).exists()]
        return show_answers(
            (
                labels.model(job.preset.name, job.engine),
                answers.read_predictions(job.answers_path, 1)[0],
            )
            for job in done
        )

    def _first(self, suite: str | None) -> Work:
        first = {job.recipe.suite: job for job in reversed(self.works)}
        return first[one_of("suite", suite or self.works[0].recipe.suite, first)]


def show_episode(taught: Episode, probe: Probe, language: str = "") -> Html:
    """Return what an episode teaches, with the facts that an answer needs marked, and a question.

    Parameters
    ----------
    probe
        One of its questions.
    language
        The code of the language that a screen reader reads them in; "": that of the page.
    """
    boxed, lines, mark = [], [], show.MARKS["needle"]
    for text, needed in _facts(taught, probe):
        line = markup(text)
        boxed.append(f"<mark style='{mark}'>{line}</mark>" if needed else line)
        lines.append(f"{text} ← needed" if needed else text)
    wanted, said = ", ".join(probe.golds), "\n".join(boxed)
    spoken_in = f" lang='{markup(language)}'" if language else ""
    return Html(
        f"<div{spoken_in} style='{show.BOX}'>{said}\n\n<b>{markup(probe.text)}</b></div>"
        f"<div><mark style='{mark}'>needed for the answer</mark>"
        f" <b>{show.WANTED}</b> <bdi{spoken_in}>{markup(wanted)}</bdi></div>",
        "\n".join([*lines, "", probe.text, f"{show.WANTED} {wanted}"]),
    )


def _facts(taught: Episode, probe: Probe) -> Iterator[tuple[str, bool]]:
    """Yield the texts of facts, and whether they are needed; gaps in the place of the others."""
    left = 0
    for fact in taught.facts:
        needed = fact.number in probe.needs
        if fact.number < _FIRST_FACTS or needed:
            if left:
                yield f"[… {left} facts …]", False
            yield fact.text, needed
            left = 0
        else:
            left += 1
    if left:
        yield f"[… {left} facts …]", False


def show_answers(given: Iterable[tuple[str, Prediction]]) -> Html:
    """Return what a model was asked and what it said, one box for each memory.

    Parameters
    ----------
    given
        The name of a preset, and the answer.
    """
    boxes = []
    for name, record in given:
        wanted, language = ", ".join(record.outputs), record.others.get("language", "")
        boxes.append(show.answer_box(name, record.pred, wanted, language, record.input))
    return show.stacked(boxes)
