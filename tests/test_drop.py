"""DROP: an independent reader parses the prompts and finds everything at the recorded positions.

The reader knows only how the published format of the prompts is divided. tests/test_inspect.py has
the wording of inspect_evals.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

import pytest
from helpers_sharing import check_sharing, contexts
from helpers_tasks import check_lengths

from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.samples import Prediction, Sample, parts_to_data
from rulerlib.tasks.mistakes import explain_reading as explain

LANGUAGES, ROWS = ("da", "en"), ("drop_1", "drop_2", "drop_3")

EXAMPLES = {"en": "\n\nExamples\n", "da": "\n\nEksempler\n"}
TASK = {"en": "\n\nYour Task\n---\n", "da": "\n\nDin opgave\n---\n"}
WORDS = {"en": ("Passage", "Question", "Answer"), "da": ("Tekst", "Spørgsmål", "Svar")}


@dataclass
class Read:
    """A prompt, taken apart: its examples, its passages, and its question."""

    system: str
    examples: list[tuple[str, str, str]]
    passages: list[str]
    question: str


def take_apart(sample: Sample, language: str, reasoning: bool = True) -> Read:
    passage, question, answer = WORDS[language]
    system, _, user = sample.input.partition(TASK[language])
    if reasoning:
        user, _, asked_for = user.rpartition(f"\n{answer}:\n\n")
        assert re.search(rf'"{answer}: \$[A-Z]+"', asked_for)
    assert sample.answer_prefix == ("" if reasoning else f"\n{answer}:")
    context, _, asked = user.rpartition(f"\n{question}: ")
    one = rf"{passage}: (.*)\n{question}: (.*)\n{answer}: (.*)"
    shown = system.partition(EXAMPLES[language])[2]
    examples = [re.fullmatch(one, text).groups() for text in shown.split("\n\n") if shown]
    labels, passages = zip(*[text.split(": ", 1) for text in context.split("\n\n")], strict=True)
    several = len(labels) > 1
    assert [*labels] == [f"{passage} {i + 1}" if several else passage for i in range(len(labels))]
    return Read(system, examples, [*passages], asked)


def dataset(task="drop_2", length=6000, language="en", **more) -> Dataset:
    """A dataset; other parameters are those of the task."""
    own = ("num_samples", "queries_per_context")
    options = {name: more.pop(name) for name in own if name in more}
    return Dataset(task, length, language, "words", **options, knobs=more)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", ROWS)
def test_prompts_read_by_someone_else(task, language):
    data = dataset(task, language=language)
    shown = set()
    for index in range(12):
        sample = data[index]
        check_lengths(data, sample)
        told = take_apart(sample, language)
        shown.add(told.system)
        assert len(told.examples) == 3
        source = data.maker.rows
        question = next(one for one in source.questions if one.text == told.question)
        assert sample.id == question.id
        assert [*map(tuple, sample.golds)] == list(question.golds)
        assert sample.outputs == [", ".join(gold) for gold in question.golds]
        targets = [source.documents[target] for target in question.targets]
        assert {*targets} <= {*told.passages}
        assert len({*told.passages}) == len(told.passages)
        assert sample.cluster == hashlib.md5("\n".join(targets).encode()).hexdigest()
        if task == "drop_1":
            assert told.passages == targets
        else:
            assert len(told.passages) > len(targets) == int(task == "drop_3") + 1
            assert sample.length_w_model_temp > 5500
        check_parts(sample, question, source, told)
    # All samples have the same examples.
    assert len(shown) == 1


def check_parts(sample, question, source, told):
    """Documents, operands and distractors are at the positions of the parts."""

    def texts(role):
        return [sample.input[part.start : part.end] for part in sample.parts_of(role)]

    assert texts("system") == [told.system]
    assert [each.rpartition(": ")[2] for each in texts("example")] == [
        answer for _, _, answer in told.examples
    ]
    for target in question.targets:
        assert any(source.documents[target] in text for text in texts("document"))
    told_again = []
    for index, part in question.within:
        if part.role == "operand":
            passage = source.documents[index]
            place = sample.input.index(passage) + part.start
            told_again.append((place, part.key, passage[part.start : part.end]))
    operands = sample.parts_of("operand")
    assert [(part.start, part.key, part.value) for part in operands] == sorted(told_again)
    places = [part.depth for part in operands]
    assert places == sorted(places)
    assert all(0 <= place <= 100 for place in places)
    assert sample.facts == question.facts


@pytest.mark.parametrize("language", LANGUAGES)
def test_answers_alone_end_with_their_line(language):
    data = dataset("drop_1", language=language, reasoning=False, fewshot=0, length=1500)
    told = take_apart(data[3], language, reasoning=False)
    assert told.examples == []
    assert data.metadata["stop"] == ["\n"]
    assert data.tokens_to_generate < dataset("drop_1", language=language).tokens_to_generate
    assert "stop" not in dataset("drop_1", language=language).metadata


def test_questions_share_their_passage():
    data = dataset("drop_2", queries_per_context=4, num_samples=8)
    for group in contexts(data):
        check_sharing(data, group, lambda one: one.parts_of("question")[0].start, 400)
        assert len({sample.cluster for sample in group}) == 1
        assert len({sample.id for sample in group}) == 4


PASSAGES = {
    f"p{number}": {
        "passage": f"In game {number} the Bears scored {number + 20} yards and lost by 1,500 to"
        f" {number + 20}.5 of town {number}.",
        "qa_pairs": [
            {
                "question": f"How many {what}?",
                "query_id": f"q{number}-{what}",
                "answer": {"number": str(number + 20), "date": {}, "spans": []},
            }
            for what in ("yards", "metres", "towns")
        ],
    }
    for number in range(30)
}


@pytest.fixture
def released(tmp_path):
    path = tmp_path / "drop_dev.json"
    path.write_text(json.dumps(PASSAGES), encoding="utf-8")
    return str(path)


def test_a_file_of_drop(released):
    data = dataset("drop_2", 1200, source=released, fewshot=0)
    for index in range(5):
        sample = data[index]
        check_lengths(data, sample)
        told = take_apart(sample, "en")
        assert told.examples == []
        # With several passages, a question names its own.
        opening = re.fullmatch(r'The passage that begins with "(.*)": How many .*\?', told.question)
        assert sum(text.startswith(opening[1]) for text in told.passages) == 1
        (value,) = sample.parts_of("value")
        assert sample.input[value.start : value.end] == sample.outputs[0]
        assert sample.input[value.end :].startswith(" yards")


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({}, r"fewshot is 3, but must be 0, because the file .* has no training side"),
        ({"fewshot": 0, "operation": "sum"}, "operation is 'sum', but must be None or another one"),
        ({"fewshot": 0, "passages": 2}, "passages is 2, but must be another number"),
    ],
)
def test_what_a_file_cannot_do(released, knobs, said):
    with pytest.raises(ParameterError, match=said):
        dataset("drop_1", 4000, source=released, **knobs)


def test_examples_follow_their_seed_alone():
    data = dataset("drop_1")
    first = take_apart(data[0], "en").examples
    assert take_apart(data[5], "en").examples == first
    others = take_apart(dataset("drop_1", fewshot_seed=7)[0], "en").examples
    assert others != first
    # No question is about an example's passage.
    asked = {passage for index in range(12) for passage in take_apart(data[index], "en").passages}
    assert not asked & {passage for passage, _, _ in first}


@pytest.mark.parametrize("language", LANGUAGES)
def test_causes_of_mistakes(language):
    data = dataset("drop_1", language=language, operation="difference")
    word = WORDS[language][2]
    for index in range(6):
        sample = data[index]
        others = {
            "parts": parts_to_data(sample.parts), "golds": sample.golds, "language": language,
            "facts": sample.facts,
        }  # fmt: skip
        operands = [sample.input[part.start : part.end] for part in sample.parts_of("operand")]

        def cause(said, cut_off=False, others=others, sample=sample):
            prediction = Prediction(0, sample.input, sample.outputs, said, others)
            return explain(prediction, cut_off)

        thought = " - ".join(operands)
        assert cause(f"{thought}\n{word}: {operands[0]}") == "wrong operand"
        assert cause(f"{thought}\n{word}: 987654321") == "wrong arithmetic"
        assert cause(f"{word}: 987654321") == "wrong value"
        assert cause(f"{word}: {sample.golds[0][0]} kryptonite") == "wrong unit"
        assert cause(f"{thought}\n", cut_off=True) == "cut off"
        assert cause("  ") == "empty"
        assert cause(f"{word}: Xyzzy") == "no context"
