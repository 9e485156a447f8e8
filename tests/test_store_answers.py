"""Answers on disk: resumed, put in order, and read by those who look at them."""

from __future__ import annotations

import json
import os

import pytest
from helpers_model import Knowing
from helpers_store import write_records

from rulerlib import files
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, RunMismatchError
from rulerlib.predict import predict
from rulerlib.samples import Prediction, question
from rulerlib.store import questions
from rulerlib.store.answers import Answers, read_predictions, read_settings, settings_path
from rulerlib.store.cell import Cell


def answer(index, **others):
    return Prediction(index, f"Blåbær {index}?", [str(index)], f"{index}\u2028", others)


ASKED = [question(answer(index)) for index in range(6)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pred" / "niah.jsonl"


def filled(path, indices, settings=None):
    answers = Answers(path, settings or {"dtype": "float32"}, ASKED)
    with answers.writing():
        for index in indices:
            answers.append(answer(index))
    return answers


def test_answers_are_put_in_order(path):
    filled(path, [2, 0, 1]).put_in_order()
    assert [json.loads(line)["index"] for line in path.open("rb")] == [0, 1, 2]
    before = path.stat().st_mtime_ns
    Answers(path, {"dtype": "float32"}, ASKED).put_in_order()
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_an_unfinished_line_is_cut_away(path, cut):
    filled(path, [0, 1])
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    (path.parent / ".niah.jsonl.x.unfinished").write_text("{")
    (path.parent / ".niah.settings.json.x.unfinished").write_text("{")
    # The operating system frees the lock of a killed process, whose file stays.
    (path.parent / ".niah.jsonl.lock").write_text("{")
    filled(path, [1])
    assert path.read_bytes() == whole
    assert sorted(os.listdir(path.parent)) == ["niah.jsonl", "niah.settings.json"]


def test_answers_to_other_questions_are_refused(path):
    filled(path, [0, 4])
    with pytest.raises(DataError, match=r"jsonl, line 2: not the answer to sample 4\.$"):
        Answers(path, {"dtype": "float32"}, ASKED[:4])
    with pytest.raises(DataError, match=r"jsonl, line 1: not the answer to sample 0\.$"):
        Answers(path, {"dtype": "float32"}, [hash("x"), *ASKED[1:]])


def test_other_settings_are_refused(path):
    cell = {"model": "a", "options": {}}
    filled(path, [0], {"dtype": "float32", "cell": cell})
    with pytest.raises(RunMismatchError, match="dtype = 'float32', and now dtype = 'float16'"):
        Answers(path, {"dtype": "float16"}, ASKED)
    with pytest.raises(RunMismatchError, match=r"cell\.model = 'a'"):
        Answers(path, {"dtype": "float32", "cell": {**cell, "model": "A"}}, ASKED)
    # Its name and the versions of packages bind nobody.
    Answers(
        path, {"dtype": "float32", "cell": cell, "model": "a", "versions": {"torch": "3"}}, ASKED
    )
    # Neither a run without a cell nor one that was made before there were cells is another one.
    Answers(path, {"dtype": "float32"}, ASKED)
    write_records(path, [answer(0)])
    files.write_object(settings_path(path), {"dtype": "float32"})
    Answers(path, {"dtype": "float32", "cell": cell}, ASKED)


def test_a_file_of_others_is_whole(path):
    """Nobody writes it line by line, so that nothing of it is left out unsaid."""
    write_records(path, [answer(0), answer(1)])
    assert read_settings(path) == {}
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert read_predictions(path) == [answer(0), answer(1)]
    path.write_bytes(whole[:-3])
    with pytest.raises(DataError, match="line 2: not valid JSON"):
        read_predictions(path)


def test_a_sample_that_stands_there_twice_is_refused(path):
    filled(path, [0, 1])
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(DataError, match="sample 0 stands there twice"):
        read_predictions(path)
    with pytest.raises(DataError, match="line 3: sample 0 stands there twice"):
        Answers(path, {"dtype": "float32"}, ASKED)


def test_two_samples_of_nvidia_s_may_have_the_same_index(path):
    """Theirs is the place of the answer in the prompt."""
    write_records(path, [Prediction(812, "a", ["1"], "1"), Prediction(812, "b", ["2"], "2")])
    assert [record.input for record in read_predictions(path)] == ["a", "b"]


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_damaged_settings_are_named(path, text):
    filled(path, [0])
    settings_path(path).write_text(text)
    for reader in (read_settings, lambda path: Answers(path, {}, ASKED)):
        with pytest.raises(DataError, match=r"niah\.settings\.json: damaged"):
            reader(path)


def test_answers_without_settings_are_refused(path):
    filled(path, [0])
    settings_path(path).unlink()
    with pytest.raises(DataError) as error:
        Answers(path, {}, ASKED)
    assert str(error.value) == (
        f"{settings_path(path)} is missing, so nobody can say how {path} was made."
    )


def test_several_answers_to_a_question_are_put_in_order(path):
    answers = Answers(path, {}, ASKED, repeats=3)
    asked = [(1, 2), (0, 1), (1, 0), (0, 0), (0, 2), (1, 1)]
    with answers.writing():
        for index, repeat in asked:
            record = answer(index)
            record.others["repeat"] = repeat
            answers.append(record)
    assert list(answers.places) == [5, 1, 3, 0, 2, 4]

    def read(**options):
        return [(record.index, record.repeat) for record in read_predictions(path, **options)]

    assert read() == sorted(asked)
    assert read(num_samples=1) == [(0, 0), (0, 1), (0, 2)]
    answers.put_in_order()
    lines = [json.loads(line) for line in path.open("rb")]
    assert [(line["index"], line["others"]["repeat"]) for line in lines] == sorted(asked)


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
    ("knobs", "n", "contexts", "again"),
    [({"num_documents": 1}, 13, None, 27), ({"context": False}, 13, None, 27),
     ({"num_documents": 4}, 40, 13, None)],
)  # fmt: skip
def test_a_question_counts_once_however_often_it_is_asked(
    thirteen, tmp_path, knobs, n, contexts, again
):
    """The same prompt tells nothing new; the same question among other documents is a cluster."""
    analysis = pytest.importorskip("rulerlib.analysis")
    cell = Cell("m", "qa_1", "en", 300, knobs={"source": thirteen, **knobs})
    data = Dataset("qa_1", 300, "en", "words", num_samples=40, knobs=cell.knobs)
    path = questions.write(data, cell.questions(tmp_path).parent)
    predict(path, Knowing([data]), cell.answers(tmp_path), cell=cell.settings())
    table = analysis.scores(analysis.read_predictions(tmp_path))
    (row,) = analysis.accuracy(table).to_dict("records")
    assert (row["n"], row.get("contexts")) == (n, contexts)
    (row,) = analysis.overview(table).to_dict("records")
    assert (row["n"], row.get("asked_again"), row.get("contexts")) == (n, again, contexts)
