"""Traces: Python runs every program and finds the gold answers."""

from __future__ import annotations

import re

import pytest
from helpers_tasks import check_lengths
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import make_tokenizer
from rulerlib.dataset import Dataset
from rulerlib.models.reference import answer
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks import all_tasks

TASKS = all_tasks()

PROMPT = {
    "da": re.compile(
        r"Læs det følgende program, som er skrevet i Python\. Bagefter bliver du spurgt om en"
        r" værdi\.\n\n(.+)\n\nSpørgsmål: Hvilken værdi har ([\w()\[\]]+), når hele programmet er"
        r" kørt\? Svar kun med det hele tal\.",
        re.DOTALL,
    ),
    "en": re.compile(
        r"Read the following program, which is written in Python\. You will be asked for a value"
        r" afterwards\.\n\n(.+)\n\nQuestion: What is the value of ([\w()\[\]]+) when the whole"
        r" program has been run\? Answer with the whole number alone\.",
        re.DOTALL,
    ),
}


def check(data: Dataset, sample: Sample) -> None:
    """Check a sample by its text."""
    program, query = PROMPT[sample.language].fullmatch(sample.input).groups()
    names: dict[str, object] = {}
    exec(compile(program, "a prompt", "exec"), names)
    assert [str(eval(query, names))] == sample.outputs == [answer(sample.input)]
    # The needles are the functions that the call runs, and every name is defined.
    functions, called = {name: names[name] for name in names if name != "__builtins__"}, []
    for name, made in functions.items():
        assert {*made.__code__.co_names} <= {*functions, "max", "min", "abs"}
        names[name] = traced(name, made, called)
    eval(query, names)
    assert len(called) == data.row.num_steps
    assert sorted(called) == sorted(part.key for part in sample.parts_of("needle"))


def traced(name, made, called):
    """Return the function with a note of each of its calls."""

    def function(x):
        called.append(name)
        return made(x)

    return function


@pytest.mark.parametrize("language", ["da", "en"])
@pytest.mark.parametrize(("kind", "length"), [("nasty", 1024), ("words", 65_536)])
def test_python_computes_every_answer(language, kind, length):
    count = 6 if length == 1024 else 1
    data = Dataset("trace", length, language, make_tokenizer(kind), count)
    for sample in data:
        check(data, sample)
        assert check_lengths(data, sample) > length - data.maker.filler.longest - 8


@settings(max_examples=10)
@given(steps=st.integers(1, 30), seed=st.integers(0, 10**9))
def test_any_setting(steps, seed):
    data = Dataset("trace", 8000, "en", "words", 1, seed, knobs={"num_steps": steps})
    check(data, data[0])


RIGHT = ["`12`\n", "12, as f(3) is 7", "12\n\nQuestion: What is 13?", "7 + 5 = 12", "Svar: 12\n13"]
WRONG = ["12 + 7 = 19", "It is 12 or 13", "112", "-12", "12.5", "x12", "Answer: 13\nSo 12", ""]


def test_the_stated_number_is_scored():
    scoring = TASKS["trace"].scoring
    for text in RIGHT + WRONG:
        scores = scoring.score(text, ["12"], language="da")
        assert scores[scoring.primary] == (text in RIGHT), text


@pytest.mark.parametrize(
    ("text", "cut_off", "kind"),
    [("", False, "empty"), ("I cannot answer that.", False, "refused"), ("x", False, "other"),
     ("The function", True, "cut off"), (" 31", False, "halfway"), (" 44", False, "wrong result"),
     ("First 44", True, "cut off"), (" 44.\n\nQuestion: What", True, "wrong result")],
)  # fmt: skip
def test_kinds_of_mistakes(text, cut_off, kind):
    others = {"language": "en", "facts": {"way": [9, 31]}}
    prediction = Prediction(0, "def f(x)", ["12"], text, others=others)
    assert TASKS["trace"].mistake(prediction, cut_off) == kind
