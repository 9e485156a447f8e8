"""What a server does where a request says nothing: found out over a real socket, or unknown."""

from __future__ import annotations

import contextlib
import json
import ssl

import pytest
from helpers_model import LILLE, some_samples, write_dataset
from helpers_server import Server
from helpers_store import unhashed

pytest.importorskip("httpx2")

from rulerlib import checkpoints, models
from rulerlib.errors import RunMismatchError
from rulerlib.predict import predict
from rulerlib.store.answers import read_predictions

PROPS = {"default_generation_settings": {
    "n_ctx": 512, "params": {"temperature": 0.8, "top_k": 40, "repeat_penalty": 1.1, "seed": -1,
                             "samplers": ["top_k"]},
}}  # fmt: skip

OLD_PROPS = {"default_generation_settings": {"n_ctx": 512, "temperature": 0.8, "min_p": 0.05}}


@pytest.fixture
def serve(monkeypatch):
    """Start a server that lists some models; it ends with the test."""
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_: None)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def started(row=None, **beside):
        listed = None if row is None else {"parrot": row, "other": {"owned_by": "llamacpp"}}
        server = stack.enter_context(Server(lambda *_: None, models=listed).running())
        server.beside = beside
        return server

    with contextlib.ExitStack() as stack:
        yield started


def load(server, **options):
    return models.load("parrot", "openai", base_url=server.url, tokenizer="words", **options)


@pytest.fixture
def own(tmp_path):
    """A folder of a model whose makers would not have it decoded greedily."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    wanted = {"temperature": 0.6, "top_k": 20, "repetition_penalty": 1.05, "eos_token_id": [1, 2]}
    (folder / "generation_config.json").write_text(json.dumps(wanted))
    return folder


WANTED = {"source": "generation_config.json", "temperature": 0.6, "top_k": 20,
          "repetition_penalty": 1.05}  # fmt: skip

KINDS = {
    "llama.cpp": ({"owned_by": "llamacpp"}, {"props": PROPS},
                  {"source": "/props", "temperature": 0.8, "top_k": 40, "repeat_penalty": 1.1}),
    "an older one": ({"owned_by": "llamacpp"}, {"props": OLD_PROPS},
                     {"source": "/props", "temperature": 0.8, "min_p": 0.05}),
    "vLLM": ({"owned_by": "vllm", "root": "OWN"}, {}, WANTED),
    "vLLM elsewhere": ({"owned_by": "vllm", "root": "owner/name"}, {}, "unknown"),
    "SGLang": ({"owned_by": "sglang", "root": "OWN"}, {}, "unknown"),
    "hosted": ({"owned_by": "somebody"}, {"props": PROPS}, "unknown"),
    "unnamed": ({}, {"props": PROPS}, "unknown"),
    "no list": (None, {"props": PROPS}, "unknown"),
    "nonsense": ({"owned_by": "llamacpp"}, {"props": ["?", {}]}, "unknown"),
    "more nonsense": ({"owned_by": "llamacpp"}, {"props": {
        "default_generation_settings": {"params": {"temperature": "hot", "top_k": [1]}},
    }}, "unknown"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_each_server_tells(kind, serve, own):
    row, beside, expected = KINDS[kind]
    row, beside = (json.loads(json.dumps(each).replace("OWN", str(own))) for each in (row, beside))
    assert load(serve(row, **beside)).defaults == expected


def test_models_on_this_machine_are_known_by_their_file(own):
    assert checkpoints.decoding_defaults(str(own)) == {
        name: value for name, value in WANTED.items() if name != "source"
    }
    about = json.loads((LILLE / "generation_config.json").read_text())
    assert checkpoints.decoding_defaults("lille") == {"do_sample": about["do_sample"]}
    (own / "generation_config.json").unlink()
    assert checkpoints.decoding_defaults(str(own)) == {}


def test_a_server_with_other_defaults_is_another_run_and_a_silent_one_is_not(serve, tmp_path):
    questions = write_dataset(tmp_path / "data" / "vt", some_samples(3))
    output = tmp_path / "pred" / "vt.jsonl"
    params = {"temperature": 0.8, "top_k": 40}
    first = {"default_generation_settings": {"params": params}}
    predict(questions, load(serve({"owned_by": "llamacpp"}, props=first)), output)
    whole = output.read_bytes()
    assert all(one.others["decoding"] == "greedy" for one in read_predictions(output))
    output.write_bytes(whole.splitlines(keepends=True)[0])
    other = {"default_generation_settings": {"params": {**params, "top_k": 10}}}
    with pytest.raises(RunMismatchError, match=r"defaults\.top_k = 40, and now"):
        predict(questions, load(serve({"owned_by": "llamacpp"}, props=other)), output)
    predict(questions, load(serve()), output)
    assert output.read_bytes() == whole
    # A run of before anybody asked goes on as well.
    wanted = [record.pred for record in read_predictions(output)]
    unhashed(output, lambda settings: settings.pop("defaults"))
    old = output.read_bytes().splitlines(keepends=True)[0]
    output.write_bytes(old)
    predict(questions, load(serve({"owned_by": "llamacpp"}, props=other)), output)
    assert [record.pred for record in read_predictions(output)] == wanted
    assert output.read_bytes().startswith(old)
