"""The openai engine against a server that fails in every way: nothing lost, doubled or shown."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import math
import os
import signal
import ssl
import threading
import time
import warnings

import pytest
from helpers_fuzz import within
from helpers_model import some_samples, write_dataset
from helpers_server import KEY, PASSING, Server, faulty, said

pytest.importorskip("httpx2")

from rulerlib import models
from rulerlib.errors import ParameterError, ServerError
from rulerlib.models import Request, in_order, openai_transport
from rulerlib.predict import predict
from rulerlib.prompts import Decoding
from rulerlib.store.answers import read_predictions

COUNT = 24


# Waits short enough for a test. No server here speaks TLS, and to read the certificates of all
# authorities takes longer than most tests.
QUICK = [
    (openai_transport, "FIRST_WAIT", 0.005),
    (openai_transport, "LONGEST_WAIT", 0.02),
    (ssl.SSLContext, "load_verify_locations", lambda *_: None),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """As quick as may be; the environment of whoever runs it plays no part."""
    for place, name, value in QUICK:
        monkeypatch.setattr(place, name, value)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def serve():
    """Start a server that follows a plan; it ends with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda plan=lambda *_: None, **options: stack.enter_context(
            Server(plan, **options).running()
        )


def load(server, **options):
    options = {"base_url": server.url, "tokenizer": "words", "timeout": 30.0, **options}
    return models.load("parrot", "openai", **options)


def asked(count, **more):
    return [Request(f"Spørgsmål {number}: hvad?", False, 16, **more) for number in range(count)]


def one_sentence(error):
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert KEY not in text
    assert "127.0.0.1" not in text
    return text


def test_no_record_is_lost_or_doubled(serve):
    """Half of all attempts fail, in sixteen ways."""
    server = serve(faulty(0.5, seed=1), hang=5.0)
    model = load(server, timeout=1.0, retries=40, concurrency=16)
    requests = asked(200)
    came = list(model.generate(iter(requests)))
    assert sorted(position for position, _ in came) == list(range(200))
    for position, generation in came:
        assert generation.text == said(requests[position].prompt)
        assert generation.finished
    assert set(PASSING) | {"answered"} == set(server.done), "every fault came"


def test_retry_after_is_honoured_by_everybody(serve):
    server = serve(lambda prompt, attempt: "429" if server.times[1:] == [] else None,
                   retry_after="0.6")  # fmt: skip
    list(load(server, concurrency=1).generate(asked(3)))
    assert server.times[1] - server.times[0] >= 0.6

    both, told = threading.Event(), threading.Event()

    def plan(prompt, attempt):
        if attempt == 0 and " 0:" in prompt:
            assert both.wait(30)
            told.set()
            return "429"
        if " 1:" in prompt:
            both.set()
            # The client has half a second to take in the limit before it may ask the next.
            assert told.wait(30)
            time.sleep(0.5)
        return None

    server = serve(plan, retry_after="0.6")
    list(load(server, concurrency=2).generate(asked(4)))
    assert len(server.times) == 5
    assert min(server.times[2:]) - max(server.times[:2]) >= 0.6, "a limit holds for all"


def test_a_limit_on_requests_is_a_queue_and_no_fault(serve):
    """One request at a time gets through, and twenty wait; nobody's retries are used up."""
    free = threading.Lock()

    def plan(prompt, attempt):
        if not free.acquire(blocking=False):
            return "429"
        time.sleep(0.02)
        free.release()
        return None

    server = serve(plan, retry_after="0.01")
    assert len(in_order(load(server, concurrency=20, retries=8), asked(40))) == 40
    assert server.done["429"] > 40


def test_retries_end(serve):
    server = serve(lambda *_: "500")
    with pytest.raises(ServerError, match="failed 4 times on one request") as error:
        list(load(server, retries=3, concurrency=1).generate(asked(3)))
    assert "status 500 (out of order)" in one_sentence(error)
    assert server.done == {"500": 4}


FINAL = [
    ("404 model", ServerError, "does not exist): check the model"),
    ("404 route", ServerError, "that base_url ends with /v1"),
    ("400 long", ServerError, "maximum context length is 4096"),
    ("400", ServerError, "status 400 (temperature is not supported"),
    ("403", ParameterError, "not in your country"),
    ("429 quota", ServerError, "the account is used up"),
    ("302", ServerError, "status 302"),
    ("200 html", ServerError, "a web page, not JSON; check that base_url ends with /v1"),
    ("200 list", ServerError, "a JSON list, not an object"),
]


@pytest.mark.parametrize(("fault", "kind", "words"), FINAL, ids=[row[0] for row in FINAL])
def test_a_final_fault_ends_at_once_with_one_sentence(serve, fault, kind, words):
    server = serve(lambda *_: fault)
    with pytest.raises(kind) as error:
        list(load(server, api_key=KEY, concurrency=4).generate(asked(100)))
    assert words in one_sentence(error)
    assert sum(server.done.values()) <= 4, "nothing is sent after it, nothing is sent again"


def test_what_is_on_its_way_is_not_thrown_away(serve):
    """One sample is too long; the answers that were being written are delivered first."""
    server = serve(lambda prompt, _: "400 long" if " 5:" in prompt else None, seconds=0.05)
    came = []
    going = load(server, concurrency=8).generate(asked(100))
    with pytest.raises(ServerError, match="length"):
        came.extend(position for position, _ in going)
    assert set(range(8)) - {5} <= set(came)
    assert server.done["answered"] == len(came)


def test_a_wrong_key_is_known_before_anything_is_asked(serve):
    server = serve(key=KEY, models={"parrot": {}})
    for options in ({"api_key": "sk-wrong"}, {}):
        with pytest.raises(ParameterError, match="OPENAI_API_KEY") as error:
            _ = load(server, **options).limit
        assert "sk-wrong" not in one_sentence(error)
    assert load(server, api_key=KEY).limit is None
    assert server.attempts == {}


def test_so_many_requests_at_a_time(serve):
    server = serve(seconds=0.02)
    pulled = []
    requests = (pulled.append(request) or request for request in asked(12))
    going = load(server, concurrency=3).generate(requests)
    next(going)
    assert len(pulled) == 3
    assert len(list(going)) == 11
    assert server.most == 3


def test_it_runs_where_an_event_loop_runs_already(serve):
    """As in Jupyter."""
    model = load(serve())

    async def cell():
        return in_order(model, asked(3))

    assert len(asyncio.run(cell())) == 3


def test_nothing_stays_behind(serve):
    once = threading.Semaphore(1)

    def plan(prompt, attempt):
        if len(server.attempts) == 3 and once.acquire(blocking=False):
            # To the process, as a terminal sends it.
            threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        return "hang"

    server = serve(plan, hang=600.0)
    before = set(threading.enumerate())
    going = load(server, timeout=600.0).generate(asked(3))
    # Ctrl-C does not wait for the server: what waits is ended after a minute.
    with within(6), pytest.raises(KeyboardInterrupt):
        next(going)
    del going
    gc.collect()
    mine = [each for each in set(threading.enumerate()) - before if "openai" in each.name]
    assert mine == []


def test_the_very_text_of_the_prompt_is_sent(serve):
    server = serve()
    requests = [Request("Æ\n\n <|user|>", True, 7), Request("<s>b", False, 9, tags=("</think>",))]
    in_order(load(server, concurrency=1, body={"top_k": 1}), requests)
    both = {"model": "parrot", "temperature": 0, "top_k": 1}
    assert server.bodies == [
        {**both, "prompt": "Æ\n\n <|user|>", "max_tokens": 7},
        {**both, "prompt": "<s>b", "max_tokens": 9, "add_special_tokens": False},
    ]


def test_chat_takes_messages(serve):
    server = serve()
    user, assistant = ({"role": role, "content": role} for role in ("user", "assistant"))
    model = load(
        server, endpoint="chat", concurrency=1, body={"temperature": None},
        max_tokens_field="max_completion_tokens",
    )  # fmt: skip
    in_order(model, [
        Request("plain", True, 8),
        Request("x", False, 8, messages=(user,), template={"enable_thinking": False}),
        Request("y", False, 8, messages=(user, assistant)),
    ])  # fmt: skip
    both = {"model": "parrot", "max_completion_tokens": 8}
    assert server.bodies == [
        {**both, "messages": [{"role": "user", "content": "plain"}]},
        {**both, "messages": [user], "chat_template_kwargs": {"enable_thinking": False}},
        {**both, "messages": [user, assistant], "continue_final_message": True,
         "add_generation_prompt": False},
    ]  # fmt: skip


def test_an_answer_is_read(serve):
    server = serve()
    usage = {
        "prompt_tokens": 4, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3},
    }  # fmt: skip
    server.answer = lambda *_: {
        "choices": [{"text": " 12", "finish_reason": "length"}], "usage": usage,
    }  # fmt: skip
    (generation,) = in_order(load(server), [Request("1 2 3 4", True, 9)])
    assert (generation.text, generation.tokens, generation.finished) == (" 12", 5, False)
    assert (generation.prompt_tokens, generation.computed_tokens, generation.kept) == (4, 1, -1)
    # A server that counts nothing: counted here, and what was cached is unknown.
    server.answer = lambda *_: {"choices": [{"text": " 12 13", "finish_reason": "stop"}]}
    (generation,) = in_order(load(server), [Request("1 2 3 4", True, 9)])
    assert (generation.tokens, generation.prompt_tokens, generation.computed_tokens) == (2, 4, 0)


def test_a_server_that_counts_otherwise_is_told_once(serve):
    server = serve()
    model = load(server)
    model.tokenizer.count = lambda text: 1
    try:
        with pytest.warns(UserWarning, match="The server counts 5 tokens") as caught:
            in_order(model, asked(3))
        assert len(caught) == 1
    finally:
        del model.tokenizer.count
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_order(load(server), asked(3))


def test_stop_strings_are_sent_and_cut_once_more(serve):
    """A server that looks at none of them makes no difference."""
    server = serve()
    model = load(server, concurrency=1)
    plain, quoted, never = in_order(model, [
        Request("x", True, 16), Request("x", True, 16, stop=('"', "9")),
        Request("x", True, 16, stop=("never",)),
    ])  # fmt: skip
    assert [body.get("stop") for body in server.bodies] == [None, ['"', "9"], ["never"]]
    assert quoted.text == " æøå "
    assert quoted.finished
    assert quoted.tokens == model.tokenizer.count(' æøå "')
    assert (never.text, never.tokens) == (plain.text, plain.tokens) == (said("x"), 3)


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
@pytest.mark.parametrize("apart", [{}, {"reasoning_content": "7. 8"}])
def test_stop_strings_end_no_thinking(serve, endpoint, apart):
    """The server is not told of them, and the answer is cut here."""
    if apart and endpoint == "completions":
        pytest.skip("has no place for it")
    server = serve()
    text = "8. 9." if apart else "<think>7. 8.</think>8. 9."
    choice = {"finish_reason": "stop", "text": text, "message": {"content": text, **apart}}
    usage = {"completion_tokens": 99, "prompt_tokens": 1}
    server.answer = lambda *_: {"choices": [choice], "usage": usage}
    for prompt in ("x", "x<think>"):
        if prompt == "x<think>":
            choice["text"] = choice["message"]["content"] = text.removeprefix("<think>")
        request = Request(prompt, False, 16, tags=("<think>", "</think>"), stop=(".",))
        (generation,) = in_order(load(server, endpoint=endpoint), [request])
        shown = choice["text"]
        assert generation.text == shown[: shown.rindex("8.") + 1]
        assert generation.thinking == apart.get("reasoning_content", "")
        assert generation.finished
        assert generation.tokens < 99
    assert [body.get("stop") for body in server.bodies] == [None, None]


DRAWN = Decoding(temperature=0.7, top_p=0.9, seed=3)


@pytest.mark.parametrize(
    ("body", "decoding", "sent", "recorded"),
    [
        ({}, Decoding(), {"temperature": 0}, "greedy"),
        ({"top_k": 1}, Decoding(), {"temperature": 0}, "greedy"),
        ({"seed": 5}, Decoding(), {"temperature": 0, "seed": 5}, "greedy"),
        ({}, DRAWN, {"temperature": 0.7, "top_p": 0.9, "seed": 3},
         {"temperature": 0.7, "top_p": 0.9, "seed": 3}),
        ({}, Decoding(temperature=0.7), {"temperature": 0.7, "top_p": 1.0},
         {"temperature": 0.7, "top_p": 1.0, "seed": None}),
        ({"temperature": None}, Decoding(), {},
         {"temperature": "the server's", "top_p": "the server's", "seed": "the server's"}),
        ({"temperature": 0.5}, Decoding(), {"temperature": 0.5},
         {"temperature": 0.5, "top_p": "the server's", "seed": "the server's"}),
        ({"seed": 8}, DRAWN, {"temperature": 0.7, "top_p": 0.9, "seed": 8},
         {"temperature": 0.7, "top_p": 0.9, "seed": 8}),
        ({"temperature": None, "seed": None}, DRAWN, {"top_p": 0.9},
         {"temperature": "the server's", "top_p": 0.9, "seed": "the server's"}),
        ({"temperature": 0}, DRAWN, {"temperature": 0, "top_p": 0.9, "seed": 3}, "greedy"),
    ],
)  # fmt: skip
def test_what_is_recorded_is_what_is_sent(serve, body, decoding, sent, recorded):
    server = serve()
    model = load(server, body=body)
    in_order(model, [Request("x", True, 16, decoding=decoding)])
    names = ("temperature", "top_p", "seed")
    assert {name: server.bodies[0][name] for name in names if name in server.bodies[0]} == sent
    assert json.loads(json.dumps(model.decoding(decoding))) == recorded


def test_the_limit_is_the_servers(serve):
    server = serve(models={"parrot": {"max_model_len": 4096}, "other": {"max_model_len": 8}})
    assert load(server).limit == 4096
    assert load(server, max_model_len=100).limit == 100
    assert load(serve(models={"parrot": {}})).limit is None
    assert load(serve()).limit is None
    with pytest.raises(ParameterError, match=r"model is 'parrot'.*did you mean 'parrots'"):
        _ = load(serve(models={"parrots": {"max_model_len": 8}})).limit
    # Hosted servers list less than they have.
    assert load(serve(models={"another": {}})).limit is None


def test_a_prompt_too_long_is_refused_or_cut(serve):
    server = serve()
    model = load(server, max_model_len=40)
    text = "Først. " + "græs " * 60 + "Til sidst?"
    with pytest.raises(ParameterError, match=r"length is \d+, but must be at most 40"):
        in_order(model, [Request(text, True, 10)])
    (made,) = in_order(model, [Request(text, True, 10, truncate=True)])
    sent = server.bodies[0]["prompt"]
    assert made.kept == made.prompt_tokens == model.tokenizer.count(sent) == 30
    assert sent.startswith("Først.")
    assert sent.endswith("Til sidst?")
    user = {"role": "user", "content": text}
    request = Request(f"<{text}>", False, 10, messages=(user,), truncate=True)
    (made,) = in_order(load(server, endpoint="chat", max_model_len=40), [request])
    assert made.kept == 30
    (message,) = server.bodies[1]["messages"]
    assert model.tokenizer.count(message["content"]) <= 30
    assert user["content"] == text, "the request itself stays as it is"


def test_the_key_is_sent_and_never_shown(serve, tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(0)
    server = serve(faulty(0.2), key=KEY, hang=2.0)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
    model = models.load("parrot", "openai", tokenizer="words", timeout=1.0, retries=30)
    dataset = write_dataset(tmp_path / "data", some_samples(COUNT))
    predict(dataset, model, tmp_path / "pred" / "x.jsonl")
    shown = [repr(model), repr(vars(model)), str(model.settings)]
    files = [path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file()]
    captured = capsys.readouterr()
    for text in [*shown, *files, captured.out, captured.err, caplog.text]:
        assert KEY not in text
    for text in [*files, *shown[:1], shown[2]]:
        assert "127.0.0.1" not in text


@pytest.mark.parametrize(
    "url",
    [None, "", "localhost:8000/v1", "ftp://x/v1", f"http://me:{KEY}@x/v1", f"http://x/v1?k={KEY}",
     "http://", "http://[", 5],
)  # fmt: skip
def test_an_address_that_is_none(url):
    with pytest.raises(ParameterError, match=r"base_url is .*OPENAI_BASE_URL") as error:
        models.load("parrot", "openai", base_url=url, tokenizer="words")
    one_sentence(error)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"endpoint": "chats"}, "endpoint"),
        ({"concurrency": 0}, "concurrency"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"max_model_len": "4096"}, "max_model_len"),
        ({"body": "x"}, "body"),
        ({"body": {7: 1}}, "body"),
        ({"body": {"x": math.nan}}, "body"),
        ({"body": {"x": {1}}}, "body"),
        ({"body": {"stream": True}}, "body"),
        ({"max_tokens_field": 5}, "max_tokens_field"),
        ({"timeout": math.inf}, "timeout"),
        ({"tokenizer": "./nothing"}, "tokenizer"),
        ({"tokenizer": None}, "tokenizer"),
        ({"concurency": 3}, "engine option"),
        ({"trust_remote_code": 1}, "trust_remote_code"),
    ],
)
def test_bad_options_are_named(options, named):
    with pytest.raises(ParameterError) as error:
        models.load("gpt", "openai", **{"base_url": "http://x/v1", "tokenizer": "words", **options})
    assert error.value.parameter == named
    one_sentence(error)


def changed(**fields):
    """An answer with other fields than were due."""
    return lambda handler, due: handler.send(200, {**due, **fields})


def counting(**counts):
    """An answer whose tokens are counted in another way."""
    return lambda handler, due: handler.send(200, {**due, "usage": {**due["usage"], **counts}})


def chosen(**fields):
    """An answer whose choice has other fields."""
    return lambda handler, due: handler.send(
        200, {**due, "choices": [{**due["choices"][0], **fields}]}
    )


def body(content, status=200, **options):
    """These bytes instead of an answer."""
    return lambda handler, _: handler.raw(status, content, **options)


def endless(start, piece, count, status=b"200 OK"):
    """A body in chunks that begins in one way, goes on in another, and is never ended."""

    def send(handler, _):
        handler.wfile.write(b"HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n\r\n" % status)
        with contextlib.suppress(OSError):
            for each in (start, *[piece] * count):
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(each), each))
        handler.close_connection = True

    return send


def complaining(message, status=400):
    return body(json.dumps({"error": {"message": message}}).encode(), status)


DEEP = b'{"a": ' * 30_000 + b"1" + b"}" * 30_000
BOMB = gzip.compress(b"[" + b"0," * 2_000_000 + b"0]")
NO_COUNTS = ["3", 1.5, 10**30, -1, True, math.nan, [3]]

# What is sent; None where the run is finished, else what the sentence says.
MALFORMED = {
    **{f"counts {value!r}": (counting(
        completion_tokens=value, prompt_tokens=value, prompt_tokens_details={"cached_tokens": value}
    ), None) for value in NO_COUNTS},
    "usage is a list": (changed(usage=[1, 2]), None),
    "more cached than read": (counting(prompt_tokens_details={"cached_tokens": 10**6}), None),
    "half a surrogate": (chosen(text="x\ud83d", finish_reason=["stop"], logprobs="x"), None),
    "NUL and escapes": (chosen(text="\x00\x1b[2J\u202e"), None),
    "choices are texts": (changed(choices=["x"]), "without a first choice"),
    "no choices": (changed(choices=None), "without a first choice"),
    "text is a number": (chosen(text=7), "content of type 'int'"),
    "deep": (body(DEEP), "not JSON"),
    "a list": (body(b"[1]"), "a JSON list, not an object"),
    "a page": (body(b"<html>Log in</html>", kind="text/html"), "not JSON"),
    "endless": (endless(b'{"choices": [', b"0," * 30_000, 40), "more than 1,048,576 bytes"),
    "stops": (endless(b'{"choices": [', b"", 0), "a broken connection"),
    "gzip": (body(BOMB, headers={"Content-Encoding": "gzip"}), "more than 1,048,576 bytes"),
    "not HTTP": (lambda handler, _: handler.wfile.write(b"SSH-2.0-OpenSSH\r\n\r\n"),
                 "a broken connection"),
    "redirected": (body(b"", 307, headers={"Location": "file:///etc/passwd"}), "status 307"),
    "error in 200": (body(b'{"error": "out of memory"}'), "status 500 (out of memory)"),
    "code of an error": (body(b'{"error": {"code": [1], "message": {"a": "\\ud800"}}}'),
                         "status 500"),
    "error says nothing": (body(b'{"error": " "}', 400), "status 400"),
    "details of an error": (body(b'{"detail": [{"loc": ["x"]}]}', 422), "{'loc': ['x']}"),
    "escapes in an error": (complaining("\x1b[2Jgone\r\n\x07\u202e"), r"␛[2Jgone ␇\u202e"),
    "a long error": (complaining("exceeds " * 100_000), "exceeds exceeds"),
    "a retry in the far future": (
        body(b"", 429, headers={"Retry-After": "1e300"}), "asks for a pause"),
}  # fmt: skip


@pytest.fixture(scope="module")
def asked_well(tmp_path_factory):
    """Some questions, and the bytes of the answers of a good server."""
    folder = tmp_path_factory.mktemp("whole")
    dataset = write_dataset(folder / "data", some_samples(3))
    with pytest.MonkeyPatch.context() as patch, Server(lambda *_: None).running() as server:
        patch.setattr(*QUICK[2])
        return dataset, predict(dataset, load(server), folder / "whole.jsonl").read_bytes()


@pytest.mark.parametrize(("fault", "sentence"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_answer_is_one_sentence_or_an_answer(
    serve, asked_well, tmp_path, monkeypatch, fault, sentence
):
    """The first of three requests is answered well, so that something is there to be kept."""
    monkeypatch.setattr(openai_transport, "MOST_BYTES", 1 << 20)
    dataset, wanted = asked_well
    output = tmp_path / "out.jsonl"
    server = serve(lambda *_: fault if server.answered else None)
    model = load(server, retries=1, concurrency=1)
    if sentence is None:
        predict(dataset, model, output)
        assert len(read_predictions(output)) == 3
        for record in read_predictions(output):
            asked_words = model.tokenizer.count(record.input + " Svaret er:")
            assert record.others["prompt_tokens"] == asked_words
            assert 0 < record.others["tokens_generated"] < 20
    else:
        with pytest.raises((ServerError, ParameterError)) as error:
            predict(dataset, model, output)
        assert sentence in one_sentence(error)
        assert len(str(error.value)) < 500
        assert str(error.value).isprintable()
        assert len(read_predictions(output)) == 1
    predict(dataset, load(serve()), output)
    assert len(read_predictions(output)) == 3
    if sentence is not None:
        assert output.read_bytes() == wanted


def test_a_server_that_answers_drop_by_drop_is_not_waited_for(serve):
    """Each drop comes in time, the answer does not."""

    def drops(handler, _):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")
        with contextlib.suppress(OSError):
            for _ in range(99):
                handler.wfile.write(b" ")
                time.sleep(0.1)

    server = serve(lambda *_: drops)
    server.beside = {"v1/models": drops}
    begin = time.monotonic()
    model = load(server, timeout=0.5, retries=0)
    assert model.limit is None
    with pytest.raises(ServerError, match=r"no answer within 0\.5 seconds") as error:
        in_order(model, asked(1))
    one_sentence(error)
    assert time.monotonic() - begin < 5
