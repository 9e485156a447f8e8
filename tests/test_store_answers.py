"""Files of answers: resumed, checked and read."""

from __future__ import annotations

import json

import pytest
from helpers_model import Parrot
from helpers_store import write_records

from rulerlib import files, store
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, RunMismatchError
from rulerlib.predict import predict
from rulerlib.samples import Prediction, Sample
from rulerlib.store import Answers, Cell, read_predictions, read_settings, settings_path


def answer(index, **others):
    return Prediction(index, f"Blåbær {index}?", [str(index)], f"{index}\u2028", others)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pred" / "niah.jsonl"


def filled(path, indices, settings=None):
    answers = Answers(path, settings or {"dtype": "float32"})
    with answers.writing():
        for index in indices:
            answers.append(answer(index))
    return answers


@pytest.mark.parametrize("cut", [1, 20])
def test_an_incomplete_last_line_is_removed(path, cut):
    filled(path, [0, 1])
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    filled(path, [1])
    assert path.read_bytes() == whole


def test_answers_to_other_questions_are_refused(path):
    filled(path, [0, 4])
    answers = Answers(path, {"dtype": "float32"})
    assert answers.has(Sample(0, "Blåbær 0?", ["0"]), 0)
    assert not answers.has(Sample(1, "Blåbær 1?", ["1"]), 0)
    with pytest.raises(DataError, match="the answer to sample 4 belongs to another prompt"):
        answers.has(Sample(4, "Jordbær 4?", ["4"]), 0)


def test_other_settings_are_refused(path):
    cell = {"model": "a", "options": {}}
    filled(path, [0], {"dtype": "float32", "cell": cell})
    with pytest.raises(RunMismatchError, match="dtype = 'float32', not 'float16'"):
        Answers(path, {"dtype": "float16"})
    with pytest.raises(RunMismatchError, match=r"cell\.model = 'a'"):
        Answers(path, {"dtype": "float32", "cell": {**cell, "model": "A"}})
    # The name of the model and the versions of packages may differ.
    Answers(path, {"dtype": "float32", "cell": cell, "model": "a", "versions": {"torch": "3"}})
    # A cell that is missing on either side is not compared.
    Answers(path, {"dtype": "float32"})
    files.write_object(settings_path(path), {"dtype": "float32"})
    Answers(path, {"dtype": "float32", "cell": cell})


def test_a_file_of_another_tool_is_read_but_not_extended(path):
    write_records(path, [answer(0), answer(1)])
    assert read_settings(path) == {}
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert read_predictions(path) == [answer(0), answer(1)]
    path.write_bytes(whole[:-3])
    with pytest.raises(DataError, match="line 2: Invalid JSON"):
        read_predictions(path)
    with pytest.raises(RunMismatchError, match="dtype = None, not 'float32'"):
        Answers(path, {"dtype": "float32"})


def test_damaged_files_are_named(path):
    filled(path, [0, 1])
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(DataError, match="line 3: duplicate answer to sample 0"):
        Answers(path, {"dtype": "float32"})
    settings_path(path).write_text("{")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"niah\.settings\.json: damaged"):
        Answers(path, {})


@pytest.fixture
def thirteen(tmp_path):
    """A source of 13 questions, each about a document of its own."""
    rows = [
        {"id": str(number), "title": f"River {number}",
         "context": f"River {number} is Name{number}.", "question": f"What is river {number}?",
         "answers": {"text": [f"Name{number}"], "answer_start": [0]}}
        for number in range(13)
    ]  # fmt: skip
    (tmp_path / "rivers.json").write_text(json.dumps(rows))
    return str(tmp_path / "rivers.json")


@pytest.mark.parametrize(
    ("knobs", "n", "contexts"),
    [
        ({"num_documents": 1}, 13, None),
        ({"context": False}, 13, None),
        ({"num_documents": 4}, 40, 13),
    ],
)
def test_a_repeated_question_counts_once(thirteen, tmp_path, knobs, n, contexts):
    """The same prompt is a repetition; other documents around a question make a cluster."""
    analysis = pytest.importorskip("rulerlib.analysis")
    cell = Cell("m", "qa_1", "en", 300, knobs={"source": thirteen, **knobs})
    data = Dataset("qa_1", 300, "en", "words", num_samples=40, knobs=cell.knobs)
    path = store.write_questions(data, cell.questions(tmp_path).parent)
    predict(path, Parrot(), cell.answers(tmp_path), cell=cell.settings())
    table = analysis.scores(analysis.read_predictions(tmp_path))
    (row,) = analysis.accuracy(table).to_dict("records")
    assert (row["n"], row.get("contexts")) == (n, contexts)
