"""Reading with arithmetic: accuracy by operation, and what needs no model.

>>> from rulerlib.analysis.scores import scores
>>> about = {"model": "lille", "language": "en", "task": "drop_1", "length": 4096}
>>> others = {"golds": [["12"], ["12 goals"]], "facts": {"operation": "sum"}}
>>> said = ["5 + 7 is 12.\\nAnswer: 12", "Answer: 12."]
>>> rows = [(about, Prediction(i, "", ["12"], pred, others)) for i, pred in enumerate(said)]
>>> table = by_operation(scores(rows))
>>> table[["operation", "n", "measure", "mean", "em_raw", "em_norm"]].to_dict("split")["data"]
[['sum', 2, 'drop_f1', 1.0, 0.5, 1.0]]

A score says little without what can be had for nothing. There are three baselines, all judged as
the model is: the same questions without their passages, the answer that is right most often, and
the number or name that stands nearest to what is asked about.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from rulerlib import samples
from rulerlib.analysis.accuracy import accuracy
from rulerlib.analysis.tables import nothing
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.runs import Run
from rulerlib.samples import OPTIONAL, Prediction, Sample
from rulerlib.sources.chronicle_questions import OPERATIONS
from rulerlib.tasks.drop import TRAINING, Reading

# Questions of the training side whose answers are counted.
COUNTED = 200

NO_PASSAGE, FREQUENT, NEAREST = "no passage", "most frequent answer", "nearest number or name"
"""The names of the baselines. The first is the model itself, asked without passages."""

# What a prediction of a study says beside what others say.
_OF_STUDY = ("group", "setting", "study")

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_DATE = re.compile(r"(?<![\d.,])(?:(?:[12]?\d|3[01])\.? [^\W\d]{3,}|\d{4}(?![\d.,]*\d))")
# Capitalised words in a row, and what stands before the first word of a sentence.
_CAPITAL = "".join(filter(str.isupper, map(chr, range(0x250))))
_NAME = re.compile(rf"\b[{_CAPITAL}][\w'’-]*(?: [{_CAPITAL}][\w'’-]*)*")
_PATTERNS = {"name": _NAME, "span": _NAME, "spans": _NAME, "date": _DATE}
_BEGINNING = re.compile(r"(?:^|[.!?:]\s|\n)$")


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
        two lengths are not independent) and ``operation``: a key of
        `rulerlib.sources.chronicle_questions.OPERATIONS`, in its order; or, as nothing else is
        known of the questions of DROP, the kind of their answer. An empty table says that neither
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
    assert isinstance(maker, Reading)
    training = maker.training
    total = training.num_questions or TRAINING
    rng = random.Random(maker.knobs.fewshot_seed)
    numbers = rng.sample(range(total), min(COUNTED, total))
    golds = Counter(training.question(number).answers[0] for number in numbers)
    ((answer, _),) = golds.most_common(1)
    return [_answered(sample, answer) for sample in questions]


def nearest(questions: Sequence[Sample]) -> list[Prediction]:
    """Return for every sample the number or name that stands nearest to what is asked about.

    What is asked about is the word of the question that stands least often in the passages, but
    does stand there; of several it is the first. The rule is told what kind of answer is wanted.
    For a name or a span of text it takes the nearest capitalised words in a row of which the first
    does not begin a sentence; for a date the nearest number up to 31 with the word after it, or of
    four digits; else the nearest number in digits. Distance counts in characters; at the same
    distance the earlier one is taken. What stands in the question itself is no answer, and without
    anything to take, the answer is empty.
    """
    return [_answered(sample, _nearest(sample)) for sample in questions]


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
        if cell.length == run.length:
            questions = list(samples.read(run.questions(cell), Sample))[: run.num_samples]
            answers = {FREQUENT: list[Prediction](), NEAREST: nearest(questions)}
            with contextlib.suppress(ParameterError):
                if not run.given:
                    answers[FREQUENT] = most_frequent(run.dataset(cell), questions)
            for name, records in answers.items():
                about = {**cell.settings(), "model": name}
                yield from ((about, record) for record in records)


def _answered(sample: Sample, answer: str) -> Prediction:
    """Return the prediction that a baseline makes for a sample."""
    names = ("task", "language", "depths", *OPTIONAL)
    others = {name: value for name in names if (value := getattr(sample, name))}
    others["parts"] = sample.parts.to_data()
    return Prediction(sample.index, sample.input, sample.outputs, answer, others)


def _nearest(sample: Sample) -> str:
    context, question = (
        "\n".join(sample.input[part.start : part.end] for part in sample.parts.of_role(role))
        for role in ("context", "question")
    )
    # The line of the question, without the word that announces it, and nothing that follows.
    question = question.strip().partition("\n")[0].partition(":")[2]
    words = [(word.group().casefold(), word.span()) for word in _WORD.finditer(context)]
    counts, asked_about = Counter(word for word, _ in words), _WORD.findall(question.casefold())
    in_context = [word for word in asked_about if counts[word]]
    pattern = _PATTERNS.get(sample.facts.get("answer_kind", ""), _NUMBER)
    in_question = {*pattern.findall(question)}
    candidates = [
        match
        for match in pattern.finditer(context)
        if match.group() not in in_question
        # A word that begins a sentence may be no name.
        and not (pattern is _NAME and _BEGINNING.search(context, match.start() - 2, match.start()))
    ]
    if not in_context or not candidates:
        return ""
    rarest = min(in_context, key=counts.__getitem__)
    places = [span for word, span in words if word == rarest]

    def distance(candidate: re.Match[str]) -> int:
        return min(max(start - candidate.end(), candidate.start() - end) for start, end in places)

    return min(candidates, key=distance).group()
