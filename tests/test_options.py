"""Keys among the options of an engine: found wherever they stand, and repeated nowhere."""

from __future__ import annotations

import json

import pytest
from helpers_fuzz import within

from rulerlib import models
from rulerlib.errors import ParameterError
from rulerlib.fields import notebook_parameters
from rulerlib.memory import bench
from rulerlib.memory.report import MemoryReport
from rulerlib.models.options import checked
from rulerlib.parameters import Parameters
from rulerlib.playground import Playground
from rulerlib.sweep.models import PlannedModel

KEY = "sk-n0body-may-see-this-key"

HOLES = [
    {"api_key": KEY}, {"apiKey": KEY}, {"API-KEY": "s3"}, {"openai_api_key": 7}, {"hf_token": "s3"},
    {"password": "s3"}, {"auth": ["me", "s3"]}, {"client_secret": "s3"}, {"x-vendor-token": "s3"},
    {"body": {"api_key": KEY}}, {"body": {"a": [{"b": {"authorization": "s3"}}]}},
    {"body": {"extra_headers": {"Authorization": f"Bearer {KEY}"}}},
    {"headers": [["Authorization", "s3"]]}, {"headers": [{"name": "X-Api-Key", "value": "s3"}]},
    {"headers": ["Authorization: Basic bWU6czM="]}, {"more": f"Bearer {KEY}"}, {"body": {"x": KEY}},
    {"base_url": "https://me:s3@host/v1"}, {"base_url": "https://host/v1?api_key=s3"},
    {"body": '{"api_key": "s3"}'}, {KEY: 1}, {"body": {"user": {KEY: 1}}},
    {"token": "hf_abcdefghijklm1nopqrstuv"}, {"args": "--api-key s3"}, {"x": ("y", [KEY])},
]  # fmt: skip

FINE = [
    {}, {"dtype": "float32", "batch_size": 1}, {"max_model_len": 8192, "tokenizer": "owner/name"},
    {"body": {"temperature": None, "stop_token_ids": [1], "prompt_cache_key": "a"}},
    {"body": {"max_tokens": 5, "skip_special_tokens": False, "logit_bias": {"50256": -100}}},
    {"eos_token": "</s>", "hf_token": True, "seconds_per_token": 0.1, "api_key": None},
    {"base_url": "http://localhost:8000/v1", "endpoint": "chat", "concurrency": 9},
    {"chat_template_kwargs": {"enable_thinking": True, "author": "Ask-me-not, a risk-free test"}},
    {"speculative_config": {"num_speculative_tokens": 3, "model": "owner/basic-model-12345678"}},
    {"stop": ["a", "b"], "key": "value", "keys": 8, "max_tokens_field": "max_completion_tokens"},
]  # fmt: skip


@pytest.mark.parametrize("options", HOLES, ids=lambda options: str(options)[:50])
def test_a_key_is_refused_wherever_options_are_written_down(options):
    """By runs, memories, plans and the playground alike; the sentence repeats no value."""
    makers = {
        "run": lambda: Parameters(tasks="vt", engine_options=options),
        "memory": lambda: MemoryReport(suites="spatial", presets="rag", engine_options=options),
        "plan": lambda: PlannedModel.from_settings(
            "one", {"model": "lille", "engine_options": options}
        ),
        "page": lambda: Playground(engine_options=options),
    }
    for name, make in makers.items():
        with pytest.raises(ParameterError, match="set OPENAI_API_KEY") as error:
            make()
        assert KEY not in str(error.value), name
        assert "s3" not in str(error.value), name
        assert "engine_options is ['" in str(error.value), name


@pytest.mark.parametrize("options", FINE, ids=lambda options: str(options)[:50])
def test_other_options_are_no_keys(options):
    assert checked("engine_options", options) == options


@pytest.mark.parametrize(
    "text", [json.dumps({"api_key": KEY}), f"api_key: {KEY}", f'{{"body": {{"api_key": "{KEY}"',
             f"{{api_key: {KEY}", f"[[Authorization, Bearer {KEY}", KEY]
)  # fmt: skip
def test_a_key_in_a_text_of_papermill_is_not_repeated_even_where_nobody_can_read_it(text):
    values = notebook_parameters({"engine_options": text}, ["engine_options"])
    with pytest.raises(ParameterError, match="engine_options is") as error:
        Parameters(tasks="vt", **values)
    assert KEY not in str(error.value)


def test_a_command_line_and_a_server_of_a_plan_hold_no_key(capsys, tmp_path):
    words = ["--sizes", "2", "--seeds", "7", "--root", str(tmp_path / "runs")]
    assert bench.main([*words, "--engine-option", f"body={{headers: {{X-Api-Key: {KEY}}}}}"]) == 2
    told = capsys.readouterr().err
    assert "without 'body.headers.X-Api-Key'" in told
    assert KEY not in told
    assert not (tmp_path / "runs").exists()
    served = {"model": "m", "engine": "openai", "engine_options": {"max_model_len": 512}}
    for command in (f"serve --port {{port}} --api-key {KEY}", f"API_KEY={KEY} serve {{port}}"):
        with pytest.raises(ParameterError, match=r"models\.one\.server.*'command'") as error:
            PlannedModel.from_settings("one", {**served, "server": {"command": command}})
        assert KEY not in str(error.value)
    kept = """sh -c 'serve --port {port} --api-key "$OPENAI_API_KEY"'"""
    planned = PlannedModel.from_settings("one", {**served, "server": {"command": kept}})
    assert planned.server.command == kept


def test_a_program_may_give_the_key_itself_and_no_other_place_holds_it():
    with pytest.raises(ParameterError, match=r"engine options is \['body'\].*'body.api_key'"):
        models.load("m", "openai", base_url="http://x/v1", api_key=KEY, body={"api_key": KEY})
    engine = models.load("m", "openai", base_url="http://x/v1", api_key=KEY, tokenizer="words")
    assert KEY not in repr(vars(engine)) + repr(engine.settings)


def test_options_that_hold_themselves_or_go_deep_end():
    endless: dict = {"a": 1}
    endless["self"] = [endless]
    deep: list = []
    for _ in range(20_000):
        deep = [deep]
    with within(20):
        assert checked("engine_options", endless).keys() == {"a", "self"}
        assert checked("engine_options", {"deep": deep}).keys() == {"deep"}
