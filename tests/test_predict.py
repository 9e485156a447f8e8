"""Prediction: nothing lost, nothing doubled, nothing mixed, nothing loaded in vain."""

from __future__ import annotations

import functools
import hashlib
import json
import resource
import signal
from dataclasses import replace

import pytest
from helpers_model import Flock, Parrot, Unloadable, some_samples, stopped, write_dataset

from rulerlib import models, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError, RulerError, RunMismatchError
from rulerlib.predict import predict
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.store import questions
from rulerlib.store.answers import read_predictions

COUNT = 24


@pytest.fixture
def dataset(tmp_path):
    return write_dataset(tmp_path / "data" / "niah_single_2", some_samples(COUNT))


@pytest.fixture
def output(tmp_path):
    return tmp_path / "pred" / "niah_single_2.jsonl"


@pytest.fixture
def whole(tmp_path, dataset):
    """The bytes of a run that nothing interrupted."""
    return predict(dataset, Parrot(), tmp_path / "whole.jsonl").read_bytes()


def one_sentence(error):
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert len(text) < 500
    return text


def test_every_sample_is_answered_in_its_place(dataset, output):
    model = Parrot()
    assert predict(dataset, model, output) == output
    asked = some_samples(COUNT)
    assert model.asked == [sample.input + sample.answer_prefix for sample in asked]
    made = read_predictions(output)
    assert [record.index for record in made] == list(range(COUNT))
    for sample, record in zip(asked, made, strict=True):
        assert (record.input, record.outputs) == (sample.input, sample.outputs)
        assert (record.length, record.truncation) == (sample.length, -1)
        assert record.others["depths"] == sample.depths
        assert record.others["finished"] is True
    assert len({record.pred for record in made}) == COUNT


def test_settings_stand_beside(dataset, output):
    predict(dataset, Parrot(weights="abc"), output)
    beside = json.loads(output.with_suffix(".settings.json").read_text(encoding="utf-8"))
    assert beside["weights"] == "abc"
    assert beside["tokens_to_generate"] == 16
    assert beside["dataset"]["seed"] == 42
    assert beside["decoding"] == "greedy"
    assert (beside["chat"], beside["answer_prefix"]) == (False, "assistant")
    assert not {"cell", "stop", "system_prompt"} & beside.keys()


def test_stop_strings_and_decoding_reach_the_engine(dataset, output):
    asked = []

    class Listener(Parrot):
        def generate(self, requests):
            requests = list(requests)
            asked.extend(requests)
            return super().generate(requests)

    decoding = Decoding(0.5)
    predict(dataset, Listener(), output, PromptFormat(stop=("\n", "x")), decoding)
    assert len(asked) == COUNT
    assert {(request.stop, request.decoding) for request in asked} == {(("\n", "x"), decoding)}


def test_half_of_an_emoji_is_written_as_what_utf_8_can_say(dataset, output):
    said, kept = "8 \ud83d", "8 \ufffd"

    class Torn(Parrot):
        def generate(self, requests):
            for position, _ in enumerate(requests):
                yield position, models.Generation(said, 1, True, thinking=said)

    predict(dataset, Torn(), output)
    output.read_bytes().decode("utf-8")
    for record in read_predictions(output):
        assert (record.pred, record.others["thinking"]) == (kept, kept)


def test_num_samples_takes_the_first(dataset, output, whole):
    model = Parrot()
    predict(dataset, model, output, num_samples=5)
    assert len(model.asked) == 5
    assert whole.startswith(output.read_bytes())
    predict(dataset, Parrot(), output)
    assert output.read_bytes() == whole
    assert len(read_predictions(output, 7)) == 7


@pytest.mark.parametrize(
    ("make", "how", "ended"),
    [
        (Flock, signal.SIGKILL, -signal.SIGKILL),
        (Flock, signal.SIGINT, 130),
    ],
)
def test_a_stopped_run_resumes_and_ends_with_the_same_bytes(tmp_path, output, make, how, ended):
    """Engines that answer in batches and in any order; by a kill or by Ctrl-C."""
    dataset = write_dataset(tmp_path / "data", some_samples(12))
    whole = predict(dataset, make(), tmp_path / "whole.jsonl").read_bytes()
    slow = functools.partial(make, seconds=0.002)
    assert stopped(slow, dataset, output, 10, how) == ended
    assert 0 < output.read_bytes().count(b"\n") < 12
    predict(dataset, make(), output)
    assert output.read_bytes() == whole


def test_a_stream_is_asked_for_nothing_twice(dataset, output, whole):
    """Without batches, a gap in the file is exactly what is asked for."""
    predict(dataset, Flock(), output)
    assert output.read_bytes() == whole, "answers may come in any order"
    lines = whole.splitlines(keepends=True)
    output.write_bytes(b"".join(lines[at] for at in (20, 3, 4, 11)))
    model = Flock()
    predict(dataset, model, output)
    assert len(model.asked) == COUNT - 4
    assert output.read_bytes() == whole


def test_an_engine_that_forgets_a_request_is_no_success(dataset, output):
    class Forgetful(Parrot):
        def generate(self, requests):
            yield from list(super().generate(requests))[1:]

    with pytest.raises(RuntimeError, match="parrot left 1 requests without an answer"):
        predict(dataset, Forgetful(), output)


class Chatty(tokens.Words):
    """Words with a chat template that has a switch for thinking."""

    chat_template = "{{ messages }}"

    def render(self, messages, enable_thinking=True, **variables):
        end = "[assistant]" if enable_thinking else "[assistant]<think></think>"
        return "".join(f"[{each['role']}]{each['content']}" for each in messages) + end


class Thinker(Parrot):
    """Says what it is told to, word for word as a template wants it."""

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
    """Its template begins the thinking."""

    def render(self, messages, **variables):
        return super().render(messages) + "<think>"


@pytest.mark.parametrize(
    ("template", "said", "pred", "thinking", "cut_off"),
    [
        (Chatty, ("<think>Is it 7?</think>\n\nIt is 8.", 9, True), "It is 8.", "Is it 7?", None),
        (Chatty, ("<think>Is it 7?</think>\n\nIt is", 9, False), "It is", "Is it 7?", "answer"),
        (Chatty, ("<think>Is it 7? Is it", 9, False), "", "Is it 7? Is it", "thinking"),
        (Chatty, ("It is 8.", 9, True), "It is 8.", None, None),
        (Begun, ("Is it 7?</think>It is 8.", 9, True), "It is 8.", "Is it 7?", None),
        (Begun, ("Is it 7?", 9, False), "", "Is it 7?", "thinking"),
        # What a server has told apart is all that the template has begun.
        *((template, (said, 9, done, -1, 0, 0, "Is it 7?"), said, "Is it 7?", cut_off)
          for template in (Chatty, Begun)
          for said, done, cut_off in (("It is 8.", True, None), ("", False, "thinking"))),
    ],
)  # fmt: skip
def test_thinking_is_kept_and_not_scored(tmp_path, template, said, pred, thinking, cut_off):
    model = Thinker(said)
    model.tokenizer = template()
    for record in thinking_run(tmp_path, None, model=model)[1]:
        assert record.pred == pred
        assert record.others.get("thinking") == thinking
        assert record.others["cut_off"] == cut_off
        assert record.others["tokens_generated"] == 9


def test_thinking_has_its_own_room_and_is_asked_for(tmp_path):
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


def test_a_prompt_too_long_is_refused_before_anything_is_loaded(dataset, output):
    longest = max(sample.length for sample in some_samples(COUNT))
    with pytest.raises(ParameterError) as error:
        predict(dataset, Unloadable(limit=longest - 1), output)
    assert f"length is {longest}, but must be at most {longest - 1}" in one_sentence(error)
    assert not output.exists()
    predict(dataset, Parrot(limit=longest), output)


def test_truncation_that_is_allowed_stands_in_every_record(dataset, output):
    limit = sorted(sample.length for sample in some_samples(COUNT))[COUNT // 2]
    predict(dataset, Parrot(limit=limit), output, allow_truncation=True)
    for sample, record in zip(some_samples(COUNT), read_predictions(output), strict=True):
        assert record.truncation == (limit - 16 if sample.length > limit else -1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"num_samples": COUNT + 1}, "num_samples"),
        ({"format": PromptFormat(chat=True)}, "chat"),
    ],
)
def test_bad_parameters_are_named(dataset, output, options, named):
    with pytest.raises(ParameterError) as error:
        predict(dataset, Unloadable(), output, **options)
    assert error.value.parameter == named
    one_sentence(error)


@pytest.mark.parametrize("content", [None, ""])
def test_no_dataset_or_an_empty_one(tmp_path, output, content):
    path = tmp_path / "validation.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RulerError) as error:
        predict(path, Unloadable(), output, decoding=Decoding(tokens_to_generate=4))
    assert str(path) in one_sentence(error)


def test_a_full_disk_is_one_sentence_and_loses_nothing(dataset, output, whole):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, before[1]))
    try:
        with pytest.raises(ParameterError, match=r"output is .*File too large") as error:
            predict(dataset, Parrot(), output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    one_sentence(error)
    assert whole.startswith(output.read_bytes())
    predict(dataset, Parrot(), output)
    assert output.read_bytes() == whole


class Recorder(Parrot):
    """A parrot that remembers of which groups each call was."""

    def __init__(self, **options):
        super().__init__(**options)
        self.calls = []

    def generate(self, requests):
        requests = list(requests)
        self.calls.append([request.group for request in requests])
        return super().generate(requests)


def test_all_questions_on_a_context_are_one_call(tmp_path, output):
    data = Dataset("niah_multikey_2", 800, "da", "words", num_samples=13, queries_per_context=6)
    path = questions.write(data, tmp_path / "data")
    model = Recorder()
    whole = predict(path, model, output).read_bytes()
    assert model.calls == [[0] * 6, [1] * 6, [2]]
    records = read_predictions(output)
    assert [record.others["context_id"] for record in records] == [0] * 6 + [1] * 6 + [2]
    # A context of which one answer is missing is asked all its questions again.
    output.write_bytes(b"".join(whole.splitlines(keepends=True)[:8]))
    model = Recorder()
    assert predict(path, model, output).read_bytes() == whole
    assert model.calls == [[1] * 6, [2]]


class Drawer(Parrot):
    """Says another text each time it is asked the same."""

    def generate(self, requests):
        for position, request in enumerate(requests):
            self.asked.append((request.prompt, request.repeat, request.group))
            text = f" {request.repeat} of {hash_of(request.prompt)}"
            yield position, models.Generation(text, 3, True, -1, 10)


def hash_of(text):
    return hashlib.sha256(text.encode()).hexdigest()[:6]


SEVERAL = Decoding(0.8, seed=1, samples=3)


@pytest.mark.parametrize("batch", [None, 2])
def test_several_answers_to_each_question_stand_in_order_whatever_is_left(dataset, output, batch):
    model = Drawer(batch=batch)
    predict(dataset, model, output, decoding=SEVERAL)
    whole = output.read_bytes()
    records = read_predictions(output)
    numbers = [(record.index, record.repeat) for record in records]
    assert numbers == [(index, repeat) for index in range(COUNT) for repeat in range(3)]
    assert all(record.pred.startswith(f" {record.repeat} of") for record in records)
    # Answers to one question share all of their prompt, and engines are told.
    assert {group for _, _, group in model.asked} == set(range(COUNT))
    assert len(model.asked) == 3 * COUNT
    assert len(read_predictions(output, 2)) == 6
    # Whatever a kill left, the rest is asked for and the bytes are the same.
    for lines in (1, 2, 3, 4, 3 * COUNT - 1):
        output.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))
        model = Drawer(batch=batch)
        predict(dataset, model, output, decoding=SEVERAL)
        assert output.read_bytes() == whole
        assert len(model.asked) < 3 * COUNT or batch
