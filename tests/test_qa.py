"""Questions: an independent reader finds the documents with the answers at the recorded positions.

The reader knows only the published format of the prompts, written down below as patterns. It
imports nothing from the task.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass

import pytest
from helpers_sharing import check_sharing, contexts

from conftest import make_tokenizer, shared
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.samples import Sample

LANGUAGES = ("da", "en")
TASKS = ("qa_1", "qa_2")

INSTRUCTION = {
    "da": "Besvar spørgsmålet ud fra de givne dokumenter. Skriv kun svaret og ikke andet.\n\n",
    "en": "Answer the question from the documents given. Write the answer only and nothing "
    "else.\n\n",
}
OPENING = {"da": "Her er dokumenterne.\n\n", "en": "Here are the documents.\n\n"}
LABEL = {
    "da": re.compile(r"(?:^|(?<=\n\n))Dokument (\d+):\n"),
    "en": re.compile(r"(?:^|(?<=\n\n))Document (\d+):\n"),
}
QUESTION = {"da": "Spørgsmål: ", "en": "Question: "}
PREFIX = {"da": " Svar:", "en": " Answer:"}
NO_CONTEXT = {
    "da": "Besvar spørgsmålet. Skriv kun svaret og ikke andet.\n\n",
    "en": "Answer the question. Write the answer only and nothing else.\n\n",
}


@dataclass
class Document:
    """One document: where its label begins in the prompt, and its text."""

    start: int
    text: str

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0]

    def holds(self, *answers: str) -> bool:
        return any(answer.casefold() in self.text.casefold() for answer in answers)


@dataclass
class Reading:
    """The contents of a prompt, parsed independently."""

    documents: list[Document]
    question: str

    def at(self, text: str, tokenizer, position: int) -> Document:
        """The document that begins with a token."""
        start = tokenizer.spans([text])[0][position][0]
        return next(document for document in self.documents if document.start == start)


def read(prompt: str, language: str) -> Reading:
    """Read a prompt as published: an instruction, documents, the instruction, a question."""
    start = INSTRUCTION[language] + OPENING[language]
    assert prompt.startswith(start)
    end = prompt.rindex("\n\n" + INSTRUCTION[language] + QUESTION[language])
    context = prompt[len(start) : end]
    labels = list(LABEL[language].finditer(context))
    assert [int(label[1]) for label in labels] == list(range(1, len(labels) + 1))
    assert labels[0].start() == 0
    ends = [label.start() - 2 for label in labels[1:]] + [len(context)]
    documents = [
        Document(len(start) + label.start(), context[label.end() : last])
        for label, last in zip(labels, ends, strict=True)
    ]
    assert len({document.text for document in documents}) == len(documents)
    assert all(document.text == document.text.strip() != "" for document in documents)
    return Reading(documents, prompt[end:].rpartition(QUESTION[language])[2])


def check(sample: Sample, language: str, tokenizer) -> Reading:
    """All that must hold for any sample from the built-in files."""
    reading = read(sample.input, language)
    assert sample.answer_prefix == PREFIX[language]
    assert len(sample.depths) == len(sample.token_positions)
    targets = [reading.at(sample.input, tokenizer, place) for place in sample.token_positions]
    # Every answer is in the first recorded document and in no other.
    holding = [document for document in reading.documents if document.holds(*sample.outputs)]
    assert holding == targets[:1]
    assert targets[0].text.count(sample.outputs[0]) == 1
    assert not any(answer in reading.question for answer in sample.outputs)
    at = tokenizer.spans([sample.input])[0][sample.token_position_answer]
    assert at[0] <= sample.input.index(sample.outputs[0], targets[0].start) < at[1]
    if len(targets) == 2:
        # The question names the document to begin with; from there the way leads to the answer.
        assert targets[-1].title in reading.question
        answering, first = targets
        assert answering is not first
        assert first.holds(answering.title)
        assert not answering.holds(first.title)
        assert answering.title not in reading.question
    return reading


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", TASKS)
def test_reader_recovers_every_variant(task, language, words):
    for sample in Dataset(task, 1300, language, words, num_samples=18):
        reading = check(sample, language, words)
        assert len(sample.depths) == {"qa_1": 1, "qa_2": 2}[task]
        assert len(reading.documents) >= 4
        assert 0 < sample.length == sample.length_w_model_temp <= 1300


def question_at(sample: Sample) -> int:
    return sample.input.rindex(QUESTION[sample.language]) + len(QUESTION[sample.language])


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", TASKS)
def test_questions_on_the_same_documents(task, language, words):
    data = Dataset(task, 5000, language, words, num_samples=10, queries_per_context=10)
    for group in contexts(data):
        documents = read(group[0].input, language).documents
        longest = max(words.count(document.text) for document in documents)
        check_sharing(data, group, question_at, int(1.5 * longest) + 20)
        readings = [check(sample, language, words) for sample in group]
        assert len({reading.question for reading in readings}) == len(group)
        for sample, reading in zip(group, readings, strict=True):
            assert len(sample.depths) == {"qa_1": 1, "qa_2": 2}[task]
            targets = [reading.at(sample.input, words, place) for place in sample.token_positions]
            costs = {one.start: words.count(one.text) for one in reading.documents}
            for target, depth in zip(targets, sample.depths, strict=True):
                before = sum(cost for start, cost in costs.items() if start < target.start)
                around = sum(costs.values()) - words.count(target.text)
                assert depth == pytest.approx(100 * before / around, abs=2)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", TASKS)
def test_without_documents(task, language, words):
    alone = Dataset(task, 1000, language, words, num_samples=10, knobs={"context": False})
    for sample, full in zip(alone, Dataset(task, 1000, language, words, 10), strict=True):
        asked = read(full.input, language).question
        assert sample.input == NO_CONTEXT[language] + QUESTION[language] + asked
        assert sample.outputs == full.outputs
        assert sample.depths == sample.token_positions == []
        assert sample.token_position_answer is None


def articles(count: int) -> list[dict]:
    """Rows in the schema of SQuAD; the documents and the questions differ in length."""
    return [
        {
            "title": f"A{number % 4}",
            "context": f"Item {number} is {'very ' * number}old. Its code is {number + 7000}.",
            "question": f"What is{' please' * (number % 5)} the code of {number}?",
            "answers": {"text": [f"{number + 7000}"]},
        }
        for number in range(count)
    ]


def test_too_few_documents_are_repeated(tmp_path):
    nasty = make_tokenizer("nasty")
    path = tmp_path / "source.json"
    path.write_text(json.dumps(articles(20)), encoding="utf-8")
    knobs = {"source": str(path)}
    data = Dataset("qa_1", 6000, "en", nasty, num_samples=3, knobs=knobs)
    for sample in data:
        context = sample.input[: sample.input.rindex("\n\n" + INSTRUCTION["en"])]
        pieces = LABEL["en"].split(context.partition(OPENING["en"])[2])
        texts = [text.strip() for text in pieces[2::2]]
        (target,) = {text for text in texts if texts.count(text) == 1}
        assert target.endswith(f"{sample.outputs[0]}.")
        others = Counter(text for text in texts if text != target)
        assert len(others) == 19
        # One comes again only when all have come.
        assert max(others.values()) - min(others.values()) <= 1
        assert sample.length_w_model_temp <= 6000
        assert sample.length_w_model_temp > 5800
    with pytest.raises(ParameterError, match="hops is 2, but must be 1, the number of documents"):
        Dataset("qa_2", 6000, "en", nasty, knobs=knobs)


def test_real_hotpot(words):
    path = shared("hotpotqa_sample.json")
    rows = {row["question"].strip(): row for row in json.loads(path.read_text(encoding="utf-8"))}
    data = Dataset("qa_2", 3000, "en", words, 100, knobs={"source": str(path)})
    for index in range(0, 100, 3):
        sample = data[index]
        reading = read(sample.input, "en")
        row = rows[reading.question]
        targets = [reading.at(sample.input, words, place) for place in sample.token_positions]
        assert {one.title for one in targets} == set(row["supporting_facts"]["title"])
        assert sample.outputs == [row["answer"].strip()]
        # The document with the answer is recorded first, if there is one.
        assert targets[0].holds(*sample.outputs) or not targets[1].holds(*sample.outputs)
        # The documents of the question come first, and others only where those do not suffice.
        near, titles = set(row["context"]["title"]), {one.title for one in reading.documents}
        assert near <= titles or titles <= near
