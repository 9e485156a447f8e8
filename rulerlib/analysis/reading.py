"""Two baselines of reading comprehension with arithmetic.

Both are scored like the model: its answers to the same questions without their passages, and the
most frequent right answer of the training questions.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rulerlib import samples
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.parts import parts_to_data
from rulerlib.runs import Run
from rulerlib.samples import OPTIONAL, Prediction, Sample
from rulerlib.tasks.drop import Drop

# The number of training questions whose answers are counted.
COUNTED = 200

NO_PASSAGE, FREQUENT = "no passage", "most frequent answer"
"""The names of the baselines; the first is the model itself without passages."""

# Keys that only predictions of a study have.
_OF_STUDY = ("group", "setting", "study")


def without_passages(run: Run) -> Run:
    """Return a run with a study of the same questions and model without the passages.

    The study has its own folder. It is empty for a run with ``data``, whose questions cannot be
    separated from their passages. If questions share passages, it uses other questions of the same
    kind.
    """
    blind = {**run.knobs, "context": False}
    return replace(
        run, loaded=run.loaded_engine, study_name="no-passage", study_length=run.length,
        study=[] if run.given else [{"task": name, **blind} for name in run.tasks],
        study_samples=run.num_samples,
    )  # fmt: skip


def most_frequent(data: Dataset, questions: Sequence[Sample]) -> list[Prediction]:
    """Answer every sample with the most frequent first gold of ``COUNTED`` training questions.

    The questions are drawn with ``fewshot_seed``; ties go to the answer drawn first.

    Raises
    ------
    ParameterError
        If the source has no training questions.
    """
    maker = data.maker
    assert isinstance(maker, Drop)
    training = maker.training
    total = training.num_questions
    rng = random.Random(maker.fewshot_seed)
    numbers = rng.sample(range(total), min(COUNTED, total))
    golds = Counter(training.question(number).answers[0] for number in numbers)
    ((answer, _),) = golds.most_common(1)
    return [_answered(sample, answer) for sample in questions]


def baselines(run: Run, blind: Run) -> Iterator[tuple[dict[str, Any], Prediction]]:
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
        As `rulerlib.runs.Run.predictions`, with the baseline's name as ``model``. `most_frequent`
        needs training questions; with ``data`` it is left out.

    Raises
    ------
    DataError
        If a file of questions or answers is missing or damaged.
    """
    yield from [pair for pair in run.predictions() if pair[0]["length"] == run.length]
    for about, record in blind.study_predictions():
        knobs = {name: value for name, value in about["knobs"].items() if name != "context"}
        plain = {name: value for name, value in about.items() if name not in _OF_STUDY}
        yield {**plain, "model": NO_PASSAGE, "knobs": knobs}, record
    for cell in run.cells:
        if cell.length == run.length and not run.given:
            questions = list(samples.read(run.questions(cell), Sample))[: run.num_samples]
            about = {**cell.settings(), "model": FREQUENT}
            with contextlib.suppress(ParameterError):
                answers = most_frequent(run.dataset(cell), questions)
                yield from ((about, record) for record in answers)


def _answered(sample: Sample, answer: str) -> Prediction:
    """Return a sample with the answer of a baseline."""
    names = ("task", "language", "depths", *OPTIONAL)
    others = {name: value for name in names if (value := getattr(sample, name))}
    others["parts"] = parts_to_data(sample.parts)
    return Prediction(sample.index, sample.input, sample.outputs, answer, others)
