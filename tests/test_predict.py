"""Predictions: complete, resumed after a stop, and checked before a model is loaded."""

from __future__ import annotations

import json
import resource
from dataclasses import replace

import pytest
from helpers_model import Parrot, some_samples, write_dataset

from rulerlib import models, store, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError, RunMismatchError
from rulerlib.predict import predict
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.store import read_predictions

COUNT = 24


@pytest.fixture
def dataset(tmp_path):
    return write_dataset(tmp_path / "data" / "niah_single_2", some_samples(COUNT))


@pytest.fixture
def output(tmp_path):
    return tmp_path / "pred" / "niah_single_2.jsonl"


@pytest.fixture
def whole(tmp_path, dataset):
    """The bytes of an uninterrupted run."""
    return predict(dataset, Parrot(), tmp_path / "whole.jsonl").read_bytes()


def test_every_sample_is_answered_in_order(dataset, output):
    model = Parrot()
    assert predict(dataset, model, output) == output
    asked = some_samples(COUNT)
    assert model.asked == [sample.input + sample.answer_prefix for sample in asked]
    made = read_predictions(output)
    assert [record.index for record in made] == list(range(COUNT))
    for sample, record in zip(asked, made, strict=True):
        assert (record.input, record.outputs) == (sample.input, sample.outputs)
        assert (record.length, record.others["depths"]) == (sample.length, sample.depths)
    assert len({record.pred for record in made}) == COUNT


def test_a_run_can_be_extended_with_more_samples(dataset, output, whole):
    model = Parrot()
    predict(dataset, model, output, num_samples=5)
    assert len(model.asked) == 5
    assert whole.startswith(output.read_bytes())
    predict(dataset, Parrot(), output)
    assert output.read_bytes() == whole


class Chatty(tokens.Words):
    """Words with a chat template that has a switch for thinking."""

    chat_template = "{{ messages }}"

    def render(self, messages, enable_thinking=True, **variables):
        end = "[assistant]" if enable_thinking else "[assistant]<think></think>"
        return "".join(f"[{each['role']}]{each['content']}" for each in messages) + end


class Thinker(Parrot):
    """Gives the same answer to every question."""

    def __init__(self, said, limit=None, **settings):
        super().__init__(limit, **settings)
        self.said, self.requests = said, []
        self.tokenizer = Chatty()

    def generate(self, requests):
        for position, request in enumerate(requests):
            self.requests.append(request)
            yield position, models.Generation(*self.said)


THINKS = PromptFormat(chat=True, answer_prefix="user", thinking_tokens=50)


def thinking_run(tmp_path, said, format=THINKS, model=None, **changed):  # noqa: A002
    dataset = write_dataset(tmp_path / "data", some_samples(2), **{"chat": True, **changed})
    model = model or Thinker(said)
    return model, read_predictions(predict(dataset, model, tmp_path / "pred.jsonl", format))


class Begun(Chatty):
    """A template that begins the thinking."""

    def render(self, messages, **variables):
        return super().render(messages) + "<think>"


@pytest.mark.parametrize(
    ("template", "said", "pred", "thinking", "cut_off"),
    [
        (Chatty, ("<think>Is it 7?</think>\n\nIt is 8.", 9, True), "It is 8.", "Is it 7?", None),
        (Chatty, ("<think>Is it 7?</think>\n\nIt is", 9, False), "It is", "Is it 7?", "answer"),
        (Chatty, ("<think>Is it 7? Is it", 9, False), "", "Is it 7? Is it", "thinking"),
        (Begun, ("Is it 7?", 9, False), "", "Is it 7?", "thinking"),
        # Servers may return the thinking separately.
        (Chatty, ("It is 8.", 9, True, 0, "Is it 7?"), "It is 8.", "Is it 7?", None),
        (Begun, ("", 9, False, 0, "Is it 7?"), "", "Is it 7?", "thinking"),
    ],
)
def test_thinking_is_kept_and_not_scored(tmp_path, template, said, pred, thinking, cut_off):
    model = Thinker(said)
    model.tokenizer = template()
    for record in thinking_run(tmp_path, None, model=model)[1]:
        assert record.pred == pred
        assert record.others.get("thinking") == thinking
        assert record.others["cut_off"] == cut_off
        assert record.others["tokens_generated"] == 9


def test_thinking_has_its_own_token_limit(tmp_path):
    thinks = replace(THINKS, thinking=True, thinking_tags=("<a>", "</a>"))
    model, _ = thinking_run(tmp_path, ("8", 1, True), thinks)
    for request, sample in zip(model.requests, some_samples(2), strict=True):
        assert request.max_new_tokens == 16 + 50
        assert request.template == {"enable_thinking": True}
        assert request.tags == ("<a>", "</a>")
        assert request.prompt == f"[user]{sample.input} Svaret er:[assistant]"
        assert request.messages == ({"role": "user", "content": sample.input + " Svaret er:"},)
    beside = json.loads((tmp_path / "pred.settings.json").read_text())
    assert beside["thinking_tokens"] == 50
    assert beside["answer_prefix"] == "user"
    with pytest.raises(RunMismatchError, match="thinking_tokens = 50"):
        thinking_run(tmp_path, ("8", 1, True), replace(thinks, thinking_tokens=51))


def test_a_prompt_too_long_is_refused_before_a_model_is_loaded(dataset, output):
    longest = max(sample.length for sample in some_samples(COUNT))
    said = f"length is {longest}, but must be at most {longest - 1}"
    model = Parrot(limit=longest - 1)
    with pytest.raises(ParameterError, match=said):
        predict(dataset, model, output)
    assert not model.asked
    assert not output.exists()
    predict(dataset, Parrot(limit=longest), output)


def test_a_full_disk_is_one_error_and_loses_no_answer(dataset, output, whole):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, before[1]))
    try:
        with pytest.raises(ParameterError, match=r"output is .*File too large"):
            predict(dataset, Parrot(), output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert whole.startswith(output.read_bytes())
    predict(dataset, Parrot(), output)
    assert output.read_bytes() == whole


class Recorder(Parrot):
    """A parrot that records the groups of each call."""

    def __init__(self, **options):
        super().__init__(**options)
        self.calls = []

    def generate(self, requests):
        requests = list(requests)
        self.calls.append([request.group for request in requests])
        return super().generate(requests)


def test_all_questions_on_a_context_are_one_call(tmp_path, output):
    data = Dataset("niah_multikey_2", 800, "da", "words", num_samples=13, queries_per_context=6)
    path = store.write_questions(data, tmp_path / "data")
    model = Recorder()
    whole = predict(path, model, output).read_bytes()
    assert model.calls == [[0] * 6, [1] * 6, [2]]
    records = read_predictions(output)
    assert [record.others["context_id"] for record in records] == [0] * 6 + [1] * 6 + [2]
    # If one answer is missing, all questions on the context are asked again.
    output.write_bytes(b"".join(whole.splitlines(keepends=True)[:8]))
    model = Recorder()
    assert predict(path, model, output).read_bytes() == whole
    assert model.calls == [[1] * 6, [2]]


class Drawer(Parrot):
    """Gives a different answer to each repetition of a question."""

    def generate(self, requests):
        for position, request in enumerate(requests):
            self.asked.append((request.prompt, request.repeat, request.group))
            text = f" {request.repeat} of {hash(request.prompt)}"
            yield position, models.Generation(text, 3, True, 10)


SEVERAL = Decoding(0.8, seed=1, samples=3)


@pytest.mark.parametrize("batch", [None, 2])
def test_repeated_answers_are_sorted_and_resumed(dataset, output, batch):
    model = Drawer(batch=batch)
    predict(dataset, model, output, decoding=SEVERAL)
    whole = output.read_bytes()
    records = read_predictions(output)
    numbers = [(record.index, record.repeat) for record in records]
    assert numbers == [(index, repeat) for index in range(COUNT) for repeat in range(3)]
    assert all(record.pred.startswith(f" {record.repeat} of") for record in records)
    # Repetitions of a question are one group.
    assert {group for _, _, group in model.asked} == set(range(COUNT))
    assert len(model.asked) == 3 * COUNT
    assert len(read_predictions(output, 2)) == 6
    for lines in (1, 4, 3 * COUNT - 1):
        output.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))
        model = Drawer(batch=batch)
        predict(dataset, model, output, decoding=SEVERAL)
        assert output.read_bytes() == whole
        assert len(model.asked) < 3 * COUNT or batch
