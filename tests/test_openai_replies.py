"""Replies of odd servers: truncated prompts, other models, filters, blocks and reasoning."""

from __future__ import annotations

import contextlib
import ssl
import time
import warnings

import pytest
from helpers_model import some_samples, write_dataset
from helpers_server import Server, with_window

pytest.importorskip("httpx2")

from rulerlib import models, tokens
from rulerlib.errors import ParameterError, ServerError
from rulerlib.models import Request, in_order
from rulerlib.models.openai import join_blocks, read_reply
from rulerlib.models.openai_transport import PassingFault
from rulerlib.predict import predict
from rulerlib.prompts import Decoding
from rulerlib.store.answers import read_predictions

ENDPOINTS = ["completions", "chat"]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    # No server here speaks TLS, and reading all certificates takes longer than most tests.
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_: None)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def serve():
    """Start a server with an ``answer``; it ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(answer):
            server = stack.enter_context(Server(lambda *_: None).running())
            server.answer = answer
            return server

        yield start


def load(server, endpoint="completions", **options):
    options = {"base_url": server.url, "tokenizer": "words", "concurrency": 1, **options}
    return models.load("parrot", "openai", endpoint=endpoint, **options)


def prompts(*counts):
    return [Request(" ".join(["græs"] * count), True, 16) for count in counts]


def replying(message=None, **fields):
    """Return an ``answer`` with this message, whose other fields are as requested."""
    choice = {"finish_reason": fields.pop("finish_reason", "stop")}

    def answer(prompt, chat):
        count = with_window(10**6)(prompt, chat)["usage"]["prompt_tokens"]
        usage = {"prompt_tokens": count, "completion_tokens": fields.get("written", 3)}
        whole = {"content": "8", **(message or {})}
        choice["message" if chat else "text"] = whole if chat else whole["content"]
        return {"choices": [choice], "usage": usage, "model": fields.get("model", "parrot")}

    return answer


TRUNCATED = {
    "far fewer": (2048, 1.0, 0, [8053], "read 2,048 of 8,053 prompt tokens;"),
    "a little": (4000, 1.0, 0, [4100], "read 4,000 of 4,100 prompt tokens;"),
    "with a template": (4100, 1.0, 700, [4000], "read only 4,100 of the prompt's tokens"),
    "fewer tokens": (2048, 0.75, 9, [4000], "read 2,048 of 4,000"),
    "more tokens": (4096, 1.4, 0, [4000], "read only 4,096 of the prompt's tokens"),
    "small": (60, 1.0, 0, [100], "read 60 of 100"),
    "the second length": (2048, 1.0, 9, [1900, 3900], "read 2,048 of 3,900"),
    "the third length": (
        4096,
        1.2,
        9,
        [1900, 3000, 3900],
        "read only 4,096 of the prompt's tokens",
    ),
}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("case", TRUNCATED)
def test_a_truncated_prompt_stops_the_run(serve, endpoint, case):
    window, ratio, template, counts, message = TRUNCATED[case]
    if case == "with a template" and endpoint == "completions":
        pytest.skip("completions have no template")
    server = serve(with_window(window, ratio, template))
    came = []
    with warnings.catch_warnings(action="ignore"), pytest.raises(ServerError) as error:
        came.extend(at for at, _ in load(server, endpoint).generate(prompts(*counts, 9, 9)))
    assert message in str(error.value)
    assert str(error.value).endswith("raise its context window, e.g. num_ctx.")
    assert came == [*range(len(counts) - 1)], "the truncated prompt has no answer"


WHOLE = {
    "the same counts": (1.0, 0, 0),
    "a template": (1.0, 60, 1),
    "a long system prompt": (1.0, 700, 1),
    "fewer tokens": (0.6, 0, 3),
    "more tokens": (1.9, 30, 2),
}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("case", WHOLE)
def test_another_tokenizer_or_template_is_no_truncation(serve, endpoint, case):
    """At most one more request is sent for each length."""
    ratio, template, checks = WHOLE[case]
    server = serve(with_window(10**6, ratio, template))
    counts = [900, 910, 4000, 4010, 3990, 8000, 8100]
    with warnings.catch_warnings(action="ignore"):
        made = in_order(load(server, endpoint), prompts(*counts))
    assert len(made) == len(counts)
    assert len(server.bodies) - len(counts) <= checks


def test_tasks_whose_tokens_differ_take_turns(serve):
    """A task that takes more tokens of the server's is checked once, not at every answer."""
    few, many = with_window(10**6, 0.6), with_window(10**6, 0.9)
    server = serve(lambda prompt, chat: (many if prompt[0] == "x" else few)(prompt, chat))
    requests = [
        Request(f"{letter} " + "græs " * count, True, 16)
        for count in (4000, 3990, 3995)
        for letter in "ax"
    ]
    with warnings.catch_warnings(action="ignore"):
        assert len(in_order(load(server), requests)) == 6
    assert len(server.bodies) == 6 + 2


@pytest.mark.parametrize(
    ("options", "read", "stops"),
    [
        ({}, 1999, True),
        ({}, 2000, False),
        ({}, 2001, False),
        ({"tokenizer": "words"}, 1999, False),
        ({"endpoint": "chat"}, 1999, False),
    ],
)
def test_one_missing_token_counts_where_the_tokenizer_is_the_models_own(
    serve, monkeypatch, options, read, stops
):
    monkeypatch.setattr(tokens, "load", lambda *_: tokens.Words())
    server = serve(with_window(read, template=1))
    if read > 2000:
        server.answer = with_window(read, ratio=2001 / 2000)
    options = {"base_url": server.url, **options}
    model = models.load("words", "openai", **options)
    with warnings.catch_warnings(action="ignore"):
        if stops:
            with pytest.raises(ServerError, match=r"1,999 of 2,000"):
                in_order(model, prompts(2000))
        else:
            assert len(in_order(model, prompts(2000))) == 1


def test_truncated_answers_are_not_stored(serve, tmp_path):
    dataset = write_dataset(tmp_path / "data", some_samples(5))
    server = serve(with_window(5))
    output = tmp_path / "out.jsonl"
    with pytest.raises(ServerError, match="num_ctx"):
        predict(dataset, load(server, concurrency=4), output)
    assert not output.exists() or read_predictions(output) == []
    server.answer = with_window(1000)
    predict(dataset, load(server), output)
    assert len(read_predictions(output)) == 5


def test_a_server_without_counts_is_warned_of_once(serve):
    server = serve(lambda *_: {"choices": [{"text": "8", "finish_reason": "stop"}]})
    with pytest.warns(UserWarning, match="does not report prompt_tokens") as caught:
        in_order(load(server), prompts(5, 6))
    assert len(caught) == 1


def test_a_prompt_cut_here_is_no_truncation_of_the_server(serve):
    server = serve(with_window(3000))
    request = Request(" ".join(["græs"] * 5000), True, 16, truncate=True)
    (made,) = in_order(load(server, max_model_len=3016), [request])
    assert (made.kept, made.prompt_tokens) == (3000, 3000)


@pytest.mark.parametrize(
    ("reason", "written", "finished"),
    [
        ("stop", 16, True),
        ("eos_token", 3, True),
        ("end_turn", 3, True),
        ("length", 3, False),
        ("max_tokens", 3, False),
        ("MAX_TOKENS", 3, False),
        ("model_length", 3, False),
        ("model_context_window_exceeded", 3, False),
        (None, 3, True),
        (None, 16, False),
    ],
)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_finish_reasons_that_mean_a_limit(serve, endpoint, reason, written, finished):
    server = serve(replying(finish_reason=reason, written=written))
    (made,) = in_order(load(server, endpoint), prompts(5))
    assert made.finished == finished
    assert made.flags == ()


FLAGGED = [
    ({"finish_reason": "content_filter"}, "8", ["content_filter"]),
    ({"finish_reason": "SAFETY"}, "8", ["content_filter"]),
    ({"message": {"content": None, "refusal": "I cannot."}}, "I cannot.", ["refusal"]),
    ({"finish_reason": "refusal"}, "8", ["refusal"]),
    ({"message": {"content": None, "tool_calls": [{"id": "1"}]}}, "", ["tool_calls"]),
    ({"message": {"content": None}, "finish_reason": "tool_calls"}, "", ["tool_calls"]),
    ({"written": 17}, "8", ["too_many_tokens"]),
    ({"written": 16}, "8", []),
    ({"model": "another"}, "8", ["model=another"]),
    ({"model": "parrot-mini"}, "8", ["model=parrot-mini"]),
    ({"model": "parrot-2024-08-06"}, "8", []),
    ({"model": "parrot:latest"}, "8", []),
    ({"model": "/models/parrot"}, "8", []),
    ({"model": None}, "8", []),
    ({"message": {"content": "<reflection>7?</reflection>8"}},
     "<reflection>7?</reflection>8", ["thinking_tag"]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "pred", "flags"), FLAGGED)
def test_irregular_answers_are_flagged_and_warned_of(serve, tmp_path, fields, pred, flags):
    dataset = write_dataset(tmp_path / "data", some_samples(3))
    model, output = load(serve(replying(**fields)), "chat"), tmp_path / "out.jsonl"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        predict(dataset, model, output, decoding=Decoding(tokens_to_generate=16))
    records = read_predictions(output)
    assert [record.pred for record in records] == [pred] * 3
    assert [record.others.get("flags", []) for record in records] == [flags] * 3
    assert len(caught) == len(flags)
    assert all(f"(flag '{flag}')." in str(caught[0].message) for flag in flags)


def test_every_flag_has_a_meaning():
    named = {flag.partition("=")[0] for _, _, flags in FLAGGED for flag in flags}
    assert named | {"no_answer"} == {*models.FLAGS}


THOUGHT = "<think>7?</think> 8?</think>\n9"
CONTENTS = [
    ("9", "9", ""),
    (THOUGHT, "9", "7? 8?"),
    ([{"type": "text", "text": "9"}], "9", ""),
    ([{"type": "text", "text": "9"}, {"type": "text", "text": "0"}], "90", ""),
    ([{"type": "thinking", "thinking": [{"type": "text", "text": "7?"}]},
      {"type": "text", "text": "9"}], "9", "7?"),
    ([{"type": "thinking", "thinking": "7?"}, {"type": "redacted_thinking"},
      {"type": "output_text", "text": "9"}], "9", "7?"),
    ([], "", ""),
    ("[THINK]7?[/THINK]9", "9", "7?"),
    ("<think>7?", "", "7?"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "text", "thinking"), CONTENTS)
def test_a_chat_reply_is_text_without_thinking(serve, content, text, thinking):
    """Even if the tokenizer that counts has no chat template."""
    server = serve(replying({"content": content}))
    (made,) = in_order(load(server, "chat"), prompts(5))
    assert (made.text, made.thinking) == (text, thinking)


def test_stop_strings_count_after_the_last_end_tag(serve):
    server = serve(replying({"content": "<think>7.</think> 8. No.</think>\n9. 0."}))
    for request in (
        Request("x", True, 16, stop=(".",)),
        Request("x", True, 16, stop=(".",), tags=("<think>", "</think>")),
    ):
        (made,) = in_order(load(server, "chat"), [request])
        assert made.text.endswith("9")
        assert made.finished


WRONG = [7, {"text": "8"}, [{"type": "image_url"}], [7], [{"type": "text", "text": None}]]


@pytest.mark.parametrize("content", WRONG)
def test_content_that_is_no_text_is_not_requested_again(serve, content):
    server = serve(replying({"content": content}))
    begin = time.monotonic()
    with pytest.raises(ServerError, match=r"content of type '(int|dict|image_url|text)'"):
        in_order(load(server, "chat"), prompts(5))
    assert len(server.bodies) == 1
    assert time.monotonic() - begin < 5


def test_a_reply_without_text_is_requested_again():
    for first in ({"text": None}, {"message": None}, {"message": {}}, {}):
        with pytest.raises(PassingFault):
            read_reply({"choices": [first]})


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("content", [None, "", "\n"])
def test_a_whole_answer_in_the_reasoning_stops_the_run(serve, field, content):
    server = serve(replying({"content": content, field: "8"}))
    with pytest.raises(ServerError, match="put the whole answer into its reasoning") as error:
        in_order(load(server, "chat"), prompts(5))
    assert "\n" not in str(error.value)
    assert len(server.bodies) == 1
    server.answer = replying({"content": content, field: "8"}, finish_reason="length")
    (made,) = in_order(load(server, "chat"), prompts(5))
    assert (made.text.strip(), made.thinking, made.finished) == ("", "8", False)


def test_a_model_that_thinks_and_says_nothing_once_does_not_stop_the_run(serve):
    server = serve(None)
    silent = replying({"content": None, "reasoning_content": "7?"})
    server.answer = lambda *about: (replying() if len(server.bodies) == 1 else silent)(*about)
    made = in_order(load(server, "chat"), prompts(5, 6))
    assert [one.flags for one in made] == [(), ("no_answer",)]


def test_the_missing_tokenizer_is_said_to_be_an_option():
    with pytest.raises(ParameterError, match=r"engine option.*tokenizer: owner/name.*'gpt-7'"):
        models.load("gpt-7", "openai", base_url="http://x/v1")


def test_blocks_are_joined():
    assert join_blocks("8") == ("8", "")
    assert join_blocks(["7", {"type": "text", "text": "8"}]) == ("78", "")
