"""Contexts in one language and questions in another: the same needles, paired with one language."""

from __future__ import annotations

import pytest
from helpers_model import Parrot, tree
from helpers_tasks import check_lengths, planned

from rulerlib import analysis
from rulerlib.dataset import Dataset
from rulerlib.runs import Run
from rulerlib.tasks import all_tasks

TASKS = all_tasks()

PAIRS = [("da", "en"), ("en", "da"), ("sv", "de"), ("nl", "nb"), ("is", "fo"), ("de", "nn")]
NEEDLES = [name for name, task in TASKS.items() if task.family == "niah"]


def around(sample):
    """The template before the context, and the question after it."""
    (context,) = sample.parts_of("context")
    before = sample.input[: context.start]
    return before, sample.input[context.start : context.end], sample.input[context.end :]


@pytest.mark.parametrize(
    ("task", "language", "other"),
    [(task, *PAIRS[number % 6]) for number, task in enumerate((*NEEDLES, "vt", "vt"))],
)
def test_needles_values_and_places_are_those_of_one_language(task, language, other, words):
    """And the wording is that of the other language, to the letter."""
    length = 1100
    knobs = {"few_shot": False} if task == "vt" else {}
    one = Dataset(task, length, language, words, num_samples=2, knobs=knobs)
    two = Dataset(task, length, language, words, 2, knobs=knobs, question_language=other)
    own = Dataset(task, length, other, words, num_samples=2, knobs=knobs)
    assert planned(one, 2) == planned(two, 2)
    for plain, sample, theirs in zip(one, two, own, strict=True):
        check_lengths(two, sample)
        assert (sample.outputs, sample.language) == (plain.outputs, language)
        known = [
            [(part.role, part.key, each.input[part.start : part.end])
             for part in each.parts if part.depth is not None]
            for each in (plain, sample)
        ]  # fmt: skip
        assert known[0] == known[1] != []
        head, context, tail = around(sample)
        assert head == around(theirs)[0] != around(plain)[0]
        assert context[:100] in around(plain)[1]
        assert tail != around(plain)[2]
        assert {*tail.split()} & {*around(theirs)[2].split()} > {*tail.split()} & set("?")
        assert sample.answer_prefix.split()[0] == theirs.answer_prefix.split()[0]


def test_a_run_in_two_languages_stands_apart_and_is_paired(tmp_path):
    """The files of an engine with random answers; the table of pairs has the same needles."""
    settings = {
        "tasks": "niah_single_1", "length": 700, "num_samples": 4, "loaded": Parrot(),
        "output": str(tmp_path / "runs"), "knobs": {"present": 0.5},
    }  # fmt: skip
    one = Run(**settings)
    same = Run(**settings, question_language="da")
    other = Run(**settings, question_language="en")
    assert same.cells == one.cells
    for run in (one, other):
        run.predict()
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert folders == ["lille", "lille+question_language=en"]
    before = tree(tmp_path / "runs")
    other.predict()
    assert tree(tmp_path / "runs") == before
    table = analysis.scores(analysis.read_predictions(tmp_path / "runs"))
    first, second = dict.fromkeys(table["model"])
    assert (first, second) == ("lille", "lille, question language en")
    (pair,) = analysis.paired(table, first, second).to_dict("records")
    assert (pair["n"], pair["left_out"], pair["difference"]) == (4, 0, 0)
    assert pair["low"] < 0 < pair["high"]
