"""Graph walks: an independent reader with its own patterns of the prompts solves them."""

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

LANGUAGES, VARIANTS = ("da", "en"), ("graphwalks", "graphwalks_parents")
SCORING = TASKS["graphwalks"].scoring

QUESTION = {
    ("da", "bfs"): r"Spørgsmål: Hvilke knuder ligger ved en bredde-først-søgning i præcis dybde"
    r" (?P<depth>\d+) fra knuden (?P<node>[0-9a-f]+)\?",
    ("en", "bfs"): r"Question: Which nodes are at exactly depth (?P<depth>\d+) from node"
    r" (?P<node>[0-9a-f]+) in a breadth-first search\?",
    ("da", "parents"): r"Spørgsmål: Hvilke knuder er forældre til knuden (?P<node>[0-9a-f]+)\?"
    r" Hvis den ingen har, er svaret den tomme liste, \[\]\.",
    ("en", "parents"): r"Question: Which nodes are the parents of node (?P<node>[0-9a-f]+)\?"
    r" If it has none, the answer is the empty list, \[\]\.",
}
LABEL = {"da": "Endeligt svar:", "en": "Final Answer:"}
PROMPT = re.compile(r"[^\n]+\n\n((?:[0-9a-f]+ -> [0-9a-f]+\n)+)\n([^\n]+)\n([^\n]+)")


def solve(sample: Sample, operation: str) -> tuple[set[str], list[tuple[str, str]]]:
    """Return the answer by relaxing distances until nothing changes, and the edges."""
    prompt = PROMPT.fullmatch(sample.input)
    assert prompt
    edges = [tuple(line.split(" -> ")) for line in prompt[1].splitlines()]
    question = re.fullmatch(QUESTION[sample.language, operation], prompt[2])
    assert question
    assert f'"{LABEL[sample.language]} [' in prompt[3]
    node = question["node"]
    if operation == "parents":
        return {source for source, target in edges if target == node}, edges
    distance, changed = {node: 0}, True
    while changed:
        changed = False
        for source, target in edges:
            far = distance.get(source, 10**9) + 1
            if far <= int(question["depth"]) and far < distance.get(target, 10**9):
                distance[target], changed = far, True
    return {name for name, far in distance.items() if far == int(question["depth"])}, edges


def check_all(data: Dataset) -> None:
    """Check the samples of a dataset by their text."""
    operation = data.row.operation
    for sample in data:
        right, edges = solve(sample, operation)
        assert (right or {"[]"}) == {*sample.outputs}
        assert len(sample.outputs) == len({*sample.outputs}) <= 16
        assert right or operation == "parents"
        assert len({*edges}) == len(edges)
        assert all(source != target for source, target in edges)
        assert sample.answer_prefix == f"\n{LABEL[sample.language]}"
        # The last edge to each answer is recorded first.
        hops = sample.parts_of("hop")
        for output, position in zip(sample.outputs, sample.token_positions, strict=False):
            assert [hop.value for hop in hops if hop.token_position == position] == [output]
        needed, end = {part.key for part in hops}, int(operation == "parents")
        assert len(hops) == sum(edge[end] in needed for edge in edges), "all edges on the way"
        longest = check_lengths(data, sample)
        assert data.length - longest <= data.maker.filler.longest + 8 or data.whole
        pred = answer(sample.input + sample.answer_prefix)
        assert SCORING.score(pred, sample.outputs, language=sample.language)["set_f1"] == 1


@pytest.mark.parametrize(
    ("kind", "length"), [("bytelevel", 1300), ("llama2", 4096), ("words", 65536)]
)
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", VARIANTS)
def test_the_reader_finds_the_answers(task, kind, language, length):
    count = 8 if length == 4096 else 1
    check_all(Dataset(task, length, language, make_tokenizer(kind), num_samples=count))


@settings(max_examples=10)
@given(
    operation=st.sampled_from(["bfs", "parents"]), depth=st.integers(1, 6),
    length=st.integers(4000, 9000),
    seed=st.integers(0, 10**9), language=st.sampled_from(LANGUAGES),
    kind=st.sampled_from(["words", "bytelevel", "nasty"]),
)  # fmt: skip
def test_any_setting(operation, depth, length, seed, language, kind):
    knobs = {"operation": operation, "depth": depth}
    check_all(Dataset("graphwalks", length, language, make_tokenizer(kind), 1, seed, knobs=knobs))


FORMS = {
    "endeligt svar:\n[a1, b2]": 1,
    'Final Answer: ["A1", "b2"].': 1,
    "[a1, b2]\n\nQuestion: Which?\nFinal Answer: [c3]": 1,
    "Final Answer: [c3]\nNo. Final Answer: [a1, b2]": 1,
    "Final Answer: [a1, c3]": 1 / 2,
    # No node in common is 1 by the published script.
    "Final Answer: [c3, d4]": 0,
    "Final Answer: a1, b2": 0,
    "The nodes are [a1, b2].": 0,
    "": 0,
}


def test_answers_are_scored_as_sets():
    for pred, score in FORMS.items():
        scores = SCORING.score(pred, ["a1", "b2"], language="da")
        assert scores["set_f1"] == pytest.approx(score), pred
        assert scores["exact_set"] == (score == 1)
    assert SCORING.score("Final Answer: [ ]", ["[]"])["exact_set"] == 1
    assert SCORING.score("Final Answer: none", ["[]"])["set_f1"] == 0


def test_kinds_of_mistakes(words):
    sample = max(Dataset("graphwalks", 2048, "en", words, 6), key=lambda one: len(one.outputs))
    start = re.search(QUESTION["en", "bfs"], sample.input)["node"]
    for pred, kind in {
        f"[{', '.join(sample.outputs[1:])}]": "incomplete", f"[{start}]": "distractor",
        "[ffffff0]": "wrong value", "It is " + sample.outputs[0]: "other", "": "empty",
    }.items():  # fmt: skip
        prediction = Prediction(0, sample.input, sample.outputs, pred, {"language": "en"})
        assert TASKS["graphwalks"].mistake(prediction) == kind
