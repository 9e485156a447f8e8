"""The parameters of `notebooks/analysis.ipynb`.

>>> Report(runs="runs, more/runs", compare="a, b").compare
['a', 'b']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import pandas as pd
from pydantic import Field

from rulerlib.analysis import RESAMPLES, THRESHOLD
from rulerlib.errors import LARGEST, ParameterError, notebook_parameters, one_of, validated
from rulerlib.files import home
from rulerlib.metrics import MEASURES
from rulerlib.scores import MARKED, NameList, read_predictions, scores, wanted

Length = Annotated[int, Field(ge=1, le=LARGEST)]


@validated
class Report:
    """The runs to analyse and the settings of the analysis, checked before reading files.

    Parameters
    ----------
    runs
        One or more folders of runs, as a list or separated by commas.
    models, languages, tasks
        Names to include, or the names of their folders and files (default: all).
    lengths
        One or more lengths to include, in tokens (default: all).
    studies
        Whether to include the runs of studies.
    threshold
        The average that a length has to exceed to be effective, in percent.
    measure
        The measure to average and compare: ``"ruler"`` (of RULER's script), ``"primary"`` (each
        task's own, or ``primary``), ``"strict"`` (always each task's own), or a name in
        `rulerlib.metrics.MEASURES`.
    primary
        The primary measure of the tasks that have it (default: each task's own).
    compare
        Two models to compare, as a list if their names have commas (default: the first
        ``MOST_PAIRS`` pairs, see `rulerlib.analysis`).
    bins
        The number of rows of the heatmaps.
    examples
        The number of wrong answers to show of each kind.
    resamples, seed
        The number of random draws for effective lengths and sign tests, and their seed.

    Raises
    ------
    ParameterError
        If a parameter is invalid.
    """

    runs: str | Sequence[str] = "runs"
    models: NameList = None
    languages: NameList = None
    tasks: NameList = None
    lengths: Length | list[Length] | None = None
    studies: bool = False
    threshold: float = Field(THRESHOLD, ge=0, le=99.99)
    measure: str = "ruler"
    primary: str | None = None
    compare: NameList = None
    bins: int = Field(10, ge=1, le=LARGEST)
    examples: int = Field(1, ge=1, le=LARGEST)
    resamples: int = Field(RESAMPLES, ge=100, le=LARGEST)
    seed: int = Field(0, ge=0, le=LARGEST)

    def __post_init__(self) -> None:
        one_of("measure", self.measure, [*MARKED, *MEASURES])
        if self.primary is not None:
            one_of("primary", self.primary, MEASURES)
        models = wanted("compare", self.compare)
        if models is not None and len({*models}) != 2:
            raise ParameterError("compare", self.compare, "two models, or None")
        object.__setattr__(self, "compare", models)

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any]) -> Self:
        """Return a report with the parameters of a notebook.

        Parameters
        ----------
        namespace
            ``globals()``, before anything but parameters was set.

        Raises
        ------
        ParameterError
            If a parameter is unknown or cannot work.
        """
        return cls(**notebook_parameters(namespace, [item.name for item in fields(cls)]))

    @cached_property
    def scores(self) -> pd.DataFrame:
        """One row for each prediction and measure, see `rulerlib.scores.scores`.

        Folders are relative to where runs are written.

        Raises
        ------
        ParameterError
            If a folder, or what is chosen within it, does not exist; if two files answer the same
        questions with the same settings; or if no task has the measure ``primary``.
        DataError
            If a file is damaged.
        """
        named = wanted("runs", self.runs) or []
        folders = [home() / Path(name).expanduser() for name in named]
        lengths = [self.lengths] if isinstance(self.lengths, int) else self.lengths
        predictions = read_predictions(
            folders, self.models, self.languages, self.tasks, self.studies, lengths
        )
        return scores(predictions, self.primary)

    @property
    def drawn(self) -> dict[str, Any]:
        """Keyword arguments of averages and comparisons: measure, number of resamples, seed."""
        return {"measure": self.measure, "resamples": self.resamples, "seed": self.seed}
