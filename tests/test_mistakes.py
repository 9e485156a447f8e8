"""Mistakes: answers made wrong on purpose, in the project's own prompts and in RULER's."""

from __future__ import annotations

import re

import pytest

from rulerlib import tasks, tokens
from rulerlib.dataset import Dataset
from rulerlib.samples import Prediction
from rulerlib.tasks.mistakes import KINDS, explain_values


def sample(task, language="da", index=3, length=1500, **knobs):
    return Dataset(task, length, language, tokens.Words(), num_samples=index + 1, knobs=knobs)[
        index
    ]


def answer(record, said, **more):
    others = {"answer_prefix": record.answer_prefix, "parts": record.to_dict()["parts"]}
    return Prediction(record.index, record.input, record.outputs, said, others | more)


def kind(record, said, family, cut_off=False):
    """The kind of mistake of an answer, assumed wrong."""
    return tasks.families()[family]().mistake(answer(record, said), cut_off)


LANGUAGES = ("da", "en")
both = pytest.mark.parametrize("language", LANGUAGES)


FAMILIES = [
    ("niah_single_2", "niah"), ("vt", "variable_tracking"), ("fwe", "frequent_words"),
    ("qa_1", "qa"),
]  # fmt: skip


@both
@pytest.mark.parametrize(("task", "family"), FAMILIES)
def test_nothing_a_refusal_and_a_limit(task, family, language):
    record = sample(task, language)
    assert kind(record, "", family) == "empty"
    assert kind(record, "  \n", family) == "empty"
    assert kind(record, "", family, cut_off=True) == "cut off"
    for said in ("I’m sorry, but I cannot find that.", "Jeg kan ikke finde tallet i teksten."):
        assert kind(record, said, family) == "refused"


@both
def test_lists_of_values(language):
    record = sample("niah_multivalue", language)
    one, two, *_ = record.outputs
    assert kind(record, f" {one}, {two}.", "niah") == "incomplete"
    again = kind(record, f" {one}, {one}, {two}, {one}", "niah", cut_off=True)
    assert again == "duplicates"
    assert kind(record, f" {one}, {two}, 12", "niah", cut_off=True) == "cut off"
    ramble = f" {one}, {two}. And now to something else, which has nothing to do with it at all."
    assert kind(record, ramble, "niah", cut_off=True) == "incomplete"
    assert kind(record, f" {one}, 1000000", "niah") == "wrong value"


def test_without_parts_values_go_by_their_form():
    """Files of NVIDIA's scripts have no positions."""
    context = " ".join(
        f"One of the special magic numbers for {key} is: {value}." + " The grass is green." * 9
        for key, value in (("a-b", 1111111), ("c-d", 2222222), ("e-f", 3333333))
    )
    record = Prediction(5, f"Some special magic numbers. {context} What is it?", ["2222222"], "")
    record.pred = "1111111."
    assert tasks.families()["niah"]().mistake(record, False) == "distractor"
    record.pred = "7654321"
    assert explain_values(record) == "wrong value"
    record = Prediction(0, "Der Code von A ist 1111111, von B 2222222.", ["2222222"], "1111111")
    assert explain_values(record) == "distractor"


@pytest.mark.parametrize("name", tasks.all_tasks())
def test_every_task_explains_any_answer_without_parts(name):
    """A prompt of NVIDIA's, an empty one, and no references."""
    explain = tasks.all_tasks()[name].mistake
    for record in (
        Prediction(3, "VAR ABCDE = 12345. 1. ord 2. hus", ["ABCDE", "FGHIJ"], "ABCDE og hus"),
        Prediction(3, "", ["x"], "something"),
        Prediction(3, "text", [], "text"),
    ):
        for cut_off in (False, True):
            assert explain(record, cut_off) in KINDS


@both
def test_a_part_of_a_uuid(language):
    """RULER's paper saw models that do not return all 32 digits."""
    record = sample("niah_single_3", language)
    (right,) = record.outputs
    for said in (right[:-1], right[9:], f"({right[:8]}...)", right[:20].upper()):
        assert kind(record, f" {said}.", "niah") == "part of a UUID", said
    assert kind(record, f" {right[:20]}", "niah", cut_off=True) == "cut off"
    assert kind(record, f" {right[:7]}", "niah") == "other", "seven digits say nothing"
    other = "0" * 8 + right[8:]
    assert kind(record, f" {other}", "niah") == "wrong value", "a whole one, but wrong"
    record = sample("niah_single_3", language, num_needle_v=2)
    one, two = record.outputs
    assert kind(record, f" {one}, {two[:30]}", "niah") == "part of a UUID"


@both
def test_the_beginning_of_the_prompt_is_copied(language):
    record = sample("niah_single_2", language)
    first = " ".join(record.input.split()[:20])
    for said in (first, f"Well: {first}", first.upper(), first.replace(" ", "\n")):
        assert kind(record, f" {said}", "niah") == "copied beginning", said
    assert kind(record, " ".join(first.split()[:7]), "niah") == "other", "seven words"
    later = " ".join(record.input.split()[300:330])
    assert kind(record, f" {later}", "niah") == "other", "not the beginning"


def names(text):
    return list(dict.fromkeys(re.findall(r"VAR ([A-Z]+) =", text)))


@both
def test_variables(language):
    record = sample("vt", language, num_chains=2)
    # The example is a prompt of its own: the question begins where its first line comes again.
    start = record.input.rindex(record.input.split("\n")[0])
    example, question = names(record.input[:start]), names(record.input[start:])
    other = next(name for name in question if name not in record.outputs)
    right = record.outputs
    found = kind(record, f" {', '.join(right[:2])}, {other}", "variable_tracking")
    assert found == "distractor"
    copied = kind(record, f" {', '.join(example[:5])}", "variable_tracking")
    assert copied == "copied example"
    assert kind(record, " QQQQQ, WWWWW", "variable_tracking") == "wrong value"
    assert kind(record, f" {right[0]}", "variable_tracking") == "incomplete"
    mixed = kind(record, f" {example[0]}, {other}, QQQQQ", "variable_tracking")
    assert mixed == "distractor", "one of three is not the example's work"


@pytest.fixture(scope="module")
def common():
    pytest.importorskip("wordfreq")
    return {code: sample("cwe", code, length=2500) for code in LANGUAGES}


@both
def test_common_words(common, language):
    record = common[language]
    start = record.input.rindex(record.input.split("\n")[0])
    listed = re.findall(r"\d+\. (\S+)", record.input[start:])
    uncommon = [word for word in dict.fromkeys(listed) if word not in record.outputs]
    shown = [
        word for word in re.findall(r"\d+\. (\S+)", record.input[:start]) if word not in listed
    ]

    def said(words):
        return " " + " ".join(f"{n}. {word}" for n, word in enumerate(words, 1))

    right = record.outputs
    assert kind(record, said([*right[:7], *uncommon[:3]]), "common_words") == "distractor"
    assert kind(record, said(right[:6]), "common_words") == "incomplete"
    assert kind(record, said([right[0]] * 10), "common_words") == "duplicates"
    words = list(dict.fromkeys(shown))[:10]
    assert kind(record, said(words), "common_words") == "copied example"
    assert kind(record, said([*right[:9], "qwertyuiop"]), "common_words") == "wrong value"


@both
def test_answers_to_questions(language):
    record = sample("qa_1", language)
    word = {"da": "Dokument", "en": "Document"}[language]
    titles = re.findall(rf"{word} \d+:\n([^\n]+)\n", record.input)
    assert kind(record, f" {titles[0]}.\n\nMore", "qa") == "distractor"
    assert kind(record, " Kejser Napoleon den Fjerde\n", "qa") == "no context"
    assert kind(record, " Kejser Napoleon den", "qa", cut_off=True) == "cut off"
    assert kind(record, " ... \n\n", "qa") == "other"
    beginning = " ".join(record.input.split()[:15])
    assert kind(record, f" {beginning}", "qa") == "copied beginning"
