"""Several tasks asked in turn, a few samples of each, until it is clear how their mean lies.

What is clear, and after how many samples one looks, is `rulerlib.sequential`'s; here the answers of
the tasks are read from their files after each round. So a run that was killed comes to the same
looks with the same answers, and stops at the same sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from rulerlib import sequential
from rulerlib.progress import Progress
from rulerlib.scoring import Scoring
from rulerlib.store.answers import evidence


@dataclass(frozen=True)
class Turn:
    """One of the tasks that are asked in turn.

    Attributes
    ----------
    ask
        Asks this many of its samples, from the beginning; those that are answered are not asked
        again.
    answers
        The file of its answers.
    length
        In tokens; the mean is one over all tasks of a length.
    scoring
        How they are judged; what RULER's own script computes counts.
    most
        The samples that are asked where it never becomes clear.
    weight
        What all of these count on a bar.
    step
        How many samples go together, see `rulerlib.sequential.looks`.
    """

    ask: Callable[[int], None]
    answers: Path
    length: int
    scoring: Scoring
    most: int
    weight: float
    step: int

    def tally(self, count: int) -> sequential.Tally:
        """Return what the first ``count`` samples came to."""
        values, clusters = [], []
        for answer in evidence(self.answers, count)[0]:
            language = answer.others.get("language") or "en"
            scores = self.scoring.score(answer.pred, answer.outputs, answer.golds, language)
            values.append(scores[self.scoring.ruler])
            shared = answer.others.get("cluster") or answer.others.get("context_id")
            clusters.append(("alone", answer.index) if shared is None else ("context", shared))
        return sequential.tally(values, clusters)


def ask(turns: Sequence[Turn], threshold: float, progress: Progress) -> None:
    """Ask tasks in turn until the mean at each length is clear, or all is asked.

    Parameters
    ----------
    turns
        The tasks at each length.
    threshold
        In percent: a mean is clear that lies above or below.
    progress
        A bar to move on; what need not be asked counts as done.
    """
    by_length = attrgetter("length")
    for _, together in groupby(sorted(turns, key=by_length), key=by_length):
        _ask([*together], threshold, progress)


def _ask(turns: Sequence[Turn], threshold: float, progress: Progress) -> None:
    """Ask the tasks of one length in turn."""
    counts = [0] * len(turns)
    most, step = max(turn.most for turn in turns), max(turn.step for turn in turns)
    for look in sequential.looks(most, step):
        for number, turn in enumerate(turns):
            count = min(look, turn.most)
            turn.ask(count)
            progress.advance(turn.weight * (count - counts[number]) / turn.most)
            counts[number] = count
        tallies = [turn.tally(count) for turn, count in zip(turns, counts, strict=True)]
        if sequential.side(tallies, threshold):
            break
    for turn, count in zip(turns, counts, strict=True):
        progress.advance(turn.weight * (1 - count / turn.most), measured=False)
