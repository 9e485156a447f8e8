"""Two baselines of reading comprehension with arithmetic.

Both are scored like the model: its answers to the same questions without their passages, and the
most frequent right answer of these questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rulerlib.runs import Run
from rulerlib.samples import Prediction

NO_PASSAGE, FREQUENT = "no passage", "most frequent answer"
"""The names of the baselines; the first is the model itself without passages."""

# Keys that only predictions of a study have.
_OF_STUDY = ("group", "setting", "study")


def without_passages(run: Run) -> Run:
    """Return a run with a study of the first questions without their passages, of the same model.

    It has ``study_samples`` questions of each task and its own folder. It is empty for a run with
    ``data``, whose questions cannot be separated from their passages. If questions share passages,
    it uses other questions of the same kind.
    """
    blind = {**run.knobs, "context": False}
    return replace(
        run, loaded=run.loaded_engine, study_name="no-passage", study_length=run.length,
        study=[] if run.given else [{"task": name, **blind} for name in run.tasks],
        study_samples=min(run.num_samples, run.study_samples),
    )  # fmt: skip


def answers(run: Run, blind: Run) -> Iterator[tuple[dict[str, Any], Prediction]]:
    """Yield the predictions of a run at its longest length and of the baselines.

    Parameters
    ----------
    run
        A finished run of reading comprehension.
    blind
        The finished run `without_passages`.

    Yields
    ------
    tuple of dict and Prediction
        As `rulerlib.runs.Run.predictions`, with the baseline's name as ``model``.

    Raises
    ------
    DataError
        If a file of questions or answers is missing or damaged.
    """
    own = [pair for pair in run.predictions() if pair[0]["length"] == run.length]
    yield from own
    for about, record in blind.study_predictions():
        knobs = {name: value for name, value in about["knobs"].items() if name != "context"}
        plain = {name: value for name, value in about.items() if name not in _OF_STUDY}
        yield {**plain, "model": NO_PASSAGE, "knobs": knobs}, record
    for task in dict.fromkeys(about["task"] for about, _ in own):
        asked = [(about, record) for about, record in own if about["task"] == task]
        counts = Counter(", ".join(record.golds[0]) for _, record in asked)
        answer = counts.most_common(1)[0][0]
        for about, record in asked:
            others = {**record.others, "finished": True, "cut_off": None}
            yield {**about, "model": FREQUENT}, replace(record, pred=answer, others=others)
