"""Scoring: how an answer is judged, from the text that a model wrote to named numbers.

>>> LIST.score("The values are 12 and 34.", ["12", "34", "56"])
{'all_match': 0.0, 'recall': 0.6666666666666666}
>>> LIST.primary, LIST.ruler
('all_match', 'recall')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rulerlib.errors import one_of
from rulerlib.metrics import MEASURES

Extract = Callable[[str], str]
"""Finds the answer in what a model wrote."""


@dataclass(frozen=True)
class Scoring:
    """How the answers of a task are judged.

    Attributes
    ----------
    measures
        Names in `rulerlib.metrics.MEASURES`, in the order in which tables show them. Each
        normalizes as it is defined to.
    primary
        The one that is reported as the score.
    ruler
        The one that RULER's own script computes for such a task, of which its averages are made.
    extract
        Finds the answer in what a model wrote; None: all of it is the answer.

    Raises
    ------
    ParameterError
        If a measure is unknown, or ``primary`` or ``ruler`` is none of ``measures``.
    """

    measures: tuple[str, ...]
    primary: str
    ruler: str
    extract: Extract | None = None

    def __post_init__(self) -> None:
        for name in self.measures:
            one_of("measure", name, MEASURES)
        for name in ("primary", "ruler"):
            one_of(name, getattr(self, name), self.measures)

    def score(self, pred: str, outputs: Sequence[str]) -> dict[str, float]:
        """Return the value of each measure, from 0 to 1, by its name."""
        answer = pred if self.extract is None else self.extract(pred)
        return {name: MEASURES[name](answer, outputs) for name in self.measures}


LIST = Scoring(("all_match", "recall"), primary="all_match", ruler="recall")
"""Every reference must appear: needles, chains, lists of words."""

ANY = Scoring(("part_match",), primary="part_match", ruler="part_match")
"""Any one reference suffices: questions, whose references are spellings of one answer."""
