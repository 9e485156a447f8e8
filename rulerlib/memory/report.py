"""The parameters of `notebooks/memory.ipynb`, and what the notebook shows.

>>> report = MemoryReport(suites="episodic", presets="rag,oracle", sizes=2, seeds="7,8")
>>> [f"{job.preset.name} {job.recipe.seed}" for job in report.works]
['rag 7', 'oracle 7', 'rag 8', 'oracle 8']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

import pandas as pd

from rulerlib import show, store
from rulerlib.errors import ParameterError, notebook_parameters, values_of
from rulerlib.escaping import Html
from rulerlib.files import home
from rulerlib.memory import bench, tables
from rulerlib.memory.work import METRICS, Values, Work, expand
from rulerlib.scores import model_label

# The parameters that all pieces of work share.
_OF_ALL = ("model", "engine", "engine_options", "length", "profile", "probes", "primary_em")


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
        numbers = values_of("facts", self.facts) if self.facts else []
        works = [
            self._expanded(tables.CAPACITY, self.facts_size, {"facts": number})
            for number in numbers
        ]
        return [job for part in works for job in part]

    def _expanded(self, suites: Values, sizes: Values, knobs: Mapping[str, Any]) -> list[Work]:
        same = {name: getattr(self, name) for name in _OF_ALL}
        readers = [same]
        if self.reference:
            options = {"tokenizer": self.engine_options.get("tokenizer", self.model)}
            reader = {"model": "reference", "engine": "reference", "engine_options": options}
            readers.append({**same, **reader})
        asked, root = (self.seeds, self.language, knobs, self.changes), str(home() / self.output)
        return [
            job
            for reader in readers
            for job in expand(self.presets, suites, sizes, *asked, root=root, **reader)
        ]

    def run(self) -> tuple[str, ...]:
        """Run what is not finished; return a sentence for each error that stopped some of it.

        Raises
        ------
        RulerError
            As `rulerlib.memory.bench.run`.
        """
        readers: dict[str, list[Work]] = {}
        for job in (*self.works, *self.curve):
            readers.setdefault(job.engine, []).append(job)
        return tuple(sentence for works in readers.values() for sentence in bench.run(works))

    @property
    def rows(self) -> pd.DataFrame:
        """One row for each question that was answered, see `rulerlib.memory.tables.read`."""
        return tables.of_runs(job.folder for job in self.works)

    @property
    def curve_rows(self) -> pd.DataFrame:
        """The same for the capacity curve."""
        return tables.of_runs(job.folder for job in self.curve)

    def answers(self) -> Html:
        """Return the prompt of the first question and the model's answer to it, by preset."""
        boxes, first = [], self.works[0]
        for job in self.works:
            if job.recipe is first.recipe and job.file(METRICS).exists():
                answer = store.read_predictions(job.answers_path, 1)[0]
                name, wanted = model_label(job.preset.name, job.engine), ", ".join(answer.outputs)
                language = job.recipe.language
                boxes.append(show.answer_box(name, answer.pred, wanted, language, answer.input))
        return show.stacked(boxes)
