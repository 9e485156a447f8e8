"""Randomly damaged files are read, or refused with one sentence."""

from __future__ import annotations

import json
import random

import pytest
from helpers_fuzz import damaged, within
from helpers_model import Parrot

from conftest import tries
from rulerlib import analysis, sources, store
from rulerlib.dataset import Dataset
from rulerlib.errors import RulerError
from rulerlib.predict import predict

ELEMENTS = {"oxygen": "8", "iron": "26", "gold": "79", "lead": "82"}


def questions_file(folder):
    data = Dataset("niah_multikey_1", 600, "da", "words", num_samples=6)
    return store.write_questions(data, folder / "m" / "da" / "600" / "data" / "niah_multikey_1")


def answers_file(folder):
    about = {"model": "m", "language": "da", "task": "niah_multikey_1", "length": 600}
    pred = folder / "m" / "da" / "600" / "pred" / "niah_multikey_1.jsonl"
    return predict(questions_file(folder), Parrot(), pred, cell=about)


def source_file(folder):
    articles = [
        {"title": "A", "paragraphs": [{"context": f"Element {number} is {name}.", "qas": [
            {"question": f"Which is {name}?", "answers": [{"text": number}]},
            {"question": f"What is element {number}?", "answers": [{"text": name}]}]}]}
        for name, number in ELEMENTS.items()
    ]  # fmt: skip
    path = folder / "squad.json"
    path.write_text(json.dumps({"version": "1", "data": articles}))
    return path


def ask(path):
    predict(path, Parrot(), path.parents[2] / "pred" / f"{random.random()}.jsonl")


def analyse(path):
    table = analysis.scores(analysis.read_predictions(path.parents[4]))
    _ = analysis.accuracy(table), analysis.by_depth(table, 10), analysis.errors(table)


def search(path):
    source = sources.open_source(str(path))
    for index in range(len(source.questions)):
        _ = source.questions[index], source.related[index]
    knobs = {"source": str(path), "num_documents": 2, "hops": 1}
    _ = Dataset("qa_1", 300, "en", "words", num_samples=2, knobs=knobs)[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "reader"),
    [(questions_file, ask), (answers_file, analyse), (source_file, search)],
)
@pytest.mark.parametrize("count", [30, pytest.param(500, marks=pytest.mark.long)])
def test_damaged_files_are_read_or_refused_in_one_sentence(make, reader, count, tmp_path):
    path = make(tmp_path)
    whole = path.read_bytes()
    reader(path)
    for number in range(tries(count) if count > 30 else count):
        path.write_bytes(damaged(whole, random.Random(number)))
        sentence = "Done."
        try:
            with within(300):
                reader(path)
        except RulerError as error:
            sentence = str(error)
        assert sentence.endswith("."), number
        assert len(sentence) < 3000, number
