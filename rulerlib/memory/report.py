"""The parameters of `notebooks/memory.ipynb`, and what the notebook shows.

>>> report = MemoryReport(suites="episodic", presets="rag,oracle", sizes=2, seeds="7,8")
>>> [f"{job.preset.name} {job.recipe.seed}" for job in report.works]
['rag 7', 'oracle 7', 'rag 8', 'oracle 8']
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

import pandas as pd

from rulerlib import labels, show, store
from rulerlib.errors import ParameterError, dictionary, one_of
from rulerlib.escaping import Html, markup
from rulerlib.files import home
from rulerlib.memory import bench, results, tables, work
from rulerlib.memory.episodes import Episode, Fact, Probe
from rulerlib.memory.suites import SUITES
from rulerlib.memory.work import Values, Work, expand
from rulerlib.parsing import notebook_parameters, values_of
from rulerlib.samples import Prediction

# The parameters that all pieces of work share.
_OF_ALL = ("model", "engine", "engine_options", "length", "profile", "probes", "primary_em")

# Number of facts of an episode to show in addition to the needed ones.
_FIRST_FACTS = 12


@dataclass(frozen=True)
class MemoryReport:
    """A matrix of memories, checked before anything is taught.

    Parameters
    ----------
    suites, presets
        Names, or ``"all"``.
    sizes, seeds
        The number of episodes of each set, and the seeds of the sets.
    language
        The code of a language, or several with commas between them.
    model, engine, engine_options, length, profile, probes, knobs, changes, primary_em
        See `rulerlib.memory.work.expand`.
    facts, facts_size
        Numbers of facts for the capacity curve, and the number of episodes of
        ``episodic_capacity`` for each number and seed. Without numbers there is no curve.
    reference
        Whether the reference reader (`rulerlib.models.reference`) is asked too, with the model's
        tokenizer.
    output
        The folder of all runs of memories.

    Raises
    ------
    ParameterError
        If a value is not allowed.
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
    primary_em: str = "norm"
    knobs: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    facts: Values = ()
    facts_size: int = 50
    reference: bool = False
    output: str = "runs/memory"

    def __post_init__(self) -> None:
        if not isinstance(self.output, str) or not self.output:
            raise ParameterError("output", self.output, "a folder")
        # Making the work checks the other parameters.
        _ = self.works, self.curve

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any]) -> Self:
        """Return a report with the parameters of a notebook.

        Parameters
        ----------
        namespace
            ``globals()``, before anything else was set.

        Raises
        ------
        ParameterError, DataError
            If a parameter is unknown or its value is not allowed.
        """
        values = notebook_parameters(namespace, [item.name for item in fields(cls)])
        return cls(**{name: value for name, value in values.items() if value is not None})

    @cached_property
    def works(self) -> list[Work]:
        """All pieces of work except those of the curve."""
        return self._expanded(self.suites, self.sizes, self.knobs)

    @cached_property
    def curve(self) -> list[Work]:
        """The work of the capacity curve."""
        if self.facts in ((), [], ""):
            return []
        defaults, works = vars(SUITES[tables.CAPACITY].knobs), []
        given = dictionary("knobs", self.knobs, "{}")
        for number in values_of("facts", self.facts):
            knobs = {name: value for name, value in given.items() if name in defaults}
            knobs["facts"] = number
            # The default number is no change, and so no work of its own.
            if number == defaults["facts"] and self.profile == "default":
                del knobs["facts"]
            works += self._expanded(tables.CAPACITY, self.facts_size, knobs)
        return works

    def _expanded(self, suites: Values, sizes: Values, knobs: Mapping[str, Any]) -> list[Work]:
        same = {name: getattr(self, name) for name in _OF_ALL}
        readers = [same]
        if self.reference:
            options = {"tokenizer": self.engine_options.get("tokenizer", self.model)}
            reader = {"model": "reference", "engine": "reference", "engine_options": options}
            readers.append({**same, **reader})
        return [
            job for reader in readers for job in expand(
                self.presets, suites, sizes, self.seeds, self.language, knobs, self.changes,
                root=str(home() / self.output), **reader,
            )
        ]  # fmt: skip

    def example(self, suite: str | None = None) -> Html:
        """Return the first episode of a suite, with its first question.

        Parameters
        ----------
        suite
            One of the suites that are asked. If None, the first one.
        """
        first = {job.recipe.suite: job for job in reversed(self.works)}
        job = first[one_of("suite", suite or self.works[0].recipe.suite, first)]
        episode = job.recipe.first
        return show_episode(episode, episode.probes[0], language=job.recipe.language)

    def run(self) -> tuple[str, ...]:
        """Run what is not finished; return a sentence for each error that stopped some of it.

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
        """Return what stopped some of the work as one text."""
        return " ".join(stopped) or "Nothing stopped any of the runs."

    def plan(self) -> pd.DataFrame:
        """Return a row for each set of episodes, with the number of presets that are asked."""
        sets: dict[tuple[str, str], list[Work]] = {}
        for job in (*self.works, *self.curve):
            sets.setdefault((job.recipe.language, job.cell.label), []).append(job)
        names = ("suite", "language", "size", "seed")
        return pd.DataFrame([
            {**{name: getattr(jobs[0].recipe, name) for name in names},
             "facts": len(jobs[0].recipe.first.facts), "questions": jobs[0].asked,
             "presets": len({job.preset.short for job in jobs})}
            for jobs in sets.values()
        ])  # fmt: skip

    @property
    def rows(self) -> pd.DataFrame:
        """One row for each question that was answered, see `rulerlib.memory.results`."""
        return results.of_runs({job.folder for job in self.works})

    @property
    def curve_rows(self) -> pd.DataFrame:
        """The same for the capacity curve."""
        return results.of_runs({job.folder for job in self.curve})

    def answers(self) -> Html:
        """Return the first question and the model's answer to it, by preset."""
        first, given = self.works[0], []
        for job in self.works:
            same = job.recipe.language, job.cell.label
            asked = same == (first.recipe.language, first.cell.label)
            if asked and job.file(work.METRICS).exists():
                name = labels.model(job.preset.name, job.engine)
                given.append((name, store.read_predictions(job.answers_path, 1)[0]))
        return show_answers(given)


def show_episode(taught: Episode, probe: Probe, language: str = "") -> Html:
    """Return the facts of an episode, with the needed ones marked, and a question.

    Parameters
    ----------
    probe
        One of its questions.
    language
        The code of the language for screen readers; by default that of the page.
    """
    boxed, lines, mark = list[str](), list[str](), show.MARKS["needle"]

    def shown(fact: Fact) -> bool:
        return fact.number < _FIRST_FACTS or fact.number in probe.needs

    for is_shown, facts in itertools.groupby(taught.facts, key=shown):
        if not is_shown:
            left = f"[… {len([*facts])} facts …]"
            boxed.append(left)
            lines.append(left)
            continue
        for fact in facts:
            needed, line = fact.number in probe.needs, markup(fact.text)
            boxed.append(f"<mark style='{mark}'>{line}</mark>" if needed else line)
            lines.append(f"{fact.text} ← needed" if needed else fact.text)
    wanted, facts_shown = ", ".join(probe.golds), "\n".join(boxed)
    spoken_in = f" lang='{markup(language)}'" if language else ""
    return Html(
        f"<div{spoken_in} style='{show.BOX}'>{facts_shown}\n\n<b>{markup(probe.text)}</b></div>"
        f"<div><mark style='{mark}'>needed for the answer</mark>"
        f" <b>{show.REFERENCE}</b> <bdi{spoken_in}>{markup(wanted)}</bdi></div>",
        "\n".join([*lines, "", probe.text, f"{show.REFERENCE} {wanted}"]),
    )


def show_answers(given: Iterable[tuple[str, Prediction]]) -> Html:
    """Return a box for each memory with the prompt and the answer.

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
