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
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks import all_tasks

TASKS = all_tasks()


TRACES = ("trace", "trace_list")

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


def check(data: Dataset, sample: Sample) -> str:
    """Check a sample by its text; return the program."""
    program, query = PROMPT[sample.language].fullmatch(sample.input).groups()
    names: dict[str, object] = {}
    exec(compile(program, "a prompt", "exec"), names)
    assert [str(eval(query, names))] == sample.outputs
    assert [answer(sample.input)] == sample.outputs
    needed = [*sample.parts_of("needle")]
    if data.row.program == "functions":
        check_functions(names, query, [part.key for part in needed], data.row.num_steps)
    else:
        check_list(program, query, [sample.input[part.start : part.end] for part in needed])
        assert len(needed) == data.row.num_steps + 1
    return program


def check_functions(names: dict, query: str, needed: list[str], steps: int) -> None:
    """The needles are the functions that the call runs, and every name is defined."""
    functions = {name: made for name, made in names.items() if name != "__builtins__"}
    called = []
    traced = {
        name: eval(f"lambda x: (called.append({name!r}), made(x))[1]", {"called": called,
                                                                      "made": made})
        for name, made in functions.items()
    }  # fmt: skip
    names.update(traced)
    eval(query, names)
    assert len(called) == steps
    assert sorted(called) == sorted(needed)
    for made in functions.values():
        assert {*made.__code__.co_names} <= {*functions, "max", "min", "abs"}


def check_list(program: str, query: str, needed: list[str]) -> None:
    """The needles alone give the same list, and each of them changes it."""
    name = re.search(r"(?:\w{3}\()?(\w+)", query)[1]
    whole: dict[str, list[int]] = {}
    exec(program, whole)
    alone: dict[str, list[int]] = {}
    for line in needed:
        before = [*alone.get(name, [])]
        exec(line, alone)
        assert alone[name] != before
    assert alone[name] == whole[name]


@pytest.mark.parametrize("task", TRACES)
@pytest.mark.parametrize("language", ["da", "en"])
@pytest.mark.parametrize(("kind", "length"), [("nasty", 1024), ("words", 65_536)])
def test_python_computes_every_answer(task, language, kind, length):
    asked = {"num_samples": {1024: 6, 4096: 6}.get(length, 1), "format": PromptFormat(chat=False)}
    data = Dataset(task, length, language, make_tokenizer(kind), **asked)
    for sample in data:
        check(data, sample)
        assert check_lengths(data, sample) > length - data.maker.filler.longest - 8


@settings(max_examples=10)
@given(
    task=st.sampled_from(TRACES),
    steps=st.integers(1, 30),
    seed=st.integers(0, 10**9),
    queries=st.integers(1, 3),
)
def test_any_setting(task, steps, seed, queries):
    knobs = {"num_steps": steps}
    data = Dataset(
        task, 8000, "en", "words", num_samples=queries, seed=seed, knobs=knobs,
        queries_per_context=queries,
    )  # fmt: skip
    programs = {check(data, sample) for sample in data}
    assert len(programs) == 1


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
