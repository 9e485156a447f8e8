"""All that `notebooks/analysis.ipynb` shows of a set of runs, each as one call.

>>> from rulerlib.samples import Prediction
>>> about = {"model": "m", "language": "da", "task": "vt", "length": 512}
>>> report = Report.of([(about, Prediction(0, "", ["ABCDE"], "ABCDE"))])
>>> report.summary()["effective"].tolist()
['≥512']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Self

import pandas as pd

from rulerlib import runs as run_module
from rulerlib.analysis import averages, correlations, pairs, tables
from rulerlib.errors import ParameterError, one_of, whole_number
from rulerlib.samples import Prediction

METRICS = ("score", "strict")

# More pairs of models than one can look at.
MOST_PAIRS = 10

NO_AVERAGE = "At no length were all of these tasks asked, so there is no average."


@dataclass(frozen=True)
class Report:
    """Runs and how to look at them, checked before anything is read.

    Parameters
    ----------
    runs
        A folder of runs, or several: a list, or names with commas between them.
    models, languages, tasks
        Only these, by the names of their folders and files; None: all that there are.
    threshold
        What an average has to exceed for its length to be effective, in percent.
    metric
        ``"score"``: RULER's own number; ``"strict"``: an answer is right or wrong as a whole.
    claimed
        For each model the length that it claims, such as ``{"m": "128K"}``.
    compare
        Two models that are compared; None: all pairs, the first few.
    knob
        A knob by which accuracy is shown too, such as ``"num_hops"``; None: by all in which the
        runs differ.
    bins
        Parts into which depth is cut.
    examples
        Wrong answers shown of each kind.
    resamples, seed
        Of all bootstraps.

    Raises
    ------
    ParameterError
        If any of them cannot work.
    """

    runs: str | Sequence[str] = "runs"
    models: str | Sequence[str] | None = None
    languages: str | Sequence[str] | None = None
    tasks: str | Sequence[str] | None = None
    threshold: float = averages.THRESHOLD
    metric: str = "score"
    claimed: Mapping[str, str] = field(default_factory=dict)
    compare: str | Sequence[str] | None = None
    knob: str | None = None
    bins: int = 10
    examples: int = 1
    resamples: int = averages.RESAMPLES
    seed: int = 0

    def __post_init__(self) -> None:
        averages.check_threshold(self.threshold)
        one_of("metric", self.metric, METRICS)
        for name, least in (("bins", 1), ("examples", 1), ("resamples", 100), ("seed", 0)):
            whole_number(name, getattr(self, name), least)
        if not isinstance(self.claimed, Mapping):
            raise ParameterError("claimed", self.claimed, 'a dictionary such as {"m": "128K"}')
        if self.compare is not None and len(set(self._compare)) != 2:
            raise ParameterError("compare", self.compare, "two models, or None")

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any]) -> Self:
        """A report with the parameters that stand in a notebook; it reads the runs at once.

        Parameters
        ----------
        namespace
            ``globals()``, before anything but parameters was set.
        """
        given = run_module.parameters(namespace, [item.name for item in fields(cls)])
        # papermill hands over 86 as a whole number.
        made = cls(**given)
        _ = made.scores
        return made

    @classmethod
    def of(cls, predictions: Iterable[tuple[Mapping[str, Any], Prediction]], **more: Any) -> Self:
        """A report of predictions that are at hand, not in a folder."""
        made = cls(**more)
        made.__dict__["scores"] = tables.scores(predictions)
        return made

    @property
    def folders(self) -> list[Path]:
        """Where the runs lie; relative to where runs are written, as those are."""
        named = tables.wanted(self.runs) or []
        return [run_module.home() / Path(name).expanduser() for name in named]

    @property
    def _compare(self) -> list[str]:
        return tables.wanted(self.compare) or []

    @cached_property
    def scores(self) -> pd.DataFrame:
        """One row for each prediction, see `rulerlib.analysis.scores`."""
        found = tables.read(self.folders, self.models, self.languages, self.tasks)
        return tables.scores(found)

    def overview(self) -> pd.DataFrame:
        """What there is: models, languages, lengths, tasks, answers, and how they ended."""
        grouped = tables.groups_of(self.scores, ("model", "language", "length"))
        made = grouped.agg(
            tasks=("task", "nunique"), n=("index", "size"),
            answers_cut_off=("cut_off", lambda where: int((where != "").sum())),
            prompts_cut=("truncation", lambda kept: int((kept >= 0).sum())),
        ).reset_index()  # fmt: skip
        if tables.shared(self.scores):
            names = tables.clusters(self.scores)
            made["contexts"] = [names[part.index].nunique() for _, part in grouped]
        return tables.plain(made, ("model", "language"))

    def accuracy(self, *by: str) -> pd.DataFrame:
        """Means of the strict rule and of RULER's score, with n and interval."""
        by = by or tables.BY
        strict = tables.accuracy(self.scores, "strict", by)
        score = tables.accuracy(self.scores, "score", by)
        other = score["score"].to_numpy()
        return strict.rename(columns={"strict": "accuracy"}).assign(recall=other)

    @cached_property
    def by_length(self) -> pd.DataFrame:
        return averages.by_length(
            self.scores, self.metric, resamples=self.resamples, seed=self.seed
        )

    def averages_chart(self) -> pd.DataFrame:
        """`by_length` as `rulerlib.plots.models` takes it, or why there is nothing to draw."""
        found = self.by_length
        return found if found["average"].notna().any() else tables.nothing(NO_AVERAGE)

    def summary(self) -> pd.DataFrame:
        """One row for each model and language, as on RULER's leaderboard."""
        return averages.summary(
            self.scores, self.threshold, self.claimed, self.metric,
            resamples=self.resamples, seed=self.seed,
        )  # fmt: skip

    @cached_property
    def effective(self) -> pd.DataFrame:
        return averages.effective_lengths(
            self.scores, self.threshold, self.metric, resamples=self.resamples, seed=self.seed
        )

    def effective_chart(self) -> pd.DataFrame:
        """The effective lengths as `rulerlib.plots.effective` takes them."""
        found = self.effective
        if found.empty:
            return tables.nothing(NO_AVERAGE)
        longest, unbroken = (
            found[found["reading"] == reading].reset_index(drop=True)
            for reading in averages.READINGS
        )
        languages = longest["language"].nunique() > 1
        label = longest["model"] + (", " + longest["language"] if languages else "")
        return pd.DataFrame(
            {
                "model": label,
                "effective": longest["effective"],
                "effective low": longest["low"],
                "effective high": longest["high"],
                "unbroken": unbroken["effective"],
                "claimed": [self.claimed.get(str(name), "") for name in longest["model"]],
            }
        )

    @property
    def lengths(self) -> list[int]:
        """All lengths that were measured."""
        return sorted(int(length) for length in self.scores["length"].unique())

    def parts(self, table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
        """A table cut into one for each model and language, with a title; empty ones stay whole."""
        if table.empty:
            yield "", table
            return
        for names, part in tables.groups_of(table, ("model", "language")):
            yield ", ".join(map(str, names)), tables.plain(part, ())

    def by_depth(self) -> pd.DataFrame:
        """Share of needles found, by depth and length."""
        found = tables.by_depth(self.scores, self.bins)
        why = "None of these tasks hides its answer at a depth, so there is no heatmap."
        return found if len(found) else tables.nothing(why)

    def by_knob(self) -> pd.DataFrame:
        """Accuracy by the knobs in which the runs of one task differ."""
        why = "These runs differ in no knob."
        if "knobs" not in self.scores:
            return tables.nothing(why)
        names = [self.knob] if self.knob else tables.changed_knobs(self.scores)
        made = []
        for name in names:
            part = tables.with_knobs(self.scores, name)
            part = part.assign(task=part["task"].map(tables.base))
            by = ("model", "language", "task", "length", name)
            found = tables.accuracy(part, "strict", by).rename(
                columns={"strict": "accuracy", name: "value"}
            )
            found.insert(list(found.columns).index("value"), "knob", name)
            made.append(found.astype({"value": str}))
        return pd.concat(made, ignore_index=True) if made else tables.nothing(why)

    def pairs(self, *by: str) -> pd.DataFrame:
        """Models compared two by two on the samples that both were asked.

        Parameters
        ----------
        by
            What is compared separately; nothing: language and length, as mean over tasks.
        """
        by = by or ("language", "length")
        models = list(dict.fromkeys(self.scores["model"]))
        if len(models) < 2:
            return tables.nothing(
                f"There is one model here, {models[0]}, and a comparison needs two."
            )
        chosen = [tuple(self._compare)] if self.compare else list(combinations(models, 2))
        made = []
        for first, second in chosen[:MOST_PAIRS]:
            found = pairs.paired(
                self.scores, first, second, self.metric, by, resamples=self.resamples,
                seed=self.seed,
            )  # fmt: skip
            if found.empty:
                continue
            found = found.rename(columns={first: "first mean", second: "second mean"})
            found.insert(0, "models", f"{first} − {second}")
            made.append(found)
        if not made:
            return tables.nothing("No two models here were asked the same samples.")
        return pd.concat(made, ignore_index=True)

    def correlation(self) -> correlations.Correlation | str:
        """How tasks move together, or a sentence on why that cannot be told."""
        return correlations.correlation(self.scores, self.metric)

    def errors(self, *by: str) -> pd.DataFrame:
        """Kinds of mistakes as shares of all answers."""
        return tables.errors(self.scores, by or tables.BY)

    def mistaken_places(self) -> pd.DataFrame:
        """How near the distractors that were taken stood."""
        return tables.mistaken_places(self.scores, ("model", "language", "task", "length"))

    def error_examples(self) -> pd.DataFrame:
        """Real wrong answers of each kind."""
        return tables.error_examples(self.scores, self.examples)
