"""The openai engine against a real server on loopback."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import ssl
import threading

import pytest
from helpers_fuzz import within
from helpers_model import some_samples, write_dataset
from helpers_server import KEY, PASSING, Server, said, with_window

pytest.importorskip("openai")

from openai import _base_client

from rulerlib import models, tokens
from rulerlib.errors import ParameterError, ServerError
from rulerlib.models import Request, in_order
from rulerlib.predict import predict
from rulerlib.store import read_predictions


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Shorten the pauses between retries, unset the key and skip loading certificates."""
    monkeypatch.setattr(_base_client, "INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr(_base_client, "MAX_RETRY_DELAY", 0.02)
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_: None)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def serve():
    """Start a server with a plan of faults and an ``answer``; it stops with the test."""
    with contextlib.ExitStack() as stack:

        def start(plan=lambda *_: None, answer=None, **options):
            server = stack.enter_context(Server(plan, **options).running())
            server.answer = answer or server.answer
            return server

        yield start


def load(server, endpoint="completions", **options):
    options = {"base_url": server.url, "tokenizer": "words", "timeout": 30.0, **options}
    return models.load("parrot", "openai", endpoint=endpoint, **options)


def questions(count):
    return [Request(f"Spørgsmål {number}: hvad?", False, 16) for number in range(count)]


def prompts(*counts):
    return [Request(" ".join(["græs"] * count), True, 16) for count in counts]


def one_line_of(error):
    """Return a message after checking that it is one line without key and address."""
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert KEY not in text
    assert "127.0.0.1" not in text
    return text


# --- Requests -------------------------------------------------------------------------------------


def test_every_request_gets_one_answer_despite_temporary_faults(serve):
    """Half of all attempts fail; every kind of temporary fault occurs."""

    def plan(prompt, attempt):
        rng = random.Random(f"{attempt} {prompt}")
        return rng.choice(PASSING) if rng.random() < 0.5 else None

    server = serve(plan, hang=5.0)
    model = load(server, timeout=1.0, retries=40, concurrency=16)
    requests = questions(60)
    came = list(model.generate(iter(requests)))
    assert sorted(position for position, _ in came) == list(range(60))
    for position, generation in came:
        assert generation.text == said(requests[position].prompt)
        assert generation.finished
    assert set(PASSING) | {"answered"} == set(server.done)


FINAL = {
    "404": (ServerError, "does not exist); check the model"),
    "403": (ParameterError, "not in your country"),
    "500": (ServerError, "status 500: out of order). Completed answers are saved"),
    "drop": (ServerError, "No answer from the server at base_url with retries=1"),
    "html": (ServerError, "check that base_url ends with /v1"),
    "malformed": (ServerError, "is not JSON"),
    "null text": (ServerError, "sent no text, but"),
    "abort": (ServerError, "stopped before the end of an answer"),
}


@pytest.mark.parametrize("fault", FINAL)
def test_a_permanent_error_stops_the_run_with_one_line(serve, monkeypatch, fault):
    kind, words = FINAL[fault]
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = serve(lambda *_: fault)
    with pytest.raises(kind) as error:
        list(load(server, concurrency=4, retries=1).generate(questions(100)))
    assert words in one_line_of(error)
    assert sum(server.done.values()) <= 8, "no new request is sent"


def test_a_run_resumes_after_an_error_without_repeating_requests(serve, tmp_path):
    dataset, output = write_dataset(tmp_path / "data", some_samples(24)), tmp_path / "out.jsonl"
    server = serve(lambda *_: "403" if len(server.answered) == 10 else None, seconds=0.02)
    with pytest.raises(ParameterError):
        predict(dataset, load(server, concurrency=4), output)
    saved = len(read_predictions(output))
    assert saved == server.done["answered"] >= 10
    rest = serve()
    predict(dataset, load(rest), output)
    assert rest.done["answered"] == 24 - saved
    whole = predict(dataset, load(serve()), tmp_path / "whole.jsonl")
    assert output.read_bytes() == whole.read_bytes()


def test_ctrl_c_does_not_wait_for_the_server(serve):
    pressed = []
    # A shell starts a background process with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def plan(prompt, attempt):
        # Once: a second Ctrl-C would interrupt the end of the first.
        if len(server.attempts) == 3 and not pressed:
            pressed.append(True)
            threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        return "hang"

    server = serve(plan, hang=600.0)
    going = load(server, timeout=600.0).generate(questions(3))
    with within(120), pytest.raises(KeyboardInterrupt):
        next(going)
    signal.signal(signal.SIGINT, before)


def test_the_exact_prompt_is_sent(serve):
    server = serve()
    requests = [Request("Æ\n\n <|user|>", True, 7), Request("<s>b", False, 9, tags=("<t>", "</t>"))]
    in_order(load(server, concurrency=1, body={"top_k": 1}), requests)
    both = {"model": "parrot", "temperature": 0, "top_k": 1}
    assert server.bodies == [
        {**both, "prompt": "Æ\n\n <|user|>", "max_tokens": 7},
        {**both, "prompt": "<s>b", "max_tokens": 9, "add_special_tokens": False},
    ]


def test_chat_messages_are_sent_as_they_are(serve):
    server = serve()
    user, assistant = ({"role": role, "content": role} for role in ("user", "assistant"))
    in_order(load(server, "chat", concurrency=1, body={"temperature": None}), [
        Request("plain", True, 8),
        Request("x", False, 8, messages=(user,), template={"enable_thinking": False}),
        Request("y", False, 8, messages=(user, assistant)),
    ])  # fmt: skip
    both = {"model": "parrot", "max_tokens": 8}
    assert server.bodies == [
        {**both, "messages": [{"role": "user", "content": "plain"}]},
        {**both, "messages": [user], "chat_template_kwargs": {"enable_thinking": False}},
        {**both, "messages": [user, assistant], "continue_final_message": True,
         "add_generation_prompt": False},
    ]  # fmt: skip


# --- Settings -------------------------------------------------------------------------------------


def test_the_limit_comes_from_the_server(serve):
    server = serve(models={"parrot": {"max_model_len": 4096}, "other": {"max_model_len": 8}})
    assert load(server).limit == 4096
    assert load(server, max_model_len=100).limit == 100
    assert load(serve(models={"another": {}})).limit is None, "hosted servers list only some"


def test_the_key_is_sent_and_never_shown(serve, tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(0)
    server = serve(key=KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
    model = models.load("parrot", "openai", tokenizer="words")
    predict(write_dataset(tmp_path / "data", some_samples(5)), model, tmp_path / "x.jsonl")
    files = [path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file()]
    texts = [repr(model), str(model.settings), *files]
    assert not any(KEY in text for text in [*texts, *capsys.readouterr(), caplog.text])
    assert not any("127.0.0.1" in text for text in texts)
    monkeypatch.setenv("OPENAI_API_KEY", KEY[::-1])
    with pytest.raises(ParameterError, match=r"OPENAI_API_KEY is '\*\*\*'.*status 401") as error:
        in_order(load(server), questions(1))
    assert KEY[::-1] not in one_line_of(error)


BAD = [
    ({"base_url": f"http://me:{KEY}@x"}, "base_url"), ({"endpoint": "chats"}, "endpoint"),
    ({"tokenizer": None}, "tokenizer"), ({"concurency": 3}, "engine option"),
    ({"api_key": KEY}, "engine option"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "named"), BAD)
def test_bad_options_are_rejected_by_name(options, named):
    with pytest.raises(ParameterError) as error:
        models.load("gpt", "openai", **{"base_url": "http://x/v1", "tokenizer": "words", **options})
    assert error.value.parameter == named
    one_line_of(error)


# --- Truncated prompts ----------------------------------------------------------------------------

# Endpoint, tokenizer, tokens that the server reads of 4,000, and whether it stops the run.
READ = [
    ("completions", None, 3999, True), ("completions", None, 4000, False),
    ("chat", None, 3700, True),
    ("completions", "words", 1999, True), ("completions", "words", 2001, False),
]  # fmt: skip


@pytest.mark.parametrize(("endpoint", "tokenizer", "read", "stops"), READ)
def test_a_truncated_prompt_stops_the_run(serve, monkeypatch, endpoint, tokenizer, read, stops):
    monkeypatch.setattr(tokens, "load", lambda *_: tokens.Words())
    server, came = serve(answer=with_window(read)), []
    options = {"base_url": server.url, "endpoint": endpoint, "tokenizer": tokenizer}
    model = models.load("words", "openai", concurrency=1, **options)
    message = rf"read {read:,} of 4,000 prompt tokens; raise its context window, e\.g\. num_ctx\."
    expected = pytest.raises(ServerError, match=message) if stops else contextlib.nullcontext()
    with expected:
        came.extend(at for at, _ in model.generate(prompts(9, 4000, 9)))
    assert came == ([0] if stops else [0, 1, 2]), "the truncated prompt has no answer"


# --- Replies --------------------------------------------------------------------------------------


def replying(message):
    """Return an ``answer`` with this message, or its text."""

    def answer(prompt, chat):
        choice = {"message": message} if chat else {"text": message["content"]}
        usage = {**with_window(10**6)(prompt, chat)["usage"], "completion_tokens": 3}
        return {"choices": [{"finish_reason": "stop", **choice}], "usage": usage}

    return answer


# A message, the answer in it, and the thinking.
CONTENTS = [
    ({"content": "<think>7?</think> 8?</think>\n9"}, "9", "7? 8?"),
    ({"content": None, "reasoning_content": "7?"}, "", "7?"),
]


@pytest.mark.parametrize(("message", "text", "thinking"), CONTENTS)
def test_a_chat_reply_is_text_without_thinking(serve, message, text, thinking):
    """Even if the local tokenizer has no chat template."""
    (made,) = in_order(load(serve(answer=replying(message)), "chat"), prompts(5))
    assert (made.text, made.thinking) == (text, thinking)


def test_stop_strings_are_sent_and_also_applied_here(serve):
    """The server of this test ignores them."""
    server = serve()
    model = load(server, concurrency=1)
    plain, quoted = in_order(
        model, [Request("x", True, 16), Request("x", True, 16, stop=('"', "9"))]
    )
    assert [body.get("stop") for body in server.bodies] == [None, ['"', "9"]]
    assert (plain.text, quoted.text, quoted.finished) == (said("x"), " æøå ", True)
    assert quoted.tokens == model.tokenizer.count(' æøå "')


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_stop_strings_apply_only_after_thinking(serve, endpoint):
    """They are not sent, because the server would also apply them to the thinking."""
    server = serve(answer=replying({"content": "<think>7.</think> 8. No.</think>\n9. 0."}))
    tags = ("<think>", "</think>")
    (made,) = in_order(load(server, endpoint), [Request("x", True, 16, stop=(".",), tags=tags)])
    assert made.text.endswith("9")
    assert made.finished
    assert "stop" not in server.bodies[0]
