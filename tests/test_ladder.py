"""The ladder: an independent reader with its own patterns of the prompts finds every answer."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from helpers_tasks import FAMILIES, SPECIAL, check_lengths
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import make_tokenizer
from rulerlib import tokens
from rulerlib.dataset import Dataset
from rulerlib.models.reference import answer
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks import all_tasks

TASKS = all_tasks()
ROWS = [name for name in TASKS if name.startswith("ladder_")]

NEEDLE = {
    "da": re.compile(r"Et af de særlige magiske tal for (\S+) er: (\d{10})\."),
    "en": re.compile(r"One of the special magic numbers for (\S+) is: (\d{10})\."),
}
PROBLEM = {
    "da": re.compile(r"Spørgsmål (\d{7}): (.+\? A\. \d+ B\. \d+ C\. \d+ D\. \d+\.)"),
    "en": re.compile(r"Question (\d{7}): (.+\? A\. \d+ B\. \d+ C\. \d+ D\. \d+\.)"),
}
TASK = {"da": "\n\nOpgave: ", "en": "\n\nTask: "}
REPLY = {"da": "Det har jeg læst alt sammen.", "en": "I have read all of it."}
TIMES = re.compile(r"bags|shelves|poser|hylder")
MINUS = re.compile(r"gave|sold|collect|gav|solgt|samle")


def as_one_text(data: Dataset, sample: Sample) -> Sample:
    """Return the sample with its turns joined."""
    if not data.frame.turns:
        return sample
    context, reply, task = data.frame.cut(sample.input)
    assert reply == REPLY[sample.language]
    seam = "\n" if data.task == "ladder_keys_basic" else "\n\n"
    return replace(sample, input=context + seam + task)


def solved(problem: str) -> str:
    """Return the letter of the right option."""
    a, b = map(int, re.findall(r"\d+", problem.partition("?")[0])[:2])
    right = a * b if TIMES.search(problem) else a - b if MINUS.search(problem) else a + b
    return {value: letter for letter, value in re.findall(r"([A-D])\. (\d+)", problem)}[str(right)]


def value_asked_for(sample: Sample, step: str) -> str:
    language = sample.language
    if step == "basic":
        _, *lines, question = sample.input.split("\n")
        form, key = NEEDLE[language], re.search(r"([\w-]+)(?:, som| given| nævnes)", question)
    else:
        rest, _, question = sample.input.rpartition(TASK[language])
        lines = rest.split("\n\n")[1].split("\n")
        form, key = PROBLEM[language], re.search(r"(\d{7})", question)
    pairs = [form.fullmatch(line).groups() for line in lines]
    assert len({value for _, value in pairs}) == len({*pairs}) == len(dict(pairs)) == len(lines)
    return dict(pairs)[key[1]]


def check(data: Dataset) -> None:
    """Check the answers by the text alone, the length, and the score of the reference reader."""
    for sample in data:
        step = data.row.step
        value = value_asked_for(as_one_text(data, sample), step)
        assert sample.outputs == [solved(value) if step in ("medium", "hard") else value]
        said = answer(data.frame.prompt(sample.input, sample.answer_prefix))
        assert said.startswith(value if step == "medium" else sample.outputs[0])
        scores = data.row.scoring.score(said, sample.outputs, language=sample.language)
        assert scores[data.row.scoring.primary] == 1
        assert check_lengths(data, sample) > data.length - 2 * data.maker.filler.longest


@pytest.mark.parametrize(
    ("kind", "language"), [("words", "da"), ("bytelevel", "en"), ("llama2", "da")]
)
@pytest.mark.parametrize("task", ROWS)
def test_the_reader_finds_the_answers(task, language, kind):
    for length, count in [(1200, 1), (2048, 6), (8192, 2)]:
        check(Dataset(task, length, language, make_tokenizer(kind), num_samples=count))


@settings(max_examples=8, deadline=None)
@given(
    row=st.sampled_from(ROWS), length=st.integers(1200, 5000), seed=st.integers(0, 10**9),
    language=st.sampled_from(["da", "en"]),
)  # fmt: skip
def test_any_setting(row, length, seed, language):
    check(Dataset(row, length, language, "words", num_samples=2, seed=seed))


@pytest.mark.parametrize("task", ["ladder_keys_basic", "ladder_keys_hard"])
def test_a_chat_model_gets_the_question_in_a_second_turn(task):
    backend = make_tokenizer("bytelevel").backend
    tokenizer = tokens.FastTokenizer(backend, "qwen 3", SPECIAL, FAMILIES["qwen 3"])
    data = Dataset(task, 4096, "da", tokenizer, 2, format=PromptFormat(answer_prefix="user"))
    check(data)
    for sample in data:
        messages = data.frame.messages(sample.input, sample.answer_prefix)
        rendered = tokenizer.render(messages, **data.frame.template)
        assert rendered == data.frame.prompt(sample.input, sample.answer_prefix)
        assert [turn["role"] for turn in messages] == ["user", "assistant", "user"]


def test_scores_follow_the_published_rule():
    """1 if the answer contains the reference, otherwise 1 minus the word error rate."""
    score, wanted = TASKS["ladder_keys_easy"].scoring.score, "Ben has 17 stamps"
    for said, right in [
        (f"Well:\n{wanted}, I think", 1), ("Ben has 12 stamps", 3 / 4), ("Ben has stamps", 3 / 4),
        ("Ben has 17 old stamps", 3 / 4), ("No.", 0), (f"{wanted} Answer: Ben has", 1 / 2),
    ]:  # fmt: skip
        assert score(said, [wanted])["soft_match"] == pytest.approx(right), said


LETTERS = {
    "A": ["A", "a.", "A: 42", "Answer: A is correct", "Svar: A er rigtigt"],
    "B": [
        "(b)", "**B**", r"\boxed{\text{B}}", "Answer: A total of 42, so B", "Answer: C\nAnswer: B",
        "B. 42.\nQuestion 1: Of 61 ... A. 39 B. 41 C. 33 D. 44.",
    ],
    "none": ["", "42", "ABCD", "A or B", "None of the above", "A total of 42.", "A. 38 B. 42."],
}  # fmt: skip


def test_letters_are_found_in_answers():
    for right, answers in LETTERS.items():
        for said in answers:
            for gold in "ABCD":
                scores = TASKS["ladder"].scoring.score(said, [gold], language="da")
                assert {*scores.values()} == {float(gold == right)}, (said, gold)


def test_kinds_of_mistakes(words):
    data = {step: Dataset(f"ladder_keys_{step}", 1200, "en", words, 1) for step in ("easy", "hard")}
    lines = [text for _, text in PROBLEM["en"].findall(data["easy"][0].input)]
    other = next(text for text in lines if text not in data["easy"][0].outputs)
    wrong = "A" if data["hard"][0].outputs != ["A"] else "B"
    for step, said, error in [
        ("easy", "", "empty"), ("easy", other, "distractor"), ("easy", "Well.", "no context"),
        ("hard", "Answer: none", "other"), ("hard", wrong, "wrong value"),
    ]:  # fmt: skip
        sample = data[step][0]
        prediction = Prediction(0, sample.input, sample.outputs, said, {"language": "en"})
        assert data[step].row.mistake(prediction) == error
