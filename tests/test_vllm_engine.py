"""The vllm engine on vLLM's CPU build, and vLLM's own server behind the openai engine.

``make test-vllm`` installs vLLM in an environment of its own and runs these tests.
With float32 and greedy decoding, the bundled model gives the same answers through all engines.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

pytest.importorskip("vllm")
pytest.importorskip("torch")

# One gigabyte for keys and values; no compiler is started for models as small as these.
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

from helpers_model import LILLE

from rulerlib import models
from rulerlib.dataset import Dataset
from rulerlib.models import Request, in_order

EAGER = {"enforce_eager": True, "max_num_seqs": 16}
CELLS = [
    ("niah_single_2", 1024, "da"), ("niah_multikey_2", 1024, "en"), ("niah_multivalue", 768, "en"),
    ("vt", 1024, "da"), ("qa_1", 1024, "da"), ("niah_single_3", 2048, "da"),
]  # fmt: skip
EACH = 6


def asked(task, length, language, count=EACH):
    data = Dataset(task, length, language=language, tokenizer="lille", num_samples=count)
    return [
        Request(
            data.frame.prompt(sample.input, sample.answer_prefix),
            special=not data.frame.chat,
            max_new_tokens=min(32, data.tokens_to_generate),
        )
        for sample in data
    ]


@pytest.fixture(scope="module")
def requests():
    return [request for cell in CELLS for request in asked(*cell)]


@pytest.fixture(scope="module")
def engine():
    return models.load("lille", "vllm", dtype="float32", max_model_len=2048, **EAGER)


@pytest.fixture(scope="module")
def wanted(requests):
    """The answers of transformers, one prompt at a time."""
    model = models.load("lille", "transformers", dtype="float32")
    return [in_order(model, [request])[0] for request in requests]


@pytest.fixture(scope="module")
def served():
    """The model on vLLM's own server on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(LILLE),
         "--served-model-name", "lille", "--dtype", "float32", "--max-model-len", "2048",
         "--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--max-num-seqs", "16",
         "--enable-prompt-tokens-details"],
        start_new_session=True,
    )  # fmt: skip
    try:
        for _ in range(900):
            assert process.poll() is None, "the server ended before it began"
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            time.sleep(0.5)
        yield models.load("lille", "openai", base_url=f"http://127.0.0.1:{port}/v1")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("way", ["vllm", "openai"])
def test_answers_equal_those_of_transformers(way, request, requests, wanted):
    """The engine's, and those of vLLM's own server."""
    model = request.getfixturevalue("engine" if way == "vllm" else "served")
    assert model.limit == 2048
    for mine, other in zip(in_order(model, requests), wanted, strict=True):
        assert (mine.text, mine.finished) == (other.text, other.finished)
        assert mine.prompt_tokens == other.prompt_tokens
        assert way == "openai" or mine.tokens == other.tokens
