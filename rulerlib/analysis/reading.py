"""Reading with arithmetic: accuracy by operation, and what needs no model.

>>> from rulerlib.analysis.scores import scores
>>> about = {"model": "lille", "language": "en", "task": "drop_1", "length": 4096}
>>> others = {"golds": [["12"], ["12 goals"]], "facts": {"operation": "sum"}}
>>> said = ["5 + 7 is 12.\\nAnswer: 12", "Answer: 12."]
>>> rows = [(about, Prediction(i, "", ["12"], pred, others)) for i, pred in enumerate(said)]
>>> table = by_operation(scores(rows))
>>> table[["operation", "n", "measure", "mean", "em_raw", "em_norm"]].to_dict("split")["data"]
[['sum', 2, 'drop_f1', 1.0, 0.5, 1.0]]

A score says little without what can be had for nothing. There are two baselines, both judged as
the model is: the same questions without their passages, and the answer that is right most often.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from rulerlib import samples
from rulerlib.analysis.accuracy import accuracy
from rulerlib.analysis.scores import nothing
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.parts import parts_to_data
from rulerlib.runs import Run
from rulerlib.samples import OPTIONAL, Prediction, Sample
from rulerlib.tasks.drop import OPERATIONS, Drop

# Questions of the training side whose answers are counted.
COUNTED = 200

NO_PASSAGE, FREQUENT = "no passage", "most frequent answer"
"""The names of the baselines. The first is the model itself, asked without passages."""

# What a prediction of a study says beside what others say.
_OF_STUDY = ("group", "setting", "study")


def by_operation(table: pd.DataFrame) -> pd.DataFrame:
    """Return means by operation, with their intervals, which are clustered by passage.

    Parameters
    ----------
    table
        From `rulerlib.analysis.scores`.

    Returns
    -------
    DataFrame
        As `rulerlib.analysis.accuracy`, by model, language and length (answers to one question at
        two lengths are not independent) and ``operation``: one of
        `rulerlib.tasks.drop.OPERATIONS`, in its order; or, as nothing else is known of the
        questions of DROP, the kind of their answer. An empty table says that neither
        is known.
    """
    kinds = [facts.get("operation", facts.get("answer_kind")) for facts in table["facts"]]
    rows = table.assign(operation=kinds).dropna(subset="operation")
    by = ("model", "language", "length", "operation")
    if rows.empty:
        return nothing(table.attrs.get("why", "No question says which operation it asks for."), by)
    order = {name: number for number, name in enumerate(OPERATIONS)}
    rows = rows.sort_values(
        "operation", key=lambda names: names.map(order).fillna(len(order)), kind="stable"
    )
    return accuracy(rows, by=by)


# --- Baselines --------------------------------------------------------------------------------


def without_passages(run: Run) -> Run:
    """Return a run whose study asks the questions of a run, at its length, without their passages.

    It has the same model, and its answers stand in the folder of a study of their own. Where
    ``data`` is given nobody knows the questions without their passages, and nothing is asked;
    where questions share their passages, others of the same kind are asked, one for each.
    """
    blind = {**run.knobs, "context": False}
    return replace(
        run, loaded=run.loaded_engine, study_name="no-passage", study_length=run.length,
        study=[] if run.given else [{"task": name, **blind} for name in run.tasks],
        study_samples=run.num_samples,
    )  # fmt: skip


def most_frequent(data: Dataset, questions: Sequence[Sample]) -> list[Prediction]:
    """Return for every sample the first gold that ``COUNTED`` training questions have most often.

    Of equally frequent ones it is the one that was drawn first. The questions are drawn at random,
    by ``fewshot_seed``.

    Raises
    ------
    ParameterError
        If the source of the questions has no training side.
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
    """Yield the predictions of a run at its longest length, and those of the baselines.

    Parameters
    ----------
    run
        A run of reading comprehension that has been answered.
    blind
        The same `without_passages`, answered as well.

    Yields
    ------
    tuple of dict and Prediction
        As `rulerlib.runs.Run.predictions`; for a baseline the ``model`` is its name.
        `most_frequent` is left out where the questions have no training side, as those of ``data``.

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
    """Return the prediction that a baseline makes for a sample."""
    names = ("task", "language", "depths", *OPTIONAL)
    others = {name: value for name in names if (value := getattr(sample, name))}
    others["parts"] = parts_to_data(sample.parts)
    return Prediction(sample.index, sample.input, sample.outputs, answer, others)
